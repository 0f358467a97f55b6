"""Options of ``[least_stranded]``: the usual requests of the site."""

from oslo_config import cfg

GROUP = cfg.OptGroup("least_stranded", title="Usual requests")

OPTIONS: list[cfg.Opt] = [
    cfg.MultiStrOpt(
        "shape",
        default=[],
        help="The amounts of a usual request, such as ``VCPU:4,MEMORY_MB:8192``; once for each. "
        "``weight:3`` beside the amounts says that such a request comes three times as often as "
        "one without a weight. GET /capacity/v1/room/stranded says what none of them can use, "
        "and [placement] candidate_order = least_stranded keeps that low. Metrics have the first "
        "20.",
    ),
]
