"""Options of ``[workers]``: what the processes that serve tell of themselves."""

from oslo_config import cfg

GROUP = cfg.OptGroup("workers", title="What the processes that serve tell of themselves")

OPTIONS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "report",
        help="Whether each process that serves writes every ten seconds to the database how it "
        "does, and every two seconds which requests it refused, if it refused some: for the "
        "dashboard, ``GET /capacity/v1/workers`` and ``GET /capacity/v1/refusals``. Left out: as "
        "[dashboard] enabled says. Set it where some hosts serve the dashboard, and others do "
        "not: it shows the workers that report.",
    ),
]
