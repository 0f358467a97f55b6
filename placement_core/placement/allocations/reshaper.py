"""The reshaper: moves inventories and their allocations in one transaction.

For example, VGPU inventory and the allocations of all instances move from a host to a child
provider, without a moment in which they are inconsistent.
Source: spec placement_api §3.12.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import lists
from placement_core.placement import (
    errors,
    inventories as inventory_records,
    resource_classes,
    tables,
)
from placement_core.placement.allocations import refusals
from placement_core.placement.allocations.gates import Check, Gate, WriteRequest
from placement_core.placement.allocations.loaded import LoadedRows
from placement_core.placement.allocations.owners import Owners, normalize_owners
from placement_core.placement.allocations.unit_of_work import carry_out, unit_of_work
from placement_core.placement.records import AllocationWrite, InventoryValues, NewInventories

_providers = tables.resource_providers
_GENERATIONS = sa.select(_providers.c.uuid, _providers.c.generation).where(
    lists.among_many(_providers.c.uuid, "uuids"))


def reshape(
    ctx: Context, inventories: NewInventories, writes: Sequence[AllocationWrite],
    gates: Sequence[Gate] = (), owners: Owners | None = None,
) -> None:
    """Replace inventories of providers and allocations of consumers in one transaction.

    Amounts are checked against the new inventories, and against the old ones of classes that are
    not among the new ones; the latter must have no allocations at the end.

    :param inventories: the complete new inventories of each named provider.
    :param owners: None: ids of owners are not cached.
    :raises errors.InvalidInventory, errors.ReshapedProviderNotFound,
        errors.ReshapedProviderConflict, errors.InventoryInUse, and the errors of ``replace``:
        nothing was changed.
    """
    carry_out(_reshape, ctx, WriteRequest(normalize_owners(ctx, writes), {
        uuid: (generation, _check_range(uuid, new_values))
        for uuid, (generation, new_values) in inventories.items()}), gates, owners or Owners())


@db.retry_writes
def _reshape(
    ctx: Context, request: WriteRequest, gates: Sequence[Gate], owners: Owners
) -> Sequence[Check]:
    inventories = request.inventories or {}
    seen = {uuid: generation for uuid, (generation, _) in inventories.items()}
    with unit_of_work(ctx, request, gates, owners) as unit:
        # Before the consumers, because clients expect this refusal first.
        _check_generations(unit.session, seen)
        rows = unit.load(providers=inventories, classes={
            name for _, new_values in inventories.values() for name in new_values})
        _check_names(request.writes, inventories, rows)
        unit.plan()
        by_id = _index_by_id(inventories, rows)
        raised = unit.lock_providers({
            provider: 2 if new_values else 1 for provider, new_values in by_id.items()})
        _check_generations(unit.session, seen, {
            uuid: raised[rows.providers[uuid]] for uuid in seen})
        _put(unit.session, by_id)
        unit.apply()
        for uuid in inventories:
            _drop_others(unit.session, uuid, rows.providers[uuid], by_id[rows.providers[uuid]])
        unit.count()
    return unit.checks


def _check_range(
    uuid: str, new_values: Mapping[str, InventoryValues]
) -> dict[str, InventoryValues]:
    checked = {}
    for name, values in new_values.items():
        stored = inventory_records.normalize(values)
        if stored is None:
            raise errors.InvalidInventory(uuid, name, "A value is out of range.", verb="update")
        checked[name] = stored
    return checked


def _check_generations(
    session: db.Session, seen: Mapping[str, int], raised: Mapping[str, int] | None = None
) -> None:
    """Compare the providers' generations with those that the caller expects.

    :param raised: the increments of this transaction.
    """
    generations = {row.uuid: row.generation
                   for row in session.execute(_GENERATIONS, {"uuids": sorted(seen)})}
    for uuid, generation in seen.items():
        if uuid not in generations:
            raise errors.ReshapedProviderNotFound(uuid)
        actual = generations[uuid] - (raised or {}).get(uuid, 0)
        if actual != generation:
            raise errors.ReshapedProviderConflict(uuid, actual, generation)


def _check_names(
    writes: Sequence[AllocationWrite], inventories: NewInventories, rows: LoadedRows
) -> None:
    for uuid in inventories:
        if uuid not in rows.providers:
            raise errors.ReshapedProviderNotFound(uuid)
    refusals.check_providers(writes, rows)
    unknown = [name for _, new_values in inventories.values() for name in new_values
               if name not in rows.classes]
    for write in writes:
        unknown += rows.unknown_classes(write)
    for name in unknown:
        raise errors.UnknownResourceClass(name, prefix="malformed reshaper data: ")


def _index_by_id(
    inventories: NewInventories, rows: LoadedRows
) -> dict[int, dict[int, InventoryValues]]:
    """Return the inventories by the ids of providers and classes."""
    return {
        rows.providers[uuid]: {rows.classes[name]: values for name, values in new_values.items()}
        for uuid, (_, new_values) in inventories.items()}


def _put(session: db.Session, inventories: Mapping[int, Mapping[int, InventoryValues]]) -> None:
    resource_classes.lock_classes(session, {
        resource_class for new_values in inventories.values() for resource_class in new_values})
    for provider, new_values in sorted(inventories.items()):
        inventory_records.put(session, provider, new_values)


def _drop_others(
    session: db.Session, uuid: str, provider: int, class_ids: Collection[int]
) -> None:
    gone = inventory_records.read_class_ids(session, provider) - set(class_ids)
    used = inventory_records.find_used_classes(session, provider, gone)
    if used:
        raise errors.InventoryInUse(uuid, used, prefix="update conflict: ")
    inventory_records.remove(session, provider, gone)
