"""Revision 0008: sums over the users of projects come to databases that are older."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core import context
from placement_core.changes import journal
from placement_core.db.database import Database
from placement_core.migrations import online, revisions, sync
from placement_core.migrations.versions import usage_sums as revision
from placement_core.placement import allocations, records
from placement_core.placement.allocations import usage_counters
from placement_core.placement.usage import audit, project_usage
from placement_core.plugin_api.counting import CONSUMERS
from placement_core.testing import factories
from tests import databases
from tests.functional.migrations import test_sync

_AS_BEFORE = (
    f"UPDATE {revisions.VERSION_TABLE} SET version_num = '{revision.down_revision}'")


@databases.on_each_database
class TestUsageSumsMigration(test_sync.BareTestCase):

    def setUp(self) -> None:
        super().setUp()
        sync.sync(self.settings)
        self.database = Database(self.settings, journal.Journal())
        self.addCleanup(self.database.dispose)
        self.ctx = context.Context(self.database)
        self.host = factories.provider(self.ctx, inventory={"VCPU": 100})

    def claim(self, amount: int) -> None:
        allocations.replace(self.ctx, [records.AllocationWrite(
            factories.new_uuid(), {self.host.uuid: {"VCPU": amount}}, "project", "user")])

    def used(self) -> int:
        return project_usage.read(self.ctx, ["project"])["project"]["VCPU"]

    def finished(self) -> bool:
        finished = {name: finished for name, _, finished in self.rows("online_migrations")}
        return bool(finished[revision.NAME])

    def test_a_new_database_has_them(self) -> None:
        self.assertTrue(self.finished())
        self.assertEqual((0, 0), usage_counters.sum_up(self.ctx, 10))

    def test_upgrade(self) -> None:
        """Claims count before, while and after the sums are made."""
        self.claim(3)
        self.run_sql(*(f"DROP TABLE {name}" for name in revision.OWN_TABLES),
                     "DELETE FROM usage_counters WHERE project_id < 0",
                     _AS_BEFORE)
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        self.assertFalse(self.finished())
        self.claim(4)
        self.assertEqual(7, self.used())
        done = online.run(self.ctx, None, lambda _line: None,
                          {"sum_up_usage_counters": online.Migration(
                              usage_counters.sum_up, usage_counters.count_not_summed_up)})
        self.assertEqual((online.DONE, {"sum_up_usage_counters": (1, 1)}),
                         (done.exit_code, done.counts))
        self.assertTrue(self.finished())
        self.assertEqual(7, self.used())
        self.claim(5)
        self.assertEqual({"VCPU": 12, CONSUMERS: 3}, project_usage.read(self.ctx)["project"])
        self.assertEqual([], audit.audit(self.ctx, repair=False))

    def test_dies_half_way(self) -> None:
        self.run_sql("DELETE FROM online_migrations",
                     _AS_BEFORE)
        sync.sync(self.settings)
        with sa.create_engine(self.url, poolclass=sa.NullPool).connect() as connection:
            self.assertEqual(0, connection.scalar(
                sa.text("SELECT position FROM online_migrations "
                        f"WHERE name = '{revision.NAME}'")))
