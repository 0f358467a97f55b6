"""Checks and resolves the dates of new and changed leases.

Pure: the present is a parameter. A lease begins and ends at whole seconds. A start in the present
minute means now, because clients send minutes; so does an end, if a change has no other date.
Source: spec blazar §2 and §3.
"""

from __future__ import annotations

import dataclasses
import datetime

from placement_core.plugin_api.reservations import Window
from placement_core.reservations import records
from placement_core.reservations.errors import InvalidLease, OutOfLimits
from placement_core.reservations.records import Lease, LeaseChange, NewLease

#: Leases end before this; so sums of times stay within the calendar.
_LATEST = datetime.datetime(5000, 1, 1, tzinfo=datetime.UTC)
_LONGEST_SECONDS = 3000 * 366 * 86_400


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseDates:
    """The window of a lease, and the time of its ``before_end_lease``; None: it has none."""

    window: Window
    before_end_at: datetime.datetime | None


def resolve_new(new: NewLease, now: datetime.datetime, minutes_before_end: int) -> LeaseDates:
    """Return the dates of a new lease.

    :param now: in whole seconds.
    :param minutes_before_end: the time of ``before_end_lease`` before the end, if the client does
        not set it; 0: there is no such event.
    :raises InvalidLease, OutOfLimits: the dates are invalid.
    """
    start, end = _resolve_start(new.start_at, now), _truncate(new.end_at)
    if end <= start:
        raise InvalidLease("End date must be later than start date.", "end_date")
    _check_end(end)
    before_end = new.before_end_at
    if before_end is not None:
        before_end = _check_before_end(_truncate(before_end), start, end)
    elif minutes_before_end:
        before_end = max(start, end - datetime.timedelta(minutes=minutes_before_end))
    return LeaseDates(Window(start, end), before_end)


def is_end_now(lease: Lease, change: LeaseChange, now: datetime.datetime) -> bool:
    """Return whether the end that a change sets means now.

    :param now: in whole seconds.
    """
    return (lease.status != records.PENDING and change.end_at is not None
            and now.replace(second=0) <= _truncate(change.end_at) <= now)


def resolve_change(lease: Lease, change: LeaseChange, now: datetime.datetime) -> LeaseDates:
    """Return the dates of a changed lease.

    :param lease: a lease that has not ended.
    :raises InvalidLease, OutOfLimits: the dates are invalid.
    """
    started = lease.status != records.PENDING
    start, end = lease.start_at, lease.end_at
    # Clients that send minutes repeat the start of a lease without its seconds.
    minute = start.replace(second=0) if start <= now else start
    if change.start_now or change.start_at not in (None, start, minute):
        if started:
            raise InvalidLease(
                "Cannot modify the start date of already started leases.", "start_date")
        start = _resolve_start(change.start_at, now)
    if change.end_at is not None:
        end = _truncate(change.end_at)
    if end <= max(start, now):
        raise InvalidLease("End date must be later than current and start date.", "end_date")
    _check_end(end)
    before_end = next(
        (event.due_at for event in lease.events if event.event_type == records.BEFORE_END), None)
    if change.before_end_at is not None:
        before_end = _check_before_end(_truncate(change.before_end_at), start, end)
    elif before_end is not None:
        before_end = max(start, before_end + (end - lease.end_at))
    return LeaseDates(Window(start, end), before_end)


def check_fit(since: datetime.datetime | None, seconds: int) -> None:
    """Check a query for the next time at which a lease fits.

    :raises InvalidLease:
    """
    if not 1 <= seconds <= _LONGEST_SECONDS:
        raise InvalidLease(
            f"A lease lasts from 1 to {_LONGEST_SECONDS} seconds.", "duration")
    if since is not None:
        _check_end(since)


def _resolve_start(
    start_at: datetime.datetime | None, now: datetime.datetime
) -> datetime.datetime:
    if start_at is None:
        return now
    if start_at < now.replace(second=0):
        raise InvalidLease("Start date must be later than current date", "start_date")
    return max(_truncate(start_at), now)


def _check_end(end: datetime.datetime) -> None:
    if end >= _LATEST:
        raise InvalidLease(f"Leases end before the year {_LATEST.year}.", "end_date")


def _check_before_end(
    at: datetime.datetime, start: datetime.datetime, end: datetime.datetime
) -> datetime.datetime:
    if not start < at < end:
        raise OutOfLimits("Datetime is out of lease limits")
    return at


def _truncate(at: datetime.datetime) -> datetime.datetime:
    return at.replace(microsecond=0)
