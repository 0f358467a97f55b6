"""Revision 0010: the heads of the change log of databases that are older can be marked."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core.changes import tables
from placement_core.migrations import revisions, sync
from placement_core.migrations.versions import limits_serials as revision
from tests import databases
from tests.functional.migrations import test_sync


@databases.on_each_database
class TestLimitsSerialsMigration(test_sync.BareTestCase):
    def test_upgrade(self) -> None:
        sync.sync(self.settings)
        self.run_sql(
            "ALTER TABLE change_heads DROP COLUMN limits_serial",
            f"UPDATE {revisions.VERSION_TABLE} SET version_num = '{revision.down_revision}'",
            "UPDATE revisions SET serial = 7 WHERE name = 'limits'")
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        # An older version still changes limits without marking heads; claims must pass.
        with self.connect() as connection:
            self.assertEqual({0}, set(connection.scalars(
                sa.select(tables.change_heads.c.limits_serial))))
