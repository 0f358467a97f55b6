"""When a lease would fit, and how much is free over time.

A start at which a lease fits can be moved back to the end of the booking before it: no host
has less free then. So the earliest start is now, or when a booking ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from placement_core.plugin_api.reservations import Amounts, Demand, Slots, WholeHosts, Window
from placement_core.reservations.scheduling import planner, pools
from placement_core.reservations.scheduling.packing_search import PackingBudget
from placement_core.reservations.scheduling.planner import ReservationRequest
from placement_core.reservations.scheduling.pools import Pool
from placement_core.reservations.scheduling.timelines import Steps, totals

#: How many starts are tried one by one for a lease of several reservations: each of them
#: fits there by itself, but perhaps not beside the others.
TRIES = 8
#: The first span of time in which a start is looked for; a span is never shorter than the lease.
_FIRST_SPAN_SECONDS = 7 * 86_400


@dataclasses.dataclass(frozen=True, slots=True)
class FittingWindow:
    """A window in which a lease fits.

    :ivar earliest: there is no earlier one; False: not all of them were tried.
    """

    window: Window
    earliest: bool = True


def next_fit(
    pool: Pool, since: int, seconds: int, requests: Sequence[ReservationRequest]
) -> FittingWindow | None:
    """Return when a lease fits that has not started.

    :param pool: what others have booked from ``since`` on, without an end.
    :param since: in seconds since the epoch; it begins then, or later.
    :param seconds: how long it lasts.
    :returns: None: at no time that was tried, not even when nothing is booked any more: the
        pool is too small.
    :raises errors.Invalid: a plugin refuses a request.
    """
    demands = planner.needs(pool, requests)
    requests = [dataclasses.replace(request, spec=dataclasses.replace(request.spec, held=()))
                for request in requests]
    starts = _PossibleStarts(pool, since, seconds, requests, demands)
    tried, proven, budget = 0, True, PackingBudget()
    while True:
        # After ``TRIES``, steps double, so that the last start, at which nothing is booked
        # any more, comes soon.
        start, skipped = starts.take_after(0 if tried < TRIES else 1 << (tried - TRIES))
        if start is None:
            return None
        window = Window.of(start, start + seconds)
        fits, certain = planner.fits(pool, window, requests, demands, budget)
        if fits:
            return FittingWindow(window, earliest=proven and tried <= TRIES and not skipped)
        proven &= certain
        tried += 1


class _PossibleStarts:
    """The starts at which each reservation fits by itself: now, or when a booking ends.

    They are found span by span, because most leases fit soon, and bookings may reach far.
    """

    def __init__(
        self, pool: Pool, since: int, seconds: int, requests: Sequence[ReservationRequest],
        demands: Sequence[Demand],
    ) -> None:
        self._spans = _find_in_spans(pool, since, seconds, requests, demands)
        self._starts = np.zeros(0, dtype=np.int64)

    def take_after(self, count: int) -> tuple[int | None, int]:
        """Skip some of the starts, but not the last one, and take the next.

        :returns: the start, or None when all are taken; and how many were skipped.
        """
        last, skipped = None, 0
        while True:
            left = count - skipped
            if left < len(self._starts):
                start, self._starts = int(self._starts[left]), self._starts[left + 1:]
                return start, count
            if len(self._starts):
                last = int(self._starts[-1])
            skipped += len(self._starts)
            following = next(self._spans, None)
            if following is None:
                self._starts = self._starts[:0]
                return last, max(0, skipped - 1)
            self._starts = following


def _find_in_spans(
    pool: Pool, since: int, seconds: int, requests: Sequence[ReservationRequest],
    demands: Sequence[Demand],
) -> Iterator[np.ndarray]:
    """Yield the possible starts of one span after the other, until nothing is booked any more.

    Spans double. None is shorter than the lease: what is booked after a span is looked at for
    as long as the lease lasts.
    """
    last, start, length = pool.last_end(), since, max(seconds, _FIRST_SPAN_SECONDS)
    while start == since or start <= last:
        ends = pool.ends(start, start + length)
        starts = np.unique(np.append(ends, since) if start == since else ends)
        if len(starts):
            yield _keep_possible(
                pool, (start, start + length), seconds, requests, demands, starts)
        start, length = start + length, 2 * length


def _keep_possible(
    pool: Pool, span: tuple[int, int], seconds: int, requests: Sequence[ReservationRequest],
    demands: Sequence[Demand], starts: np.ndarray,
) -> np.ndarray:
    """Return those starts at which each reservation fits by itself.

    :param span: from when until when they are, in seconds since the epoch; it may end after the
        last date that a ``Window`` can have.
    """
    since, until = span
    duration = seconds + pool.cleaning_seconds
    steps = pool.timelines.steps(since, until + duration)
    host_demands = [demand for demand in demands if not isinstance(demand, Amounts)]
    if host_demands and not len(pool.hosts):
        return starts[:0]
    for demand in host_demands:
        series = planner.availability_series(pool, steps, duration, demand)
        starts = starts[_values_at(*series, starts) >= planner.required_count(demand)]
    if len(host_demands) > 1:
        starts = _starts_with_enough(pool, steps, duration, host_demands, starts)
    for key, (amount, capacity) in planner.required_amounts(requests, demands).items():
        booked = pool.amount_timeline(key).steps(since, until + seconds)
        free = booked.minima(capacity - booked.amounts[:, 0], np.array([capacity]), seconds)
        starts = starts[_values_at(*totals(*free), starts) >= amount]
    return starts


def _starts_with_enough(
    pool: Pool, steps: Steps, duration: int, demands: Sequence[WholeHosts | Slots],
    starts: np.ndarray,
) -> np.ndarray:
    """Return the starts at which there is enough of each resource, wherever it is."""
    useful = np.logical_or.reduce([demand.hosts for demand in demands]) & pool.hosts.reservable
    free = _free(pool.free_in_steps(steps.things, steps.amounts), useful[steps.things])
    empty = _free(pool.capacity, useful)
    for column in range(3):
        least = 0
        for demand in demands:
            if isinstance(demand, Slots):
                least += demand.amount * demand.size.amounts()[column]
            else:
                # The smallest hosts that it can take.
                sizes = pool.hosts.sizes[demand.hosts & pool.hosts.reservable, column]
                least += int(np.sort(sizes)[:demand.minimum].sum())
        minima = steps.minima(free[:, 1 + column], empty[:, 1 + column], duration)
        starts = starts[_values_at(*totals(*minima), starts) >= least]
    return starts


def _values_at(times: np.ndarray, values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the value at each start: that of the last time up to it."""
    return values[np.searchsorted(times, starts, side="right") - 1]


# Free capacity -----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class FreeStep:
    """What is free of the whole pool during a time.

    :ivar hosts: how many have no bookings.
    """

    window: Window
    hosts: int
    vcpus: int
    memory_mb: int
    disk_gb: int


@dataclasses.dataclass(frozen=True, slots=True)
class PoolTotal:
    """What all hosts of the pool have, those that are out of service included."""

    hosts: int
    vcpus: int
    memory_mb: int
    disk_gb: int


@dataclasses.dataclass(frozen=True, slots=True)
class Timeline:
    """What is free of the pool over time.

    :ivar steps: without gaps; two in a row differ.
    """

    total: PoolTotal
    steps: Sequence[FreeStep]


def count_total(pool: Pool) -> PoolTotal:
    """Return what all hosts of the pool have."""
    return PoolTotal(len(pool.hosts), *pool.hosts.sizes.sum(axis=0).tolist())


def timeline(pool: Pool, window: Window) -> list[FreeStep]:
    """Return how much of the pool is free over time, without saying who has the rest.

    Hosts that are down, and what shared hosts have left beside a whole one, are not
    free.

    :returns: steps without gaps from the start of the window to its end; two in a row
        differ.
    """
    hosts = pool.hosts
    steps = pool.timelines.steps(window.start, window.end)
    things = np.concatenate((np.arange(len(hosts)), steps.things))
    times = np.concatenate((np.full(len(hosts), window.start), steps.times))
    free = pool.capacity, pool.free_in_steps(steps.things, steps.amounts)
    values = np.concatenate((_free(free[0], hosts.reservable),
                             _free(free[1], hosts.reservable[steps.things])))
    order = np.lexsort((times, things))
    times, values = totals(things[order], times[order], values[order])
    inside = times < window.end
    times, values = times[inside], values[inside]
    changes = np.ones(len(times), dtype=bool)
    changes[1:] = (values[1:] != values[:-1]).any(axis=1)
    starts = times[changes].tolist()
    if not starts:
        return [FreeStep(window, 0, 0, 0, 0)]
    return [
        FreeStep(Window.of(start, end), *value) for start, end, value in
        zip(starts, [*starts[1:], window.end], values[changes].tolist(), strict=True)]


def _free(free: pools.FreeCapacity, reservable: np.ndarray) -> np.ndarray:
    amounts = np.column_stack((free.untouched, np.maximum(free.amounts, 0)))
    return np.where((free.shareable & reservable)[:, None], amounts, 0)
