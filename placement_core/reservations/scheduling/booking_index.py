"""All present and future bookings of hosts, in memory and as current as the database.

For queries about the whole future: when a lease fits, how much is free. Admission reads the
database instead, under the lock on the pool's row, and only the window of the lease.
"""

from __future__ import annotations

import dataclasses
import operator
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from placement_core import db
from placement_core.changes import kinds, vector
from placement_core.changes.follower import Follower, Version
from placement_core.context import Context
from placement_core.db import Session, lists
from placement_core.db.database import Database
from placement_core.reservations import tables
from placement_core.reservations.scheduling.pools import Bookings

_leases, _reservations, _shares = (
    tables.leases, tables.lease_reservations, tables.computehost_allocations)

#: Bookings that ended longer ago are left out; no cleaning takes so long.
_PAST_SECONDS = 8 * 86_400

#: The index may be refreshed so much later than it was asked how far back it reaches.
_REFRESH_SECONDS = 3600

#: If more leases than this have changed, all bookings are read again.
_MOST_CHANGES = 1000

_ALL = (
    sa.select(
        _leases.c.number, _shares.c.computehost_id, _shares.c.start_second, _shares.c.end_second,
        _shares.c.slots * _shares.c.vcpus, _shares.c.slots * _shares.c.memory_mb,
        _shares.c.slots * _shares.c.disk_gb, _shares.c.whole)
    .join(_reservations, _reservations.c.id == _shares.c.reservation_id)
    .join(_leases, _leases.c.id == _reservations.c.lease_id)
    .where(_shares.c.end_second > sa.bindparam("since", type_=sa.BigInteger)))
_OF_LEASES = _ALL.where(lists.among(_leases.c.number, "numbers"))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BookingSnapshot:
    """The bookings of hosts now and later; immutable.

    Those of one host stand together, but for some that have changed: they are found faster.

    :ivar leases: the number of the lease of each booking.
    """

    leases: np.ndarray
    bookings: Bookings

    @classmethod
    def of(cls, rows: Sequence[Any]) -> BookingSnapshot:
        """Build the columns from rows: a lease's number, then the columns of ``Bookings.of``."""
        rows = sorted(rows, key=operator.itemgetter(1))
        return cls(np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows)),
                   Bookings.of([row[1:] for row in rows]))

    def without(self, number: int | None) -> Bookings:
        """Return the bookings of all leases but one; None: of all."""
        return self.bookings if number is None else self._where(self.leases != number).bookings

    def replace_leases(
        self, numbers: Sequence[int], changed: BookingSnapshot, since: int
    ) -> BookingSnapshot:
        """Return the snapshot with other bookings of some leases.

        :param changed: the present bookings of these leases.
        :param since: bookings that ended before are dropped.
        """
        others = self._where(
            ~np.isin(self.leases, np.array(numbers)) & (self.bookings.ends > since))
        return BookingSnapshot(
            np.concatenate((others.leases, changed.leases)),
            others.bookings.beside(changed.bookings))

    def _where(self, rows: np.ndarray) -> BookingSnapshot:
        return BookingSnapshot(self.leases[rows], self.bookings.where(rows))


class BookingIndex:
    """Returns the present bookings. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._follower = Follower(database, _refresh, "bookings")

    def present(self, ctx: Context) -> BookingSnapshot:
        """Return the bookings with every change that was committed before the call.

        :raises errors.Unavailable: the database does not answer.
        """
        return self._follower.present(ctx).value

    @staticmethod
    def reaches_back_to(second: int) -> bool:
        """Say whether all bookings are present that end later, in seconds since the epoch."""
        return second > time.time() - _PAST_SECONDS + _REFRESH_SECONDS


@db.retry_writes
def _refresh(ctx: Context, before: Version[BookingSnapshot] | None) -> Version[BookingSnapshot]:
    # Not in one snapshot: bookings that are read after the vector may be newer than it; they
    # are then read again the next time.
    since = int(time.time()) - _PAST_SECONDS
    if before is not None:
        now, changed = vector.follow(ctx, before.vector)
        if changed is not None:
            numbers = sorted(ref for kind, ref in changed if kind == kinds.LEASE and ref)
            if not numbers:
                return Version(now, before.value)
            if len(numbers) <= _MOST_CHANGES:
                with db.read_each(ctx) as session:
                    snapshot = _read(session, since, numbers)
                return Version(now, before.value.replace_leases(numbers, snapshot, since))
    with db.read_each(ctx) as session:
        now = vector.read_current(session)
        return Version(now, _read(session, since))


def _read(
    session: Session, since: int, numbers: Sequence[int] | None = None
) -> BookingSnapshot:
    parameters: dict[str, Any] = {"since": since}
    if numbers is None:
        return BookingSnapshot.of(session.execute(_ALL, parameters).all())
    return BookingSnapshot.of(
        session.execute(_OF_LEASES, {**parameters, "numbers": numbers}).all())
