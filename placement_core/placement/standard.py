"""The resource classes and traits that every deployment has."""

from __future__ import annotations

import os_resource_classes
import os_traits
import sqlalchemy as sa

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
