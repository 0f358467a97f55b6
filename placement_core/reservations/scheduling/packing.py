"""Packing: places all that a lease needs on hosts at once.

Each demand is an *item* here. A greedy pass places items one after the other, in the order
of preference: what is held stays, hosts that are in use already are filled first. For a
single item this finds a placement if there is one, and keeps the rules of topology best. Several
items can stand in each other's way (the first takes the only host that the second may have), so if
the greedy pass fails, all arrangements are searched (``packing_search``).
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
        return packing_search.search(hosts, free, items, packed, budget)
    return packed


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


def _is_divided(item: Item) -> bool:
    """Say whether an item is to be packed or spread, and may give up what it holds for that."""
    topology = item.demand.topology
    return not item.fixed and (topology.pack_by or topology.spread_by) is not None


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
