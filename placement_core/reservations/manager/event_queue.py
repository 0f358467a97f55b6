"""The queue of lease events: which are ready, who executes them, and what follows a failure.

A manager dequeues due events. Their rows then have its name as owner, the number of the
attempt and a deadline by the database's clock. The transaction that executes an event checks
owner and attempt when it marks the event as done. So a manager that was paused past the deadline,
and whose event another one dequeued meanwhile, changes nothing when it continues.

Overdue events are executed in the order of their times; at the same time, ends before starts.
Two kinds of events have to wait:

* A start waits for every end of another lease that was due by then on one of its hosts, also for
  one that failed, and for the cleaning after an end that was late: until then its hosts are not
  free (``occupancy``).
* An end waits for the lease's start and its ``before_end_lease``, however late all of them are.
  It does not wait for a ``before_end_lease`` that failed, nor for a start that waits for other
  leases: that lease never starts.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import PreparedRead, clock, lists
from placement_core.reservations import errors, records, tables
from placement_core.reservations.leases.transitions import EventAttempt
from placement_core.reservations.records import EventWork
from placement_core.reservations.scheduling import occupancy
from placement_core.reservations.store import lease_rows

_leases, _events, _reservations, _allocations = (
    tables.leases, tables.lease_events, tables.lease_reservations,
    tables.computehost_allocations)

_OPEN = (records.UNDONE, records.IN_PROGRESS)
#: How many due events the first query reads.
_WINDOW = 100
#: How many queries look for ready events, if other managers were quicker each time.
_TRIES = 3

#: A subquery: it is computed once for a statement, so that an index can be used.
_NOW = sa.select(clock.now()).scalar_subquery()
#: At the same time, events that release hosts come before those that occupy them.
_ORDER = (_events.c.due_at, sa.case(
    (_events.c.event_type == records.BEFORE_END, 0), (_events.c.event_type == records.END, 1),
    else_=2))


#: Not IN: SQLAlchemy would make a parameter of the list, which no caller sets.
_open = sa.or_(*(_events.c.status == status for status in _OPEN))
_free = sa.or_(_events.c.deadline_at.is_(None), _events.c.deadline_at <= _NOW)

#: All overdue events: those that can be dequeued, and those that they may have to wait for.
_DUE = PreparedRead(
    sa.select(_events.c.id, _events.c.lease_id, _events.c.event_type, _events.c.due_at,
              _events.c.status, _events.c.failures, sa.case((_free, 1), else_=0).label("free"))
    .where(
        sa.or_(_open, sa.and_(_events.c.status == records.E_ERROR,
                              _events.c.event_type == records.END)),
        _events.c.due_at <= _NOW)
    .order_by(*_ORDER, _events.c.id).limit(sa.bindparam("window", type_=sa.Integer)))
_HOSTS = (
    sa.select(_reservations.c.lease_id, _allocations.c.computehost_id)
    .join(_allocations, _allocations.c.reservation_id == _reservations.c.id)
    .where(lists.among(_reservations.c.lease_id, "leases")))
_LOCK = (
    sa.select(_events.c.id, _events.c.lease_id, _events.c.event_type, _events.c.attempt,
              _events.c.due_at, clock.now().label("at"))
    .join(_leases, _leases.c.id == _events.c.lease_id)
    .where(_events.c.id.in_(sa.bindparam("ids", expanding=True)), _open,
           _events.c.due_at <= _NOW, _free)
    .order_by(*_ORDER).with_for_update(skip_locked=True))
_MARK_IN_PROGRESS = (
    sa.update(_events).where(_events.c.id.in_(sa.bindparam("ids", expanding=True)))
    .values(status=records.IN_PROGRESS, owner=sa.bindparam("by_owner"),
            attempt=_events.c.attempt + 1, problem=None,
            deadline_at=clock.in_seconds(sa.bindparam("seconds", type_=sa.Integer))))

_NEXT = PreparedRead(sa.select(
    clock.now().label("at"),
    sa.select(sa.func.min(_events.c.due_at))
    .where(_events.c.status == records.UNDONE, _events.c.due_at > _NOW)
    .scalar_subquery().label("due_at"),
    sa.select(sa.func.min(_events.c.deadline_at))
    .where(_open, _events.c.due_at <= _NOW, _events.c.deadline_at > _NOW)
    .scalar_subquery().label("again_at")))

_is_owned = sa.and_(
    _events.c.id == sa.bindparam("of_event"), _events.c.status == records.IN_PROGRESS,
    _events.c.owner == sa.bindparam("of_owner"), _events.c.attempt == sa.bindparam("of_attempt"))
_RELEASE = (
    sa.update(_events).where(_is_owned, _events.c.failures < sa.bindparam("retries"))
    .values(status=records.UNDONE, owner=None, failures=_events.c.failures + 1,
            problem=sa.bindparam("why"),
            deadline_at=clock.in_seconds(sa.bindparam("seconds", type_=sa.Integer))))
_RETRY = (
    sa.update(_events)
    .where(_events.c.id == sa.bindparam("of_event"), _events.c.status == records.E_ERROR)
    .values(status=records.UNDONE, owner=None, failures=0, deadline_at=None, problem=None))
_LEASE_OF_EVENT = sa.select(_events.c.lease_id).where(_events.c.id == sa.bindparam("of_event"))
_STATUS = sa.select(_events.c.status).where(_events.c.id == sa.bindparam("of_event"))
_LIST = (
    sa.select(_events)
    .where(_events.c.status.in_(sa.bindparam("statuses", expanding=True)))
    .order_by(*_ORDER, _events.c.id))
_FAILED = (
    sa.select(_events).where(_events.c.status == records.E_ERROR)
    .order_by(_events.c.due_at.desc(), _events.c.id)
    .limit(sa.bindparam("most", type_=sa.Integer)))

_STATUSES = (records.UNDONE, records.IN_PROGRESS, records.DONE, records.E_ERROR)


def dequeue(
    ctx: Context, owner: str, *, most: int, seconds: int, cleaning_seconds: int = 0
) -> list[EventAttempt]:
    """Dequeue events that are due and ready; ``owner`` owns them until a deadline.

    :param most: how many at most.
    :param seconds: how long until the deadline.
    :param cleaning_seconds: how long hosts are cleaned after a lease.
    :returns: in the order in which they have to be begun; empty: none is ready.
    """
    for _ in range(_TRIES):
        event_ids = _find_ready(ctx, most, cleaning_seconds)
        attempts = _dequeue(ctx, owner, event_ids, seconds) if event_ids else []
        if attempts or not event_ids:
            return attempts
    return []


@db.retry_writes
def _find_ready(ctx: Context, most: int, cleaning_seconds: int) -> list[str]:
    """Return the ids of events that have no owner and nothing to wait for, in order."""
    window = _WINDOW
    while True:
        due = _DUE.fetch(ctx, {"window": window})
        event_ids = _select_ready(ctx, due, cleaning_seconds)
        # All due events that come before an event are in the window, too.
        if len(event_ids) >= most or len(due) < window:
            return event_ids[:most]
        window *= 4


def _select_ready(
    ctx: Context, due: Sequence[Any], cleaning_seconds: int
) -> list[str]:
    starts = {row.lease_id: row for row in due if row.event_type == records.START}
    befores = {row.lease_id for row in due
               if row.event_type == records.BEFORE_END and not row.failures}
    waiting = _find_waiting(ctx, starts, cleaning_seconds)
    event_ids = []
    for row in due:
        lease = row.lease_id
        if not row.free or row.status == records.E_ERROR:
            continue
        if row.event_type == records.START:
            ready = lease not in waiting
        elif row.event_type == records.END and lease in starts:
            ready = lease in waiting
        else:
            ready = lease not in starts and not (
                row.event_type == records.END and lease in befores)
        if ready:
            event_ids.append(row.id)
    return event_ids


def _find_waiting(
    ctx: Context, starts: Mapping[str, Any], cleaning_seconds: int
) -> set[str]:
    """Return the leases that cannot start because others have not ended on their hosts."""
    if not starts:
        return set()
    with db.read_each(ctx) as session:
        occupied = occupancy.find(session, cleaning_seconds=cleaning_seconds)
        if not occupied:
            return set()
        hosts: dict[str, list[int]] = {}
        for row in session.execute(_HOSTS, {"leases": sorted(starts)}):
            hosts.setdefault(row.lease_id, []).append(row.computehost_id)
    return {
        lease for lease, start in starts.items()
        if occupancy.keeps_waiting(occupied, lease, start.due_at, hosts.get(lease, ()))}


@db.retry_writes
def _dequeue(ctx: Context, owner: str, ids: Sequence[str], seconds: int) -> list[EventAttempt]:
    """Take ownership of those events that still have no owner and are not locked by others."""
    with db.write(ctx) as session:
        rows = session.execute(_LOCK, {"ids": ids}).all()
        if rows:
            lease_rows.lock_all(session, sorted({row.lease_id for row in rows}))
            session.execute(_MARK_IN_PROGRESS, {
                "ids": [row.id for row in rows], "by_owner": owner, "seconds": seconds})
    return [
        EventAttempt(row.id, row.lease_id, row.event_type, owner, row.attempt + 1,
                     max(0.0, (row.at - row.due_at).total_seconds()))
        for row in rows]


@db.retry_writes
def next_due(ctx: Context) -> float | None:
    """Return in how many seconds the next event becomes due, or can be dequeued again.

    :returns: None: there is no such event.
    """
    [row] = _NEXT.fetch(ctx)
    moments = [at for at in (row.due_at, row.again_at) if at is not None]
    return (min(moments) - row.at).total_seconds() if moments else None


@db.retry_writes
def release(
    ctx: Context, attempt: EventAttempt, problem: str, *, again_in_seconds: int, retries: int
) -> bool:
    """Release an event that failed; a manager executes it again in ``again_in_seconds``.

    :param retries: how often it may have failed before.
    :returns: False: it has no retries left, or another manager owns it; nothing was written.
    """
    with db.write(ctx) as session:
        lease_rows.lock(session, attempt.lease_id)
        return session.execute(_RELEASE, {
            **_identify(attempt), "why": problem, "seconds": again_in_seconds, "retries": retries,
        }).rowcount == 1


def _identify(attempt: EventAttempt) -> dict[str, Any]:
    return {"of_event": attempt.event_id, "of_owner": attempt.owner, "of_attempt": attempt.number}


@db.retry_writes
def retry(ctx: Context, event_id: str) -> None:
    """Make an event in status ERROR due again, as if it had never failed.

    :raises EventNotFound:
    :raises WrongStatus: it is in another status.
    """
    with db.write(ctx) as session:
        lease_id = session.execute(_LEASE_OF_EVENT, {"of_event": event_id}).scalar()
        if lease_id is None or not lease_rows.lock(session, lease_id):
            raise errors.EventNotFound(f"There is no event {event_id}.")
        if session.execute(_RETRY, {"of_event": event_id}).rowcount == 1:
            return
        status = session.execute(_STATUS, {"of_event": event_id}).scalar_one()
    raise errors.WrongStatus(
        f"The event {event_id} is {status}; only one that is {records.E_ERROR} can be retried.")


def list_(ctx: Context, *, status: str | None = None) -> list[EventWork]:
    """Return events in the order of their due times.

    :param status: only events in this status; None: all that are not done.
    """
    statuses = [status] if status else [
        open_status for open_status in _STATUSES if open_status != records.DONE]
    with db.read_once(ctx) as session:
        return list(map(_build, session.execute(_LIST, {"statuses": statuses})))


@db.retry_writes
def list_failed(ctx: Context, limit: int) -> list[EventWork]:
    """Return events in status ERROR, those that were due last first."""
    with db.read_once(ctx) as session:
        return list(map(_build, session.execute(_FAILED, {"most": limit})))


def _build(row: sa.Row[Any]) -> EventWork:
    return EventWork(
        row.id, row.lease_id, row.event_type, _aware(row.due_at), row.status, row.owner,
        row.attempt, row.failures, row.deadline_at and _aware(row.deadline_at), row.problem)


def _aware(at: datetime.datetime) -> datetime.datetime:
    return at.replace(tzinfo=datetime.UTC)


def _has_failed(ends: sa.FromClause) -> sa.ColumnElement[bool]:
    """Build whether an event is an end that has failed, and is not done."""
    return sa.and_(
        ends.c.event_type == records.END,
        sa.or_(ends.c.status == records.E_ERROR,
               sa.and_(ends.c.status.in_(_OPEN), ends.c.failures > 0)))


def _select_waiting() -> sa.Select[Any]:
    """Build the query of starts that wait for ends of some leases which failed, and of why."""
    ends = _events.alias("ends")
    starting, ending = _reservations.alias("starting"), _reservations.alias("ending")
    needed, occupied = _allocations.alias("needed"), _allocations.alias("occupied")
    return (
        sa.select(_events.c.id, _events.c.problem, ends.c.lease_id, ends.c.problem.label("why"))
        .select_from(_events)
        .join(starting, starting.c.lease_id == _events.c.lease_id)
        .join(needed, needed.c.reservation_id == starting.c.id)
        .join(occupied, occupied.c.computehost_id == needed.c.computehost_id)
        .join(ending, ending.c.id == occupied.c.reservation_id)
        .join(ends, ends.c.lease_id == ending.c.lease_id)
        .where(
            _events.c.status == records.UNDONE, _events.c.due_at <= _NOW,
            _events.c.event_type == records.START,
            lists.among_many(ends.c.lease_id, "lease_ids"), ends.c.due_at <= _events.c.due_at,
            _has_failed(ends))
        .order_by(_events.c.id, ends.c.due_at, ends.c.id))


# A statement of its own, because mostly there are none: joined to them, PostgreSQL reads the
# reservations of all leases.
_LEASES_WITH_FAILED_ENDS = sa.select(_events.c.lease_id).where(
    _events.c.due_at <= _NOW, _has_failed(_events))
_WAITING_STARTS = _select_waiting()
_SET_PROBLEM = (
    sa.update(_events)
    .where(_events.c.id == sa.bindparam("of_event"), _events.c.status == records.UNDONE)
    .values(problem=sa.bindparam("why")))


@db.retry_writes
def explain_waiting(ctx: Context) -> None:
    """Record as ``problem`` of each start that waits for a failed end what it waits for."""
    with db.read_each(ctx) as session:
        leases = session.execute(_LEASES_WITH_FAILED_ENDS).scalars().all()
        if not leases:
            return
        rows = session.execute(_WAITING_STARTS, {"lease_ids": sorted(leases)}).all()
    first = {row.id: row for row in reversed(rows)}
    explanations = [
        {"of_event": row.id, "why": why} for row in first.values()
        if row.problem != (why := f"It waits for the end of lease {row.lease_id}, which failed: "
                                  f"{row.why}")]
    if explanations:
        with db.write(ctx) as session:
            session.execute(_SET_PROBLEM, explanations)
