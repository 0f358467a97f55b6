"""Prices of items that compete for hosts, against all ways to use the hosts."""

from __future__ import annotations

import itertools

import hypothesis
import numpy as np
from hypothesis import strategies as st

from placement_core.reservations.scheduling import packing_prices
from tests import base, examples

_PATTERNS = st.lists(st.tuples(*[st.integers(0, 3)] * 2), min_size=1, max_size=3)


class TestPrices(base.TestCase):
    def find(self, patterns, counts, goal):
        return packing_prices.find_prices(
            list(map(np.array, patterns)), np.array(counts), np.array(goal))

    @examples.draw(300)
    @hypothesis.given(st.lists(st.tuples(_PATTERNS, st.integers(1, 2)), min_size=1, max_size=3),
                      st.tuples(*[st.integers(0, 8)] * 2).filter(any))
    def test_what_fits_is_never_denied(self, groups, goal):
        hosts = [[*patterns, (0, 0)] for patterns, count in groups for _ in range(count)]
        if any(all(sum(column) >= least for column, least in zip(
                zip(*uses, strict=True), goal, strict=True))
               for uses in itertools.product(*hosts)):
            self.assertIsNotNone(self.find(
                [patterns for patterns, _ in groups], [count for _, count in groups], goal)[0])

    def test_what_only_fits_singly_is_denied(self):
        """Ten hosts give two of the one or two of the other: 12 and 12 are too many."""
        patterns = [[(2, 0), (0, 2)]]
        self.assertIsNone(self.find(patterns, [10], (12, 12))[0])
        self.assertIsNotNone(self.find(patterns, [10], (12, 8))[0])
        self.assertIsNotNone(self.find(patterns, [10], (20, 0))[0])

    def test_the_item_with_less_choice_is_dearer(self):
        """The first host can be used for either item, nine more for the second only."""
        prices, _ = self.find([[(1, 0), (0, 1)], [(0, 1)]], [1, 9], (1, 9))
        self.assertGreater(prices.of_items[0], prices.of_items[1])
        self.assertAlmostEqual(1, prices.of_items @ (1, 9))
