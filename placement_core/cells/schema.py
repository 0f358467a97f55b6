"""The tables of a cell's database: which there are, and making those that are missing.

In nova's databases nova makes them. An embedded deployment, whose cells have no nova,
gets the columns that we use.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db, errors
from placement_core.cells import cell_tables
from placement_core.cells.databases import Answers, CellDatabases
from placement_core.cells.records import Cell
from placement_core.context import Context

#: What a cell's database has to have.
TABLES = tuple(table.name for table in cell_tables.metadata.sorted_tables)


def check(
    ctx: Context, cells: CellDatabases, which: Sequence[Cell]
) -> Answers[Sequence[str]]:
    """Ask cells which of ``TABLES`` they have."""
    return cells.scatter_gather(ctx, lambda cell_ctx, _cell: present(cell_ctx), which)


@db.retry_writes
def present(ctx: Context) -> list[str]:
    """Return which of ``TABLES`` a cell's database has."""
    with db.read(ctx) as session:
        found = sa.inspect(session.connection).get_table_names()
    return [name for name in TABLES if name in found]


def sync(ctx: Context, cells: CellDatabases, cell: Cell) -> list[str]:
    """Make the tables that a cell's database lacks; return their names.

    A table that is there stays as it is, whoever made it. An SQLite file is made too.

    :raises errors.ConfigurationError: the cell's URL makes no sense.
    :raises errors.Unavailable: its database does not answer.
    """
    cell_ctx = cells.of(ctx, cell)
    if cell_ctx.database.dialect == "sqlite":
        _make_file(cell_ctx)
    while True:
        before = present(cell_ctx)
        try:
            return _create(cell_ctx, [name for name in TABLES if name not in before])
        except (db_exception.DBError, sa.exc.DBAPIError):
            # Somebody else may make the same tables at this moment.
            if present(cell_ctx) == before:
                raise


@db.retry_writes
def _create(ctx: Context, missing: list[str]) -> list[str]:
    with db.write(ctx) as session:
        for name in missing:
            cell_tables.metadata.tables[name].create(session.connection)
    return missing


def _make_file(ctx: Context) -> None:
    path = pathlib.Path(ctx.database.url.database or "")
    try:
        path.touch()
    except OSError as error:
        raise errors.Unavailable(f"{path}: {error.strerror}") from None
