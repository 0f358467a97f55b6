"""How each driver connects: what it is told, and for how long it may say nothing."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from placement_core.db.database import Settings

#: The marks on our connections that the fence of an adopted database asks for
#: (``migrations.fence``): a setting, a user variable, a function.
POSTGRESQL_MARK = "placement_core.writer"
MYSQL_MARK = "@placement_core_writer"
SQLITE_MARK = "this_database_belongs_to_placement_core"


def arguments(url: sa.URL, settings: Settings, *, writes: bool) -> dict[str, Any]:
    """Return what a driver is told when it connects.

    :param url: of the database; it names the driver.
    :param writes: whether transactions on the connection may write.
    """
    dialect = url.get_backend_name()
    if dialect == "postgresql":
        return _make_postgresql_arguments(settings, writes=writes)
    if dialect == "mysql":
        return _make_mysql_arguments(url.get_driver_name(), settings)
    return {
        "check_same_thread": False,
        "timeout": sqlite_patience(settings),
        # We say BEGIN ourselves: the module's own is always deferred.
        "isolation_level": None,
    }


def sqlite_patience(settings: Settings) -> int:
    """Return for how many seconds SQLite waits for the file."""
    return settings.lock_timeout_seconds or 3600


def _make_postgresql_arguments(settings: Settings, *, writes: bool) -> dict[str, Any]:
    bounds = {
        "statement_timeout": settings.statement_timeout_seconds,
        "lock_timeout": settings.lock_timeout_seconds,
        "idle_in_transaction_session_timeout": settings.idle_in_transaction_timeout_seconds,
    }
    options = " ".join(f"-c {name}={seconds * 1000}" for name, seconds in bounds.items())
    options += f" -c {POSTGRESQL_MARK}=on"
    if writes:
        # What writes goes by a key. A plan made for the values at hand is the same
        # one, and making it costs as much as carrying it out. But a plan that was
        # made while a table was empty must not read all of it later.
        options += " -c plan_cache_mode=force_generic_plan -c enable_seqscan=off"
        # Up to PostgreSQL 17, a scan that cannot be avoided then costs 10 ** 10 in the plan.
        # Statements that cost so much are compiled, which takes some 100 ms each time.
        options += " -c jit=off"
    if not (silence := settings.network_timeout_seconds):
        return {"options": options}
    return {
        "options": options,
        "connect_timeout": silence,
        # What was sent must be acknowledged; and where nothing was, the other end
        # must show that it is there, while an answer is waited for.
        "tcp_user_timeout": silence * 1000,
        "keepalives_idle": silence,
        "keepalives_interval": 1,
        "keepalives_count": 3,
    }


def _make_mysql_arguments(driver: str, settings: Settings) -> dict[str, Any]:
    silence = settings.network_timeout_seconds
    bounds: dict[str, Any] = {"charset": "utf8mb4"}
    if silence and driver in ("pymysql", "mysqldb"):
        bounds |= {"connect_timeout": silence, "write_timeout": silence}
        # PyMySQL reads the handshake with it; ``let_wait`` raises the bound for statements.
        longest = silence if driver == "pymysql" else _compute_longest_answer(settings)
        if longest:
            bounds["read_timeout"] = longest
    return bounds


def _compute_longest_answer(settings: Settings) -> int:
    """Return for how many seconds a server may work on a statement; 0: there is no bound."""
    if not settings.statement_timeout_seconds:
        return 0
    return settings.network_timeout_seconds + max(
        settings.statement_timeout_seconds, settings.lock_timeout_seconds)


def connect(dialect: sa.Dialect, args: Any, options: Any) -> Any:
    """Return a new connection of a driver.

    :param args, options: what SQLAlchemy would call the driver with.
    """
    # A driver need not be installed where the database is another one.
    if dialect.driver == "pymysql":
        from placement_core.db.pymysql_connections import SharedContextConnection

        return SharedContextConnection(*args, **options)
    if dialect.driver == "psycopg":
        from placement_core.db.psycopg_connections import PipeliningConnection

        return PipeliningConnection.connect(*args, **options)
    return dialect.connect(*args, **options)


def let_wait(connection: Any, settings: Settings) -> None:
    """Let statements on a new connection take as long as the server lets them."""
    if settings.network_timeout_seconds and hasattr(connection, "wait_for_answers"):
        connection.wait_for_answers(_compute_longest_answer(settings))


def count_rows_together(dialect: sa.Dialect) -> int:
    """Return how many rows a statement may have that is sent together with others.

    :returns: 0: the driver sends each statement by itself.
    """
    return {"pymysql": 1000, "psycopg": 1}.get(dialect.driver, 0)


def abort(connection: Any) -> None:
    """Have whoever waits on a connection learn that it is lost; for other threads."""
    # Each driver has an error of its own for a connection that is lost or closed already.
    with contextlib.suppress(Exception):
        # Of the descriptor, so that the driver's own state stays its thread's.
        number = _get_descriptor(connection)
        with socket.socket(fileno=os.dup(number)) as shared:
            # Else it was closed meanwhile, and the number may be another one's.
            if _get_descriptor(connection) == number:
                shared.shutdown(socket.SHUT_RDWR)


def _get_descriptor(connection: Any) -> int:
    number: int = (connection.fileno() if hasattr(connection, "fileno")
                   else connection._sock.fileno())
    return number
