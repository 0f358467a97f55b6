"""Options of ``[workarounds]``."""

from oslo_config import cfg

GROUP = cfg.OptGroup("workarounds", title="Workarounds")

OPTIONS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "optimize_for_wide_provider_trees",
        default=False,
        help="Accepted because placement.conf files have it; nothing reads it, because "
        "searches always recognise devices that are interchangeable.",
    ),
]
