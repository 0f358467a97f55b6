"""Plans a lease as a whole, or refuses it with the reason."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from placement_core.plugin_api.reservations import (
    Amounts,
    Demand,
    DoesNotFit,
    NotChangeable,
    ReservationPlugin,
    ReservationSpec,
    Share,
    Size,
    Slots,
    WholeHosts,
    Window,
)
from placement_core.reservations.scheduling import host_choice, packing, pools
from placement_core.reservations.scheduling.packing_room import Item, Shortfall
from placement_core.reservations.scheduling.packing_search import PackingBudget
from placement_core.reservations.scheduling.pools import Pool
from placement_core.reservations.scheduling.timelines import Steps, maxima, totals

_COLUMNS = ("VCPU", "MEMORY_MB", "DISK_GB")


@dataclasses.dataclass(frozen=True, slots=True)
class ReservationRequest:
    """A reservation of a lease, with the plugin that knows its type."""

    plugin: ReservationPlugin
    spec: ReservationSpec


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """What a reservation is granted: all its shares and amounts from now on.

    :ivar amounts: {thing that is on no host: amount}.
    """

    shares: Sequence[Share] = ()
    amounts: Mapping[str, int] = dataclasses.field(default_factory=dict)


def plan(
    pool: Pool, window: Window, requests: Sequence[ReservationRequest],
    demands: Sequence[Demand] | None = None,
) -> list[Grant]:
    """Plan all reservations of a lease together.

    :param pool: the pool with the bookings of others, without those of these reservations.
    :param window: the window of the lease; what is left of it, if it has started.
    :param demands: the demands, if not those of ``needs``.
    :returns: in the order of ``requests``.
    :raises DoesNotFit: saying what fell short, and when.
    :raises errors.Invalid: a plugin refuses a request.
    """
    demands = needs(pool, requests) if demands is None else demands
    start, end = window.start, window.end
    _check_amounts(pool, window, requests, demands)
    items = _build_items(pool, requests, demands)
    for item in items.values():
        _check_keeps_shares(item)
    free = pool.free(start, end)
    packed = packing.pack(pool.hosts, free, list(items.values()), PackingBudget())
    if isinstance(packed, Shortfall):
        if not (packed.alone or packed.lost):
            packed = packing.find_shortfall(
                pool.hosts, free, list(items.values()), packed, PackingBudget())
        index, item = list(items.items())[packed.item]
        which = f"Reservation {index + 1} of the lease: " if len(requests) > 1 else ""
        raise _build_refusal(pool, window, item, packed, which)
    shares = {
        index: packing.to_shares(item.demand, placed, pool.hosts)
        for (index, item), placed in zip(items.items(), packed, strict=True)}
    return [
        Grant(amounts=dict(demand.amounts)) if isinstance(demand, Amounts)
        else Grant(shares[index])
        for index, demand in enumerate(demands)]


def needs(pool: Pool, requests: Sequence[ReservationRequest]) -> list[Demand]:
    """Return what each reservation needs.

    :raises errors.Invalid: a plugin refuses a request.
    """
    return [request.plugin.need(request.spec, pool.hosts) for request in requests]


def fits(
    pool: Pool, window: Window, requests: Sequence[ReservationRequest], demands: Sequence[Demand],
    budget: PackingBudget,
) -> tuple[bool, bool]:
    """Return whether all demands of a lease fit into a window, and whether that is proven.

    :param budget: the budget of the search.
    """
    if any(_missing_amount(pool, window, key, amount, capacity)
           for key, (amount, capacity) in required_amounts(requests, demands).items()):
        return False, True
    items = list(_build_items(pool, requests, demands).values())
    free = pool.free(window.start, window.end)
    packed = packing.pack(pool.hosts, free, items, budget)
    return (False, packed.proven) if isinstance(packed, Shortfall) else (True, True)


def required_amounts(
    requests: Sequence[ReservationRequest], demands: Sequence[Demand]
) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the amounts of things on no host that a lease needs, with their capacities.

    :returns: {(resource type, what): (amount of all reservations, capacity)}
    """
    amounts: Counter[tuple[str, str]] = Counter()
    capacities: dict[tuple[str, str], int] = {}
    for request, demand in zip(requests, demands, strict=True):
        if isinstance(demand, Amounts):
            capacity_of = request.plugin.capacities()
            for what, amount in demand.amounts.items():
                key = request.plugin.resource_type, what
                amounts[key] += amount
                capacities[key] = capacity_of.get(what, 0)
    return {key: (amount, capacities[key]) for key, amount in amounts.items()}


def availability_series(
    pool: Pool, steps: Steps, duration: int, demand: WholeHosts | Slots
) -> tuple[np.ndarray, np.ndarray]:
    """Return how much of a demand for hosts is free throughout a duration, by its start.

    :param steps: what is booked of the pool; starts are early enough to end within them.
    :param duration: in seconds, cleaning included.
    :returns: starts, from the first of the steps on, and how much is free from each on; of
        every host not more than the demand needs. If all is to lie in one domain of a level,
        it is how much the best one has.
    """
    everything = np.arange(len(pool.hosts))
    free = _count_useful(
        pool.free_in_steps(steps.things, steps.amounts), demand, pool, steps.things)
    empty = _count_useful(pool.capacity, demand, pool, everything)
    things, times, values = steps.minima(free, empty, duration)
    ends_in_time = times <= steps.end - duration
    things, times, values = things[ends_in_time], times[ends_in_time], values[ends_in_time]
    within = demand.topology.within
    if within is None:
        return totals(things, times, values)
    numbers = within.numbers[things]
    order = np.argsort(numbers, kind="stable")
    return maxima([
        totals(things[part], times[part], values[part])
        for part in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)])


def required_count(demand: WholeHosts | Slots) -> int:
    """Return how much ``availability_series`` must show for a demand to fit."""
    return demand.minimum if isinstance(demand, WholeHosts) else demand.amount


def _count_useful(
    free: pools.FreeCapacity, demand: WholeHosts | Slots, pool: Pool, things: np.ndarray
) -> np.ndarray:
    """Return how much of a demand each row of ``free`` can satisfy, observing its affinity."""
    allowed = (demand.hosts & pool.hosts.reservable)[things]
    if isinstance(demand, WholeHosts):
        whole: np.ndarray = (free.untouched & allowed).astype(np.int64)
        return whole
    return pools.count_useful_slots(free, demand, allowed)


def _build_items(
    pool: Pool, requests: Sequence[ReservationRequest], demands: Sequence[Demand]
) -> dict[int, Item]:
    """Return the demands for hosts, by their index among all demands."""
    return {
        index: Item(demand, _count_held(pool, request.spec), request.spec.started)
        for index, (request, demand) in enumerate(zip(requests, demands, strict=True))
        if not isinstance(demand, Amounts)}


def _count_held(pool: Pool, spec: ReservationSpec) -> dict[int, int]:
    rows = pool.rows(share.host_id for share in spec.held)
    held: Counter[int] = Counter()
    for row, share in zip(rows, spec.held, strict=True):
        if row >= 0:
            held[int(row)] += share.slots
    return dict(held)


def _check_keeps_shares(item: Item) -> None:
    """Check that a reservation in force keeps its shares.

    :raises NotChangeable: it asks for less than it has.
    """
    held = sum(item.held.values())
    if item.fixed and held > item.maximum:
        raise NotChangeable(
            f"{item.maximum} were asked for, {held} are held: a reservation that is in force "
            "gives none up.")


# What is on no host ------------------------------------------------------------------


def _check_amounts(
    pool: Pool, window: Window, requests: Sequence[ReservationRequest], demands: Sequence[Demand]
) -> None:
    for key, (amount, capacity) in required_amounts(requests, demands).items():
        missing = _missing_amount(pool, window, key, amount, capacity)
        if missing:
            free = max(0, amount - missing)
            raise DoesNotFit(
                f"{amount} {key[1]} were asked for, {free} of {capacity} are free {window}.",
                {key[1]: missing}, _find_tightest_part(pool, window, key))


def _missing_amount(
    pool: Pool, window: Window, key: tuple[str, str], amount: int, capacity: int
) -> int:
    promised = int(pool.amount_timeline(key).peaks(window.start, window.end)[0, 0])
    return max(0, amount - max(0, capacity - promised))


def _find_tightest_part(pool: Pool, window: Window, key: tuple[str, str]) -> Window | None:
    steps = pool.amount_timeline(key).steps(window.start, window.end)
    times = np.concatenate(([window.start], steps.times))
    return _find_lowest_part(times, np.concatenate(([0], -steps.amounts[:, 0])), window)


# Refusals ----------------------------------------------------------------------------


def _build_refusal(
    pool: Pool, window: Window, item: Item, short: Shortfall, which: str
) -> DoesNotFit:
    """Build the refusal of a lease.

    :param which: names the reservation that falls short, if there are several.
    """
    demand = item.demand
    during = _find_tightest_window(pool, window, demand)
    best = _find_best_domain(pool, window, item)
    if short.lost:
        what = "hosts" if isinstance(demand, WholeHosts) else "slots"
        return DoesNotFit(
            f"{which}{short.lost} of {sum(item.held.values())} {what} that the reservation holds "
            f"cannot be kept {window}: others have them.", {what: short.lost}, during)
    if isinstance(demand, WholeHosts):
        subject, missing = _hosts(demand.minimum), {"hosts": demand.minimum - short.available}
        why = f"; {int(demand.hosts.sum())} of the pool meet the requirements"
    else:
        subject = _slots(demand)
        missing, why = _missing_for_slots(
            pool, window, demand, short.available, demand.hosts if best is None else best.hosts)
    fit = "fits" if short.available == 1 else "fit"
    beside = "" if short.alone else " beside the reservations before it"
    if not short.proven:
        beside += " in any of the arrangements that were tried"
    if pool.occupied:
        hosts = "host is" if pool.occupied == 1 else "hosts are"
        why += (f"; {pool.occupied} {hosts} not free yet: the end of a lease there is late, "
                "or cleaning after it")
    if during and during != window:
        why += f"; least is free {during}"
    elif during is None and short.alone:
        why += "; at any moment there is room, but not in the same places throughout"
    if best is not None:
        why += f"; {best.text}"
    return DoesNotFit(
        f"{which}{subject} asked for, {short.available} {fit} {window}{beside}{why}.",
        missing, during)


def _hosts(count: int) -> str:
    return "1 host was" if count == 1 else f"{count} hosts were"


def _slots(demand: Slots) -> str:
    slots = "1 slot" if demand.amount == 1 else f"{demand.amount} slots"
    rule = {True: ", all on one host,", False: ", each on another host,", None: ""}
    verb = "was" if demand.amount == 1 else "were"
    together = rule[demand.affinity] if demand.amount > 1 else ""
    return f"{slots} of {demand.size}{together} {verb}"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _BestDomain:
    """The domain within which most of a demand fits.

    :ivar hosts: bool for each host: it is in the domain and meets the requirements.
    """

    hosts: np.ndarray
    text: str


def _find_best_domain(pool: Pool, window: Window, item: Item) -> _BestDomain | None:
    """Return the domain that could give most of a demand; None: it may lie anywhere."""
    demand, within = item.demand, item.demand.topology.within
    if within is None or not within.names:
        return None
    main = host_choice.find_main_domain(demand.topology, item.held) if item.fixed else None
    counts = host_choice.count_by_domain(demand.topology, _count_useful(
        pool.free(window.start, window.end), demand, pool, np.arange(len(pool.hosts))))
    domain = int(counts.argmax()) if main is None else main
    wanted = required_count(demand)
    where = (f"the largest {within.level} ({within.names[domain]}) holds"
             if main is None else
             f"it lies within the {within.level} {within.names[domain]}, which holds")
    return _BestDomain(demand.hosts & (within.numbers == domain),
                       f"{where} {min(wanted, int(counts[domain]))} of {wanted}")


def _missing_for_slots(
    pool: Pool, window: Window, demand: Slots, available: int, hosts: np.ndarray
) -> tuple[dict[str, int], str]:
    """Return the missing amounts, and a text of the resources that alone are too scarce.

    :param hosts: bool for each host: it may give any.
    """
    free = pool.free(window.start, window.end)
    allowed = hosts & pool.hosts.reservable
    missing, short = {"slots": demand.amount - available}, []
    for column, (name, amount) in enumerate(zip(_COLUMNS, demand.size.amounts(), strict=True)):
        if not amount:
            continue
        size = Size(*(amount if at == column else 0 for at in range(len(_COLUMNS))))
        slots = np.where(allowed, np.minimum(free.slots(size), demand.amount), 0)
        if demand.affinity is False:
            slots = np.minimum(slots, 1)
        enough = int(slots.max(initial=0) if demand.affinity else slots.sum())
        if enough < demand.amount:
            missing[name] = (demand.amount - enough) * amount
            short.append(f"{name} for {enough}")
    return missing, f"; there is {' and '.join(short)}" if short else ""


def _find_tightest_window(
    pool: Pool, window: Window, demand: WholeHosts | Slots
) -> Window | None:
    """Return the first part of a window in which least of a demand is free.

    None: at any moment enough is free, but not on the same hosts throughout.
    """
    if not len(pool.hosts):
        return window
    steps = pool.timelines.steps(window.start, window.end + pool.cleaning_seconds)
    times, values = availability_series(pool, steps, 1, demand)
    if values.min() >= required_count(demand):
        return None
    return _find_lowest_part(times, values, window)


def _find_lowest_part(times: np.ndarray, values: np.ndarray, window: Window) -> Window:
    lowest = values == values.min()
    first = int(np.argmax(lowest))
    after = np.flatnonzero(~lowest[first:])
    start = int(times[first])
    end = int(times[first + after[0]]) if len(after) else window.end
    # Within the cleaning after the window, nothing else than its end can be named.
    return Window.of(min(start, window.end - 1), max(min(end, window.end), min(
        start, window.end - 1) + 1))
