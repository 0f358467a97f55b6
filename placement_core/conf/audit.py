"""Options of ``[audit]``: who changed what."""

from oslo_config import cfg

GROUP = cfg.OptGroup("audit", title="Who changed what")

OPTIONS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Whether it is recorded who changed what: user, project, request id and operation of "
        "every write, with each object that it changed, in the transaction of the write. Set it "
        "for all processes of the service. GET /capacity/v1/audit and placement-core audit list "
        "show it.",
    ),
    cfg.IntOpt(
        "keep_days",
        min=1,
        max=36_500,
        default=90,
        help="For how many days that is kept; managers remove what is older. A claim has a row of "
        "some 300 bytes for the consumer, and one for each provider.",
    ),
]
