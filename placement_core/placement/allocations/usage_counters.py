"""Usage counters: the usage of projects and users, updated by each claim.

A counter is split over slots, so that the claims of one project do not queue on
one row; its value is the sum over the slots, and a slot alone may be negative.
Counters are a transaction's last locks before the change log. Source: design §4.

Beside the counters of each user, there are the sums over all users of a project, so that a query
for projects reads as many values as there are classes, whatever the number of users. Databases of
older versions have them after ``sum_up``; until then the counters of users are read (``PARTS``).
"""

from __future__ import annotations

import collections
import dataclasses
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa

from placement_core import db, metrics
from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.db import Session, TransactionConflict, failures, inserts
from placement_core.placement import tables

LOG = logging.getLogger(__name__)

_counters, _migrations, _projects = (
    tables.usage_counters, tables.online_migrations, tables.projects)

#: (project id, user id, consumer type id or UNTYPED, resource class id or CONSUMERS_ID); that
#: of everybody: (the project's id with a minus, EVERYBODY, …).
Key: TypeAlias = tuple[int, int, int, int]

#: How many rows a counter has at most. A query reads all of them. A row is locked for two
#: statements and the commit.
SLOTS = 8


#: Among ``online_migrations``: the sums over all users.
SUMS = "usage_sums"

_of_sums = _migrations.c.name == SUMS
#: Whether the sums over all users exist. The statement that reads counters checks it, so that no
#: process needs a notification.
SUMMED_UP = sa.exists(sa.select(_migrations.c.name).where(_of_sums, _migrations.c.finished))


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """One kind of counters; at any time, one kind contains the usage of projects.

    :ivar sign: -1: the rows have the negative id of the project (``number``).
    :ivar condition: selects the rows of this kind, if it is the one to read.
    :ivar parameter: the name of the parameter with the ids of projects (``ids``).
    """

    sign: int
    condition: sa.ColumnElement[bool]
    parameter: str

    def number(self, project_id: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
        """Return the number of a project in the rows for its id, or the id for the number."""
        return -project_id if self.sign < 0 else project_id


PARTS = (
    Part(-1, sa.and_(SUMMED_UP, _counters.c.project_id < 0), "sum_ids"),
    Part(1, sa.and_(sa.not_(SUMMED_UP), _counters.c.project_id > 0), "ids"),
)


def ids(project_ids: Collection[int]) -> dict[str, list[int]]:
    """Return the parameters of a statement that reads the counters of some projects."""
    ordered = sorted(project_ids)
    return {part.parameter: [part.sign * id_ for id_ in ordered] for part in PARTS}


def add(
    ctx: Context, session: Session, changes: Mapping[Key, int], *, slots: int = SLOTS
) -> None:
    """Add ``changes`` to the counters of users, and to the sums over all users.

    :param slots: how many rows a counter may have. One is enough if claims of a project wait for
        each other anyway, and saves those that read it the others.
    """
    sums: collections.Counter[Key] = collections.Counter()
    for (project, _, consumer_type, resource_class), change in changes.items():
        sums[-project, tables.EVERYBODY, consumer_type, resource_class] += change
    put(ctx, session, {**changes, **sums}, slots=slots)


def put(
    ctx: Context, session: Session, changes: Mapping[Key, int], *, slots: int = SLOTS
) -> None:
    """Add ``changes`` to these counters only, in the slot of the thread."""
    slot = ctx.database.journal.slot() % slots
    added = [
        {"project_id": project, "user_id": user, "consumer_type_id": consumer_type,
         "resource_class_id": resource_class, "slot": slot, "used": change}
        for (project, user, consumer_type, resource_class), change in sorted(changes.items())
        if change
    ]
    if added:
        inserts.insert_or_add(session, _counters, "used", added)
    for row in added:
        session.record_change(kinds.PROJECT, abs(row["project_id"]))


# Summing up -------------------------------------------------------------------

_STATE = sa.select(_migrations.c.position, _migrations.c.finished).where(_of_sums)
_MOVE_ON = (
    sa.update(_migrations)
    .where(_of_sums, _migrations.c.position == sa.bindparam("before"),
           _migrations.c.finished == sa.false())
    .values(position=sa.bindparam("after"), finished=sa.bindparam("is_last")))
_FOLLOWING = (
    sa.select(_projects.c.id).where(_projects.c.id > sa.bindparam("after"))
    .order_by(_projects.c.id).limit(sa.bindparam("most", type_=sa.Integer)))

_COUNT_FOLLOWING = (
    sa.select(sa.func.count()).select_from(_projects)
    .join(_migrations, sa.and_(
        _of_sums, _migrations.c.finished == sa.false(),
        _projects.c.id > _migrations.c.position)))


def _build_differences() -> sa.Select[Any]:
    """Build the differences between the counters of users and the sums over all users."""
    counted = sa.union_all(*(
        sa.select(part.number(_counters.c.project_id).label("project_id"),
                  _counters.c.consumer_type_id, _counters.c.resource_class_id,
                  (part.sign * _counters.c.used).label("used"))
        .where(_counters.c.project_id.in_(sa.bindparam(part.parameter, expanding=True)))
        for part in PARTS)).subquery()
    key = (counted.c.project_id, counted.c.consumer_type_id, counted.c.resource_class_id)
    used = sa.func.sum(counted.c.used)
    return sa.select(*key, used.label("used")).group_by(*key).having(used != 0)


_DIFFERENCES = _build_differences()


@db.retry_writes
def sum_up(ctx: Context, max_count: int) -> tuple[int, int]:
    """Fill the sums over all users for more projects (an online migration).

    Claims may continue: they change both sides by the same amount, and one statement reads the
    difference. All running processes must have a version that knows the sums.

    :returns: the number of projects that were processed, twice.
    """
    with db.write(ctx) as session:
        position, finished = tuple(session.execute(_STATE).one())
        if finished:
            return 0, 0
        batch = list(session.execute(
            _FOLLOWING, {"after": position, "most": max_count}).scalars())
        put(ctx, session, {
            (-row.project_id, tables.EVERYBODY, row.consumer_type_id, row.resource_class_id):
            int(row.used)
            for row in (session.execute(_DIFFERENCES, ids(batch)) if batch else ())})
        moved = session.execute(_MOVE_ON, {
            "before": position, "after": batch[-1] if batch else position,
            "is_last": not batch}).rowcount
        if moved != 1:
            raise TransactionConflict  # another process did the same
    return len(batch), len(batch)


def count_not_summed_up(ctx: Context) -> int:
    """Return the number of projects without sums over all users."""
    with db.read_once(ctx) as session:
        return int(session.execute(_COUNT_FOLLOWING).scalar_one())


@db.retry_writes
def are_summed_up(ctx: Context) -> bool:
    """Return whether ``sum_up`` is finished."""
    with db.read_once(ctx) as session:
        return bool(session.execute(sa.select(SUMMED_UP)).scalar())


def declare_summed_up(connection: sa.Connection) -> None:
    """Record that the sums over all users exist, because the database is new or was counted."""
    connection.execute(sa.update(_migrations).where(_of_sums).values(finished=True))


# Folding ----------------------------------------------------------------------

#: How many projects are read together, and how many counters are deleted together.
_PROJECTS_AT_ONCE, _COUNTERS_AT_ONCE = 100, 100

_key = (_counters.c.project_id, _counters.c.user_id, _counters.c.consumer_type_id,
        _counters.c.resource_class_id)
_NAMES = tuple(column.name for column in _key)
_COUNTED = (
    sa.select(_counters.c.project_id).distinct()
    .where(_counters.c.project_id > sa.bindparam("after"))
    .order_by(_counters.c.project_id).limit(_PROJECTS_AT_ONCE))
_sum = sa.func.sum(_counters.c.used)
_OF_RANGE = (
    sa.select(*_key)
    .where(_counters.c.project_id.between(sa.bindparam("first"), sa.bindparam("last")))
    .group_by(*_key).order_by(*_key))
_ZERO = _OF_RANGE.having(_sum == 0)
_SPLIT = _OF_RANGE.having(_sum != 0, sa.func.max(_counters.c.slot) > 0)
_SLOTS_OF = sa.select(_counters.c.slot, _counters.c.used).where(*(
    column == sa.bindparam(f"of_{column.name}") for column in _key))
_REMOVE = sa.delete(_counters).where(
    *(column == sa.bindparam(f"of_{column.name}")
      for column in (*_key, _counters.c.slot, _counters.c.used)))


def fold(ctx: Context, *, merge_slots: bool = False) -> int:
    """Delete counters that are 0, of users, classes and types that are not used any more.

    Safe beside claims and other managers: all slots of a counter are deleted together, and only
    if none has changed since they were added up. Counters that claims change each time are left
    for the next fold.

    :param merge_slots: leave one row of each counter. Of use if claims add to one slot only
        (``add``), as since the guard enforces limits: it reads what was in other slots before.
    :returns: the number of counters that were deleted or merged, each of up to ``SLOTS`` rows.
    """
    removed = merged = 0
    for first, last in _list_ranges(ctx):
        range_ = {"first": first, "last": last}
        for keys in _read_keys(ctx, _ZERO, range_):
            removed += _change_in_groups(_remove, ctx, keys)
        for keys in _read_keys(ctx, _SPLIT, range_) if merge_slots else ():
            merged += _change_in_groups(_merge, ctx, keys)
    metrics.count_removed_rows(_counters.name, removed)
    return removed + merged


def _read_keys(
    ctx: Context, statement: sa.Select[Any], range_: Mapping[str, int]
) -> Iterator[Sequence[Key]]:
    """Yield the counters that a statement selects in a range of projects, some at a time."""
    with db.read(ctx) as session:
        keys = [tuple(row) for row in session.execute(statement, range_)]
    for start in range(0, len(keys), _COUNTERS_AT_ONCE):
        yield keys[start:start + _COUNTERS_AT_ONCE]


def _list_ranges(ctx: Context) -> Iterator[tuple[int, int]]:
    """Yield ranges (first, last) of projects with counters."""
    after = -2**31
    while True:
        with db.read(ctx) as session:
            batch = session.execute(_COUNTED, {"after": after}).scalars().all()
        if not batch:
            return
        yield batch[0], batch[-1]
        after = batch[-1]


def _change_in_groups(
    change: Callable[[Context, Sequence[Key]], int], ctx: Context, keys: Sequence[Key]
) -> int:
    """Change counters together; if claims are faster each time, in smaller groups.

    So the counters of a busy project, which are left as they are, do not keep all others.
    """
    try:
        return change(ctx, keys)
    except failures.ConnectionLost:
        raise
    except TransactionConflict:
        if len(keys) == 1:
            LOG.info("Usage counter %s changes too often to be folded now", keys[0])
            return 0
    middle = len(keys) // 2
    return sum(_change_in_groups(change, ctx, group) for group in (keys[:middle], keys[middle:]))


@db.retry_writes
def _remove(ctx: Context, keys: Sequence[Key]) -> int:
    removed = 0
    with db.write(ctx) as session:
        gone = []
        for key in keys:
            slots = _read_slots(session, key)
            if sum(slots.values()) == 0:
                removed += 1
                gone += _list_rows(key, slots)
        _remove_rows(session, gone)
    return removed


@db.retry_writes
def _merge(ctx: Context, keys: Sequence[Key]) -> int:
    merged, added = 0, []
    with db.write(ctx) as session:
        gone = []
        for key in keys:
            slots = _read_slots(session, key)
            slots.pop(0, None)
            if not slots:
                continue
            merged += 1
            gone += _list_rows(key, slots)
            if moved := sum(slots.values()):
                added.append({**dict(zip(_NAMES, key, strict=True)), "slot": 0, "used": moved})
        # Of all counters first the other slots, then the first one: claims add to one slot only,
        # in the order of counters.
        _remove_rows(session, gone)
        if added:
            inserts.insert_or_add(session, _counters, "used", added)
    return merged


def _read_slots(session: Session, key: Key) -> dict[int, int]:
    """Return what is in the slots of a counter."""
    rows = session.execute(_SLOTS_OF, _name_key(key))
    return {row.slot: row.used for row in rows}


def _list_rows(key: Key, slots: Mapping[int, int]) -> list[dict[str, int]]:
    """Return the parameters that name the rows of slots, as they were read."""
    return [{**_name_key(key), "of_slot": slot, "of_used": used} for slot, used in slots.items()]


def _name_key(key: Key) -> dict[str, int]:
    return {f"of_{name}": value for name, value in zip(_NAMES, key, strict=True)}


def _remove_rows(session: Session, rows: Sequence[Mapping[str, int]]) -> None:
    """Delete rows of slots.

    :raises TransactionConflict: a claim was faster.
    """
    if rows and session.execute_write(_REMOVE, rows) != len(rows):
        raise TransactionConflict
