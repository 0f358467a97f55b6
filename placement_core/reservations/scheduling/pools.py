"""Hosts of the freepool, and what is promised of them and of what is on no host."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from placement_core.plugin_api.reservations import Hosts, Share, Size, Slots
from placement_core.reservations.scheduling.timelines import Timelines

#: More than any sum of what hosts have.
_PLENTY = 2**62

#: The columns of what is promised of a host, after those of a size: promises of the
#: whole host, and promises at all.
_WHOLE, _ANY = 3, 4


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Bookings:
    """What is promised of hosts, as columns of int64: each row is a share of somebody.

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
        """Return these promises and others."""
        return Bookings(*(
            np.concatenate((getattr(self, field.name), getattr(others, field.name)))
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
    """What is promised of something that is on no host.

    :ivar what: the resource type and the plugin's name for it.
    """

    what: tuple[str, str]
    start: int
    end: int
    amount: int


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Free:
    """What is free of each host throughout a window.

    :ivar amounts: int64, columns as ``Size.amounts``; 0 or less where nothing is.
    :ivar shareable: bool: nobody has the whole host.
    :ivar untouched: bool: nobody has anything of it.
    """

    amounts: np.ndarray
    shareable: np.ndarray
    untouched: np.ndarray

    def slots(self, size: Size) -> np.ndarray:
        """Return how many slots of a size each host has room for."""
        return slots(self.amounts, self.shareable, size)


class Pool:
    """The freepool of hosts, and everything that is promised at some time.

    A promise of a host lasts until the host is cleaned: a window that is asked about
    is longer by that too.

    :param promises: of these hosts, or of others, which do not matter.
    :param cleaning_seconds: how long after its end a promise still takes its host.
    :param occupied: ids of hosts that give nothing to those who do not have it already,
        whatever is promised of them: see ``occupancy``.
    """

    def __init__(
        self, hosts: Hosts, promises: Bookings, amounts: Sequence[AmountBooking] = (), *,
        cleaning_seconds: int = 0, occupied: Collection[int] = (),
    ) -> None:
        kept_back = np.isin(hosts.ids, np.fromiter(occupied, dtype=np.int64))
        self.occupied = int(np.count_nonzero(kept_back))
        self.hosts = hosts if not self.occupied else dataclasses.replace(
            hosts, reservable=hosts.reservable & ~kept_back)
        self.cleaning_seconds = cleaning_seconds
        self._amounts = amounts
        rows = np.searchsorted(hosts.ids, promises.host_ids)
        known = np.flatnonzero(
            rows < len(hosts) if not len(hosts) else
            hosts.ids[np.minimum(rows, len(hosts) - 1)] == promises.host_ids)
        columns = np.column_stack(
            (promises.amounts, promises.whole, np.ones_like(promises.whole)))
        self.timelines = Timelines(len(hosts), rows[known], promises.starts[known],
                               promises.ends[known] + cleaning_seconds, columns[known])

    def beside(self, shares: Iterable[Share], start: int, end: int) -> Pool:
        """Return the pool with these shares promised, too, during a time."""
        more = Pool(self.hosts, Bookings.of_shares((each, start, end) for each in shares),
                    cleaning_seconds=self.cleaning_seconds).timelines
        made = Pool(self.hosts, Bookings.of(()), self._amounts,
                    cleaning_seconds=self.cleaning_seconds)
        made.occupied = self.occupied
        made.timelines = Timelines(len(self.hosts), *(
            np.concatenate(columns) for columns in (
                (self.timelines.things, more.things), (self.timelines.starts, more.starts),
                (self.timelines.ends, more.ends), (self.timelines.amounts, more.amounts))))
        return made

    @functools.cached_property
    def free_of_promises(self) -> Free:
        """What is free where nothing is promised."""
        return self._free(self.hosts.sizes, np.zeros((len(self.hosts), 5), dtype=np.int64))

    def free(self, start: int, end: int) -> Free:
        """Return what is free of each host throughout a window."""
        return self._free(
            self.hosts.sizes, self.timelines.peaks(start, end + self.cleaning_seconds))

    def free_in_steps(self, things: np.ndarray, promised: np.ndarray) -> Free:
        """Return what is free of hosts, each of which has that promised.

        :param things: rows of hosts.
        :param promised: as ``timelines`` counts.
        """
        return self._free(self.hosts.sizes[things], promised)

    def last_end(self) -> int:
        """Return when the last promise has ended; 0 without any."""
        ends = [promise.end for promise in self._amounts]
        return max(int(self.timelines.ends.max(initial=0)), max(ends, default=0))

    def ends(self) -> np.ndarray:
        """Return when promises end, each once, ascending."""
        return np.unique(np.concatenate((
            self.timelines.ends,
            np.array([promise.end for promise in self._amounts], dtype=np.int64))))

    def amount_track(self, what: tuple[str, str]) -> Timelines:
        """Return what is promised of something that is on no host."""
        rows = [(0, each.start, each.end, each.amount)
                for each in self._amounts if each.what == what]
        table = np.array(rows, dtype=np.int64).reshape(-1, 4)
        return Timelines(1, table[:, 0], table[:, 1], table[:, 2], table[:, 3:])

    def rows(self, host_ids: Iterable[int]) -> np.ndarray:
        """Return the rows of hosts; of those that are not in the pool, -1."""
        ids = np.fromiter(host_ids, dtype=np.int64)
        if not len(self.hosts):
            return np.full(len(ids), -1)
        rows = np.minimum(np.searchsorted(self.hosts.ids, ids), len(self.hosts) - 1)
        return np.where(self.hosts.ids[rows] == ids, rows, -1)

    def _free(self, sizes: np.ndarray, promised: np.ndarray) -> Free:
        return Free(sizes - promised[:, :_WHOLE], promised[:, _WHOLE] == 0,
                    promised[:, _ANY] == 0)


def slots(amounts: np.ndarray, shareable: np.ndarray, size: Size) -> np.ndarray:
    """Return how many slots of a size fit into each row of amounts."""
    found = np.full(len(amounts), _PLENTY, dtype=np.int64)
    for column, amount in enumerate(size.amounts()):
        if amount:
            np.minimum(found, amounts[:, column] // amount, out=found)
    return np.where(shareable, np.maximum(found, 0), 0)


def useful_slots(free: Free, demand: Slots, hosts: np.ndarray) -> np.ndarray:
    """Return how many slots of a demand each row could give, the affinity observed.

    :param hosts: bool for each row: it may give any.
    """
    found = np.where(hosts, np.minimum(free.slots(demand.size), demand.amount), 0)
    if demand.affinity is None:
        return found
    if demand.affinity:
        return np.where(found == demand.amount, found, 0)
    return np.minimum(found, 1)
