"""Options of ``[thresholds]``: limits that fill up, and capacity that becomes short."""

from oslo_config import cfg, types

GROUP = cfg.OptGroup("thresholds", title="Limits that fill up, and capacity that becomes short")

OPTIONS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Whether managers compare usage with limits, and capacity with what is wanted, and "
        "report each crossing of a threshold: as a change of the kind ``threshold``, in the log, "
        "and to webhook.",
    ),
    cfg.IntOpt(
        "interval",
        min=1,
        max=86_400,
        default=60,
        help="How many seconds pass between two looks. Each counts the usage of all projects.",
    ),
    cfg.ListOpt(
        "percentages",
        item_type=types.Integer(min=1, max=10_000),
        default=[80, 95, 100],
        help="The percentages of a limit that are thresholds.",
    ),
    cfg.IntOpt(
        "hysteresis",
        min=0,
        max=100,
        default=2,
        help="By how many percentage points usage has to fall below a threshold that was reached "
        "before it counts as left, so that usage about a threshold is not reported again and "
        "again; of fewest_shapes, by how many percent more have to fit.",
    ),
    cfg.IntOpt(
        "fewest_shapes",
        min=0,
        max=1_000_000_000,
        default=0,
        help="Report when fewer than so many more of a usual request fit: each of "
        "[least_stranded] shape. 0: capacity is not looked at.",
    ),
    cfg.MultiStrOpt(
        "webhook",
        default=[],
        secret=True,
        help="The URL to which reports are sent (POST, JSON), with http or https; once for each "
        "receiver. "
        "Reports that are not taken are sent again for three days. Redirects are not followed.",
    ),
    cfg.StrOpt(
        "webhook_secret",
        secret=True,
        help="Signs the reports as Standard Webhooks do (HMAC-SHA256), so that receivers know "
        "where they come from. Any text, or ``whsec_`` and bytes in base64. Needed for "
        "webhook.",
    ),
]
