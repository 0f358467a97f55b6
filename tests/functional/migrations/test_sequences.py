"""Sequences behind their tables: after logical replication, or a restore of single tables."""

from __future__ import annotations

import logging
import unittest
from collections.abc import Callable

import fixtures
import sqlalchemy as sa

from placement_core.db.sequences import SequenceBehind
from placement_core.migrations import checks, online, sync
from placement_core.placement import aggregates, providers, tables, traits
from placement_core.placement.allocations import missing_consumers
from placement_core.quota import tables as quota_tables
from placement_core.quota.nodes import LimitNodes
from placement_core.testing import factories
from tests import databases
from tests.functional.cli import commands
from tests.functional.placement import claims

#: So many ids are taken in front of a sequence: more than retries get past.
TAKEN = 300


@unittest.skipUnless("postgresql" in databases.KINDS, "no PostgreSQL")
class TestBehind(claims.ClaimsTestCase):
    kind = "postgresql"

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        self.host = self.provider(VCPU=800)
        aggregates.replace_for_provider(
            self.ctx, self.host.uuid, [factories.new_uuid()], generation=None)
        LimitNodes().ensure(self.ctx, ["node"])
        self.claim_as("before")

    def claim_as(self, name: str) -> None:
        """Claim as a new project, user and type."""
        self.claim({self.host: {"VCPU": 1}}, consumer=factories.new_uuid(), seen=None,
                   project=name, user=name, kind=name.upper())

    def fall_behind(self, table: sa.Table) -> None:
        """Have a sequence that gives the largest id of its table next."""
        with self.database.writer.begin() as connection:
            connection.exec_driver_sql(
                f"SELECT setval('{table.name}_id_seq', (SELECT max(id) FROM {table.name}), false)")

    def put_right(self) -> str:
        """Return what ``db sync`` says."""
        said: list[str] = []
        sync.sync(self.database.settings, said.append)
        self.assertEqual((), checks.read_state(self.database.settings).behind_sequences)
        return "\n".join(said)

    def assert_named(self, table: sa.Table, act: Callable[[], object]) -> None:
        self.assertEqual((), checks.read_state(self.database.settings).behind_sequences)
        self.fall_behind(table)
        [behind] = checks.read_state(self.database.settings).behind_sequences
        self.assertEqual((table.name, behind.largest), (behind.table, behind.following))
        error = self.assertRaises(SequenceBehind, act)
        self.assertEqual(
            f"The sequence of table {table.name} is behind it, so that no row can be added: "
            "run `placement-core db sync`.", str(error))
        self.assertIn(str(error), self.log.output)
        self.fall_behind(table)
        self.assertIn(f"the sequence of table {table.name} is behind it", self.put_right())
        act()

    def test_claims(self) -> None:
        for table in (tables.projects, tables.users, tables.consumer_types, tables.consumers,
                      tables.allocations):
            self.assert_named(table, lambda name=table.name: self.claim_as(name))

    def test_other_rows(self) -> None:
        for table, act in (
            (tables.resource_providers, lambda: self.provider(VCPU=1)),
            (tables.inventories, lambda: self.provider(VCPU=1)),
            (tables.traits, lambda: traits.ensure(self.ctx, "CUSTOM_NEW")),
            (tables.placement_aggregates, lambda: aggregates.replace_for_provider(
                self.ctx, self.host.uuid, [factories.new_uuid()], generation=None)),
            (quota_tables.limit_nodes, lambda: LimitNodes().ensure(self.ctx, ["another"])),
        ):
            self.assert_named(table, act)

    def test_upgrade_check(self) -> None:
        self.fall_behind(tables.consumers)
        done = commands.run("status", "upgrade", "check",
                            connection=self.database.settings.connection)
        self.assertEqual(2, done.returncode)
        said = " ".join(done.stdout.replace("|", " ").split())
        self.assertIn("The sequence of table consumers is behind it", said)
        self.assertIn("run `placement-core db sync`", said)

    def test_duplicates_are_still_duplicates(self) -> None:
        self.assertRaises(
            providers.errors.DuplicateProvider, providers.create, self.ctx,
            name=self.host.name, uuid=factories.new_uuid())
        self.assertEqual("", self.log.output)

    def test_far_behind(self) -> None:
        """More ids are taken than retries get past; an online migration ends all the same."""
        with self.database.writer.begin() as connection:
            connection.execute(sa.delete(tables.consumers))
            connection.execute(sa.delete(tables.usage_counters))
            connection.execute(sa.insert(tables.projects), [
                {"id": 1000 + number, "external_id": f"project-{number}"}
                for number in range(TAKEN)])
            connection.exec_driver_sql("SELECT setval('projects_id_seq', 1000, false)")
        self.assertRaises(SequenceBehind, self.claim_as, "far")
        lines: list[str] = []
        migrations = {"create_incomplete_consumers": online.Migration(
            missing_consumers.create_incomplete, missing_consumers.count)}
        outcome = online.run(self.ctx, None, lines.append, migrations)
        self.assertEqual((online.FAILED, {"create_incomplete_consumers": (0, 0)}),
                         (outcome.exit_code, outcome.counts))
        self.assertIn("The sequence of table projects is behind it", "\n".join(lines))
        self.put_right()
        outcome = online.run(self.ctx, None, lines.append, migrations)
        self.assertEqual((online.DONE, {"create_incomplete_consumers": (1, 1)}),
                         (outcome.exit_code, outcome.counts))
        self.claim_as("far")
