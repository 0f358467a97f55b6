"""How much a database looks at for a question: counted by the database, not timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db.database import Database, Settings

_POSTGRESQL = (
    "SELECT (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables) "
    "+ (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes)")


def count(settings: Settings, ask: Callable[[Context], Any]) -> int:
    """Return how many rows a database reads; on SQLite, how many steps it makes.

    The numbers of two kinds of database cannot be compared.
    """
    database = Database(settings, Journal())
    try:
        return _COUNTS[database.dialect](database, ask)
    finally:
        database.dispose()


def _on_sqlite(database: Database, ask: Callable[[Context], Any]) -> int:
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    def listen(connection: Any, _record: object) -> None:
        connection.set_progress_handler(step, 10)

    for engine in _engines(database):
        sa.event.listen(engine, "connect", listen)
    ask(Context(database))
    return steps


def _on_mysql(database: Database, ask: Callable[[Context], Any]) -> int:
    connections = _connections(database)
    ask(Context(database))
    rows = 0
    for connection in connections:
        with connection.cursor() as cursor:
            cursor.execute("SHOW SESSION STATUS WHERE variable_name LIKE 'Handler_read%'")
            rows += sum(int(value) for _, value in cursor.fetchall())
    return rows


def _on_postgresql(database: Database, ask: Callable[[Context], Any]) -> int:
    connections = _connections(database)
    before = _read_on_postgresql(database)
    ask(Context(database))
    for connection in connections:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
        connection.rollback()
    return _read_on_postgresql(database) - before


def _read_on_postgresql(database: Database) -> int:
    engine = sa.create_engine(database.url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("SELECT pg_stat_clear_snapshot()")
        return int(connection.exec_driver_sql(_POSTGRESQL).scalar_one())


def _connections(database: Database) -> list[Any]:
    """Return the list that all connections are put on that the engines make."""
    made: list[Any] = []
    for engine in _engines(database):
        sa.event.listen(engine, "connect", lambda connection, _record: made.append(connection))
    return made


def _engines(database: Database) -> tuple[sa.Engine, ...]:
    return database.writer, database.snapshot, database.autocommit


_COUNTS = {"sqlite": _on_sqlite, "mysql": _on_mysql, "postgresql": _on_postgresql}
