"""The exclusive lock of schema changes: two syncs never run at once on a database.

PostgreSQL, SQLite
    DDL is transactional. The whole sync is one transaction, so a sync that is interrupted changes
    nothing.
MariaDB, MySQL
    Each DDL statement commits. All steps are idempotent, so a sync that was interrupted can be
    repeated. On a Galera cluster the lock holds on one node only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import errors
from placement_core.changes.journal import Journal
from placement_core.db import failures
from placement_core.db.database import Database, Settings

_T = TypeVar("_T")
#: A schema change waits so long for locks that a running service holds, and then lets the service
#: work for as long, before it begins again. What waits for a table stands before all who come
#: after it. On MariaDB, that can make a circle that the server does not see: who uses the table
#: waits for a row, and who holds the row waits for the table, behind the schema change; or the
#: schema change has the table, and waits for users of a table with a foreign key to it.
_TURN_SECONDS = 1
#: The key of the advisory lock in a PostgreSQL database.
_ADVISORY_KEY = 0x706C6163656D6E74
#: The name of the lock on a MariaDB server, on which all databases share the names. MySQL refuses
#: names of more than 64 characters, so long names of databases are not in it as they are.
LOCK_NAME = sa.func.concat("placement_core.sync.", sa.case(
    (sa.func.char_length(sa.func.database()) <= 44, sa.func.database()),
    else_=sa.func.sha1(sa.func.database())))


class Busy(errors.Unavailable):
    """Another process holds the lock or uses the tables."""


@contextlib.contextmanager
def database(settings: Settings) -> Iterator[Database]:
    """Open a database for a schema change, without timeouts of statements and idleness."""
    opened = Database(
        dataclasses.replace(
            settings,
            statement_timeout_seconds=0,
            idle_in_transaction_timeout_seconds=0,
        ),
        Journal(),
    )
    try:
        yield opened
    finally:
        opened.dispose()


def run(
    settings: Settings, change: Callable[[sa.Connection], _T], say: Callable[[str], None]
) -> _T:
    """Make a schema change in a transaction with the exclusive lock; return what it returns.

    It begins again when a running service holds locks that it needs, or the two wait for each
    other. Either way the database undid what the change had done, or its steps find it done.

    :raises Busy: another sync holds the lock, or a service holds others, for longer than the lock
        timeout. If none is set, that is an hour.
    """
    patience = _find_patience(settings)
    for attempt in itertools.count(1):
        try:
            with transaction(settings) as connection:
                return change(connection)
        except (db_exception.DBError, sa.exc.DBAPIError) as error:
            if not (failures.is_lock_timeout(error) or failures.is_deadlock(error)):
                raise
            if attempt * 2 * _TURN_SECONDS > patience:
                raise Busy(
                    f"a service that runs on the database was in the way for {patience} seconds; "
                    "nothing was changed by this run's last step") from error
        if attempt == 1:
            say("a running service uses the tables: the step begins again")
        time.sleep(_TURN_SECONDS)
    raise AssertionError("unreachable")


@contextlib.contextmanager
def transaction(settings: Settings) -> Iterator[sa.Connection]:
    """Open the transaction of a schema change, with the exclusive lock.

    :raises Busy: another sync holds the lock for longer than the lock timeout. If none is set,
        that is an hour, and for ever on PostgreSQL.
    """
    patience = _find_patience(settings)
    with database(settings) as opened, contextlib.ExitStack() as stack:
        try:
            connection = stack.enter_context(opened.writer.connect())
            stack.enter_context(connection.begin())
            stack.enter_context(_lock(connection, patience))
        except (db_exception.DBError, sa.exc.DBAPIError) as error:
            if failures.is_lock_timeout(error):
                raise _make_busy(patience) from error
            raise
        yield connection


def _find_patience(settings: Settings) -> int:
    return settings.lock_timeout_seconds or 3600


def _make_busy(patience: int) -> Busy:
    return Busy("another db sync, or a service that writes to the same SQLite file, held the "
                f"lock for {patience} seconds; try again later")


@contextlib.contextmanager
def _lock(connection: sa.Connection, patience: int) -> Iterator[None]:
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_KEY)))
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_TURN_SECONDS}s'")
    if not _is_mysql(connection):
        # SQLite: the transaction began with BEGIN IMMEDIATE.
        yield
        return
    if connection.scalar(sa.select(sa.func.get_lock(LOCK_NAME, patience))) != 1:
        raise _make_busy(patience)
    # DDL waits for the tables' metadata locks, and then for InnoDB's own locks.
    connection.exec_driver_sql(
        f"SET SESSION lock_wait_timeout = {_TURN_SECONDS}, "
        f"SESSION innodb_lock_wait_timeout = {_TURN_SECONDS}")
    # Ids start at 0 (VCPU), for which AUTO_INCREMENT would insert the next id.
    connection.exec_driver_sql(
        "SET SESSION sql_mode = CONCAT_WS(',', @@sql_mode, 'NO_AUTO_VALUE_ON_ZERO')"
    )
    try:
        yield
        # Who gets the lock next must see what this run did last.
        connection.exec_driver_sql("COMMIT")
    finally:
        # The variables need no reset, because the connection is not used again.
        connection.exec_driver_sql("UNLOCK TABLES")
        connection.execute(sa.select(sa.func.release_lock(LOCK_NAME)))


def lock_tables(connection: sa.Connection, names: Sequence[str]) -> None:
    """Lock tables against all other connections, including readers, for the transaction.

    On MariaDB, statements can then use no other tables until ``unlock_tables``. On SQLite,
    the transaction already keeps other writers out, and readers are not locked out.
    """
    quote = connection.dialect.identifier_preparer.quote
    quoted = [quote(name) for name in names]
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(
            f"LOCK TABLE {', '.join(quoted)} IN ACCESS EXCLUSIVE MODE"
        )
    elif _is_mysql(connection):
        connection.exec_driver_sql(
            "LOCK TABLES " + ", ".join(f"{name} WRITE" for name in quoted)
        )


def unlock_tables(connection: sa.Connection) -> None:
    """On MariaDB, commit and release the locks; elsewhere they end with the transaction."""
    if _is_mysql(connection):
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("UNLOCK TABLES")


def _is_mysql(connection: sa.Connection) -> bool:
    return connection.dialect.name in ("mysql", "mariadb")
