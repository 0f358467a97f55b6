"""How many statements the reads of providers and their belongings take."""

import functools
import time

import sqlalchemy as sa

from placement_core.placement import (
    aggregates,
    allocations,
    inventories,
    providers,
    resource_classes,
    traits,
)
from placement_core.testing import factories
from tests import base, databases, round_trips
from tests.functional.placement import claims


def _list_inserts(others, classes):
    """Return what inserts so many other providers, with inventories of so many classes."""
    numbers = f"SELECT number FROM generate_series(100000, {99_999 + others}) AS number"
    return (
        "INSERT INTO resource_providers (id, uuid, name, generation, revision, root_provider_id) "
        f"SELECT number, 'other-' || number, 'other-' || number, 0, 0, number FROM ({numbers}) "
        "AS others",
        "INSERT INTO consumers (uuid, project_id, user_id, generation) "
        f"SELECT 'other-' || number, 1, 1, 1 FROM ({numbers}) AS others",
        "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, "
        "min_unit, max_unit, step_size, allocation_ratio, used, capacity) "
        f"SELECT number, class, 1, 0, 1, 1, 1, 1, 0, 1 FROM ({numbers}) AS others, "
        f"generate_series(0, {classes - 1}) AS class",
        f"INSERT INTO pooled_trees (root_provider_id) {numbers}",
    )


_NO_OTHERS = (
    "DELETE FROM consumers WHERE uuid LIKE 'other-%'",
    "DELETE FROM inventories WHERE resource_provider_id >= 100000",
    "DELETE FROM pooled_trees",
    "DELETE FROM resource_providers WHERE uuid LIKE 'other-%'",
)


class TestReads(base.DatabaseTestCase):

    def test_one_statement_each(self):
        provider = factories.provider(
            self.ctx, parent=factories.provider(self.ctx),
            inventory={"VCPU": 4, "DISK_GB": 9}, traits=["HW_CPU_X86_MMX", "CUSTOM_A"],
            aggregates=[factories.new_uuid(), factories.new_uuid()])
        trips = round_trips.RoundTrips(self.database)
        for read in (
            functools.partial(providers.get, uuid=provider.uuid),
            functools.partial(inventories.list_, provider_uuid=provider.uuid),
            functools.partial(inventories.get, provider_uuid=provider.uuid,
                              resource_class="VCPU"),
            functools.partial(traits.list_for_provider, uuid=provider.uuid),
            functools.partial(aggregates.list_for_provider, uuid=provider.uuid),
            traits.list_,
            functools.partial(traits.list_, names=["CUSTOM_A"], prefix="CUSTOM", associated=True),
            functools.partial(traits.get, name="CUSTOM_A"),
            resource_classes.list_,
            functools.partial(resource_classes.get, name="VCPU"),
        ):
            # No transaction either: its BEGIN and COMMIT would be waited for.
            self.assertEqual(1, trips.of(read, self.ctx), read)


@databases.on_each_database
class TestPlans(claims.ClaimsTestCase):
    """A plan that was made while a table was empty does not read all of it later."""

    def scans(self, table):
        # What a connection did is known for certain when it has ended.
        self.database.dispose()
        with self.database.autocommit.connect() as connection:
            return connection.execute(sa.text(
                "SELECT seq_scan, idx_scan FROM pg_stat_user_tables WHERE relname = :name"),
                {"name": table}).one()

    def test_claims_go_by_keys(self):
        if self.kind != "postgresql":
            self.skipTest("only PostgreSQL keeps plans for longer than a statement")
        host = self.provider(VCPU=1000)
        with self.database.autocommit.connect() as connection:
            # From now on the planner knows that there is nothing in them.
            connection.execute(sa.text("VACUUM ANALYZE consumers, allocations"))
        before = {table: self.scans(table) for table in ("consumers", "allocations")}
        for _ in range(20):
            self.claim({host: {"VCPU": 1}}, seen=None, consumer=factories.new_uuid())
        for table, (whole, by_key) in before.items():
            for _ in range(50):
                now = self.scans(table)
                if now.idx_scan > by_key:
                    break
                time.sleep(0.1)
            self.assertGreater(now.idx_scan, by_key, table)
            self.assertEqual(whole, now.seq_scan, table)

    def test_many_together_go_by_keys(self):
        """Each looks at its own rows, however many others have come since it was planned."""
        hosts = self.make_hosts()
        self.run_sql("VACUUM ANALYZE")
        self.claim_together_and_delete(hosts, 8)
        # Of these, PostgreSQL is not told.
        self.run_sql(*_list_inserts(others=30_000, classes=1))
        self.assert_others_are_not_read(hosts)

    def test_many_together_among_many_go_by_keys(self):
        """So they do if others were there before."""
        hosts = self.make_hosts()
        self.run_sql(*_list_inserts(others=1000, classes=3), "VACUUM ANALYZE")
        self.claim_together_and_delete(hosts, 8)
        self.assert_others_are_not_read(hosts)

    def make_hosts(self):
        if self.kind != "postgresql":
            self.skipTest("only PostgreSQL keeps plans for longer than a statement")
        self.addCleanup(self.run_sql, *_NO_OTHERS)
        return [self.provider(VCPU=1000) for _ in range(10)]

    def assert_others_are_not_read(self, hosts):
        before = self.count_read_rows()
        self.claim_together_and_delete(hosts, 20)
        claims_made = 20 * len(hosts)
        read = {name: (count - before.get(name, 0)) // claims_made
                for name, count in self.count_read_rows().items()}
        # One look at the inventories of 1,000 others for each group is 300 for each claim.
        self.assertLess(sum(read.values()), 100, {
            name: count for name, count in read.items() if count})

    def claim_together_and_delete(self, hosts, times):
        for _ in range(times):
            uuids = [factories.new_uuid() for _ in hosts]
            for held in [{host: {"VCPU": 1}} for host in hosts], [{} for _ in hosts]:
                allocations.replace(self.ctx, [
                    self.write(each, consumer=uuid) for each, uuid in zip(held, uuids, strict=True)
                ], owners=self.owners)

    def run_sql(self, *statements):
        with self.database.autocommit.connect() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))

    def count_read_rows(self):
        """Return how many rows of each index, and of each table without one, were read.

        By connections that have ended.
        """
        # What a connection did (checks of foreign keys, too) is known when it has ended.
        self.database.dispose()
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.text("SELECT pg_stat_clear_snapshot()"))
            return dict(connection.execute(sa.text(
                "SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes "
                "UNION ALL SELECT relname, seq_tup_read FROM pg_stat_user_tables")).all())
