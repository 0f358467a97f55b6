"""The engines of one database, and how their connections are set up.

Three engines on one database, because switching the isolation of a connection
for each use costs more than the question it is for:

``writer``
    READ COMMITTED (SQLite: ``BEGIN IMMEDIATE``); locks, then decides.
``snapshot``
    REPEATABLE READ, read only; what one answer shows is one moment.
``autocommit``
    single statements without BEGIN and COMMIT, such as the freshness question.

A connection is pinged before use only when it has been idle for a while; in
between, a lost one fails at its first statement and the whole transaction is
repeated, which costs nothing while all is well. Source: design §3 and §4.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import sqlite3
import threading
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any, Protocol

import sqlalchemy as sa
from oslo_db import exception as db_exception
from oslo_db.sqlalchemy import exc_filters
from sqlalchemy import pool

from placement_core import errors
from placement_core.db import compiled, constraints, drivers, sequences, sqlite_files
from placement_core.db.availability import GRACE_SECONDS, Availability
from placement_core.db.connections import ReadConnections
from placement_core.db.failures import (
    ConnectionLost,
    ReadOnly,
    register_driver_errors,
    translate,
    translated_errors,
)
from placement_core.db.session import Session
from placement_core.masking import mask_url

#: Bytes; the most that MariaDB takes.
_LONGEST_AGGREGATED_TEXT = 2**32 - 1
#: The dialects we know, and the driver each uses when the URL names none.
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}

#: The option that names the database whose schema is ours.
OWN = "[placement_database] connection"


#: A pooled connection that was idle for longer than this is pinged first.
_PING_AFTER_SECONDS = 2.0

#: How long until SQLite is asked again for what it refuses without waiting.
_SQLITE_PAUSE_SECONDS = 0.01


class ChangeRecorder(Protocol):
    """Writes the change log (``changes.journal`` implements it)."""

    def slot(self) -> int:
        """Return the number of the calling thread's slot."""

    def append(self, session: Session) -> None:
        """Write the changes that ``session`` recorded, as its last statements."""

    def notice_commit(self, database: Database, session: Session) -> None:
        """Handle the commit of ``session``."""

    def was_committed(self, database: Database, session: Session, seconds: float) -> bool:
        """Say whether the transaction of ``session`` was committed.

        :param seconds: how long the database may take to say it.
        :raises oslo_db.exception.DBError: the database cannot say.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """How to reach a database.

    :ivar connection: an SQLAlchemy URL; an SQLite database is a file.
    :ivar sqlite_create: whether an SQLite file that is not there is made.
    :ivar named: where the URL stands, for messages about it.
    :ivar network_timeout_seconds: for how long a server may say nothing to who connects;
        one that is silent for longer does not answer. 0 is as long as the operating system
        waits. SQLite has none.
    :ivar retry_timeout_seconds: for how long after its first failure a transaction is
        repeated.
    :ivar statement_timeout_seconds: longest statement, COMMIT being one; 0 is no bound.
    :ivar lock_timeout_seconds: longest wait for a row lock (SQLite: for the
        file); 0 is the database's own bound.
    :ivar idle_in_transaction_timeout_seconds: after which the database ends a
        transaction whose client says nothing; 0 is never.
    :ivar sqlite_synchronous: False trades the last commits for speed when the
        machine loses power.
    """

    connection: str
    connection_parameters: str = ""
    max_pool_size: int = 5
    max_overflow: int = 50
    pool_timeout_seconds: int = 30
    connection_recycle_seconds: int = 3600
    statement_timeout_seconds: int = 60
    lock_timeout_seconds: int = 30
    idle_in_transaction_timeout_seconds: int = 60
    sqlite_synchronous: bool = True
    mysql_sql_mode: str | None = "TRADITIONAL"
    named: str = dataclasses.field(default=OWN, compare=False)
    network_timeout_seconds: int = 10
    retry_timeout_seconds: int = 10
    sqlite_create: bool = True


class Database:
    """One database: its engines, its change log and its patience.

    :param grace_seconds: for how long an outage may last before anybody is told of it;
        None: during an outage, everybody tries to connect.
    :ivar retries: how often a transaction that lost a race is repeated.
    :ivar retry_seconds: for how long after its first failure a transaction is repeated.
    :ivar patience: what is left of that, for what each thread is doing (``transactions``).
    :ivar availability: whether the database answers.
    :ivar compiled: the statements that write, as the driver takes them.
    :ivar read_connections: what prepared reads are executed on.
    """

    def __init__(
        self, settings: Settings, journal: ChangeRecorder, *, retries: int = 10,
        grace_seconds: float | None = GRACE_SECONDS,
    ) -> None:
        self.url = resolve_url(settings)
        #: The URL as people may see it.
        self.masked_url = mask_url(settings.connection)
        self.settings = settings
        self.journal = journal
        self.retries = retries
        self.retry_seconds = float(settings.retry_timeout_seconds)
        self.patience = threading.local()
        self.dialect = self.url.get_backend_name()
        silence = 0 if self.dialect == "sqlite" else settings.network_timeout_seconds
        self.availability = Availability(
            f"the database {mask_url(settings.connection)}", self.probe,
            str(self.url.password or ""), silence, grace_seconds)
        try:
            self.writer = self._engine("READ COMMITTED", "BEGIN IMMEDIATE")
            self.snapshot = self._engine("REPEATABLE READ", "BEGIN")
            self.autocommit = self._engine("AUTOCOMMIT", None)
        except (ImportError, ValueError, sa.exc.ArgumentError):
            # Their words may repeat a part of the URL.
            raise errors.ConfigurationError(
                f"{settings.named} = {mask_url(settings.connection)}: a driver or a parameter "
                "of the URL cannot be used") from None

        self.compiled = compiled.CompiledStatements(self.writer.dialect)
        self.read_connections = ReadConnections(
            self.autocommit, self.availability, most=settings.max_pool_size,
            recycle_seconds=settings.connection_recycle_seconds)

    def bounded(
        self, connection: sa.Connection, seconds: float
    ) -> contextlib.AbstractContextManager[None]:
        """Abort a connection if what is done on it takes longer, give or take a second.

        Servers bound statements, but no COMMIT: one may wait for a standby or for the other
        nodes of a cluster, as long as they do not answer. Nothing of SQLite waits for others.

        :param seconds: 0: there is no bound.
        """
        return self.availability.bounded(
            connection.connection.dbapi_connection, 0 if self.dialect == "sqlite" else seconds)

    @contextlib.contextmanager
    def connection(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        """Lend a connection of an engine. Every statement needs one, or a read connection.

        Its errors are translated, and one that is no good any more goes to nobody else.

        :raises errors.Unavailable: the database does not answer, or cannot do it now.
        """
        self.availability.require()
        with translated_errors(), self._check_out(engine) as connection:
            try:
                yield connection
            except Exception as error:
                self.availability.notice(error)
                if isinstance(translate(error), (ConnectionLost, ReadOnly)):
                    connection.invalidate(error)
                raise

    def _check_out(self, engine: sa.Engine) -> sa.Connection:
        with self.availability.checking_out():
            return engine.connect()

    def _engine(self, isolation: str, sqlite_begin: str | None) -> sa.Engine:
        return _engine(self.url, self.settings, isolation, sqlite_begin, self.availability)

    def probe(self) -> None:
        """Connect; within the network timeout.

        :raises Exception: the driver's own error.
        """
        dialect = self.autocommit.dialect
        args, options = dialect.create_connect_args(self.url)
        own = drivers.arguments(self.url, self.settings, writes=False)
        with contextlib.closing(drivers.connect(dialect, args, {**options, **own})) as connection:
            if self.dialect == "mysql":
                # A node that has left its Galera cluster still lets us in.
                connection.cursor().execute("SELECT 1")

    def count_connections(self) -> dict[tuple[str, str], int]:
        """Return how many connections this process has, by pool and state.

        The states are ``in_use``, ``idle``, and the ``limit`` of both; ``reads`` has none: who
        finds all in use connects.
        """
        counts = {("reads", "in_use"): self.read_connections.in_use,
                  ("reads", "idle"): self.read_connections.idle}
        limit = self.settings.max_pool_size + self.settings.max_overflow
        for name in ("writer", "snapshot", "autocommit"):
            connections: Any = getattr(self, name).pool
            counts |= {(name, "in_use"): connections.checkedout(),
                       (name, "idle"): connections.checkedin(), (name, "limit"): limit}
        return counts

    def dispose(self) -> None:
        """Close every connection that nobody uses, and look after none."""
        self.availability.reset()
        self.read_connections.close()
        for engine in (self.writer, self.snapshot, self.autocommit):
            engine.dispose()


def resolve_url(settings: Settings) -> sa.URL:
    """Return the URL of a database, with the driver that is used; nothing is connected to.

    :raises errors.ConfigurationError: it is no URL, or of no database that we know.
    """
    try:
        url = sa.make_url(settings.connection)
        _check_logins(url)
    except (sa.exc.ArgumentError, ValueError):
        # The value is not shown: it may hold a password.
        raise errors.ConfigurationError(
            f"{settings.named}: expected a database URL such as "
            "sqlite:////var/lib/placement/placement.sqlite or "
            "postgresql://user:password@host/placement, with what is not a letter or a "
            "digit in user and password percent-encoded (@ is %40)"
        ) from None
    masked_url = mask_url(settings.connection)
    if settings.connection_parameters:
        url = url.update_query_string(settings.connection_parameters, append=True)
    backend = url.get_backend_name() if url.drivername != "mariadb" else "mysql"
    if backend == "mariadb":
        backend = "mysql"
        url = url.set(drivername=url.drivername.replace("mariadb", "mysql", 1))
    if backend not in _DRIVERS:
        raise errors.ConfigurationError(
            f"{settings.named} = {masked_url}: expected one of "
            f"{', '.join(_DRIVERS)}"
        )
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        raise errors.ConfigurationError(
            f"{settings.named} = {masked_url}: expected a file, because every "
            "worker and thread has a connection of its own"
        )
    driver = url.drivername.partition("+")[2]
    if backend != "sqlite" and (not driver or importlib.util.find_spec(driver) is None):
        url = url.set(drivername=_DRIVERS[backend])
        driver = url.drivername.partition("+")[2]
        if importlib.util.find_spec(driver) is None:
            raise errors.ConfigurationError(
                f"{settings.named} = {masked_url}: the driver {driver} is not "
                f"installed; install placement-core[{backend}]"
            )
    return url


def _check_logins(url: sa.URL) -> None:
    """Refuse a URL that was cut at the wrong place: errors would show half a password."""
    if url.get_backend_name() != "sqlite" and "@" in f"{url.host}{url.database}":
        raise ValueError


def _engine(
    url: sa.URL, settings: Settings, isolation: str, sqlite_begin: str | None,
    availability: Availability,
) -> sa.Engine:
    """Build an engine all of whose connections have one isolation."""
    backend = url.get_backend_name()
    arguments: dict[str, Any] = {
        "poolclass": pool.QueuePool,
        "pool_size": settings.max_pool_size,
        "max_overflow": settings.max_overflow,
        "pool_timeout": settings.pool_timeout_seconds,
        "pool_recycle": settings.connection_recycle_seconds,
        "connect_args": drivers.arguments(
            url, settings, writes=isolation == "READ COMMITTED"),
        # ``transactions`` ends every transaction itself; MySQL would be asked
        # to ROLLBACK nothing each time a connection goes back to the pool.
        "pool_reset_on_return": None,
        "skip_autocommit_rollback": isolation == "AUTOCOMMIT",
    }
    if backend != "sqlite":
        arguments["isolation_level"] = isolation
    if backend == "sqlite" and (
            not settings.sqlite_create or os.path.exists(url.database or "")):
        # One that goes away later is an outage, and not a new, empty database.
        url = _existing(url)
    engine = sa.create_engine(url, **arguments)
    sequences.watch(engine, own=settings.named == OWN)
    constraints.watch(engine)
    compiled.listen(engine)
    _recognise_lost_connections(engine)
    register_driver_errors(engine.dialect.loaded_dbapi.Error)
    exc_filters.register_engine(engine)
    if backend != "sqlite":
        _watch_connections(engine, availability)
    _distrust_old_connections(engine)
    if backend == "sqlite":
        _begin_on_sqlite(engine, sqlite_begin, settings)
    elif backend == "mysql":
        _prepare_mysql(engine, settings, reads_only=isolation != "READ COMMITTED")

        @sa.event.listens_for(engine, "connect")
        def let_wait(connection: Any, _record: object) -> None:
            drivers.let_wait(connection, settings)

    return engine


def _recognise_lost_connections(engine: sa.Engine) -> None:
    """Raise ``DBConnectionError`` for what was lost, also on an engine's first connection.

    That one has no ``info`` while SQLAlchemy asks the server what it is, and oslo.db's listener
    looks there: what it raises then tells of no database.
    """

    @sa.event.listens_for(engine, "handle_error")
    def recognise(context: sa.engine.ExceptionContext) -> None:
        error = context.original_exception
        if context.is_disconnect and isinstance(error, engine.dialect.loaded_dbapi.Error):
            raise db_exception.DBConnectionError(context.sqlalchemy_exception) from error


def _existing(url: sa.URL) -> sa.URL:
    """Return the URL of an SQLite file with which it is opened only if it is there."""
    path = urllib.parse.quote(os.path.abspath(url.database or ""))
    return url.set(database=f"file:{path}").update_query_dict({"mode": "rw", "uri": "true"})


def _watch_connections(engine: sa.Engine, availability: Availability) -> None:
    """Tell ``availability`` which connections are in use, and which cannot be made."""

    @sa.event.listens_for(engine, "do_connect")
    def connect(dialect: sa.Dialect, _record: object, args: Any, options: Any) -> Any:
        with availability.connecting():
            connection = drivers.connect(dialect, args, options)
        availability.begin_set_up(connection)
        return connection

    @sa.event.listens_for(engine, "checkout")
    def begin(connection: Any, _record: object, _proxy: object) -> None:
        availability.begin_use(connection)

    def end(connection: Any, *_anything: object) -> None:
        availability.end_use(connection)

    for name in ("checkin", "detach", "invalidate", "soft_invalidate", "close", "close_detached"):
        sa.event.listen(engine, name, end)


def _distrust_old_connections(engine: sa.Engine) -> None:
    """Replace connections that a fork shared or that died while they were idle."""

    @sa.event.listens_for(engine, "connect")
    def remember_process(_connection: object, record: Any) -> None:
        record.info["pid"] = os.getpid()
        record.info["idle_since"] = time.monotonic()

    @sa.event.listens_for(engine, "checkin")
    def remember_time(_connection: object, record: Any) -> None:
        record.info["idle_since"] = time.monotonic()

    @sa.event.listens_for(engine, "checkout")
    def check(connection: Any, record: Any, _proxy: object) -> None:
        if record.info["pid"] != os.getpid():
            # Not ours to close either: the parent still uses its socket.
            record.dbapi_connection = None
            raise sa.exc.DisconnectionError("the connection belongs to another process")
        if time.monotonic() - record.info["idle_since"] > _PING_AFTER_SECONDS:
            try:
                engine.dialect.do_ping(connection)
            except engine.dialect.loaded_dbapi.Error as error:
                raise sa.exc.DisconnectionError("the connection died while idle") from error


def _begin_on_sqlite(engine: sa.Engine, begin: str | None, settings: Settings) -> None:
    """Say which BEGIN a transaction starts with, and set up connections."""
    synchronous = "FULL" if settings.sqlite_synchronous else "OFF"

    @sa.event.listens_for(engine, "do_connect")
    def make_private(
        _dialect: object, _record: object, arguments: list[Any], _named: object
    ) -> None:
        path = str(arguments[0])
        # Of a file that cannot be made, SQLite complains itself.
        with contextlib.suppress(OSError):
            if not path.startswith("file:"):
                sqlite_files.create_private(path)

    @sa.event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _record: object) -> None:
        _log_ahead(connection, drivers.sqlite_patience(settings))
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.create_function(drivers.SQLITE_MARK, 0, lambda: 1)

    if begin is not None:

        @sa.event.listens_for(engine, "begin")
        def say_begin(connection: sa.Connection) -> None:
            connection.exec_driver_sql(begin)


def _log_ahead(connection: sqlite3.Connection, patience: float) -> None:
    """Have a database write ahead, which it remembers.

    Where somebody is about to write to one that does not yet, SQLite refuses at once, however
    long it was told to wait.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or (
                    time.monotonic() >= deadline):
                raise
            time.sleep(_SQLITE_PAUSE_SECONDS)
        else:
            return


def _prepare_mysql(engine: sa.Engine, settings: Settings, *, reads_only: bool) -> None:
    """Set the bounds and modes of a session, once for each connection."""

    @sa.event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SHOW VARIABLES WHERE variable_name IN ('wsrep_on', 'max_statement_time', "
                "'max_execution_time', 'idle_transaction_timeout')"
            )
            variables = dict(cursor.fetchall())
            # MySQL would cut off what belongs to a provider (``placement/index/loader.py``).
            values: dict[str, object] = {"group_concat_max_len": _LONGEST_AGGREGATED_TEXT}
            if settings.mysql_sql_mode:
                values["sql_mode"] = settings.mysql_sql_mode
            if settings.lock_timeout_seconds:
                values["innodb_lock_wait_timeout"] = settings.lock_timeout_seconds
                # Of whole tables, while somebody changes them.
                values["lock_wait_timeout"] = settings.lock_timeout_seconds
            if "max_statement_time" in variables:  # MariaDB, in seconds
                values["max_statement_time"] = settings.statement_timeout_seconds
            elif "max_execution_time" in variables:  # MySQL, in milliseconds, SELECT only
                values["max_execution_time"] = settings.statement_timeout_seconds * 1000
            if "idle_transaction_timeout" in variables:
                values["idle_transaction_timeout"] = settings.idle_in_transaction_timeout_seconds
            if reads_only and variables.get("wsrep_on") == "ON":
                # Another node's acknowledged write must be seen (Galera).
                values["wsrep_sync_wait"] = 1
            assignments = ", ".join(f"SESSION {name} = %s" for name in values)
            assignments += f", {drivers.MYSQL_MARK} = 1"
            cursor.execute(f"SET {assignments}", tuple(values.values()))
