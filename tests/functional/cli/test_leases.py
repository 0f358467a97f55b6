"""``placement-core leases …``: what the commands print and how they exit."""

from __future__ import annotations

import datetime
import json
from typing import Any

from oslo_config import cfg

from placement_core import conf, services
from placement_core.reservations.records import Lease, NewLease, NewReservation
from placement_core.testing import factories
from tests.functional.cli import test_commands

_SLOT = {"vcpus": 1, "memory_mb": 1, "disk_gb": 1, "amount": 4}


#: Of this run: the same for all of a test, also when an hour begins in its middle.
_HOUR = datetime.datetime.now(datetime.UTC).replace(minute=0, second=0, microsecond=0)


def _at(days: float) -> datetime.datetime:
    return _HOUR + datetime.timedelta(hours=round(24 * days))


def _said(days: float) -> str:
    return f"{_at(days):%Y-%m-%d %H:%M}"


class TestLeasesCommands(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.run_command("db", "sync")
        options = cfg.ConfigOpts()
        conf.register(options)
        options.set_override("connection", self.connection, "placement_database")
        options([], project="placement", default_config_files=[], default_config_dirs=[])
        self.parts = services.build(options)
        self.addCleanup(self.parts.database.dispose)
        self.ctx = self.parts.context()
        factories.provider(self.ctx, "c1", inventory={
            "VCPU": 8, "MEMORY_MB": 1000, "DISK_GB": 1000})
        self.parts.pool_hosts.register(self.ctx, "c1", {})

    def lease(self, name: str, project: str = "demo", **fields: Any) -> Lease:
        return self.parts.leases.create(self.ctx, NewLease(
            name, project, "jane", _at(1), _at(2),
            [NewReservation("virtual:instance", {**_SLOT, **fields})]))

    def printed(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.run_command("leases", *arguments, "-f", "json", code=code))

    def test_list_show_delete(self) -> None:
        first, second = self.lease("first"), self.lease("second", "lab")
        self.assertEqual(["first", "second"], [row["name"] for row in self.printed("list")])
        [row] = self.printed("list", "--project", "lab", "--status", "PENDING", "--host", "1")
        self.assertEqual((second.id, "lab", "PENDING", _at(1).isoformat(), 4), (
            row["id"], row["project_id"], row["status"], row["start_at"],
            row["reservations"][0]["amount"]))
        self.assertEqual([], self.printed("list", "--status", "ACTIVE"))
        self.assertIn("virtual:instance pending: vcpus 1, ", self.run_command("leases", "list"))
        shown = self.printed("show", first.id)
        self.assertEqual(("first", "jane", 3), (
            shown["name"], shown["user_id"], len(shown["events"])))
        self.assertIn("start_lease UNDONE", self.run_command("leases", "show", first.id))
        self.run_command("leases", "delete", first.id)
        self.assertEqual(["second"], [row["name"] for row in self.printed("list")])
        self.run_command("leases", "show", first.id, code=1)

    def test_what_if(self) -> None:
        self.lease("a")
        asked = json.dumps({"resource_type": "virtual:instance", **_SLOT})
        window = ("--project", "demo", "--start", _said(1), "--end", _said(2))
        self.assertIs(True, self.printed("whatif", *window, "--reservation", asked)["fits"])
        found = self.printed("whatif", *window, "--reservation", asked, "--reservation", asked,
                             code=1)
        self.assertEqual((False, _at(2).isoformat()), (found["fits"], found["fits_at"]))
        self.assertIn("slots", found["missing"])
        self.run_command("leases", "whatif", *window, "--reservation", "x", code=2)
        self.assertEqual(1, len(self.printed("list")))

    def test_next_fit(self) -> None:
        self.lease("a")
        asked = json.dumps({"resource_type": "physical:host", "min": 1, "max": 1})
        found = self.printed("next-fit", "--project", "demo", "--reservation", asked,
                             "--minutes", "60", "--start", _said(1))
        self.assertEqual((_at(2).isoformat(), _at(2 + 1 / 24).isoformat(), True), (
            found["start_at"], found["end_at"], found["earliest"]))
        asked = json.dumps({"resource_type": "physical:host", "min": 2, "max": 2})
        self.printed("next-fit", "--project", "demo", "--reservation", asked,
                     "--minutes", "60", code=1)

    def test_timeline(self) -> None:
        self.lease("a")
        free = self.printed("timeline", "--start", _said(1), "--days", "3")
        self.assertEqual([(4, 0), (8, 1)], [(row["vcpus"], row["hosts"]) for row in free])
        bars = self.run_command("leases", "timeline", "--start", _said(1), "--days", "3")
        self.assertEqual([10, 20], [line.count("#") for line in bars.splitlines()
                                    if "#" in line])
