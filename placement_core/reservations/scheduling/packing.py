"""What a lease needs is put on hosts, all of it at once.

Each demand is a *part* here. Parts are put on hosts one after the other, in the order
of preference: what is held stays, hosts that are in use already are filled first. For
a single part this finds an arrangement if there is one. Several parts can stand in
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
KEPT, WAYS = 400, 200

#: What a step of a search costs besides what it looks at, in partial arrangements.
_STEP = 500

#: What a part holds: {row of a host: slots}.
Placed = dict[int, int]


@dataclasses.dataclass(slots=True)
class Budget:
    """How many partial arrangements may still be looked at, by one search or several.

    As many as it begins with take some tens of milliseconds.
    """

    left: int = 1_000_000


@dataclasses.dataclass(slots=True, eq=False)
class Part:
    """A demand that shall be put on hosts.

    :ivar held: what its reservation holds now, as far as hosts are in the pool.
    :ivar fixed: all of ``held`` stays: the reservation is in force.
    """

    demand: WholeHosts | Slots
    held: Placed = dataclasses.field(default_factory=dict)
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

    :ivar part: which part was short first.
    :ivar found: how many slots or hosts it could have had beside the others.
    :ivar lost: how much of what it holds, and may not give up, has no room any more.
    :ivar proven: there is no arrangement; False: not all of them were looked at.
    """

    part: int
    found: int
    lost: int = 0
    proven: bool = True


def arrange(
    hosts: Hosts, free: Free, parts: Sequence[Part], budget: Budget
) -> list[Placed] | Short:
    """Put all parts on hosts.

    :param free: what others leave free throughout the window.
    :param budget: for the search.
    :returns: what each part gets, with what it holds.
    """
    for at, part in enumerate(parts):
        alone = _in_some_order(hosts, free, [part])
        if isinstance(alone, Short):
            return dataclasses.replace(alone, part=at)
        if len(parts) == 1:
            return alone
    found = _in_some_order(hosts, free, parts)
    return _search(hosts, free, parts, found, budget) if isinstance(found, Short) else found


def as_shares(demand: Demand, placed: Placed, hosts: Hosts) -> list[Share]:
    """Return what a part got, in the order of hosts."""
    whole = isinstance(demand, WholeHosts)
    return [
        Share(int(hosts.ids[row]), slots,
              demand.size if isinstance(demand, Slots)
              else Size(*(int(amount) for amount in hosts.sizes[row])), whole)
        for row, slots in sorted(placed.items())]


class _Room:
    """What is left of the hosts while parts are put on them."""

    def __init__(self, hosts: Hosts, free: Free) -> None:
        self._hosts = hosts
        self.free = Free(free.amounts.copy(), free.shareable.copy(), free.untouched.copy())

    def available(self, part: Part, placed: Placed, *, held: bool = False) -> np.ndarray:
        """Return how many slots, or hosts, each host could give the part besides.

        :param held: only where the part holds something. That stays also on a host
            that is down, and if it is in force, on one that meets its requirements no
            more.
        """
        if held:
            allowed = np.zeros(len(self._hosts), dtype=bool)
            allowed[list(part.held)] = True
            if not part.fixed:
                allowed &= part.demand.hosts
        else:
            allowed = self._hosts.reservable & part.demand.hosts
        if isinstance(part.demand, WholeHosts):
            return (self.free.untouched & allowed).astype(np.int64)
        left = np.where(allowed, self.free.slots(part.demand.size), 0)
        if part.demand.affinity is False:
            left[list(placed)] = 0
            return np.minimum(left, 1)
        if part.demand.affinity and placed:
            others = np.ones(len(left), dtype=bool)
            others[list(placed)] = False
            left[others] = 0
        return left

    def put(self, part: Part, placed: Placed, rows: np.ndarray, slots: np.ndarray) -> None:
        """Put slots of a part, or 1 for a host, on some hosts."""
        if isinstance(part.demand, WholeHosts):
            self.free.shareable[rows] = False
        else:
            self.free.amounts[rows] -= np.multiply.outer(slots, part.demand.size.amounts())
        self.free.untouched[rows] = False
        for row, count in zip(rows.tolist(), slots.tolist(), strict=True):
            placed[row] = placed.get(row, 0) + count

    def preference(self, part: Part, available: np.ndarray) -> np.ndarray:
        """Return the rows that can give anything, the best first.

        What the part holds; then, for hosts, those that nobody ever had, and for slots,
        those that are in use; then the order of ids.
        """
        rows = np.flatnonzero(available)
        held = np.zeros(len(available), dtype=bool)
        held[list(part.held)] = True
        later = self._hosts.promised if isinstance(part.demand, WholeHosts) \
            else self.free.untouched
        return rows[np.argsort(~held[rows] * 2 + later[rows], kind="stable")]


def _in_some_order(hosts: Hosts, free: Free, parts: Sequence[Part]) -> list[Placed] | Short:
    """Put parts on hosts one after the other, those with the least choice first or last.

    For one part, that is complete.
    """
    eager = sorted(range(len(parts)), key=lambda at: _eagerness(parts[at]))
    orders = [eager, eager[::-1]] if len(parts) > 1 else [eager]
    keeps = (True, False) if any(part.held for part in parts) else (False,)
    found = [_one_by_one(hosts, free, parts, orders[0], keep=keeps[0])]
    for keep, order in list(itertools.product(keeps, orders))[1:]:
        if not isinstance(found[-1], Short):
            break
        found.append(_one_by_one(hosts, free, parts, order, keep=keep))
    return found[-1]


def _eagerness(part: Part) -> tuple[bool, bool, int]:
    """Sort parts: those that leave least choice first."""
    return not part.fixed, not _together(part), int(np.count_nonzero(part.demand.hosts))


def _one_by_one(
    hosts: Hosts, free: Free, parts: Sequence[Part], order: Sequence[int], *, keep: bool
) -> list[Placed] | Short:
    """Put parts on hosts in an order.

    :param keep: what is held is put first, as far as it has room there, for all parts.
    """
    room = _Room(hosts, free)
    got: list[Placed] = [{} for _ in parts]
    for at in order:
        if parts[at].fixed or keep:
            lost = _put_held(room, parts[at], got[at])
            if lost and parts[at].fixed:
                return Short(at, sum(got[at].values()), lost)
    for at in order:
        _fill(room, parts[at], got[at], parts[at].wanted)
        if sum(got[at].values()) < parts[at].wanted:
            return Short(at, _could_have(room, parts[at], got[at]))
    for at in order:
        _fill(room, parts[at], got[at], parts[at].most)
    return got


def _put_held(room: _Room, part: Part, placed: Placed) -> int:
    """Put what a part holds where it is; return how many slots or hosts that misses."""
    missing = 0
    for row, slots in sorted(part.held.items()):
        available = int(room.available(part, placed, held=True)[row])
        kept = min(slots, available)
        if not part.fixed:
            kept = min(kept, part.most - sum(placed.values()))
            if _together(part) and available < part.most:
                kept = 0
        if kept:
            room.put(part, placed, np.array([row]), np.array([kept]))
        missing += slots - kept
    return missing


def _fill(room: _Room, part: Part, placed: Placed, amount: int) -> None:
    """Put so many slots or hosts of a part on hosts, with those it has."""
    left = amount - sum(placed.values())
    if left <= 0:
        return
    available = room.available(part, placed)
    if _together(part):
        available = np.where(available >= left, available, 0)
    rows = room.preference(part, available)
    sums = np.minimum(np.cumsum(np.minimum(available[rows], left)), left)
    slots = np.diff(sums, prepend=0)
    room.put(part, placed, rows[slots > 0], slots[slots > 0])


def _could_have(room: _Room, part: Part, placed: Placed) -> int:
    """Return how many of the slots or hosts that a part wants it can have now."""
    available = np.minimum(room.available(part, placed), part.wanted)
    more = available.max(initial=0) if _together(part) else available.sum()
    return min(part.wanted, sum(placed.values()) + int(more))


def _is_too_much(
    room: _Room, parts: Sequence[Part], got: Sequence[Placed], wanted: np.ndarray
) -> bool:
    """Say whether of one resource there is too little for all parts, wherever they go."""
    useful = np.zeros(len(room.free.amounts), dtype=bool)
    least = np.zeros(3, dtype=np.int64)
    for part, placed, left in zip(parts, got, wanted, strict=True):
        here = room.available(part, placed) > 0
        useful |= here
        if isinstance(part.demand, Slots):
            least += np.multiply(left, part.demand.size.amounts())
        else:
            # The smallest hosts that it can take.
            least += np.sort(room.free.amounts[here], axis=0)[:left].sum(axis=0)
    there = np.where((useful & room.free.shareable)[:, None], np.maximum(room.free.amounts, 0), 0)
    return bool((least > there.sum(axis=0)).any())


# The search --------------------------------------------------------------------------


@dataclasses.dataclass(slots=True, eq=False)
class _Ways:
    """Hosts that are alike in all that matters to the parts.

    :ivar patterns: the ways to use one of them: how many slots, or 1, for each part.
    :ivar alone: the most that one of them gives each part.
    """

    rows: np.ndarray
    patterns: np.ndarray
    alone: np.ndarray


def _search(
    hosts: Hosts, free: Free, parts: Sequence[Part], failed: Short, budget: Budget
) -> list[Placed] | Short:
    room, got = _Room(hosts, free), [dict[int, int]() for _ in parts]
    for part, placed in zip(parts, got, strict=True):
        if part.fixed and _put_held(room, part, placed):
            return failed
    wanted = np.array([
        max(0, part.wanted - sum(placed.values()))
        for part, placed in zip(parts, got, strict=True)], dtype=np.int64)
    # All slots of a part that go on one host are one thing to put somewhere.
    units = [int(left) if _together(part) and left else 1
             for part, left in zip(parts, wanted, strict=True)]
    goal = np.array([min(left, 1) if _together(part) else left
                     for part, left in zip(parts, wanted, strict=True)], dtype=np.int64)
    if _is_too_much(room, parts, got, wanted):
        return failed
    groups, complete = _groups(room, parts, got, goal, units, budget)
    found, searched = _walk(groups, goal, budget)
    if found is None:
        return dataclasses.replace(failed, proven=complete and searched)
    left = goal.copy()
    for row, pattern in found:
        for at in np.flatnonzero(np.minimum(pattern, left)).tolist():
            used = min(int(pattern[at]), int(left[at]))
            left[at] -= used
            room.put(parts[at], got[at], np.array([row]), np.array([used * units[at]]))
    for part, placed in zip(parts, got, strict=True):
        _fill(room, part, placed, part.most)
    return got


def _together(part: Part) -> bool:
    return isinstance(part.demand, Slots) and part.demand.affinity is True


def _groups(
    room: _Room, parts: Sequence[Part], got: Sequence[Placed], goal: np.ndarray,
    units: Sequence[int], budget: Budget,
) -> tuple[list[_Ways], bool]:
    """Return the hosts in groups of equals, and whether all ways to use them are there."""
    sizes = np.array([
        np.multiply(unit, part.demand.size.amounts()) if isinstance(part.demand, Slots)
        else (0, 0, 0) for part, unit in zip(parts, units, strict=True)], dtype=np.int64)
    most = np.stack([
        np.minimum(room.available(part, placed) // unit, left)
        for part, placed, unit, left in zip(parts, got, units, goal, strict=True)], axis=1)
    # What is free beyond all that is wanted makes no difference.
    useful = np.minimum(room.free.amounts, (goal[:, None] * sizes).sum(axis=0))
    able = np.flatnonzero(most.any(axis=1))
    alike, group = np.unique(
        np.concatenate((most[able], useful[able]), axis=1), axis=0, return_inverse=True)
    whole = np.array([isinstance(part.demand, WholeHosts) for part in parts])
    found, complete = [], True
    for at, features in enumerate(alike):
        alone, amounts = features[:len(parts)], features[len(parts):]
        patterns = list(itertools.islice(_patterns(alone, whole, amounts, sizes), WAYS + 1))
        complete &= len(patterns) <= WAYS
        table = np.array(patterns[:WAYS])
        best, _ = _unbeaten(alone - table, WAYS, budget)
        # More hosts than all parts together want are never used.
        rows = able[np.flatnonzero(group.ravel() == at)][:int(min(goal.sum(), len(able)))]
        found.append(_Ways(rows, table[best], alone))
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
    groups: Sequence[_Ways], goal: np.ndarray, budget: Budget
) -> tuple[list[tuple[int, np.ndarray]] | None, bool]:
    """Look for a way to use hosts that gives every part what it wants.

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
            unbeaten, all_of_them = _unbeaten(after[possible], KEPT, budget)
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
