"""``placement-core consumers list``: what it prints, and that it reads page by page."""

from __future__ import annotations

import json

import fixtures

from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db.database import Database, Settings
from placement_core.placement import allocations
from placement_core.placement.records import AllocationWrite
from placement_core.testing import factories
from tests.functional.cli import test_commands


class TestConsumers(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()
        database = Database(Settings(self.connection, sqlite_synchronous=False), Journal())
        self.addCleanup(database.dispose)
        ctx = Context(database)
        self.host = factories.provider(ctx, "c1", inventory={"VCPU": 8}).uuid
        self.uuids = [f"00000000-0000-4000-8000-{number:012x}" for number in range(5)]
        allocations.replace(ctx, [
            AllocationWrite(uuid, {self.host: {"VCPU": 1}}, "web", "jane", "INSTANCE", None)
            for uuid in self.uuids])

    def list_(self, *arguments: str) -> list[dict]:
        return json.loads(self.run_command("consumers", "list", "-f", "json", *arguments))

    def test_what_it_prints(self) -> None:
        self.assertEqual({
            "uuid": self.uuids[0], "consumer_type": "INSTANCE", "project_id": "web",
            "project_name": None, "user_id": "jane",
            "allocations": {self.host: {"VCPU": 1}}}, self.list_()[0])
        self.assertIn("c1: 1 VCPU", self.run_command("consumers", "list"))

    def test_pages(self) -> None:
        self.useFixture(fixtures.MonkeyPatch("placement_core.cli.base._PAGE", 2))
        for arguments, expected in (
            ([], self.uuids), (["--limit", "1"], self.uuids[:1]),
            (["--limit", "2"], self.uuids[:2]), (["--limit", "3"], self.uuids[:3]),
            (["--limit", "9"], self.uuids), (["--marker", self.uuids[1]], self.uuids[2:]),
            (["--provider", self.host, "--type", "INSTANCE"], self.uuids),
            (["--type", "unknown"], []),
        ):
            self.assertEqual(expected, [row["uuid"] for row in self.list_(*arguments)], arguments)

    def test_bad_arguments(self) -> None:
        for arguments in (["--limit", "0"], ["--provider", factories.new_uuid()]):
            self.run_command("consumers", "list", *arguments, code=1)
