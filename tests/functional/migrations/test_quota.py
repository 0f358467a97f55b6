"""Revision 0004: quota comes to databases that are older."""

from __future__ import annotations

from placement_core import context
from placement_core.changes import journal
from placement_core.db.database import Database
from placement_core.migrations import revisions, sync
from placement_core.migrations.versions import quota
from placement_core.placement import allocations
from placement_core.placement.records import AllocationWrite
from placement_core.quota.nodes import LimitNodes
from placement_core.testing import factories
from tests import databases
from tests.functional.migrations import test_adoption, test_sync


class QuotaTestCase(test_sync.BareTestCase):
    def make_older(self, *tables: str) -> None:
        """Make a database as revision 0003 left it; or with some tables of 0004 already."""
        sync.sync(self.settings)
        self.run_sql(*(f"DROP TABLE {name}" for name in tables),
                     f"UPDATE {revisions.VERSION_TABLE} SET version_num = '0003'")

    def use(self) -> None:
        """Begin a move, and take a limit's row."""
        database = Database(self.settings, journal.Journal())
        try:
            ctx = context.Context(database)
            host = factories.provider(ctx, inventory={"VCPU": 10})
            held = {host.uuid: {"VCPU": 1}}
            instance, migration = factories.new_uuid(), factories.new_uuid()
            allocations.replace(ctx, [AllocationWrite(instance, held, "project", "user")])
            allocations.replace(ctx, [
                AllocationWrite(instance, {}, "project", "user"),
                AllocationWrite(migration, held, "project", "user")])
            allocations.replace(ctx, [AllocationWrite(instance, held, "project", "user")])
            self.assertEqual(["project"], list(LimitNodes().ensure(ctx, ["project"])))
        finally:
            database.dispose()


@databases.on_each_database
class TestQuotaMigration(QuotaTestCase):
    def test_upgrade(self) -> None:
        self.make_older(*quota.OWN_TABLES)
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        self.use()

    def test_dies_half_way(self) -> None:
        """What MariaDB leaves behind: some tables, one of them without its index."""
        self.make_older("moves", "rechecked_claims")
        self.run_sql("DROP INDEX held_claims_ended_at_expires_at_idx"
                     + (" ON held_claims" if self.kind == "mysql" else ""))
        sync.sync(self.settings)
        self.assertEqual([], test_sync.differences(self.url))
        self.use()


@databases.on_each_database
class TestQuotaOfAnAdoptedDatabase(QuotaTestCase, test_adoption.AdoptionTestCase):
    def test_there_and_back_and_there_again(self) -> None:
        self.upstream.make_database()
        sync.sync(self.settings)
        self.assertEqual([], test_sync.differences(self.url))
        self.use()
        sync.release(self.settings)
        sync.sync(self.settings)
        self.assertEqual([], test_sync.differences(self.url))
        self.use()
