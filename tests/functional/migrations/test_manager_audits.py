"""Revision 0025: what the last audit of each manager found."""

from __future__ import annotations

from placement_core import context
from placement_core.changes import journal
from placement_core.db.database import Database
from placement_core.migrations import revisions, sync
from placement_core.migrations.versions import manager_audits as revision
from placement_core.reservations.manager import heartbeats
from tests import databases
from tests.functional.migrations import test_sync


@databases.on_each_database
class TestManagerAuditsMigration(test_sync.BareTestCase):
    def test_upgrade(self) -> None:
        """Of managers that were there nobody knows it."""
        sync.sync(self.settings)
        self.run_sql(
            "ALTER TABLE managers DROP COLUMN audited_at",
            "ALTER TABLE managers DROP COLUMN audit_findings",
            f"UPDATE {revisions.VERSION_TABLE} SET version_num = '{revision.down_revision}'")
        database = Database(self.settings, journal.Journal())
        self.addCleanup(database.dispose)
        ctx = context.Context(database)
        heartbeats.beat(ctx, owner="one")
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        [manager] = heartbeats.list_(ctx, most=9)
        self.assertEqual((None, None), (manager.audited_at, manager.audit_findings))
        heartbeats.record_audit(ctx, owner="one", findings=3)
        [manager] = heartbeats.list_(ctx, most=9)
        self.assertEqual(3, manager.audit_findings)
