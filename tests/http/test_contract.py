"""Requests made from the OpenAPI document: the service keeps what it says.

``python -m tests.fuzz.contract`` looks for longer (``make soak``).
"""

from __future__ import annotations

import fixtures

from placement_core.http.operations import Version
from placement_core.http.placement_api import microversions as mv
from placement_core.http.versions import format_version
from tests import base
from tests.fuzz import contract, worlds

#: The same requests in every run.
_SEED = 18
#: Valid requests for each operation, and as many others.
_EXAMPLES = 4


class TestContract(base.TestCase):
    """Every operation of each API."""

    def test_placement(self) -> None:
        self._play("placement")

    def test_placement_first(self) -> None:
        """The first microversion: other bodies, other answers."""
        self._play("placement", mv.LOWEST)

    def test_placement_between(self) -> None:
        """Allocations of two forms met in this one."""
        self._play("placement", mv.CONSUMER_GENERATION)

    def test_limits(self) -> None:
        self._play("limits")

    def test_leases(self) -> None:
        self._play("reservation")

    def test_capacity(self) -> None:
        self._play("capacity")

    def _play(self, api: str, version: Version = mv.NEWEST) -> None:
        """Play every operation, and report all failures."""
        world = self.enterContext(worlds.make_world())
        failures: list[str] = []
        played, number = 0, format_version(version)
        for operation in contract.list_operations(world, number):
            if operation.tags == [api]:
                played += 1
                failures += contract.play(
                    world, operation, number, seed=_SEED, examples=_EXAMPLES)
        self.assertGreater(played, 10)
        self.assertEqual([], failures, "\n".join(failures))

    def test_finds(self) -> None:
        """An answer that breaks its schema is found, and can be repeated."""
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.http.placement_api.representations.render_usages_by_type",
            lambda _usages: {"usages": [], "more": True}))
        world = self.enterContext(worlds.make_world())
        (operation,) = [each for each in contract.list_operations(world, "1.39")
                        if contract.get_name(each) == "get_usages"]
        failures = contract.play(world, operation, "1.39", seed=_SEED, examples=_EXAMPLES)
        self.assertIn("violates schema", failures[0])
        self.assertIn("--operation get_usages", failures[0])
