"""Compute the changes of a write of allocations, without a session; ``applying`` writes them."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import os_resource_classes as orc

from placement_core.db import TransactionConflict
from placement_core.placement import tables
from placement_core.placement.allocations import moves, usage_counters
from placement_core.placement.allocations.loaded import Cell, LoadedRows, Owner
from placement_core.placement.allocations.owners import OwnerMissing
from placement_core.placement.records import AllocationWrite

#: The owner of a consumer without a row.
_NOBODY: Owner = (0, 0, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class NewAllocation:
    """An allocation after the write: the amount of one class for a consumer on a provider.

    :ivar kept_id: of the row that has held it before, too; None: it is to be inserted.
    """

    consumer_uuid: str
    cell: Cell
    used: int
    kept_id: int | None = None


@dataclasses.dataclass(slots=True)
class WritePlan:
    """The changes of a write.

    :ivar ended: ids of the allocations to delete.
    :ivar begun: the allocations of the consumers after the write.
    :ivar deltas: {cell: change of ``used``}, with 0 where only the bounds are checked.
    :ivar steps: {provider id: increment of its generation}.
    :ivar counters: changes of the usage counters.
    :ivar moved: {consumer uuid: its new owner}.
    :ivar emptied: consumers without allocations after the write.
    :ivar owners: {consumer uuid: its owner}, of consumers with allocations after the write.
    :ivar pairs: changes of pairs.
    :ivar consumers: {consumer uuid: the projects that own it before and after the write}, by the
        ids that clients know; without an owner none. For the change log.
    """

    ended: list[int] = dataclasses.field(default_factory=list)
    begun: list[NewAllocation] = dataclasses.field(default_factory=list)
    deltas: collections.Counter[Cell] = dataclasses.field(default_factory=collections.Counter)
    steps: dict[int, int] = dataclasses.field(default_factory=dict)
    counters: collections.Counter[usage_counters.Key] = dataclasses.field(
        default_factory=collections.Counter)
    moved: dict[str, Owner] = dataclasses.field(default_factory=dict)
    emptied: list[str] = dataclasses.field(default_factory=list)
    owners: dict[str, Owner] = dataclasses.field(default_factory=dict)
    pairs: list[moves.PairChange] = dataclasses.field(default_factory=list)
    consumers: dict[str, set[str]] = dataclasses.field(default_factory=dict)


class CapacityShort(Exception):
    """The inventories do not allow the changes of a plan; ``refusals`` finds the reason."""

    def __init__(self, plan: WritePlan) -> None:
        super().__init__("an inventory is short")
        self.plan = plan


def plan_writes(
    writes: Sequence[AllocationWrite], rows: LoadedRows, existed: set[str], *,
    raise_generations: bool = True,
) -> WritePlan:
    """Compute the changes of ``writes``, from the loaded rows and the consumers that existed.

    The loaded rows must contain all providers and classes of the writes.

    :param raise_generations: whether the generations of providers are incremented; not for
        DELETE.
    """
    plan = WritePlan()
    holdings = {}
    for write in writes:
        before = rows.held.get(write.consumer_uuid, {})
        after = _collect_wanted(write, rows)
        _plan_amounts(plan, before, after, rows.uncounted)
        _plan_steps(plan, before, after, raise_generations)
        _plan_owner(plan, write, rows, write.consumer_uuid in existed, before, after)
        _plan_rows(plan, write.consumer_uuid, rows, write.consumer_uuid in existed, after)
        project, user, _ = plan.owners.get(
            write.consumer_uuid, rows.owners.get(write.consumer_uuid, _NOBODY))
        if before or after:
            plan.consumers[write.consumer_uuid] = _find_projects(write, rows, after)
            holdings[write.consumer_uuid] = moves.ConsumerChange(before, after, project, user)
    plan.counters = collections.Counter({
        key: change for key, change in plan.counters.items() if change})
    plan.pairs = moves.plan_pairs(
        rows.pairs, holdings, rows.others, rows.classes.get(orc.MEMORY_MB))
    return plan


def merge_plans(plans: Iterable[WritePlan]) -> WritePlan:
    """Return the changes of several writes of one transaction, with consumers of their own."""
    merged = WritePlan()
    for plan in plans:
        merged.ended += plan.ended
        merged.begun += plan.begun
        merged.moved |= plan.moved
        merged.emptied += plan.emptied
        merged.owners |= plan.owners
        merged.pairs += plan.pairs
        merged.consumers |= plan.consumers
        for cell, delta in plan.deltas.items():
            merged.deltas[cell] += delta
        for provider, step in plan.steps.items():
            merged.steps[provider] = merged.steps.get(provider, 0) + step
        for key, change in plan.counters.items():
            merged.counters[key] += change
    return merged


def _collect_wanted(write: AllocationWrite, rows: LoadedRows) -> dict[Cell, int]:
    return {
        # JSON Schema takes 2.0 for an integer.
        (rows.providers[uuid], rows.classes[name]): int(amount)
        for uuid, resources in write.allocations.items()
        for name, amount in resources.items()
    }


def _find_projects(
    write: AllocationWrite, rows: LoadedRows, after: Mapping[Cell, int]
) -> set[str]:
    owner = rows.owners.get(write.consumer_uuid)
    before = rows.project_names.get(owner[0]) if owner is not None else None
    projects = {write.project_id} if after else set()
    return projects if before is None else {before, *projects}


def _plan_rows(
    plan: WritePlan, consumer_uuid: str, rows: LoadedRows, existed: bool,
    after: Mapping[Cell, int],
) -> None:
    """Compute which allocations end and begin, once the owner is planned.

    What the same owner holds before and after is kept, so that its interval of usage goes on.
    """
    kept_ids = {}
    before = rows.held.get(consumer_uuid, {})
    for cell, ids in rows.held_rows.get(consumer_uuid, {}).items():
        if (existed and consumer_uuid not in plan.moved and len(ids) == 1
                and after.get(cell) == before[cell]):
            [kept_ids[cell]] = ids
        else:
            plan.ended += ids
    plan.begun.extend(NewAllocation(consumer_uuid, cell, used, kept_ids.get(cell))
                      for cell, used in after.items())


def _plan_amounts(
    plan: WritePlan, before: Mapping[Cell, int], after: Mapping[Cell, int],
    uncounted: set[Cell],
) -> None:
    for cell, used in before.items():
        if cell not in uncounted or cell in after:
            plan.deltas[cell] -= used
    for cell, used in after.items():
        plan.deltas[cell] += used


def _plan_steps(
    plan: WritePlan, before: Mapping[Cell, int], after: Mapping[Cell, int],
    raise_generations: bool,
) -> None:
    """Add the providers that are locked; those in the new allocations count as changed."""
    named = {provider for provider, _ in (after or before)}
    for provider, _ in (*after, *before):
        step = 1 if raise_generations and provider in named else 0
        plan.steps[provider] = max(step, plan.steps.get(provider, 0))


def _plan_owner(
    plan: WritePlan, write: AllocationWrite, rows: LoadedRows, existed: bool,
    before: Mapping[Cell, int], after: Mapping[Cell, int],
) -> None:
    """Compute the consumer's owner and its changes of the usage counters."""
    uuid = write.consumer_uuid
    owner = rows.owners.get(uuid)
    if existed:
        assert owner is not None  # its row is locked
        if before:
            _plan_counters(plan, owner, before, -1)
        new_owner = _find_new_owner(write, rows, owner) if after else owner
        if new_owner != owner:
            plan.moved[uuid] = owner = new_owner
    if after:
        assert owner is not None  # what gets allocations was made
        _plan_counters(plan, owner, after, 1)
        plan.owners[uuid] = owner
    elif existed:
        plan.emptied.append(uuid)
    elif owner is not None:
        raise TransactionConflict  # made since its row was asked for, and not locked


def _plan_counters(plan: WritePlan, owner: Owner, held: Mapping[Cell, int], sign: int) -> None:
    for (_, resource_class), used in held.items():
        plan.counters[*owner, resource_class] += sign * used
    plan.counters[*owner, tables.CONSUMERS_ID] += sign


def _find_new_owner(write: AllocationWrite, rows: LoadedRows, owner: Owner) -> Owner:
    try:
        consumer_type = (owner[2] if write.consumer_type is None
                         else rows.types[write.consumer_type])
        return rows.projects[write.project_id], rows.users[write.user_id], consumer_type
    except KeyError:
        raise OwnerMissing from None
