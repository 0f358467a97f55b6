"""Hosts of the freepool, and what is booked of them and of what is on no host."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from placement_core.plugin_api.reservations import Hosts, Share, Size, Slots
from placement_core.reservations.scheduling.timelines import Timelines

#: More than any sum of what hosts have.
_PLENTY = 2**62

#: The columns of ``Pool.timelines`` after those of a size: bookings of the whole host, and
#: bookings at all.
_WHOLE, _ANY = 3, 4


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Bookings:
    """What is booked of hosts, as columns of int64: each row is one share.

    :ivar starts: when it begins, in seconds since the epoch; ``ends`` when it has ended.
    :ivar amounts: three columns as ``Size.amounts``, of all slots of the share together.
    :ivar whole: 1 for a whole host, else 0.
    """

    host_ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    amounts: np.ndarray
    whole: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, int, int, int, int | bool]]) -> Bookings:
        """Make the columns of rows
        ``(host id, start, end, vcpus, memory_mb, disk_gb, whole)``.
        """
        count = len(rows)
        host_ids, starts, ends, *amounts, whole = (
            np.fromiter(column, dtype=np.int64, count=count)
            for column in (zip(*rows, strict=True) if rows else [()] * 7))
        return cls(host_ids, starts, ends, np.stack(amounts, axis=1), whole)

    def beside(self, others: Bookings) -> Bookings:
        """Return these bookings and others."""
        return Bookings(*(
            np.concatenate((getattr(self, field.name), getattr(others, field.name)))
            for field in dataclasses.fields(Bookings)))

    def where(self, rows: np.ndarray) -> Bookings:
        """Return some of the bookings, by a mask."""
        return Bookings(*(getattr(self, field.name)[rows]
                          for field in dataclasses.fields(Bookings)))

    @classmethod
    def of_shares(cls, shares: Iterable[tuple[Share, int, int]]) -> Bookings:
        """Make the columns of shares with their starts and ends."""
        return cls.of([
            (share.host_id, start, end, share.slots * share.size.vcpus,
             share.slots * share.size.memory_mb, share.slots * share.size.disk_gb, share.whole)
            for share, start, end in shares])


@dataclasses.dataclass(frozen=True, slots=True)
class AmountBooking:
    """A booking of something that is on no host.

    :ivar what: the resource type and the plugin's name for it.
    """

    what: tuple[str, str]
    start: int
    end: int
    amount: int


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class FreeCapacity:
    """The free capacity of each host throughout a window.

    :ivar amounts: int64, columns as ``Size.amounts``; 0 or less where nothing is free.
    :ivar shareable: bool: the host is not booked whole.
    :ivar untouched: bool: the host has no bookings.
    """

    amounts: np.ndarray
    shareable: np.ndarray
    untouched: np.ndarray

    def slots(self, size: Size) -> np.ndarray:
        """Return how many slots of a size each host has room for."""
        return count_slots(self.amounts, self.shareable, size)


class Pool:
    """The freepool with its bookings.

    A booking occupies its host until it is cleaned, so windows are extended by the cleaning time.

    :param bookings: the bookings; those of hosts that are not in ``hosts`` are ignored.
    :param cleaning_seconds: how long a booking occupies its host after its end.
    :param occupied: ids of hosts that accept no new shares, whatever their bookings: see
        ``occupancy``.
    :param overdue: ids of hosts with a lease that should have ended: who gets one waits.
    """

    def __init__(
        self, hosts: Hosts, bookings: Bookings, amounts: Sequence[AmountBooking] = (), *,
        cleaning_seconds: int = 0, occupied: Collection[int] = (),
        overdue: Collection[int] = (),
    ) -> None:
        is_occupied = np.isin(hosts.ids, np.fromiter(occupied, dtype=np.int64))
        self.occupied = int(np.count_nonzero(is_occupied))
        self.hosts = hosts if not self.occupied else dataclasses.replace(
            hosts, reservable=hosts.reservable & ~is_occupied)
        self.cleaning_seconds = cleaning_seconds
        self._overdue = overdue
        self._amounts = amounts
        rows = self._find_rows(bookings.host_ids)
        in_pool = rows >= 0
        if not in_pool.all():
            rows, bookings = rows[in_pool], bookings.where(in_pool)
        self.timelines = Timelines(
            len(hosts), rows, bookings.starts, bookings.ends + cleaning_seconds,
            np.column_stack((bookings.amounts, bookings.whole, np.ones_like(bookings.whole))))

    def beside(self, shares: Iterable[Share], start: int, end: int) -> Pool:
        """Return the pool with these shares booked, too, from ``start`` to ``end``."""
        more = Pool(self.hosts, Bookings.of_shares((share, start, end) for share in shares),
                    cleaning_seconds=self.cleaning_seconds).timelines
        return self._derive(self.hosts, Timelines(len(self.hosts), *(
            np.concatenate(columns) for columns in (
                (self.timelines.things, more.things), (self.timelines.starts, more.starts),
                (self.timelines.ends, more.ends), (self.timelines.amounts, more.amounts)))))

    def with_room_for(self, shares: Iterable[Share], start: int, end: int) -> Pool:
        """Return the pool with room for slots where they are, whatever is booked there.

        A host that has not enough for them counts as so much larger: it has no room for
        anything else then.
        """
        needed = np.zeros_like(self.hosts.sizes)
        slots = [share for share in shares if not share.whole]
        rows = self.rows(share.host_id for share in slots)
        for row, share in zip(rows.tolist(), slots, strict=True):
            if row >= 0:
                needed[row] += share.slots * np.array(share.size.amounts())
        missing = np.maximum(needed - self.free(start, end).amounts, 0)
        sizes = self.hosts.sizes + np.where(needed, missing, 0)
        return self._derive(dataclasses.replace(self.hosts, sizes=sizes), self.timelines)

    def without_overdue(self) -> Pool | None:
        """Return the pool in which nobody comes to an overdue host; None: there is none."""
        is_overdue = np.isin(self.hosts.ids, np.fromiter(self._overdue, dtype=np.int64))
        if not is_overdue.any():
            return None
        return self._derive(dataclasses.replace(
            self.hosts, reservable=self.hosts.reservable & ~is_overdue), self.timelines)

    def _derive(self, hosts: Hosts, timelines: Timelines) -> Pool:
        """Return a pool that differs in its hosts' columns, or in what is booked of them."""
        pool = Pool(hosts, Bookings.of(()), self._amounts, cleaning_seconds=self.cleaning_seconds)
        pool.occupied = self.occupied
        pool.timelines = timelines
        return pool

    @functools.cached_property
    def capacity(self) -> FreeCapacity:
        """What is free where nothing is booked."""
        return self._free(self.hosts.sizes, np.zeros((len(self.hosts), 5), dtype=np.int64))

    def free(self, start: int, end: int) -> FreeCapacity:
        """Return what is free of each host throughout a window."""
        return self._free(
            self.hosts.sizes, self.timelines.peaks(start, end + self.cleaning_seconds))

    def free_in_steps(self, things: np.ndarray, booked: np.ndarray) -> FreeCapacity:
        """Return what is free of hosts of which so much is booked.

        :param things: rows of hosts.
        :param booked: in the columns of ``timelines``.
        """
        return self._free(self.hosts.sizes[things], booked)

    def last_end(self) -> int:
        """Return when the last booking has ended; 0 without any."""
        ends = [booking.end for booking in self._amounts]
        return max(int(self.timelines.ends.max(initial=0)), max(ends, default=0))

    def ends(self, since: int, until: int) -> np.ndarray:
        """Return when bookings end from ``since`` on and before ``until``, in any order."""
        ends = np.concatenate((
            self.timelines.ends,
            np.array([booking.end for booking in self._amounts], dtype=np.int64)))
        return ends[(ends >= since) & (ends < until)]

    def amount_timeline(self, what: tuple[str, str]) -> Timelines:
        """Return what is booked of something that is on no host."""
        rows = [(0, booking.start, booking.end, booking.amount)
                for booking in self._amounts if booking.what == what]
        table = np.array(rows, dtype=np.int64).reshape(-1, 4)
        return Timelines(1, table[:, 0], table[:, 1], table[:, 2], table[:, 3:])

    def rows(self, host_ids: Iterable[int]) -> np.ndarray:
        """Return the rows of hosts; of those that are not in the pool, -1."""
        return self._find_rows(np.fromiter(host_ids, dtype=np.int64))

    def _find_rows(self, ids: np.ndarray) -> np.ndarray:
        if not len(self.hosts):
            return np.full(len(ids), -1)
        rows = np.minimum(np.searchsorted(self.hosts.ids, ids), len(self.hosts) - 1)
        return np.where(self.hosts.ids[rows] == ids, rows, -1)

    def _free(self, sizes: np.ndarray, booked: np.ndarray) -> FreeCapacity:
        return FreeCapacity(sizes - booked[:, :_WHOLE], booked[:, _WHOLE] == 0,
                            booked[:, _ANY] == 0)


def count_slots(amounts: np.ndarray, shareable: np.ndarray, size: Size) -> np.ndarray:
    """Return how many slots of a size fit into each row of amounts."""
    counts = np.full(len(amounts), _PLENTY, dtype=np.int64)
    for column, amount in enumerate(size.amounts()):
        if amount:
            np.minimum(counts, amounts[:, column] // amount, out=counts)
    return np.where(shareable, np.maximum(counts, 0), 0)


def count_useful_slots(free: FreeCapacity, demand: Slots, hosts: np.ndarray) -> np.ndarray:
    """Return how many slots of a demand each row could give, the affinity observed.

    :param hosts: bool for each row: it may give any.
    """
    counts = np.where(hosts, np.minimum(free.slots(demand.size), demand.amount), 0)
    if demand.affinity is None:
        return counts
    if demand.affinity:
        return np.where(counts == demand.amount, counts, 0)
    return np.minimum(counts, 1)
