"""Each contract finds a driver that does not say for which version it was written."""

from __future__ import annotations

import unittest

from oslo_config import cfg

from placement_core.plugin_api.catalog import CatalogDriver
from placement_core.plugin_api.compute import ComputeDriver
from placement_core.plugin_api.counting import CountingDriver
from placement_core.plugin_api.limits import LimitDriver
from placement_core.testing.catalog import CatalogContract
from placement_core.testing.compute import ComputeContract
from placement_core.testing.counting import CountingContract
from placement_core.testing.limits import LimitsContract
from tests import base


def _make_silent(kind):
    """Return a driver of a class that has nothing of its own."""
    silent = type("Silent", (kind,), {})
    silent.__abstractmethods__ = frozenset()
    return silent(cfg.ConfigOpts())


class TestVersions(base.TestCase):
    """The other contracts have tests of their own, of this among others."""

    def assert_finds(self, suite: type[unittest.TestCase], test: str = "test_version") -> None:
        result = unittest.TestResult()
        suite(test).run(result)
        ((_, text),) = result.failures
        self.assertIn("the driver does not say for which version of", text)

    def test_catalog(self) -> None:
        class Suite(CatalogContract, unittest.TestCase):
            def make_catalog(self, world):
                return {}

            def make_context(self):
                return None

            def make_driver(self):
                return _make_silent(CatalogDriver)

        self.assert_finds(Suite, "test_is_a_catalog_driver")

    def test_compute(self) -> None:
        class Suite(ComputeContract, unittest.TestCase):
            def given(self, hosts):
                return _make_silent(ComputeDriver)

        self.assert_finds(Suite)

    def test_counting(self) -> None:
        class Suite(CountingContract, unittest.TestCase):
            def given(self, instances):
                return _make_silent(CountingDriver), None

        self.assert_finds(Suite)

    def test_limits(self) -> None:
        class Suite(LimitsContract, unittest.TestCase):
            def given(self, registered, limits, user_limits):
                return _make_silent(LimitDriver), None

        self.assert_finds(Suite)
