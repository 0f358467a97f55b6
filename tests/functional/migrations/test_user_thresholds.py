"""Revision 0021: thresholds of the limits of users."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core import context
from placement_core.changes import journal
from placement_core.db import clock
from placement_core.db.database import Database
from placement_core.migrations import revisions, sync
from placement_core.migrations.versions import user_thresholds
from placement_core.thresholds import monitor, tables
from placement_core.thresholds.levels import Subject
from tests import databases
from tests.functional.migrations import test_sync


@databases.on_each_database
class TestUserThresholdsMigration(test_sync.BareTestCase):

    def test_upgrade(self):
        """What is reached stays, and has no user."""
        sync.sync(self.settings)
        database = Database(self.settings, journal.Journal())
        self.addCleanup(database.dispose)
        subject = Subject("limit", "web", "own", "class:VCPU")
        with database.autocommit.connect() as connection:
            connection.execute(sa.insert(tables.reached_thresholds).values(
                uuid=subject.uuid, level=80, kind="limit", node_id="web", scope="own",
                resource_name="class:VCPU", bound=10, measured=8, reached_at=clock.now()))
        database.dispose()
        self.run_sql(
            "ALTER TABLE reached_thresholds DROP COLUMN user_id",
            "ALTER TABLE left_thresholds DROP COLUMN user_id",
            f"UPDATE {revisions.VERSION_TABLE} "
            f"SET version_num = '{user_thresholds.down_revision}'")
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        [reached] = monitor.list_(context.Context(database))
        self.assertEqual(subject, reached.measurement.subject)
