"""The compute drivers that need no server, and the one in memory that other tests use."""

from __future__ import annotations

from collections.abc import Collection

from oslo_config import cfg

from placement_core.testing.compute import HOST, ComputeContract
from placement_core.testing.fakes import MemoryCompute
from placement_plugins.compute.none import NoCompute
from tests import base
from tests.plugins.compute_cases import MemoryContract


class TestNone(ComputeContract, base.TestCase):
    """The driver ``none``."""

    def given(self, hosts: Collection[str]) -> NoCompute:
        return NoCompute(cfg.ConfigOpts())

    def test_it_says_so(self) -> None:
        self.assertFalse(self.driver.acts)


class TestMemory(MemoryContract, base.TestCase):
    """The fake does what the kit asks of a driver."""

    driver: MemoryCompute

    def given(self, hosts: Collection[str]) -> MemoryCompute:
        self.compute = MemoryCompute(hosts)
        return self.compute

    def test_an_answer_that_is_lost(self) -> None:
        """What ``before`` raises kept the call from happening, what ``after`` raises did not."""
        def lose(*call: object) -> None:
            raise ConnectionError(call)

        self.driver.before = lose
        self.assertRaises(ConnectionError, self.driver.add_to_freepool, HOST)
        self.assertEqual(set(), self.driver.freepool)
        self.driver.before, self.driver.after = (lambda *call: None), lose
        self.assertRaises(ConnectionError, self.driver.add_to_freepool, HOST)
        self.assertEqual({HOST}, self.driver.freepool)

    def test_servers_that_take_their_time(self) -> None:
        self.driver.put_flavor(
            "lease", vcpus=1, memory_mb=1, disk_gb=1, in_aggregate=False)
        self.boot("node1.example", project_id="p", lease="lease")
        self.driver.patience = 2
        self.assertEqual(
            [1, 1, 1, 0], [self.driver.delete_flavor_servers("lease") for _ in range(4)])
