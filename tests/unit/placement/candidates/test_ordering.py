"""Trees are sorted by ranks that are kept, and only those that changed are ranked again."""

from __future__ import annotations

import random

import fixtures
import numpy as np

from placement_core.placement.candidates.ordering import CandidateOrdering, RankedTrees
from placement_core.plugin_api.candidate_order import CandidateOrder
from placement_plugins.candidate_order.fullness import Pack, Spread
from placement_plugins.candidate_order.rotate import Rotate
from tests import base, snapshots

_REQUESTS = ({"VCPU": 1}, {"VCPU": 2, "MEMORY_MB": 512}, {"DISK_GB": 10})


class Counting(CandidateOrder):
    """Ranks as ``pack`` does, and notes how many trees it was asked to rank."""

    api_version = 1

    def __init__(self) -> None:
        self.pack = Pack(None)
        self.asked: list[int] = []

    def rank(self, trees):
        self.asked.append(len(trees))
        return self.pack.rank(trees)


class OrderingTestCase(base.TestCase):
    """Hosts with random usage; some are trees of three providers."""

    def setUp(self) -> None:
        super().setUp()
        self.drawn = random.Random(5)
        self.parents = {
            number: (number - number % 3 or None) if number % 3 and number % 4 else None
            for number in range(1, 60)}
        self.rows = {number: self.make(number) for number in self.parents}
        self.snapshot = snapshots.build(*self.rows.values())

    def make(self, number: int):
        return snapshots.provider(
            number,
            *[snapshots.inventory(name, 1000, used=self.drawn.randrange(0, 1000, 50))
              for name in ("VCPU", "MEMORY_MB", "DISK_GB") if number % 5 or name == "VCPU"],
            parent=self.parents[number])

    def change(self, *numbers: int) -> None:
        """Let some providers have other usage."""
        for number in numbers:
            self.rows[number] = self.make(number)
        self.snapshot = self.snapshot.apply_changes(
            {number: self.rows[number] for number in numbers}, self.snapshot.names, None)

    def anchors(self):
        layout = self.snapshot.layout
        return np.flatnonzero(layout.root == np.arange(layout.size))

    def sort(self, ordering: CandidateOrdering, requested) -> list[int]:
        return ordering.sort(self.snapshot, self.anchors(), requested).tolist()


class TestSorting(OrderingTestCase):

    def test_after_any_changes(self) -> None:
        """What is kept gives the same order as ranking everything anew."""
        ordering = CandidateOrdering(Pack(None))
        for count in (0, 1, 2, 5, 0, 59, 1, 1, 3):
            self.change(*self.drawn.sample(sorted(self.rows), count))
            for requested in _REQUESTS:
                self.assertEqual(self.sort(CandidateOrdering(Pack(None)), requested),
                                 self.sort(ordering, requested), (count, requested))

    def test_after_providers_came_and_went(self) -> None:
        ordering = CandidateOrdering(Pack(None))
        self.sort(ordering, _REQUESTS[0])
        self.parents[100] = None
        changes = {100: self.make(100), 7: None}
        self.snapshot = self.snapshot.apply_changes(changes, self.snapshot.names, None)
        self.assertEqual(self.sort(CandidateOrdering(Pack(None)), _REQUESTS[0]),
                         self.sort(ordering, _REQUESTS[0]))

    def test_only_what_changed_is_ranked(self) -> None:
        order = Counting()
        ordering = CandidateOrdering(order)
        for _ in range(3):
            self.sort(ordering, _REQUESTS[0])
        self.assertEqual([len(self.anchors())], order.asked)
        self.change(8)
        self.sort(ordering, _REQUESTS[0])
        self.assertEqual([len(self.anchors()), 1], order.asked)

    def test_equal_ones_stay_in_order(self) -> None:
        """Also in an order that is not ascending."""
        same = [snapshots.provider(number, snapshots.inventory("VCPU", 8))
                for number in range(1, 9)]
        snapshot = snapshots.build(*same)
        ordering = CandidateOrdering(Pack(None))
        for anchors in (np.arange(8), np.array([3, 1, 7]), np.array([2, 5])):
            self.assertEqual(anchors.tolist(), ordering.sort(
                snapshot, anchors, {"VCPU": 1}).tolist())

    def test_all_equal(self) -> None:
        self.assertIsNone(CandidateOrdering(Rotate(None)).sort(
            self.snapshot, self.anchors(), {"VCPU": 1}))

    def test_what_is_kept_is_bounded(self) -> None:
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.placement.candidates.ordering._CACHE_BYTES", 10_000))
        ordering = CandidateOrdering(Pack(None))
        for amount in range(1, 200):
            self.sort(ordering, {"VCPU": amount})
        self.assertLess(len(ordering._rankings), 10)



class TestSums(OrderingTestCase):
    """Each provider of a tree counts once, however many trees are added up."""

    def test_random_trees(self) -> None:
        """Also where some providers of a tree have nothing of a class."""
        for most_moved in (len(self.anchors()), 0):
            self.useFixture(fixtures.MonkeyPatch(
                "placement_core.placement.candidates.ordering._MOST_MOVED", most_moved))
            for resource_class in ("VCPU", "DISK_GB", "CUSTOM_GPU"):
                trees = RankedTrees(self.snapshot, self.anchors(), {})
                self.assertEqual(self.add_up(resource_class), trees.free(resource_class).tolist())

    def test_what_children_have(self) -> None:
        """The root has nothing of the class, and stands before them."""
        self.snapshot = snapshots.build(
            snapshots.provider(1, snapshots.inventory("MEMORY_MB", 1000)),
            snapshots.provider(2, snapshots.inventory("VCPU", 10), parent=1),
            snapshots.provider(3, snapshots.inventory("VCPU", 10, used=3), parent=1))
        for resource_class, free in (("VCPU", 17), ("MEMORY_MB", 1000), ("DISK_GB", 0)):
            trees = RankedTrees(self.snapshot, self.anchors(), {})
            self.assertEqual([free], trees.free(resource_class).tolist())

    def test_spread_over_nested_hosts(self) -> None:
        """Claims go to one host after the other, though only changed trees are added up."""
        hosts = 300
        self.rows = {}
        for number in range(1, 2 * hosts, 2):
            self.rows[number] = snapshots.provider(number, snapshots.inventory("MEMORY_MB", 1000))
            self.rows[number + 1] = self.make_node(number + 1, used=0)
        self.snapshot = snapshots.build(*self.rows.values())
        ordering = CandidateOrdering(Spread(None))
        names = [self.claim_first(ordering) for _ in range(5)]
        self.assertEqual([f"provider-{number}" for number in (1, 3, 5, 7, 9)], names)

    def claim_first(self, ordering: CandidateOrdering) -> str:
        """Take 1 VCPU of the tree that comes first; return the name of its root."""
        root = self.snapshot.entry(self.sort(ordering, {"VCPU": 1})[0]).provider
        node = root.id + 1
        used = self.rows[node].inventories[0].used
        self.rows[node] = self.make_node(node, used=used + 1)
        self.snapshot = self.snapshot.apply_changes(
            {node: self.rows[node]}, self.snapshot.names, None)
        return root.name

    def make_node(self, number: int, *, used: int):
        """Make the child of the provider before it."""
        return snapshots.provider(
            number, snapshots.inventory("VCPU", 10, used=used), parent=number - 1)

    def add_up(self, resource_class: str) -> list[int]:
        """Return what is free in each tree, from the rows of its providers."""
        layout, class_id = self.snapshot.layout, snapshots.NAMES.class_ids[resource_class]
        sums = dict.fromkeys(self.anchors().tolist(), 0)
        for id_, provider in self.rows.items():
            root = int(layout.root[layout.row_of_id[id_]])
            sums[root] += sum(max(inventory.capacity - inventory.used, 0)
                              for inventory in provider.inventories
                              if inventory.class_id == class_id)
        return list(sums.values())
