"""``placement-core claims …``: what the commands print and how they exit."""

from __future__ import annotations

import json
from unittest import mock

from placement_core import errors
from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db.database import Database, Settings
from placement_core.placement import allocations
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.records import AllocationWrite
from placement_core.quota import claims
from placement_core.quota.claim_expiry import HeldClaimsGate
from placement_core.quota.recheck_order import AnswerPruner
from placement_core.testing import factories
from placement_plugins.catalog.local import LocalCatalog
from tests.functional.cli import commands, test_commands


class TestClaimsCommands(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()
        database = Database(Settings(self.connection, sqlite_synchronous=False), Journal())
        self.addCleanup(database.dispose)
        self.ctx = Context(database)
        self.host = factories.provider(
            self.ctx, "host-1", inventory={"VCPU": 300, "MEMORY_MB": 300}).uuid

    def held(self, project: str = "web", seconds: int | None = 600, *, due: bool = False) -> str:
        consumer = factories.new_uuid()
        claims.Claims(
            [], [HeldClaimsGate(LocalCatalog(self.ctx))], AnswerPruner(), Owners()).claim(
            self.ctx, AllocationWrite(consumer, {self.host: {"VCPU": 2, "MEMORY_MB": 1}}, project,
                                      "bob", "INSTANCE", None),
            hold_seconds=seconds)
        if due:
            self.execute("UPDATE held_claims SET expires_at = '2020-01-01 00:00:00.000000' "
                         f"WHERE consumer_uuid = '{consumer}'")
        return consumer

    def claims(self, *arguments: str, code: int = 0) -> list[dict]:
        """Run a command that prints a table; return its rows."""
        return json.loads(self.run_command("claims", *arguments, "-f", "json", code=code))

    def uuids(self, *arguments: str) -> list[str]:
        return [row["consumer_uuid"] for row in self.claims(*arguments)]

    def test_list_and_show(self) -> None:
        held, due = self.held(), self.held("lab", due=True)
        found, late = self.claims("list")
        self.assertEqual(
            {"consumer_uuid": held, "project_id": "web", "project_name": None,
             "user_id": "bob", "state": "held", "expires_at": found["expires_at"],
             "allocations": {self.host: {"VCPU": 2, "MEMORY_MB": 1}}}, found)
        self.assertEqual((due, "expired", "2020-01-01T00:00:00+00:00"),
                         (late["consumer_uuid"], late["state"], late["expires_at"]))
        self.assertEqual([due], self.uuids("list", "--project", "lab"))
        self.assertEqual([held], self.uuids("list", "--state", "held"))
        self.assertEqual([], self.uuids("list", "--state", "held", "--project", "lab"))
        self.assertEqual([found], self.claims("show", held))
        printed = self.run_command("claims", "show", held)
        self.assertIn("host-1: 1 MEMORY_MB, 2 VCPU", printed)
        good = self.held(seconds=None)
        (shown,) = self.claims("show", good)
        self.assertEqual(("confirmed", None), (shown["state"], shown["expires_at"]))

    def test_release(self) -> None:
        held = self.held()
        self.assertEqual([held], self.uuids("release", held))
        self.assertIsNone(allocations.list_for_consumer(self.ctx, held))
        for command in ("release", "show"):
            self.run_command("claims", command, held, code=1)
            self.assertEqual(f"There is no claim {held}.\n", self.stderr)

    def test_sweep(self) -> None:
        stays, *due = self.held(), *(self.held(due=True) for _ in range(3))
        self.assertEqual(due[:2], self.uuids("sweep", "--max-count", "2"))
        self.assertEqual(due[2:], self.uuids("sweep"))
        self.assertEqual([], self.uuids("sweep"))
        self.assertEqual([stays], self.uuids("list", "--state", "held"))
        self.run_command("claims", "sweep", "--max-count", "0", code=2)
        self.run_command("claims", "sweep", "--max-count", "x", code=2)

    def test_sweep_says_how_far_it_is(self) -> None:
        due = [self.held(due=True) for _ in range(101)]
        done = commands.run("claims", "sweep", "-f", "json", connection=self.connection)
        self.assertEqual((0, "100 claims ended\n"), (done.returncode, done.stderr))
        self.assertEqual(due, [row["consumer_uuid"] for row in json.loads(done.stdout)])

    def test_what_cannot_be_ended_is_in_the_exit_code(self) -> None:
        due = [self.held(due=True) for _ in range(2)]
        delete = allocations.delete

        def too_busy(ctx: Context, consumer_uuid: str) -> None:
            if consumer_uuid == due[0]:
                raise errors.Unavailable("too busy")
            delete(ctx, consumer_uuid)

        with mock.patch.object(allocations, "delete", too_busy):
            self.assertEqual(due[1:], [
                row["consumer_uuid"] for row in self.claims("sweep", code=1)])
        self.assertIn(f"the claim {due[0]} is due and could not be ended now: too busy",
                      self.stderr)
        self.assertIn("1 claims ended, 1 could not be ended now", self.stderr)
        self.assertEqual(due[:1], self.uuids("sweep"))

    def test_while_another_process_writes(self) -> None:
        due = self.held(due=True)
        with self.ctx.database.writer.begin():
            self.run_command("claims", "sweep", code=1,
                             OS_PLACEMENT_DATABASE__LOCK_TIMEOUT_SECONDS="1")
        self.assertEqual("The database is too busy to complete this now.\n", self.stderr)
        self.assertEqual([due], self.uuids("sweep"))
