"""Leases: made, changed and given up, each whole or not at all.

Whoever changes what is promised takes the row of the pool first (``revisions.POOL``), then
the lease's, then its events': one order for all. Planning sees what is committed by then,
and nobody else can promise anything until this is.

A lease is planned (``plans``), judged (``policy``) and committed, in one transaction. Where a
service of the site is asked as well, that is before the transaction, about a plan of its own:
the one that is committed is made again under the pool's row.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Callable, Mapping, Sequence

from placement_core import db, errors as core_errors
from placement_core.changes import kinds, revisions
from placement_core.context import Context
from placement_core.db import Session
from placement_core.plugin_api.reservations import (
    DoesNotFit,
    ReservationPlugin,
    Share,
    Window,
)
from placement_core.reservations import errors, records
from placement_core.reservations.leases import (
    dates,
    lease_queries,
    notifications,
    transitions,
    updates,
)
from placement_core.reservations.leases.plans import (
    ChangeDoesNotFit,
    LeaseChangePlan,
    LeasePlanner,
    NewLeasePlan,
)
from placement_core.reservations.leases.requests import LeaseRequests, changes_besides
from placement_core.reservations.policy.rules import AdmissionCheck, LeaseRules
from placement_core.reservations.provisioning.provisioner import Provisioner
from placement_core.reservations.records import Lease, LeaseChange, NewLease, NewReservation
from placement_core.reservations.scheduling import availability, pool_queries
from placement_core.reservations.scheduling.availability import FittingWindow, FreeStep
from placement_core.reservations.scheduling.booking_index import BookingIndex
from placement_core.reservations.scheduling.planner import ReservationRequest
from placement_core.reservations.scheduling.pools import Pool
from placement_core.reservations.store import bookings, lease_rows


class Leases:
    """Admits, changes and ends leases.

    :param plugins: by resource type.
    :param booking_index: for questions about the whole future.
    """

    def __init__(
        self, plugins: Mapping[str, ReservationPlugin], provisioner: Provisioner,
        rules: LeaseRules, booking_index: BookingIndex, *, cleaning_seconds: int,
        minutes_before_end: int, max_reservations: int,
    ) -> None:
        self._plugins = plugins
        self._requests = LeaseRequests(plugins, max_reservations=max_reservations)
        self._planner = LeasePlanner(
            self._requests, cleaning_seconds=cleaning_seconds,
            minutes_before_end=minutes_before_end)
        self._provisioner = provisioner
        self._rules = rules
        self._booking_index = booking_index
        self._cleaning_seconds = cleaning_seconds

    # Making ----------------------------------------------------------------------

    def create(self, ctx: Context, new: NewLease) -> Lease:
        """Admit a lease, whole.

        :raises InvalidLease, InvalidReservation: the request makes no sense.
        :raises NoRoom: it does not fit; with the time at which it would.
        :raises PolicyRefused: a rule of the site.
        """
        requests = self._requests.check(new.project_id, new.reservations)
        try:
            check = self._prepare_new(ctx, new, requests)
            return db.retry_writes(self._create)(ctx, new, requests, check)
        except DoesNotFit as refusal:
            raise self._no_room(ctx, refusal, new.start_at, new.end_at, requests) from None

    def what_if(self, ctx: Context, new: NewLease) -> None:
        """Say what ``create`` would say, and write nothing.

        :raises NoRoom, PolicyRefused, InvalidLease, InvalidReservation:
        """
        requests = self._requests.check(new.project_id, new.reservations)
        try:
            check = self._prepare_new(ctx, new, requests)
            db.retry_writes(self._judge_new)(ctx, new, requests, check)
        except DoesNotFit as refusal:
            raise self._no_room(ctx, refusal, new.start_at, new.end_at, requests) from None

    def _prepare_new(
        self, ctx: Context, new: NewLease, requests: Sequence[ReservationRequest]
    ) -> AdmissionCheck:
        return self._rules.prepare(
            ctx, new, plan=lambda: db.retry_writes(self._plan_new)(ctx, new, requests).shares)

    def _plan_new(
        self, ctx: Context, new: NewLease, requests: Sequence[ReservationRequest]
    ) -> NewLeasePlan:
        with db.read(ctx) as session:
            return self._planner.plan_new(session, new, requests)

    def _judge_new(
        self, ctx: Context, new: NewLease, requests: Sequence[ReservationRequest],
        check: AdmissionCheck,
    ) -> None:
        with db.read(ctx) as session:
            plan = self._planner.plan_new(session, new, requests)
            check.decide(ctx, plan.window, plan.shares)

    def _create(
        self, ctx: Context, new: NewLease, requests: Sequence[ReservationRequest],
        check: AdmissionCheck,
    ) -> Lease:
        with db.write(ctx) as session:
            revisions.raise_(session, revisions.POOL)
            plan = self._planner.plan_new(session, new, requests)
            check.decide(ctx, plan.window, plan.shares)
            return self._commit_new(ctx, session, plan, updates.new_lease(
                new, plan.dates, requests, plan.at))

    def _commit_new(
        self, ctx: Context, session: Session, plan: NewLeasePlan, lease: Lease
    ) -> Lease:
        """Write a lease that was planned; return it with its number."""
        lease = lease_rows.insert(session, lease)
        session.record_change(kinds.LEASE, lease.number)
        bookings.insert(
            session, zip(lease.reservations, plan.grants, strict=True), lease.window)
        pool_queries.mark_booked(session, plan.pool, itertools.chain(*plan.shares))
        for reservation in lease.reservations:
            self._provisioner.create(ctx, lease, reservation)
        notifications.add(ctx, notifications.CREATED, lease)
        return lease

    # When it fits ----------------------------------------------------------------

    def next_fit(
        self, ctx: Context, project_id: str, reservations: Sequence[NewReservation], *,
        since: datetime.datetime | None, seconds: int,
    ) -> FittingWindow | None:
        """Return when a lease of these reservations fits; None: at no time that was tried.

        :param since: no earlier than then; None: from now on.
        :raises InvalidLease, InvalidReservation: the request makes no sense.
        """
        requests = self._requests.check(project_id, reservations)
        dates.check_fit(since, seconds)
        return db.retry_writes(self._next_fit)(ctx, requests, since, lambda _: seconds)

    def _next_fit(
        self, ctx: Context, requests: Sequence[ReservationRequest],
        since: datetime.datetime | None, seconds: Callable[[datetime.datetime], int],
        instead: Lease | None = None,
    ) -> FittingWindow | None:
        """Return when reservations fit.

        :param seconds: how long, if it begins then.
        :param instead: of which they are: what it holds is free.
        """
        bookings_ = self._booking_index.present(ctx).without(
            None if instead is None else instead.number)
        with db.read(ctx) as session:
            now = pool_queries.current_time(session)
            begin = now if since is None else max(since.replace(microsecond=0), now)
            start = int(begin.timestamp())
            pool = pool_queries.read_future(
                session, requests, start, bookings_, cleaning_seconds=self._cleaning_seconds,
                without=() if instead is None else [
                    reservation.id for reservation in instead.reservations])
        return availability.next_fit(pool, start, seconds(begin), requests)

    def _no_room(
        self, ctx: Context, refusal: DoesNotFit, start_at: datetime.datetime | None,
        end_at: datetime.datetime, requests: Sequence[ReservationRequest],
        instead: Lease | None = None,
    ) -> DoesNotFit:
        """Return a refusal with the time at which the same lease fits."""
        def seconds(begin: datetime.datetime) -> int:
            return max(1, int((end_at - (start_at or begin)).total_seconds()))

        try:
            fit = db.retry_writes(self._next_fit)(ctx, requests, start_at, seconds, instead)
        except core_errors.Unavailable:
            # Why it does not fit now is known already.
            return refusal
        return errors.NoRoom(refusal, None if fit is None else fit.window.start_at)

    def timeline(self, ctx: Context, window: Window) -> list[FreeStep]:
        """Return how much of the pool is free over time."""
        return availability.timeline(db.retry_writes(self._pool)(ctx, window), window)

    def _pool(self, ctx: Context, window: Window) -> Pool:
        bookings_ = self._booking_index.present(ctx).bookings
        with db.read(ctx) as session:
            return pool_queries.read_future(
                session, (), window.start, bookings_, cleaning_seconds=self._cleaning_seconds)

    # Changing --------------------------------------------------------------------

    def change(
        self, ctx: Context, lease_id: str, change: LeaseChange, *, project_id: str | None = None
    ) -> Lease:
        """Change a lease, whole, and return it as it is then.

        :param project_id: whose it must be; None: anybody's.
        :raises LeaseNotFound, NotChangeable: and what ``create`` raises.
        """
        if not changes_besides(change, "name"):
            return db.retry_writes(self._rename)(ctx, lease_id, change.name, project_id)
        if change.end_now:
            ended = db.retry_writes(self._end_now)(ctx, lease_id, change, project_id)
            self._rules.notify_end(ctx, ended)
            return ended
        try:
            check = self._prepare_change(ctx, lease_id, change, project_id)
            return db.retry_writes(self._change)(ctx, lease_id, change, project_id, check)
        except ChangeDoesNotFit as refused:
            after = refused.after
            if after.status != records.PENDING:
                # It begins when it began.
                raise refused.why from None
            raise self._no_room(
                ctx, refused.why, after.start_at, after.end_at, refused.requests,
                after) from None

    def _rename(
        self, ctx: Context, lease_id: str, name: str | None, project_id: str | None
    ) -> Lease:
        with db.write(ctx) as session:
            lease, now = _lock(session, lease_id, project_id)
            if name in (None, lease.name):
                return lease
            lease_rows.update(
                session, lease.number, {"name": name, "updated_at": lease_rows.naive(now)})
            lease = dataclasses.replace(lease, name=name, updated_at=now)
            notifications.add(ctx, notifications.CHANGED, lease)
        return lease

    def _end_now(
        self, ctx: Context, lease_id: str, change: LeaseChange, project_id: str | None
    ) -> Lease:
        if changes_besides(change, "name", "end_now"):
            raise errors.InvalidLease(
                "Nothing but the name of a lease can change while it ends.", "end_date")
        with db.write(ctx) as session:
            revisions.raise_(session, revisions.POOL)
            lease, now = _lock(session, lease_id, project_id)
            _check_not_over(lease, now)
            if lease.status == records.PENDING:
                raise errors.InvalidLease(
                    "End date must be later than start date.", "end_date")
            renamed = dataclasses.replace(
                lease, name=lease.name if change.name is None else change.name,
                end_at=max(now, lease.start_at + datetime.timedelta(seconds=1)))
            lease_rows.update(session, lease.number, {
                "name": renamed.name, "end_at": lease_rows.naive(renamed.end_at)})
            return transitions.end(
                ctx, session, self._plugins, self._provisioner, lease, now, after=renamed)

    def _prepare_change(
        self, ctx: Context, lease_id: str, change: LeaseChange, project_id: str | None
    ) -> AdmissionCheck:
        before = lease_queries.get(ctx, lease_id, project_id=project_id)
        return self._rules.prepare(
            ctx, self._requests.as_new(before, change), before,
            plan=lambda: db.retry_writes(self._plan_change)(ctx, lease_id, change, project_id))

    def _plan_change(
        self, ctx: Context, lease_id: str, change: LeaseChange, project_id: str | None
    ) -> Sequence[Sequence[Share]] | None:
        """Return what the reservations of a lease would hold; None: nothing would change."""
        with db.read(ctx) as session:
            present = lease_queries.find(session, lease_id, project_id)
            _check_not_over(*present)
            plan = self._planner.plan_change(session, present, change)
        return None if plan is None else plan.shares

    def _change(
        self, ctx: Context, lease_id: str, change: LeaseChange, project_id: str | None,
        check: AdmissionCheck,
    ) -> Lease:
        with db.write(ctx) as session:
            revisions.raise_(session, revisions.POOL)
            present = _lock(session, lease_id, project_id)
            _check_not_over(*present)
            plan = self._planner.plan_change(session, present, change)
            if plan is None:
                return present.lease
            check.decide(ctx, plan.window, plan.shares)
            self._commit_change(ctx, session, plan)
        return plan.after

    def _commit_change(self, ctx: Context, session: Session, plan: LeaseChangePlan) -> None:
        """Write what becomes of a lease, and tell others."""
        before, after = plan.before, plan.after
        if plan.pool is not None:
            pool_queries.mark_booked(session, plan.pool, itertools.chain(*plan.shares))
        updates.write(session, before, after, plan.holdings, plan.left, plan.at)
        for was, holding in zip(before.reservations, plan.holdings, strict=True):
            if holding.differs or holding.reservation.fields != was.fields:
                self._provisioner.change(
                    ctx, after, holding.reservation, holding.before, holding.after.shares)
        notifications.add(ctx, notifications.CHANGED, after)

    # Giving up -------------------------------------------------------------------

    def delete(self, ctx: Context, lease_id: str, *, project_id: str | None = None) -> None:
        """End a lease if it is in force, and give it up.

        :raises LeaseNotFound:
        :raises WrongStatus: what is left on its hosts refuses that.
        """
        ended = db.retry_writes(self._delete)(ctx, lease_id, project_id)
        if ended is not None:
            self._rules.notify_end(ctx, ended)

    def _delete(self, ctx: Context, lease_id: str, project_id: str | None) -> Lease | None:
        """Delete a lease; return it if it has ended by that."""
        with db.write(ctx) as session:
            revisions.raise_(session, revisions.POOL)
            lease, now = _lock(session, lease_id, project_id)
            lease_rows.update(session, lease.number, {"deleted_at": lease_rows.naive(now)})
            if lease.status != records.TERMINATED:
                return transitions.end(ctx, session, self._plugins, self._provisioner, lease, now,
                                       notification=notifications.DELETED)
            notifications.add(ctx, notifications.DELETED, lease)
        return None


def _lock(session: Session, lease_id: str, project_id: str | None) -> lease_rows.LeaseSnapshot:
    """Take the row of a lease, and return the lease.

    :raises LeaseNotFound:
    """
    if not lease_rows.lock(session, lease_id):
        raise errors.LeaseNotFound(f"There is no lease {lease_id[:64]}.")
    present = lease_queries.find(session, lease_id, project_id)
    session.record_change(kinds.LEASE, present.lease.number)
    return present


def _check_not_over(lease: Lease, now: datetime.datetime) -> None:
    """Check that a lease has not ended, also if nobody has carried that out yet.

    :raises InvalidLease:
    """
    if lease.status == records.TERMINATED or lease.end_at <= now:
        raise errors.InvalidLease("Terminated leases can only be renamed.", "end_date")
