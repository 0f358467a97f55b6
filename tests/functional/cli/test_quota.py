"""``placement-core quota …``: what the commands print and how they exit."""

from __future__ import annotations

import json
import pathlib

import fixtures

from placement_core import services
from placement_core.placement import allocations
from placement_core.placement.records import AllocationWrite, InventoryValues
from placement_core.testing import factories
from tests.functional.cli import commands, test_catalog, test_commands, test_limits
from tests.http import base

PLACEMENT = {"OS_QUOTA__COUNT_USAGE_FROM_PLACEMENT": "true", "OS_QUOTA__REGION": "RegionOne",
             "OS_LIMITS__ENFORCEMENT_MODEL": "tree"}


class TestQuotaCommands(test_commands.CommandTestCase):
    """The projects team and web below it; web may have 12 processors."""

    def setUp(self) -> None:
        super().setUp()
        self.sync()
        for command, text in (("catalog load", test_catalog.FILE),
                              ("limits register", test_limits.FILE)):
            file = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "file.yaml")
            file.write_text(text, encoding="utf-8")
            self.run_command(*command.split(), str(file))
        self.run_command("limits", "set", "web", "class:VCPU", "12", "--service", "compute",
                         "--region", "RegionOne")
        parts = services.build(base.configuration(self.connection))
        self.addCleanup(parts.database.dispose)
        self.ctx = parts.context()
        self.host = factories.provider(
            self.ctx, inventory={"VCPU": InventoryValues(total=100)})
        self.ids = {each.name: each.id for each in parts.catalog.projects(self.ctx)}

    def use(self, project: str, vcpus: int) -> str:
        consumer = factories.new_uuid()
        allocations.replace(self.ctx, [AllocationWrite(
            consumer, {self.host.uuid: {"VCPU": vcpus}}, self.ids[project], "jane", None)])
        return consumer

    def quota(self, *arguments: str, code: int = 0, **more: str) -> list[dict]:
        """Run a command that prints a table; return its rows."""
        return json.loads(self.run_command(
            "quota", *arguments, "-f", "json", code=code, **{**PLACEMENT, **more}))

    def refused(self, *arguments: str, **more: str) -> str:
        """Run a command that must fail with one line; return the line."""
        self.run_command("quota", *arguments, code=1, **{**PLACEMENT, **more})
        self.assertEqual(1, self.stderr.count("\n"), self.stderr)
        return self.stderr.strip()

    def test_show(self) -> None:
        self.use("web", 9)
        for project in ("web", self.ids["web"]):
            found = {row["resource_name"]: row for row in self.quota("show", project)}
            self.assertEqual({
                "resource_name": "class:VCPU", "limit": 12, "source": "set", "used": 9,
                "free": 3, "held_by": self.ids["web"], "held_by_name": "web"},
                found["class:VCPU"])
            self.assertEqual((-1, 0, -1), tuple(
                found["class:MEMORY_MB"][name] for name in ("limit", "used", "free")))
        (row,) = [each for each in self.quota("show", "web", "--user", "joe")
                  if each["resource_name"] == "class:VCPU"]
        self.assertEqual((0, 3), (row["used"], row["free"]))
        self.assertIn(" unlimited ", self.run_command("quota", "show", "web", **PLACEMENT))
        self.assertIn("There is no project", self.refused("show", "nobody"))

    def test_list(self) -> None:
        self.use("web", 9)
        found = {(row["name"], row["resource_name"]): row for row in self.quota("list")}
        self.assertEqual(2 * 3, len(found))
        self.assertEqual({
            "project_id": self.ids["web"], "name": "web", "resource_name": "class:VCPU",
            "limit": 12, "source": "set", "used": 9, "free": 3, "held_by": self.ids["web"],
            "held_by_name": "web"},
            found["web", "class:VCPU"])

    def test_check(self) -> None:
        self.use("web", 9)
        self.assertEqual([], self.quota("check", "web", "class:VCPU=3", "servers=1"))
        self.assertEqual([{
            "resource_name": "class:VCPU", "node_id": self.ids["web"], "node_name": "web",
            "user_id": None,
            "scope": "subtree", "source": "set", "limit": 12, "used": 9, "asked": 4,
            "over_by": 1}], self.quota("check", "web", "class:VCPU=4", "servers=1", code=1))

    def test_explain(self) -> None:
        consumer = self.use("web", 9)
        (row,) = self.quota("explain", "web", "class:VCPU=4", code=1)
        self.assertEqual([{"uuid": consumer, "project_id": self.ids["web"], "amount": 9,
                           "project_name": "web"}], row["consumers"])
        self.assertIn("1 too many", row["sentence"])
        self.assertEqual(
            [("web", 12, 9, 3)],
            [tuple(limit[name] for name in ("node_name", "limit", "used", "free"))
             for limit in row["limits"]])
        (row,) = self.quota("explain", "web", "class:VCPU=1")
        self.assertIn("2 more class:VCPU would", row["sentence"])

    def test_an_explanation_for_people(self) -> None:
        """Sentences, and a tree of what binds; no table."""
        consumer = self.use("web", 9)
        self.run_command("limits", "set", "team", "class:VCPU", "20", "--service", "compute",
                         "--region", "RegionOne", **PLACEMENT)
        printed = self.run_command(
            "quota", "explain", "web", "class:VCPU=4", "servers=0", code=1, **PLACEMENT)
        sentence, of_processors, of_servers = printed.strip().split("\n\n")
        self.assertEqual(
            f"project web ({self.ids['web']}) in domain Default stops it: limit 12 class:VCPU, "
            f"9 used, 4 asked, 1 too many; deleting {consumer} of project web "
            f"({self.ids['web']}) in domain Default (9) would do.", sentence)
        self.assertEqual(
            "class:VCPU, 4 asked\n"
            "domain Default: no limit\n"
            "+- project team: limit 20 (set), 9 used, all below it included, 11 free\n"
            "   +- project web: limit 12 (set), 9 used, all below it included, 3 free"
            "  <-- stops it", of_processors)
        self.assertIn("servers, 0 asked\ndomain Default: ", of_servers)
        self.assertLess(max(map(len, printed.splitlines())), 300)

    def test_refusals(self) -> None:
        for amount in ("class:VCPU", "class:VCPU=", "class:VCPU=-1", "=1", "class:VCPU=1.5",
                       "class:VCPU=2147483648", "class:VCPU=9" + 99 * "9", "class:VCPU=\u0663"):
            for command in ("check", "explain"):
                self.assertIn("expected NAME=AMOUNT", self.refused(command, "web", amount))
        self.assertIn("each name once", self.refused("check", "web", "a=1", "a=2"))
        self.assertIn("No usage is counted for disk", self.refused("check", "web", "disk=1"))
        self.assertIn("No cell is mapped", self.refused(
            "check", "web", "servers=1", OS_QUOTA__COUNT_USAGE_FROM_PLACEMENT="false"))


class TestEmptyRegion(TestQuotaCommands):
    """The same where ``[quota] region`` is empty: RegionOne is the only region."""

    empty = {**PLACEMENT, "OS_QUOTA__REGION": ""}

    def quota(self, *arguments: str, code: int = 0, **more: str) -> list[dict]:
        return super().quota(*arguments, code=code, **{"OS_QUOTA__REGION": "", **more})

    def say(self, *arguments: str, code: int = 0, **more: str) -> str:
        """Run a command of people, return all that it prints."""
        done = commands.run("quota", *arguments, connection=self.connection,
                            **{**self.empty, **more})
        self.assertEqual(code, done.returncode, done.stderr)
        return done.stdout + done.stderr

    def upgrade_check(self, code: int, **more: str) -> str:
        printed = self.run_command("status", "upgrade", "check", code=code,
                                   **{**self.empty, **more})
        return " ".join(printed.replace("|", " ").split())

    def test_what_fits_is_said(self) -> None:
        self.assertIn("It fits.\nIt fits; 2 more class:VCPU would",
                      self.say("check", "web", "class:VCPU=10"))
        self.assertIn("class:VCPU", self.say("check", "web", "class:VCPU=13", code=1))
        self.assertIn(
            "No limit on cores is registered for service type compute in region RegionOne or "
            "without a region: nothing binds the project.", self.say("check", "web", "cores=99"))

    def test_nothing_is_registered(self) -> None:
        image = {"OS_QUOTA__SERVICE_TYPE": "image"}
        nothing = "No limits are registered for service type image, which the catalog does not"
        gap = ("[quota] service_type = image: the catalog has no such service, so no limit binds "
               "anybody; limits are registered for compute.")
        for command in (["show", "web"], ["list"], ["check", "web", "cores=1"]):
            said = self.say(*command, **image)
            self.assertIn(gap, said)
            self.assertIn("service type image, which the catalog does not have", said)
        self.assertIn(nothing, self.say("list", **image))
        self.assertIn(gap, self.upgrade_check(1, **image))

    def test_the_upgrade_check(self) -> None:
        self.upgrade_check(0)
        nowhere = {"OS_QUOTA__REGION": "Nowhere"}
        self.assertIn("[quota] region = Nowhere: the catalog has no such region",
                      self.upgrade_check(1, **nowhere))
        self.run_command("catalog", "region", "add", "RegionTwo")
        said = self.upgrade_check(1)
        self.assertIn("[quota] region is empty: nobody can tell which limits count on "
                      "class:MEMORY_MB, class:VCPU, servers. Set [quota] region.", said)
        self.run_command("quota", "check", "web", "class:VCPU=1", code=1, **self.empty)
        self.assertIn("Set [quota] region.", self.stderr)
        self.upgrade_check(0, OS_QUOTA__REGION="RegionOne")
        said = self.upgrade_check(1, OS_QUOTA__REGION="RegionTwo")
        self.assertIn(" that are registered in region RegionOne bind nobody: class:MEMORY_MB, "
                      "class:VCPU, servers. [quota] region = RegionTwo", said)
