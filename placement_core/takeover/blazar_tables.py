"""What is read of Blazar's tables, and what is the same for all rows.

Source: Blazar's schema, revision ``SCHEMA``.
"""

from __future__ import annotations

import collections
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa

from placement_core.takeover.records import FLOATING_IP, HOST_INVENTORY, HOST_TRAIT

#: What it is called on the command line, and where what was copied is remembered.
SOURCE = "blazar"
#: The head of the schema, of Blazar 18.0.0.
SCHEMA = frozenset({"553383923ca0"})

#: The types of what is reserved.
INSTANCE, WHOLE_HOST = "virtual:instance", "physical:host"

_TYPES: Mapping[str, sa.types.TypeEngine[Any]] = {
    **dict.fromkeys(("created_at", "updated_at", "start_date", "end_date", "time"),
                    sa.DateTime()),
    **dict.fromkeys(("reservable", "private", "degraded", "missing_resources",
                     "resources_changed", "affinity"), sa.Boolean())}


def _table(name: str, *columns: str) -> sa.TableClause:
    return sa.table(name, *(
        sa.column(column, _TYPES.get(column)) for column in ("id", *columns)))


_TIMES = ("created_at", "updated_at")
#: What is read of its tables.
TABLES = (
    _table("computehosts", *_TIMES, "hypervisor_hostname", "hypervisor_type",
           "hypervisor_version", "cpu_info", "service_name", "availability_zone", "trust_id",
           "reservable"),
    _table("resource_properties", "resource_type", "property_name", "private"),
    _table("computehost_extra_capabilities", *_TIMES, "computehost_id", "property_id",
           "capability_value"),
    _table("leases", *_TIMES, "name", "user_id", "project_id", "start_date", "end_date",
           "trust_id", "status", "degraded"),
    _table("reservations", *_TIMES, "lease_id", "resource_id", "resource_type", "status",
           "missing_resources", "resources_changed"),
    _table("events", *_TIMES, "lease_id", "event_type", "time", "status"),
    _table("computehost_reservations", "reservation_id", "aggregate_id", "resource_properties",
           "count_range", "hypervisor_properties", "before_end"),
    _table("instance_reservations", "reservation_id", "vcpus", "memory_mb", "disk_gb", "amount",
           "affinity", "resource_properties", "flavor_id", "aggregate_id", "server_group_id"),
    _table("computehost_allocations", "compute_host_id", "reservation_id"),
)

#: {table: (kind, why its rows stay in Blazar)}.
LEFT: Mapping[str, tuple[str, str]] = {
    "computehost_resource_inventory": (
        HOST_INVENTORY, "a host has the inventories of its resource provider here"),
    "computehost_trait": (
        HOST_TRAIT, "a host has the traits of its resource provider here"),
    "floatingips": (
        FLOATING_IP, "addresses are not reserved here, and leases of them are not copied"),
}

Row: TypeAlias = Mapping[str, Any]
#: {name: rows, in the order of their creation where it is known}.
Tables: TypeAlias = Mapping[str, Sequence[Row]]


def group_rows(rows: Iterable[Row], key: str) -> dict[str, list[Row]]:
    """Return rows by their value of a column."""
    groups: dict[str, list[Row]] = collections.defaultdict(list)
    for row in rows:
        groups[row[key]].append(row)
    return groups


def cut_time(at: datetime.datetime) -> datetime.datetime:
    """Return a time in whole seconds: some databases have no parts of them."""
    return at.replace(microsecond=0)


def write_time(at: datetime.datetime | None) -> str | None:
    """Return the text of a time in whole seconds, as records have it."""
    return None if at is None else cut_time(at).isoformat()
