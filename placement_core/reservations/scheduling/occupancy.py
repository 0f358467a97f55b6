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
_UNCLEAN = (
    _HELD.add_columns(_leases.c.end_at, _leases.c.ended_at)
    .join(_leases, _leases.c.id == _reservations.c.lease_id)
    .where(
        _leases.c.ended_at > sa.select(clock.in_seconds(
            -sa.bindparam("cleaning_seconds", type_=sa.BigInteger))).scalar_subquery(),
        _leases.c.ended_at > _leases.c.end_at))


@dataclasses.dataclass(frozen=True, slots=True)
class Occupied:
    """A host of a lease that has not ended, or whose late end is too recent.

    :ivar due_second: when the lease should have ended, in seconds since the epoch.
    :ivar free_second: from when on the host is clean; None: the lease has not ended.
    """

    host_id: int
    lease_id: str
    due_second: int
    free_second: int | None


def find(session: Session, *, cleaning_seconds: int) -> list[Occupied]:
    """Return the hosts that are not free, though no promise takes them any more."""
    occupied = [
        Occupied(row.computehost_id, row.lease_id, _second(row.due_at), None)
        for row in session.execute(_UNENDED)
        # A host that was given up earlier is the lease's no longer.
        if row.end_second >= _second(row.due_at)]
    if cleaning_seconds:
        occupied += [
            Occupied(row.computehost_id, row.lease_id, _second(row.end_at),
                     _second(row.ended_at) + cleaning_seconds)
            for row in session.execute(_UNCLEAN, {"cleaning_seconds": cleaning_seconds})
            if row.end_second >= _second(row.end_at)]
    return occupied


def keeps_waiting(
    occupied: Iterable[Occupied], lease_id: str, start_at: datetime.datetime,
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
        each.host_id in host_ids and each.lease_id != lease_id and each.due_second <= start
        for each in occupied)


def _second(at: datetime.datetime) -> int:
    return int(at.replace(tzinfo=datetime.UTC).timestamp())
