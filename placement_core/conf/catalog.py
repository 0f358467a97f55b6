"""Options of ``[catalog]``: the source of regions, services and projects."""

from oslo_config import cfg

GROUP = cfg.OptGroup("catalog", title="The catalog of regions, services and projects")

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "driver",
        default="local",
        help="Who knows which regions, services, endpoints, domains and projects exist: local "
        "(this service's own database, filled by placement-core catalog or the routes below "
        "/v3), keystone, or the name of an installed driver. Use keystone wherever there is "
        "one.",
    ),
]
