"""Revision 0003: limits come to databases that are older."""

from __future__ import annotations

import sqlalchemy as sa
from oslo_config import cfg

from placement_core import context
from placement_core.catalog import domains, services
from placement_core.changes import journal
from placement_core.db.database import Database
from placement_core.limits import limits as limit_functions, registered, users
from placement_core.migrations import revisions, schema, sync
from placement_core.migrations.versions import limits
from placement_plugins.catalog.local import LocalCatalog
from placement_plugins.enforcement.flat import Flat
from tests import databases
from tests.functional.migrations import test_adoption, test_sync


class LimitsTestCase(test_sync.BareTestCase):
    def make_older(self) -> None:
        """Make a database as revision 0002 left it."""
        sync.sync(self.settings)
        self.run_sql(*(f"DROP TABLE {name}" for name in limits.OWN_TABLES),
                     f"UPDATE {revisions.VERSION_TABLE} SET version_num = '0002'")

    def use(self) -> None:
        """Write and read limits as the service does."""
        conf = cfg.ConfigOpts()
        database = Database(self.settings, journal.Journal())
        try:
            ctx, catalog = context.Context(database), LocalCatalog(conf)
            domain = domains.create(ctx, name="d")
            item = {"service_id": services.create(ctx, service_type="compute").id,
                    "resource_name": "cores"}
            registered.create_many(ctx, catalog, [{**item, "default_limit": 5}])
            limit_functions.create_many(ctx, catalog, Flat(conf), [
                {**item, "domain_id": domain.id, "resource_limit": 3}])
            self.assertEqual([3], [each.resource_limit for each in limit_functions.list_(ctx)])
            self.assertEqual([], users.list_(ctx))
        finally:
            database.dispose()

    def counts(self) -> list[int]:
        with sa.create_engine(self.url, poolclass=sa.NullPool).connect() as connection:
            return [connection.scalar(sa.text(f"SELECT COUNT(*) FROM {name}"))
                    for name in limits.OWN_TABLES]


@databases.on_each_database
class TestLimitsMigration(LimitsTestCase):
    def test_upgrade(self) -> None:
        self.make_older()
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        self.use()

    def test_dies_half_way(self) -> None:
        """What MariaDB leaves behind: some tables, one of them without its index."""
        self.make_older()
        sync.sync(self.settings)
        self.run_sql(
            "DROP TABLE limit_history", "DROP TABLE user_limits",
            "DROP INDEX limits_node_id_idx" + (" ON limits" if self.kind == "mysql" else ""),
            f"UPDATE {revisions.VERSION_TABLE} SET version_num = '0002'")
        sync.sync(self.settings)
        self.assertEqual([], test_sync.differences(self.url))
        self.use()

    def test_dies_after_its_last_step(self) -> None:
        sync.sync(self.settings)
        self.use()
        self.run_sql(f"UPDATE {revisions.VERSION_TABLE} SET version_num = '0002'")
        sync.sync(self.settings)
        self.assertEqual([2, 0, 1, 1], self.counts())

    def test_emptied_for_the_next_test(self) -> None:
        schema.create(self.url)
        self.use()
        schema.empty(self.url)
        self.assertEqual([0, 0, 0, 0], self.counts())
        self.use()


@databases.on_each_database
class TestLimitsOfAnAdoptedDatabase(LimitsTestCase, test_adoption.AdoptionTestCase):
    def test_there_and_back_and_there_again(self) -> None:
        self.upstream.make_database()
        upstreams = self.tables()
        sync.sync(self.settings)
        self.assertEqual([], test_sync.differences(self.url))
        self.use()
        sync.release(self.settings)
        self.assertEqual(upstreams, self.tables())
        sync.sync(self.settings)
        self.assertEqual([0, 0, 0, 0], self.counts())
        self.use()

    def tables(self) -> set[str]:
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        return set(sa.inspect(engine).get_table_names())
