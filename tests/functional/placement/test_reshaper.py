import uuid

from placement_core.placement import errors, inventories, tables
from placement_core.placement.allocations import reshaper
from placement_core.placement.records import InventoryValues
from placement_core.testing import factories
from tests import databases
from tests.functional.placement import claims


@databases.on_each_database
class TestReshape(claims.ClaimsTestCase):

    def setUp(self):
        super().setUp()
        self.host = self.provider(VCPU=16, VGPU=4)
        self.child = factories.provider(self.ctx, parent=self.host)
        self.consumers = [factories.new_uuid() for _ in range(4)]
        for consumer in self.consumers:
            self.claim({self.host: {"VCPU": 2, "VGPU": 1}}, consumer=consumer, seen=None)

    def reshape(self, new, writes=(), seen=None):
        """Reshape with the providers' present generations, or those of ``seen``."""
        reshaper.reshape(self.ctx, {
            provider.uuid: (
                (seen or {}).get(provider, self.generation(provider)),
                {name: value if isinstance(value, InventoryValues) else InventoryValues(value)
                 for name, value in made.items()})
            for provider, made in new.items()
        }, list(writes))

    def moved(self, consumers=None, **options):
        return [self.write({self.host: {"VCPU": 2}, self.child: {"VGPU": 1}},
                           consumer=consumer, seen=1, **options)
                for consumer in consumers or self.consumers]

    def refused(self, kind, *arguments, **options):
        before = [self.generation(item) for item in (self.host, self.child, *self.consumers)]
        error = self.assertRaises(kind, self.reshape, *arguments, **options)
        self.assertEqual(
            before,
            [self.generation(item) for item in (self.host, self.child, *self.consumers)])
        self.assertEqual({"VCPU": 8, "VGPU": 4}, self.used(self.host))
        return error

    def test_a_class_moves_to_a_child(self):
        before = self.generation(self.host), self.generation(self.child)
        self.reshape({self.host: {"VCPU": 16}, self.child: {"VGPU": 4}}, self.moved())
        self.assertEqual({"VCPU": 8}, self.used(self.host))
        self.assertEqual({"VGPU": 4}, self.used(self.child))
        self.assertEqual((before[0] + 3, before[1] + 3),
                         (self.generation(self.host), self.generation(self.child)))
        self.assertEqual({2}, {self.generation(consumer) for consumer in self.consumers})

    def test_very_many_providers(self):
        """More than a statement of PostgreSQL can have parameters."""
        self.assertRaises(errors.ReshapedProviderNotFound, reshaper.reshape, self.ctx, {
            str(uuid.UUID(int=number)): (0, {}) for number in range(66_000)}, [])

    def test_generations_of_providers(self):
        before = self.generation(self.host), self.generation(self.child)
        self.reshape({self.child: {}})
        self.reshape({self.child: {"VCPU": 1}, self.host: {"VCPU": 16, "VGPU": 4}})
        self.assertEqual((before[0] + 2, before[1] + 3),
                         (self.generation(self.host), self.generation(self.child)))
        self.reshape({self.child: {"VGPU": 4}}, self.moved())
        self.assertEqual((before[0] + 3, before[1] + 6),
                         (self.generation(self.host), self.generation(self.child)))

    def test_a_class_still_in_use_cannot_go(self):
        error = self.refused(errors.InventoryInUse, {
            self.host: {"VCPU": 16}, self.child: {"VGPU": 4}}, self.moved(self.consumers[:3]))
        self.assertEqual(f"update conflict: Inventory for 'VGPU' on resource provider "
                         f"'{self.host.uuid}' in use.", str(error))
        self.assertEqual("placement.inventory.inuse", error.code)
        error = self.refused(errors.InventoryInUse, {self.host: {}})
        self.assertIn("'VCPU, VGPU'", str(error))

    def test_generation_conflicts(self):
        actual = self.generation(self.host)
        error = self.refused(errors.ReshapedProviderConflict, {self.host: {"VCPU": 16}},
                             seen={self.host: 1})
        self.assertEqual(f"resource provider generation conflict for provider {self.host.uuid}: "
                         f"actual: {actual}, given: 1", str(error))
        self.assertEqual("placement.concurrent_update", error.code)
        writes = [self.write({self.host: {"VCPU": 2}}, consumer=self.consumers[0], seen=9)]
        self.refused(errors.ConsumerGenerationConflict,
                     {self.host: {"VCPU": 16, "VGPU": 4}}, writes)

    def test_unknown_names(self):
        error = self.assertRaises(
            errors.ReshapedProviderNotFound, reshaper.reshape, self.ctx, {"nobody": (0, {})}, [])
        self.assertIn("Resource provider nobody in inventories not found", str(error))
        self.assertEqual("placement.resource_provider.not_found", error.code)
        error = self.refused(errors.UnknownResourceClass, {self.host: {"COWS": 1}})
        self.assertEqual("malformed reshaper data: No such resource class COWS.", str(error))
        writes = [self.write({self.host: {"COWS": 2}}, consumer=self.consumers[0])]
        error = self.refused(errors.UnknownResourceClass, {self.child: {}}, writes)
        self.assertEqual("malformed reshaper data: No such resource class COWS.", str(error))
        writes = [self.write({"nobody": {"VCPU": 2}}, consumer=self.consumers[0])]
        self.refused(errors.AllocationForUnknownProvider, {self.child: {}}, writes)

    def test_allocations_are_judged_by_the_new_inventories(self):
        error = self.refused(errors.CapacityExceeded, {
            self.host: {"VCPU": 16}, self.child: {"VGPU": 3}}, self.moved())
        self.assertIn("Unable to allocate inventory", str(error))
        self.assertEqual((self.child.uuid, 4, 0, 3),
                         (error.uuid, error.asked, error.used, error.capacity))
        self.refused(errors.ConstraintsViolated, {
            self.host: {"VCPU": 16}, self.child: {"VGPU": InventoryValues(8, min_unit=2)}},
            self.moved())
        self.refused(errors.InventoryMissing, {self.host: {"VCPU": 16}}, self.moved())
        # One that is over-committed by the reshape itself may stay as it is.
        self.reshape({self.host: {"VCPU": 4, "VGPU": 4}},
                     [self.write({self.host: {"VCPU": 2, "VGPU": 1}},
                                 consumer=self.consumers[0], seen=1)])
        self.assertEqual({"VCPU": 8, "VGPU": 4}, self.used(self.host))

    def test_consumers_come_and_go(self):
        new = factories.new_uuid()
        self.reshape({self.child: {"VGPU": 4}}, [
            self.write({self.child: {"VGPU": 4}}, consumer=new, seen=None),
            self.write({}, consumer=self.consumers[0], seen=1)])
        self.assertEqual({"VGPU": 4}, self.used(self.child))
        self.assertEqual({"VCPU": 6, "VGPU": 3}, self.used(self.host))
        self.assertEqual(4, self.count(tables.consumers))

    def test_values_are_kept_as_given(self):
        values = InventoryValues(10, 2, 1, 7, 3, 1.5)
        self.reshape({self.child: {"MEMORY_MB": values}})
        found, = inventories.list_(self.ctx, self.child.uuid).inventories
        self.assertEqual(values, found.values)
        self.refused(errors.InvalidInventory,
                     {self.child: {"MEMORY_MB": InventoryValues(2**31)}})
        # Unlike PUT inventories: nothing may be left of it.
        self.reshape({self.child: {"MEMORY_MB": InventoryValues(10, reserved=20)}})
