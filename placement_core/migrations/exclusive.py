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
from collections.abc import Iterator, Sequence

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import errors
from placement_core.changes.journal import Journal
from placement_core.db import failures
from placement_core.db.database import Database, Settings

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


@contextlib.contextmanager
def transaction(settings: Settings) -> Iterator[sa.Connection]:
    """Open the transaction of a schema change, with the exclusive lock.

    :raises Busy: another sync holds the lock, or another process uses the tables, for longer
        than the lock timeout. If none is set, that is an hour, and for ever on PostgreSQL.
    """
    patience = settings.lock_timeout_seconds or 3600
    try:
        with (
            database(settings) as opened,
            opened.writer.connect() as connection,
            connection.begin(),
            _lock(connection, patience),
        ):
            yield connection
    except (db_exception.DBError, sa.exc.DBAPIError) as error:
        if failures.is_lock_timeout(error):
            raise Busy(
                f"the database was in use for {patience} seconds: another db sync, or a "
                "service that still runs on it; nothing was changed by this run's last step"
            ) from error
        raise


@contextlib.contextmanager
def _lock(connection: sa.Connection, patience: int) -> Iterator[None]:
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_KEY)))
    if not _is_mysql(connection):
        # SQLite: the transaction began with BEGIN IMMEDIATE.
        yield
        return
    if connection.scalar(sa.select(sa.func.get_lock(LOCK_NAME, patience))) != 1:
        raise Busy(f"another db sync held the lock for {patience} seconds; try again later")
    # DDL waits for the tables' metadata locks; the default timeout is a day.
    connection.exec_driver_sql(f"SET SESSION lock_wait_timeout = {int(patience)}")
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
