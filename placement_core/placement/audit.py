"""The audit: whether the sums that the writes keep are what they claim to sum up.

``inventories.used`` and ``capacity`` are compared with allocations and totals,
the usage counters with the allocations of the consumers, pairs (``moves``) with
what their consumers hold. Each comparison is one statement, so it sees one
moment, also while others write. Repairing locks
the providers that look wrong (or the projects, which nobody else locks) first.
Source: design §4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db.metadata import utcnow
from placement_core.placement import counters, inventories, locks, moves, records, tables

_providers, _inventories, _allocations = (
    tables.resource_providers, tables.inventories, tables.allocations)
_classes, _projects, _users, _consumers = (
    tables.resource_classes, tables.projects, tables.users, tables.consumers)
_counters, _types = tables.usage_counters, tables.consumer_types

#: How many providers or projects are looked at (and locked) at once.
BATCH = 100

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


def _inventory_sums() -> sa.CompoundSelect:
    held = (
        sa.select(_allocations.c.resource_provider_id, _allocations.c.resource_class_id,
                  sa.func.sum(_allocations.c.used).label("held"))
        .where(_allocations.c.resource_provider_id.in_(sa.bindparam("batch", expanding=True)))
        .group_by(_allocations.c.resource_provider_id, _allocations.c.resource_class_id)
        .subquery())
    inventory = sa.and_(_inventories.c.resource_provider_id == held.c.resource_provider_id,
                        _inventories.c.resource_class_id == held.c.resource_class_id)
    shown = (_providers.c.uuid, _classes.c.name.label("resource_class"))
    with_inventory = (
        sa.select(_inventories.c.id, _inventories.c.resource_provider_id.label("provider_id"),
                  *shown, _inventories.c.used, _inventories.c.capacity,
                  *(_inventories.c[name] for name in _VALUES),
                  sa.func.coalesce(held.c.held, 0).label("held"))
        .outerjoin(held, inventory)
        .join(_providers, _providers.c.id == _inventories.c.resource_provider_id)
        .outerjoin(_classes, _classes.c.id == _inventories.c.resource_class_id)
        .where(_inventories.c.resource_provider_id.in_(sa.bindparam("batch", expanding=True))))
    nothing = sa.literal_column("0")
    without = (
        sa.select(sa.literal_column("-1"), held.c.resource_provider_id, *shown,
                  *[nothing] * (2 + len(_VALUES)), held.c.held)
        .select_from(held)
        .outerjoin(_inventories, inventory)
        .outerjoin(_providers, _providers.c.id == held.c.resource_provider_id)
        .outerjoin(_classes, _classes.c.id == held.c.resource_class_id)
        .where(_inventories.c.id.is_(None)))
    return sa.union_all(with_inventory, without)


def _counter_sums() -> sa.Select:
    """Build the statement that adds what consumers hold and takes off the counters."""
    batch = sa.bindparam("batch", expanding=True)
    kind = sa.func.coalesce(_consumers.c.consumer_type_id, tables.UNTYPED).label("kind")
    holders = sa.exists().where(_allocations.c.consumer_id == _consumers.c.uuid)
    stored = sa.select(
        _counters.c.project_id, _counters.c.user_id, _counters.c.consumer_type_id.label("kind"),
        _counters.c.resource_class_id.label("what"), _counters.c.used.label("stored"),
        sa.literal_column("0").label("actual"),
    ).where(_counters.c.project_id.in_(batch))
    held = sa.select(
        _consumers.c.project_id, _consumers.c.user_id, kind, _allocations.c.resource_class_id,
        sa.literal_column("0"), _allocations.c.used,
    ).join(_allocations, _allocations.c.consumer_id == _consumers.c.uuid
           ).where(_consumers.c.project_id.in_(batch))
    counted = sa.select(
        _consumers.c.project_id, _consumers.c.user_id, kind,
        sa.literal_column(str(tables.CONSUMERS)), sa.literal_column("0"), sa.literal_column("1"),
    ).where(_consumers.c.project_id.in_(batch), holders)
    both = sa.union_all(stored, held, counted).subquery()
    key = (both.c.project_id, both.c.user_id, both.c.kind, both.c.what)
    sums = (sa.func.sum(both.c.stored), sa.func.sum(both.c.actual))
    different = (
        sa.select(*key, sums[0].label("stored"), sums[1].label("actual"))
        .group_by(*key).having(sums[0] != sums[1]).subquery())
    return (
        sa.select(different, _projects.c.external_id.label("project"),
                  _users.c.external_id.label("user"), _types.c.name.label("consumer_type"),
                  _classes.c.name.label("resource_class"))
        .outerjoin(_projects, _projects.c.id == different.c.project_id)
        .outerjoin(_users, _users.c.id == different.c.user_id)
        .outerjoin(_types, _types.c.id == different.c.kind)
        .outerjoin(_classes, _classes.c.id == different.c.what)
        .order_by(different.c.project_id, different.c.user_id, different.c.kind,
                  different.c.what))


_PROVIDERS = (
    sa.select(_providers.c.id.label("id")).union(
        sa.select(_allocations.c.resource_provider_id)).subquery())
_PROJECTS = (
    sa.select(_projects.c.id.label("id")).union(sa.select(_counters.c.project_id)).subquery())
_EXISTING = sa.select(_providers.c.id).where(
    _providers.c.id.in_(sa.bindparam("batch", expanding=True)))
_INVENTORY_SUMS = _inventory_sums()
_COUNTER_SUMS = _counter_sums()
_CORRECT = (
    sa.update(_inventories).where(_inventories.c.id == sa.bindparam("inventory_id"))
    .values(used=sa.bindparam("new_used"), capacity=sa.bindparam("new_capacity"))
)
_HOLD_PROJECT = (
    sa.update(_projects).where(_projects.c.id == sa.bindparam("held_id"))
    .values(updated_at=sa.bindparam("now"))
)


def audit(ctx: Context, *, repair: bool) -> list[Finding]:
    """Find every kept sum that is wrong; put it right if ``repair``.

    Safe while the service is running.
    """
    findings: list[Finding] = []
    for batch in _batches(ctx, _PROVIDERS):
        findings += (_repair_inventories if repair else _check_inventories)(ctx, batch)
    for batch in _batches(ctx, _PROJECTS):
        findings += (_repair_counters if repair else _check_counters)(ctx, batch)
    findings += (_repair_moves if repair else _check_moves)(ctx)
    return findings


def _batches(ctx: Context, ids: sa.Subquery) -> Iterator[list[int]]:
    """Yield the ids in their order, ``BATCH`` at a time."""
    after = -1
    following = (sa.select(ids.c.id).where(ids.c.id > sa.bindparam("after"))
                 .order_by(ids.c.id).limit(sa.bindparam("most")))
    while True:
        with db.read(ctx) as session:
            batch = list(
                session.execute(following, {"after": after, "most": BATCH}).scalars())
        if not batch:
            return
        yield batch
        after = batch[-1]


# Inventories ----------------------------------------------------------------


def _check_inventories(ctx: Context, batch: Sequence[int]) -> list[Finding]:
    with db.read(ctx) as session:
        return [wrong.finding for wrong in _wrong_inventories(session, batch)]


@db.retry_writes
def _repair_inventories(ctx: Context, batch: Sequence[int]) -> list[Finding]:
    with db.read(ctx) as session:
        suspects = sorted({wrong.provider_id for wrong in _wrong_inventories(session, batch)})
    if not suspects:
        return []
    with db.write(ctx) as session:
        existing = session.execute(_EXISTING, {"batch": suspects}).scalars().all()
        locks.hold(session, dict.fromkeys(existing, 0))
        found = list(_wrong_inventories(session, suspects))
        corrections = {
            wrong.correction["inventory_id"]: wrong.correction
            for wrong in found if wrong.correction}
        if corrections:
            session.execute(_CORRECT, list(corrections.values()))
    return [dataclasses.replace(wrong.finding, repaired=wrong.correction is not None)
            for wrong in found]


class _Wrong(NamedTuple):
    """A finding, whose it is, and the values that would put the row right."""

    finding: Finding
    provider_id: int
    correction: dict[str, int] | None


def _wrong_inventories(session: db.Session, batch: Sequence[int]) -> Iterator[_Wrong]:
    for row in session.execute(_INVENTORY_SUMS, {"batch": list(batch)}):
        where = f"{row.resource_class} on resource provider {row.uuid}"
        held = int(row.held)
        if row.id == -1:
            yield _Wrong(Finding("inventory", where, 0, held), row.provider_id, None)
            continue
        capacity = inventories.stored_capacity(
            records.InventoryValues(*(getattr(row, name) for name in _VALUES)))
        correction = {"inventory_id": row.id, "new_used": held, "new_capacity": capacity}
        if row.used != held:
            yield _Wrong(Finding("used", where, row.used, held), row.provider_id, correction)
        if abs(row.capacity - capacity) > _tolerance(session, capacity):
            yield _Wrong(Finding("capacity", where, row.capacity, capacity),
                         row.provider_id, correction)


def _tolerance(session: db.Session, capacity: int) -> float:
    """Return how far a right capacity can be from the one that we compute.

    MySQL keeps a ratio in single precision and shows six digits of it, while
    the capacity was computed from the ratio as it was given.
    """
    return 1 + abs(capacity) * 1e-5 if session.dialect == "mysql" else 0


# Counters -------------------------------------------------------------------


def _check_counters(ctx: Context, batch: Sequence[int]) -> list[Finding]:
    with db.read(ctx) as session:
        return [finding for finding, _, _ in _wrong_counters(session, batch)]


@db.retry_writes
def _repair_counters(ctx: Context, batch: Sequence[int]) -> list[Finding]:
    if not _check_counters(ctx, batch):
        return []
    with db.write(ctx) as session:
        # Against other repairs. Claims may go on: they change both sides by the
        # same amount, and the difference is read in one statement.
        for project in batch:
            session.execute(_HOLD_PROJECT, {"held_id": project, "now": utcnow()})
        wrong = list(_wrong_counters(session, batch))
        counters.add(ctx, session, {key: difference for _, key, difference in wrong})
    return [dataclasses.replace(finding, repaired=True) for finding, _, _ in wrong]


def _wrong_counters(
    session: db.Session, batch: Sequence[int]
) -> Iterator[tuple[Finding, counters.Key, int]]:
    """Yield what is wrong, each with its counter and what has to be added to it."""
    for row in session.execute(_COUNTER_SUMS, {"batch": list(batch)}):
        what = "consumers" if row.what == tables.CONSUMERS else row.resource_class
        where = (f"{what} of project {row.project}, user {row.user}, "
                 f"consumer type {row.consumer_type}")
        stored, actual = int(row.stored), int(row.actual)
        yield (Finding("counter", where, stored, actual),
               (row.project_id, row.user_id, row.kind, row.what), actual - stored)


# Moves ----------------------------------------------------------------------


def _check_moves(ctx: Context) -> list[Finding]:
    with db.read(ctx) as session:
        return [finding for finding, _ in _wrong_moves(session)]


@db.retry_writes
def _repair_moves(ctx: Context) -> list[Finding]:
    with db.read(ctx) as session:
        suspects = {change.pair.consumer_uuid for _, change in _wrong_moves(session)}
    if not suspects:
        return []
    with db.write(ctx) as session:
        # Whoever writes one of the consumers takes the pair's rows too.
        moves.hold(session, sorted(suspects))
        wrong = [found for found in _wrong_moves(session)
                 if found[1].pair.consumer_uuid in suspects]
        moves.write(session, [change for _, change in wrong])
    return [dataclasses.replace(finding, repaired=True) for finding, _ in wrong]


def _wrong_moves(session: db.Session) -> Iterator[tuple[Finding, moves.Change]]:
    """Yield the pairs that are wrong, and what would put each right."""
    for kept, right in moves.every(session):
        if kept == right:
            continue
        where = f"what consumer {kept.consumer_uuid} holds a second time"
        actual = 0 if right is None else sum(right.used.values())
        yield Finding("move", where, sum(kept.used.values()), actual), moves.Change(kept, right)
