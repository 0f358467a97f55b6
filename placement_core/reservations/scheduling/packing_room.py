"""What a lease needs of hosts, and what is left of the hosts while that is placed."""

from __future__ import annotations

import dataclasses

import numpy as np

from placement_core.plugin_api.reservations import Hosts, HostTopology, Slots, WholeHosts
from placement_core.reservations.scheduling import host_choice
from placement_core.reservations.scheduling.pools import FreeCapacity

#: What an item holds: {row of a host: slots}.
SlotsByRow = dict[int, int]


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

    def reduce(self, amount: int) -> Item:
        """Return the same item that needs no more than so many slots or hosts."""
        demand = self.demand
        return dataclasses.replace(self, demand=(
            dataclasses.replace(demand, amount=amount) if isinstance(demand, Slots)
            else dataclasses.replace(demand, minimum=amount, maximum=amount)))


@dataclasses.dataclass(slots=True)
class Shortfall:
    """Items that do not fit on the hosts.

    :ivar item: the index of the first item that does not fit.
    :ivar available: how many slots or hosts it could have had beside the others.
    :ivar lost: how much of what it holds, and may not give up, has no room any more.
    :ivar proven: no placement exists; False: the search did not look at all of them.
    :ivar alone: it does not fit even if it is the only item.
    """

    item: int
    available: int
    lost: int = 0
    proven: bool = True
    alone: bool = True


class PackingRoom:
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


def needs_one_host(item: Item) -> bool:
    """Say whether all slots of an item have to be on one host."""
    return isinstance(item.demand, Slots) and item.demand.affinity is True


def place_held(room: PackingRoom, item: Item, placed: SlotsByRow) -> int:
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
            if needs_one_host(item) and available < item.maximum:
                count = 0
        if count:
            room.place(item, placed, np.array([row]), np.array([count]))
        missing += slots - count
    return missing


def fill(room: PackingRoom, item: Item, placed: SlotsByRow, amount: int) -> None:
    """Place slots or hosts of an item until it has ``amount``."""
    left = amount - sum(placed.values())
    if left <= 0:
        return
    topology = item.demand.topology
    available = np.minimum(room.available(item, placed), left)
    if needs_one_host(item):
        available[available < left] = 0
    available = host_choice.limit_to_domain(topology, available, placed, left)
    useful = available > 0
    useful[list(placed)] = True
    rows = room.preference(item, useful)
    # What needs one host is neither packed nor spread.
    slots = host_choice.distribute(
        HostTopology() if needs_one_host(item) else topology, rows, available[rows], left,
        placed)
    room.place(item, placed, rows[slots > 0], slots[slots > 0])


def count_available(room: PackingRoom, item: Item, placed: SlotsByRow) -> int:
    """Return how many of the slots or hosts that an item needs it can have now."""
    available = np.minimum(room.available(item, placed), item.minimum)
    if item.demand.topology.within is not None and not needs_one_host(item):
        available = host_choice.limit_to_domain(
            item.demand.topology, available, placed, item.minimum)
    more = available.max(initial=0) if needs_one_host(item) else available.sum()
    return min(item.minimum, sum(placed.values()) + int(more))
