"""Revision 0005: reservations come to databases that are older."""

from __future__ import annotations

from placement_core import context
from placement_core.changes import journal, revisions as records
from placement_core.db.database import Database
from placement_core.db.transactions import write
from placement_core.migrations import revisions, sync
from placement_core.migrations.versions import reservations
from placement_core.reservations.hosts import host_queries
from placement_core.reservations.leases import lease_queries
from tests import databases
from tests.functional.migrations import test_adoption, test_sync


class ReservationsTestCase(test_sync.BareTestCase):
    def make_older(self, *tables: str) -> None:
        """Make a database as revision 0004 left it; or with some tables of 0005 already."""
        sync.sync(self.settings)
        self.run_sql(*(f"DROP TABLE {name}" for name in tables),
                     f"UPDATE {revisions.VERSION_TABLE} SET version_num = '0004'")

    def use(self) -> None:
        """Take the freepool's row, and read what there is."""
        database = Database(self.settings, journal.Journal())
        try:
            ctx = context.Context(database)
            with write(ctx) as session:
                records.increment(session, records.POOL)
            self.assertEqual(([], []), (lease_queries.page(ctx), host_queries.page(ctx)))
        finally:
            database.dispose()


@databases.on_each_database
class TestReservationsMigration(ReservationsTestCase):
    def test_upgrade(self) -> None:
        self.make_older(*reservations.OWN_TABLES)
        self.run_sql("DELETE FROM revisions WHERE name IN ('pool', 'pool_hosts', 'notices')")
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        self.use()

    def test_dies_half_way(self) -> None:
        """What MariaDB leaves behind: some tables, one of them without its index."""
        self.make_older("lease_notices", "reservation_outbox")
        self.run_sql("DROP INDEX leases_end_at_idx"
                     + (" ON leases" if self.kind == "mysql" else ""))
        sync.sync(self.settings)
        self.assertEqual([], test_sync.differences(self.url))
        self.use()


@databases.on_each_database
class TestReservationsOfAnAdoptedDatabase(
        ReservationsTestCase, test_adoption.AdoptionTestCase):
    def test_there_and_back_and_there_again(self) -> None:
        self.upstream.make_database()
        sync.sync(self.settings)
        self.use()
        sync.release(self.settings)
        sync.sync(self.settings)
        self.assertEqual([], test_sync.differences(self.url))
        self.use()
