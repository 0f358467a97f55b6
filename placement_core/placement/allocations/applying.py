"""Write a plan, in the order of locks.

That is: allocations of locked consumers, providers (``locks.lock_providers``), ``used`` of the
inventories, pairs, usage counters.
"""

from __future__ import annotations

import collections
import datetime
import functools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import sqlalchemy as sa

from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.db import Session, TransactionConflict, arrays, inserts, lists
from placement_core.db.metadata import utcnow
from placement_core.placement import locks, tables
from placement_core.placement.allocations import (
    consumers,
    moves,
    usage_counters,
    usage_intervals,
)
from placement_core.placement.allocations.gates import Gate
from placement_core.placement.allocations.loaded import Cell
from placement_core.placement.allocations.plan import CapacityShort, WritePlan

_allocations, _inventories = tables.allocations, tables.inventories
_providers, _pooled = tables.resource_providers, tables.pooled_trees

_DELETE = sa.delete(_allocations).where(lists.among(_allocations.c.id, "ids"))
_KEEP = (
    sa.update(_allocations).where(lists.among(_allocations.c.id, "ids"))
    .values(txn=sa.bindparam("by_txn")))
#: How many rows one statement names: databases bound the number of parameters.
_MOST_IDS = 1000
#: How many inventories one statement changes.
_BATCH = 50
#: What several changes have in common: all are of usage that grows, maybe only outside of pooled
#: trees, or all are of allocations that end, or neither.
_Direction: TypeAlias = Literal["up", "up_unless_pooled", "down", "any"]


def write_allocations(session: Session, plan: WritePlan, now: datetime.datetime) -> None:
    """Delete and insert allocations, and update the owners of consumers.

    Allocations that stay the same are not inserted again, but name this transaction, too.

    :param now: the time of the write: ``LoadedRows.now``.
    :raises CapacityShort: an amount is larger than any inventory can have.
    """
    for start in range(0, len(plan.ended), _MOST_IDS):
        ids = plan.ended[start:start + _MOST_IDS]
        usage_intervals.insert_ended(session, ids, now)
        session.write_later(_DELETE, {"ids": ids}, functools.partial(_check_met, len(ids)))
    if any(row.used > locks.LARGEST_INTEGER for row in plan.begun):
        raise CapacityShort(plan)
    inserted = [row for row in plan.begun if row.kept_id is None]
    if inserted:
        rows: list[dict[str, Any]] = [
            {"resource_provider_id": row.cell[0], "resource_class_id": row.cell[1],
             "used": row.used} for row in inserted]
        shared = {"created_at": utcnow(), "txn": session.txn, "started_at": now}
        if len({row.consumer_uuid for row in inserted}) == 1:
            shared["consumer_id"] = inserted[0].consumer_uuid
        else:
            rows = [{**values, "consumer_id": row.consumer_uuid}
                    for values, row in zip(rows, inserted, strict=True)]
        inserts.insert_many(session, _allocations, rows, shared)
    kept_ids = [row.kept_id for row in plan.begun if row.kept_id is not None]
    for start in range(0, len(kept_ids), _MOST_IDS):
        ids = kept_ids[start:start + _MOST_IDS]
        session.write_later(_KEEP, {"ids": ids, "by_txn": session.txn},
                            functools.partial(_check_met, len(ids)))
    for uuid, (project, user, consumer_type) in plan.moved.items():
        consumers.set_owner(session, uuid, project_id=project, user_id=user,
                       type_id=None if consumer_type == tables.UNTYPED else consumer_type)
    consumers.remove(session, plan.emptied)
    for uuid, projects in plan.consumers.items():
        for project_id in projects or ("",):
            session.record_change(kinds.CONSUMER, uuid=uuid, project=project_id)


def _check_met(named: int, met: int) -> None:
    if met != named:
        raise TransactionConflict  # another writer was first, for a consumer without a record


def change_used(
    session: Session, plan: WritePlan, let_in: Collection[int] | None = None
) -> None:
    """Change ``used`` of the inventories if all of them allow it.

    The rows of the providers must be locked.

    :param let_in: providers in reserved trees (``reserved_trees``) whose usage may grow; None:
        all of them.
    :raises CapacityShort: an inventory does not allow it. Others may have been changed. The
        session's next statement may raise it.
    """
    amounts: dict[Cell, list[int]] = collections.defaultdict(list)
    for row in plan.begun:
        amounts[row.cell].append(row.used)
    changes = [
        {**_make_change(cell, plan.deltas[cell], amounts.get(cell, [0])),
         "let_in": int(let_in is None or cell[0] in let_in)}
        for cell in sorted(plan.deltas)]
    if not changes:
        return

    def check(asked: int, changed: int) -> None:
        if changed != asked:
            raise CapacityShort(plan)

    # PostgreSQL takes any number of inventories as arrays; the others have none.
    if session.dialect == "postgresql":
        session.write_later(_CHANGE_ARRAYS, arrays.columns(changes),
                            functools.partial(check, len(changes)))
        return
    for start in range(0, len(changes), _BATCH):
        batch = changes[start:start + _BATCH]
        alike = _group_alike(batch)
        session.write_later(_build_batch_update(len(alike), _find_direction(batch)), {
            f"{name}{place}": value for place, values in enumerate(alike)
            for name, value in values.items()}, functools.partial(check, len(batch)))


def _group_alike(changes: Iterable[Mapping[str, int]]) -> list[dict[str, Any]]:
    """Join changes that only differ in their provider: the largest groups first."""
    groups: dict[tuple[tuple[str, int], ...], list[int]] = collections.defaultdict(list)
    for change in changes:
        groups[tuple(each for each in change.items() if each[0] != "provider")].append(
            change["provider"])
    return [{**dict(values), "providers": providers} for values, providers in sorted(
        groups.items(), key=lambda group: len(group[1]), reverse=True)]


def shift_used(session: Session, plan: WritePlan) -> None:
    """Change ``used`` of the inventories, whether they allow it or not.

    For allocations that were decided elsewhere. The rows of the providers must be locked. What
    is allocated of a class of which a provider has no inventory is counted nowhere.
    """
    changes = [{"provider": provider, "class": class_id, "delta": delta}
               for (provider, class_id), delta in sorted(plan.deltas.items()) if delta]
    if not changes:
        return
    if session.dialect == "postgresql":
        session.write_later(_SHIFT_ARRAYS, arrays.columns(changes))
    else:
        session.flush()  # Only INSERTs of several rows can be sent together with others.
        session.execute_write(_SHIFT, changes)


def count(ctx: Context, session: Session, plan: WritePlan, gates: Sequence[Gate]) -> None:
    """Write pairs and usage counters, from which quota is counted.

    It runs after the quota guard, which decides by committed usage.
    """
    moves.write_pairs(session, plan.pairs)
    slots = 1 if any(gate.queues_projects for gate in gates) else usage_counters.SLOTS
    usage_counters.add(ctx, session, plan.counters, slots=slots)


def _make_change(cell: Cell, delta: int, amounts: Sequence[int]) -> dict[str, int]:
    return {"provider": cell[0], "class": cell[1], "delta": delta, "least": min(amounts),
            "most": max(amounts), "divisor": math.gcd(*amounts)}


def _find_direction(changes: Sequence[Mapping[str, int]]) -> _Direction:
    """Return what several changes have in common."""
    if all(change["delta"] > 0 for change in changes):
        let_in = {change["let_in"] for change in changes}
        if len(let_in) == 1:
            return "up" if let_in == {1} else "up_unless_pooled"
    return "down" if all(change["most"] == 0 for change in changes) else "any"


def _is_at(values: Mapping[str, sa.ColumnElement[Any]]) -> sa.ColumnElement[bool]:
    columns = _inventories.c
    return sa.and_(columns.resource_provider_id == values["provider"],
                   columns.resource_class_id == values["class"])


def _has_room(values: Mapping[str, sa.ColumnElement[Any]]) -> sa.ColumnElement[bool]:
    return _inventories.c.used + values["delta"] <= _inventories.c.capacity


def _keeps_bounds(values: Mapping[str, sa.ColumnElement[Any]]) -> sa.ColumnElement[bool]:
    columns = _inventories.c
    return sa.and_(values["least"] >= columns.min_unit, values["most"] <= columns.max_unit,
                   values["divisor"] % columns.step_size == 0)


def _is_in_no_pooled_tree(provider: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    # Values and no EXISTS or join, which PostgreSQL may answer by reading all pooled trees.
    root = (
        sa.select(_providers.c.root_provider_id).where(_providers.c.id == provider)
        .correlate_except(_providers).scalar_subquery())
    pooled_root = (
        sa.select(_pooled.c.root_provider_id).where(_pooled.c.root_provider_id == root)
        .correlate_except(_pooled).scalar_subquery())
    return pooled_root.is_(None)


def _is_allowed(
    values: Mapping[str, sa.ColumnElement[Any]], provider: sa.ColumnElement[int]
) -> sa.ColumnElement[bool]:
    """Build the condition under which an inventory allows a change of its usage.

    Either the amounts are within its bounds and the sum fits, or the usage does not grow (the
    inventory may be over-committed already). ``most`` = 0: allocations are only deleted, so no
    bounds apply. ``let_in`` = 0: the usage of a pooled tree may not grow.
    """
    return sa.and_(
        sa.or_(values["delta"] <= 0, _has_room(values)),
        sa.or_(values["most"] == 0, _keeps_bounds(values)),
        sa.or_(values["let_in"] == 1, values["delta"] <= 0,
               _is_in_no_pooled_tree(provider)))


_CHANGE = {"provider": sa.Integer, "class": sa.Integer, "delta": sa.BigInteger,
           "least": sa.BigInteger, "most": sa.BigInteger, "divisor": sa.BigInteger,
           "let_in": sa.Integer}


def _build_array_update() -> sa.Update:
    changes = dict(arrays.rows("asked", _CHANGE).c)
    allowed = _is_allowed(changes, changes["provider"])
    return sa.update(_inventories).where(_is_at(changes), allowed).values(
        used=_inventories.c.used + changes["delta"])


_CHANGE_ARRAYS = _build_array_update()


def _build_shift(values: Mapping[str, sa.ColumnElement[Any]]) -> sa.Update:
    return (
        sa.update(_inventories).where(_is_at(values))
        .values(used=_inventories.c.used + values["delta"]))


_SHIFTED: Mapping[str, Any] = {name: _CHANGE[name] for name in ("provider", "class", "delta")}
_SHIFT = _build_shift({
    name: sa.bindparam(name, type_=type_) for name, type_ in _SHIFTED.items()})
_SHIFT_ARRAYS = _build_shift(dict(arrays.rows("asked", _SHIFTED).c))


@functools.cache
def _build_batch_update(count: int, direction: _Direction) -> sa.Update:
    """Build the statement for ``count`` groups of inventories, each with one change for all.

    MariaDB and MySQL read each condition anew, and a subquery in it costs as much as looking up
    some rows. So there are no more than the changes need.
    """
    columns = _inventories.c
    growing = direction in ("up", "up_unless_pooled")
    changes, conditions = [], []
    for place in range(count):
        values = {name: sa.bindparam(f"{name}{place}", type_=kind)
                 for name, kind in _CHANGE.items() if name != "provider"}
        is_meant = sa.and_(columns.resource_class_id == values["class"],
                           lists.among(columns.resource_provider_id, f"providers{place}"))
        changes.append((is_meant, values["delta"]))
        conditions.append(
            sa.and_(is_meant, _has_room(values), _keeps_bounds(values)) if growing
            else is_meant if direction == "down" else sa.and_(
                is_meant, _is_allowed(values, columns.resource_provider_id)))
    allowed = sa.or_(*conditions)
    if direction == "up_unless_pooled":
        allowed = sa.and_(allowed, _is_in_no_pooled_tree(columns.resource_provider_id))
    change = changes[0][1] if count == 1 else sa.case(*changes, else_=0)
    return sa.update(_inventories).where(allowed).values(used=columns.used + change)
