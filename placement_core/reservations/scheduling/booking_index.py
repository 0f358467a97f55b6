"""All that is promised of hosts, kept in memory and as fresh as the database.

For questions about the whole future: when something fits, how much is free. Admission
reads the database under the pool's row, and only the time that it is about.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from placement_core import db
from placement_core.changes import kinds, vector
from placement_core.changes.follower import Follower, Version
from placement_core.context import Context
from placement_core.db import Session, arrays
from placement_core.db.database import Database
from placement_core.reservations import tables
from placement_core.reservations.scheduling.pools import Bookings

_leases, _reservations, _held = (
    tables.leases, tables.lease_reservations, tables.computehost_allocations)

#: What ended so long ago is left out: longer than any cleaning takes.
_PAST_SECONDS = 8 * 86_400

#: From so many changed leases on, everything is read again.
_MANY = 1000

_EVERY = (
    sa.select(
        _leases.c.number, _held.c.computehost_id, _held.c.start_second, _held.c.end_second,
        _held.c.slots * _held.c.vcpus, _held.c.slots * _held.c.memory_mb,
        _held.c.slots * _held.c.disk_gb, _held.c.whole)
    .join(_reservations, _reservations.c.id == _held.c.reservation_id)
    .join(_leases, _leases.c.id == _reservations.c.lease_id)
    .where(_held.c.end_second > sa.bindparam("since", type_=sa.BigInteger)))
_SOME = {
    dialect: _EVERY.where(arrays.among(_leases.c.number, "numbers", dialect=dialect))
    for dialect in ("postgresql", "mysql", "sqlite")}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BookingSnapshot:
    """What is promised of hosts now and later; immutable.

    :ivar leases: the number of the lease of each promise.
    """

    leases: np.ndarray
    promises: Bookings

    @classmethod
    def of(cls, rows: Sequence[Any]) -> BookingSnapshot:
        """Make the columns of rows: a lease's number, and what ``Bookings.of`` takes."""
        return cls(np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows)),
                   Bookings.of([row[1:] for row in rows]))

    def without(self, number: int | None) -> Bookings:
        """Return what leases hold but that of a number; None: all."""
        return self.promises if number is None else self._where(self.leases != number).promises

    def changed(self, numbers: Sequence[int], now: BookingSnapshot, since: int) -> BookingSnapshot:
        """Return what is promised after some leases have changed.

        :param now: what these hold.
        :param since: what ended before is left out.
        """
        kept = self._where(
            ~np.isin(self.leases, np.array(numbers)) & (self.promises.ends > since))
        return BookingSnapshot(
            np.concatenate((kept.leases, now.leases)),
            kept.promises.beside(now.promises))

    def _where(self, rows: np.ndarray) -> BookingSnapshot:
        return BookingSnapshot(self.leases[rows], Bookings(*(
            getattr(self.promises, field.name)[rows]
            for field in dataclasses.fields(Bookings))))


class BookingIndex:
    """Hands out what is promised at present. Any thread may ask."""

    def __init__(self, database: Database) -> None:
        self._follower = Follower(database, _refresh)

    def present(self, ctx: Context) -> BookingSnapshot:
        """Return it with every change that was committed before the call.

        :raises errors.Unavailable: the database does not answer.
        """
        return self._follower.present(ctx).value


@db.retry_writes
def _refresh(ctx: Context, before: Version[BookingSnapshot] | None) -> Version[BookingSnapshot]:
    # Not one snapshot: what is read after the vector may be newer than it, and is read
    # again then.
    since = int(time.time()) - _PAST_SECONDS
    if before is not None:
        now, changed = vector.follow(ctx, before.vector)
        if changed is not None:
            numbers = sorted(ref for kind, ref in changed if kind == kinds.LEASE)
            if not numbers:
                return Version(now, before.value)
            if len(numbers) <= _MANY:
                with db.read_each(ctx) as session:
                    found = _read(session, since, numbers)
                return Version(now, before.value.changed(numbers, found, since))
    with db.read_each(ctx) as session:
        now = vector.read_current(session)
        return Version(now, _read(session, since))


def _read(
    session: Session, since: int, numbers: Sequence[int] | None = None
) -> BookingSnapshot:
    given: dict[str, Any] = {"since": since}
    if numbers is None:
        return BookingSnapshot.of(session.execute(_EVERY, given).all())
    return BookingSnapshot.of(
        session.execute(_SOME[session.dialect], {**given, "numbers": numbers}).all())
