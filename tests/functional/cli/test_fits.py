"""``placement-core capacity fits`` and ``stranded``: what they print."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import fixtures

from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db.database import Database, Settings
from placement_core.testing import factories
from tests.functional.cli import commands, test_commands


class RoomTestCase(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()
        database = Database(Settings(self.connection, sqlite_synchronous=False), Journal())
        self.addCleanup(database.dispose)
        self.ctx = Context(database)
        self.hosts = [factories.provider(
            self.ctx, name, inventory={"VCPU": vcpus, "MEMORY_MB": memory_mb}, traits=traits).uuid
            for name, vcpus, memory_mb, traits in (
                ("small", 4, 65536, []), ("large", 16, 65536, ["HW_CPU_X86_AVX2"]))]

    def read(self, *arguments: str, **options: str) -> Any:
        return json.loads(self.run_command("capacity", *arguments, "-f", "json", **options))


class TestFits(RoomTestCase):
    def test_what_it_prints(self) -> None:
        found = self.read("fits", "--resources", "VCPU=2,MEMORY_MB=4096")
        self.assertEqual({
            "fits": 10, "exact": True, "host_count": 2,
            "hosts": [{"uuid": self.hosts[1], "name": "large", "fits": 8},
                      {"uuid": self.hosts[0], "name": "small", "fits": 2}],
            "stopped_by": {
                "reason": "2 hosts have no room for VCPU:2",
                "obstacles": [{"filter": "resources", "value": "VCPU:2", "hosts": 2}]}}, found)
        printed = self.run_command("capacity", "fits", "--resources", "VCPU=2")
        self.assertIn("| large  8  #################### ", printed)
        self.assertIn("| small  2  #####............... ", printed)

    def test_the_query(self) -> None:
        """A query and options together."""
        for arguments, fits in (
            (["resources=VCPU:2"], 10),
            (["resources=VCPU:2", "--required", "HW_CPU_X86_AVX2"], 8),
            (["--resources", "VCPU=2", "--required", "!HW_CPU_X86_AVX2"], 2),
            (["--resources", "VCPU=2", "--in-tree", self.hosts[0]], 2),
            (["--resources", "VCPU=2", "--member-of", factories.new_uuid()], 0),
            (["resources1=VCPU:2&resources2=VCPU:1&group_policy=none"], 6),
        ):
            self.assertEqual(fits, self.read("fits", *arguments)["fits"], arguments)

    def test_limit(self) -> None:
        found = self.read("fits", "--resources", "VCPU=1", "--limit", "1")
        self.assertEqual((20, 2, 1), (found["fits"], found["host_count"], len(found["hosts"])))

    def test_bad_arguments(self) -> None:
        for arguments in ([], ["--resources", "VCPU"], ["--resources", "NOPE=1"],
                          ["bogus=1"],
                          ["--resources", "VCPU=1", "--in-tree", "x"],
                          ["resources=VCPU:2&required=HW_CPU_X86_AVX2", "--required",
                           "!HW_CPU_X86_AVX2"]):
            self.run_command("capacity", "fits", *arguments, code=1)
        for command in (["fits", "--resources", "VCPU=1"], ["stranded"]):
            self.run_command("capacity", *command, "--limit", "0", code=2)


class TestStranded(RoomTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path

    def stranded(self, *arguments: str) -> str:
        pathlib.Path(self.folder, "placement.conf").write_text(
            "[least_stranded]\nshape = VCPU:8,MEMORY_MB:32768\nshape = VCPU:16,weight:2\n",
            encoding="utf-8")
        done = commands.run("capacity", "stranded", *arguments, connection=self.connection,
                            OS_PLACEMENT_CONFIG_DIR=self.folder)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def test_what_it_prints(self) -> None:
        found = json.loads(self.stranded("-f", "json"))
        self.assertEqual({"VCPU": {"free": 20, "stranded": 4, "by_cause": {"VCPU": 4}},
                          "MEMORY_MB": {"free": 131072, "stranded": 65536,
                                        "by_cause": {"VCPU": 65536}}}, found["resource_classes"])
        self.assertEqual([{"uuid": self.hosts[0], "name": "small", "stranded": {
            "MEMORY_MB": {"amount": 65536, "cause": "VCPU"},
            "VCPU": {"amount": 4, "cause": "VCPU"}}}], found["hosts"])
        self.assertEqual([2, 1], [shape["fits"] for shape in found["shapes"]])
        printed = self.stranded()
        for text in ("VCPU  ####................  4 of 20 free", "65536 because of VCPU",
                     "small: 65536 MEMORY_MB (VCPU), 4 VCPU (VCPU)",
                     "2 more of VCPU:8,MEMORY_MB:32768"):
            self.assertIn(text, printed)

    def test_without_shapes(self) -> None:
        self.run_command("capacity", "stranded", code=1)
