"""Finds hosts that are not free yet, although their bookings have ended.

By its bookings, a host is free from the end of a lease on. In fact it is free when that end was
executed, and the host was cleaned after it. Code that brings a lease into force on a host asks
this module, in the same transaction: a start waits, growth and healing of a lease in force choose
other hosts, and the host does not leave the freepool.

Locks: an end closes its event in its own transaction. So if a lease is not found here, its end is
committed.
Source: design §6.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.db import Session, clock, lists
from placement_core.reservations import records, tables

_leases, _events, _reservations, _shares = (
    tables.leases, tables.lease_events, tables.lease_reservations,
    tables.computehost_allocations)

#: A subquery: it is computed once for a statement, so that an index can be used.
_NOW = sa.select(clock.now()).scalar_subquery()
_OVERDUE = sa.select(_events.c.lease_id, _events.c.due_at).where(
    _events.c.status.in_((records.UNDONE, records.IN_PROGRESS, records.E_ERROR)),
    _events.c.due_at <= _NOW, _events.c.event_type == records.END)
_LATE = sa.select(_leases.c.id, _leases.c.end_at, _leases.c.ended_at).where(
    _leases.c.ended_at > _leases.c.end_at)
_UNCLEAN_NOW = _LATE.where(_leases.c.ended_at > sa.select(clock.in_seconds(
    -sa.bindparam("cleaning_seconds", type_=sa.BigInteger))).scalar_subquery())
_UNCLEAN_AT = _LATE.where(
    _leases.c.ended_at > sa.bindparam("ended_after", type_=clock.DEADLINE))
# A statement of its own: joined to the leases above, of which there are few, PostgreSQL expects
# many, and reads the reservations of all leases.
_SHARES_OF_LEASES = (
    sa.select(_shares.c.computehost_id, _reservations.c.lease_id, _shares.c.end_second)
    .select_from(_shares)
    .join(_reservations, _reservations.c.id == _shares.c.reservation_id)
    .where(lists.among_many(_reservations.c.lease_id, "lease_ids")))


@dataclasses.dataclass(frozen=True, slots=True)
class OccupiedHost:
    """A host of a lease that has not ended, or whose late end is too recent.

    :ivar due_second: when the lease should have ended, in seconds since the epoch.
    :ivar free_second: from when on the host is clean; None: the lease has not ended.
    """

    host_id: int
    lease_id: str
    due_second: int
    free_second: int | None


def find(
    session: Session, *, cleaning_seconds: int, at_second: int | None = None
) -> list[OccupiedHost]:
    """Return the hosts that are not free, although their bookings have ended.

    :param at_second: when the host is needed, in seconds since the epoch: plans pass the second
        that they store, as the clock may have advanced since. None: now.
    """
    # The lease, when it should have ended, and from when on its hosts are clean.
    ends: list[tuple[str, int, int | None]] = [
        (row.lease_id, _to_second(row.due_at), None) for row in session.execute(_OVERDUE)]
    if cleaning_seconds:
        ends += [
            (row.id, _to_second(row.end_at), _to_second(row.ended_at) + cleaning_seconds)
            for row in _read_unclean(session, cleaning_seconds, at_second)]
    if not ends:
        return []
    shares = collections.defaultdict(list)
    for share in session.execute(
            _SHARES_OF_LEASES, {"lease_ids": sorted({lease_id for lease_id, _, _ in ends})}):
        shares[share.lease_id].append(share)
    # A host that was released earlier does not belong to the lease any more.
    return [OccupiedHost(share.computehost_id, lease_id, due_second, free_second)
            for lease_id, due_second, free_second in ends
            for share in shares[lease_id] if share.end_second >= due_second]


def _read_unclean(
    session: Session, cleaning_seconds: int, at_second: int | None
) -> Sequence[sa.Row[Any]]:
    if at_second is None:
        return session.execute(_UNCLEAN_NOW, {"cleaning_seconds": cleaning_seconds}).all()
    # Nothing ended before the epoch, and no date is before the year 1.
    ended_after = datetime.datetime.fromtimestamp(
        max(0, at_second - cleaning_seconds), datetime.UTC)
    return session.execute(
        _UNCLEAN_AT, {"ended_after": ended_after.replace(tzinfo=None)}).all()


def keeps_waiting(
    occupied: Iterable[OccupiedHost], lease_id: str, start_at: datetime.datetime,
    host_ids: Sequence[int],
) -> bool:
    """Return whether a lease cannot start yet.

    It does not wait for leases that were due to end only after its start: it was planned next to
    them.

    :param start_at: the start of the lease.
    :param host_ids: its hosts.
    """
    start = int(start_at.replace(tzinfo=datetime.UTC).timestamp())
    return any(
        host.host_id in host_ids and host.lease_id != lease_id and host.due_second <= start
        for host in occupied)


def _to_second(at: datetime.datetime) -> int:
    return int(at.replace(tzinfo=datetime.UTC).timestamp())
