"""What a lease needs is put on hosts, all of it at once.

Each demand is an *item* here. Items are put on hosts one after the other, in the order
of preference: what is held stays, hosts that are in use already are filled first. For
a single item this finds an arrangement if there is one. Several items can stand in
each other's way (the first takes the only host that the second may have), so if that
fails, arrangements are searched: host by host, keeping for each way to use the hosts
so far what is still wanted, and of those only the ones that no other one beats. The
search is complete as long as it stays within its budget, and says if it did not.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from placement_core.plugin_api.reservations import Demand, Hosts, Share, Size, Slots, WholeHosts
from placement_core.reservations.scheduling.pools import Free

#: How many partial arrangements a search keeps for each host, and in how many ways one
#: host may be used.
MOST_STATES, MOST_PATTERNS = 400, 200

#: What a step of a search costs besides what it looks at, in partial arrangements.
_STEP = 500

#: What an item holds: {row of a host: slots}.
SlotsByRow = dict[int, int]


@dataclasses.dataclass(slots=True)
class Budget:
    """How many partial arrangements may still be looked at, by one search or several.

    As many as it begins with take some tens of milliseconds.
    """

    left: int = 1_000_000


@dataclasses.dataclass(slots=True, eq=False)
class Item:
    """A demand that shall be put on hosts.

    :ivar held: what its reservation holds now, as far as hosts are in the pool.
    :ivar fixed: all of ``held`` stays: the reservation is in force.
    """

    demand: WholeHosts | Slots
    held: SlotsByRow = dataclasses.field(default_factory=dict)
    fixed: bool = False

    @property
    def wanted(self) -> int:
        """Return how many slots or hosts it needs."""
        return self.demand.amount if isinstance(self.demand, Slots) else self.demand.minimum

    @property
    def most(self) -> int:
        """Return how many slots or hosts it takes, if there are so many."""
        return self.demand.amount if isinstance(self.demand, Slots) else self.demand.maximum


@dataclasses.dataclass(slots=True)
class Short:
    """An arrangement that was not found.

    :ivar item: which item was short first.
    :ivar found: how many slots or hosts it could have had beside the others.
    :ivar lost: how much of what it holds, and may not give up, has no room any more.
    :ivar proven: there is no arrangement; False: not all of them were looked at.
    """

    item: int
    found: int
    lost: int = 0
    proven: bool = True


def pack(
    hosts: Hosts, free: Free, items: Sequence[Item], budget: Budget
) -> list[SlotsByRow] | Short:
    """Put all items on hosts.

    :param free: what others leave free throughout the window.
    :param budget: for the search.
    :returns: what each item gets, with what it holds.
    """
    for at, item in enumerate(items):
        alone = _in_some_order(hosts, free, [item])
        if isinstance(alone, Short):
            return dataclasses.replace(alone, item=at)
        if len(items) == 1:
            return alone
    found = _in_some_order(hosts, free, items)
    return _search(hosts, free, items, found, budget) if isinstance(found, Short) else found


def to_shares(demand: Demand, placed: SlotsByRow, hosts: Hosts) -> list[Share]:
    """Return what an item got, in the order of hosts."""
    whole = isinstance(demand, WholeHosts)
    return [
        Share(int(hosts.ids[row]), slots,
              demand.size if isinstance(demand, Slots)
              else Size(*(int(amount) for amount in hosts.sizes[row])), whole)
        for row, slots in sorted(placed.items())]


class _Room:
    """What is left of the hosts while items are put on them."""

    def __init__(self, hosts: Hosts, free: Free) -> None:
        self._hosts = hosts
        self.free = Free(free.amounts.copy(), free.shareable.copy(), free.untouched.copy())

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

    def put(self, item: Item, placed: SlotsByRow, rows: np.ndarray, slots: np.ndarray) -> None:
        """Put slots of an item, or 1 for a host, on some hosts."""
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


def _in_some_order(hosts: Hosts, free: Free, items: Sequence[Item]) -> list[SlotsByRow] | Short:
    """Put items on hosts one after the other, those with the least choice first or last.

    For one item, that is complete.
    """
    eager = sorted(range(len(items)), key=lambda at: _eagerness(items[at]))
    orders = [eager, eager[::-1]] if len(items) > 1 else [eager]
    keeps = (True, False) if any(item.held for item in items) else (False,)
    found = [_one_by_one(hosts, free, items, orders[0], keep=keeps[0])]
    for keep, order in list(itertools.product(keeps, orders))[1:]:
        if not isinstance(found[-1], Short):
            break
        found.append(_one_by_one(hosts, free, items, order, keep=keep))
    return found[-1]


def _eagerness(item: Item) -> tuple[bool, bool, int]:
    """Sort items: those that leave least choice first."""
    return not item.fixed, not _together(item), int(np.count_nonzero(item.demand.hosts))


def _one_by_one(
    hosts: Hosts, free: Free, items: Sequence[Item], order: Sequence[int], *, keep: bool
) -> list[SlotsByRow] | Short:
    """Put items on hosts in an order.

    :param keep: what is held is put first, as far as it has room there, for all items.
    """
    room = _Room(hosts, free)
    got: list[SlotsByRow] = [{} for _ in items]
    for at in order:
        if items[at].fixed or keep:
            lost = _put_held(room, items[at], got[at])
            if lost and items[at].fixed:
                return Short(at, sum(got[at].values()), lost)
    for at in order:
        _fill(room, items[at], got[at], items[at].wanted)
        if sum(got[at].values()) < items[at].wanted:
            return Short(at, _could_have(room, items[at], got[at]))
    for at in order:
        _fill(room, items[at], got[at], items[at].most)
    return got


def _put_held(room: _Room, item: Item, placed: SlotsByRow) -> int:
    """Put what an item holds where it is; return how many slots or hosts that misses."""
    missing = 0
    for row, slots in sorted(item.held.items()):
        available = int(room.available(item, placed, held=True)[row])
        kept = min(slots, available)
        if not item.fixed:
            kept = min(kept, item.most - sum(placed.values()))
            if _together(item) and available < item.most:
                kept = 0
        if kept:
            room.put(item, placed, np.array([row]), np.array([kept]))
        missing += slots - kept
    return missing


def _fill(room: _Room, item: Item, placed: SlotsByRow, amount: int) -> None:
    """Put so many slots or hosts of an item on hosts, with those it has."""
    left = amount - sum(placed.values())
    if left <= 0:
        return
    available = room.available(item, placed)
    if _together(item):
        available = np.where(available >= left, available, 0)
    rows = room.preference(item, available)
    sums = np.minimum(np.cumsum(np.minimum(available[rows], left)), left)
    slots = np.diff(sums, prepend=0)
    room.put(item, placed, rows[slots > 0], slots[slots > 0])


def _could_have(room: _Room, item: Item, placed: SlotsByRow) -> int:
    """Return how many of the slots or hosts that an item wants it can have now."""
    available = np.minimum(room.available(item, placed), item.wanted)
    more = available.max(initial=0) if _together(item) else available.sum()
    return min(item.wanted, sum(placed.values()) + int(more))


def _is_too_much(
    room: _Room, items: Sequence[Item], got: Sequence[SlotsByRow], wanted: np.ndarray
) -> bool:
    """Say whether of one resource there is too little for all items, wherever they go."""
    useful = np.zeros(len(room.free.amounts), dtype=bool)
    least = np.zeros(3, dtype=np.int64)
    for item, placed, left in zip(items, got, wanted, strict=True):
        here = room.available(item, placed) > 0
        useful |= here
        if isinstance(item.demand, Slots):
            least += np.multiply(left, item.demand.size.amounts())
        else:
            # The smallest hosts that it can take.
            least += np.sort(room.free.amounts[here], axis=0)[:left].sum(axis=0)
    there = np.where((useful & room.free.shareable)[:, None], np.maximum(room.free.amounts, 0), 0)
    return bool((least > there.sum(axis=0)).any())


# The search --------------------------------------------------------------------------


@dataclasses.dataclass(slots=True, eq=False)
class _HostGroup:
    """Hosts that are alike in all that matters to the items.

    :ivar patterns: the ways to use one of them: how many slots, or 1, for each item.
    :ivar alone: the most that one of them gives each item.
    """

    rows: np.ndarray
    patterns: np.ndarray
    alone: np.ndarray


def _search(
    hosts: Hosts, free: Free, items: Sequence[Item], failed: Short, budget: Budget
) -> list[SlotsByRow] | Short:
    room, got = _Room(hosts, free), [dict[int, int]() for _ in items]
    for item, placed in zip(items, got, strict=True):
        if item.fixed and _put_held(room, item, placed):
            return failed
    wanted = np.array([
        max(0, item.wanted - sum(placed.values()))
        for item, placed in zip(items, got, strict=True)], dtype=np.int64)
    # All slots of an item that go on one host are one thing to put somewhere.
    units = [int(left) if _together(item) and left else 1
             for item, left in zip(items, wanted, strict=True)]
    goal = np.array([min(left, 1) if _together(item) else left
                     for item, left in zip(items, wanted, strict=True)], dtype=np.int64)
    if _is_too_much(room, items, got, wanted):
        return failed
    groups, complete = _groups(room, items, got, goal, units, budget)
    found, searched = _walk(groups, goal, budget)
    if found is None:
        return dataclasses.replace(failed, proven=complete and searched)
    left = goal.copy()
    for row, pattern in found:
        for at in np.flatnonzero(np.minimum(pattern, left)).tolist():
            used = min(int(pattern[at]), int(left[at]))
            left[at] -= used
            room.put(items[at], got[at], np.array([row]), np.array([used * units[at]]))
    for item, placed in zip(items, got, strict=True):
        _fill(room, item, placed, item.most)
    return got


def _together(item: Item) -> bool:
    return isinstance(item.demand, Slots) and item.demand.affinity is True


def _groups(
    room: _Room, items: Sequence[Item], got: Sequence[SlotsByRow], goal: np.ndarray,
    units: Sequence[int], budget: Budget,
) -> tuple[list[_HostGroup], bool]:
    """Return the hosts in groups of equals, and whether all ways to use them are there."""
    sizes = np.array([
        np.multiply(unit, item.demand.size.amounts()) if isinstance(item.demand, Slots)
        else (0, 0, 0) for item, unit in zip(items, units, strict=True)], dtype=np.int64)
    most = np.stack([
        np.minimum(room.available(item, placed) // unit, left)
        for item, placed, unit, left in zip(items, got, units, goal, strict=True)], axis=1)
    # What is free beyond all that is wanted makes no difference.
    useful = np.minimum(room.free.amounts, (goal[:, None] * sizes).sum(axis=0))
    able = np.flatnonzero(most.any(axis=1))
    alike, group = np.unique(
        np.concatenate((most[able], useful[able]), axis=1), axis=0, return_inverse=True)
    whole = np.array([isinstance(item.demand, WholeHosts) for item in items])
    found, complete = [], True
    for at, features in enumerate(alike):
        alone, amounts = features[:len(items)], features[len(items):]
        patterns = list(itertools.islice(
            _patterns(alone, whole, amounts, sizes), MOST_PATTERNS + 1))
        complete &= len(patterns) <= MOST_PATTERNS
        table = np.array(patterns[:MOST_PATTERNS])
        best, _ = _unbeaten(alone - table, MOST_PATTERNS, budget)
        # More hosts than all items together want are never used.
        rows = able[np.flatnonzero(group.ravel() == at)][:int(min(goal.sum(), len(able)))]
        found.append(_HostGroup(rows, table[best], alone))
    return found, complete


def _patterns(
    alone: np.ndarray, whole: np.ndarray, amounts: np.ndarray, sizes: np.ndarray
) -> Iterator[tuple[int, ...]]:
    """Yield the ways to use one host, those that leave something unused included."""
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
    # The last one takes all it can: less of it is beaten by that.
    for slots in range(most, -1 if others else most - 1, -1):
        now = [*taken]
        now[at] = slots
        if others:
            yield from _mixtures(others, now, alone, amounts - slots * sizes[at], sizes)
        else:
            yield tuple(now)


def _walk(
    groups: Sequence[_HostGroup], goal: np.ndarray, budget: Budget
) -> tuple[list[tuple[int, np.ndarray]] | None, bool]:
    """Look for a way to use hosts that gives every item what it wants.

    :returns: rows and how each is used, or None; and whether all was looked at.
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
            unbeaten, all_of_them = _unbeaten(after[possible], MOST_STATES, budget)
            kept = possible[unbeaten]
            complete &= all_of_them
            trail.append((int(row), kept // len(ways), kept % len(ways), ways))
            done = np.flatnonzero(~after[kept].any(axis=1))
            if len(done):
                return _way_back(trail, int(done[0])), complete
            unchanged = len(kept) == len(states) and not (kept % len(ways)).any()
            states = after[kept]
            if unchanged:
                # No more hosts like this one are of use.
                break
    return None, complete


def _way_back(
    trail: Sequence[tuple[int, np.ndarray, np.ndarray, np.ndarray]], state: int
) -> list[tuple[int, np.ndarray]]:
    found = []
    for row, parents, used, ways in reversed(trail):
        if used[state]:
            found.append((row, ways[used[state]]))
        state = int(parents[state])
    return found


def _unbeaten(rows: np.ndarray, most: int, budget: Budget) -> tuple[np.ndarray, bool]:
    """Return which rows no other row is below in every column, and whether these are all.

    :param most: no more than so many are returned, the lowest first.
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
