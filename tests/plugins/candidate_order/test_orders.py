"""The orders of allocation candidates that come with the service."""

from __future__ import annotations

import numpy as np
from oslo_config import cfg

from placement_core import errors
from placement_core.conf.least_stranded import GROUP, OPTIONS
from placement_core.plugin_api.candidate_order import CandidateOrder
from placement_core.testing.candidate_order import CandidateOrderContract, MemoryTrees
from placement_plugins.candidate_order.fullness import Pack, Spread
from placement_plugins.candidate_order.least_stranded import LeastStranded
from placement_plugins.candidate_order.rotate import Rotate
from tests import base


def _least_stranded(*shapes: str) -> LeastStranded:
    conf = cfg.ConfigOpts()
    conf.register_opts(OPTIONS, group=GROUP)
    conf.set_override("shape", list(shapes), GROUP.name)
    return LeastStranded(conf)


def _sort(order: CandidateOrder, trees: MemoryTrees) -> list[int]:
    return np.argsort(order.rank(trees), kind="stable").tolist()


class TestRotate(CandidateOrderContract, base.TestCase):
    def make_order(self) -> Rotate:
        return Rotate(cfg.ConfigOpts())

    def test_none_is_before_another(self) -> None:
        self.assertIsNone(self.make_order().rank(MemoryTrees({"VCPU": [1, 2]}, {"VCPU": 1})))


class TestPack(CandidateOrderContract, base.TestCase):
    def make_order(self) -> Pack:
        return Pack(cfg.ConfigOpts())

    def test_the_fullest_comes_first(self) -> None:
        """By what is scarcest for this request."""
        trees = MemoryTrees({"VCPU": [8, 2, 4], "MEMORY_MB": [1024, 9216, 4096]},
                            {"VCPU": 1, "MEMORY_MB": 1024})
        self.assertEqual([0, 1, 2], _sort(self.make_order(), trees))

    def test_what_is_shared_does_not_count(self) -> None:
        """A tree without disk of its own has room for as many as its other amounts allow."""
        trees = MemoryTrees({"VCPU": [8, 2], "DISK_GB": [0, 500]}, {"VCPU": 1, "DISK_GB": 10})
        self.assertEqual([1, 0], _sort(self.make_order(), trees))


class TestSpread(CandidateOrderContract, base.TestCase):
    def make_order(self) -> Spread:
        return Spread(cfg.ConfigOpts())

    def test_the_emptiest_comes_first(self) -> None:
        trees = MemoryTrees({"VCPU": [8, 2, 4], "MEMORY_MB": [1024, 9216, 4096]},
                            {"VCPU": 1, "MEMORY_MB": 1024})
        self.assertEqual([2, 1, 0], _sort(self.make_order(), trees))


class TestLeastStranded(CandidateOrderContract, base.TestCase):
    def make_order(self) -> LeastStranded:
        return _least_stranded("VCPU:4,MEMORY_MB:8192", "VCPU:8,PGPU:1,weight:0.5")

    def test_devices_are_spared(self) -> None:
        """A request without devices goes where there are none, as long as it can."""
        trees = MemoryTrees({"VCPU": [8, 8, 16], "MEMORY_MB": [65536] * 3, "PGPU": [1, 0, 2]},
                            {"VCPU": 8, "MEMORY_MB": 16384})
        self.assertEqual(1, _sort(self.make_order(), trees)[0])

    def test_remains_stay_usable(self) -> None:
        """The host that is left with room for a whole shape comes first."""
        order = _least_stranded("VCPU:4,MEMORY_MB:4096")
        trees = MemoryTrees({"VCPU": [5, 6], "MEMORY_MB": [8192, 8192]},
                            {"VCPU": 2, "MEMORY_MB": 2048})
        self.assertEqual(1, _sort(order, trees)[0])

    def test_weights(self) -> None:
        """A shape that comes often counts for more."""
        trees = MemoryTrees({"VCPU": [5, 9]}, {"VCPU": 2})
        self.assertEqual(1, _sort(_least_stranded("VCPU:4,weight:9", "VCPU:8"), trees)[0])
        self.assertEqual(0, _sort(_least_stranded("VCPU:4", "VCPU:8,weight:9"), trees)[0])

    def test_bad_shapes(self) -> None:
        for shape in ("VCPU", "VCPU:0", "VCPU:-1", "VCPU:x", "", "weight:1", "VCPU:1,weight:0",
                      "VCPU:1,weight:nan", ":4"):
            error = self.assertRaises(errors.ConfigurationError, _least_stranded, shape)
            self.assertIn(f"[least_stranded] shape = {shape}: expected amounts", str(error))
        error = self.assertRaises(errors.ConfigurationError, _least_stranded)
        self.assertIn("[least_stranded] shape: expected the amounts", str(error))
