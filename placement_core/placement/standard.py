"""The resource classes and traits that every deployment has."""

from __future__ import annotations

import os_resource_classes
import os_traits
import sqlalchemy as sa

from placement_core import db
from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.db import inserts
from placement_core.db.metadata import utcnow
from placement_core.placement import tables

_classes, _traits = tables.resource_classes, tables.traits


def insert(connection: sa.Connection) -> None:
    """Insert the standard resource classes and traits that are missing.

    Standard classes have the ids of their order in os-resource-classes. Any
    number of processes may do this at once. For a new schema; a database that
    is being served needs ``ensure``, which the change log hears of.
    """
    now = utcnow()
    classes, traits = _find_missing(connection)
    inserts.insert_missing(connection, _classes, [
        {"id": number, "name": name, "revision": 0, "created_at": now}
        for name, number in classes.items()])
    inserts.insert_missing(
        connection, _traits, [{"name": name, "created_at": now} for name in traits])


@db.retry_writes
def ensure(ctx: Context) -> None:
    """Insert what is missing and say so in the change log; safe in every worker."""
    with db.read(ctx) as session:
        classes, traits = _find_missing(session.connection)
    if not classes and not traits:
        return
    with db.write(ctx) as session:
        insert(session.connection)
        for class_id in classes.values():
            session.record_change(kinds.RESOURCE_CLASS, class_id)
        ids = sa.select(_traits.c.id).where(_traits.c.name.in_(traits))
        for trait_id in session.execute(ids).scalars():
            session.record_change(kinds.TRAIT, trait_id)


def _find_missing(connection: sa.Connection) -> tuple[dict[str, int], list[str]]:
    """Return the missing classes with their ids, and the missing traits."""
    classes = set(connection.scalars(sa.select(_classes.c.name)))
    traits = set(connection.scalars(sa.select(_traits.c.name)))
    return (
        {name: number for number, name in enumerate(os_resource_classes.STANDARDS)
         if name not in classes},
        sorted(name for name in os_traits.get_traits() if name not in traits),
    )
