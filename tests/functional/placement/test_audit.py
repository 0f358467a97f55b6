import sqlalchemy as sa

from placement_core.placement import allocations, audit, inventories, tables
from placement_core.placement.records import InventoryValues
from placement_core.testing import factories
from tests import databases
from tests.functional.placement import claims


@databases.on_each_database
class TestAudit(claims.ClaimsTestCase):

    def setUp(self):
        super().setUp()
        self.hosts = [self.provider(VCPU=80, DISK_GB=10) for _ in range(3)]
        for host in self.hosts:
            self.claim({host: {"VCPU": 2, "DISK_GB": 1}}, consumer=factories.new_uuid())

    def spoil(self, *statements):
        with self.database.writer.begin() as connection:
            for statement in statements:
                connection.execute(statement)

    def check(self, *expected):
        """Compare what is found, found and repaired, and found afterwards."""
        found = audit.audit(self.ctx, repair=False)
        self.assertEqual(
            sorted(expected), sorted((item.what, item.stored, item.actual) for item in found))
        self.assertEqual([], [item for item in found if item.repaired])
        repaired = audit.audit(self.ctx, repair=True)
        self.assertEqual(len(found), len(repaired))
        self.assertEqual([], audit.audit(self.ctx, repair=False))

    def test_nothing_to_find(self):
        self.assertEqual([], audit.audit(self.ctx, repair=False))
        before = [self.revision(host) for host in self.hosts]
        self.assertEqual([], audit.audit(self.ctx, repair=True))
        self.assertEqual(before, [self.revision(host) for host in self.hosts])

    def test_used(self):
        before = [self.revision(host) for host in self.hosts]
        self.spoil(sa.update(tables.inventories).values(used=99).where(
            tables.inventories.c.resource_provider_id == self.hosts[1].id))
        self.check(("used", 99, 2), ("used", 99, 1))
        self.assertEqual({"VCPU": 2, "DISK_GB": 1}, self.used(self.hosts[1]))
        before[1] += 1
        self.assertEqual(before, [self.revision(host) for host in self.hosts])

    def test_capacity(self):
        self.spoil(sa.update(tables.inventories).values(capacity=3).where(
            tables.inventories.c.resource_provider_id == self.hosts[2].id,
            tables.inventories.c.resource_class_id == 0))
        self.check(("capacity", 3, 80))

    def test_both_at_once(self):
        self.spoil(sa.update(tables.inventories).values(capacity=3, used=-4).where(
            tables.inventories.c.resource_provider_id == self.hosts[2].id,
            tables.inventories.c.resource_class_id == 0))
        self.check(("capacity", 3, 80), ("used", -4, 2))

    def test_counters(self):
        counters = tables.usage_counters
        self.spoil(
            sa.update(counters).values(used=counters.c.used + 5).where(
                counters.c.resource_class_id == tables.CONSUMERS),
            sa.delete(counters).where(counters.c.resource_class_id == 0))
        self.check(("counter", 8, 3), ("counter", 0, 6))

    def test_counters_of_nobody(self):
        self.spoil(sa.insert(tables.usage_counters).values(
            project_id=12345, user_id=1, consumer_type_id=0, resource_class_id=0, slot=3, used=7))
        self.check(("counter", 7, 0))

    def moved(self):
        """Begin a move; return (the instance, the migration)."""
        instance, migration = factories.new_uuid(), factories.new_uuid()
        held = {self.hosts[0]: {"VCPU": 4}}
        self.claim(held, consumer=instance)
        allocations.replace(self.ctx, [
            self.write({}, consumer=instance), self.write(held, consumer=migration)])
        self.claim({self.hosts[1]: {"VCPU": 3}}, consumer=instance)
        self.check()
        return instance, migration

    def test_moves(self):
        self.moved()
        moves = tables.moves
        self.spoil(sa.update(moves).where(moves.c.resource_class_id == 0).values(used=4))
        self.check(("move", 5, 4))

    def test_moves_of_nobody(self):
        """A pair whose second consumer is gone."""
        _, migration = self.moved()
        self.spoil(sa.update(tables.moves).where(tables.moves.c.consumer_uuid == migration)
                   .values(consumer_uuid=factories.new_uuid()))
        self.check(("move", 4, 0))

    def test_allocations_without_inventory_are_reported(self):
        here = tables.inventories.c.resource_provider_id == self.hosts[0].id
        self.spoil(sa.delete(tables.inventories).where(
            here, tables.inventories.c.resource_class_id == 0))
        found, = audit.audit(self.ctx, repair=True)
        self.assertEqual(("inventory", 0, 2, False),
                         (found.what, found.stored, found.actual, found.repaired))
        self.assertEqual(f"VCPU on resource provider {self.hosts[0].uuid}", found.where)
        inventories.create(self.ctx, self.hosts[0].uuid, "VCPU", InventoryValues(80),
                           allow_fully_reserved=True)
        self.check(("used", 0, 2))

    def test_a_consumer_can_leave_a_provider_that_lost_its_inventory(self):
        self.claim({self.hosts[0]: {"VCPU": 3}})
        self.spoil(sa.delete(tables.inventories).where(
            tables.inventories.c.resource_provider_id == self.hosts[0].id,
            tables.inventories.c.resource_class_id == 0))
        self.claim({self.hosts[1]: {"VCPU": 3}})
        self.claim({})
        self.spoil(sa.delete(tables.allocations).where(
            tables.allocations.c.resource_provider_id == self.hosts[0].id,
            tables.allocations.c.resource_class_id == 0))
        self.check(("counter", 6, 4))

    def test_ratios_of_many_digits(self):
        for ratio in (1.1, 0.7, 16.0, 1.23456789, 3.4e38, 0.000123456789):
            factories.provider(self.ctx, inventory={
                "VCPU": InventoryValues(2147483647, allocation_ratio=ratio),
                "DISK_GB": InventoryValues(10, allocation_ratio=ratio)})
        self.assertEqual([], audit.audit(self.ctx, repair=False))

    def test_in_batches(self):
        self.addCleanup(setattr, audit, "BATCH", audit.BATCH)
        audit.BATCH = 2
        self.spoil(sa.update(tables.inventories).values(used=99))
        self.check(*[("used", 99, 2), ("used", 99, 1)] * 3)
