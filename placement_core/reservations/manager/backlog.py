"""What managers have to do, and whether there are any: numbers for monitoring."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import clock
from placement_core.reservations import records, tables
from placement_core.reservations.manager import heartbeats

_leases, _events, _outbox, _managers = (
    tables.leases, tables.lease_events, tables.outbox, tables.managers)

_STATUSES = (records.PENDING, records.ACTIVE, records.TERMINATED, records.ERROR)

#: A subquery: it is computed once for a statement, so that an index can be used.
_NOW = sa.select(clock.now()).scalar_subquery()
_is_due = sa.and_(
    sa.or_(*(_events.c.status == status for status in (records.UNDONE, records.IN_PROGRESS))),
    _events.c.due_at <= _NOW)

_LEASES = (
    sa.select(_leases.c.status, sa.func.count().label("number"))
    .where(_leases.c.deleted_at.is_(None)).group_by(_leases.c.status))
_count = sa.select(sa.func.count())
_NUMBERS = sa.select(
    clock.now().label("now"),
    _count.select_from(_events).where(_is_due).scalar_subquery().label("due_events"),
    sa.select(sa.func.min(_events.c.due_at)).where(_is_due).scalar_subquery().label("due_since"),
    _count.select_from(_events).where(_events.c.status == records.E_ERROR)
    .scalar_subquery().label("failed_events"),
    _count.select_from(_outbox).scalar_subquery().label("calls"),
    sa.select(sa.func.min(_outbox.c.created_at)).scalar_subquery().label("calls_since"),
    _count.select_from(_managers).where(heartbeats.IS_ALIVE).scalar_subquery().label("managers"),
    sa.select(sa.func.max(_managers.c.seen_at)).scalar_subquery().label("seen_at"))


@dataclasses.dataclass(frozen=True, slots=True)
class Backlog:
    """What there is to do for managers.

    :ivar due_events: how many events of leases are due and not done.
    :ivar longest_due_seconds: for how long the oldest of them has been due; 0: there is none.
    :ivar failed_events: how many events were given up.
    :ivar calls: how many calls to the compute service the outbox has.
    :ivar oldest_call_seconds: the age of the oldest of them; 0: there is none.
    :ivar managers: how many managers live.
    :ivar heartbeat_seconds: how long ago the last manager told that it lives; None: none ever
        did, or all ended long ago.
    """

    due_events: int
    longest_due_seconds: float
    failed_events: int
    calls: int
    oldest_call_seconds: float
    managers: int
    heartbeat_seconds: float | None


@db.retry_writes
def measure(ctx: Context) -> Backlog:
    """Return what there is to do for managers now, by the database's clock."""
    with db.read_once(ctx) as session:
        row = session.execute(_NUMBERS).one()

    def get_age(since: datetime.datetime | None) -> float:
        return 0.0 if since is None else max(0.0, (row.now - since).total_seconds())

    return Backlog(
        row.due_events, get_age(row.due_since), row.failed_events, row.calls,
        get_age(row.calls_since), row.managers,
        None if row.seen_at is None else get_age(row.seen_at))


@db.retry_writes
def count_leases(ctx: Context) -> Mapping[str, int]:
    """Return how many leases have each status; deleted ones are not counted.

    It reads all of them, which what is shown on each page need not.
    """
    with db.read_once(ctx) as session:
        return dict.fromkeys(_STATUSES, 0) | {
            row.status: row.number for row in session.execute(_LEASES)}
