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

#: More rows, of which PostgreSQL is not told.
_OTHERS = "SELECT number FROM generate_series(100000, 129999) AS number"
_MANY_OTHERS = (
    "INSERT INTO resource_providers (id, uuid, name, generation, revision, root_provider_id) "
    f"SELECT number, 'other-' || number, 'other-' || number, 0, 0, number FROM ({_OTHERS}) "
    "AS others",
    "INSERT INTO consumers (uuid, project_id, user_id, generation) "
    f"SELECT 'other-' || number, 1, 1, 1 FROM ({_OTHERS}) AS others",
    "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, "
    "max_unit, step_size, allocation_ratio, used, capacity) "
    f"SELECT number, 0, 1, 0, 1, 1, 1, 1, 0, 1 FROM ({_OTHERS}) AS others",
    f"INSERT INTO pooled_trees (root_provider_id) {_OTHERS}",
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
        if self.kind != "postgresql":
            self.skipTest("only PostgreSQL keeps plans for longer than a statement")
        hosts = [self.provider(VCPU=1000) for _ in range(10)]
        self.run_sql("VACUUM ANALYZE")
        self.claim_together_and_delete(hosts, 8)
        self.run_sql(*_MANY_OTHERS)
        before = self.read_from_indexes()
        try:
            self.claim_together_and_delete(hosts, 20)
            claims_made = 20 * len(hosts)
            read = {name: (count - before.get(name, 0)) // claims_made
                    for name, count in self.read_from_indexes().items()}
            # One look at all the others for each group would be 3,000 for each claim.
            self.assertLess(sum(read.values()), 1500, read)
        finally:
            self.run_sql(*_NO_OTHERS)

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

    def read_from_indexes(self):
        """Return how many rows of each index were read, by connections that have ended."""
        # What a connection did (checks of foreign keys, too) is known when it has ended.
        self.database.dispose()
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.text("SELECT pg_stat_clear_snapshot()"))
            return dict(connection.execute(sa.text(
                "SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes")).all())
