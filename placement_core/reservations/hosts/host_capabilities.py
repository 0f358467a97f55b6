"""Capabilities of hosts: values of properties that are not among their fields.

Writers hold the lock on the pool's row. So nothing is planned at the same time, and no property
is created twice.
Source: spec blazar §2 (hosts); differs: names are checked at every change, numbers are
accepted and stored as text, and a property may change if only reservations of other hosts
require it.
"""

from __future__ import annotations

import math
import uuid as uuids
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from placement_core.db import Session, texts
from placement_core.reservations import tables
from placement_core.reservations.errors import CapabilityInUse, InvalidLease
from placement_core.reservations.scheduling import pool_queries, topology

#: The resource type of the properties, as in the API.
RESOURCE_TYPE = "physical:host"

LONGEST_NAME, LONGEST_VALUE = 64, 1024

#: Fields that clients set like capabilities, because neither nova nor placement provides them.
FIELDS = ("availability_zone", "service_name")
_LONGEST_FIELD = 255

#: Names that are fields in the API, or that requirements can name for every host.
_RESERVED_NAMES = frozenset((
    "name", "disk_gb", "provider_uuid", "reservation_provider_id", "trust_id", "reservable",
    "down_reason", "promised", "created_at", "updated_at",
    *topology.WORDS, *pool_queries.PROPERTIES)) - frozenset(FIELDS)

_names = tables.resource_properties
_values = tables.computehost_extra_capabilities
_allocations = tables.computehost_allocations
_of_hosts, _of_instances = tables.computehost_reservations, tables.instance_reservations

_KNOWN = sa.select(_names.c.property_name, _names.c.id).where(
    _names.c.resource_type == RESOURCE_TYPE,
    _names.c.property_name.in_(sa.bindparam("names", expanding=True)))
_ADD_NAMES = sa.insert(_names)
_OF_HOST = (
    sa.select(_names.c.property_name, _values.c.capability_value)
    .join(_names, _names.c.id == _values.c.property_id)
    .where(_values.c.computehost_id == sa.bindparam("of_host")))
_REMOVE = sa.delete(_values).where(
    _values.c.computehost_id == sa.bindparam("of_host"),
    _values.c.property_id.in_(sa.bindparam("property_ids", expanding=True)))
_REMOVE_ALL = sa.delete(_values).where(_values.c.computehost_id == sa.bindparam("of_host"))
_ADD = sa.insert(_values)

#: The requirements of the reservations that have shares of a host now or later.
_REQUIREMENTS = (
    sa.select(
        _of_hosts.c.hypervisor_properties, _of_hosts.c.resource_properties,
        _of_instances.c.resource_properties.label("of_slots"))
    .select_from(
        _allocations
        .outerjoin(_of_hosts, _of_hosts.c.reservation_id == _allocations.c.reservation_id)
        .outerjoin(_of_instances,
                   _of_instances.c.reservation_id == _allocations.c.reservation_id))
    .where(_allocations.c.computehost_id == sa.bindparam("of_host"),
           _allocations.c.end_second > sa.bindparam("now")))


def check(capabilities: Mapping[str, object]) -> dict[str, str | None]:
    """Return capabilities in the form in which they are stored; None: remove it.

    :raises InvalidLease: a name or a value cannot be stored.
    """
    return {name: _check(name, value) for name, value in capabilities.items()}


def _check(name: str, value: object) -> str | None:
    if not 0 < len(name) <= LONGEST_NAME or not texts.is_storable(name):
        raise InvalidLease(
            f"The name of a property has 1 to {LONGEST_NAME} characters, and no NUL.", name)
    if name in _RESERVED_NAMES:
        raise InvalidLease(
            f"{name} is a field of hosts or a rule of leases, and no property that can be set.",
            name)
    if name.startswith(topology.AGGREGATES):
        raise InvalidLease(
            f"{name} is a level of topology, and no property that can be set.", name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float) or (
            isinstance(value, float) and not math.isfinite(value)):
        raise InvalidLease(f"The value of {name} must be text or a number.", name)
    text = str(value)
    longest = _LONGEST_FIELD if name in FIELDS else LONGEST_VALUE
    if len(text) > longest or not texts.is_storable(text):
        raise InvalidLease(
            f"The value of {name} has at most {longest} characters, and no NUL.", name)
    return text


def read(session: Session, host_id: int) -> dict[str, str]:
    """Return the capabilities of a host, {property: value}."""
    return {row.property_name: row.capability_value
            for row in session.execute(_OF_HOST, {"of_host": host_id})}


def put(session: Session, host_id: int, capabilities: Mapping[str, str | None]) -> None:
    """Set capabilities of a host, and remove those that are None."""
    if not capabilities:
        return
    ids = {row.property_name: row.id
           for row in session.execute(_KNOWN, {"names": sorted(capabilities)})}
    new = {name: str(uuids.uuid4()) for name, value in capabilities.items()
           if value is not None and name not in ids}
    if new:
        session.execute(_ADD_NAMES, [
            {"id": id_, "resource_type": RESOURCE_TYPE, "property_name": name, "private": False}
            for name, id_ in new.items()])
    if ids:
        session.execute(_REMOVE, {"of_host": host_id, "property_ids": sorted(ids.values())})
    ids |= new
    rows = [{"computehost_id": host_id, "property_id": ids[name], "capability_value": value}
            for name, value in capabilities.items() if value is not None]
    if rows:
        session.execute(_ADD, rows)


def remove(session: Session, host_id: int) -> None:
    """Remove all capabilities of a host."""
    session.execute(_REMOVE_ALL, {"of_host": host_id})


def require_unused(session: Session, host_id: int, names: Collection[str], now: int) -> None:
    """Check that no reservation of a host requires one of some properties.

    :param now: in seconds since the epoch.
    :raises CapabilityInUse: a reservation that has the host now or later requires one.
    """
    if not names:
        return
    used = {name for row in session.execute(_REQUIREMENTS, {"of_host": host_id, "now": now})
            for name in _property_names(row) if name in names}
    if used:
        raise CapabilityInUse(
            f"{', '.join(sorted(used))} cannot change: reservations that hold this host now or "
            "later ask for that.")


def _property_names(row: sa.Row[Any]) -> frozenset[str]:
    return frozenset().union(*(topology.find_properties({"": text}) for text in row if text))
