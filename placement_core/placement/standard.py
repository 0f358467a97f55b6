"""The resource classes and traits that every deployment has."""

from __future__ import annotations

import os_resource_classes
import os_traits
import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.db.metadata import utcnow
from placement_core.placement import tables


def insert(connection: sa.Connection) -> None:
    """Insert the standard resource classes and traits that are missing.

    Standard classes have the ids of their order in os-resource-classes.
    """
    now = utcnow()
    classes = set(connection.scalars(sa.select(tables.resource_classes.c.name)))
    missing = [
        {"id": number, "name": name, "created_at": now}
        for number, name in enumerate(os_resource_classes.STANDARDS)
        if name not in classes
    ]
    if missing:
        connection.execute(sa.insert(tables.resource_classes), missing)
    traits = set(connection.scalars(sa.select(tables.traits.c.name)))
    new = [{"name": name, "created_at": now}
           for name in sorted(os_traits.get_traits()) if name not in traits]
    if new:
        connection.execute(sa.insert(tables.traits), new)


def sync(ctx: Context) -> None:
    """Insert what a newer os-traits or os-resource-classes brought.

    Every worker does this when it starts, often at the same moment: whoever
    comes second finds the work done.
    """
    with db.read(ctx) as session:
        if not _missing(session):
            return
    try:
        _insert_missing(ctx)
    except db_exception.DBDuplicateEntry:
        sync(ctx)


@db.retry_writes
def _insert_missing(ctx: Context) -> None:
    with db.write(ctx) as session:
        missing = _missing(session)
        insert(session.connection)
        for kind, table, names in missing:
            for number in session.connection.scalars(
                sa.select(table.c.id).where(table.c.name.in_(names))
            ):
                session.touch(kind, number)


def _missing(session: db.Session) -> list[tuple[str, sa.Table, set[str]]]:
    """Return what the database lacks: (kind of change, table, names)."""
    wanted = (
        (kinds.RESOURCE_CLASS, tables.resource_classes, set(os_resource_classes.STANDARDS)),
        (kinds.TRAIT, tables.traits, set(os_traits.get_traits())),
    )
    found = (
        (kind, table, names - set(session.connection.scalars(sa.select(table.c.name))))
        for kind, table, names in wanted
    )
    return [row for row in found if row[2]]
