"""``placement-core capacity …``: numbers for programs, bars for people."""

from __future__ import annotations

import json
from typing import Any

from placement_core.changes.journal import Journal
from placement_core.cli import room
from placement_core.context import Context
from placement_core.db.database import Database, Settings
from placement_core.placement import allocations
from placement_core.placement.records import AllocationWrite
from placement_core.placement.room.sums import Room
from placement_core.testing import factories
from tests import base
from tests.functional.cli import test_commands

_ZEROS = {"reserved": 0, "held": 0, "promised": 0}


class TestRoom(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()
        database = Database(Settings(self.connection, sqlite_synchronous=False), Journal())
        self.addCleanup(database.dispose)
        ctx = Context(database)
        self.aggregate = factories.new_uuid()
        self.hosts = [
            factories.provider(
                ctx, f"c{number}", uuid=f"00000000-0000-4000-8000-{number:012x}",
                inventory={"VCPU": 8 * number}, traits=["HW_CPU_X86_VMX"],
                aggregates=[self.aggregate] if number == 1 else []).uuid
            for number in (1, 2, 3)]
        allocations.replace(ctx, [AllocationWrite(
            factories.new_uuid(), {self.hosts[0]: {"VCPU": 4}}, "web", "jane", "INSTANCE", None)])

    def read(self, *arguments: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(
            self.run_command("capacity", *arguments, "-f", "json"))
        return rows

    def test_room(self) -> None:
        self.assertEqual([{
            "resource_class": "VCPU", "total": 48, "capacity": 48, "used": 4, "free": 44,
            "largest": 24, **_ZEROS}], self.read("room"))
        table = self.run_command("capacity", "room")
        self.assertIn("##..................", table)
        self.assertNotIn("reserved", table)

    def test_groups(self) -> None:
        for by, columns in (
            ("root", {"uuid": self.hosts[0], "name": "c1"}),
            ("aggregate", {"aggregate": self.aggregate}),
        ):
            self.assertEqual({
                **columns, "resource_class": "VCPU", "total": 8, "capacity": 8, "used": 4,
                "free": 4, "largest": 4, **_ZEROS}, self.read("room", "--group-by", by)[0])
        [row] = self.read("room", "--group-by", "trait")
        self.assertEqual(("HW_CPU_X86_VMX", 48), (row["trait"], row["total"]))

    def test_hosts(self) -> None:
        for arguments, expected in (
            ([], [1, 2, 3]), (["--limit", "2"], [1, 2]), (["--marker", self.hosts[0]], [2, 3]),
            (["--member-of", self.aggregate], [1]),
            (["--member-of", f"!{self.aggregate}"], [2, 3]),
            (["--in-tree", self.hosts[1]], [2]), (["--required", "!HW_CPU_X86_VMX"], []),
            (["--resource-class", "MEMORY_MB"], []),
        ):
            self.assertEqual([8 * number for number in expected], [
                row["total"] for row in self.read("hosts", *arguments)], arguments)
        self.assertIn("##########..........", self.run_command("capacity", "hosts"))
        self.assertEqual(
            "There is no inventory with resource class MEMORY_MB, required HW_CPU_X86_VMX.\n",
            self.run_command("capacity", "hosts", "--resource-class", "MEMORY_MB",
                             "--required", "HW_CPU_X86_VMX"))

    def test_bad_arguments(self) -> None:
        for arguments in (
            ["hosts", "--limit", "0"], ["hosts", "--in-tree", factories.new_uuid()],
            ["room", "--resource-class", "CUSTOM_NO"], ["room", "--required", "CUSTOM_NO"],
            ["room", "--member-of", "x"],
        ):
            self.run_command("capacity", *arguments, code=1)


class TestBar(base.TestCase):
    def test_bars(self) -> None:
        for used, held, promised, free, bar in (
            (0, 0, 0, 0, "...................."), (0, 0, 0, 5, "...................."),
            (5, 0, 0, 0, "####################"), (5, 5, 0, 0, "++++++++++++++++++++"),
            (0, 0, 5, 5, "===================="), (10, 5, 5, 10, "#####+++++=====....."),
            (1, 0, 0, 10**30, "#..................."),
            (10**30, 0, 0, 1, "###################."),
            (10**30, 1, 0, 0, "####################"),
        ):
            drawn = room.draw_room_bar(Room(0, 0, 0, used, held, promised, free, 0))
            self.assertEqual(bar, drawn, (used, held, promised, free))
