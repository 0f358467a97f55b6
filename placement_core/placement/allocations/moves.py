"""Moves: pairs of allocations for one instance, during a resize, migration or evacuation.

A resize or migration transfers the allocations of an instance to another consumer (the migration),
and the instance claims again: until one of the two is deleted, both have allocations. An
evacuation adds allocations on the new host to those on the old one. Quota counts the larger of
both, not their sum. So a move is never refused by quota, and no other claim gets the room that a
revert needs.

A pair is recognised by the writes of nova (``find_new_pairs``), and stored in the table ``moves``
until one half is deleted. Its row is locked after the consumers, before all other rows.
Source: design §5; spec nova_quota N5.
"""

from __future__ import annotations

import collections
import dataclasses
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import sqlalchemy as sa

from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.db import (
    Session,
    TransactionConflict,
    inserts,
    lists,
    read_once,
    retry_writes,
)
from placement_core.placement import tables

_moves, _allocations = tables.moves, tables.allocations

#: {(provider id, resource class id): amount}
Held: TypeAlias = Mapping[tuple[int, int], int]
#: {resource class id, or ``tables.CONSUMERS_ID``: amount}
Amounts: TypeAlias = Mapping[int, int]
#: The ``consumer_uuid`` above the first and up to the second one.
Range: TypeAlias = tuple[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """Two sets of allocations for one instance.

    :ivar consumer_uuid: the consumer of the second set: the migration, or an evacuated
        instance itself.
    :ivar moved_from: the consumer that had these allocations before, and may have others now.
    :ivar used: the amounts that are counted twice: by class, the smaller of both sets.
    """

    consumer_uuid: str
    moved_from: str
    project_id: int
    user_id: int
    used: Amounts

    @property
    def is_evacuation(self) -> bool:
        """Whether one consumer has both sets."""
        return self.consumer_uuid == self.moved_from


class PairChange(NamedTuple):
    """A pair before and after a write; one of both is None if it is created or deleted.

    :ivar uncovered: by class, what counted once and counts twice from then on, though the instance
        holds no more than before: it moves again, or its evacuation ends with both hosts.
    """

    before: Pair | None
    after: Pair | None
    uncovered: Amounts = types.MappingProxyType({})

    @property
    def pair(self) -> Pair:
        """Return the pair after the write or, if it is deleted, before."""
        pair = self.after or self.before
        assert pair is not None
        return pair


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerChange:
    """The allocations of a consumer before and after a write, and its owner afterwards.

    :ivar project_id: 0 for a consumer without a row.
    """

    before: Held
    after: Held
    project_id: int
    user_id: int


_LOCK = (
    sa.update(_moves)
    .where(_moves.c.consumer_uuid == sa.bindparam("of_uuid"),
           _moves.c.resource_class_id == tables.CONSUMERS_ID)
    .values(revision=_moves.c.revision + 1)
)
_PAIRS = sa.select(
    _moves.c.consumer_uuid, _moves.c.moved_from, _moves.c.project_id, _moves.c.user_id,
    _moves.c.resource_class_id, _moves.c.used,
).where(lists.among(_moves.c.consumer_uuid, "uuids"))
_HELD = sa.select(
    _allocations.c.consumer_id, _allocations.c.resource_provider_id,
    _allocations.c.resource_class_id, _allocations.c.used,
).where(lists.among(_allocations.c.consumer_id, "uuids"))
_IN_RANGE = sa.and_(_moves.c.consumer_uuid > sa.bindparam("after"),
                    _moves.c.consumer_uuid <= sa.bindparam("until"))
# Joined, so that MySQL does not look at every allocation for each range.
_MOVING = (
    sa.select(_moves.c.consumer_uuid.label("uuid")).where(_IN_RANGE)
    .union(sa.select(_moves.c.moved_from).where(_IN_RANGE)).subquery("moving"))
_RECOUNTED = sa.union_all(
    sa.select(_moves.c.consumer_uuid, _moves.c.moved_from, _moves.c.project_id,
              _moves.c.user_id, _moves.c.resource_class_id, _moves.c.used).where(_IN_RANGE),
    sa.select(_allocations.c.consumer_id, sa.null(), sa.literal_column("0"),
              sa.literal_column("0"), _allocations.c.resource_class_id,
              sa.func.sum(_allocations.c.used))
    .join(_MOVING, _MOVING.c.uuid == _allocations.c.consumer_id)
    .group_by(_allocations.c.consumer_id, _allocations.c.resource_class_id))
_END = sa.delete(_moves).where(lists.among(_moves.c.consumer_uuid, "uuids"))


def lock_pairs(session: Session, uuids: Sequence[str]) -> dict[str, Pair]:
    """Lock the rows of pairs, in the order of their uuids; return the pairs.

    :param uuids: the ``consumer_uuid`` of each.
    :raises TransactionConflict: one of the pairs was deleted meanwhile.
    """
    if not uuids:
        return {}
    for uuid in sorted(uuids):
        if session.execute(_LOCK, {"of_uuid": uuid}).rowcount != 1:
            raise TransactionConflict
    amounts: dict[str, dict[int, int]] = collections.defaultdict(dict)
    owners = {}
    for row in session.execute(_PAIRS, {"uuids": sorted(uuids)}):
        owners[row.consumer_uuid] = row.moved_from, row.project_id, row.user_id
        amounts[row.consumer_uuid][row.resource_class_id] = row.used
    return {uuid: Pair(uuid, *owner, amounts[uuid]) for uuid, owner in owners.items()}


def read_holdings(session: Session, uuids: Sequence[str]) -> dict[str, dict[tuple[int, int], int]]:
    """Return the allocations of consumers whose pairs the session has locked."""
    holdings: dict[str, dict[tuple[int, int], int]] = {}
    if uuids:
        for row in session.execute(_HELD, {"uuids": sorted(uuids)}):
            cells = holdings.setdefault(row.consumer_id, collections.defaultdict(int))
            cells[row.resource_provider_id, row.resource_class_id] += row.used
    return holdings


def list_ranges(ctx: Context, size: int) -> Iterator[Range]:
    """Yield ranges of uuids that cover all pairs, each with a bounded number of pairs."""
    uuid = _moves.c.consumer_uuid
    following = (sa.select(uuid).distinct().where(uuid > sa.bindparam("after"))
                 .order_by(uuid).limit(size).subquery())
    last = sa.select(sa.func.max(following.c.consumer_uuid))
    after = ""
    while until := _read_last(ctx, last, after):
        yield after, until
        after = until


@retry_writes
def _read_last(ctx: Context, statement: sa.Select[tuple[str]], after: str) -> str | None:
    with read_once(ctx) as session:
        last: str | None = session.execute(statement, {"after": after}).scalar_one()
        return last


def read_recounted(session: Session, uuids: Range) -> list[tuple[Pair, Pair | None]]:
    """Return the pairs of a range, each as stored and as computed, consistently."""
    amounts: dict[str, dict[int, int]] = collections.defaultdict(dict)
    owners: dict[str, tuple[str, int, int]] = {}
    sums: dict[str, dict[int, int]] = collections.defaultdict(dict)
    after, until = uuids
    for row in session.execute(_RECOUNTED, {"after": after, "until": until}):
        if row.moved_from is None:
            sums[row.consumer_uuid][row.resource_class_id] = int(row.used)
        else:
            owners[row.consumer_uuid] = row.moved_from, row.project_id, row.user_id
            amounts[row.consumer_uuid][row.resource_class_id] = row.used
    pairs = [Pair(uuid, *owner, amounts[uuid]) for uuid, owner in sorted(owners.items())]
    return [(pair, recount(pair, sums[pair.moved_from], sums[pair.consumer_uuid]))
            for pair in pairs]


def plan_pairs(
    pairs: Mapping[str, Pair], written: Mapping[str, ConsumerChange],
    others: Mapping[str, Held], memory: int | None,
) -> list[PairChange]:
    """Compute the changes of pairs.

    :param pairs: the pairs to which written consumers belong, by ``consumer_uuid``.
    :param written: the consumers that are written.
    :param others: the allocations of the other consumers in these pairs.
    :param memory: the id of MEMORY_MB; None if the write does not name it.
    :returns: the changes, without pairs that do not change.
    """
    taken = {*pairs, *(pair.moved_from for pair in pairs.values())}
    begun = [pair for pair in find_new_pairs(written, memory) if pair.consumer_uuid not in taken]
    moved_on = {pair.moved_from: pair.consumer_uuid for pair in begun}
    changed = []
    for pair in pairs.values():
        after = _update_pair(pair, written, others)
        if after != pair:
            changed.append(PairChange(pair, after, _find_uncovered(
                pair, after, written, others, moved_on.get(pair.moved_from))))
    return changed + [PairChange(None, pair) for pair in begun]


def _update_pair(
    pair: Pair, written: Mapping[str, ConsumerChange], others: Mapping[str, Held]
) -> Pair | None:
    for uuid in (pair.consumer_uuid, pair.moved_from):
        holding = written.get(uuid)
        if holding is not None and holding.after and holding.project_id != pair.project_id:
            return None
    if pair.is_evacuation:
        holding = written.get(pair.consumer_uuid)
        return pair if holding is None or holding.after == holding.before else None
    return recount(
        pair, sum_by_class(_find_holding_after(pair.moved_from, written, others)),
        sum_by_class(_find_holding_after(pair.consumer_uuid, written, others)))


def _find_uncovered(
    pair: Pair, after: Pair | None, written: Mapping[str, ConsumerChange],
    others: Mapping[str, Held], heir: str | None,
) -> Amounts:
    """Return what ``PairChange.uncovered`` is of a pair that changes.

    It is what stays where it was, as far as that is more than what counted before. Where a resize
    or migration just ends, its two consumers say exactly by how much usage changes: whatever it
    grows is somebody's growth.

    :param heir: the consumer that gets what ``moved_from`` held, because it moves again.
    """
    if not (pair.is_evacuation or heir):
        return {}
    excess: collections.Counter[int] = collections.Counter(pair.used)
    excess.subtract(after.used if after else {})
    for uuid in {pair.consumer_uuid, pair.moved_from}:
        before = written[uuid].before if uuid in written else others.get(uuid, {})
        holder = heir if heir and uuid == pair.moved_from else uuid
        holding = written.get(holder)
        held = others.get(holder, {}) if holding is None else holding.after
        if holding and (holding.project_id, holding.user_id) != (pair.project_id, pair.user_id):
            held = {}
        excess.update(_count({
            cell: staying for cell, amount in before.items()
            if (staying := min(amount, held.get(cell, 0)))}))
        excess.subtract(_count(before))
    return {resource_class: excess[resource_class] for resource_class in pair.used
            if excess[resource_class] > 0}


def _count(held: Held) -> dict[int, int]:
    return {**sum_by_class(held), tables.CONSUMERS_ID: 1} if held else {}


def recount(pair: Pair, first: Amounts, second: Amounts) -> Pair | None:
    """Return a pair with its amounts computed again; None: it is no pair any more."""
    if not pair.is_evacuation:
        return dataclasses.replace(pair, used=_take_smaller(first, second)) if second else None
    twice = all(2 * used <= second.get(resource_class, 0)
                for resource_class, used in pair.used.items() if used)
    return pair if second and twice else None


def find_new_pairs(written: Mapping[str, ConsumerChange], memory: int | None) -> Iterator[Pair]:
    """Return the moves that begin with a write.

    A resize or migration: one consumer loses all its allocations, and a consumer that had none
    gets the same amounts. An evacuation: a consumer keeps its memory on one provider, and gets
    the same amount on another.
    """
    emptied = {
        uuid: sum_by_class(holding.before) for uuid, holding in written.items()
        if holding.before and not holding.after}
    for uuid, holding in written.items():
        if not holding.after:
            continue
        if not holding.before:
            amounts = sum_by_class(holding.after)
            source = next((
                each for each, before in emptied.items()
                if before == amounts and written[each].project_id == holding.project_id), None)
            if source is not None:
                del emptied[source]
                yield Pair(uuid, source, holding.project_id, holding.user_id,
                           {tables.CONSUMERS_ID: 0})
        elif _is_evacuation(holding, memory):
            # The consumer is one, however often it holds.
            yield Pair(uuid, uuid, holding.project_id, holding.user_id,
                       {**sum_by_class(holding.before), tables.CONSUMERS_ID: 0})


def _is_evacuation(holding: ConsumerChange, memory: int | None) -> bool:
    added = {cell: amount for cell, amount in holding.after.items() if cell not in holding.before}
    before = sum_by_class(holding.before)
    return (
        memory in before
        and all(holding.after.get(cell) == amount for cell, amount in holding.before.items())
        and {provider for provider, _ in added}.isdisjoint(
            provider for provider, _ in holding.before)
        and sum_by_class(added) == before)


def sum_by_class(held: Held) -> dict[int, int]:
    """Return the sums of allocations by resource class."""
    sums: dict[int, int] = collections.defaultdict(int)
    for (_, resource_class), amount in held.items():
        sums[resource_class] += amount
    return dict(sums)


def _find_holding_after(
    uuid: str, written: Mapping[str, ConsumerChange], others: Mapping[str, Held]
) -> Held:
    return written[uuid].after if uuid in written else others.get(uuid, {})


def _take_smaller(first: Amounts, second: Amounts) -> dict[int, int]:
    smaller = {resource_class: min(first[resource_class], amount)
               for resource_class, amount in second.items() if resource_class in first}
    smaller[tables.CONSUMERS_ID] = 1 if first else 0
    return smaller


def write_pairs(session: Session, changes: Sequence[PairChange]) -> None:
    """Write the changes of ``plan_pairs``, which change the counted usage of projects."""
    if not changes:
        return
    ended = [change.before.consumer_uuid for change in changes if change.before is not None]
    if ended:
        session.execute(_END, {"uuids": sorted(ended)})
    rows = [
        {"consumer_uuid": pair.consumer_uuid, "resource_class_id": resource_class,
         "moved_from": pair.moved_from, "project_id": pair.project_id,
         "user_id": pair.user_id, "used": used, "revision": 0}
        for _, pair, _ in changes if pair is not None
        for resource_class, used in sorted(pair.used.items())]
    if rows:
        inserts.insert_many(session, _moves, rows)
    for change in changes:
        session.record_change(kinds.PROJECT, change.pair.project_id)
