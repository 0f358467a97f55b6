"""The turns of a lease: it starts, it will end soon, it ends.

Each is one transaction, which also writes down that its event is done: so it happens
once, whoever tries. The lease's row is taken first, then its event's; ``end`` before its
time takes the pool's row before.
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
from placement_core.plugin_api.reservations import Asked, ReservationPlugin, Share
from placement_core.reservations import errors, kept, notices, occupancy, records, tables
from placement_core.reservations.effects import Effects
from placement_core.reservations.policy import LeaseRules
from placement_core.reservations.records import Lease, Reservation

_events = tables.lease_events

#: Of all who tried to carry an event out, one has it.
_mine = (
    _events.c.id == sa.bindparam("event_id"), _events.c.lease_id == sa.bindparam("of_lease"),
    _events.c.owner == sa.bindparam("by"), _events.c.attempt == sa.bindparam("of_attempt"),
    _events.c.status == records.IN_PROGRESS)
_DONE = sa.update(_events).where(*_mine).values(
    status=records.DONE, owner=None, deadline_at=None, problem=None, done_at=clock.now())
_FAILED = sa.update(_events).where(*_mine).values(
    status=records.E_ERROR, owner=None, deadline_at=None, problem=sa.bindparam("why"))

_POSTPONED = sa.update(_events).where(*_mine).values(
    status=records.UNDONE, owner=None, deadline_at=None)

_NOT_DELETED = (records.R_PENDING, records.R_ACTIVE, records.R_ERROR)

_NOTICES = {
    records.START: notices.STARTED, records.BEFORE_END: notices.ENDS_SOON,
    records.END: notices.ENDED}


@dataclasses.dataclass(frozen=True, slots=True)
class Turn:
    """An event that somebody carries out.

    :ivar attempt: which one this is of its owner's: of all who tried, one has it.
    :ivar late_seconds: how long after its time it was taken.
    """

    event_id: str
    lease_id: str
    event_type: str
    owner: str
    attempt: int
    late_seconds: float = dataclasses.field(default=0.0, compare=False)


class _NotMine(Exception):
    """Somebody else has the event, or it is not to be done any more."""


class _Waits(Exception):
    """It is not time yet: hosts of the lease are not free."""


class Turns:
    """Carries out the events of leases.

    :param plugins: by resource type.
    :param rules: are told of leases that have ended.
    :param cleaning_seconds: how long hosts are cleaned after a lease.
    """

    def __init__(
        self, plugins: Mapping[str, ReservationPlugin], effects: Effects, rules: LeaseRules, *,
        cleaning_seconds: int = 0,
    ) -> None:
        self._cleaning_seconds = cleaning_seconds
        self._plugins = plugins
        self._effects = effects
        self._rules = rules

    def carry_out(self, ctx: Context, turn: Turn) -> bool:
        """Do what an event says, and mark it as done, in one transaction.

        :returns: False: somebody else has it, or it is not to be done any more; nothing
            was written. Or it has to wait: then it is nobody's again.
        :raises errors.WrongStatus: the lease has to start before.
        :raises errors.Error: it could not be done now; nothing was written.
        """
        try:
            ended = db.retry_writes(self._carry_out)(ctx, turn)
        except _NotMine:
            return False
        except _Waits:
            db.retry_writes(self._postpone)(ctx, turn)
            return False
        if ended is not None:
            self._rules.ended(ctx, ended)
        return True

    def fail(self, ctx: Context, turn: Turn, problem: str) -> bool:
        """Mark an event as failed for good; a lease that it is essential for is in error.

        :param problem: what an operator should know.
        :returns: as ``carry_out``.
        """
        try:
            db.retry_writes(self._fail)(ctx, turn, problem)
        except _NotMine:
            return False
        return True

    def _carry_out(self, ctx: Context, turn: Turn) -> Lease | None:
        """Carry out a turn; return the lease if it has ended by that."""
        with db.write(ctx) as session:
            lease, now = _take(session, turn, _DONE)
            if turn.event_type == records.END:
                if lease.status == records.TERMINATED:
                    return None
                return end(ctx, session, self._plugins, self._effects, lease, now)
            if turn.event_type == records.START:
                self._start(ctx, session, lease, now)
            else:
                self._prepare_end(ctx, session, lease, now)
        return None

    def _start(
        self, ctx: Context, session: Session, lease: Lease, now: datetime.datetime
    ) -> None:
        if lease.status not in (records.PENDING, records.ERROR) or lease.end_at <= now:
            # What it has had no time for does not begin; others may have the hosts.
            return
        held = kept.shares(session, lease)
        self._check_free(session, lease, held)
        before = (records.R_PENDING, records.R_ERROR)
        kept.set_status(session, lease.id, before, records.R_ACTIVE, now)
        kept.update(session, lease.number, {
            "status": records.ACTIVE, "updated_at": kept.naive(now)})
        lease = _with_statuses(lease, records.ACTIVE, before, records.R_ACTIVE, now)
        # What others wait for, the ids of classes, comes last.
        notices.add(ctx, notices.STARTED, lease)
        for each in lease.reservations:
            plugin = self._plugins.get(each.resource_type)
            if plugin is not None:
                plugin.started(ctx, _asked(lease, each, held[each.id]), lease.window)
            self._effects.started(ctx, lease, each, held[each.id])

    def _check_free(
        self, session: Session, lease: Lease, held: Mapping[str, Sequence[Share]]
    ) -> None:
        """Check once more that others have ended on the hosts of a lease.

        It may have got other hosts since somebody found that it can start.

        :raises _Waits:
        """
        occupied = occupancy.find(session, cleaning_seconds=self._cleaning_seconds)
        hosts = [share.host_id for shares in held.values() for share in shares]
        if occupancy.keeps_waiting(occupied, lease.id, lease.start_at, hosts):
            raise _Waits

    def _postpone(self, ctx: Context, turn: Turn) -> None:
        with db.write(ctx) as session:
            kept.take(session, turn.lease_id)
            session.execute(_POSTPONED, {
                "event_id": turn.event_id, "of_lease": turn.lease_id, "by": turn.owner,
                "of_attempt": turn.attempt})

    def _prepare_end(
        self, ctx: Context, session: Session, lease: Lease, now: datetime.datetime
    ) -> None:
        if lease.end_at <= now or lease.status in (records.TERMINATED, records.ERROR):
            return
        if lease.status == records.PENDING:
            raise errors.WrongStatus("The lease has to start before its end is prepared.")
        held = kept.shares(session, lease)
        for each in lease.reservations:
            plugin = self._plugins.get(each.resource_type)
            if plugin is not None:
                plugin.before_end(ctx, _asked(lease, each, held[each.id]), lease.window)
            self._effects.before_end(ctx, lease, each, held[each.id])
        notices.add(ctx, notices.ENDS_SOON, lease)

    def _fail(self, ctx: Context, turn: Turn, problem: str) -> None:
        with db.write(ctx) as session:
            lease, now = _take(session, turn, _FAILED, why=problem)
            if turn.event_type == records.BEFORE_END or lease.status == records.TERMINATED:
                return
            # What did not end is in force still.
            before = (records.R_PENDING,)
            kept.set_status(session, lease.id, before, records.R_ERROR, now)
            kept.update(session, lease.number, {
                "status": records.ERROR, "updated_at": kept.naive(now)})
            lease = _with_statuses(lease, records.ERROR, before, records.R_ERROR, now)
            notices.add(ctx, f"{_NOTICES[turn.event_type]}.error", lease)


def _take(
    session: Session, turn: Turn, mark: sa.Update, **values: Any
) -> kept.Found:
    """Take a lease's row, mark its event, and return the lease as it is then.

    :raises _NotMine:
    """
    if not kept.take(session, turn.lease_id):
        raise _NotMine
    marked = session.execute(mark, {
        "event_id": turn.event_id, "of_lease": turn.lease_id, "by": turn.owner,
        "of_attempt": turn.attempt, **values}).rowcount
    if not marked:
        raise _NotMine
    found = kept.find(session, turn.lease_id)
    assert found is not None  # its row is taken
    session.record_change(kinds.LEASE, found.lease.number)
    return found


# Ending ------------------------------------------------------------------------------


def end(
    ctx: Context, session: Session, plugins: Mapping[str, ReservationPlugin],
    effects: Effects, lease: Lease, now: datetime.datetime, *, notice: str = notices.ENDED,
    shown: Lease | None = None,
) -> Lease:
    """End a lease, on time or before; its row is taken, before its time the pool's too.

    :param shown: the lease with what else changes of it, which the caller writes.
    :returns: the lease as it is then.
    :raises errors.WrongStatus: what is left on its hosts refuses that.
    """
    held = kept.shares(session, lease)
    in_force = {each.id for each in lease.reservations if each.status == records.R_ACTIVE}
    kept.let_go(session, lease, int(now.timestamp()))
    kept.set_status(session, lease.id, _NOT_DELETED, records.R_DELETED, now)
    kept.close_events(session, lease.id, now)
    kept.update(session, lease.number, {
        "status": records.TERMINATED, "ended_at": kept.naive(now),
        "updated_at": kept.naive(now)})
    ended = _closed(shown or lease, now)
    for each in ended.reservations:
        plugin = plugins.get(each.resource_type)
        if plugin is not None and each.id in in_force:
            plugin.ended(ctx, _asked(lease, each, held[each.id]), lease.window)
        effects.ended(ctx, ended, each, held[each.id], was_in_force=each.id in in_force)
    notices.add(ctx, notice, ended)
    return ended


def _asked(lease: Lease, reservation: Reservation, held: Sequence[Share]) -> Asked:
    """Return a reservation as its plugin is told of it."""
    return Asked(
        reservation.id, lease.project_id, reservation.fields, held,
        started=reservation.status == records.R_ACTIVE)


def _with_statuses(
    lease: Lease, status: str, before: Sequence[str], after: str, now: datetime.datetime
) -> Lease:
    """Return a lease with another status, and those of its reservations that have some."""
    return dataclasses.replace(lease, status=status, updated_at=now, reservations=[
        dataclasses.replace(each, status=after, updated_at=now)
        if each.status in before else each for each in lease.reservations])


def _closed(lease: Lease, now: datetime.datetime) -> Lease:
    """Return a lease that has ended."""
    ended = _with_statuses(lease, records.TERMINATED, _NOT_DELETED, records.R_DELETED, now)
    return dataclasses.replace(ended, events=[
        each if each.status == records.DONE
        else dataclasses.replace(each, status=records.DONE, updated_at=now)
        for each in ended.events])
