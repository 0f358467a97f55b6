"""Read and change the inventories of migrated compute nodes, by nova's field names."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.compute import errors, tables
from placement_core.context import Context
from placement_core.placement import (
    errors as placement_errors,
    inventories,
    locks,
    resource_classes,
    tables as placement_tables,
)
from placement_core.placement.records import InventoryValues

#: {resource class: (the field with its amount, the field with its ratio)}.
FIELDS = {
    "VCPU": ("vcpus", "cpu_allocation_ratio"),
    "MEMORY_MB": ("memory_mb", "ram_allocation_ratio"),
    "DISK_GB": ("local_gb", "disk_allocation_ratio"),
}
_AMOUNTS = frozenset(amount for amount, _ in FIELDS.values())
_RATIOS = frozenset(ratio for _, ratio in FIELDS.values())

_migrated = tables.migrated_nodes
_providers = placement_tables.resource_providers
_inventories = placement_tables.inventories
_classes = placement_tables.resource_classes
_members = placement_tables.resource_provider_aggregates
_provider_traits = placement_tables.resource_provider_traits
_traits = placement_tables.traits

_NAMES = tuple(field.name for field in dataclasses.fields(InventoryValues))
_VALUES = tuple(_inventories.c[name] for name in _NAMES)

#: Reads the capacity of any number of nodes.
_OF_NODES = (
    sa.select(_migrated.c.cell_uuid, _migrated.c.node_id, _classes.c.name, *_VALUES)
    .select_from(
        _migrated.join(_providers, _providers.c.uuid == _migrated.c.uuid)
        .outerjoin(_inventories, _inventories.c.resource_provider_id == _providers.c.id)
        .outerjoin(_classes, _classes.c.id == _inventories.c.resource_class_id))
    .where(_migrated.c.uuid.in_(sa.bindparam("uuids", expanding=True)))
)
_OF_PROVIDER = (
    sa.select(_classes.c.name, *_VALUES)
    .join(_classes, _classes.c.id == _inventories.c.resource_class_id)
    .where(_inventories.c.resource_provider_id == sa.bindparam("provider_id"))
)
_PROVIDER = sa.select(_providers.c.id).where(_providers.c.uuid == sa.bindparam("of_uuid"))

_neighbour = _members.alias("neighbour")
_SHARING = (
    sa.select(_providers.c.uuid).distinct()
    .join(_members, _members.c.resource_provider_id == _providers.c.id)
    .join(_neighbour, sa.and_(_neighbour.c.aggregate_id == _members.c.aggregate_id,
                              _neighbour.c.resource_provider_id != _providers.c.id))
    .join(_provider_traits,
          _provider_traits.c.resource_provider_id == _neighbour.c.resource_provider_id)
    .join(_traits, sa.and_(_traits.c.id == _provider_traits.c.trait_id,
                           _traits.c.name == "MISC_SHARES_VIA_AGGREGATE"))
    .join(_inventories,
          _inventories.c.resource_provider_id == _neighbour.c.resource_provider_id)
    .join(_classes, sa.and_(_classes.c.id == _inventories.c.resource_class_id,
                            _classes.c.name == "DISK_GB"))
    .where(_providers.c.uuid.in_(sa.bindparam("uuids", expanding=True)))
)

#: {resource class: values}.
Capacity = Mapping[str, InventoryValues]


@db.retry_writes
def list_inventories(ctx: Context, uuids: Collection[str]) -> dict[tuple[str, int], Capacity]:
    """Return {(cell uuid, node id): inventories} of migrated nodes."""
    capacities: dict[tuple[str, int], dict[str, InventoryValues]] = {}
    if not uuids:
        return {}
    with db.read_once(ctx) as session:
        for row in session.execute(_OF_NODES, {"uuids": sorted(uuids)}):
            capacity = capacities.setdefault((row.cell_uuid, row.node_id), {})
            if row.name is not None:
                capacity[row.name] = _make_values(row)
    return dict(capacities)


@db.retry_writes
def find_on_shared_storage(ctx: Context, uuids: Collection[str]) -> set[str]:
    """Return the providers that use the disk of another provider through an aggregate."""
    if not uuids:
        return set()
    with db.read_once(ctx) as session:
        return set(session.execute(_SHARING, {"uuids": sorted(uuids)}).scalars())


def validate(changes: Mapping[str, Any]) -> None:
    """Check the new values of fields.

    :raises errors.InvalidComputeNode: a value is not valid.
    """
    for field, value in changes.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if field in _AMOUNTS:
            if not (is_number and isinstance(value, int) and 0 <= value <= locks.LARGEST_INTEGER):
                raise errors.InvalidComputeNode(field, "expected a whole number from 0 on")
        elif field in _RATIOS:
            if not (is_number and math.isfinite(value) and 0 < value <= inventories.LARGEST_RATIO):
                raise errors.InvalidComputeNode(field, "expected a number above 0")
        else:
            raise errors.InvalidComputeNode(field, "it is not a field that can be saved")


@db.retry_writes
def save(
    ctx: Context, uuid: str, changes: Mapping[str, Any], defaults: Capacity
) -> None:
    """Write changed fields of a migrated node into its inventories.

    ``max_unit`` is set to the new amount, too, unless it was less than the old one.

    :param defaults: values for inventories that do not exist yet.
    :raises errors.ComputeNodeNotFound: the provider was deleted meanwhile.
    :raises placement_errors.InventoryInUse: an amount is 0, but there are allocations from it.
    """
    with db.write(ctx) as session:
        provider_id = session.execute(_PROVIDER, {"of_uuid": uuid}).scalar()
        if provider_id is None:
            raise errors.ComputeNodeNotFound(uuid)
        locks.lock_providers(session, {provider_id: 1})
        present = {row.name: _make_values(row) for row in session.execute(
            _OF_PROVIDER, {"provider_id": provider_id})}
        new = {}
        for name, (amount, ratio) in FIELDS.items():
            if amount in changes or ratio in changes:
                new[name] = _change_inventory(
                    present.get(name), defaults.get(name), changes.get(amount),
                    changes.get(ratio))
        ids = resource_classes.ids(session, new)
        removed = {ids[name] for name, values in new.items()
                   if values is None and name in present}
        if used := inventories.find_used_classes(session, provider_id, removed):
            raise placement_errors.InventoryInUse(uuid, used)
        inventories.remove(session, provider_id, removed)
        inventories.put(session, provider_id, {
            ids[name]: values for name, values in new.items() if values is not None})


def _make_values(row: sa.Row[Any]) -> InventoryValues:
    return InventoryValues(*(getattr(row, name) for name in _NAMES))


def _change_inventory(
    present: InventoryValues | None, default: InventoryValues | None, amount: int | None,
    ratio: float | None,
) -> InventoryValues | None:
    """Return an inventory with another amount or ratio, or None if the amount is 0."""
    before = present or default
    total = amount if amount is not None else (present.total if present else 0)
    if not total:
        return None
    if before is None:
        before = InventoryValues(total=total, max_unit=total)
    bounded = before.max_unit < before.total
    return dataclasses.replace(
        before, total=total, reserved=min(before.reserved, total),
        max_unit=min(before.max_unit, total) if bounded else total,
        allocation_ratio=before.allocation_ratio if ratio is None else float(ratio))
