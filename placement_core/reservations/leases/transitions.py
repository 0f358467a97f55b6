"""The transitions of a lease: its start, the time before its end, and its end.

Each is one transaction, which also marks its event as done. So it happens once, whichever
manager tries. The lease's row is locked first, then its event's; an ``end`` before its time
locks the pool's row before both.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.db import Session, clock
from placement_core.plugin_api.reservations import ReservationPlugin, ReservationSpec, Share
from placement_core.reservations import errors, records, tables
from placement_core.reservations.leases import notifications
from placement_core.reservations.policy.rules import LeaseRules
from placement_core.reservations.provisioning.provisioner import Provisioner
from placement_core.reservations.records import Lease, Reservation
from placement_core.reservations.scheduling import occupancy
from placement_core.reservations.store import bookings, lease_rows

_events = tables.lease_events

#: The event is still owned by this attempt.
_is_owned = (
    _events.c.id == sa.bindparam("event_id"), _events.c.lease_id == sa.bindparam("of_lease"),
    _events.c.owner == sa.bindparam("by"), _events.c.attempt == sa.bindparam("of_attempt"),
    _events.c.status == records.IN_PROGRESS)
_MARK_DONE = sa.update(_events).where(*_is_owned).values(
    status=records.DONE, owner=None, deadline_at=None, problem=None, done_at=clock.now())
_MARK_FAILED = sa.update(_events).where(*_is_owned).values(
    status=records.E_ERROR, owner=None, deadline_at=None, problem=sa.bindparam("why"))

_POSTPONE = sa.update(_events).where(*_is_owned).values(
    status=records.UNDONE, owner=None, deadline_at=None)

_NOT_DELETED = (records.R_PENDING, records.R_ACTIVE, records.R_ERROR)

_NOTIFICATIONS = {
    records.START: notifications.STARTED, records.BEFORE_END: notifications.ENDS_SOON,
    records.END: notifications.ENDED}


@dataclasses.dataclass(frozen=True, slots=True)
class EventAttempt:
    """One attempt to execute an event.

    :ivar number: the number of the attempt; only the last one owns the event.
    :ivar late_seconds: how long after its due time it was dequeued.
    """

    event_id: str
    lease_id: str
    event_type: str
    owner: str
    number: int
    late_seconds: float = dataclasses.field(default=0.0, compare=False)


class _NotOwned(Exception):
    """Another attempt owns the event, or it is not to be executed any more."""


class _HostsOccupied(Exception):
    """The start has to wait: hosts of the lease are not free yet."""


class Transitions:
    """Executes the events of leases.

    :param plugins: {resource type: plugin}.
    :param rules: are notified of leases that have ended.
    :param cleaning_seconds: how long hosts are cleaned after a lease.
    """

    def __init__(
        self, plugins: Mapping[str, ReservationPlugin], provisioner: Provisioner,
        rules: LeaseRules, *, cleaning_seconds: int = 0,
    ) -> None:
        self._cleaning_seconds = cleaning_seconds
        self._plugins = plugins
        self._provisioner = provisioner
        self._rules = rules

    def execute(self, ctx: Context, attempt: EventAttempt) -> bool:
        """Execute an event and mark it as done, in one transaction.

        :returns: False: another attempt owns it, or it is not to be executed any more; nothing
            was written. Or it has to wait; then it has no owner any more.
        :raises errors.WrongStatus: the lease has to start before.
        :raises errors.Error: it could not be executed now; nothing was written.
        """
        try:
            ended = db.retry_writes(self._execute)(ctx, attempt)
        except _NotOwned:
            return False
        except _HostsOccupied:
            db.retry_writes(self._postpone)(ctx, attempt)
            return False
        if ended is not None:
            self._rules.notify_end(ctx, ended)
        return True

    def fail(self, ctx: Context, attempt: EventAttempt, problem: str) -> bool:
        """Mark an event as failed for good; if it was a start or an end, so is the lease.

        :param problem: the reason, for operators.
        :returns: as ``execute``.
        """
        try:
            db.retry_writes(self._fail)(ctx, attempt, problem)
        except _NotOwned:
            return False
        return True

    def _execute(self, ctx: Context, attempt: EventAttempt) -> Lease | None:
        """Execute an event; return the lease if that ended it."""
        with db.write(ctx) as session:
            lease, now = _lock(session, attempt, _MARK_DONE)
            if attempt.event_type == records.END:
                if lease.status == records.TERMINATED:
                    return None
                return end(ctx, session, self._plugins, self._provisioner, lease, now)
            if attempt.event_type == records.START:
                self._start(ctx, session, lease, now)
            else:
                self._prepare_end(ctx, session, lease, now)
        return None

    def _start(
        self, ctx: Context, session: Session, lease: Lease, now: datetime.datetime
    ) -> None:
        if lease.status not in (records.PENDING, records.ERROR) or lease.end_at <= now:
            # A lease whose time is over does not start; others may have its hosts.
            return
        shares = bookings.read_shares(session, lease)
        self._check_free(session, lease, shares)
        before = (records.R_PENDING, records.R_ERROR)
        lease_rows.set_status(session, lease.id, before, records.R_ACTIVE, now)
        lease_rows.update(session, lease.number, {
            "status": records.ACTIVE, "updated_at": lease_rows.naive(now)})
        lease = _with_statuses(lease, records.ACTIVE, before, records.R_ACTIVE, now)
        # The ids of resource classes, for which others wait, come last.
        notifications.add(ctx, notifications.STARTED, lease)
        for reservation in lease.reservations:
            plugin = self._plugins.get(reservation.resource_type)
            if plugin is not None:
                plugin.started(
                    ctx, _build_spec(lease, reservation, shares[reservation.id]), lease.window)
            self._provisioner.start(ctx, lease, reservation, shares[reservation.id])

    def _check_free(
        self, session: Session, lease: Lease, shares: Mapping[str, Sequence[Share]]
    ) -> None:
        """Check once more that the earlier leases of a lease's hosts have ended.

        The lease may have got other hosts since its event was found ready.

        :raises _HostsOccupied:
        """
        occupied = occupancy.find(session, cleaning_seconds=self._cleaning_seconds)
        hosts = [share.host_id for of_reservation in shares.values()
                 for share in of_reservation]
        if occupancy.keeps_waiting(occupied, lease.id, lease.start_at, hosts):
            raise _HostsOccupied

    def _postpone(self, ctx: Context, attempt: EventAttempt) -> None:
        with db.write(ctx) as session:
            lease_rows.lock(session, attempt.lease_id)
            session.execute(_POSTPONE, {
                "event_id": attempt.event_id, "of_lease": attempt.lease_id, "by": attempt.owner,
                "of_attempt": attempt.number})

    def _prepare_end(
        self, ctx: Context, session: Session, lease: Lease, now: datetime.datetime
    ) -> None:
        if lease.end_at <= now or lease.status in (records.TERMINATED, records.ERROR):
            return
        if lease.status == records.PENDING:
            raise errors.WrongStatus("The lease has to start before its end is prepared.")
        shares = bookings.read_shares(session, lease)
        due_at = next(event.due_at for event in lease.events
                      if event.event_type == records.BEFORE_END)
        for reservation in lease.reservations:
            plugin = self._plugins.get(reservation.resource_type)
            if plugin is not None:
                plugin.before_end(
                    ctx, _build_spec(lease, reservation, shares[reservation.id]), lease.window)
            self._provisioner.prepare_end(
                ctx, lease, reservation, shares[reservation.id], due_at)
        notifications.add(ctx, notifications.ENDS_SOON, lease)

    def _fail(self, ctx: Context, attempt: EventAttempt, problem: str) -> None:
        with db.write(ctx) as session:
            lease, now = _lock(session, attempt, _MARK_FAILED, why=problem)
            if attempt.event_type == records.BEFORE_END or lease.status == records.TERMINATED:
                return
            # Reservations that did not end are still in force.
            before = (records.R_PENDING,)
            lease_rows.set_status(session, lease.id, before, records.R_ERROR, now)
            lease_rows.update(session, lease.number, {
                "status": records.ERROR, "updated_at": lease_rows.naive(now)})
            lease = _with_statuses(lease, records.ERROR, before, records.R_ERROR, now)
            notifications.add(ctx, f"{_NOTIFICATIONS[attempt.event_type]}.error", lease)


def _lock(
    session: Session, attempt: EventAttempt, mark: sa.Update, **values: Any
) -> lease_rows.LeaseSnapshot:
    """Lock a lease's row, mark its event, and return the lease as read after that.

    :raises _NotOwned:
    """
    if not lease_rows.lock(session, attempt.lease_id):
        raise _NotOwned
    marked = session.execute(mark, {
        "event_id": attempt.event_id, "of_lease": attempt.lease_id, "by": attempt.owner,
        "of_attempt": attempt.number, **values}).rowcount
    if not marked:
        raise _NotOwned
    snapshot = lease_rows.find(session, attempt.lease_id)
    assert snapshot is not None  # its row is locked
    session.record_change(kinds.LEASE, snapshot.lease.number)
    return snapshot


# Ending ------------------------------------------------------------------------------


def end(
    ctx: Context, session: Session, plugins: Mapping[str, ReservationPlugin],
    provisioner: Provisioner, lease: Lease, now: datetime.datetime, *,
    notification: str = notifications.ENDED, after: Lease | None = None,
) -> Lease:
    """End a lease, on time or before.

    The caller holds the lock on its row; before its time, also that on the pool's row.

    :param after: the lease with other changes, which the caller writes.
    :returns: the lease after its end.
    :raises errors.WrongStatus: allocations are left on its hosts, and ``[reservations]
        leftovers`` is ``refuse``.
    """
    shares = bookings.read_shares(session, lease)
    in_force = {reservation.id for reservation in lease.reservations
                if reservation.status == records.R_ACTIVE}
    bookings.end(session, lease, int(now.timestamp()))
    lease_rows.set_status(session, lease.id, _NOT_DELETED, records.R_DELETED, now)
    lease_rows.close_events(session, lease.id, now)
    lease_rows.update(session, lease.number, {
        "status": records.TERMINATED, "ended_at": lease_rows.naive(now),
        "updated_at": lease_rows.naive(now)})
    ended = _terminate(after or lease, now)
    for reservation in ended.reservations:
        plugin = plugins.get(reservation.resource_type)
        if plugin is not None and reservation.id in in_force:
            plugin.ended(
                ctx, _build_spec(lease, reservation, shares[reservation.id]), lease.window)
        provisioner.end(ctx, ended, reservation, shares[reservation.id],
                        was_in_force=reservation.id in in_force)
    notifications.add(ctx, notification, ended)
    return ended


def _build_spec(
    lease: Lease, reservation: Reservation, shares: Sequence[Share]
) -> ReservationSpec:
    """Return the spec of a reservation, for its plugin."""
    return ReservationSpec(
        reservation.id, lease.project_id, reservation.fields, shares,
        started=reservation.status == records.R_ACTIVE)


def _with_statuses(
    lease: Lease, status: str, before: Sequence[str], after: str, now: datetime.datetime
) -> Lease:
    """Return a lease in ``status``, with its reservations in ``before`` moved to ``after``."""
    return dataclasses.replace(lease, status=status, updated_at=now, reservations=[
        dataclasses.replace(reservation, status=after, updated_at=now)
        if reservation.status in before else reservation for reservation in lease.reservations])


def _terminate(lease: Lease, now: datetime.datetime) -> Lease:
    """Return a lease as terminated, with its events done."""
    ended = _with_statuses(lease, records.TERMINATED, _NOT_DELETED, records.R_DELETED, now)
    return dataclasses.replace(ended, events=[
        event if event.status == records.DONE
        else dataclasses.replace(event, status=records.DONE, updated_at=now)
        for event in ended.events])
