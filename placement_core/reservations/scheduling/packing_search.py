"""Search for a placement of all items at once, host by host.

Its states are what each item still needs after the hosts so far. First it keeps the few states
that are best at the items' prices (``packing_prices``), which finds most arrangements of many
hosts; the prices alone often prove that there is none. Then it keeps all states that no other one
dominates (Pareto). That is exact as long as it stays within its budget, and says if it did not.

The search keeps the rule ``within``, going domain by domain; it does not pack or spread, because
it is enough that everything fits.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from placement_core.plugin_api.reservations import Hosts, Slots, WholeHosts
from placement_core.reservations.scheduling import host_choice, packing_prices
from placement_core.reservations.scheduling.packing_prices import Prices
from placement_core.reservations.scheduling.packing_room import (
    Item,
    PackingRoom,
    Shortfall,
    SlotsByRow,
    fill,
    needs_one_host,
    place_held,
)
from placement_core.reservations.scheduling.pools import FreeCapacity

#: How many states a search keeps for each host, and how many patterns of using one host it
#: looks at.
MOST_STATES, MOST_PATTERNS = 400, 200

#: How many states are kept that are best at the items' prices.
BEST_STATES = 12

#: The fixed cost of a step of the search, in states.
_STEP = 500


@dataclasses.dataclass(slots=True)
class PackingBudget:
    """How many states one search, or several, may still look at.

    The initial number takes some tens of milliseconds.
    """

    left: int = 1_000_000


def search(
    hosts: Hosts, free: FreeCapacity, items: Sequence[Item], failed: Shortfall,
    budget: PackingBudget,
) -> list[SlotsByRow] | Shortfall:
    """Search with each choice of domains within which items are to lie."""
    room, proven = PackingRoom(hosts, free), True
    for chosen in itertools.product(*(_limit_to_each_domain(room, item) for item in items)):
        if budget.left <= 0:
            return dataclasses.replace(failed, proven=False)
        packed = _search(hosts, free, chosen, failed, budget)
        if not isinstance(packed, Shortfall):
            return packed
        proven &= packed.proven
        budget.left -= _STEP
    return dataclasses.replace(failed, proven=proven)


def _limit_to_each_domain(room: PackingRoom, item: Item) -> list[Item]:
    """Return an item limited to each domain in which it may lie, the one with most room first."""
    topology = item.demand.topology
    if topology.within is None:
        return [item]
    available = np.minimum(room.available(item, {}), item.maximum)
    counts = host_choice.count_by_domain(topology, available)
    main = host_choice.find_main_domain(topology, item.held) if item.fixed else None
    domains = np.flatnonzero(counts >= item.minimum) if main is None else np.array([main])
    return [
        dataclasses.replace(item, demand=dataclasses.replace(
            item.demand, hosts=item.demand.hosts & (topology.within.numbers == domain),
            topology=dataclasses.replace(topology, within=None)))
        for domain in domains[np.argsort(-counts[domains], kind="stable")].tolist()]


def _search(
    hosts: Hosts, free: FreeCapacity, items: Sequence[Item], failed: Shortfall,
    budget: PackingBudget,
) -> list[SlotsByRow] | Shortfall:
    room, got = PackingRoom(hosts, free), [dict[int, int]() for _ in items]
    for item, placed in zip(items, got, strict=True):
        if item.fixed and place_held(room, item, placed):
            return failed
    needed = np.array([
        max(0, item.minimum - sum(placed.values()))
        for item, placed in zip(items, got, strict=True)], dtype=np.int64)
    # All slots of an item that needs one host are one unit.
    units = [int(left) if needs_one_host(item) and left else 1
             for item, left in zip(items, needed, strict=True)]
    goal = np.array([min(left, 1) if needs_one_host(item) else left
                     for item, left in zip(items, needed, strict=True)], dtype=np.int64)
    if _exceeds_total(room, items, got, needed):
        return failed
    groups, complete = _group_hosts(room, items, got, goal, units, budget)
    uses, exhausted = _find_uses(groups, goal, budget)
    if uses is None:
        return dataclasses.replace(failed, proven=complete and exhausted)
    left = goal.copy()
    for row, pattern in uses:
        for index in np.flatnonzero(np.minimum(pattern, left)).tolist():
            count = min(int(pattern[index]), int(left[index]))
            left[index] -= count
            room.place(items[index], got[index], np.array([row]),
                       np.array([count * units[index]]))
    for item, placed in zip(items, got, strict=True):
        fill(room, item, placed, item.maximum)
    return got


@dataclasses.dataclass(slots=True, eq=False)
class _HostGroup:
    """Hosts that are alike in all that matters to the items.

    :ivar patterns: each a way to use one of them: how many slots, or 1, for each item.
    :ivar alone: the most that one of them gives each item.
    """

    rows: np.ndarray
    patterns: np.ndarray
    alone: np.ndarray


def _exceeds_total(
    room: PackingRoom, items: Sequence[Item], got: Sequence[SlotsByRow], needed: np.ndarray
) -> bool:
    """Say whether the hosts have too little of a resource in total for all items."""
    useful = np.zeros(len(room.free.amounts), dtype=bool)
    least = np.zeros(3, dtype=np.int64)
    for item, placed, left in zip(items, got, needed, strict=True):
        usable = room.available(item, placed) > 0
        useful |= usable
        if isinstance(item.demand, Slots):
            least += np.multiply(left, item.demand.size.amounts())
        else:
            # The smallest hosts that it can take.
            least += np.sort(room.free.amounts[usable], axis=0)[:left].sum(axis=0)
    total = np.where((useful & room.free.shareable)[:, None], np.maximum(room.free.amounts, 0), 0)
    return bool((least > total.sum(axis=0)).any())


def _group_hosts(
    room: PackingRoom, items: Sequence[Item], got: Sequence[SlotsByRow], goal: np.ndarray,
    units: Sequence[int], budget: PackingBudget,
) -> tuple[list[_HostGroup], bool]:
    """Return the hosts in groups of equals, and whether all their patterns are there."""
    sizes = np.array([
        np.multiply(unit, item.demand.size.amounts()) if isinstance(item.demand, Slots)
        else (0, 0, 0) for item, unit in zip(items, units, strict=True)], dtype=np.int64)
    most = np.stack([
        np.minimum(room.available(item, placed) // unit, left)
        for item, placed, unit, left in zip(items, got, units, goal, strict=True)], axis=1)
    # What is free beyond all that is needed makes no difference.
    useful = np.minimum(room.free.amounts, (goal[:, None] * sizes).sum(axis=0))
    able = np.flatnonzero(most.any(axis=1))
    distinct, group = np.unique(
        np.concatenate((most[able], useful[able]), axis=1), axis=0, return_inverse=True)
    whole = np.array([isinstance(item.demand, WholeHosts) for item in items])
    groups, complete = [], True
    for number, features in enumerate(distinct):
        alone, amounts = features[:len(items)], features[len(items):]
        patterns = list(itertools.islice(
            _patterns(alone, whole, amounts, sizes), MOST_PATTERNS + 1))
        complete &= len(patterns) <= MOST_PATTERNS
        table = np.array(patterns[:MOST_PATTERNS])
        best, _ = _undominated(alone - table, MOST_PATTERNS, budget)
        # More hosts than all items together need are never used.
        rows = able[np.flatnonzero(group.ravel() == number)][:int(min(goal.sum(), len(able)))]
        groups.append(_HostGroup(rows, table[best], alone))
    return groups, complete


def _patterns(
    alone: np.ndarray, whole: np.ndarray, amounts: np.ndarray, sizes: np.ndarray
) -> Iterator[tuple[int, ...]]:
    """Yield the patterns of using one host, also those that leave something unused."""
    for at in np.flatnonzero(whole & (alone > 0)):
        yield tuple(int(other == at) for other in range(len(alone)))
    shared = np.flatnonzero(~whole & (alone > 0))
    if len(shared):
        yield from _mixtures(list(shared), [0] * len(alone), alone, amounts, sizes)


def _mixtures(
    left: list[int], taken: list[int], alone: np.ndarray, amounts: np.ndarray, sizes: np.ndarray
) -> Iterator[tuple[int, ...]]:
    at, *others = left
    most = min([int(alone[at]), *(
        int(amounts[column] // sizes[at][column]) for column in range(3) if sizes[at][column])])
    # The last one takes all it can: less of it is dominated by that.
    for slots in range(most, -1 if others else most - 1, -1):
        now = [*taken]
        now[at] = slots
        if others:
            yield from _mixtures(others, now, alone, amounts - slots * sizes[at], sizes)
        else:
            yield tuple(now)


def _find_uses(
    groups: Sequence[_HostGroup], goal: np.ndarray, budget: PackingBudget
) -> tuple[list[tuple[int, np.ndarray]] | None, bool]:
    """Look for patterns of hosts that give every item what it needs.

    :returns: rows with the pattern of each, or None; and whether all the patterns were tried.
    """
    if not groups or budget.left < 0:
        return _search_groups(groups, goal, budget)
    prices, rounds = packing_prices.find_prices(
        [group.patterns for group in groups],
        np.array([len(group.rows) for group in groups]), goal)
    budget.left -= rounds * _STEP
    if prices is None:
        return None, True
    uses = _follow_prices(groups, goal, prices, budget)
    return (uses, False) if uses is not None else _search_groups(groups, goal, budget)


def _follow_prices(
    groups: Sequence[_HostGroup], goal: np.ndarray, prices: Prices, budget: PackingBudget
) -> list[tuple[int, np.ndarray]] | None:
    """Look for patterns, keeping the states that are best at the items' prices.

    Best is where little is left to place, and no item is far behind what it would have by now if
    hosts were divisible.
    """
    counts = np.array([len(group.rows) for group in groups])
    total = (prices.uses * counts[:, None]).sum(axis=0)
    # What the hosts would give beyond the goal is not missed.
    steps = prices.uses * np.minimum(1, goal / np.maximum(total, 1))
    ahead = sum((group.alone * len(group.rows) for group in groups), np.zeros_like(goal))
    states, expected = goal[None, :], goal.astype(float)
    trail: list[tuple[int, np.ndarray, np.ndarray, np.ndarray]] = []
    # Hosts with many uses come last: they can make up for what is missing.
    for at in sorted(range(len(groups)), key=lambda at: (
            np.count_nonzero(groups[at].alone), len(groups[at].patterns))):
        group = groups[at]
        ways = np.concatenate((np.zeros((1, len(goal)), dtype=np.int64), group.patterns))
        for row in group.rows:
            if budget.left < 0:
                return None
            after = np.maximum(states[:, None, :] - ways[None, :, :], 0).reshape(-1, len(goal))
            budget.left -= 2 * len(after) + _STEP
            ahead = ahead - group.alone
            expected = np.maximum(expected - steps[at], 0)
            possible = np.flatnonzero((after <= ahead).all(axis=1))
            if not len(possible):
                return None
            survivors = possible[_choose_best(after[possible], expected, prices)]
            trail.append((int(row), survivors // len(ways), survivors % len(ways), ways))
            states = after[survivors]
            done = np.flatnonzero(~states.any(axis=1))
            if len(done):
                return _trace_back(trail, int(done[0]))
    return None


def _choose_best(states: np.ndarray, expected: np.ndarray, prices: Prices) -> np.ndarray:
    """Return which different states are best at the items' prices, the best first."""
    behind = np.maximum(states - expected, 0) * prices.of_items
    costs = (states * prices.of_items).sum(axis=1) + behind.max(axis=1) / 2
    # Among so many, enough differ.
    best = np.argsort(costs, kind="stable")[:3 * BEST_STATES]
    different = np.sort(np.unique(states[best], axis=0, return_index=True)[1])
    return best[different[:BEST_STATES]]


def _search_groups(
    groups: Sequence[_HostGroup], goal: np.ndarray, budget: PackingBudget
) -> tuple[list[tuple[int, np.ndarray]] | None, bool]:
    """Look for patterns of hosts, keeping the states that no other one dominates.

    :returns: as ``_find_uses``.
    """
    ahead = sum((group.alone * len(group.rows) for group in groups), np.zeros_like(goal))
    states, complete = goal[None, :], True
    trail: list[tuple[int, np.ndarray, np.ndarray, np.ndarray]] = []
    for group in groups:
        for row in group.rows:
            if budget.left < 0:
                return None, False
            ways = np.concatenate((np.zeros((1, len(goal)), dtype=np.int64), group.patterns))
            after = np.maximum(states[:, None, :] - ways[None, :, :], 0).reshape(-1, len(goal))
            ahead = ahead - group.alone
            possible = np.flatnonzero((after <= ahead).all(axis=1))
            if not len(possible):
                return None, complete
            undominated, is_all = _undominated(after[possible], MOST_STATES, budget)
            survivors = possible[undominated]
            complete &= is_all
            trail.append((int(row), survivors // len(ways), survivors % len(ways), ways))
            done = np.flatnonzero(~after[survivors].any(axis=1))
            if len(done):
                return _trace_back(trail, int(done[0])), complete
            unchanged = len(survivors) == len(states) and not (
                survivors % len(ways)).any()
            states = after[survivors]
            if unchanged:
                # No more hosts like this one are of use.
                break
    return None, complete


def _trace_back(
    trail: Sequence[tuple[int, np.ndarray, np.ndarray, np.ndarray]], state: int
) -> list[tuple[int, np.ndarray]]:
    uses = []
    for row, parents, choices, ways in reversed(trail):
        if choices[state]:
            uses.append((row, ways[choices[state]]))
        state = int(parents[state])
    return uses


def _undominated(rows: np.ndarray, most: int, budget: PackingBudget) -> tuple[np.ndarray, bool]:
    """Return the rows that no other row is below in every column, and whether these are all.

    :param most: return no more than so many, the lowest first.
    """
    order = np.argsort((rows / np.maximum(rows.max(axis=0), 1)).sum(axis=1), kind="stable")
    at = 0
    while at < min(len(order), most):
        budget.left -= len(order) + _STEP
        left = (rows[order] < rows[order[at]]).any(axis=1)
        left[:at + 1] = True
        order = order[left]
        at += 1
    return order[:most], len(order) <= most
