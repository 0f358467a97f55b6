"""Making the schema of a new database, at once."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core.changes import tables as change_tables
from placement_core.db import metadata
from placement_core.placement import standard, tables as placement_tables

_KEPT = {"resource_classes", "traits", "change_heads"}


def create(connection_url: str) -> None:
    """Create every table in an empty database, with standard classes and traits."""
    engine = sa.create_engine(connection_url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
        metadata.create_all(connection)
        _seed(connection)
    engine.dispose()


def empty(connection_url: str) -> None:
    """Remove every row that ``create`` did not make."""
    engine = sa.create_engine(connection_url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(
            sa.update(placement_tables.resource_providers)
            .values(root_provider_id=None, parent_provider_id=None))
        for table in reversed(metadata.sorted_tables):
            if table.name not in _KEPT:
                connection.execute(sa.delete(table))
        for table in (placement_tables.resource_classes, placement_tables.traits):
            custom = table.c.name.like("CUSTOM\\_%", escape="\\")
            connection.execute(sa.delete(table).where(custom))
        connection.execute(sa.update(change_tables.change_heads).values(serial=0, txn=0))
    engine.dispose()


def _seed(connection: sa.Connection) -> None:
    connection.execute(
        sa.insert(change_tables.change_heads),
        [{"slot": slot, "serial": 0, "txn": 0} for slot in range(change_tables.SLOTS)],
    )
    standard.insert(connection)
