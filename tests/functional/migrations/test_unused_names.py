"""Revision 0009: databases that are older get what the removal of unused rows needs."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core import context
from placement_core.changes import journal
from placement_core.db.database import Database
from placement_core.migrations import revisions, sync
from placement_core.migrations.versions import unused_names as revision
from placement_core.placement import unused_names
from placement_core.quota import nodes
from tests import databases
from tests.functional.migrations import test_adoption, test_sync


@databases.on_each_database
class TestUnusedNamesMigration(test_sync.BareTestCase):
    def make_older(self, *statements: str) -> None:
        sync.sync(self.settings)
        self.run_sql(*statements, f"UPDATE {revisions.VERSION_TABLE} "
                                  f"SET version_num = '{revision.down_revision}'")

    def test_upgrade(self) -> None:
        self.make_older(
            "DROP TABLE unused_names", "ALTER TABLE limit_nodes DROP COLUMN locked_at",
            "INSERT INTO limit_nodes (id, node_id) VALUES (1, 'a'), (2, 'b')",
            "INSERT INTO projects (id, external_id) VALUES (1, 'a'), (2, 'b')")
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        database = Database(self.settings, journal.Journal())
        self.addCleanup(database.dispose)
        # Nothing is known about the rows, so their day begins now.
        for function in (nodes.remove_unused, unused_names.remove):
            self.assertEqual(0, function(context.Context(database)))
        self.assertEqual(1, len(self.rows("unused_names")))

    def test_dies_half_way(self) -> None:
        """What MariaDB leaves behind: the table, without the column."""
        self.make_older("ALTER TABLE limit_nodes DROP COLUMN locked_at")
        sync.sync(self.settings)
        self.assertEqual([], test_sync.differences(self.url))


class TestUnusedNamesOfAnAdoptedDatabase(test_adoption.AdoptionTestCase):
    def test_nothing_of_ours_is_left(self) -> None:
        self.upstream.make_database()
        before = set(sa.inspect(self.connect()).get_table_names())
        sync.sync(self.settings)
        sync.release(self.settings)
        self.assertEqual(before, set(sa.inspect(self.connect()).get_table_names()))
