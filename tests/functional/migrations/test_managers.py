"""Revision 0011: databases that are older get the table in which managers tell that they live."""

from __future__ import annotations

from placement_core import context
from placement_core.changes import journal
from placement_core.db.database import Database
from placement_core.migrations import revisions, sync
from placement_core.migrations.versions import managers as revision
from placement_core.reservations.manager import backlog, heartbeats
from tests import databases
from tests.functional.migrations import test_sync


@databases.on_each_database
class TestManagersMigration(test_sync.BareTestCase):
    def test_upgrade(self) -> None:
        sync.sync(self.settings)
        self.run_sql("DROP TABLE managers", f"UPDATE {revisions.VERSION_TABLE} "
                                            f"SET version_num = '{revision.down_revision}'")
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        database = Database(self.settings, journal.Journal())
        self.addCleanup(database.dispose)
        ctx = context.Context(database)
        heartbeats.beat(ctx, owner="one")
        self.assertEqual(1, backlog.measure(ctx).managers)
