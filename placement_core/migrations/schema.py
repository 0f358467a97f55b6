"""Create the schema of a new database, or empty a database, for tests and embedders."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core.changes import tables as change_tables
from placement_core.db.database import Settings
from placement_core.migrations import sync
from placement_core.migrations.all_tables import metadata
from placement_core.placement import tables as placement_tables

_KEPT = {"resource_classes", "traits", "change_heads", "revisions", "online_migrations"}


def create(connection_url: str) -> None:
    """Create the schema in an empty database, with standard classes and traits."""
    sync.sync(Settings(connection_url, sqlite_synchronous=False))


def empty(connection_url: str) -> None:
    """Delete all rows that ``create`` did not insert, and reset the serials of changes."""
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
        for table in (change_tables.change_heads, change_tables.revisions):
            connection.execute(sa.update(table).values(serial=0, txn=0))
        connection.execute(sa.update(change_tables.change_heads).values(limits_serial=0))
    engine.dispose()
