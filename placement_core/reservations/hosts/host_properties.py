"""The properties that hosts can have values of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import texts
from placement_core.reservations import tables
from placement_core.reservations.errors import PropertyNotFound
from placement_core.reservations.hosts import host_capabilities
from placement_core.reservations.records import HostProperty
from placement_core.reservations.store import lease_rows

_names, _values = tables.resource_properties, tables.computehost_extra_capabilities

_property_columns = (
    _names.c.id, _names.c.resource_type, _names.c.property_name, _names.c.private,
    _names.c.created_at, _names.c.updated_at)
_PROPERTIES = sa.select(*_property_columns).order_by(
    _names.c.property_name, _names.c.resource_type)
_PROPERTIES_WITH_VALUES = (
    sa.select(*_property_columns, _values.c.capability_value)
    .outerjoin(_values, _values.c.property_id == _names.c.id)
    .order_by(_names.c.property_name, _names.c.resource_type, _values.c.capability_value)
    .distinct())
_of_property = (_names.c.resource_type == host_capabilities.RESOURCE_TYPE,
                _names.c.property_name == sa.bindparam("of_name"))
_SET_PRIVATE = sa.update(_names).where(*_of_property).values(private=sa.bindparam("is_private"))
_PROPERTY = sa.select(*_property_columns).where(*_of_property)


@db.retry_writes
def list_(
    ctx: Context, *, detail: bool = False, private: bool = False
) -> list[HostProperty]:
    """Return the properties, in the order of their names.

    :param detail: with the distinct values of all hosts.
    :param private: private properties, too.
    """
    statement = _PROPERTIES_WITH_VALUES if detail else _PROPERTIES
    if not private:
        statement = statement.where(sa.not_(_names.c.private))
    with db.read_once(ctx) as session:
        rows = session.execute(statement).all()
    by_id: dict[str, tuple[sa.Row[Any], list[str]]] = {}
    for row in rows:
        values = by_id.setdefault(row.id, (row, []))[1]
        if detail and row.capability_value is not None:
            values.append(row.capability_value)
    return [_build_property(row, values if detail else None) for row, values in by_id.values()]


@db.retry_writes
def change(ctx: Context, name: str, *, private: bool) -> HostProperty:
    """Make a property private, or public.

    :raises PropertyNotFound:
    """
    if not texts.is_storable(name):
        raise PropertyNotFound("No host ever had such a property.")
    with db.write(ctx) as session:
        session.execute(_SET_PRIVATE, {"of_name": name, "is_private": private})
        row = session.execute(_PROPERTY, {"of_name": name}).first()
        if row is None:
            raise PropertyNotFound(f"No host ever had a property {name}.")
        return _build_property(row, None)


def _build_property(row: sa.Row[Any], values: Sequence[str] | None) -> HostProperty:
    return HostProperty(
        row.id, row.resource_type, row.property_name, bool(row.private), values,
        lease_rows.aware(row.created_at),
        None if row.updated_at is None else lease_rows.aware(row.updated_at))
