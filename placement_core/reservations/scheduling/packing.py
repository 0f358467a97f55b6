"""Packing: places all that a lease needs on hosts at once.

Each demand is an *item* here. A greedy pass places items one after the other, in the order
of preference: what is held stays, hosts that are in use already are filled first. For a
single item this finds a placement if there is one, and keeps the rules of topology best. Several
items can stand in each other's way (the first takes the only host that the second may have), so
if the greedy pass fails, all arrangements are searched (``packing_search``). Items that then lie
worse than alone, by the rules of topology, are placed anew among the others.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from placement_core.plugin_api.reservations import Demand, Hosts, Share, Size, Slots, WholeHosts
from placement_core.reservations.scheduling import host_choice, packing_search
from placement_core.reservations.scheduling.packing_room import (
    Item,
    PackingRoom,
    Shortfall,
    SlotsByRow,
    count_available,
    fill,
    needs_one_host,
    place_held,
)
from placement_core.reservations.scheduling.packing_search import PackingBudget
from placement_core.reservations.scheduling.pools import FreeCapacity

#: How often items are placed anew at most, because another one moved.
_MOST_ROUNDS = 5


def pack(
    hosts: Hosts, free: FreeCapacity, items: Sequence[Item], budget: PackingBudget
) -> list[SlotsByRow] | Shortfall:
    """Place all items on hosts.

    :param free: what others leave free throughout the window.
    :param budget: for the search.
    :returns: what each item gets, with what it holds.
    """
    alone: list[SlotsByRow] = []
    for index, item in enumerate(items):
        placed = _place_greedily(hosts, free, [item])
        if isinstance(placed, Shortfall):
            return dataclasses.replace(placed, item=index)
        alone += placed
    if len(items) == 1:
        return alone
    packed = _place_greedily(hosts, free, items)
    if isinstance(packed, Shortfall):
        packed = packing_search.search(
            hosts, free, items, dataclasses.replace(packed, alone=False), budget)
    return packed if isinstance(packed, Shortfall) else _improve(hosts, free, items, packed, alone)


def find_shortfall(
    hosts: Hosts, free: FreeCapacity, items: Sequence[Item], short: Shortfall,
    budget: PackingBudget,
) -> Shortfall:
    """Find the first item that does not fit beside those before it, and the most that would.

    :param short: why all items together do not fit; each does alone.
    :param budget: for all searches; if it is exhausted, more may fit.
    """
    def pack_first(count: int, last: Item) -> list[SlotsByRow] | Shortfall:
        # Those behind keep what they hold, if they are in force.
        return pack(hosts, free, [*items[:count - 1], last, *(
            item.reduce(sum(item.held.values())) for item in items[count:] if item.fixed)], budget)

    count, proven = len(items), short.proven
    for number in range(1, len(items)):
        packed = pack_first(number, items[number - 1])
        if isinstance(packed, Shortfall):
            count, proven = number, packed.proven
            break
    item = items[count - 1]
    # So many fit, and so many more may.
    fits, most = sum(item.held.values()) if item.fixed else 0, item.minimum - 1
    while fits < most:
        tried = (fits + most + 1) // 2
        packed = pack_first(count, item.reduce(tried))
        if isinstance(packed, Shortfall):
            most, proven = tried - 1, proven and packed.proven
        else:
            fits = tried
    return Shortfall(count - 1, fits, proven=proven, alone=False)


def to_shares(demand: Demand, placed: SlotsByRow, hosts: Hosts) -> list[Share]:
    """Return what an item got, in the order of hosts."""
    whole = isinstance(demand, WholeHosts)
    return [
        Share(int(hosts.ids[row]), slots,
              demand.size if isinstance(demand, Slots)
              else Size(*(int(amount) for amount in hosts.sizes[row])), whole)
        for row, slots in sorted(placed.items())]


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


def _improve(
    hosts: Hosts, free: FreeCapacity, items: Sequence[Item], packed: list[SlotsByRow],
    alone: Sequence[SlotsByRow],
) -> list[SlotsByRow]:
    """Place items anew that keep their rules of topology less well than alone, one at a time.

    :param packed: where all items are, and can stay.
    :param alone: where each would be if it were the only one.
    """
    for _ in range(_MOST_ROUNDS):
        before = list(packed)
        for index, item in enumerate(items):
            if not _is_ruled(item) or _lies_as_well(item, packed[index], alone[index]):
                continue
            room = PackingRoom(hosts, free)
            for other, placed in zip(items, packed, strict=True):
                if other is not item:
                    room.place(other, {}, np.array(list(placed), dtype=np.intp),
                               np.array(list(placed.values()), dtype=np.int64))
            anew = _place_greedily(hosts, room.free, [item])
            if not isinstance(anew, Shortfall) and _rate([item], anew) < _rate(
                    [item], [packed[index]]):
                packed[index] = anew[0]
        if packed == before:
            break
    return packed


def _lies_as_well(item: Item, placed: SlotsByRow, other: SlotsByRow) -> bool:
    """Say whether as much is placed as in another way, and keeps the rules as well."""
    return (sum(placed.values()) == sum(other.values())
            and _rate([item], [placed]) <= _rate([item], [other]))


def _is_ruled(item: Item) -> bool:
    """Say whether an item is to be packed or spread."""
    topology = item.demand.topology
    return (topology.pack_by or topology.spread_by) is not None


def _is_divided(item: Item) -> bool:
    """Say whether an item is to be packed or spread, and may give up what it holds for that."""
    return not item.fixed and _is_ruled(item)


def _rate(items: Sequence[Item], packed: Sequence[SlotsByRow]) -> int:
    return sum(host_choice.rate(item.demand.topology, placed)
               for item, placed in zip(items, packed, strict=True))


def _choice(item: Item) -> tuple[bool, bool, int]:
    """Return the sort key of an item: those with the least choice come first."""
    return not item.fixed, not needs_one_host(item), int(np.count_nonzero(item.demand.hosts))


def _place_in_order(
    hosts: Hosts, free: FreeCapacity, items: Sequence[Item], order: Sequence[int], *, keep: bool
) -> list[SlotsByRow] | Shortfall:
    """Place items in an order.

    :param keep: place what is held first, as far as it has room there, for all items.
    """
    room = PackingRoom(hosts, free)
    placed: list[SlotsByRow] = [{} for _ in items]
    for index in order:
        item = items[index]
        if item.fixed or keep:
            lost = place_held(room, item, placed[index])
            if lost and item.fixed:
                return Shortfall(index, sum(placed[index].values()), lost)
    for index in order:
        item = items[index]
        # Alone, it gets all at once, which keeps the rules of topology best.
        fill(room, item, placed[index], item.maximum if len(order) == 1 else item.minimum)
        if sum(placed[index].values()) < item.minimum:
            return Shortfall(index, count_available(room, item, placed[index]))
    for index in order:
        fill(room, items[index], placed[index], items[index].maximum)
    return placed
