"""When a lease would fit, and how much is free over time.

A time at which a lease fits stays one when it is moved back to the end of the promise
before it: no host has less then. So the earliest one begins at once, or when a
promise ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from placement_core.plugin_api.reservations import Amounts, Demand, Slots, WholeHosts, Window
from placement_core.reservations.scheduling import planner, pools
from placement_core.reservations.scheduling.packing import Budget
from placement_core.reservations.scheduling.planner import Wanted
from placement_core.reservations.scheduling.pools import Pool
from placement_core.reservations.scheduling.timelines import Steps, totals

#: How many starts are tried at most for a lease of several reservations: each of them
#: fits there by itself, but perhaps not beside the others.
TRIES = 8


@dataclasses.dataclass(frozen=True, slots=True)
class NextFit:
    """A window in which a lease fits.

    :ivar earliest: it fits in none before; False: not all of them were tried.
    """

    window: Window
    earliest: bool = True


def next_fit(
    pool: Pool, since: int, seconds: int, wanted: Sequence[Wanted]
) -> NextFit | None:
    """Return when a lease fits that has not started.

    :param pool: what is promised to others from ``since`` on, with no end.
    :param since: in seconds since the epoch; it begins then, or later.
    :param seconds: how long it lasts.
    :returns: None: at no time that was tried, not even when nothing is promised any
        more: the pool is too small.
    :raises errors.Invalid: a plugin refuses what it was asked.
    """
    demands = planner.needs(pool, wanted)
    wanted = [dataclasses.replace(each, asked=dataclasses.replace(each.asked, held=()))
              for each in wanted]
    starts = _possible_starts(pool, since, seconds, wanted, demands)
    tried, proven, budget = 0, True, Budget()
    while len(starts):
        # Behind the limit, steps grow, so that the last start, at which nothing is
        # promised any more, comes soon.
        step = 0 if tried < TRIES else min(1 << (tried - TRIES), len(starts) - 1)
        window = Window.of(int(starts[step]), int(starts[step]) + seconds)
        found, sure = planner.fits(pool, window, wanted, demands, budget)
        if found:
            return NextFit(window, earliest=proven and tried <= TRIES and not step)
        proven &= sure
        starts = starts[step + 1:]
        tried += 1
    return None


def _possible_starts(
    pool: Pool, since: int, seconds: int, wanted: Sequence[Wanted], demands: Sequence[Demand]
) -> np.ndarray:
    """Return the starts at which each reservation fits by itself, and something ended."""
    ends = pool.ends()
    starts = np.unique(np.append(ends[ends > since], since))
    last = int(starts[-1])
    duration = seconds + pool.cleaning_seconds
    steps = pool.timelines.steps(since, last + duration)
    of_hosts = [demand for demand in demands if not isinstance(demand, Amounts)]
    if of_hosts and not len(pool.hosts):
        return starts[:0]
    for demand in of_hosts:
        found = planner.series(pool, steps, duration, demand)
        starts = starts[_at(*found, starts) >= planner.target(demand)]
    if len(of_hosts) > 1:
        starts = _with_enough_for_all(pool, steps, duration, of_hosts, starts)
    for key, (amount, capacity) in planner.amounts_wanted(wanted, demands).items():
        lent = pool.amount_track(key).steps(since, last + seconds)
        free = lent.minima(capacity - lent.amounts[:, 0], np.array([capacity]), seconds)
        starts = starts[_at(*totals(*free), starts) >= amount]
    return starts


def _with_enough_for_all(
    pool: Pool, steps: Steps, duration: int, demands: Sequence[WholeHosts | Slots],
    starts: np.ndarray,
) -> np.ndarray:
    """Return the starts at which there is enough of each resource, wherever it is."""
    useful = np.logical_or.reduce([demand.hosts for demand in demands]) & pool.hosts.reservable
    free = _free(pool.free_in_steps(steps.things, steps.amounts), useful[steps.things])
    empty = _free(pool.free_of_promises, useful)
    for column in range(3):
        least = 0
        for demand in demands:
            if isinstance(demand, Slots):
                least += demand.amount * demand.size.amounts()[column]
            else:
                # The smallest hosts that it can take.
                sizes = pool.hosts.sizes[demand.hosts & pool.hosts.reservable, column]
                least += int(np.sort(sizes)[:demand.minimum].sum())
        found = steps.minima(free[:, 1 + column], empty[:, 1 + column], duration)
        starts = starts[_at(*totals(*found), starts) >= least]
    return starts


def _at(times: np.ndarray, values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the value at each start: that of the last time up to it."""
    return values[np.searchsorted(times, starts, side="right") - 1]


# Free capacity -----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class FreeStep:
    """What is free of the whole pool during a time.

    :ivar hosts: of which nothing is promised.
    """

    window: Window
    hosts: int
    vcpus: int
    memory_mb: int
    disk_gb: int


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
    free = pool.free_of_promises, pool.free_in_steps(steps.things, steps.amounts)
    values = np.concatenate((_free(free[0], hosts.reservable),
                             _free(free[1], hosts.reservable[steps.things])))
    order = np.lexsort((times, things))
    times, values = totals(things[order], times[order], values[order])
    inside = times < window.end
    times, values = times[inside], values[inside]
    changes = np.ones(len(times), dtype=bool)
    changes[1:] = (values[1:] != values[:-1]).any(axis=1)
    begins = times[changes].tolist()
    if not begins:
        return [FreeStep(window, 0, 0, 0, 0)]
    return [
        FreeStep(Window.of(start, end), *value) for start, end, value in
        zip(begins, [*begins[1:], window.end], values[changes].tolist(), strict=True)]


def _free(free: pools.Free, reservable: np.ndarray) -> np.ndarray:
    amounts = np.column_stack((free.untouched, np.maximum(free.amounts, 0)))
    return np.where((free.shareable & reservable)[:, None], amounts, 0)
