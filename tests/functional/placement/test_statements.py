"""How many statements the reads of providers and their belongings take."""

import functools
import time

import sqlalchemy as sa

from placement_core.placement import aggregates, inventories, providers, resource_classes, traits
from placement_core.testing import factories
from tests import base, databases, round_trips
from tests.functional.placement import claims


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
