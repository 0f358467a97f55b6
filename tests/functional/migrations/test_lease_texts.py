"""Revision 0006: texts of leases come to databases that are older."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core.migrations import revisions, sync
from placement_core.migrations.versions import lease_texts as revision
from tests import databases
from tests.functional.migrations import test_adoption, test_sync


@databases.on_each_database
class LeaseTextsMigrationTest(test_sync.BareTestCase):
    def test_upgrade(self) -> None:
        sync.sync(self.settings)
        self.run_sql(*(f"DROP TABLE {name}" for name in revision.OWN_TABLES),
                     f"UPDATE {revisions.VERSION_TABLE} SET version_num = '0005'")
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))


class LeaseTextsOfAnAdoptedDatabaseTest(test_adoption.AdoptionTestCase):
    def test_nothing_of_ours_is_left(self) -> None:
        self.upstream.make_database()
        before = self.tables()
        sync.sync(self.settings)
        self.assertIn("lease_texts", self.tables())
        sync.release(self.settings)
        self.assertEqual(before, self.tables())

    def tables(self) -> set[str]:
        return set(sa.inspect(self.connect()).get_table_names())
