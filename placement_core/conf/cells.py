"""Options of ``[api_database]`` and ``[cells]``: nova's databases and their timeouts."""

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
    cfg.ListOpt(
        "database_hosts",
        default=[],
        help="The hosts that databases of cells may be on, as names, addresses or patterns "
        "such as 10.0.*; a path is a socket in the file system, and / the one that a driver "
        "takes where the URL has no host (PostgreSQL, mysqlclient) or localhost (mysqlclient). "
        "A pattern of digits, dots and * that begins with a digit means addresses alone. Empty "
        "allows every host and no socket. Whoever may write cell mappings can make this "
        "service connect to what is allowed here, so name the hosts where cells are not written "
        "by the operator alone. The hosts of the service's own databases are not concerned. A "
        "template that asks for {username} or {password} may only name a host that is listed "
        "here, or, where the list is empty, the hosts of template_connection.",
    ),
    cfg.ListOpt(
        "directories",
        default=[],
        help="The folders of this machine that URLs of cells may name files in: SQLite "
        "databases, and certificates (ssl_ca, sslrootcert and the like). Empty allows no "
        "files. A cell whose database is the service's own is not concerned.",
    ),
    cfg.StrOpt(
        "template_connection",
        default="",
        secret=True,
        help="What fills templates in nova's cell mappings, such as "
        "{scheme}://{username}:{password}@{hostname}:{port}/nova_cell1?{query}: the "
        "connection of nova's [database]. Empty is [api_database] connection, or the "
        "service's own where that is empty, too.",
    ),
]
