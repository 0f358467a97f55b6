"""Options of ``[api_database]`` and ``[cells]``: nova's databases, and how long they may take."""

from oslo_config import cfg

API_GROUP = cfg.OptGroup("api_database", title="The database of cell and instance mappings")

API_OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "connection",
        default="",
        secret=True,
        help="The database that has nova's tables cell_mappings and instance_mappings, as an "
        "SQLAlchemy URL: nova's API database. Empty is the service's own database, which has "
        "these tables too.",
    ),
]

GROUP = cfg.OptGroup("cells", title="Cells, each with a database of its own")

OPTIONS: list[cfg.Opt] = [
    cfg.IntOpt(
        "timeout_seconds",
        default=60,
        min=1,
        help="How long cells are waited for, all together, when they are asked. A cell that "
        "has not answered by then is named as missing in the answer. Lower it where a "
        "caller's patience is shorter.",
    ),
]
