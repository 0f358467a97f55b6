"""Inventories: how much of each class a provider has.

Everything here is decided under the provider's row. A record that stays is
changed in place, because it carries ``used``, what the allocations take from
it; one that is new starts with nothing used; one that allocations stand
against is not removed. ``capacity`` is computed here, once, from the ratio as
it was given: MySQL keeps ratios in single precision.
Source: spec placement_api §3.4 and §3.5.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import PreparedRead, Session
from placement_core.db.metadata import utcnow
from placement_core.placement import errors, locks, lookups, resource_classes, tables
from placement_core.placement.records import Inventory, InventoryValues, ProviderInventories

#: What ``inventories.capacity`` can hold.
LARGEST_CAPACITY = 2**63 - 1
#: What MySQL's FLOAT can hold, as the API's schema says it.
LARGEST_RATIO = 3.40282e38

_NO_CAPACITY = "The reserved value is greater than or equal to total."
_NEGATIVE_CAPACITY = "The reserved value is greater than total."
_OUT_OF_RANGE = "A value is out of range."

_inventories = tables.inventories
_providers = tables.resource_providers
_classes = tables.resource_classes
_allocations = tables.allocations

_FIELDS = tuple(field.name for field in dataclasses.fields(InventoryValues))
_COUNTS = tuple(name for name in _FIELDS if name != "allocation_ratio")
_WRITTEN = (*_FIELDS, "capacity")

_OF_PROVIDER = PreparedRead(
    sa.select(
        _providers.c.uuid, _providers.c.generation, _classes.c.name.label("resource_class"),
        _inventories.c.used, _inventories.c.created_at, _inventories.c.updated_at,
        *(_inventories.c[name] for name in _FIELDS))
    .select_from(
        _providers
        .outerjoin(_inventories, _inventories.c.resource_provider_id == _providers.c.id)
        .outerjoin(_classes, _classes.c.id == _inventories.c.resource_class_id))
    .where(_providers.c.uuid == sa.bindparam("uuid"))
    .order_by(_inventories.c.resource_class_id)
)
_PRESENT = sa.select(
    _inventories.c.id, _inventories.c.resource_class_id,
    *(_inventories.c[name] for name in _WRITTEN),
).where(_inventories.c.resource_provider_id == sa.bindparam("provider_id"))
_OF_CLASS = sa.select(_inventories.c.id, _inventories.c.resource_provider_id).where(
    _inventories.c.resource_class_id == sa.bindparam("class_id"),
    _inventories.c.resource_provider_id.in_(sa.bindparam("provider_ids", expanding=True)))
_ANY = sa.select(_inventories.c.id).where(
    _inventories.c.resource_class_id == sa.bindparam("class_id")).limit(1)
_INSERT = sa.insert(_inventories)
_UPDATE = (
    sa.update(_inventories).where(_inventories.c.id == sa.bindparam("inventory_id"))
    .values({name: sa.bindparam(f"new_{name}") for name in _WRITTEN})
)
_DELETE = sa.delete(_inventories).where(
    _inventories.c.resource_provider_id == sa.bindparam("provider_id"),
    _inventories.c.resource_class_id.in_(sa.bindparam("class_ids", expanding=True)))
_IN_USE = (
    sa.select(_allocations.c.resource_class_id, _classes.c.name)
    .select_from(_allocations.outerjoin(
        _classes, _classes.c.id == _allocations.c.resource_class_id))
    .where(_allocations.c.resource_provider_id == sa.bindparam("provider_id"),
           _allocations.c.resource_class_id.in_(sa.bindparam("class_ids", expanding=True)))
    .distinct().order_by(_allocations.c.resource_class_id)
)


def capacity(values: InventoryValues) -> int:
    """Return how much of an inventory can be claimed; it may exceed 64 bits."""
    return int((values.total - values.reserved) * values.allocation_ratio)


def stored_capacity(values: InventoryValues) -> int:
    """Return ``capacity`` as far as the column can hold it."""
    return max(-LARGEST_CAPACITY, min(LARGEST_CAPACITY, capacity(values)))


def normalize(values: InventoryValues) -> InventoryValues | None:
    """Return ``values`` as whole numbers and a float; None if no row can hold them."""
    try:
        counts = {name: int(getattr(values, name)) for name in _COUNTS}
        ratio = float(values.allocation_ratio)
    except (OverflowError, TypeError, ValueError):
        return None
    for name, count in counts.items():
        smallest = 0 if name == "reserved" else 1
        if count != getattr(values, name) or not smallest <= count <= locks.LARGEST_INTEGER:
            return None
    if not math.isfinite(ratio) or abs(ratio) > LARGEST_RATIO:
        return None
    return InventoryValues(**counts, allocation_ratio=ratio)


@db.retry_writes
def list_(ctx: Context, provider_uuid: str) -> ProviderInventories:
    """Return the inventories of a provider, in the order of the class ids.

    :raises errors.ProviderNotFound: no such provider.
    """
    return _read_provider(ctx, provider_uuid)


def get(ctx: Context, provider_uuid: str, resource_class: str) -> tuple[Inventory, int]:
    """Return an inventory and the generation of its provider.

    :raises errors.ProviderNotFound: no such provider.
    :raises errors.InventoryNotFound: it has none of that class.
    """
    return _pick(list_(ctx, provider_uuid), provider_uuid, resource_class)


@db.retry_writes
def create(
    ctx: Context, provider_uuid: str, resource_class: str, values: InventoryValues, *,
    allow_fully_reserved: bool,
) -> tuple[Inventory, int]:
    """Give a provider inventory of a class that it has none of.

    :param allow_fully_reserved: accept a capacity of 0.
    :returns: the inventory and the provider's new generation.
    :raises errors.ProviderNotFound: no such provider.
    :raises errors.InvalidInventory: the values leave no capacity.
    :raises errors.UnknownResourceClass: no such class.
    :raises errors.InventoryExists: it already has inventory of the class.
    """
    with db.write(ctx) as session:
        provider = lookups.get_provider(session, provider_uuid)
        values = _check(provider_uuid, resource_class, values, allow_fully_reserved, "create")
        prefix = f"Unable to create inventory for resource provider {provider_uuid}: "
        class_ids = _find_class_ids(session, [resource_class], prefix)
        locks.lock_providers(session, {provider.id: 1})
        class_id = class_ids[resource_class]
        if class_id in read_class_ids(session, provider.id):
            raise errors.InventoryExists(provider_uuid, resource_class)
        put(session, provider.id, {class_id: values})
        return _fill_in(_read_provider(ctx, provider_uuid), provider_uuid, resource_class, values)


@db.retry_writes
def update(
    ctx: Context, provider_uuid: str, resource_class: str, values: InventoryValues, *,
    generation: int, allow_fully_reserved: bool,
) -> tuple[Inventory, int]:
    """Replace the values of one inventory.

    :param generation: the provider's, as the caller last saw it.
    :returns: the inventory and the provider's new generation.
    :raises errors.ProviderNotFound: no such provider.
    :raises errors.ProviderGenerationConflict: its generation is another.
    :raises errors.InvalidInventory: the values leave no capacity.
    :raises errors.ResourceClassNotFound: no such class.
    :raises errors.InventoryNotThere: the provider has none of the class.
    """
    with db.write(ctx) as session:
        provider = _lock_at_generation(session, provider_uuid, generation)
        values = _check(provider_uuid, resource_class, values, allow_fully_reserved, "update")
        class_id = resource_classes.ids(session, [resource_class]).get(resource_class)
        if class_id is None:
            raise errors.ResourceClassNotFound(resource_class)
        if class_id not in read_class_ids(session, provider.id):
            raise errors.InventoryNotThere(provider_uuid, resource_class)
        put(session, provider.id, {class_id: values})
        return _fill_in(_read_provider(ctx, provider_uuid), provider_uuid, resource_class, values)


@db.retry_writes
def replace(
    ctx: Context, provider_uuid: str, inventories: Mapping[str, InventoryValues], *,
    generation: int, allow_fully_reserved: bool,
) -> ProviderInventories:
    """Give a provider these inventories and no others.

    :param generation: the provider's, as the caller last saw it.
    :raises errors.ProviderNotFound: no such provider.
    :raises errors.ProviderGenerationConflict: its generation is another.
    :raises errors.InvalidInventory: some values leave no capacity.
    :raises errors.UnknownResourceClass: no such class.
    :raises errors.InventoryInUse: allocations stand against what would go.
    """
    with db.write(ctx) as session:
        provider = _lock_at_generation(session, provider_uuid, generation)
        checked = {
            name: _check(provider_uuid, name, values, allow_fully_reserved, "update")
            for name, values in inventories.items()}
        prefix = f"Unknown resource class in inventory for resource provider {provider_uuid}: "
        class_ids = _find_class_ids(session, checked, prefix)
        by_class = {class_ids[name]: values for name, values in checked.items()}
        gone = read_class_ids(session, provider.id) - by_class.keys()
        _refuse_in_use(session, provider, gone, prefix="update conflict: ")
        remove(session, provider.id, gone)
        put(session, provider.id, by_class)
        written = _read_provider(ctx, provider_uuid)
    return dataclasses.replace(written, inventories=tuple(
        dataclasses.replace(
            inventory, values=checked.get(inventory.resource_class, inventory.values))
        for inventory in written.inventories))


@db.retry_writes
def delete(ctx: Context, provider_uuid: str, resource_class: str) -> None:
    """Remove one inventory.

    :raises errors.ProviderNotFound: no such provider.
    :raises errors.InventoryNotFoundForDelete: it has none of that class.
    :raises errors.InventoryInUse: allocations stand against it.
    """
    with db.write(ctx) as session:
        provider = lookups.get_provider(session, provider_uuid)
        locks.lock_providers(session, {provider.id: 1})
        class_id = resource_classes.ids(session, [resource_class]).get(resource_class)
        if class_id is None:
            raise errors.InventoryNotFoundForDelete(
                provider_uuid, resource_class, f"No such resource class {resource_class}.")
        if class_id not in read_class_ids(session, provider.id):
            raise errors.InventoryNotFoundForDelete(
                provider_uuid, resource_class, f"{provider_uuid} has none.")
        _refuse_in_use(
            session, provider, {class_id}, code=errors.CONCURRENT_UPDATE,
            prefix=f"Unable to delete inventory of class {resource_class}: ")
        remove(session, provider.id, {class_id})


@db.retry_writes
def delete_all(ctx: Context, provider_uuid: str) -> None:
    """Remove every inventory of a provider; its generation rises in any case.

    :raises errors.ProviderNotFound: no such provider.
    :raises errors.InventoryInUse: allocations stand against some.
    """
    with db.write(ctx) as session:
        provider = lookups.get_provider(session, provider_uuid)
        locks.lock_providers(session, {provider.id: 1})
        gone = read_class_ids(session, provider.id)
        _refuse_in_use(session, provider, gone)
        remove(session, provider.id, gone)


# For writes that hold the provider's row ------------------------------------


@db.retry_writes
def has_class(ctx: Context, resource_class: str) -> bool:
    """Return whether a provider has inventory of a class."""
    with db.read(ctx) as session:
        class_ids = resource_classes.ids(session, [resource_class])
        return resource_class in class_ids and session.execute(
            _ANY, {"class_id": class_ids[resource_class]}).first() is not None


def read_class_ids(session: Session, provider_id: int) -> set[int]:
    """Return the ids of the classes a held provider has inventory of."""
    class_rows = session.execute(_PRESENT, {"provider_id": provider_id})
    return {row.resource_class_id for row in class_rows}


def find_used_classes(session: Session, provider_id: int, class_ids: Collection[int]) -> list[str]:
    """Return the names of those classes that have allocations, by class id.

    The allocations themselves are asked: ``used`` of an adopted database is
    only as good as the audit.
    """
    if not class_ids:
        return []
    class_rows = session.execute(
        _IN_USE, {"provider_id": provider_id, "class_ids": sorted(class_ids)})
    return [row.name or str(row.resource_class_id) for row in class_rows]


def put(session: Session, provider_id: int, by_class: Mapping[int, InventoryValues]) -> None:
    """Insert or change inventories of a held provider; others stay as they are.

    A transaction that puts inventories of several providers must hold all
    their classes (``resource_classes.lock_classes``) before the first.

    :param by_class: {class id: values that ``normalize`` returned}.
    """
    before = {row.resource_class_id: row
             for row in session.execute(_PRESENT, {"provider_id": provider_id})}
    written = {class_id: dataclasses.asdict(values) | {"capacity": stored_capacity(values)}
               for class_id, values in by_class.items()}
    changed = [
        {"inventory_id": before[class_id].id} | {f"new_{name}": row[name] for name in _WRITTEN}
        for class_id, row in written.items()
        if class_id in before
        and any(getattr(before[class_id], name) != row[name] for name in _WRITTEN)]
    if changed:
        session.execute(_UPDATE, changed)
    new = sorted(written.keys() - before.keys())
    if new:
        resource_classes.lock_classes(session, new)
        now = utcnow()
        session.execute(_INSERT, [
            written[class_id] | {"resource_provider_id": provider_id, "used": 0,
                                 "resource_class_id": class_id, "created_at": now}
            for class_id in new])


def put_class(
    session: Session, class_id: int, by_provider: Mapping[int, InventoryValues], *,
    is_new: bool = False,
) -> None:
    """Insert or change inventories of one held class on held providers.

    :param by_provider: {provider id: values that ``normalize`` returned}.
    :param is_new: nobody has inventory of the class.
    """
    ids = {} if is_new else {
        row.resource_provider_id: row.id for row in session.execute(
            _OF_CLASS, {"class_id": class_id, "provider_ids": sorted(by_provider)})}
    now = utcnow()
    rows = {key: dataclasses.asdict(values) | {"capacity": stored_capacity(values)}
            for key, values in by_provider.items()}
    changed = [
        {"inventory_id": ids[key]} | {f"new_{name}": rows[key][name] for name in _WRITTEN}
        for key in sorted(ids)]
    if changed:
        session.execute(_UPDATE, changed)
    new = [rows[key] | {"resource_provider_id": key, "used": 0, "resource_class_id": class_id,
                        "created_at": now} for key in sorted(rows.keys() - ids.keys())]
    if new:
        session.execute(_INSERT, new)


def remove(session: Session, provider_id: int, class_ids: Iterable[int]) -> None:
    """Remove inventories of a held provider that nothing is allocated from."""
    gone = sorted(class_ids)
    if gone:
        session.execute(_DELETE, {"provider_id": provider_id, "class_ids": gone})


def _lock_at_generation(session: Session, uuid: str, generation: int) -> sa.Row[Any]:
    provider = lookups.get_provider(session, uuid)
    if not locks.lock_at_generation(session, provider.id, seen=generation, step=1):
        raise errors.ProviderGenerationConflict(uuid, errors.STALE_INVENTORY_GENERATION)
    return provider


def _refuse_in_use(
    session: Session, provider: sa.Row[Any], class_ids: Collection[int], **wording: str,
) -> None:
    names = find_used_classes(session, provider.id, class_ids)
    if names:
        raise errors.InventoryInUse(provider.uuid, names, **wording)


def _check(
    uuid: str, resource_class: str, values: InventoryValues, allow_fully_reserved: bool, verb: str,
) -> InventoryValues:
    """Return values that a row can hold and that leave capacity."""
    checked = normalize(values)
    if checked is None:
        raise errors.InvalidInventory(uuid, resource_class, _OUT_OF_RANGE, verb=verb)
    usable = capacity(checked)
    if usable < 0 and allow_fully_reserved:
        raise errors.InvalidInventory(uuid, resource_class, _NEGATIVE_CAPACITY, verb=verb)
    if usable <= 0 and not allow_fully_reserved:
        raise errors.InvalidInventory(uuid, resource_class, _NO_CAPACITY, verb=verb)
    return checked


def _find_class_ids(session: Session, names: Collection[str], prefix: str) -> dict[str, int]:
    class_ids = resource_classes.ids(session, names)
    for name in names:
        if name not in class_ids:
            raise errors.UnknownResourceClass(name, prefix=prefix)
    return class_ids


def _read_provider(ctx: Context, uuid: str) -> ProviderInventories:
    inventory_rows = lookups.fetch_of_provider(ctx, _OF_PROVIDER, uuid)
    return ProviderInventories(inventory_rows[0].generation, tuple(
        Inventory(
            row.resource_class, InventoryValues(*(getattr(row, name) for name in _FIELDS)),
            used=row.used, created_at=row.created_at, updated_at=row.updated_at)
        for row in inventory_rows if row.resource_class is not None))


def _pick(
    inventories: ProviderInventories, uuid: str, resource_class: str,
) -> tuple[Inventory, int]:
    for inventory in inventories.inventories:
        if inventory.resource_class == resource_class:
            return inventory, inventories.generation
    raise errors.InventoryNotFound(uuid, resource_class)


def _fill_in(
    inventories: ProviderInventories, uuid: str, resource_class: str, values: InventoryValues,
) -> tuple[Inventory, int]:
    """Pick an inventory and show its values as they were given, not as they are kept."""
    inventory, generation = _pick(inventories, uuid, resource_class)
    return dataclasses.replace(inventory, values=values), generation
