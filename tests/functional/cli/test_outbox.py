"""``placement-core outbox …``: what the commands print and how they exit."""

from __future__ import annotations

import json
from unittest import mock

import fixtures

from placement_core import db, services
from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db.database import Database, Settings
from placement_core.plugin_api.compute import ComputeRefused
from placement_core.reservations.provisioning import compute_calls, outbox
from placement_core.testing import factories
from placement_core.testing.fakes import MemoryCompute
from tests.functional.cli import test_commands


class TestOutboxCommands(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.FakeLogger("placement_core.reservations"))
        self.sync()
        database = Database(Settings(self.connection, sqlite_synchronous=False), Journal())
        self.addCleanup(database.dispose)
        self.ctx = Context(database)
        self.compute = MemoryCompute()
        self.reservation = factories.new_uuid()

    def put(self) -> None:
        with db.write(self.ctx) as session:
            outbox.put(session, self.reservation, None,
                       compute_calls.grant_slots(self.reservation, "web"))

    def listed(self) -> list[dict]:
        return json.loads(self.run_command("outbox", "list", "-f", "json"))

    def test_list_and_retry(self) -> None:
        self.assertEqual([], self.listed())
        self.put()
        self.compute.before = mock.Mock(side_effect=ComputeRefused("There is no such flavor."))
        outbox.make_calls(self.ctx, self.compute, "me", 10)
        [row] = self.listed()
        self.assertEqual(
            {"subject": self.reservation, "subject_name": None, "lease_id": None,
             "call": "grant_flavor", "attempts": 1,
             "arguments": {"reservation_id": self.reservation, "project_id": "web"},
             "problem": "ComputeRefused: There is no such flavor."},
            {name: row[name] for name in row if name not in ("id", "next_at")})
        self.assertIn("There is no such flavor.", self.run_command("outbox", "list"))
        self.assertEqual("0 calls are made now\n", self.run_command(
            "outbox", "retry", str(row["id"] + 1), code=1))
        self.assertEqual(0, outbox.make_calls(self.ctx, self.compute, "me", 10).taken)
        for arguments in ([str(row["id"])], []):
            self.assertEqual("1 calls are made now\n",
                             self.run_command("outbox", "retry", *arguments))
        self.assertEqual(1, outbox.make_calls(self.ctx, self.compute, "me", 10).failed)

    def test_audit(self) -> None:
        self.compute.put_slot_aggregate(self.reservation, "web")
        with mock.patch.object(services, "_make_compute", lambda conf: self.compute):
            printed = self.run_command("outbox", "audit", "-f", "json")
        self.assertEqual([{"reservation_id": self.reservation, "outcome": "unknown"}],
                         json.loads(printed))

    def test_a_design_that_needs_a_compute_service(self) -> None:
        """Every command and the service stop with one line."""
        self.run_command(
            "outbox", "list", code=1, OS_RESERVATIONS__INSTANCE_DESIGN="aggregate")
        self.assertEqual(
            "[reservations] instance_design = aggregate: expected a compute_driver that reaches "
            "a compute service, such as nova; none does not\n", self.stderr)
