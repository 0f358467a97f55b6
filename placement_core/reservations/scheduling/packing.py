"""Packing: places all that a lease needs on hosts at once.

Each demand is an *item* here. A greedy pass places items one after the other, in the order
of preference: what is held stays, hosts that are in use already are filled first. For a
single item this finds a placement if there is one. Several items can stand in each other's
way (the first takes the only host that the second may have), so if the greedy pass fails, a
search goes host by host. Its states are what each item still needs after the hosts so far;
it keeps only the states that no other one dominates (Pareto). The search is exact as long as
it stays within its budget, and says if it did not.

Rules of topology are kept by the greedy pass. The search keeps ``within``, going domain by
domain; it does not pack or spread, because there it is enough that everything fits.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from placement_core.plugin_api.reservations import (
    Demand,
    Hosts,
    HostTopology,
    Share,
    Size,
    Slots,
    WholeHosts,
)
from placement_core.reservations.scheduling import host_choice
from placement_core.reservations.scheduling.pools import FreeCapacity

#: How many states a search keeps for each host, and how many patterns of using one host it
#: looks at.
MOST_STATES, MOST_PATTERNS = 400, 200

#: The fixed cost of a step of the search, in states.
_STEP = 500

#: What an item holds: {row of a host: slots}.
SlotsByRow = dict[int, int]


@dataclasses.dataclass(slots=True)
class PackingBudget:
    """How many states one search, or several, may still look at.

    The initial number takes some tens of milliseconds.
    """

    left: int = 1_000_000


@dataclasses.dataclass(slots=True, eq=False)
class Item:
    """A demand to place on hosts.

    :ivar held: what its reservation holds now, as far as hosts are in the pool.
    :ivar fixed: all of ``held`` stays: the reservation is in force.
    """

    demand: WholeHosts | Slots
    held: SlotsByRow = dataclasses.field(default_factory=dict)
    fixed: bool = False

    @property
    def minimum(self) -> int:
        """Return how many slots or hosts it needs."""
        return self.demand.amount if isinstance(self.demand, Slots) else self.demand.minimum

    @property
    def maximum(self) -> int:
        """Return how many slots or hosts it takes if there are so many."""
        return self.demand.amount if isinstance(self.demand, Slots) else self.demand.maximum


@dataclasses.dataclass(slots=True)
class Shortfall:
    """Items that do not fit on the hosts.

    :ivar item: the index of the first item that does not fit.
    :ivar available: how many slots or hosts it could have had beside the others.
    :ivar lost: how much of what it holds, and may not give up, has no room any more.
    :ivar proven: no placement exists; False: the search did not look at all of them.
    """

    item: int
    available: int
    lost: int = 0
    proven: bool = True


def pack(
    hosts: Hosts, free: FreeCapacity, items: Sequence[Item], budget: PackingBudget
) -> list[SlotsByRow] | Shortfall:
    """Place all items on hosts.

    :param free: what others leave free throughout the window.
    :param budget: for the search.
    :returns: what each item gets, with what it holds.
    """
    for index, item in enumerate(items):
        alone = _place_greedily(hosts, free, [item])
        if isinstance(alone, Shortfall):
            return dataclasses.replace(alone, item=index)
        if len(items) == 1:
            return alone
    packed = _place_greedily(hosts, free, items)
    if isinstance(packed, Shortfall):
        return _search_domains(hosts, free, items, packed, budget)
    return packed


def to_shares(demand: Demand, placed: SlotsByRow, hosts: Hosts) -> list[Share]:
    """Return what an item got, in the order of hosts."""
    whole = isinstance(demand, WholeHosts)
    return [
        Share(int(hosts.ids[row]), slots,
              demand.size if isinstance(demand, Slots)
              else Size(*(int(amount) for amount in hosts.sizes[row])), whole)
        for row, slots in sorted(placed.items())]


class _Room:
    """What is left of the hosts while items are placed."""

    def __init__(self, hosts: Hosts, free: FreeCapacity) -> None:
        self._hosts = hosts
        self.free = FreeCapacity(free.amounts.copy(), free.shareable.copy(), free.untouched.copy())

    def available(self, item: Item, placed: SlotsByRow, *, held: bool = False) -> np.ndarray:
        """Return how many slots, or hosts, each host could give the item besides.

        :param held: only where the item holds something. That stays also on a host
            that is down, and if it is in force, on one that meets its requirements no
            more.
        """
        if held:
            allowed = np.zeros(len(self._hosts), dtype=bool)
            allowed[list(item.held)] = True
            if not item.fixed:
                allowed &= item.demand.hosts
        else:
            allowed = self._hosts.reservable & item.demand.hosts
        if isinstance(item.demand, WholeHosts):
            return (self.free.untouched & allowed).astype(np.int64)
        left = np.where(allowed, self.free.slots(item.demand.size), 0)
        if item.demand.affinity is False:
            left[list(placed)] = 0
            return np.minimum(left, 1)
        if item.demand.affinity and placed:
            others = np.ones(len(left), dtype=bool)
            others[list(placed)] = False
            left[others] = 0
        return left

    def place(self, item: Item, placed: SlotsByRow, rows: np.ndarray, slots: np.ndarray) -> None:
        """Place slots of an item, or 1 for a host, on some hosts."""
        if isinstance(item.demand, WholeHosts):
            self.free.shareable[rows] = False
        else:
            self.free.amounts[rows] -= np.multiply.outer(slots, item.demand.size.amounts())
        self.free.untouched[rows] = False
        for row, count in zip(rows.tolist(), slots.tolist(), strict=True):
            placed[row] = placed.get(row, 0) + count

    def preference(self, item: Item, available: np.ndarray) -> np.ndarray:
        """Return the rows that can give anything, the best first.

        What the item holds; then, for hosts, those that nobody ever had, and for slots,
        those that are in use; then the order of ids.
        """
        rows = np.flatnonzero(available)
        held = np.zeros(len(available), dtype=bool)
        held[list(item.held)] = True
        later = self._hosts.promised if isinstance(item.demand, WholeHosts) \
            else self.free.untouched
        return rows[np.argsort(~held[rows] * 2 + later[rows], kind="stable")]


def _place_greedily(
    hosts: Hosts, free: FreeCapacity, items: Sequence[Item]
) -> list[SlotsByRow] | Shortfall:
    """Place items one after the other, those with the least choice first or last.

    For one item, that is exact.
    """
    least_choice_first = sorted(range(len(items)), key=lambda index: _choice(items[index]))
    orders = [least_choice_first]
    if len(items) > 1:
        orders.append(least_choice_first[::-1])
    keeps = (True, False) if any(item.held for item in items) else (False,)
    packed: list[SlotsByRow] | Shortfall = Shortfall(0, 0)
    best: list[SlotsByRow] | None = None
    for keep, order in itertools.product(keeps, orders):
        packed = _place_in_order(hosts, free, items, order, keep=keep)
        if isinstance(packed, Shortfall):
            continue
        if best is None or _rate(items, packed) < _rate(items, best):
            best = packed
        if not keep or not any(_is_divided(item) for item in items):
            break
    return packed if best is None else best


def _is_divided(item: Item) -> bool:
    """Say whether an item is to be packed or spread, and may give up what it holds for that."""
    topology = item.demand.topology
    return not item.fixed and (topology.pack_by or topology.spread_by) is not None


def _rate(items: Sequence[Item], packed: Sequence[SlotsByRow]) -> int:
    return sum(host_choice.rate(item.demand.topology, placed)
               for item, placed in zip(items, packed, strict=True))


def _choice(item: Item) -> tuple[bool, bool, int]:
    """Return the sort key of an item: those with the least choice come first."""
    return not item.fixed, not _needs_one_host(item), int(np.count_nonzero(item.demand.hosts))


def _place_in_order(
    hosts: Hosts, free: FreeCapacity, items: Sequence[Item], order: Sequence[int], *, keep: bool
) -> list[SlotsByRow] | Shortfall:
    """Place items in an order.

    :param keep: place what is held first, as far as it has room there, for all items.
    """
    room = _Room(hosts, free)
    placed: list[SlotsByRow] = [{} for _ in items]
    for index in order:
        item = items[index]
        if item.fixed or keep:
            lost = _place_held(room, item, placed[index])
            if lost and item.fixed:
                return Shortfall(index, sum(placed[index].values()), lost)
    for index in order:
        item = items[index]
        # Alone, it gets all at once, which keeps the rules of topology best.
        _fill(room, item, placed[index], item.maximum if len(order) == 1 else item.minimum)
        if sum(placed[index].values()) < item.minimum:
            return Shortfall(index, _count_available(room, item, placed[index]))
    for index in order:
        _fill(room, items[index], placed[index], items[index].maximum)
    return placed


def _place_held(room: _Room, item: Item, placed: SlotsByRow) -> int:
    """Place what an item holds where it is; return how many slots or hosts have no room."""
    missing = 0
    within = None if item.fixed else item.demand.topology.within
    domain = within and host_choice.find_main_domain(item.demand.topology, item.held)
    for row, slots in sorted(item.held.items()):
        if within is not None and within.numbers[row] != domain:
            continue
        available = int(room.available(item, placed, held=True)[row])
        count = min(slots, available)
        if not item.fixed:
            count = min(count, item.maximum - sum(placed.values()))
            if _needs_one_host(item) and available < item.maximum:
                count = 0
        if count:
            room.place(item, placed, np.array([row]), np.array([count]))
        missing += slots - count
    return missing


def _fill(room: _Room, item: Item, placed: SlotsByRow, amount: int) -> None:
    """Place slots or hosts of an item until it has ``amount``."""
    left = amount - sum(placed.values())
    if left <= 0:
        return
    topology = item.demand.topology
    available = np.minimum(room.available(item, placed), left)
    if _needs_one_host(item):
        available[available < left] = 0
    available = host_choice.limit_to_domain(topology, available, placed, left)
    useful = available > 0
    useful[list(placed)] = True
    rows = room.preference(item, useful)
    # What needs one host is neither packed nor spread.
    slots = host_choice.distribute(
        HostTopology() if _needs_one_host(item) else topology, rows, available[rows], left,
        placed)
    room.place(item, placed, rows[slots > 0], slots[slots > 0])


def _count_available(room: _Room, item: Item, placed: SlotsByRow) -> int:
    """Return how many of the slots or hosts that an item needs it can have now."""
    available = np.minimum(room.available(item, placed), item.minimum)
    if item.demand.topology.within is not None and not _needs_one_host(item):
        available = host_choice.limit_to_domain(
            item.demand.topology, available, placed, item.minimum)
    more = available.max(initial=0) if _needs_one_host(item) else available.sum()
    return min(item.minimum, sum(placed.values()) + int(more))


def _exceeds_total(
    room: _Room, items: Sequence[Item], got: Sequence[SlotsByRow], needed: np.ndarray
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


# The search --------------------------------------------------------------------------


@dataclasses.dataclass(slots=True, eq=False)
class _HostGroup:
    """Hosts that are alike in all that matters to the items.

    :ivar patterns: each a way to use one of them: how many slots, or 1, for each item.
    :ivar alone: the most that one of them gives each item.
    """

    rows: np.ndarray
    patterns: np.ndarray
    alone: np.ndarray


def _search_domains(
    hosts: Hosts, free: FreeCapacity, items: Sequence[Item], failed: Shortfall,
    budget: PackingBudget,
) -> list[SlotsByRow] | Shortfall:
    """Search with each choice of domains within which items are to lie."""
    room, proven = _Room(hosts, free), True
    for chosen in itertools.product(*(_limit_to_each_domain(room, item) for item in items)):
        if budget.left <= 0:
            return dataclasses.replace(failed, proven=False)
        found = _search(hosts, free, chosen, failed, budget)
        if not isinstance(found, Shortfall):
            return found
        proven &= found.proven
        budget.left -= _STEP
    return dataclasses.replace(failed, proven=proven)


def _limit_to_each_domain(room: _Room, item: Item) -> list[Item]:
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
    room, got = _Room(hosts, free), [dict[int, int]() for _ in items]
    for item, placed in zip(items, got, strict=True):
        if item.fixed and _place_held(room, item, placed):
            return failed
    needed = np.array([
        max(0, item.minimum - sum(placed.values()))
        for item, placed in zip(items, got, strict=True)], dtype=np.int64)
    # All slots of an item that needs one host are one unit.
    units = [int(left) if _needs_one_host(item) and left else 1
             for item, left in zip(items, needed, strict=True)]
    goal = np.array([min(left, 1) if _needs_one_host(item) else left
                     for item, left in zip(items, needed, strict=True)], dtype=np.int64)
    if _exceeds_total(room, items, got, needed):
        return failed
    groups, complete = _group_hosts(room, items, got, goal, units, budget)
    uses, exhausted = _search_groups(groups, goal, budget)
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
        _fill(room, item, placed, item.maximum)
    return got


def _needs_one_host(item: Item) -> bool:
    return isinstance(item.demand, Slots) and item.demand.affinity is True


def _group_hosts(
    room: _Room, items: Sequence[Item], got: Sequence[SlotsByRow], goal: np.ndarray,
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


def _search_groups(
    groups: Sequence[_HostGroup], goal: np.ndarray, budget: PackingBudget
) -> tuple[list[tuple[int, np.ndarray]] | None, bool]:
    """Look for patterns of hosts that give every item what it needs.

    :returns: rows with the pattern of each, or None; and whether the search was exhaustive.
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
