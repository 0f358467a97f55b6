"""Creates, changes, ends and deletes leases, each completely or not at all.

Transactions that change bookings lock the pool's row first (``revisions.POOL``), then the
lease's, then its events': one order for all. So planning sees everything that is committed, and
no other booking is made until the commit.

A lease is planned (``plans``), checked (``policy``) and committed in one transaction. An external
service of the site is asked before that transaction, about a plan of its own; the plan that is
committed is made again under the lock on the pool's row.
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
from placement_core.reservations.leases.requests import LeaseRequests, changes_other_than
from placement_core.reservations.policy.rules import (
    AdmissionCheck,
    ExternalQuestion,
    LeaseRules,
)
from placement_core.reservations.provisioning.provisioner import Provisioner
from placement_core.reservations.records import Lease, LeaseChange, NewLease, NewReservation
from placement_core.reservations.scheduling import availability, pool_queries
from placement_core.reservations.scheduling.availability import FittingWindow, Timeline
from placement_core.reservations.scheduling.booking_index import BookingIndex
from placement_core.reservations.scheduling.planner import ReservationRequest
from placement_core.reservations.scheduling.pools import Pool
from placement_core.reservations.store import bookings, lease_rows


class Leases:
    """Creates, changes, ends and deletes leases.

    :param plugins: {resource type: plugin}.
    :param booking_index: all future bookings, for queries beyond one window.
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

    @property
    def asks_external_service(self) -> bool:
        """Return whether ``create`` asks an external service of the site."""
        return self._rules.asks_external_service

    # Creating --------------------------------------------------------------------

    def create(self, ctx: Context, new: NewLease) -> Lease:
        """Create a lease with all its reservations.

        :raises InvalidLease, InvalidReservation: the request is invalid.
        :raises NoRoom: it does not fit; with the time at which it would.
        :raises PolicyRefused: a rule of the site refuses it.
        """
        requests = self._requests.check(new.project_id, new.reservations)
        question = self._ask_about_new(ctx, new, requests)
        try:
            return db.retry_writes(self._create)(ctx, new, requests, question)
        except DoesNotFit as refusal:
            raise self._build_refusal(ctx, refusal, new.start_at, new.end_at, requests) from None

    def what_if(self, ctx: Context, new: NewLease, *, ask_external: bool = True) -> None:
        """Check whether ``create`` would succeed; write nothing.

        :param ask_external: whether the external service of the site is asked, too, if one is
            configured.
        :raises NoRoom, PolicyRefused, InvalidLease, InvalidReservation:
        """
        requests = self._requests.check(new.project_id, new.reservations)
        question = self._ask_about_new(ctx, new, requests)
        if not ask_external:
            # As if it had allowed a new lease.
            question.allowed.append(None)
        try:
            check = self._rules.prepare(ctx, new, question=question)
            db.retry_writes(self._check_new)(ctx, new, requests, check)
        except DoesNotFit as refusal:
            raise self._build_refusal(ctx, refusal, new.start_at, new.end_at, requests) from None

    def _ask_about_new(
        self, ctx: Context, new: NewLease, requests: Sequence[ReservationRequest]
    ) -> ExternalQuestion:
        return ExternalQuestion(
            lambda: db.retry_writes(self._plan_new)(ctx, new, requests).shares)

    def _plan_new(
        self, ctx: Context, new: NewLease, requests: Sequence[ReservationRequest]
    ) -> NewLeasePlan:
        with db.read(ctx) as session:
            return self._planner.plan_new(session, new, requests)

    def _check_new(
        self, ctx: Context, new: NewLease, requests: Sequence[ReservationRequest],
        check: AdmissionCheck,
    ) -> None:
        with db.read(ctx) as session:
            plan = self._planner.plan_new(session, new, requests)
            check.decide(ctx, plan.window, plan.shares)

    def _create(
        self, ctx: Context, new: NewLease, requests: Sequence[ReservationRequest],
        question: ExternalQuestion,
    ) -> Lease:
        # With each attempt: the transaction fails if limits have changed since.
        check = self._rules.prepare(ctx, new, question=question)
        with db.write(ctx) as session:
            revisions.increment(session, revisions.POOL)
            plan = self._planner.plan_new(session, new, requests)
            check.decide(ctx, plan.window, plan.shares)
            return self._commit_new(ctx, session, plan, updates.new_lease(
                new, plan.dates, requests, plan.at))

    def _commit_new(
        self, ctx: Context, session: Session, plan: NewLeasePlan, lease: Lease
    ) -> Lease:
        """Write a planned lease; return it with its number."""
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

        :param since: the earliest start; None: now.
        :param seconds: how long the lease lasts.
        :raises InvalidLease, InvalidReservation: the request is invalid.
        """
        requests = self._requests.check(project_id, reservations)
        dates.check_fit(since, seconds)
        return db.retry_writes(self._next_fit)(ctx, requests, since, lambda _: seconds)

    def _next_fit(
        self, ctx: Context, requests: Sequence[ReservationRequest],
        since: datetime.datetime | None, seconds: Callable[[datetime.datetime], int],
        replaced: Lease | None = None,
    ) -> FittingWindow | None:
        """Return when reservations fit.

        :param seconds: returns the duration of a lease that starts at the argument.
        :param replaced: the lease that these reservations belong to: its bookings count as free.
        """
        bookings_ = self._booking_index.present(ctx).without(
            None if replaced is None else replaced.number)
        with db.read(ctx) as session:
            now = pool_queries.current_time(session)
            begin = now if since is None else max(since.replace(microsecond=0), now)
            start = int(begin.timestamp())
            pool = pool_queries.read_future(
                session, requests, start, bookings_, cleaning_seconds=self._cleaning_seconds,
                without=() if replaced is None else [
                    reservation.id for reservation in replaced.reservations])
        return availability.next_fit(pool, start, seconds(begin), requests)

    def _build_refusal(
        self, ctx: Context, refusal: DoesNotFit, start_at: datetime.datetime | None,
        end_at: datetime.datetime, requests: Sequence[ReservationRequest],
        replaced: Lease | None = None,
    ) -> DoesNotFit:
        """Return a refusal with the time at which the same lease fits."""
        def seconds(begin: datetime.datetime) -> int:
            return max(1, int((end_at - (start_at or begin)).total_seconds()))

        try:
            fit = db.retry_writes(self._next_fit)(ctx, requests, start_at, seconds, replaced)
        except core_errors.Unavailable:
            # The reason why it does not fit now is known all the same.
            return refusal
        return errors.NoRoom(refusal, None if fit is None else fit.window.start_at)

    def timeline(self, ctx: Context, window: Window) -> Timeline:
        """Return how much of the pool there is, and is free over time."""
        pool = db.retry_writes(self._read_pool)(ctx, window)
        return Timeline(availability.count_total(pool), availability.timeline(pool, window))

    def _read_pool(self, ctx: Context, window: Window) -> Pool:
        since = window.start - self._cleaning_seconds
        index = self._booking_index
        bookings_ = index.present(ctx).bookings if index.reaches_back_to(since) else None
        with db.read(ctx) as session:
            if bookings_ is None:
                bookings_ = pool_queries.read_bookings(
                    session, window, cleaning_seconds=self._cleaning_seconds)
            return pool_queries.read_future(
                session, (), window.start, bookings_, cleaning_seconds=self._cleaning_seconds)

    # Changing --------------------------------------------------------------------

    def change(
        self, ctx: Context, lease_id: str, change: LeaseChange, *, project_id: str | None = None
    ) -> Lease:
        """Apply all requested changes to a lease, or none; return the lease after them.

        :param project_id: the project that it must belong to; None: any.
        :raises LeaseNotFound, NotChangeable: and what ``create`` raises.
        """
        if not changes_other_than(change, "name"):
            return db.retry_writes(self._rename)(ctx, lease_id, change.name, project_id)
        if db.retry_writes(self._means_end_now)(ctx, lease_id, change, project_id):
            change = dataclasses.replace(change, end_at=None, end_now=True)
        if change.end_now:
            ended = db.retry_writes(self._end_now)(ctx, lease_id, change, project_id)
            self._rules.notify_end(ctx, ended)
            return ended
        question = ExternalQuestion(
            lambda: db.retry_writes(self._plan_change)(ctx, lease_id, change, project_id))
        try:
            return db.retry_writes(self._change)(ctx, lease_id, change, project_id, question)
        except ChangeDoesNotFit as refused:
            after = refused.after
            if after.status != records.PENDING:
                # It has started: there is no other start to propose.
                raise refused.why from None
            raise self._build_refusal(
                ctx, refused.why, after.start_at, after.end_at, refused.requests,
                after) from None

    def _rename(
        self, ctx: Context, lease_id: str, name: str | None, project_id: str | None
    ) -> Lease:
        with db.write(ctx) as session:
            lease, now = _lock_lease(session, lease_id, project_id)
            if name in (None, lease.name):
                return lease
            lease_rows.update(
                session, lease.number, {"name": name, "updated_at": lease_rows.naive(now)})
            lease = dataclasses.replace(lease, name=name, updated_at=now)
            notifications.add(ctx, notifications.CHANGED, lease)
        return lease

    def _means_end_now(
        self, ctx: Context, lease_id: str, change: LeaseChange, project_id: str | None
    ) -> bool:
        """Return whether a change does nothing but end a lease in the present minute."""
        if change.end_at is None or changes_other_than(change, "name", "end_at"):
            return False
        with db.read(ctx) as session:
            lease, now = lease_queries.find(session, lease_id, project_id)
        return dates.is_end_now(lease, change, now)

    def _end_now(
        self, ctx: Context, lease_id: str, change: LeaseChange, project_id: str | None
    ) -> Lease:
        if changes_other_than(change, "name", "end_now"):
            raise errors.InvalidLease(
                "Nothing but the name of a lease can change while it ends.", "end_date")
        with db.write(ctx) as session:
            revisions.increment(session, revisions.POOL)
            lease, now = _lock_lease(session, lease_id, project_id)
            _check_not_over(lease, now, has_new_end=True)
            if lease.status == records.PENDING:
                raise errors.InvalidLease(
                    "End date must be later than start date.", "end_date")
            renamed = dataclasses.replace(
                lease, name=lease.name if change.name is None else change.name,
                end_at=min(
                    lease.end_at, max(now, lease.start_at + datetime.timedelta(seconds=1))))
            lease_rows.update(session, lease.number, {
                "name": renamed.name, "end_at": lease_rows.naive(renamed.end_at)})
            return transitions.end(
                ctx, session, self._plugins, self._provisioner, lease, now, after=renamed)

    def _plan_change(
        self, ctx: Context, lease_id: str, change: LeaseChange, project_id: str | None
    ) -> Sequence[Sequence[Share]] | None:
        """Return the shares of each reservation after a change; None: nothing would change."""
        with db.read(ctx) as session:
            snapshot = lease_queries.find(session, lease_id, project_id)
            _check_not_over(*snapshot, has_new_end=change.end_at is not None)
            plan = self._planner.plan_change(session, snapshot, change)
        return None if plan is None else plan.shares

    def _change(
        self, ctx: Context, lease_id: str, change: LeaseChange, project_id: str | None,
        question: ExternalQuestion,
    ) -> Lease:
        before = lease_queries.get(ctx, lease_id, project_id=project_id)
        check = self._rules.prepare(
            ctx, self._requests.build_new_lease(before, change), before, question=question)
        with db.write(ctx) as session:
            revisions.increment(session, revisions.POOL)
            snapshot = _lock_lease(session, lease_id, project_id)
            if snapshot.lease != before:
                # What was checked was another change.
                raise db.TransactionConflict
            _check_not_over(*snapshot, has_new_end=change.end_at is not None)
            plan = self._planner.plan_change(session, snapshot, change)
            if plan is None:
                return snapshot.lease
            in_force = updates.is_in_force(plan.before)
            check.decide(
                ctx, plan.left if in_force else plan.window, plan.shares, in_force=in_force)
            self._commit_change(ctx, session, plan)
        return plan.after

    def _commit_change(self, ctx: Context, session: Session, plan: LeaseChangePlan) -> None:
        """Write a planned change, with its calls and its notification."""
        before, after = plan.before, plan.after
        if plan.pool is not None:
            pool_queries.mark_booked(session, plan.pool, itertools.chain(*plan.shares))
        updates.write(session, before, after, plan.share_changes, plan.left, plan.at)
        for old, change in zip(before.reservations, plan.share_changes, strict=True):
            if change.differs or change.reservation.fields != old.fields:
                self._provisioner.change(
                    ctx, after, change.reservation, change.before, change.after.shares)
        notifications.add(ctx, notifications.CHANGED, after)

    # Deleting --------------------------------------------------------------------

    def delete(self, ctx: Context, lease_id: str, *, project_id: str | None = None) -> None:
        """Delete a lease; end it first if it is in force.

        :raises LeaseNotFound:
        :raises WrongStatus: allocations are left on its hosts, and ``[reservations] leftovers``
            is ``refuse``.
        """
        ended = db.retry_writes(self._delete)(ctx, lease_id, project_id)
        if ended is not None:
            self._rules.notify_end(ctx, ended)

    def _delete(self, ctx: Context, lease_id: str, project_id: str | None) -> Lease | None:
        """Delete a lease; return it if that ended it."""
        with db.write(ctx) as session:
            revisions.increment(session, revisions.POOL)
            lease, now = _lock_lease(session, lease_id, project_id)
            lease_rows.update(session, lease.number, {"deleted_at": lease_rows.naive(now)})
            if lease.status != records.TERMINATED:
                return transitions.end(ctx, session, self._plugins, self._provisioner, lease, now,
                                       notification=notifications.DELETED)
            notifications.add(ctx, notifications.DELETED, lease)
        return None


def _lock_lease(
    session: Session, lease_id: str, project_id: str | None
) -> lease_rows.LeaseSnapshot:
    """Lock the row of a lease, and return the lease.

    :raises LeaseNotFound:
    """
    if not lease_rows.lock(session, lease_id):
        raise errors.LeaseNotFound(f"There is no lease {lease_id[:64]}.")
    snapshot = lease_queries.find(session, lease_id, project_id)
    session.record_change(kinds.LEASE, snapshot.lease.number)
    return snapshot


def _check_not_over(lease: Lease, now: datetime.datetime, *, has_new_end: bool) -> None:
    """Check that the time of a lease is not over, even if its end was not executed yet.

    One whose end has failed is in force, and may get another end.

    :raises InvalidLease:
    """
    if lease.status == records.ERROR and updates.is_in_force(lease) and has_new_end:
        return
    if lease.status == records.TERMINATED or lease.end_at <= now:
        raise errors.InvalidLease("Terminated leases can only be renamed.", "end_date")
