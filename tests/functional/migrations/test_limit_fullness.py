"""Revision 0022: how full the limits of nodes are."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core import context
from placement_core.changes import journal
from placement_core.db.database import Database
from placement_core.migrations import revisions, sync
from placement_core.migrations.versions import limit_fullness
from placement_core.quota import nodes, tables
from tests import databases
from tests.functional.migrations import test_sync


@databases.on_each_database
class TestLimitFullnessMigration(test_sync.BareTestCase):

    def setUp(self):
        super().setUp()
        sync.sync(self.settings)
        self.database = Database(self.settings, journal.Journal())
        self.addCleanup(self.database.dispose)

    def is_kept(self):
        return nodes.is_fullness_kept(context.Context(self.database))

    def test_new(self):
        self.assertTrue(self.is_kept())

    def test_upgrade(self):
        """Nodes stay, and nobody relies on their fullness beside older workers."""
        nodes.LimitNodes().ensure(context.Context(self.database), ["web"])
        self.database.dispose()
        self.run_sql(
            "ALTER TABLE limit_nodes DROP COLUMN fullness",
            "ALTER TABLE limit_nodes DROP COLUMN fullness_of",
            f"DELETE FROM online_migrations WHERE name = '{limit_fullness.NAME}'",
            f"UPDATE {revisions.VERSION_TABLE} "
            f"SET version_num = '{limit_fullness.down_revision}'")
        for _ in range(2):
            self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        self.assertFalse(self.is_kept())
        with self.database.autocommit.connect() as connection:
            [node] = connection.execute(sa.select(tables.limit_nodes))
        self.assertEqual(("web", None), (node.node_id, node.fullness))
