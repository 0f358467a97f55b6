"""The contract of orders of candidates finds what is wrong with one."""

from __future__ import annotations

import unittest

import numpy as np
from oslo_config import cfg

from placement_core.plugin_api.candidate_order import CandidateOrder
from placement_core.testing.candidate_order import CandidateOrderContract
from tests import base
from tests.unit.testing import outcomes


class _Roomiest(CandidateOrder):
    api_version = 1

    def rank(self, trees):
        return -trees.free("VCPU")


class _Logarithmic(_Roomiest):
    def rank(self, trees):
        return -np.log1p(trees.free("VCPU") / 3)


class _Normalized(_Roomiest):
    """Ranks as nova's weighers do: a tree that is ranked alone is the best there can be."""

    def rank(self, trees):
        free = trees.free("VCPU")
        return -free / max(free.max(), 1)


class _FromTheMean(_Roomiest):
    def rank(self, trees):
        free = trees.free("VCPU")
        return free.mean() - free


class _Places(_Roomiest):
    def rank(self, trees):
        _, places = np.unique(-trees.free("VCPU"), return_inverse=True)
        return places


def _find_failures(order: type[CandidateOrder]) -> set[str]:
    """Return the contract's tests that an order does not pass."""

    class Suite(CandidateOrderContract, unittest.TestCase):
        def make_order(self):
            return order(cfg.ConfigOpts())

    return outcomes.find_failures(Suite)


class TestContract(base.TestCase):
    def test_good_ones(self):
        for order in (_Roomiest, _Logarithmic):
            self.assertEqual(set(), _find_failures(order), order.__name__)

    def test_ranks_that_depend_on_other_trees(self):
        """The service keeps ranks of one call beside those of a later one about fewer trees."""
        for order in (_Normalized, _FromTheMean, _Places):
            self.assertEqual(
                {"test_a_tree_is_ranked_by_itself"}, _find_failures(order), order.__name__)
