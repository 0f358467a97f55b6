"""``placement-core events …`` and ``placement-core manager``, as operators use them."""

from __future__ import annotations

import datetime
import json
import pathlib
import signal
import subprocess
import sys
import time

import sqlalchemy as sa

from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db.database import Database, Settings
from placement_core.db.metadata import utcnow
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.records import AllocationWrite
from placement_core.quota import claims
from placement_core.quota.claim_expiry import HeldClaimsGate
from placement_core.quota.recheck_order import AnswerPruner
from placement_core.reservations import tables
from placement_core.reservations.manager import event_queue
from placement_core.testing import factories
from placement_plugins.catalog.local import LocalCatalog
from tests.functional.cli import commands, test_commands
from tests.functional.reservations import eventful

_PATIENCE_SECONDS = 120


class EventsTestCase(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()
        self.database = Database(Settings(self.connection, sqlite_synchronous=False), Journal())
        self.addCleanup(self.database.dispose)
        self.ctx = Context(self.database)

    def lease(self, start: float, end: float) -> str:
        at = [utcnow() + datetime.timedelta(seconds=each) for each in (start, end)]
        return eventful.leases(self.database, [eventful.Row(*at)])[0]


class TestEventsCommands(EventsTestCase):
    def events(self, *arguments: str) -> list[dict]:
        return json.loads(self.run_command("events", "list", *arguments, "-f", "json"))

    def test_list_and_retry(self) -> None:
        self.assertEqual([], self.events())
        lease = self.lease(-9, 600)
        [turn] = event_queue.dequeue(self.ctx, "me", most=1, seconds=600)
        first, second = self.events()
        self.assertEqual(
            (turn.event_id, lease, "start_lease", "IN_PROGRESS", "me", 1, 0, None),
            tuple(first[name] for name in ("id", "lease_id", "event_type", "status", "owner",
                                           "attempts", "failures", "problem")))
        self.assertTrue(first["deadline_at"].endswith("+00:00"))
        self.assertEqual(("end_lease", "UNDONE", None),
                         tuple(second[name] for name in ("event_type", "status", "deadline_at")))
        eventful.EffectTurns().fail(self.ctx, turn, "servers are left")
        [failed] = self.events("--status", "ERROR")
        self.assertEqual((turn.event_id, "servers are left"), (failed["id"], failed["problem"]))
        self.assertIn("servers are left", self.run_command("events", "list"))
        self.run_command("events", "retry", turn.event_id)
        self.assertEqual([], self.events("--status", "ERROR"))
        self.assertEqual(2, len(self.events("--status", "UNDONE")))
        self.assertEqual([], self.events("--status", "DONE"))

    def test_refusals(self) -> None:
        self.run_command("events", "retry", "nothing", code=1)
        self.assertEqual("There is no event nothing.\n", self.stderr)
        self.lease(60, 600)
        event = self.events()[0]["id"]
        self.run_command("events", "retry", event, code=1)
        self.assertEqual(
            f"The event {event} is UNDONE; only one that is ERROR can be retried.\n", self.stderr)
        self.run_command("events", "list", "--status", "LATE", code=2)


class TestManagerCommand(EventsTestCase):
    def test_it_says_so_works_and_stops(self) -> None:
        """What was missed while nobody ran is done at once.

        A held claim that is due ends, and leases get their texts.
        """
        host = factories.provider(self.ctx, inventory={"VCPU": 8}).uuid
        consumer = factories.new_uuid()
        claims.Claims(
            [], [HeldClaimsGate(LocalCatalog(self.ctx))], AnswerPruner(), Owners()).claim(
            self.ctx, AllocationWrite(consumer, {host: {"VCPU": 2}}, "web", "bob", None, None),
            hold_seconds=600)
        self.execute("UPDATE held_claims SET expires_at = '2020-01-01 00:00:00.000000'")
        self.lease(600, 1200)
        process = subprocess.Popen(
            [sys.executable, "-m", "placement_core", "manager"], text=True,
            env=commands.environment(self.connection), cwd=pathlib.Path(__file__).parents[3],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        said = process.stdout.readline()
        self.assertRegex(
            said, rf"^placement-core manager \S+:{process.pid}:\w+ carries out events "
                  rf"\(4 threads, {self.connection}\)\n$")
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while claims.list_(self.ctx, state="held", most=1)[0] or claims.get(
                self.ctx, consumer).state != "expired" or not self._texts():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(_PATIENCE_SECONDS))

    def _texts(self) -> int | None:
        """Return of how many leases there are texts."""
        with self.database.autocommit.connect() as connection:
            return connection.scalar(
                sa.select(sa.func.count()).select_from(tables.lease_texts))

    def test_it_wants_the_newest_schema(self) -> None:
        self.execute("UPDATE placement_core_version SET version_num = '0001'")
        self.run_command("manager", code=1)
        self.assertIn("run `placement-core db sync`", self.stderr)
