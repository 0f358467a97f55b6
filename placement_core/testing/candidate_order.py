"""The contract of orders of allocation candidates, as tests for their authors.

Write ``class TestX(CandidateOrderContract, unittest.TestCase)`` with ``make_order``.
"""

from __future__ import annotations

import concurrent.futures
import random
import unittest
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from placement_core.plugin_api import loader
from placement_core.plugin_api.candidate_order import Amounts, CandidateOrder, Ranks

#: How many random sets of trees each test tries.
_CASES = 100
_MOST_TREES = 20
#: The largest free amount that the capacity index holds.
_LARGEST = 2**31 - 1
#: How much two computations of one rank may differ: functions of whole columns round differently.
_TOLERANCE = 1e-9

if TYPE_CHECKING:
    _Mixin = unittest.TestCase
else:
    _Mixin = object


class MemoryTrees:
    """Provider trees with the free amounts that a test gives them.

    :param free: {resource class: the free amount of each tree}, at least one class.
    :param requested: amounts by resource class.
    """

    def __init__(
        self, free: Mapping[str, Sequence[int]], requested: Mapping[str, int]
    ) -> None:
        self._free = {name: np.array(amounts, dtype=np.int64) for name, amounts in free.items()}
        self._size = len(next(iter(self._free.values())))
        self.requested = requested

    @property
    def uuids(self) -> Sequence[str]:
        """Return the uuids of the roots."""
        return [f"00000000-0000-4000-8000-{number:012x}" for number in range(self._size)]

    def free(self, resource_class: str) -> Amounts:
        """Return the free amount of a resource class in each tree; it cannot be changed."""
        amounts = self._free.get(resource_class, np.zeros(self._size, dtype=np.int64)).view()
        amounts.flags.writeable = False
        return amounts

    def __len__(self) -> int:
        """Return the number of trees."""
        return self._size


class CandidateOrderContract(_Mixin):
    """Tests that every order of allocation candidates has to pass."""

    def make_order(self) -> CandidateOrder:
        """Return the order to test."""
        raise NotImplementedError

    def _rank(self, order: CandidateOrder, trees: MemoryTrees) -> list[float] | None:
        """Return the ranks; check that they are one finite number for each tree."""
        ranks = order.rank(trees)
        if ranks is None:
            return None
        self.assertEqual((len(trees),), np.shape(ranks))
        self.assertTrue(np.isfinite(np.asarray(ranks, dtype=np.float64)).all(), ranks)
        return [float(rank) for rank in ranks]

    def test_version(self) -> None:
        """The class of the order has its own ``api_version``, which is the present one."""
        self.assertIsNone(
            loader.find_mismatch("the order", type(self.make_order()), CandidateOrder))

    def test_every_tree_has_a_rank(self) -> None:
        """Each tree has a finite rank, unless all have the same; free amounts may be 0."""
        order = self.make_order()
        for trees in _draw_trees():
            self._rank(order, trees)

    def test_it_is_pure(self) -> None:
        """Repeated calls return the same ranks, in any thread."""
        order = self.make_order()
        drawn = list(_draw_trees())
        expected = [self._rank(order, trees) for trees in drawn]
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            for _ in range(2):
                self.assertEqual(
                    expected, list(threads.map(lambda trees: self._rank(order, trees), drawn)))

    def test_equal_trees_have_equal_ranks(self) -> None:
        """Trees with the same free amounts get the same rank."""
        order = self.make_order()
        for free in (0, 1, 17, _LARGEST):
            trees = MemoryTrees({"VCPU": [free] * 5, "MEMORY_MB": [2 * free] * 5}, {"VCPU": 1})
            self.assertEqual(1, len(set(self._rank(order, trees) or [0])))

    def test_a_tree_is_ranked_by_itself(self) -> None:
        """Leaving out some trees does not change the ranks of the others.

        The service ranks the trees that changed, and compares them with the ranks that it kept.
        """
        order = self.make_order()
        for trees in _draw_trees():
            ranks = self._rank(order, trees)
            subsets = [range(0, len(trees), 2), *([at] for at in range(len(trees)))]
            for places in subsets:
                ranks_of_fewer = self._rank(order, _leave_out_others(trees, places))
                if ranks is None or ranks_of_fewer is None:
                    self.assertEqual(ranks, ranks_of_fewer)
                    continue
                np.testing.assert_allclose(
                    ranks_of_fewer, [ranks[at] for at in places], rtol=_TOLERANCE, atol=_TOLERANCE,
                    err_msg="a tree has another rank beside other trees")

    def test_large_amounts(self) -> None:
        """Amounts as large as the index holds do not overflow."""
        order = self.make_order()
        trees = MemoryTrees({"DISK_GB": [_LARGEST, _LARGEST - 1, 1]}, {"DISK_GB": 1})
        ranks: Ranks | list[float] | None = self._rank(order, trees)
        again = self._rank(order, MemoryTrees({"DISK_GB": [1, _LARGEST]}, {"DISK_GB": _LARGEST}))
        self.assertEqual(ranks is None, again is None)


_CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB", "PGPU")


def _draw_trees() -> Iterator[MemoryTrees]:
    """Yield random trees and requests, the same ones in every run."""
    drawn = random.Random(7)  # noqa: S311 (trees to test with are no secret)
    for _ in range(_CASES):
        count = drawn.randint(1, _MOST_TREES)
        free = {name: [drawn.choice((0, 1, 3, 8, 100, 4096)) for _ in range(count)]
                for name in _CLASSES}
        requested = {name: drawn.choice((1, 2, 8)) for name in drawn.sample(_CLASSES, 2)}
        yield MemoryTrees(free, requested)


def _leave_out_others(trees: MemoryTrees, places: Sequence[int]) -> MemoryTrees:
    """Return the trees at some places."""
    return MemoryTrees(
        {name: [int(trees.free(name)[at]) for at in places] for name in _CLASSES},
        trees.requested)
