"""Revision 0023: what a copy of another service's lease left of it."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core import db
from placement_core.changes import journal
from placement_core.context import Context
from placement_core.db.database import Database
from placement_core.migrations import revisions, sync
from placement_core.migrations.versions import copied_versions
from placement_core.reservations import tables
from tests import databases
from tests.functional.migrations import test_sync
from tests.functional.reservations import eventful


@databases.on_each_database
class TestCopiedVersionsMigration(test_sync.BareTestCase):
    def test_upgrade(self) -> None:
        """Of leases that were there nobody knows it."""
        sync.sync(self.settings)
        database = Database(self.settings, journal.Journal())
        self.addCleanup(database.dispose)
        start = eventful.utcnow().replace(microsecond=0)
        eventful.leases(database, [
            eventful.Row(start, start + eventful.datetime.timedelta(hours=1))])
        database.dispose()
        self.run_sql(
            "ALTER TABLE leases DROP COLUMN copied_version",
            f"UPDATE {revisions.VERSION_TABLE} "
            f"SET version_num = '{copied_versions.down_revision}'")
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        with db.read_once(Context(database)) as session:
            self.assertEqual([None], session.execute(
                sa.select(tables.leases.c.copied_version)).scalars().all())
