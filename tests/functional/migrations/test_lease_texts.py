"""Revision 0006: texts of leases come to databases that are older."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core import context
from placement_core.changes import journal
from placement_core.db.database import Database
from placement_core.http.leases_api import representations
from placement_core.migrations import revisions, sync
from placement_core.migrations.versions import lease_texts as revision
from placement_core.reservations.leases import rendered_cache, rendered_texts
from tests import databases
from tests.functional.migrations import test_adoption, test_sync
from tests.functional.reservations import eventful


@databases.on_each_database
class TestLeaseTextsMigration(test_sync.BareTestCase):
    def test_upgrade(self) -> None:
        """Leases that are there are shown, before their texts are written and after."""
        sync.sync(self.settings)
        self.run_sql(*(f"DROP TABLE {name}" for name in revision.OWN_TABLES),
                     f"UPDATE {revisions.VERSION_TABLE} SET version_num = '0005'")
        database = Database(self.settings, journal.Journal())
        self.addCleanup(database.dispose)
        ctx, at = context.Context(database), eventful.utcnow().replace(microsecond=0)
        ids = eventful.leases(database, [eventful.Row(at, at)] * 3)
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        for written in (3, 0):
            found = rendered_cache.RenderedLeases(
                representations.LEASE, rendered_cache.LeaseTexts()).page(ctx)
            self.assertEqual(sorted(ids), sorted(id_ for id_, _ in found))
            self.assertEqual(written, rendered_texts.fill(ctx, representations.LEASE))


class TestLeaseTextsOfAnAdoptedDatabase(test_adoption.AdoptionTestCase):
    def test_nothing_of_ours_is_left(self) -> None:
        self.upstream.make_database()
        before = self.tables()
        sync.sync(self.settings)
        self.assertIn("lease_texts", self.tables())
        sync.release(self.settings)
        self.assertEqual(before, self.tables())

    def tables(self) -> set[str]:
        return set(sa.inspect(self.connect()).get_table_names())
