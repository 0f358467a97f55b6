import dataclasses
import functools

import sqlalchemy as sa

from placement_core import db
from placement_core.placement import (
    errors,
    inventories,
    locks,
    providers,
    resource_classes,
    tables,
)
from placement_core.placement.records import InventoryValues
from placement_core.testing import factories
from tests import base, databases, races

_BIG = InventoryValues(
    total=2147483647, reserved=0, min_unit=1, max_unit=2147483647, step_size=2147483647,
    allocation_ratio=3.40282e38)


class InventoryTestCase(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.provider = factories.provider(self.ctx)

    def create(self, name, values, **options):
        options.setdefault("allow_fully_reserved", True)
        return inventories.create(self.ctx, self.provider.uuid, name, values, **options)

    def update(self, name, values, generation, **options):
        options.setdefault("allow_fully_reserved", True)
        return inventories.update(
            self.ctx, self.provider.uuid, name, values, generation=generation, **options)

    def replace(self, wanted, generation, ctx=None, **options):
        options.setdefault("allow_fully_reserved", True)
        return inventories.replace(
            ctx or self.ctx, self.provider.uuid, wanted, generation=generation, **options)

    def generation(self):
        return providers.get(self.ctx, self.provider.uuid).generation

    def stored(self):
        with db.read(self.ctx) as session:
            found = session.execute(sa.select(tables.inventories)).all()
        return {row.resource_class_id: row for row in found}

    def allocate(self, class_id, used=1):
        """Write an allocation as if by upstream: ``used`` of the inventory unknown."""
        with db.write(self.ctx) as session:
            locks.lock_providers(session, {self.provider.id: 0})
            session.execute(sa.insert(tables.allocations), {
                "resource_provider_id": self.provider.id, "consumer_id": factories.new_uuid(),
                "resource_class_id": class_id, "used": used, "txn": session.txn})


@databases.on_each_database
class TestInventories(InventoryTestCase):

    def test_create(self):
        values = InventoryValues(total=10, reserved=2, max_unit=4, allocation_ratio=1.5)
        made, generation = self.create("VCPU", values)
        self.assertEqual(("VCPU", values, 0, 1),
                         (made.resource_class, made.values, made.used, generation))
        self.assertIsNotNone(made.created_at)
        self.assertIsNone(made.updated_at)
        self.assertEqual((made, 1), inventories.get(self.ctx, self.provider.uuid, "VCPU"))
        self.assertEqual(12, self.stored()[0].capacity)

    def test_create_again(self):
        self.create("VCPU", InventoryValues(1))
        error = self.assertRaises(
            errors.InventoryExists, self.create, "VCPU", InventoryValues(1))
        self.assertIn("Update conflict: ", str(error))
        self.assertEqual(errors.CONCURRENT_UPDATE, error.code)
        self.assertEqual(1, self.generation())

    def test_create_of_unknown_class(self):
        for name in ("CUSTOM_HOUSE", "vcpu", "", "\0", "x" * 5000, "\ud800"):
            error = self.assertRaises(
                errors.UnknownResourceClass, self.create, name, InventoryValues(1))
            self.assertEqual(
                f"Unable to create inventory for resource provider {self.provider.uuid}: "
                f"No such resource class {name}.", str(error))
        self.assertEqual(0, self.generation())

    def test_no_provider(self):
        uuid, values = factories.new_uuid(), InventoryValues(1)
        options = {"generation": 0, "allow_fully_reserved": True}
        for call in (
            functools.partial(inventories.list_, self.ctx, uuid),
            functools.partial(inventories.get, self.ctx, uuid, "VCPU"),
            functools.partial(inventories.create, self.ctx, uuid, "VCPU", values,
                              allow_fully_reserved=True),
            functools.partial(inventories.update, self.ctx, uuid, "VCPU", values, **options),
            functools.partial(inventories.replace, self.ctx, uuid, {}, **options),
            functools.partial(inventories.delete, self.ctx, uuid, "VCPU"),
            functools.partial(inventories.delete_all, self.ctx, uuid),
        ):
            self.assertRaises(errors.ProviderNotFound, call)

    def test_get_what_is_not_there(self):
        error = self.assertRaises(errors.InventoryNotFound, inventories.get, self.ctx,
                                  self.provider.uuid, "HOUSE")
        self.assertEqual(f"No inventory of class HOUSE for {self.provider.uuid}", str(error))

    def test_reserved(self):
        uuid = self.provider.uuid
        full = InventoryValues(total=5, reserved=5)
        error = self.assertRaises(errors.InvalidInventory, self.create, "VCPU", full,
                                  allow_fully_reserved=False)
        self.assertEqual(
            f"Unable to create inventory for resource provider {uuid}: Invalid inventory for "
            f"'VCPU' on resource provider '{uuid}'. The reserved value is greater than or "
            "equal to total.", str(error))
        more = dataclasses.replace(full, reserved=6)
        error = self.assertRaises(errors.InvalidInventory, self.create, "VCPU", more)
        self.assertIn("The reserved value is greater than total.", str(error))
        error = self.assertRaises(errors.InvalidInventory, self.replace, {"VCPU": more}, 0)
        self.assertIn(f"Unable to update inventory for resource provider {uuid}: ", str(error))
        self.assertEqual(0, self.generation())
        self.create("VCPU", full)
        self.assertEqual(0, self.stored()[0].capacity)

    def test_values_no_row_can_hold(self):
        for wrong in (
            {"total": 2**31}, {"total": 10**40}, {"total": 0}, {"reserved": -1},
            {"min_unit": 0}, {"step_size": 2**63}, {"max_unit": 2**64}, {"total": 1.5},
            {"allocation_ratio": float("nan")}, {"allocation_ratio": float("inf")},
            {"allocation_ratio": float("-inf")}, {"allocation_ratio": 10**400},
            {"allocation_ratio": 3.5e38}, {"reserved": 1, "allocation_ratio": -1e300},
        ):
            values = InventoryValues(**{"total": 1, **wrong})
            self.assertRaises(errors.InvalidInventory, self.create, "VCPU", values)
        self.assertEqual(0, self.generation())

    def test_extreme_values(self):
        made, _ = self.create("VCPU", _BIG)
        self.assertEqual(_BIG, made.values)
        self.assertEqual(2**63 - 1, self.stored()[0].capacity)
        self.assertEqual(2147483647, self.stored()[0].step_size)
        for ratio in (1e-320, 0.0, 1e-30):
            self.update("VCPU", InventoryValues(1, allocation_ratio=ratio), self.generation())
            self.assertEqual(0, self.stored()[0].capacity)

    def test_whole_numbers_written_as_floats(self):
        made, _ = self.create("VCPU", InventoryValues(total=8.0, max_unit=4.0))
        self.assertIs(int, type(made.values.total))
        self.assertIs(int, type(made.values.max_unit))

    def test_capacity_is_computed_from_the_ratio_given(self):
        self.create("VCPU", InventoryValues(10, allocation_ratio=0.7))
        self.assertEqual(7, self.stored()[0].capacity)
        self.create("DISK_GB", InventoryValues(1000000, allocation_ratio=1.1))
        self.assertEqual(1100000, self.stored()[2].capacity)

    def test_update(self):
        self.create("VCPU", InventoryValues(4))
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.inventories).values(used=3))
        before = self.stored()[0]
        made, generation = self.update("VCPU", InventoryValues(2, allocation_ratio=8.0), 1)
        self.assertEqual((InventoryValues(2, allocation_ratio=8.0), 3, 2),
                         (made.values, made.used, generation))
        after = self.stored()[0]
        self.assertEqual((before.id, 3, 16), (after.id, after.used, after.capacity))
        self.assertEqual(before.created_at, after.created_at)
        self.assertIsNotNone(after.updated_at)

    def test_update_refusals_come_in_order(self):
        self.create("VCPU", InventoryValues(4))
        impossible = InventoryValues(1, reserved=2)
        error = self.assertRaises(
            errors.ProviderGenerationConflict, self.update, "NO_CLASS", impossible, 0)
        self.assertEqual("resource provider generation conflict", str(error))
        self.assertEqual(errors.CONCURRENT_UPDATE, error.code)
        self.assertRaises(errors.InvalidInventory, self.update, "NO_CLASS", impossible, 1)
        error = self.assertRaises(
            errors.ResourceClassNotFound, self.update, "NO_CLASS", InventoryValues(1), 1)
        self.assertEqual("No such resource class NO_CLASS.", str(error))
        error = self.assertRaises(
            errors.InventoryNotThere, self.update, "DISK_GB", InventoryValues(1), 1)
        self.assertIn("No inventory record with resource class", str(error))
        self.assertEqual(1, self.generation())

    def test_generations_no_row_can_have(self):
        for generation in (-1, 2**31, 2**63, 10**40, 7):
            self.assertRaises(errors.ProviderGenerationConflict, self.replace, {}, generation)

    def test_replace(self):
        self.create("VCPU", InventoryValues(4))
        self.create("DISK_GB", InventoryValues(100))
        kept = self.stored()[0]
        written = self.replace(
            {"MEMORY_MB": InventoryValues(512), "VCPU": InventoryValues(4)}, 2)
        self.assertEqual(3, written.generation)
        self.assertEqual(["VCPU", "MEMORY_MB"],
                         [inventory.resource_class for inventory in written.inventories])
        self.assertEqual(written, inventories.list_(self.ctx, self.provider.uuid))
        self.assertEqual(kept, self.stored()[0])

    def test_replace_with_nothing(self):
        self.assertEqual(1, self.replace({}, 0).generation)
        self.create("VCPU", InventoryValues(4))
        self.assertEqual((), self.replace({}, 2).inventories)
        self.assertEqual({}, self.stored())

    def test_replace_with_unknown_classes(self):
        for name in ("CUSTOM_HOUSE", "a b", "", "\0"):
            error = self.assertRaises(
                errors.UnknownResourceClass, self.replace, {name: InventoryValues(1)}, 0)
            self.assertEqual(
                f"Unknown resource class in inventory for resource provider "
                f"{self.provider.uuid}: No such resource class {name}.", str(error))
        many = {f"CUSTOM_{n}": InventoryValues(1) for n in range(70000)}
        self.assertRaises(errors.UnknownResourceClass, self.replace, many, 0)

    def test_replace_with_many_classes(self):
        names = [f"CUSTOM_{n}" for n in range(250)]
        with db.write(self.ctx):
            for name in names:
                resource_classes.create(self.ctx, name)
        written = self.replace({name: InventoryValues(1) for name in names}, 0)
        self.assertEqual(set(names), {item.resource_class for item in written.inventories})

    def test_shrink_below_usage(self):
        self.create("VCPU", InventoryValues(4))
        self.allocate(0, used=4)
        self.replace({"VCPU": InventoryValues(1)}, 1)
        self.assertEqual(1, self.stored()[0].capacity)

    def test_in_use(self):
        uuid = self.provider.uuid
        self.replace({name: InventoryValues(4) for name in ("DISK_GB", "MEMORY_MB", "VCPU")}, 0)
        self.allocate(2)
        self.allocate(0)
        self.allocate(0)
        sentence = f"Inventory for 'VCPU, DISK_GB' on resource provider '{uuid}' in use."
        error = self.assertRaises(errors.InventoryInUse, self.replace, {}, 1)
        self.assertEqual(("placement.inventory.inuse", f"update conflict: {sentence}"),
                         (error.code, str(error)))
        error = self.assertRaises(
            errors.InventoryInUse, inventories.delete_all, self.ctx, uuid)
        self.assertEqual(("placement.inventory.inuse", sentence), (error.code, str(error)))
        error = self.assertRaises(
            errors.InventoryInUse, inventories.delete, self.ctx, uuid, "VCPU")
        self.assertEqual(
            (errors.CONCURRENT_UPDATE, "Unable to delete inventory of class VCPU: "
             f"Inventory for 'VCPU' on resource provider '{uuid}' in use."),
            (error.code, str(error)))
        self.assertEqual((1, 3), (self.generation(), len(self.stored())))
        inventories.delete(self.ctx, uuid, "MEMORY_MB")
        self.assertEqual(2, len(self.stored()))

    def test_delete(self):
        self.create("VCPU", InventoryValues(4))
        self.create("DISK_GB", InventoryValues(4))
        inventories.delete(self.ctx, self.provider.uuid, "VCPU")
        self.assertEqual({2}, set(self.stored()))
        for name in ("VCPU", "NO_CLASS"):
            error = self.assertRaises(errors.InventoryNotFoundForDelete, inventories.delete,
                                      self.ctx, self.provider.uuid, name)
            self.assertIn(f"No inventory of class {name} found for delete: ", str(error))
        self.assertEqual(3, self.generation())
        inventories.delete_all(self.ctx, self.provider.uuid)
        inventories.delete_all(self.ctx, self.provider.uuid)
        self.assertEqual(({}, 5), (self.stored(), self.generation()))

    def test_every_write_is_logged(self):
        touched = [("provider", self.provider.id)]
        for write in (
            functools.partial(self.create, "VCPU", InventoryValues(4)),
            functools.partial(self.update, "VCPU", InventoryValues(4), 1),
            functools.partial(self.replace, {"VCPU": InventoryValues(4)}, 2),
            functools.partial(inventories.delete, self.ctx, self.provider.uuid, "VCPU"),
            functools.partial(inventories.delete_all, self.ctx, self.provider.uuid),
        ):
            with db.write(self.ctx) as session:
                write()
                self.assertEqual(touched, [
                    (change.kind, change.ref) for change in session.recorded_changes])


@databases.on_each_database
class TestInventoryRaces(InventoryTestCase):

    def test_one_generation_one_winner(self):
        for generation in range(5):
            outcomes = races.run(*(
                functools.partial(self.replace, {"VCPU": InventoryValues(n + 1)}, generation,
                                  ctx=self.context())
                for n in range(4)))
            won = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
            self.assertEqual(1, len(won), outcomes)
            for outcome in outcomes:
                if outcome is not won[0]:
                    self.assertIsInstance(outcome, errors.ProviderGenerationConflict)
            self.assertEqual(won[0], inventories.list_(self.ctx, self.provider.uuid))

    def test_create_at_once(self):
        outcomes = races.run(*(
            functools.partial(
                inventories.create, self.context(), self.provider.uuid, "VCPU",
                InventoryValues(1), allow_fully_reserved=True)
            for _ in range(5)))
        lost = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        self.assertEqual(["InventoryExists"] * 4, [type(error).__name__ for error in lost])
        self.assertEqual(1, self.generation())

    def test_create_different_ones_at_once(self):
        names = ["VCPU", "MEMORY_MB", "DISK_GB", "PCPU", "VGPU"]
        outcomes = races.run(*(
            functools.partial(
                inventories.create, self.context(), self.provider.uuid, name,
                InventoryValues(1), allow_fully_reserved=True)
            for name in names))
        self.assertEqual({1, 2, 3, 4, 5}, {generation for _, generation in outcomes})

    def test_removal_waits_for_an_allocation_that_arrives(self):
        self.create("VCPU", InventoryValues(4))

        def allocate(paused):
            ctx = self.context()
            with db.write(ctx) as session:
                locks.lock_providers(session, {self.provider.id: 1})
                session.execute(sa.insert(tables.allocations), {
                    "resource_provider_id": self.provider.id,
                    "consumer_id": factories.new_uuid(),
                    "resource_class_id": 0, "used": 1, "txn": session.txn})
                paused.here()

        with races.Paused(allocate) as paused:
            outcome = paused.against(self.database, functools.partial(
                inventories.delete_all, self.context(), self.provider.uuid))
        self.assertIsNone(paused.outcome)
        self.assertIsInstance(outcome, errors.InventoryInUse)
