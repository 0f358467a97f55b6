"""Placing all demands of a lease on hosts at once."""

from __future__ import annotations

import numpy as np

from placement_core.plugin_api.reservations import Hosts, Size, Slots, WholeHosts
from placement_core.reservations.scheduling import packing, packing_search
from placement_core.reservations.scheduling.packing_room import Item, Shortfall
from placement_core.reservations.scheduling.packing_search import PackingBudget
from placement_core.reservations.scheduling.pools import FreeCapacity
from tests import base


def _hosts(*vcpus):
    """Return hosts 1, 2, … of so many VCPU, with plenty of the rest."""
    return Hosts.of([(id_, size, 1000, 1000, True, False) for id_, size in enumerate(vcpus, 1)])


def _all_free(hosts):
    every = np.ones(len(hosts), dtype=bool)
    return FreeCapacity(hosts.sizes, every, every)


def _on(hosts, rows):
    return np.ones(len(hosts), dtype=bool) if rows is None else np.isin(
        np.arange(len(hosts)), rows)


class TestPack(base.TestCase):
    def setUp(self):
        super().setUp()
        self.hosts = _hosts(4, 4, 8)

    def slots(self, amount, vcpus, affinity=None, rows=None, **held):
        return Item(
            Slots(Size(vcpus, 1, 1), amount, affinity, _on(self.hosts, rows)), **held)

    def whole(self, minimum, maximum=None, rows=None, **held):
        return Item(WholeHosts(minimum, maximum or minimum, _on(self.hosts, rows)), **held)

    def pack(self, *items, budget=None):
        return packing.pack(
            self.hosts, _all_free(self.hosts), items, budget or PackingBudget())

    def test_one_item(self):
        for item, expected in (
            (self.slots(3, 2), {0: 2, 1: 1}),
            (self.slots(3, 2, affinity=True), {2: 3}),
            (self.slots(3, 2, affinity=False), {0: 1, 1: 1, 2: 1}),
            (self.slots(2, 2, rows=[1]), {1: 2}),
            (self.whole(2), {0: 1, 1: 1}),
            (self.whole(1, 9), {0: 1, 1: 1, 2: 1}),
        ):
            self.assertEqual([expected], self.pack(item), item.demand)

    def test_what_is_held_stays(self):
        self.assertEqual([{1: 1, 2: 1}], self.pack(self.whole(2, held={1: 1, 2: 1})))
        self.assertEqual([{1: 1, 0: 1}], self.pack(
            self.slots(2, 2, held={1: 1}, affinity=False)))

    def test_what_does_not_fit(self):
        for item, available in (
            (self.slots(9, 2), 8), (self.slots(5, 2, affinity=True), 4),
            (self.slots(4, 2, affinity=False), 3), (self.whole(4), 3),
            (self.slots(1, 9), 0),
        ):
            self.assertEqual(Shortfall(0, available), self.pack(item), item.demand)

    def test_what_is_held_in_force_and_has_no_room(self):
        item = self.slots(2, 8, held={0: 1, 2: 1}, fixed=True)
        self.assertEqual(Shortfall(0, 1, lost=1), self.pack(item))

    def test_items_that_are_in_each_others_way(self):
        """The second item can only have the host that the first would take by itself."""
        self.assertEqual([{1: 1}, {0: 1}], self.pack(self.whole(1), self.whole(1, rows=[0])))

    def test_the_search_finds_what_no_order_does(self):
        """Whichever comes first fills host 1, and the other has no room then."""
        self.hosts = _hosts(7, 5)
        items = self.slots(2, 3), self.slots(3, 2)
        self.assertEqual([{0: 1, 1: 1}, {0: 2, 1: 1}], self.pack(*items))
        short = self.pack(*items, budget=PackingBudget(-1))
        self.assertEqual((0, False), (short.item, short.proven))

    def test_that_nothing_fits_is_proven(self):
        self.hosts = _hosts(7, 5)
        self.assertTrue(self.pack(self.slots(2, 3), self.slots(4, 2)).proven)


class TestShares(base.TestCase):
    def test_slots_and_whole_hosts(self):
        hosts = _hosts(4, 8)
        every = np.ones(2, dtype=bool)
        [slots] = packing.to_shares(Slots(Size(2, 1, 1), 3, None, every), {1: 3}, hosts)
        self.assertEqual((2, 3, Size(2, 1, 1), False),
                         (slots.host_id, slots.slots, slots.size, slots.whole))
        [whole] = packing.to_shares(WholeHosts(1, 1, every), {0: 1}, hosts)
        self.assertEqual((1, 1, Size(4, 1000, 1000), True),
                         (whole.host_id, whole.slots, whole.size, whole.whole))


class TestUndominated(base.TestCase):
    def rows(self, rows, most=10):
        undominated, complete = packing_search._undominated(np.array(rows), most, PackingBudget())
        return sorted(rows[index] for index in undominated), complete

    def test_rows(self):
        for rows, expected in (
            ([(1, 1)], [(1, 1)]),
            ([(1, 2), (2, 1), (2, 2)], [(1, 2), (2, 1)]),
            ([(0, 0), (0, 5), (5, 0)], [(0, 0)]),
        ):
            self.assertEqual((expected, True), self.rows(rows), rows)

    def test_at_most(self):
        self.assertEqual(([(1, 1)], True), self.rows([(1, 1), (3, 3)], most=1))
        self.assertFalse(self.rows([(0, 3), (1, 1), (3, 0)], most=1)[1])
