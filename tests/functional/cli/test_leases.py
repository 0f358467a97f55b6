"""``placement-core leases …``: what the commands print and how they exit."""

from __future__ import annotations

import datetime
import json
from typing import Any
from unittest import mock

from oslo_config import cfg

from placement_core import conf, errors, services
from placement_core.reservations.records import Lease, NewLease, NewReservation
from placement_core.testing import factories
from placement_plugins.catalog import local
from tests.functional.cli import commands, test_commands

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
        self.sync()
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

    def test_names_of_projects(self) -> None:
        """A project is listed and found by its name, and by its id while nobody knows names."""
        self.run_command("catalog", "domain", "add", "Default", "--id", "default")
        self.run_command("catalog", "project", "add", "shop", "--domain", "default",
                         "--id", "5ca1ab1e")
        self.lease("first", "5ca1ab1e")
        self.lease("second", "demo", amount=1)
        for text in ("shop", "5ca1ab1e"):
            [row] = self.printed("list", "--project", text)
            self.assertEqual(("5ca1ab1e", "shop"), (row["project_id"], row["project_name"]))
        self.assertEqual(["shop", None], [row["project_name"] for row in self.printed("list")])
        printed = self.run_command("leases", "list")
        self.assertIn(" shop ", printed)
        self.assertIn(" demo ", printed)
        self.assertNotIn("5ca1ab1e", printed)
        silent = mock.Mock(side_effect=errors.Unavailable("the catalog is away"))
        with mock.patch.multiple(
                local.LocalCatalog, project=silent, projects=silent, domains=silent):
            done = commands.run("leases", "list", "--project", "5ca1ab1e",
                                connection=self.connection)
        self.assertEqual((0, 1), (done.returncode, done.stdout.count("5ca1ab1e")))
        self.assertEqual("names are missing: the catalog is away\n", done.stderr)

    def test_a_lease_by_its_name(self) -> None:
        first = self.lease("first")
        self.assertEqual(first.id, self.printed("show", "first")["id"])
        second = self.lease("first", amount=1)
        for command in ("show", "delete"):
            self.run_command("leases", command, "first", code=1)
            self.assertEqual(
                f"first names several leases: {first.id}, {second.id}; name one by its id\n",
                self.stderr)
        self.assertEqual("first", self.printed("show", first.id)["name"])
        self.run_command("leases", "delete", second.id)
        self.assertEqual(f"deleted first ({first.id})\n",
                         self.run_command("leases", "delete", "first"))
        self.run_command("leases", "show", "first", code=1)
        self.assertEqual("there is no lease of id or name first\n", self.stderr)

    def test_create(self) -> None:
        """Reservations as Blazar's client writes them; dates in any of three spellings."""
        now = datetime.datetime.now(datetime.UTC)
        made = self.printed(
            "create", "first", "--project", "demo", "--user", "jane", "--start", "+1h",
            "--end", "+2d", "--reservation", "resource_type=virtual:instance,vcpus=1,"
            "memory_mb=1,disk_gb=1,amount=2,affinity=None,"
            'resource_properties=["and", [">=", "$vcpus", "1"], ["<", "$vcpus", "100"]]')
        self.assertEqual(("first", "demo", "jane", "PENDING"), tuple(
            made[name] for name in ("name", "project_id", "user_id", "status")))
        starts, ends = (datetime.datetime.fromisoformat(made[name])
                        for name in ("start_at", "end_at"))
        self.assertLess(abs(starts - now - datetime.timedelta(hours=1)),
                        datetime.timedelta(minutes=1))
        self.assertLess(abs(ends - now - datetime.timedelta(days=2)),
                        datetime.timedelta(minutes=1))
        [reservation] = made["reservations"]
        self.assertEqual((2, 1, None), tuple(
            reservation[name] for name in ("amount", "vcpus", "affinity")))
        self.assertEqual([("c1", 2, False)], [
            (host["host_name"], host["slots"], host["whole"]) for host in made["hosts"]])
        self.assertEqual(made, self.printed("show", "first"))
        whole = self.printed(
            "create", "second", "--project", "demo", "--start-date", "2037-06-01T09:00:00+02:00",
            "--end-date", "2037-6-2 9:00", "--before-end", "2037-06-02", "--physical-reservation",
            'min=1,max=2,hypervisor_properties=,resource_properties=[">=", "$vcpus", "8"]')
        self.assertEqual(("2037-06-01T07:00:00+00:00", "2037-06-02T09:00:00+00:00"),
                         (whole["start_at"], whole["end_at"]))
        self.assertEqual(("physical:host", 1, 2), tuple(
            whole["reservations"][0][name] for name in ("resource_type", "min", "max")))
        self.assertIn("2037-06-02T00:00:00+00:00", str(whole["events"]))
        self.assertEqual(2, len(self.printed("list", "--host", "c1")))

    def test_a_lease_that_does_not_fit(self) -> None:
        self.lease("a")
        self.run_command(
            "leases", "create", "b", "--project", "demo", "--start", _said(1), "--end", _said(2),
            "--physical-reservation", "min=1,max=1", code=1)
        self.assertIn(f"The same lease fits from {_said(2)} on.", self.stderr)
        self.assertEqual(["a"], [row["name"] for row in self.printed("list")])

    def test_bad_requests(self) -> None:
        """One line says what was expected; nothing is written."""
        slot = "resource_type=virtual:instance,vcpus=1,memory_mb=1,disk_gb=1,amount=1"
        for code, expected, arguments in (
            (2, "expected resource_type", ("--reservation", "vcpus=1")),
            (2, "expected KEY=VALUE", ("--reservation", "resource_type")),
            (2, "expected KEY=VALUE", ("--reservation", f"{slot},vcpus=2")),
            (2, "expected a JSON object", ("--reservation", "{")),
            (2, "expected physical:host", ("--physical-reservation", slot)),
            (1, "expected --reservation or --physical-reservation", ()),
            (1, "floating", ("--reservation", "resource_type=floating")),
            (1, "amount", ("--reservation", slot.replace("amount=1", "amount=x"))),
            (2, "expected a date such as", ("--reservation", slot, "--end", "tomorrow")),
            (2, "expected a date", ("--reservation", slot, "--end", "+")),
            (2, "expected a date", ("--reservation", slot, "--end", "+999999999w")),
            (2, "expected a date", ("--reservation", slot, "--end", "0001-01-01T00:00+23:00")),
            (2, "expected a date", ("--reservation", slot, "--end", "9999-01-01")),
            (1, "must be later", ("--reservation", slot, "--end", "now")),
        ):
            self.run_command("leases", "create", "x", "--project", "demo", "--end", "+2d",
                             *arguments, code=code)
            self.assertIn(expected, self.stderr)
            self.assertNotIn("Traceback", self.stderr)
        for name in (" ", "x" * 81):
            self.run_command("leases", "create", name, "--project", "demo", "--end", "+1d",
                             "--reservation", slot, code=2)
            self.assertIn("expected 1 to 80 characters", self.stderr)
        self.assertEqual([], self.printed("list"))

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
        printed = self.run_command("leases", "timeline", "--start", _said(1), "--days", "3")
        self.assertIn("| 4 of 8 |", printed)
        self.assertEqual([10, 20], _count_bars(printed))

    def test_a_timeline_of_which_nothing_is_ever_all_free(self) -> None:
        """The bar is scaled to what there is, not to what is free at best."""
        self.lease("a")
        printed = self.run_command("leases", "timeline", "--start", _said(1), "--days", "1")
        self.assertEqual([10], _count_bars(printed))
        self.lease("b", vcpus=1, amount=3)
        printed = self.run_command("leases", "timeline", "--start", _said(1), "--days", "1")
        self.assertEqual([3], _count_bars(printed))


def _count_bars(printed: str) -> list[int]:
    return [line.count("#") for line in printed.splitlines() if "#" in line]
