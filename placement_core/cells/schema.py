"""Check which tables a cell's database has, and create those that are missing.

Nova creates them in its own databases. An embedded deployment, whose cells have no nova, gets
only the columns that are used.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db, errors
from placement_core.cells import cell_tables
from placement_core.cells.databases import CellAnswers, CellDatabases
from placement_core.cells.records import Cell
from placement_core.context import Context
from placement_core.db import sqlite_files

#: The tables that a cell's database must have.
TABLES = tuple(table.name for table in cell_tables.metadata.sorted_tables)


def check(
    ctx: Context, cells: CellDatabases, to_check: Sequence[Cell]
) -> CellAnswers[Sequence[str]]:
    """Return which of ``TABLES`` each cell has."""
    return cells.scatter_gather(ctx, lambda cell_ctx, _cell: list_present(cell_ctx), to_check)


@db.retry_writes
def list_present(ctx: Context) -> list[str]:
    """Return which of ``TABLES`` a cell's database has."""
    with db.read(ctx) as session:
        names = sa.inspect(session.connection).get_table_names()
    return [name for name in TABLES if name in names]


def sync(ctx: Context, cells: CellDatabases, cell: Cell) -> list[str]:
    """Create the tables that a cell's database lacks; return their names.

    An existing table is not changed. A missing SQLite file is created, too.

    :raises errors.ConfigurationError: the cell's URL is not valid or not allowed.
    :raises errors.Unavailable: its database does not answer, or its file cannot be made.
    """
    cell_ctx = cells.of(ctx, cell)
    # Our own database is there, perhaps as a URI of a file.
    if cell_ctx is not ctx and cell_ctx.database.dialect == "sqlite":
        _make_file(cell_ctx.database.url.database or "")
    while True:
        before = list_present(cell_ctx)
        try:
            return _create(cell_ctx, [name for name in TABLES if name not in before])
        except (db_exception.DBError, sa.exc.DBAPIError):
            # Another process may have created some of the tables at the same moment.
            if list_present(cell_ctx) == before:
                raise


@db.retry_writes
def _create(ctx: Context, missing: list[str]) -> list[str]:
    with db.write(ctx) as session:
        for name in missing:
            cell_tables.metadata.tables[name].create(session.connection)
    return missing


def _make_file(path: str) -> None:
    try:
        sqlite_files.create_private(path)
    except OSError as error:
        raise errors.Unavailable(f"{path}: {error.strerror}") from None
