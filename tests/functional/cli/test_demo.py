"""``placement-core demo``: a cloud that is in order, and only where nothing else is."""

from __future__ import annotations

import json

from tests.functional.cli import test_commands


class TestDemo(test_commands.CommandTestCase):
    """Whoever looks around finds something everywhere."""

    def setUp(self) -> None:
        super().setUp()
        self.sync()

    def read(self, *arguments: str) -> object:
        return json.loads(self.run_command(
            *arguments, "-f", "json", OS_QUOTA__COUNT_USAGE_FROM_PLACEMENT="true"))

    def test_everything_has_something_to_show(self) -> None:
        """Nothing is over-booked, and hosts are neither all full nor all empty."""
        self.assertIn("30 hosts in 3 racks\n", self.run_command("demo"))
        self.assertEqual([], self.read("db", "audit"))
        self.assertEqual([], self.read("limits", "audit"))
        for listing in ("catalog project list", "limits list", "quota list", "hosts list",
                        "leases list", "events list", "leases timeline"):
            self.assertGreater(len(self.read(*listing.split())), 3, listing)
        roomy, full = (self.read("explain", "candidates", f"resources=MEMORY_MB:{megabytes}")
                       for megabytes in (1024, 100000))
        self.assertGreater(roomy["candidates"], full["candidates"])
        self.assertGreater(full["candidates"], 0)

    def test_not_empty(self) -> None:
        """Nothing is written beside what is there already."""
        self.run_command("catalog", "domain", "add", "Default")
        self.run_command("demo", code=1)
        self.assertIn("is not empty, it has domains: the demo needs", self.stderr)
        self.assertEqual(1, len(self.read("catalog", "domain", "list")))
        self.assertEqual([], self.read("catalog", "project", "list"))

    def test_twice(self) -> None:
        """The second time the database is not empty."""
        self.run_command("demo")
        self.run_command("demo", code=1)

    def test_limits_that_are_elsewhere(self) -> None:
        """A remote catalog cannot be filled."""
        self.run_command(
            "demo", code=1, OS_CATALOG__DRIVER="keystone", OS_LIMITS__DRIVER="keystone",
            OS_KEYSTONE_CLIENT__AUTH_TYPE="none",
            OS_KEYSTONE_CLIENT__ENDPOINT_OVERRIDE="http://127.0.0.1:1")
        self.assertIn("expected local for both", self.stderr)
