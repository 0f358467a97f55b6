"""Reshaping: inventories and the allocations on them move together.

For example VGPU inventory that moves from a host to a child provider, with the
allocations of every instance, without a moment in which either is wrong.
Source: spec placement_api §3.12.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.placement import (
    errors,
    inventories as inventory_records,
    locks,
    records,
    resource_classes,
    tables,
)
from placement_core.placement.allocations import applying, consumers, loaded, plan, reserved_trees
from placement_core.placement.allocations.refusals import explained
from placement_core.placement.allocations.write import check_providers

#: {provider uuid: (its generation as the caller saw it, {resource class: values})}
NewInventories = Mapping[str, tuple[int, Mapping[str, records.InventoryValues]]]

#: Told of a transaction, and what it makes consumers hold.
Rewriting = Callable[[db.Session, Sequence[records.AllocationWrite]], None]

_providers = tables.resource_providers
_GENERATIONS = sa.select(_providers.c.uuid, _providers.c.generation).where(
    _providers.c.uuid.in_(sa.bindparam("uuids", expanding=True)))


@db.retry_writes
def reshape(
    ctx: Context, inventories: NewInventories, writes: Sequence[records.AllocationWrite], *,
    fence: reserved_trees.Fence | None = None, rewriting: Rewriting | None = None,
) -> None:
    """Give providers these inventories and consumers these allocations, as one.

    Amounts are judged by the new inventories, and by the old ones of classes
    that the new ones lack; those must be free of allocations in the end.

    :param inventories: all inventories that each named provider shall have.
    :param fence: lets in who claims of pooled trees; None: everybody is let in.
    :param rewriting: called in the transaction, with the rows of the consumers held, before
        what they hold is written anew.
    :raises errors.ReshapedProviderNotFound, errors.ReshapedProviderConflict,
        errors.InventoryInUse, and what ``allocations.replace`` raises: nothing
        was changed.
    """
    new = {uuid: _in_range(uuid, made) for uuid, (_, made) in inventories.items()}
    seen = {uuid: generation for uuid, (generation, _) in inventories.items()}
    consumers.ensure_owners(ctx, writes)
    with explained(ctx, writes, new), db.write(ctx) as session:
        # Before the consumers, because clients expect this refusal first.
        _check_generations(session, seen)
        with consumers.remembering(ctx.database):
            existed = consumers.hold(session, writes)
            known = loaded.read(
                session, writes, existed=bool(existed), more_providers=new,
                more_classes={name for made in new.values() for name in made})
            _check_names(writes, new, known)
            loaded.hold_pairs(session, known, writes)
            planned = plan.plan(writes, known, existed)
        if rewriting is not None:
            rewriting(session, writes)
        applying.write_allocations(session, planned)
        if fence is not None:
            reserved_trees.hold_roots(known, planned)
        steps = {known.providers[uuid]: 2 if made else 1 for uuid, made in new.items()}
        for provider, step in planned.steps.items():
            steps[provider] = steps.get(provider, 0) + step
        locks.hold(session, steps)
        if fence is not None:
            reserved_trees.judge(session, fence, writes, known, planned)
        _check_generations(session, seen, {
            uuid: steps[known.providers[uuid]] for uuid in seen})
        wanted = {
            known.providers[uuid]: {known.classes[name]: values for name, values in made.items()}
            for uuid, made in new.items()}
        resource_classes.hold(session, {
            resource_class for made in wanted.values() for resource_class in made})
        for provider, made in sorted(wanted.items()):
            inventory_records.put(session, provider, made)
        applying.move_used(session, planned, None if fence is None else known.pooled)
        for uuid in new:
            _drop_others(session, uuid, known.providers[uuid], wanted[known.providers[uuid]])
        applying.count(ctx, session, planned)


def _in_range(
    uuid: str, made: Mapping[str, records.InventoryValues]
) -> dict[str, records.InventoryValues]:
    checked = {}
    for name, values in made.items():
        possible = inventory_records.in_range(values)
        if possible is None:
            raise errors.InvalidInventory(uuid, name, "A value is out of range.", verb="update")
        checked[name] = possible
    return checked


def _check_generations(
    session: db.Session, seen: Mapping[str, int], raised: Mapping[str, int] | None = None
) -> None:
    """Compare the providers' generations with what the caller saw.

    :param raised: how far this transaction raised each already.
    """
    found = {row.uuid: row.generation
             for row in session.execute(_GENERATIONS, {"uuids": sorted(seen)})}
    for uuid, generation in seen.items():
        if uuid not in found:
            raise errors.ReshapedProviderNotFound(uuid)
        actual = found[uuid] - (raised or {}).get(uuid, 0)
        if actual != generation:
            raise errors.ReshapedProviderConflict(uuid, actual, generation)


def _check_names(
    writes: Sequence[records.AllocationWrite], new: Mapping[str, Mapping[str, object]],
    known: loaded.Facts,
) -> None:
    for uuid in new:
        if uuid not in known.providers:
            raise errors.ReshapedProviderNotFound(uuid)
    check_providers(writes, known)
    unknown = [name for made in new.values() for name in made if name not in known.classes]
    for write in writes:
        unknown += known.unknown_classes(write)
    for name in unknown:
        raise errors.UnknownResourceClass(name, prefix="malformed reshaper data: ")


def _drop_others(
    session: db.Session, uuid: str, provider: int, wanted: Collection[int]
) -> None:
    gone = inventory_records.present(session, provider) - set(wanted)
    used = inventory_records.in_use(session, provider, gone)
    if used:
        raise errors.InventoryInUse(uuid, used, prefix="update conflict: ")
    inventory_records.remove(session, provider, gone)
