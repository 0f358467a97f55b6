"""Revision 0007: what reservations held of hosts stays, in tables of another form."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import migration, operations

from placement_core import db
from placement_core.changes import journal
from placement_core.context import Context
from placement_core.db.database import Database
from placement_core.migrations import revisions, sync
from placement_core.migrations.versions import reservations as before
from placement_core.reservations import tables
from tests import databases
from tests.functional.migrations import test_sync
from tests.functional.reservations import eventful

_held = tables.computehost_allocations


@databases.on_each_database
class TestLeaseHistoryMigration(test_sync.BareTestCase):
    def test_upgrade(self) -> None:
        sync.sync(self.settings)
        database = Database(self.settings, journal.Journal())
        self.addCleanup(database.dispose)
        start = eventful.utcnow().replace(microsecond=0)
        eventful.leases(database, [eventful.Row(start, start + eventful.datetime.timedelta(
            seconds=seconds), hosts=[1]) for seconds in (1, 4096, 4**13)])
        with database.writer.begin() as connection:
            rows = connection.execute(sa.select(_held).order_by(_held.c.end_second)).all()
            self.assertEqual([0, 1, 8], [row.duration_class for row in rows])
            for table in (_held, tables.reservation_amounts):
                table.drop(connection)
            tables_of_old = operations.Operations(
                migration.MigrationContext.configure(connection))
            tables_of_old.drop_index("leases_ended_at_idx", "leases")
            before._held(tables_of_old)
            connection.execute(sa.insert(_held), [
                {name: value for name, value in row._asdict().items()
                 if name != "duration_class"} for row in rows])
        self.run_sql(f"UPDATE {revisions.VERSION_TABLE} SET version_num = '0006'")
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        with db.read_once(Context(database)) as session:
            self.assertEqual(rows, session.execute(
                sa.select(_held).order_by(_held.c.end_second)).all())
        # The host comes back to the reservation.
        with database.writer.begin() as connection:
            connection.execute(sa.insert(_held), {
                name: value + 1 if name == "start_second" else value
                for name, value in rows[-1]._asdict().items() if name != "duration_class"})
