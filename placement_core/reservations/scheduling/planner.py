"""A lease is planned whole, or refused with the reason."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from placement_core.plugin_api.reservations import (
    Amounts,
    Asked,
    Demand,
    DoesNotFit,
    NotChangeable,
    ReservationPlugin,
    Share,
    Size,
    Slots,
    WholeHosts,
    Window,
)
from placement_core.reservations.scheduling import packing, pools
from placement_core.reservations.scheduling.packing import Budget, Item, Short
from placement_core.reservations.scheduling.pools import Pool
from placement_core.reservations.scheduling.timelines import Steps, totals

_COLUMNS = ("VCPU", "MEMORY_MB", "DISK_GB")


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """A reservation of a lease, with the plugin that knows its type."""

    plugin: ReservationPlugin
    asked: Asked


@dataclasses.dataclass(frozen=True, slots=True)
class Granted:
    """What a reservation gets: all it holds from now on.

    :ivar amounts: of what is on no host.
    """

    shares: Sequence[Share] = ()
    amounts: Mapping[str, int] = dataclasses.field(default_factory=dict)


def plan(
    pool: Pool, window: Window, wanted: Sequence[Wanted],
    demands: Sequence[Demand] | None = None,
) -> list[Granted]:
    """Find what the reservations of a lease get, all of them at once.

    :param pool: what is promised to others: nothing that these reservations hold.
    :param window: of the lease; what is left of it, if it has started.
    :param demands: what they need, if that is not what they ask for.
    :returns: in the order of ``wanted``.
    :raises DoesNotFit: saying what fell short, and when.
    :raises errors.Invalid: a plugin refuses what it was asked.
    """
    demands = needs(pool, wanted) if demands is None else demands
    start, end = window.start, window.end
    _check_amounts(pool, window, wanted, demands)
    items = _items(pool, wanted, demands)
    for item in items.values():
        _check_kept(item)
    found = packing.pack(
        pool.hosts, pool.free(start, end), list(items.values()), Budget())
    if isinstance(found, Short):
        at = list(items)[found.item]
        raise _refusal(pool, window, items[at], found, alone=len(items) == 1)
    shares = {
        at: packing.to_shares(item.demand, placed, pool.hosts)
        for (at, item), placed in zip(items.items(), found, strict=True)}
    return [
        Granted(amounts=dict(demand.amounts)) if isinstance(demand, Amounts)
        else Granted(shares[at])
        for at, demand in enumerate(demands)]


def needs(pool: Pool, wanted: Sequence[Wanted]) -> list[Demand]:
    """Return what each reservation needs.

    :raises errors.Invalid: a plugin refuses what it was asked.
    """
    return [each.plugin.need(each.asked, pool.hosts) for each in wanted]


def fits(
    pool: Pool, window: Window, wanted: Sequence[Wanted], demands: Sequence[Demand],
    budget: Budget,
) -> tuple[bool, bool]:
    """Say whether all demands of a lease fit into a window, and whether that is proven.

    :param budget: for the search.
    """
    if any(_amount_missing(pool, window, key, amount, capacity)
           for key, (amount, capacity) in amounts_wanted(wanted, demands).items()):
        return False, True
    items = list(_items(pool, wanted, demands).values())
    free = pool.free(window.start, window.end)
    found = packing.pack(pool.hosts, free, items, budget)
    return (False, found.proven) if isinstance(found, Short) else (True, True)


def amounts_wanted(
    wanted: Sequence[Wanted], demands: Sequence[Demand]
) -> dict[tuple[str, str], tuple[int, int]]:
    """Return what a lease wants that is on no host, and how much of it there is.

    :returns: {(resource type, what): (amount of all reservations, capacity)}
    """
    amounts: Counter[tuple[str, str]] = Counter()
    capacities: dict[tuple[str, str], int] = {}
    for each, demand in zip(wanted, demands, strict=True):
        if isinstance(demand, Amounts):
            there = each.plugin.capacities()
            for what, amount in demand.amounts.items():
                key = each.plugin.resource_type, what
                amounts[key] += amount
                capacities[key] = there.get(what, 0)
    return {key: (amount, capacities[key]) for key, amount in amounts.items()}


def series(
    pool: Pool, steps: Steps, duration: int, demand: WholeHosts | Slots
) -> tuple[np.ndarray, np.ndarray]:
    """Return how much of a need of hosts can be had throughout times that begin when.

    :param steps: what is promised of the pool; times begin early enough to end in them.
    :param duration: how long they last, cleaning included.
    :returns: times from the first of the steps on, and how much from each on; of
        every host not more than is wanted.
    """
    everything = np.arange(len(pool.hosts))
    free = _useful(pool.free_in_steps(steps.things, steps.amounts), demand, pool, steps.things)
    empty = _useful(pool.free_of_promises, demand, pool, everything)
    things, times, values = steps.minima(free, empty, duration)
    soon = times <= steps.end - duration
    return totals(things[soon], times[soon], values[soon])


def target(demand: WholeHosts | Slots) -> int:
    """Return how much of a need ``series`` must show for it to fit."""
    return demand.minimum if isinstance(demand, WholeHosts) else demand.amount


def _useful(
    free: pools.Free, demand: WholeHosts | Slots, pool: Pool, things: np.ndarray
) -> np.ndarray:
    """Return how much of a demand each row of ``free`` could give, the affinity observed."""
    allowed = (demand.hosts & pool.hosts.reservable)[things]
    if isinstance(demand, WholeHosts):
        return (free.untouched & allowed).astype(np.int64)
    return pools.useful_slots(free, demand, allowed)


def _items(
    pool: Pool, wanted: Sequence[Wanted], demands: Sequence[Demand]
) -> dict[int, Item]:
    """Return the demands of hosts, by where they are among all."""
    return {
        at: Item(demand, _held(pool, each.asked), each.asked.started)
        for at, (each, demand) in enumerate(zip(wanted, demands, strict=True))
        if not isinstance(demand, Amounts)}


def _held(pool: Pool, asked: Asked) -> dict[int, int]:
    rows = pool.rows(share.host_id for share in asked.held)
    held: Counter[int] = Counter()
    for row, share in zip(rows, asked.held, strict=True):
        if row >= 0:
            held[int(row)] += share.slots
    return dict(held)


def _check_kept(item: Item) -> None:
    """Refuse to give up what is in force.

    :raises NotChangeable: less is asked for than is held.
    """
    held = sum(item.held.values())
    if item.fixed and held > item.most:
        raise NotChangeable(
            f"{item.most} were asked for, {held} are held: a reservation that is in force "
            "gives none up.")


# What is on no host ------------------------------------------------------------------


def _check_amounts(
    pool: Pool, window: Window, wanted: Sequence[Wanted], demands: Sequence[Demand]
) -> None:
    for key, (amount, capacity) in amounts_wanted(wanted, demands).items():
        missing = _amount_missing(pool, window, key, amount, capacity)
        if missing:
            free = max(0, amount - missing)
            raise DoesNotFit(
                f"{amount} {key[1]} were asked for, {free} of {capacity} are free {window}.",
                {key[1]: missing}, _tightest_amount(pool, window, key))


def _amount_missing(
    pool: Pool, window: Window, key: tuple[str, str], amount: int, capacity: int
) -> int:
    promised = int(pool.amount_track(key).peaks(window.start, window.end)[0, 0])
    return max(0, amount - max(0, capacity - promised))


def _tightest_amount(pool: Pool, window: Window, key: tuple[str, str]) -> Window | None:
    steps = pool.amount_track(key).steps(window.start, window.end)
    times = np.concatenate(([window.start], steps.times))
    return _lowest_part(times, np.concatenate(([0], -steps.amounts[:, 0])), window)


# Refusals ----------------------------------------------------------------------------


def _refusal(
    pool: Pool, window: Window, item: Item, short: Short, *, alone: bool
) -> DoesNotFit:
    demand = item.demand
    during = _when_least_is_free(pool, window, demand)
    if short.lost:
        what = "hosts" if isinstance(demand, WholeHosts) else "slots"
        return DoesNotFit(
            f"{short.lost} of {sum(item.held.values())} {what} that the reservation holds "
            f"cannot be kept {window}: others have them.", {what: short.lost}, during)
    if isinstance(demand, WholeHosts):
        said, missing = _hosts(demand.minimum), {"hosts": demand.minimum - short.found}
        why = f"; {int(demand.hosts.sum())} of the pool meet the requirements"
    else:
        said = _slots(demand)
        missing, why = _missing_for_slots(pool, window, demand, short.found)
    fit = "fits" if short.found == 1 else "fit"
    beside = "" if alone else " beside the other reservations of the lease"
    if not short.proven:
        beside += " in any of the arrangements that were tried"
    if pool.occupied:
        hosts = "host is" if pool.occupied == 1 else "hosts are"
        why += (f"; {pool.occupied} {hosts} not free yet: the end of a lease there is late, "
                "or cleaning after it")
    if during and during != window:
        why += f"; least is free {during}"
    elif during is None and alone:
        why += "; at any moment there is room, but not in the same places throughout"
    return DoesNotFit(f"{said} asked for, {short.found} {fit} {window}{beside}{why}.",
                      missing, during)


def _hosts(count: int) -> str:
    return "1 host was" if count == 1 else f"{count} hosts were"


def _slots(demand: Slots) -> str:
    slots = "1 slot" if demand.amount == 1 else f"{demand.amount} slots"
    rule = {True: ", all on one host,", False: ", each on another host,", None: ""}
    verb = "was" if demand.amount == 1 else "were"
    together = rule[demand.affinity] if demand.amount > 1 else ""
    return f"{slots} of {demand.size}{together} {verb}"


def _missing_for_slots(
    pool: Pool, window: Window, demand: Slots, found: int
) -> tuple[dict[str, int], str]:
    """Return what falls short, and of which resource alone there is too little."""
    free = pool.free(window.start, window.end)
    allowed = demand.hosts & pool.hosts.reservable
    missing, short = {"slots": demand.amount - found}, []
    for column, (name, amount) in enumerate(zip(_COLUMNS, demand.size.amounts(), strict=True)):
        if not amount:
            continue
        size = Size(*(amount if at == column else 0 for at in range(len(_COLUMNS))))
        each = np.where(allowed, np.minimum(free.slots(size), demand.amount), 0)
        if demand.affinity is False:
            each = np.minimum(each, 1)
        enough = int(each.max(initial=0) if demand.affinity else each.sum())
        if enough < demand.amount:
            missing[name] = (demand.amount - enough) * amount
            short.append(f"{name} for {enough}")
    return missing, f"; there is {' and '.join(short)}" if short else ""


def _when_least_is_free(
    pool: Pool, window: Window, demand: WholeHosts | Slots
) -> Window | None:
    """Return the first part of a window in which the need can least be had.

    None: at any moment it could be had, but not on the same hosts throughout.
    """
    if not len(pool.hosts):
        return window
    steps = pool.timelines.steps(window.start, window.end + pool.cleaning_seconds)
    times, values = series(pool, steps, 1, demand)
    if values.min() >= target(demand):
        return None
    return _lowest_part(times, values, window)


def _lowest_part(times: np.ndarray, values: np.ndarray, window: Window) -> Window:
    lowest = values == values.min()
    first = int(np.argmax(lowest))
    after = np.flatnonzero(~lowest[first:])
    start = int(times[first])
    end = int(times[first + after[0]]) if len(after) else window.end
    # Within the cleaning after the window, nothing else than its end can be named.
    return Window.of(min(start, window.end - 1), max(min(end, window.end), min(
        start, window.end - 1) + 1))
