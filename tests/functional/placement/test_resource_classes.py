import functools

import os_resource_classes
import sqlalchemy as sa

from placement_core import db
from placement_core.placement import errors, inventories, resource_classes, standard, tables
from placement_core.placement.records import InventoryValues
from placement_core.testing import factories
from tests import base, databases, races


class ClassTestCase(base.DatabaseTestCase):

    def ids(self):
        with db.read(self.ctx) as session:
            found = session.execute(
                sa.select(tables.resource_classes.c.name, tables.resource_classes.c.id)
                .where(tables.resource_classes.c.id >= 10000)).all()
        return {row.name: row.id for row in found}


@databases.on_each_database
class TestResourceClasses(ClassTestCase):

    def test_list(self):
        resource_classes.create(self.ctx, "CUSTOM_B")
        resource_classes.create(self.ctx, "CUSTOM_A")
        self.assertEqual([*os_resource_classes.STANDARDS, "CUSTOM_B", "CUSTOM_A"],
                         [item.name for item in resource_classes.list_(self.ctx)])

    def test_get(self):
        self.assertEqual("VCPU", resource_classes.get(self.ctx, "VCPU").name)
        for name in ("CUSTOM_X", "vcpu", "", "\0", "a" * 9999, "\ud800", "VCPU\n", "VCPU "):
            error = self.assertRaises(
                errors.ResourceClassNotFound, resource_classes.get, self.ctx, name)
            self.assertEqual(f"No such resource class {name}.", str(error))

    def test_create(self):
        made = resource_classes.create(self.ctx, "CUSTOM_A")
        self.assertEqual(("CUSTOM_A", None), (made.name, made.updated_at))
        self.assertIsNotNone(made.created_at)
        error = self.assertRaises(
            errors.ResourceClassExists, resource_classes.create, self.ctx, "CUSTOM_A")
        self.assertEqual("Conflicting resource class already exists: CUSTOM_A", str(error))

    def test_bad_names(self):
        resource_classes.create(self.ctx, "CUSTOM_A")
        for name in ("VCPU", "CUSTOM_", "CUSTOM_a", "CUSTOM_A\n", "CUSTOM_\0", "CUSTOM_É",
                     "CUSTOM_" + "A" * 249, ""):
            for function in (resource_classes.create, resource_classes.ensure):
                self.assertRaises(errors.InvalidResourceClassName, function, self.ctx, name)
            self.assertRaises(errors.InvalidResourceClassName, resource_classes.rename,
                              self.ctx, "CUSTOM_A", name)
        longest = "CUSTOM_" + "A" * 248
        self.assertEqual(longest, resource_classes.create(self.ctx, longest).name)

    def test_ensure(self):
        made, created = resource_classes.ensure(self.ctx, "CUSTOM_A")
        self.assertTrue(created)
        again, created = resource_classes.ensure(self.ctx, "CUSTOM_A")
        self.assertFalse(created)
        self.assertEqual(made.name, again.name)

    def test_rename(self):
        resource_classes.create(self.ctx, "CUSTOM_A")
        ids = self.ids()
        provider = factories.provider(self.ctx, inventory={"CUSTOM_A": 3})
        renamed = resource_classes.rename(self.ctx, "CUSTOM_A", "CUSTOM_B")
        self.assertEqual("CUSTOM_B", renamed.name)
        self.assertEqual({"CUSTOM_B": ids["CUSTOM_A"]}, self.ids())
        self.assertEqual(
            "CUSTOM_B",
            inventories.get(self.ctx, provider.uuid, "CUSTOM_B")[0].resource_class)
        error = self.assertRaises(
            errors.StandardResourceClass, resource_classes.rename, self.ctx, "VCPU", "CUSTOM_C")
        self.assertEqual("Cannot update standard resource class VCPU", str(error))
        self.assertRaises(errors.ResourceClassNotFound,
                          resource_classes.rename, self.ctx, "CUSTOM_A", "CUSTOM_C")
        resource_classes.create(self.ctx, "CUSTOM_A")
        error = self.assertRaises(errors.ResourceClassExists, resource_classes.rename,
                                  self.ctx, "CUSTOM_A", "CUSTOM_B")
        self.assertEqual("Resource class already exists: CUSTOM_B", str(error))

    def test_delete(self):
        resource_classes.create(self.ctx, "CUSTOM_A")
        provider = factories.provider(self.ctx, inventory={"CUSTOM_A": 3})
        error = self.assertRaises(
            errors.ResourceClassInUse, resource_classes.delete, self.ctx, "CUSTOM_A")
        self.assertIn("Error in delete resource class: ", str(error))
        self.assertIn("Class is in use in inventory.", str(error))
        inventories.delete_all(self.ctx, provider.uuid)
        resource_classes.delete(self.ctx, "CUSTOM_A")
        self.assertRaises(errors.ResourceClassNotFound,
                          resource_classes.delete, self.ctx, "CUSTOM_A")
        error = self.assertRaises(
            errors.StandardResourceClass, resource_classes.delete, self.ctx, "VCPU")
        self.assertEqual("Error in delete resource class: Cannot delete standard resource "
                         "class VCPU.", str(error))

    def test_ids_are_not_used_again(self):
        names = [f"CUSTOM_{n}" for n in range(4)]
        for name in names:
            resource_classes.create(self.ctx, name)
        ids = self.ids()
        self.assertEqual(list(range(ids["CUSTOM_0"], ids["CUSTOM_0"] + 4)),
                         [ids[name] for name in names])
        for name in names:
            resource_classes.delete(self.ctx, name)
        resource_classes.create(self.ctx, "CUSTOM_NEW")
        self.assertEqual(ids["CUSTOM_3"] + 1, self.ids()["CUSTOM_NEW"])

    def test_ids_left_over_in_an_adopted_database(self):
        with db.write(self.ctx) as session:
            session.execute(sa.insert(tables.resource_classes),
                            {"id": 20000, "name": "CUSTOM_OLD", "revision": 0})
            session.execute(sa.insert(tables.allocations), {
                "resource_provider_id": 1, "consumer_id": factories.new_uuid(),
                "resource_class_id": 20007, "used": 1, "txn": 0})
        resource_classes.create(self.ctx, "CUSTOM_A")
        self.assertEqual(20008, self.ids()["CUSTOM_A"])

    def test_delete_with_allocations_alone(self):
        resource_classes.create(self.ctx, "CUSTOM_A")
        with db.write(self.ctx) as session:
            session.execute(sa.insert(tables.allocations), {
                "resource_provider_id": 1, "consumer_id": factories.new_uuid(),
                "resource_class_id": self.ids()["CUSTOM_A"], "used": 1, "txn": 0})
        self.assertRaises(
            errors.ResourceClassInUse, resource_classes.delete, self.ctx, "CUSTOM_A")

    def test_making_inventory_does_not_change_the_class(self):
        before = resource_classes.create(self.ctx, "CUSTOM_A")
        factories.provider(self.ctx, inventory={"CUSTOM_A": 3})
        self.assertIsNone(resource_classes.get(self.ctx, "CUSTOM_A").updated_at)
        self.assertIsNone(before.updated_at)

    def test_writes_are_logged(self):
        for write in (
            functools.partial(resource_classes.create, self.ctx, "CUSTOM_A"),
            functools.partial(resource_classes.rename, self.ctx, "CUSTOM_A", "CUSTOM_B"),
            functools.partial(resource_classes.delete, self.ctx, "CUSTOM_B"),
        ):
            with db.write(self.ctx) as session:
                write()
                self.assertEqual(
                    ["resource_class"], [change.kind for change in session.recorded_changes])

    def test_missing_standard_names_come_back(self):
        with db.write(self.ctx) as session:
            session.execute(sa.delete(tables.resource_classes)
                            .where(tables.resource_classes.c.name == "VGPU"))
            session.execute(sa.delete(tables.traits)
                            .where(tables.traits.c.name == "HW_CPU_X86_AVX2"))
        self.assertEqual([None] * 4, races.run(*(
            functools.partial(standard.ensure, self.context()) for _ in range(4))))
        self.assertEqual(list(os_resource_classes.STANDARDS),
                         [item.name for item in resource_classes.list_(self.ctx)])
        with db.read(self.ctx) as session:
            self.assertIsNotNone(session.execute(
                sa.select(tables.traits).where(tables.traits.c.name == "HW_CPU_X86_AVX2")
            ).first())
        with db.write(self.ctx) as session:
            standard.ensure(self.ctx)
            self.assertEqual(set(), session.recorded_changes)


@databases.on_each_database
class TestResourceClassRaces(ClassTestCase):

    def test_same_class_at_once(self):
        outcomes = races.run(*(
            functools.partial(resource_classes.create, self.context(), "CUSTOM_A")
            for _ in range(5)))
        lost = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        self.assertEqual(["ResourceClassExists"] * 4, [type(error).__name__ for error in lost])

    def test_ensure_at_once(self):
        outcomes = races.run(*(
            functools.partial(resource_classes.ensure, self.context(), "CUSTOM_A")
            for _ in range(6)))
        self.assertEqual([False] * 5 + [True], sorted(created for _, created in outcomes))

    def test_many_classes_at_once(self):
        names = [f"CUSTOM_{n}" for n in range(12)]
        races.run(*(functools.partial(resource_classes.create, self.context(), name)
                    for name in names))
        ids = self.ids()
        self.assertEqual(set(names), set(ids))
        self.assertEqual(12, len(set(ids.values())))

    def test_delete_while_inventory_is_made(self):
        provider = factories.provider(self.ctx)
        for _ in range(5):
            resource_classes.ensure(self.ctx, "CUSTOM_A")
            gone, made = races.run(
                functools.partial(resource_classes.delete, self.context(), "CUSTOM_A"),
                functools.partial(
                    inventories.create, self.context(), provider.uuid, "CUSTOM_A",
                    InventoryValues(1), allow_fully_reserved=True))
            if gone is None:
                self.assertIsInstance(made, errors.UnknownResourceClass)
            else:
                self.assertIsInstance(gone, errors.ResourceClassInUse)
                inventories.delete_all(self.ctx, provider.uuid)

    def test_delete_waits_for_inventory_that_is_being_made(self):
        provider = factories.provider(self.ctx)
        resource_classes.create(self.ctx, "CUSTOM_A")

        def make(paused):
            ctx = self.context()
            with db.write(ctx):
                inventories.create(ctx, provider.uuid, "CUSTOM_A", InventoryValues(1),
                                   allow_fully_reserved=True)
                paused.here()

        with races.Paused(make) as paused:
            outcome = paused.against(self.database, functools.partial(
                resource_classes.delete, self.context(), "CUSTOM_A"))
        self.assertIsNone(paused.outcome)
        self.assertIsInstance(outcome, errors.ResourceClassInUse)

    def test_inventory_waits_for_a_class_that_is_being_removed(self):
        provider = factories.provider(self.ctx)
        resource_classes.create(self.ctx, "CUSTOM_A")

        def remove(paused):
            ctx = self.context()
            with db.write(ctx):
                resource_classes.delete(ctx, "CUSTOM_A")
                paused.here()

        with races.Paused(remove) as paused:
            outcome = paused.against(self.database, functools.partial(
                inventories.replace, self.context(), provider.uuid,
                {"CUSTOM_A": InventoryValues(1)}, generation=0, allow_fully_reserved=True))
        self.assertIsNone(paused.outcome)
        self.assertIsInstance(outcome, errors.UnknownResourceClass)
