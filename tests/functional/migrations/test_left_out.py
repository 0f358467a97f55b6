"""Revision 0024: how many records a comparison found that cannot be copied."""

from __future__ import annotations

from placement_core.changes import journal
from placement_core.context import Context
from placement_core.db.database import Database
from placement_core.migrations import revisions, sync
from placement_core.migrations.versions import left_out
from placement_core.takeover import comparison_results
from tests import databases
from tests.functional.migrations import test_sync


@databases.on_each_database
class TestLeftOutMigration(test_sync.BareTestCase):
    def test_upgrade(self) -> None:
        """Of comparisons that were there nobody knows it."""
        sync.sync(self.settings)
        self.run_sql(
            "ALTER TABLE comparisons DROP COLUMN left_out",
            "INSERT INTO comparisons (run_id, source, location, started_at, finished_at, "
            "compared, differences) VALUES ('r', 'blazar', 'somewhere', "
            "'2026-03-01 12:00:00.000000', '2026-03-01 12:00:00.000000', 7, 0)",
            f"UPDATE {revisions.VERSION_TABLE} SET version_num = '{left_out.down_revision}'")
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        database = Database(self.settings, journal.Journal())
        self.addCleanup(database.dispose)
        [last] = comparison_results.list_last(Context(database))
        self.assertEqual((7, None), (last.compared, last.left_out))
