"""The audit: whether the sums that the writes keep are what they claim to sum up.

``inventories.used`` and ``capacity`` are compared with allocations and totals,
the usage counters with the allocations of the consumers, pairs (``moves``) with
what their consumers hold. It goes over each table once, from one id to the next: each
comparison is one statement about a range of ids, so it sees one moment, also while
others write, and costs what is in the range. Repairing locks the providers that look
wrong (or the projects, which nobody else locks) first.
Source: design §4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db.metadata import utcnow
from placement_core.placement import inventories, locks, records, tables
from placement_core.placement.allocations import moves, usage_counters

_providers, _inventories, _allocations = (
    tables.resource_providers, tables.inventories, tables.allocations)
_classes, _projects, _users, _consumers = (
    tables.resource_classes, tables.projects, tables.users, tables.consumers)
_counters, _types = tables.usage_counters, tables.consumer_types

#: How many providers, projects or pairs are looked at at once.
BATCH = 500
#: How many providers are locked at once.
_LOCKED = 100

#: Is told (what, how many are done, how many there are).
Report: TypeAlias = Callable[[str, int, int], None]
#: The ids above the first and up to the second one.
_Ids: TypeAlias = tuple[int, int]

_VALUES = tuple(field.name for field in dataclasses.fields(records.InventoryValues))


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """A number in the database that is not what it should be.

    :ivar what: ``used``, ``capacity``, ``counter``, ``move`` or ``inventory``
        (missing, though there are allocations; not repairable here).
    :ivar where: whose number it is, in words of the API.
    :ivar stored: what the database says.
    :ivar actual: what it should say.
    """

    what: str
    where: str
    stored: int
    actual: int
    repaired: bool = False


def _is_in_range(ids: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Return a condition; on joined tables, too, or PostgreSQL looks at all their rows."""
    return sa.and_(ids > sa.bindparam("after"), ids <= sa.bindparam("until"))


def _build_inventory_sums() -> sa.CompoundSelect[Any]:
    held = (
        sa.select(_allocations.c.resource_provider_id, _allocations.c.resource_class_id,
                  sa.func.sum(_allocations.c.used).label("held"))
        .where(_is_in_range(_allocations.c.resource_provider_id))
        .group_by(_allocations.c.resource_provider_id, _allocations.c.resource_class_id)
        .subquery())
    inventory = sa.and_(_inventories.c.resource_provider_id == held.c.resource_provider_id,
                        _inventories.c.resource_class_id == held.c.resource_class_id)
    shown = (_providers.c.uuid, _providers.c.name, _classes.c.name.label("resource_class"))
    with_inventory = (
        sa.select(_inventories.c.id, _inventories.c.resource_provider_id.label("provider_id"),
                  *shown, _inventories.c.used, _inventories.c.capacity,
                  *(_inventories.c[name] for name in _VALUES),
                  sa.func.coalesce(held.c.held, 0).label("held"))
        .outerjoin(held, inventory)
        .join(_providers, sa.and_(
            _providers.c.id == _inventories.c.resource_provider_id, _is_in_range(_providers.c.id)))
        .outerjoin(_classes, _classes.c.id == _inventories.c.resource_class_id)
        .where(_is_in_range(_inventories.c.resource_provider_id)))
    nothing = sa.literal_column("0")
    without = (
        sa.select(sa.literal_column("-1"), held.c.resource_provider_id, *shown,
                  *[nothing] * (2 + len(_VALUES)), held.c.held)
        .select_from(held)
        .outerjoin(_inventories, sa.and_(
            inventory, _is_in_range(_inventories.c.resource_provider_id)))
        .outerjoin(_providers, sa.and_(
            _providers.c.id == held.c.resource_provider_id, _is_in_range(_providers.c.id)))
        .outerjoin(_classes, _classes.c.id == held.c.resource_class_id)
        .where(_inventories.c.id.is_(None)))
    return sa.union_all(with_inventory, without)


def _build_counter_sums() -> sa.Select[Any]:
    """Build the statement that compares what consumers hold with the counters.

    With those of users, and of everybody where these have been summed up.
    """
    kind = sa.func.coalesce(_consumers.c.consumer_type_id, tables.UNTYPED).label("kind")
    holders = sa.exists().where(_allocations.c.consumer_id == _consumers.c.uuid)
    stored = sa.select(
        _counters.c.project_id, _counters.c.user_id, _counters.c.consumer_type_id.label("kind"),
        _counters.c.resource_class_id.label("what"), _counters.c.used.label("stored"),
        sa.literal_column("0").label("actual"),
    )
    held = sa.select(
        _consumers.c.project_id, _consumers.c.user_id, kind,
        _allocations.c.resource_class_id.label("what"),
        sa.literal_column("0").label("stored"), _allocations.c.used.label("actual"),
    ).join(_allocations, _allocations.c.consumer_id == _consumers.c.uuid
           ).where(_is_in_range(_consumers.c.project_id))
    counted = sa.select(
        _consumers.c.project_id, _consumers.c.user_id, kind,
        sa.literal_column(str(tables.CONSUMERS_ID)), sa.literal_column("0"),
        sa.literal_column("1"),
    ).where(_is_in_range(_consumers.c.project_id), holders)
    of_users = sa.union_all(held, counted).subquery("of_users")
    everybody = sa.select(
        (-of_users.c.project_id).label("project_id"),
        sa.literal_column(str(tables.EVERYBODY)).label("user_id"),
        of_users.c.kind, of_users.c.what, of_users.c.stored, of_users.c.actual,
    ).where(usage_counters.SUMMED_UP)
    both = sa.union_all(
        stored.where(_is_in_range(_counters.c.project_id)), held, counted,
        stored.where(_counters.c.project_id >= sa.bindparam("least_sum"),
                     _counters.c.project_id < sa.bindparam("below_sum"),
                     usage_counters.SUMMED_UP),
        everybody).subquery()
    key = (both.c.project_id, both.c.user_id, both.c.kind, both.c.what)
    sums = (sa.func.sum(both.c.stored), sa.func.sum(both.c.actual))
    different = (
        sa.select(*key, sums[0].label("stored"), sums[1].label("actual"))
        .group_by(*key).having(sums[0] != sums[1]).subquery())
    return (
        sa.select(different, _projects.c.external_id.label("project"),
                  _users.c.external_id.label("user"), _types.c.name.label("consumer_type"),
                  _classes.c.name.label("resource_class"))
        .outerjoin(_projects, sa.and_(
            _projects.c.id == sa.func.abs(different.c.project_id), _is_in_range(_projects.c.id)))
        .outerjoin(_users, _users.c.id == different.c.user_id)
        .outerjoin(_types, _types.c.id == different.c.kind)
        .outerjoin(_classes, _classes.c.id == different.c.what)
        .order_by(sa.func.abs(different.c.project_id), different.c.project_id.desc(),
                  different.c.user_id, different.c.kind, different.c.what))


_EXISTING = sa.select(_providers.c.id).where(
    _providers.c.id.in_(sa.bindparam("suspects", expanding=True)))
_INVENTORY_SUMS = _build_inventory_sums()
_COUNTER_SUMS = _build_counter_sums()
_CORRECT = (
    sa.update(_inventories).where(_inventories.c.id == sa.bindparam("inventory_id"))
    .values(used=sa.bindparam("new_used"), capacity=sa.bindparam("new_capacity"))
)
_LOCK_PROJECT = (
    sa.update(_projects).where(_projects.c.id == sa.bindparam("of_id"))
    .values(updated_at=sa.bindparam("now"))
)


def audit(ctx: Context, *, repair: bool, report: Report | None = None) -> list[Finding]:
    """Find every kept sum that is wrong; put it right if ``repair``.

    Safe while the service is running.

    :param report: is called with what is compared, how many of them were, and how many
        there are.
    """
    findings: list[Finding] = []
    for ids in _report_ranges(ctx, "resource providers", _providers.c.id, report):
        findings += (_repair_inventories if repair else _check_inventories)(ctx, ids)
    for ids in _report_ranges(ctx, "projects", _projects.c.id, report):
        findings += (_repair_counters if repair else _check_counters)(ctx, ids)
    for uuids in moves.list_ranges(ctx, BATCH):
        findings += (_repair_moves if repair else _check_moves)(ctx, uuids)
    return findings


def _report_ranges(
    ctx: Context, what: str, key: sa.Column[int], report: Report | None
) -> Iterator[_Ids]:
    """Yield the ranges of a table, and report how many of its rows are done."""
    total = 0 if report is None else _count(ctx, key)
    for number, ids in enumerate(_list_ranges(ctx, key), 1):
        yield ids
        if report is not None:
            report(what, min(number * BATCH, total), total)


@db.retry_writes
def _count(ctx: Context, key: sa.Column[int]) -> int:
    with db.read_once(ctx) as session:
        count: int = session.execute(sa.select(sa.func.count(key))).scalar_one()
        return count


def _list_ranges(ctx: Context, key: sa.Column[int]) -> Iterator[_Ids]:
    """Yield ranges that together have all ids, each with ``BATCH`` rows of the key's table.

    Ids in other tables that the key's table does not have are in some range, too.
    """
    following = (sa.select(key).where(key > sa.bindparam("after")).order_by(key)
                 .limit(BATCH).subquery())
    last = sa.select(sa.func.max(following.c.id))
    after = -1
    while after < locks.LARGEST_INTEGER:
        until = _read_last(ctx, last, after)
        yield after, until
        after = until


@db.retry_writes
def _read_last(ctx: Context, statement: sa.Select[tuple[int]], after: int) -> int:
    with db.read_once(ctx) as session:
        last_id: int | None = session.execute(statement, {"after": after}).scalar_one()
    return locks.LARGEST_INTEGER if last_id is None else last_id


# Inventories ----------------------------------------------------------------


@db.retry_writes
def _check_inventories(ctx: Context, ids: _Ids) -> list[Finding]:
    with db.read(ctx) as session:
        return [wrong.finding for wrong in _find_wrong_inventories(session, ids)]


@db.retry_writes
def _repair_inventories(ctx: Context, ids: _Ids) -> list[Finding]:
    with db.read(ctx) as session:
        suspects = sorted({wrong.provider_id for wrong in _find_wrong_inventories(session, ids)})
    findings = []
    for start in range(0, len(suspects), _LOCKED):
        findings += _repair_providers(ctx, ids, suspects[start:start + _LOCKED])
    return findings


@db.retry_writes
def _repair_providers(ctx: Context, ids: _Ids, suspects: Sequence[int]) -> list[Finding]:
    ids = max(ids[0], suspects[0] - 1), min(ids[1], suspects[-1])
    with db.write(ctx) as session:
        existing = session.execute(_EXISTING, {"suspects": suspects}).scalars().all()
        locks.lock_providers(session, dict.fromkeys(existing, 0))
        wrongs = [wrong for wrong in _find_wrong_inventories(session, ids)
                 if wrong.provider_id in suspects]
        corrections = {
            wrong.correction["inventory_id"]: wrong.correction
            for wrong in wrongs if wrong.correction}
        if corrections:
            session.execute(_CORRECT, list(corrections.values()))
    return [dataclasses.replace(wrong.finding, repaired=wrong.correction is not None)
            for wrong in wrongs]


class _Wrong(NamedTuple):
    """A finding, whose it is, and the values that would put the row right."""

    finding: Finding
    provider_id: int
    correction: dict[str, int] | None


def _find_wrong_inventories(session: db.Session, ids: _Ids) -> Iterator[_Wrong]:
    after, until = ids
    for row in session.execute(_INVENTORY_SUMS, {"after": after, "until": until}):
        where = f"{row.resource_class} on resource provider {row.name} ({row.uuid})"
        held = int(row.held)
        if row.id == -1:
            yield _Wrong(Finding("inventory", where, 0, held), row.provider_id, None)
            continue
        capacity = inventories.stored_capacity(
            records.InventoryValues(*(getattr(row, name) for name in _VALUES)))
        correction = {"inventory_id": row.id, "new_used": held, "new_capacity": capacity}
        if row.used != held:
            yield _Wrong(Finding("used", where, row.used, held), row.provider_id, correction)
        if abs(row.capacity - capacity) > _build_tolerance(session, capacity):
            yield _Wrong(Finding("capacity", where, row.capacity, capacity),
                         row.provider_id, correction)


def _build_tolerance(session: db.Session, capacity: int) -> float:
    """Return how far a right capacity can be from the one that we compute.

    MySQL keeps a ratio in single precision and shows six digits of it, while
    the capacity was computed from the ratio as it was given.
    """
    return 1 + abs(capacity) * 1e-5 if session.dialect == "mysql" else 0


# Counters -------------------------------------------------------------------


@db.retry_writes
def _check_counters(ctx: Context, ids: _Ids) -> list[Finding]:
    with db.read(ctx) as session:
        return [finding for finding, _, _ in _find_wrong_counters(session, ids)]


@db.retry_writes
def _repair_counters(ctx: Context, ids: _Ids) -> list[Finding]:
    with db.read(ctx) as session:
        suspects = sorted({abs(key[0]) for _, key, _ in _find_wrong_counters(session, ids)})
    if not suspects:
        return []
    with db.write(ctx) as session:
        # Against other repairs. Claims may go on: they change both sides by the
        # same amount, and the difference is read in one statement.
        for project in suspects:
            session.execute(_LOCK_PROJECT, {"of_id": project, "now": utcnow()})
        wrong = [counter for counter in _find_wrong_counters(session, ids)
                 if abs(counter[1][0]) in suspects]
        usage_counters.put(ctx, session, {key: difference for _, key, difference in wrong})
    return [dataclasses.replace(finding, repaired=True) for finding, _, _ in wrong]


def _find_wrong_counters(
    session: db.Session, ids: _Ids
) -> Iterator[tuple[Finding, usage_counters.Key, int]]:
    """Yield what is wrong, each with its counter and what has to be added to it."""
    after, until = ids
    for row in session.execute(_COUNTER_SUMS, {
            "after": after, "until": until, "least_sum": -until, "below_sum": -after}):
        what = "consumers" if row.what == tables.CONSUMERS_ID else row.resource_class
        whose = "all users" if row.project_id < 0 else f"user {row.user}"
        where = f"{what} of project {row.project}, {whose}, consumer type {row.consumer_type}"
        stored, actual = int(row.stored), int(row.actual)
        yield (Finding("counter", where, stored, actual),
               (row.project_id, row.user_id, row.kind, row.what), actual - stored)


# Moves ----------------------------------------------------------------------


@db.retry_writes
def _check_moves(ctx: Context, uuids: moves.Range) -> list[Finding]:
    with db.read(ctx) as session:
        return [finding for finding, _ in _find_wrong_moves(session, uuids)]


@db.retry_writes
def _repair_moves(ctx: Context, uuids: moves.Range) -> list[Finding]:
    with db.read(ctx) as session:
        suspects = {change.pair.consumer_uuid for _, change in _find_wrong_moves(session, uuids)}
    if not suspects:
        return []
    with db.write(ctx) as session:
        # Whoever writes one of the consumers takes the pair's rows too.
        moves.lock_pairs(session, sorted(suspects))
        wrong = [move for move in _find_wrong_moves(session, uuids)
                 if move[1].pair.consumer_uuid in suspects]
        moves.write_pairs(session, [change for _, change in wrong])
    return [dataclasses.replace(finding, repaired=True) for finding, _ in wrong]


def _find_wrong_moves(
    session: db.Session, uuids: moves.Range
) -> Iterator[tuple[Finding, moves.PairChange]]:
    """Yield the pairs that are wrong, and what would put each right."""
    for stored, right in moves.read_recounted(session, uuids):
        if stored == right:
            continue
        where = f"what consumer {stored.consumer_uuid} holds a second time"
        actual = 0 if right is None else sum(right.used.values())
        yield (Finding("move", where, sum(stored.used.values()), actual),
               moves.PairChange(stored, right))
