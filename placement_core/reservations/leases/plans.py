"""Plans new and changed leases from what a transaction reads; writes nothing.

A plan is valid only for what was read: a plan that is to be committed is made under the lock on
the pool's row.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Sequence

from placement_core import errors
from placement_core.db import Session
from placement_core.plugin_api.reservations import DoesNotFit, Share, Window
from placement_core.reservations.leases import dates, updates
from placement_core.reservations.leases.dates import LeaseDates
from placement_core.reservations.leases.requests import LeaseRequests
from placement_core.reservations.leases.updates import ShareChange
from placement_core.reservations.records import Lease, LeaseChange, NewLease
from placement_core.reservations.scheduling import planner, pool_queries
from placement_core.reservations.scheduling.planner import Grant, ReservationRequest
from placement_core.reservations.scheduling.pools import Pool
from placement_core.reservations.store import bookings, lease_rows


@dataclasses.dataclass(frozen=True, slots=True)
class NewLeasePlan:
    """The plan of a new lease.

    :ivar pool: the pool that it was planned with; ``at``: when.
    """

    dates: LeaseDates
    pool: Pool
    grants: Sequence[Grant]
    at: datetime.datetime

    @property
    def window(self) -> Window:
        """Return the window of the lease."""
        return self.dates.window

    @property
    def shares(self) -> list[Sequence[Share]]:
        """Return the shares of each reservation."""
        return [grant.shares for grant in self.grants]


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseChangePlan:
    """The plan of a change.

    :ivar left: what is left of the lease's window; new shares begin at its start.
    :ivar pool: the pool that it was planned with; None: the lease keeps its shares.
    """

    before: Lease
    after: Lease
    left: Window
    share_changes: Sequence[ShareChange]
    pool: Pool | None
    at: datetime.datetime

    @property
    def window(self) -> Window:
        """Return the window of the lease after the change."""
        return self.after.window

    @property
    def shares(self) -> list[Sequence[Share]]:
        """Return the shares of each reservation after the change."""
        return [share_change.after.shares for share_change in self.share_changes]


class ChangeDoesNotFit(Exception):
    """A change of a lease does not fit.

    :ivar after: the lease as the change would have left it.
    """

    def __init__(
        self, why: DoesNotFit, after: Lease, requests: Sequence[ReservationRequest]
    ) -> None:
        super().__init__(str(why))
        self.why = why
        self.after = after
        self.requests = requests


class LeasePlanner:
    """Plans leases, inside the transactions that read the bookings of others.

    :param cleaning_seconds: how long hosts are cleaned after each booking.
    :param minutes_before_end: the time of ``before_end_lease`` if the client does not set it.
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
        """Plan a new lease.

        :raises DoesNotFit, InvalidLease, InvalidReservation:
        """
        now = pool_queries.current_time(session)
        lease_dates = dates.resolve_new(new, now, self._minutes_before_end)
        pool = pool_queries.read(
            session, requests, lease_dates.window, cleaning_seconds=self._cleaning_seconds)
        return NewLeasePlan(lease_dates, pool, _plan(pool, lease_dates.window, requests), now)

    def plan_change(
        self, session: Session, snapshot: lease_rows.LeaseSnapshot, change: LeaseChange
    ) -> LeaseChangePlan | None:
        """Plan a change of a lease.

        :param snapshot: the lease, and when it was read.
        :returns: None: nothing would change.
        :raises ChangeDoesNotFit: the changed lease does not fit.
        :raises NotChangeable, InvalidLease, InvalidReservation:
        """
        before, now = snapshot
        after = updates.apply_change(
            before, change.name, dates.resolve_change(before, change, now),
            self._requests.find_changed_fields(before, change), now)
        if after == before:
            return None
        left = Window(max(after.start_at, now), after.end_at)
        shares = bookings.read_shares(session, before)
        if updates.fits_in_present_shares(before, after):
            pool = None
            grants = [Grant(shares[reservation.id]) for reservation in after.reservations]
        else:
            requests = self._requests.build_requests(after, shares)
            pool, grants = self._replan(session, after, left, requests)
            after = updates.clear_missing_resources(after)
        return LeaseChangePlan(before, after, left, [
            ShareChange(reservation, shares[reservation.id], grant)
            for reservation, grant in zip(after.reservations, grants, strict=True)
        ], pool, now)

    def _replan(
        self, session: Session, after: Lease, left: Window, requests: Sequence[ReservationRequest]
    ) -> tuple[Pool, list[Grant]]:
        pool = pool_queries.read(
            session, requests, left, cleaning_seconds=self._cleaning_seconds,
            without=[reservation.id for reservation in after.reservations])
        try:
            return pool, _plan(pool, left, requests)
        except DoesNotFit as refusal:
            raise ChangeDoesNotFit(refusal, after, requests) from None


def _plan(pool: Pool, window: Window, requests: Sequence[ReservationRequest]) -> list[Grant]:
    """Plan reservations, without hosts that have an overdue lease if others give as much.

    :raises DoesNotFit:
    """
    ready = pool.without_overdue()
    if ready is None:
        return planner.plan(pool, window, requests)
    try:
        grants_of_ready = planner.plan(ready, window, requests)
    except (DoesNotFit, errors.Invalid):
        return planner.plan(pool, window, requests)
    # The search for a plan is bounded: among more hosts it may find none.
    with contextlib.suppress(DoesNotFit):
        grants = planner.plan(pool, window, requests)
        if _count_slots(grants) != _count_slots(grants_of_ready):
            return grants
    return grants_of_ready


def _count_slots(grants: Sequence[Grant]) -> list[int]:
    return [sum(share.slots for share in grant.shares) for grant in grants]
