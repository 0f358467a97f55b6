"""``placement-core workers list`` and ``refusals list``: what they print."""

from __future__ import annotations

import json
import os

from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db.database import Database, Settings
from placement_core.workers import store
from placement_core.workers.records import Cause, RefusalReport, WorkerReport
from tests.functional.cli import test_commands

_OPERATION = "PUT /allocations/{consumer_uuid}"


class TestWorkers(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()
        database = Database(Settings(self.connection, sqlite_synchronous=False), Journal())
        self.addCleanup(database.dispose)
        self.uuid = "5bfb1c6a-8d0e-4f3c-9a57-1d2e3f405162"
        store.write(Context(database), WorkerReport(
            self.uuid, "api1", os.getpid(), "1.0", 10, None, None, in_flight=2, requests=9,
            refusals=3, refusals_last_minute=1, codes={"placement.no_room": 3}), {
                slot: RefusalReport(
                    Cause(_OPERATION, 409, "placement.no_room", project, "jane"), 0, 5, times,
                    f"req-{slot}", "no room")
                for slot, (project, times) in enumerate([("web", 2), ("lab", 1)])}, [])

    def list_(self, *arguments: str) -> list[dict]:
        return json.loads(self.run_command(*arguments, "-f", "json"))

    def test_workers(self) -> None:
        [worker] = self.list_("workers", "list")
        for name in ("started_at", "seen_at"):
            self.assertIn("T", worker.pop(name))
        self.assertEqual({
            "uuid": self.uuid, "host": "api1", "process_id": os.getpid(), "version": "1.0",
            "alive": True, "index_read_at": None, "index_providers": None, "in_flight": 2,
            "requests": 9, "refusals": 3, "refusals_last_minute": 1,
            "codes": {"placement.no_room": 3}}, worker)
        table = self.run_command("workers", "list")
        self.assertIn("api1", table)
        self.assertNotIn(self.uuid, table)
        self.assertIn("placement.no_room: 3", self.run_command("workers", "list", "-c", "codes"))

    def test_refusals(self) -> None:
        refusals = self.list_("refusals", "list")
        self.assertEqual({("web", 2, "req-0"), ("lab", 1, "req-1")}, {
            (each["project_id"], each["times"], each["request_id"]) for each in refusals})
        [refusal] = self.list_("refusals", "list", "--project", "web")
        self.assertTrue(refusal.pop("first_at") < refusal.pop("at"))
        self.assertEqual({
            "times": 2, "operation": _OPERATION, "status": 409,
            "code": "placement.no_room", "project_id": "web", "project_name": None,
            "user_id": "jane", "request_id": "req-0", "detail": "no room"}, refusal)
        self.assertEqual(1, len(self.list_("refusals", "list", "--limit", "1")))

    def test_bad_arguments(self) -> None:
        for command in ("workers", "refusals"):
            self.run_command(command, "list", "--limit", "0", code=2)
