"""What a write of allocations changes: planned without a session (``applying`` writes it)."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import os_resource_classes as orc

from placement_core.db.transactions import TransactionLost
from placement_core.placement import records, tables
from placement_core.placement.allocations import consumers, moves, usage_counters
from placement_core.placement.allocations.loaded import Cell, Facts, Owner

#: The owner of a consumer that nobody recorded.
_NOBODY: Owner = (0, 0, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """An allocation to be: one consumer's amount of one class on one provider."""

    consumer_uuid: str
    cell: Cell
    used: int


@dataclasses.dataclass(slots=True)
class Plan:
    """What a write changes.

    :ivar gone: ids of allocations that end.
    :ivar rows: allocations that begin.
    :ivar deltas: {cell: change of its ``used``}, also 0 where amounts are judged.
    :ivar steps: {provider id: how far its generation rises}.
    :ivar counters: changes of the usage counters.
    :ivar moved: {consumer uuid: its new owner}.
    :ivar emptied: consumers that hold nothing from now on.
    :ivar owners: {consumer uuid: whose it is}, of those that hold something.
    :ivar pairs: what becomes of pairs.
    """

    gone: list[int]
    rows: list[Row]
    deltas: dict[Cell, int]
    steps: dict[int, int]
    counters: dict[usage_counters.Key, int]
    moved: dict[str, Owner]
    emptied: list[str]
    owners: dict[str, Owner]
    pairs: list[moves.Change]


class Short(Exception):
    """The inventories do not give what a plan asks; somebody has to say why."""

    def __init__(self, planned: Plan) -> None:
        super().__init__("an inventory is short")
        self.plan = planned


def plan(
    writes: Sequence[records.AllocationWrite], facts: Facts, existed: set[str], *,
    raise_generations: bool = True,
) -> Plan:
    """Compute what ``writes`` change, given the facts and who existed before.

    Every provider and class that the writes name must be among the facts.

    :param raise_generations: whether the generations of providers rise (DELETE:
        they do not).
    """
    planned = Plan(facts.held_rows, [], {}, {}, {}, {}, [], {}, [])
    deltas: collections.Counter[Cell] = collections.Counter()
    changes: collections.Counter[usage_counters.Key] = collections.Counter()
    holdings = {}
    for write in writes:
        before = facts.held.get(write.consumer_uuid, {})
        after = _wanted(write, facts)
        planned.rows.extend(Row(write.consumer_uuid, cell, used) for cell, used in after.items())
        named = {provider for provider, _ in (after or before)}
        for provider, _ in (*after, *before):
            step = 1 if raise_generations and provider in named else 0
            planned.steps[provider] = max(step, planned.steps.get(provider, 0))
        for cell, used in before.items():
            if cell not in facts.uncounted or cell in after:
                deltas[cell] -= used
        for cell, used in after.items():
            deltas[cell] += used
        _count(changes, write, facts, existed, before, after, planned)
        project, user, _ = planned.owners.get(
            write.consumer_uuid, facts.owners.get(write.consumer_uuid, _NOBODY))
        if before or after:
            holdings[write.consumer_uuid] = moves.Holding(before, after, project, user)
    planned.pairs = moves.plan(
        facts.pairs, holdings, facts.others, facts.classes.get(orc.MEMORY_MB))
    planned.deltas = dict(deltas)
    planned.counters = {key: change for key, change in changes.items() if change}
    return planned


def _wanted(write: records.AllocationWrite, facts: Facts) -> dict[Cell, int]:
    return {
        # JSON Schema takes 2.0 for an integer.
        (facts.providers[uuid], facts.classes[name]): int(amount)
        for uuid, resources in write.allocations.items()
        for name, amount in resources.items()
    }


def _count(
    changes: collections.Counter[usage_counters.Key], write: records.AllocationWrite, facts: Facts,
    existed: set[str], before: Mapping[Cell, int], after: Mapping[Cell, int], planned: Plan,
) -> None:
    """Work out the consumer's owner and its share of the usage counters."""
    uuid = write.consumer_uuid
    owner = facts.owners.get(uuid)
    if uuid in existed:
        assert owner is not None  # its row is held
        if before:
            _add(changes, owner, before, -1)
        moved = _new_owner(write, facts, owner) if after else owner
        if moved != owner:
            planned.moved[uuid] = owner = moved
    if after:
        assert owner is not None  # what gets allocations was made
        _add(changes, owner, after, 1)
        planned.owners[uuid] = owner
    elif uuid in existed:
        planned.emptied.append(uuid)
    elif owner is not None:
        raise TransactionLost  # made since its row was asked for, and not held


def _add(
    changes: collections.Counter[usage_counters.Key], owner: Owner, held: Mapping[Cell, int],
    sign: int,
) -> None:
    for (_, resource_class), used in held.items():
        changes[*owner, resource_class] += sign * used
    changes[*owner, tables.CONSUMERS] += sign


def _new_owner(write: records.AllocationWrite, facts: Facts, owner: Owner) -> Owner:
    try:
        consumer_type = (owner[2] if write.consumer_type is None
                         else facts.types[write.consumer_type])
        return facts.projects[write.project_id], facts.users[write.user_id], consumer_type
    except KeyError:
        raise consumers.OwnerMissing from None
