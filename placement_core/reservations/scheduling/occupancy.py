"""Which hosts nobody may come to just now, although no promise says so.

By what is promised, a host is free from the end of a lease on. Really it is free once that
end was carried out, and the host was cleaned after it. Everybody who brings a lease into
force on a host asks here, in the transaction that does so: a start waits, growth and healing
of a lease in force take other hosts, and the host does not leave the freepool.

Locks: an end closes its event in its own transaction, so whoever does not find it here has
the lease that has ended behind him.
Source: design §6.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.db import Session, clock
from placement_core.reservations import records, tables

_leases, _events, _reservations, _held = (
    tables.leases, tables.lease_events, tables.lease_reservations,
    tables.computehost_allocations)

#: Computed once for a statement, so that an index can be used.
_NOW = sa.select(clock.now()).scalar_subquery()
_HELD = (
    sa.select(_held.c.computehost_id, _reservations.c.lease_id, _held.c.end_second)
    .select_from(_held)
    .join(_reservations, _reservations.c.id == _held.c.reservation_id))
_UNENDED = (
    _HELD.add_columns(_events.c.due_at)
    .join(_events, _events.c.lease_id == _reservations.c.lease_id)
    .where(
        _events.c.status.in_((records.UNDONE, records.IN_PROGRESS, records.E_ERROR)),
        _events.c.due_at <= _NOW, _events.c.event_type == records.END))
_LATE = (
    _HELD.add_columns(_leases.c.end_at, _leases.c.ended_at)
    .join(_leases, _leases.c.id == _reservations.c.lease_id)
    .where(_leases.c.ended_at > _leases.c.end_at))
_UNCLEAN_NOW = _LATE.where(_leases.c.ended_at > sa.select(clock.in_seconds(
    -sa.bindparam("cleaning_seconds", type_=sa.BigInteger))).scalar_subquery())
_UNCLEAN_AT = _LATE.where(
    _leases.c.ended_at > sa.bindparam("ended_after", type_=clock.DEADLINE))


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
    """Return the hosts that are not free, though no booking takes them any more.

    :param at_second: when somebody would come, in seconds since the epoch. A plan that is made
        a moment later must judge by the second that it writes down. None: now.
    """
    occupied = [
        OccupiedHost(row.computehost_id, row.lease_id, _second(row.due_at), None)
        for row in session.execute(_UNENDED)
        # A host that was given up earlier is the lease's no longer.
        if row.end_second >= _second(row.due_at)]
    if cleaning_seconds:
        occupied += [
            OccupiedHost(row.computehost_id, row.lease_id, _second(row.end_at),
                         _second(row.ended_at) + cleaning_seconds)
            for row in _read_unclean(session, cleaning_seconds, at_second)
            if row.end_second >= _second(row.end_at)]
    return occupied


def _read_unclean(
    session: Session, cleaning_seconds: int, at_second: int | None
) -> Sequence[sa.Row[Any]]:
    if at_second is None:
        return session.execute(_UNCLEAN_NOW, {"cleaning_seconds": cleaning_seconds}).all()
    ended_after = datetime.datetime.fromtimestamp(at_second - cleaning_seconds, datetime.UTC)
    return session.execute(
        _UNCLEAN_AT, {"ended_after": ended_after.replace(tzinfo=None)}).all()


def keeps_waiting(
    occupied: Iterable[OccupiedHost], lease_id: str, start_at: datetime.datetime,
    host_ids: Sequence[int],
) -> bool:
    """Say whether a lease cannot start yet.

    It does not wait for a lease that was to end only after its start: beside that one, it was
    admitted.

    :param start_at: of the lease.
    :param host_ids: those that it holds.
    """
    start = int(start_at.replace(tzinfo=datetime.UTC).timestamp())
    return any(
        host.host_id in host_ids and host.lease_id != lease_id and host.due_second <= start
        for host in occupied)


def _second(at: datetime.datetime) -> int:
    return int(at.replace(tzinfo=datetime.UTC).timestamp())
