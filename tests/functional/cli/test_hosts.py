"""``placement-core hosts …``: what the commands print and how they exit."""

from __future__ import annotations

import json

from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db.database import Database, Settings
from placement_core.testing import factories
from tests.functional.cli import test_commands


class TestHostsCommands(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()
        database = Database(Settings(self.connection, sqlite_synchronous=False), Journal())
        self.addCleanup(database.dispose)
        self.ctx = Context(database)
        for name in ("one", "two"):
            factories.provider(self.ctx, name, inventory={"VCPU": 8, "MEMORY_MB": 64})

    def hosts(self, *arguments: str) -> dict:
        """Run a command that prints a host, or several."""
        return json.loads(self.run_command("hosts", *arguments, "-f", "json"))

    def test_a_host_from_its_first_day_to_its_last(self) -> None:
        made = self.hosts("register", "one", "--property", "gpu=a100=2", "--property",
                          "availability_zone=az1")
        self.assertEqual(
            {"id": made["id"], "name": "one", "provider_uuid": made["provider_uuid"], "vcpus": 8,
             "memory_mb": 64, "disk_gb": 0, "hypervisor_type": None, "hypervisor_version": None,
             "service_name": None, "availability_zone": "az1", "reservable": True,
             "down_reason": None, "properties": {"gpu": "a100=2"}}, made)
        self.assertEqual(made, self.hosts("show", "one"))
        self.assertEqual(made, self.hosts("show", str(made["id"])))
        self.assertIn("gpu=a100=2", self.run_command("hosts", "list"))
        changed = self.hosts("set", "one", "--property", "rack=1", "--unset", "gpu",
                             "--out-of-service", "a fan")
        self.assertEqual((False, "a fan", {"rack": "1"}), (
            changed["reservable"], changed["down_reason"], changed["properties"]))
        self.assertTrue(self.hosts("set", "one", "--in-service")["reservable"])
        self.assertEqual("one has left the freepool\n", self.run_command(
            "hosts", "remove", "one"))
        self.assertEqual([], self.hosts("list"))

    def test_several(self) -> None:
        for name in ("one", "two"):
            self.hosts("register", name)
        self.assertEqual(["one", "two"], [row["name"] for row in self.hosts("list")])

    def test_refusals(self) -> None:
        self.hosts("register", "one")
        for arguments, said in (
            (("register", "one"), "one is in the freepool already"),
            (("register", "nobody"), "There is no compute node or resource provider 'nobody'."),
            (("show", "two"), "There is no such host."),
            (("remove", "99"), "There is no host 99."),
            (("set", "one"), "No data to update"),
        ):
            self.run_command("hosts", *arguments, code=1)
            self.assertIn(said, self.stderr)
            self.assertEqual(1, len(self.stderr.splitlines()))
        self.run_command("hosts", "register", "two", "--property", "gpu", code=2)
        self.run_command("hosts", "set", "one", "--in-service", "--out-of-service", "x", code=2)
