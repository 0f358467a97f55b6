"""Revision 0002: the catalog comes to databases that are older."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core import context
from placement_core.catalog import domains, projects
from placement_core.changes import journal
from placement_core.db.database import Database
from placement_core.migrations import revisions, schema, sync
from placement_core.migrations.versions import catalog
from tests import databases
from tests.functional.migrations import test_adoption, test_sync

#: The rows of the newest schema; all but ``limits`` are of later revisions.
_REVISIONS = [
    (name, 0, 0) for name in ("cells", "limits", "notices", "pool", "pool_hosts")]


class CatalogTestCase(test_sync.BareTestCase):
    def make_older(self) -> None:
        """Make a database as revision 0001 left it."""
        sync.sync(self.settings)
        self.run_sql(*(f"DROP TABLE {name}" for name in catalog.OWN_TABLES),
                     f"UPDATE {revisions.VERSION_TABLE} SET version_num = '0001'")

    def use(self) -> None:
        """Write and read the catalog as the service does."""
        database = Database(self.settings, journal.Journal())
        try:
            ctx = context.Context(database)
            domain = domains.create(ctx, name="d")
            projects.create(ctx, name="p", domain_id=domain.id)
            self.assertEqual(["p"], [each.name for each in projects.list_(ctx)])
        finally:
            database.dispose()


@databases.on_each_database
class TestCatalogMigration(CatalogTestCase):
    def test_upgrade(self) -> None:
        self.make_older()
        before = self.rows("traits")
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        self.assertEqual(_REVISIONS, self.rows("revisions"))
        self.assertEqual(before, self.rows("traits"))
        self.use()

    def test_dies_half_way(self) -> None:
        """What MariaDB leaves behind: some tables, without their indexes and the row."""
        self.make_older()
        self.run_sql(
            "CREATE TABLE revisions (name VARCHAR(32) NOT NULL PRIMARY KEY, "
            "serial BIGINT NOT NULL, txn BIGINT NOT NULL)",
            "CREATE TABLE catalog_regions (id VARCHAR(255) NOT NULL PRIMARY KEY, "
            "parent_region_id VARCHAR(255), description TEXT NOT NULL)")
        sync.sync(self.settings)
        self.assertEqual([], test_sync.differences(self.url))
        self.assertEqual(_REVISIONS, self.rows("revisions"))

    def test_dies_after_its_last_step(self) -> None:
        sync.sync(self.settings)
        self.use()
        before = self.rows("revisions")
        self.run_sql(f"UPDATE {revisions.VERSION_TABLE} SET version_num = '0001'")
        sync.sync(self.settings)
        self.assertEqual(before, self.rows("revisions"))
        self.assertEqual(1, len(self.rows("catalog_projects")))

    def test_emptied_for_the_next_test(self) -> None:
        schema.create(self.url)
        self.use()
        schema.empty(self.url)
        self.assertEqual(_REVISIONS, self.rows("revisions"))
        for table in catalog.OWN_TABLES[1:]:
            self.assertEqual([], self.rows(table), table)
        self.use()


@databases.on_each_database
class TestCatalogOfAnAdoptedDatabase(CatalogTestCase, test_adoption.AdoptionTestCase):
    def tables(self) -> set[str]:
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        return set(sa.inspect(engine).get_table_names())

    def test_there_and_back_and_there_again(self) -> None:
        self.upstream.make_database()
        upstreams = self.tables()
        sync.sync(self.settings)
        self.assertEqual([], test_sync.differences(self.url))
        self.use()
        sync.release(self.settings)
        self.assertEqual(upstreams, self.tables())
        sync.sync(self.settings)
        self.assertEqual(_REVISIONS, self.rows("revisions"))
        self.use()

    def test_release_that_died_half_way(self) -> None:
        """On MariaDB our version goes first, the tables one by one."""
        self.upstream.make_database()
        upstreams = self.tables()
        sync.sync(self.settings)
        self.run_sql(f"DROP TABLE {revisions.VERSION_TABLE}", "DROP TABLE usage_counters",
                     "DROP TABLE changes", "DROP TABLE change_heads")
        sync.release(self.settings)
        self.assertEqual(upstreams, self.tables())
