"""What a write of allocations changes: planned without a session, then written.

``plan`` is pure. The writing functions follow it in the one lock order:
allocations of consumers that are held, then (``locks.hold``) the providers,
then the inventories' ``used``.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
from collections.abc import Collection, Mapping, Sequence

import os_resource_classes as orc
import sqlalchemy as sa

from placement_core.context import Context
from placement_core.db import Session, arrays, inserts
from placement_core.db.transactions import TransactionConflict
from placement_core.placement import consumers, counters, locks, moves, records, tables
from placement_core.placement.facts import Cell, Facts, Owner

_allocations, _inventories = tables.allocations, tables.inventories
_providers, _pooled = tables.resource_providers, tables.pooled_trees

_DELETE = {
    dialect: sa.delete(_allocations).where(
        arrays.among(_allocations.c.id, "ids", dialect=dialect))
    for dialect in ("postgresql", "mysql", "sqlite")}
#: How many rows one statement names: databases bound the number of parameters.
_MOST_IDS = 1000
#: The owner of a consumer that nobody recorded.
_NOBODY: Owner = (0, 0, 0)
#: How many inventories one statement changes.
_BATCH = 50


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
    counters: dict[counters.Key, int]
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
    changes: collections.Counter[counters.Key] = collections.Counter()
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
    changes: collections.Counter[counters.Key], write: records.AllocationWrite, facts: Facts,
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
        raise TransactionConflict  # made since its row was asked for, and not held


def _add(
    changes: collections.Counter[counters.Key], owner: Owner, held: Mapping[Cell, int], sign: int
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


# Writing --------------------------------------------------------------------


def write_allocations(session: Session, planned: Plan) -> None:
    """End and begin allocations, and put consumers to their new owners.

    :raises Short: an amount is larger than any inventory allows.
    """
    for start in range(0, len(planned.gone), _MOST_IDS):
        ids = planned.gone[start:start + _MOST_IDS]
        if session.execute_write(_DELETE[session.dialect], {"ids": ids}) != len(ids):
            raise TransactionConflict  # a consumer without a record: somebody else was first
    if any(row.used > locks.LARGEST_INTEGER for row in planned.rows):
        raise Short(planned)
    if planned.rows:
        inserts.insert_many(session, _allocations, [
            {"resource_provider_id": row.cell[0], "resource_class_id": row.cell[1],
             "consumer_id": row.consumer_uuid, "used": row.used, "txn": session.txn}
            for row in planned.rows
        ])
    for uuid, (project, user, consumer_type) in planned.moved.items():
        consumers.move(session, uuid, project_id=project, user_id=user,
                       type_id=None if consumer_type == tables.UNTYPED else consumer_type)
    consumers.remove(session, planned.emptied)


def move_used(
    session: Session, planned: Plan, let_in: Collection[int] | None = None
) -> None:
    """Change ``used`` of the inventories, if every one of them allows it.

    The providers' rows must be held.

    :param let_in: providers of pooled trees (``fencing``) that may be given more of; None:
        all of them.
    :raises Short: one does not. Some may have been changed all the same.
    """
    amounts: dict[Cell, list[int]] = collections.defaultdict(list)
    for row in planned.rows:
        amounts[row.cell].append(row.used)
    asked = [
        {**_asked(cell, planned.deltas[cell], amounts.get(cell, [0])),
         "let_in": int(let_in is None or cell[0] in let_in)}
        for cell in sorted(planned.deltas)]
    if asked and _move(session, asked) != len(asked):
        raise Short(planned)


def count(ctx: Context, session: Session, planned: Plan) -> None:
    """Write what quota counts: pairs and usage counters.

    After a guard, which judges by what is committed.
    """
    moves.write(session, planned.pairs)
    counters.add(ctx, session, planned.counters)


def _asked(cell: Cell, delta: int, amounts: Sequence[int]) -> dict[str, int]:
    return {"provider": cell[0], "class": cell[1], "delta": delta, "least": min(amounts),
            "most": max(amounts), "divisor": math.gcd(*amounts)}


def _move(session: Session, asked: Sequence[Mapping[str, int]]) -> int:
    """Change the inventories that allow it; return how many did."""
    if session.dialect == "postgresql":
        return session.execute_write(_MOVE_ARRAYS, arrays.columns(asked))
    moved = 0
    for start in range(0, len(asked), _BATCH):
        batch = asked[start:start + _BATCH]
        parameters = {f"{name}{place}": value for place, values in enumerate(batch)
                      for name, value in values.items()}
        moved += session.execute_write(_move_batch(len(batch)), parameters)
    return moved


def _is_allowed(values: Mapping[str, sa.ColumnElement]) -> sa.ColumnElement[bool]:
    """Build the condition under which an inventory gives what is asked.

    The amounts are within its bounds and their sum fits, or its usage does not
    grow (it may be over-committed already). ``most`` = 0: amounts only end
    here, there are no bounds to respect. ``let_in`` = 0: nothing of a pooled tree.
    """
    columns = _inventories.c
    # A value and no EXISTS, which PostgreSQL may answer by reading all pooled trees.
    pooled_root = (
        sa.select(_pooled.c.root_provider_id)
        .join(_providers, _providers.c.root_provider_id == _pooled.c.root_provider_id)
        .where(_providers.c.id == values["provider"])
        .correlate_except(_providers, _pooled).scalar_subquery())
    return sa.and_(
        columns.resource_provider_id == values["provider"],
        columns.resource_class_id == values["class"],
        sa.or_(values["delta"] <= 0, columns.used + values["delta"] <= columns.capacity),
        sa.or_(values["most"] == 0, sa.and_(
            values["least"] >= columns.min_unit, values["most"] <= columns.max_unit,
            values["divisor"] % columns.step_size == 0)),
        sa.or_(values["let_in"] == 1, values["delta"] <= 0, pooled_root.is_(None)),
    )


_ASKED = {"provider": sa.Integer, "class": sa.Integer, "delta": sa.BigInteger,
          "least": sa.BigInteger, "most": sa.BigInteger, "divisor": sa.BigInteger,
          "let_in": sa.Integer}


def _build_move_arrays() -> sa.Update:
    asked = dict(arrays.rows("asked", _ASKED).c)
    return sa.update(_inventories).where(_is_allowed(asked)).values(
        used=_inventories.c.used + asked["delta"])


_MOVE_ARRAYS = _build_move_arrays()


@functools.cache
def _move_batch(count: int) -> sa.Update:
    """Build the same for ``count`` inventories as parameters one by one."""
    columns = _inventories.c
    changes, conditions = [], []
    for place in range(count):
        asked = {name: sa.bindparam(f"{name}{place}", type_=kind)
                 for name, kind in _ASKED.items()}
        here = sa.and_(columns.resource_provider_id == asked["provider"],
                       columns.resource_class_id == asked["class"])
        changes.append((here, asked["delta"]))
        conditions.append(_is_allowed(asked))
    change = changes[0][1] if count == 1 else sa.case(*changes, else_=0)
    return sa.update(_inventories).where(sa.or_(*conditions)).values(used=columns.used + change)
