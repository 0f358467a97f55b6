"""Create the schema of a new database, or empty a database, for tests and embedders."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.changes import tables as change_tables
from placement_core.db import drivers
from placement_core.db.database import Settings
from placement_core.migrations import sync
from placement_core.migrations.all_tables import metadata
from placement_core.placement import tables as placement_tables

_KEPT = {"resource_classes", "traits", "change_heads", "revisions", "online_migrations",
         "usage_interval_bounds"}


def create(connection_url: str) -> None:
    """Create the schema in an empty database, with standard classes and traits."""
    sync.sync(Settings(connection_url, sqlite_synchronous=False))


def empty(connection_url: str) -> None:
    """Delete all rows that ``create`` did not insert, and reset the serials of changes."""
    engine = make_engine(connection_url)
    delete_rows(engine)
    engine.dispose()


def make_engine(connection_url: str) -> sa.Engine:
    """Return an engine for ``delete_rows``, with one connection."""
    engine = sa.create_engine(connection_url, pool_size=1, max_overflow=0, pool_pre_ping=True)
    # As the service connects: PyMySQL by itself reads all certificates each time.
    sa.event.listen(engine, "do_connect", lambda dialect, _record, args, options: (
        drivers.connect(dialect, args, options)))
    return engine


def delete_rows(engine: sa.Engine) -> None:
    """Do as ``empty`` does, with an engine that is used again: a new connection takes longer."""
    with engine.begin() as connection:
        for table in _find_filled(connection):
            if table is placement_tables.resource_providers:
                # MySQL deletes row by row, and a provider that others are below stays.
                connection.execute(
                    sa.update(table).values(root_provider_id=None, parent_provider_id=None))
            connection.execute(sa.delete(table))
        for table in (placement_tables.resource_classes, placement_tables.traits):
            custom = table.c.name.like("CUSTOM\\_%", escape="\\")
            connection.execute(sa.delete(table).where(custom))
        for table, columns in (
            (change_tables.change_heads, ("serial", "txn", "limits_serial")),
            (change_tables.revisions, ("serial", "txn")),
        ):
            was_changed = sa.or_(*(table.c[column] != 0 for column in columns))
            connection.execute(
                sa.update(table).where(was_changed).values(dict.fromkeys(columns, 0)))


def _find_filled(connection: sa.Connection) -> list[sa.Table]:
    """Return the tables that have rows to delete, those that refer to others first.

    Most have none, and a DELETE for each would take longer than all the rest.
    """
    tables, are_filled = _ask_for_rows()
    row = connection.execute(are_filled).one()
    return [table for table, is_filled in zip(tables, row, strict=True) if is_filled]


@functools.cache
def _ask_for_rows() -> tuple[Sequence[sa.Table], sa.Select[*tuple[Any, ...]]]:
    """Return the tables that are emptied, and a SELECT that says of each whether it has rows."""
    tables = [table for table in reversed(metadata.sorted_tables) if table.name not in _KEPT]
    return tables, sa.select(*(
        sa.exists(sa.literal_column("1")).select_from(table).label(table.name)
        for table in tables))
