"""Options of ``[placement_database]``: the database and its connections."""

from oslo_config import cfg

GROUP = cfg.OptGroup("placement_database", title="The database")

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "connection",
        required=True,
        secret=True,
        help="The database as an SQLAlchemy URL: sqlite:////var/lib/placement/placement.sqlite, "
        "postgresql://user:password@host/placement or mysql://user:password@host/placement. "
        "An SQLite database must be a file. A driver in the URL that is not installed "
        "is replaced by psycopg or PyMySQL.",
    ),
    cfg.StrOpt(
        "connection_parameters",
        default="",
        help="Appended to the connection URL: name=value pairs joined by &.",
    ),
    cfg.BoolOpt(
        "sqlite_synchronous",
        default=True,
        help="Whether SQLite waits until a commit is on the disk. False is faster, but the "
        "last commits are lost when the machine loses power.",
    ),
    cfg.StrOpt(
        "slave_connection",
        secret=True,
        help="Accepted because placement.conf files have it; not used. Every answer shows "
        "every acknowledged write, which a replica that lags cannot promise.",
    ),
    cfg.StrOpt(
        "mysql_sql_mode",
        default="TRADITIONAL",
        help="The SQL mode of MySQL and MariaDB sessions; empty leaves the server's own.",
    ),
    cfg.IntOpt(
        "connection_recycle_time",
        default=3600,
        help="Seconds after which a pooled connection is replaced; -1 is never. Set it below the "
        "time after which a firewall or the server drops idle connections.",
    ),
    cfg.IntOpt(
        "max_pool_size",
        default=5,
        min=1,
        help="Connections that each worker process keeps open, for each of its three kinds of "
        "work (writing, reading, single statements).",
    ),
    cfg.IntOpt(
        "max_retries",
        default=10,
        min=-1,
        help="How often a worker or a manager asks again at its start when the database does not "
        "answer (for a password that is wrong, too), before it gives up and says why; -1 is for "
        "ever. Together with retry_interval it bounds the wait: 100 seconds by default, and up to "
        "network_timeout_seconds more for each attempt at a server that is silent. SQLite is "
        "not waited for.",
    ),
    cfg.IntOpt(
        "retry_interval",
        default=10,
        min=0,
        help="Seconds between these attempts.",
    ),
    cfg.IntOpt(
        "max_overflow",
        default=50,
        min=-1,
        help="Connections beyond max_pool_size that may be open for a moment; -1 is unlimited.",
    ),
    cfg.IntOpt(
        "connection_debug",
        default=0,
        min=0,
        max=100,
        help="What the database layer logs: 0 nothing, 50 statements, 100 statements and "
        "their results.",
    ),
    cfg.BoolOpt(
        "connection_trace",
        default=False,
        help="Accepted because placement.conf files have it; nothing reads it. Use "
        "connection_debug to see statements.",
    ),
    cfg.IntOpt(
        "pool_timeout",
        default=30,
        min=0,
        help="Seconds a request waits for a free connection before it is answered 503.",
    ),
    cfg.BoolOpt(
        "sync_on_startup",
        default=False,
        help="Whether the service creates or upgrades the schema when it starts. Convenient "
        "for one machine; with several, run placement-core db sync once instead.",
    ),
    cfg.IntOpt(
        "statement_timeout_seconds",
        default=60,
        min=0,
        help="The longest a statement may run, in seconds; 0 is no bound. The server ends it, and "
        "the worker gives up a COMMIT that takes longer, finds out within retry_timeout_seconds "
        "whether it was made, and answers 503 if nobody can tell. SQLite has none.",
    ),
    cfg.IntOpt(
        "lock_timeout_seconds",
        default=30,
        min=0,
        help="The longest a statement waits for a row (SQLite: for the file), in seconds; 0 is "
        "the database's own bound.",
    ),
    cfg.IntOpt(
        "idle_in_transaction_timeout_seconds",
        default=60,
        min=0,
        help="Seconds after which the database ends a transaction whose worker says nothing "
        "(it hangs, or its machine is gone), so that its rows are free again; 0 is never. "
        "PostgreSQL and MariaDB only.",
    ),
    cfg.IntOpt(
        "network_timeout_seconds",
        default=10,
        min=0,
        help="Seconds that the database server may say nothing to who connects. One that takes "
        "longer counts as not answering, whoever waits for it is told so, and requests are "
        "answered 503 at once until it answers again. Statements that take long on a server "
        "that answers new connections are bounded by statement_timeout_seconds. Lower it where "
        "clients wait less long than this; 0 leaves all waiting to the operating system. Not "
        "for SQLite.",
    ),
    cfg.IntOpt(
        "retry_timeout_seconds",
        default=10,
        min=0,
        help="For how many seconds a request repeats a transaction that lost a race or its "
        "connection, before it is answered 503. How often a transaction that lost a race is "
        "repeated, [placement] allocation_conflict_retry_count bounds, too.",
    ),
]
