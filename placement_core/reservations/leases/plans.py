"""What a lease gets, new or changed: planned from what a transaction reads, nothing written.

A plan is as good as what was read: who commits one made it under the pool's row.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

from placement_core.db import Session
from placement_core.plugin_api.reservations import DoesNotFit, Share, Window
from placement_core.reservations.leases import dates, updates
from placement_core.reservations.leases.dates import LeaseDates
from placement_core.reservations.leases.requests import LeaseRequests
from placement_core.reservations.leases.updates import HoldingChange
from placement_core.reservations.records import Lease, LeaseChange, NewLease
from placement_core.reservations.scheduling import planner, pool_queries
from placement_core.reservations.scheduling.planner import Grant, ReservationRequest
from placement_core.reservations.scheduling.pools import Pool
from placement_core.reservations.store import bookings, lease_rows


@dataclasses.dataclass(frozen=True, slots=True)
class NewLeasePlan:
    """What a new lease gets.

    :ivar pool: what it was planned with; ``at`` when.
    """

    dates: LeaseDates
    pool: Pool
    grants: Sequence[Grant]
    at: datetime.datetime

    @property
    def window(self) -> Window:
        """Return when the lease is."""
        return self.dates.window

    @property
    def shares(self) -> list[Sequence[Share]]:
        """Return what each reservation holds of hosts."""
        return [grants.shares for grants in self.grants]


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseChangePlan:
    """What becomes of a lease that changes.

    :ivar left: what is left of its window: what is new is held from its start on.
    :ivar pool: what it was planned with; None: it keeps what it holds.
    """

    before: Lease
    after: Lease
    left: Window
    holdings: Sequence[HoldingChange]
    pool: Pool | None
    at: datetime.datetime

    @property
    def window(self) -> Window:
        """Return when the lease is then."""
        return self.after.window

    @property
    def shares(self) -> list[Sequence[Share]]:
        """Return what each reservation holds of hosts then."""
        return [holding.after.shares for holding in self.holdings]


class ChangeDoesNotFit(Exception):
    """A change of a lease does not fit.

    :ivar after: the lease as it should have been.
    """

    def __init__(
        self, why: DoesNotFit, after: Lease, requests: Sequence[ReservationRequest]
    ) -> None:
        super().__init__(str(why))
        self.why = why
        self.after = after
        self.requests = requests


class LeasePlanner:
    """Plans leases, inside of the transactions that read what is promised to others.

    :param cleaning_seconds: after each promise.
    :param minutes_before_end: when clients that do not say are told that a lease ends.
    """

    def __init__(
        self, requests: LeaseRequests, *, cleaning_seconds: int, minutes_before_end: int
    ) -> None:
        self._requests = requests
        self._cleaning_seconds = cleaning_seconds
        self._minutes_before_end = minutes_before_end

    def plan_new(
        self, session: Session, new: NewLease, requests: Sequence[ReservationRequest]
    ) -> NewLeasePlan:
        """Plan a lease that is asked for.

        :raises DoesNotFit, InvalidLease, InvalidReservation:
        """
        now = pool_queries.current_time(session)
        lease_dates = dates.resolve_new(new, now, self._minutes_before_end)
        pool = pool_queries.read(
            session, requests, lease_dates.window, cleaning_seconds=self._cleaning_seconds)
        return NewLeasePlan(
            lease_dates, pool, planner.plan(pool, lease_dates.window, requests), now)

    def plan_change(
        self, session: Session, present: lease_rows.LeaseSnapshot, change: LeaseChange
    ) -> LeaseChangePlan | None:
        """Plan a lease that shall change.

        :param present: the lease, and when it was read.
        :returns: None: it is as it shall be.
        :raises ChangeDoesNotFit: what it shall hold cannot be had.
        :raises NotChangeable, InvalidLease, InvalidReservation:
        """
        before, now = present
        after = updates.apply_change(
            before, change.name, dates.resolve_change(before, change, now),
            self._requests.changed_fields(before, change), now)
        if after == before:
            return None
        left = Window(max(after.start_at, now), after.end_at)
        held = bookings.read_shares(session, before)
        if updates.needs_no_more(before, after):
            pool = None
            grants = [Grant(held[reservation.id]) for reservation in after.reservations]
        else:
            requests = self._requests.requests_of(after, held)
            pool, grants = self._replan(session, after, left, requests)
            after = updates.without_missing(after)
        return LeaseChangePlan(before, after, left, [
            HoldingChange(reservation, held[reservation.id], grant)
            for reservation, grant in zip(after.reservations, grants, strict=True)
        ], pool, now)

    def _replan(
        self, session: Session, after: Lease, left: Window, requests: Sequence[ReservationRequest]
    ) -> tuple[Pool, list[Grant]]:
        pool = pool_queries.read(
            session, requests, left, cleaning_seconds=self._cleaning_seconds,
            without=[reservation.id for reservation in after.reservations])
        try:
            return pool, planner.plan(pool, left, requests)
        except DoesNotFit as refusal:
            raise ChangeDoesNotFit(refusal, after, requests) from None
