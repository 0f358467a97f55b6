"""Find and repair sequences that are behind their tables (see ``db.sequences``).

PostgreSQL has a sequence for each table with generated ids. An INSERT with an explicit id does not
advance it. MariaDB, MySQL and SQLite advance their counters in this case.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import sqlalchemy as sa

from placement_core.migrations.all_tables import metadata


@dataclasses.dataclass(frozen=True, slots=True)
class LaggingSequence:
    """A sequence whose next id does not exceed the largest id in its table.

    :ivar name: the name of the sequence, for SQL.
    :ivar following: the next id that it returns.
    :ivar largest: the largest id in the table.
    """

    table: str
    name: str
    following: int
    largest: int

    def __str__(self) -> str:
        return (f"the sequence of table {self.table} is behind it: the next id would be "
                f"{self.following}, the largest is {self.largest}")


def find_behind(connection: sa.Connection) -> list[LaggingSequence]:
    """Return the sequences that are behind their tables, by table."""
    if connection.dialect.name != "postgresql":
        return []
    present = set(sa.inspect(connection).get_table_names())
    return [behind for name, table in sorted(metadata.tables.items()) if name in present
            for behind in _find_lag(connection, table)]


def repair(connection: sa.Connection, say: Callable[[str], None]) -> None:
    """Advance the sequences that are behind, while their tables are locked against inserts.

    Called with the exclusive lock held; idempotent.

    :param say: called with one line for each of them.
    """
    quote = connection.dialect.identifier_preparer.quote
    for behind in find_behind(connection):
        connection.exec_driver_sql(
            f"LOCK TABLE {quote(behind.table)} IN SHARE ROW EXCLUSIVE MODE")
        # Read again under the lock, because rows may have been inserted before it.
        for now in _find_lag(connection, metadata.tables[behind.table]):
            connection.execute(sa.select(sa.func.setval(now.name, now.largest)))
        say(f"{behind}; it was set")


def _find_lag(connection: sa.Connection, table: sa.Table) -> Iterator[LaggingSequence]:
    """Yield the sequence of a table if it is behind."""
    column = table.autoincrement_column
    if column is None:
        return
    quote = connection.dialect.identifier_preparer.quote
    name: str | None = connection.scalar(
        sa.select(sa.func.pg_get_serial_sequence(quote(table.name), column.name)))
    if name is None:
        return  # no sequence generates its ids
    row = connection.execute(
        sa.select(sa.column("last_value"), sa.column("is_called"))
        .select_from(sa.text(name))).one()
    following = row.last_value + 1 if row.is_called else row.last_value
    largest = connection.scalar(sa.select(sa.func.max(column)))
    if largest is not None and following <= largest:
        yield LaggingSequence(table.name, name, following, largest)
