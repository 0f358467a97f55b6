import functools
import uuid as uuids

import sqlalchemy as sa

from placement_core import db
from placement_core.placement import errors, inventories, providers, tables
from placement_core.placement.records import InventoryValues
from placement_core.testing import factories
from tests import base, databases, races


def _row(ctx, provider):
    with db.read(ctx) as session:
        return session.execute(
            sa.select(tables.resource_providers)
            .where(tables.resource_providers.c.uuid == provider.uuid)).one()


@databases.on_each_database
class TestProviders(base.DatabaseTestCase):

    def test_create_root(self):
        made = providers.create(self.ctx, name="numa")
        self.assertEqual(made, providers.get(self.ctx, made.uuid))
        self.assertEqual((0, made.uuid, None, None),
                         (made.generation, made.root_uuid, made.parent_uuid, made.updated_at))
        self.assertIsNotNone(made.created_at)
        self.assertEqual(made.id, _row(self.ctx, made).root_provider_id)

    def test_uuid_is_normalised(self):
        plain = uuids.uuid4()
        made = providers.create(self.ctx, name="a", uuid=f"urn:uuid:{plain.hex.upper()}")
        self.assertEqual(str(plain), made.uuid)
        self.assertRaises(errors.ProviderNotFound, providers.get, self.ctx, made.uuid.upper())

    def test_duplicates(self):
        made = providers.create(self.ctx, name="a")
        error = self.assertRaises(
            errors.DuplicateProvider, providers.create, self.ctx, name="b", uuid=made.uuid)
        self.assertEqual(
            f"Conflicting resource provider uuid: {made.uuid} already exists.", str(error))
        self.assertEqual("placement.duplicate_name", error.code)
        error = self.assertRaises(
            errors.DuplicateProvider, providers.create, self.ctx, name="a")
        self.assertEqual("Conflicting resource provider name: a already exists.", str(error))
        other = providers.create(self.ctx, name="c")
        error = self.assertRaises(errors.DuplicateProvider, providers.update, self.ctx,
                                  other.uuid, name="a", allow_reparenting=True)
        self.assertEqual("Conflicting resource provider a already exists.", str(error))

    def test_names_no_database_can_hold(self):
        made = providers.create(self.ctx, name="a")
        for name in ("", "x" * 201, "nul\0", "half \ud800"):
            self.assertRaises(errors.ProviderNotCreated, providers.create, self.ctx, name=name)
            self.assertRaises(errors.ProviderNotSaved, providers.update, self.ctx, made.uuid,
                              name=name, allow_reparenting=True)
        for name in ("x" * 200, "☃ 🐘"):
            self.assertEqual(name, providers.create(self.ctx, name=name).name)

    def test_strange_uuids_are_not_found(self):
        for uuid in ("", "\0", "x" * 10000, "\ud800", "🐘"):
            self.assertRaises(errors.ProviderNotFound, providers.get, self.ctx, uuid)
            self.assertRaises(errors.ProviderNotFound, providers.delete, self.ctx, uuid)

    def test_create_below(self):
        root = factories.provider(self.ctx)
        child = factories.provider(self.ctx, parent=root)
        grandchild = factories.provider(self.ctx, parent=child)
        self.assertEqual((child.uuid, root.uuid), (grandchild.parent_uuid, grandchild.root_uuid))
        self.assertEqual(0, providers.get(self.ctx, child.uuid).generation)

    def test_create_below_nothing(self):
        uuid, parent = factories.new_uuid(), factories.new_uuid()
        error = self.assertRaises(errors.ProviderNotCreated, providers.create, self.ctx,
                                  name="a", uuid=uuid, parent_uuid=parent)
        self.assertEqual(f'Unable to create resource provider "a", {uuid}: Object action create '
                         'failed because: parent provider UUID does not exist.', str(error))
        error = self.assertRaises(errors.ProviderNotCreated, providers.create, self.ctx,
                                  name="a", uuid=uuid, parent_uuid=uuid)
        self.assertIn("parent provider UUID cannot be same as UUID", str(error))

    def test_rename(self):
        made = providers.create(self.ctx, name="a")
        renamed = providers.update(self.ctx, made.uuid, name="b", allow_reparenting=False)
        self.assertEqual(("b", 0), (renamed.name, renamed.generation))
        self.assertIsNotNone(renamed.updated_at)
        self.assertEqual(1, _row(self.ctx, made).revision)
        self.assertEqual("b", providers.update(
            self.ctx, made.uuid, name="b", allow_reparenting=False).name)

    def test_rename_keeps_parent(self):
        root = factories.provider(self.ctx)
        child = factories.provider(self.ctx, parent=root)
        renamed = providers.update(self.ctx, child.uuid, name="c", allow_reparenting=False)
        self.assertEqual(root.uuid, renamed.parent_uuid)

    def test_reparenting_where_it_is_not_allowed(self):
        one, two = factories.provider(self.ctx), factories.provider(self.ctx)
        child = factories.provider(self.ctx)

        def move(parent_uuid):
            return providers.update(self.ctx, child.uuid, name="c", parent_uuid=parent_uuid,
                                    allow_reparenting=False)

        self.assertIsNone(move(None).parent_uuid)
        self.assertEqual(one.uuid, move(one.uuid).parent_uuid)
        self.assertEqual(one.uuid, move(one.uuid).parent_uuid)
        self.assertIn("re-parenting a provider is not currently allowed.",
                      str(self.assertRaises(errors.ProviderNotSaved, move, two.uuid)))
        self.assertIn("un-parenting a provider is not currently allowed.",
                      str(self.assertRaises(errors.ProviderNotSaved, move, None)))
        error = self.assertRaises(errors.ProviderNotSaved, move, factories.new_uuid())
        self.assertEqual(f"Unable to save resource provider {child.uuid}: Object action update "
                         "failed because: parent provider UUID does not exist.", str(error))

    def test_loops(self):
        root = factories.provider(self.ctx)
        child = factories.provider(self.ctx, parent=root)
        for parent in (root, child):
            for allowed in (True, False):
                error = self.assertRaises(
                    errors.ProviderNotSaved, providers.update, self.ctx, root.uuid, name="r",
                    parent_uuid=parent.uuid, allow_reparenting=allowed)
                self.assertIn("creating loop in the provider tree is not allowed.", str(error))

    def test_move_subtree(self):
        here, there = factories.provider(self.ctx), factories.provider(self.ctx)
        below = factories.provider(self.ctx, parent=there)
        top = factories.provider(self.ctx, parent=here)
        leaves = [factories.provider(self.ctx, parent=top) for _ in range(3)]
        moved = providers.update(
            self.ctx, top.uuid, name="t", parent_uuid=below.uuid, allow_reparenting=True)
        self.assertEqual((below.uuid, there.uuid, 0),
                         (moved.parent_uuid, moved.root_uuid, moved.generation))
        for leaf in leaves:
            self.assertEqual(there.uuid, providers.get(self.ctx, leaf.uuid).root_uuid)
        providers.update(self.ctx, top.uuid, name="t", parent_uuid=None, allow_reparenting=True)
        for leaf in leaves:
            self.assertEqual(top.uuid, providers.get(self.ctx, leaf.uuid).root_uuid)
        self.assertEqual(there.uuid, providers.get(self.ctx, below.uuid).root_uuid)

    def test_move_touches_the_whole_subtree(self):
        there = factories.provider(self.ctx)
        top = factories.provider(self.ctx)
        leaf = factories.provider(self.ctx, parent=top)
        with db.write(self.ctx) as session:
            providers.update(self.ctx, top.uuid, name="t", parent_uuid=there.uuid,
                             allow_reparenting=True)
            touched = {change.ref for change in session.recorded_changes
                       if change.kind == "provider"}
        self.assertEqual({there.id, top.id, leaf.id}, touched)

    def test_delete(self):
        made = factories.provider(
            self.ctx, inventory={"VCPU": 4}, traits=["CUSTOM_A"],
            aggregates=[factories.new_uuid()])
        providers.delete(self.ctx, made.uuid)
        self.assertRaises(errors.ProviderNotFound, providers.get, self.ctx, made.uuid)
        error = self.assertRaises(
            errors.ProviderNotFound, providers.delete, self.ctx, made.uuid)
        self.assertEqual(
            f"No resource provider with uuid {made.uuid} found for delete", str(error))
        with db.read(self.ctx) as session:
            for table in (tables.inventories, tables.resource_provider_traits,
                          tables.resource_provider_aggregates):
                self.assertEqual([], session.execute(sa.select(table)).all())

    def test_delete_parent(self):
        root = factories.provider(self.ctx)
        child = factories.provider(self.ctx, parent=root)
        error = self.assertRaises(
            errors.ProviderHasChildren, providers.delete, self.ctx, root.uuid)
        self.assertEqual(f"Unable to delete parent resource provider {root.uuid}: "
                         "It has child resource providers.", str(error))
        providers.delete(self.ctx, child.uuid)
        providers.delete(self.ctx, root.uuid)

    def test_roots_that_an_old_database_has_wrong(self):
        one, two = factories.provider(self.ctx), factories.provider(self.ctx)
        columns = tables.resource_providers.c
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.resource_providers)
                            .where(columns.id == one.id).values(root_provider_id=None))
            session.execute(sa.update(tables.resource_providers)
                            .where(columns.id == two.id).values(root_provider_id=one.id))
        self.assertEqual(one.uuid, providers.get(self.ctx, one.uuid).root_uuid)
        child = factories.provider(self.ctx, parent=one)
        self.assertEqual(one.uuid, child.root_uuid)
        providers.delete(self.ctx, child.uuid)
        if self.kind != "sqlite":  # which does not look at references
            self.assertRaises(errors.ProviderHasChildren, providers.delete, self.ctx, one.uuid)

    def test_delete_with_allocations(self):
        made = factories.provider(self.ctx, inventory={"VCPU": 4})
        with db.write(self.ctx) as session:
            session.execute(sa.insert(tables.allocations), {
                "resource_provider_id": made.id, "consumer_id": factories.new_uuid(),
                "resource_class_id": 0, "used": 1, "txn": 0})
        error = self.assertRaises(errors.ProviderInUse, providers.delete, self.ctx, made.uuid)
        self.assertEqual(f"Unable to delete resource provider {made.uuid}: "
                         "Resource provider has allocations.", str(error))
        self.assertEqual("placement.resource_provider.inuse", error.code)


@databases.on_each_database
class TestProviderRaces(base.DatabaseTestCase):

    def _create(self, **values):
        return providers.create(self.context(), **values)

    def _move(self, provider, parent):
        return providers.update(
            self.context(), provider.uuid, name=provider.name, parent_uuid=parent.uuid,
            allow_reparenting=True)

    def _delete(self, provider):
        return providers.delete(self.context(), provider.uuid)

    def _add_inventory(self, provider):
        return inventories.create(
            self.context(), provider.uuid, "VCPU", InventoryValues(4), allow_fully_reserved=True)

    def _inventory_rows(self):
        with db.read(self.ctx) as session:
            return session.execute(sa.select(tables.inventories)).all()

    def test_same_name_at_once(self):
        outcomes = races.run(*[functools.partial(self._create, name="same")] * 6)
        lost = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        self.assertEqual(["DuplicateProvider"] * 5, [type(error).__name__ for error in lost])

    def test_same_uuid_at_once(self):
        uuid = factories.new_uuid()
        outcomes = races.run(*(
            functools.partial(self._create, name=f"n{n}", uuid=uuid) for n in range(4)))
        lost = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        self.assertEqual(["DuplicateProvider"] * 3, [type(error).__name__ for error in lost])

    def test_two_moves_that_would_form_a_loop(self):
        for _ in range(5):
            one, two = factories.provider(self.ctx), factories.provider(self.ctx)
            low_one, low_two = (
                factories.provider(self.ctx, parent=factories.provider(self.ctx, parent=top))
                for top in (one, two))
            outcomes = races.run(functools.partial(self._move, one, low_two),
                                 functools.partial(self._move, two, low_one))
            lost = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
            self.assertEqual(1, len(lost), outcomes)
            self.assertIsInstance(lost[0], errors.ProviderNotSaved)
            self.assertIn("loop", str(lost[0]))
            root = two.uuid if outcomes[1] is lost[0] else one.uuid
            for provider in (one, two, low_one, low_two):
                self.assertEqual(root, providers.get(self.ctx, provider.uuid).root_uuid)

    def test_three_moves_that_would_form_a_loop(self):
        trees = [factories.provider(self.ctx) for _ in range(3)]
        leaves = [factories.provider(self.ctx, parent=top) for top in trees]
        outcomes = races.run(*(
            functools.partial(self._move, trees[n], leaves[(n + 1) % 3]) for n in range(3)))
        lost = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        self.assertEqual(["ProviderNotSaved"], [type(error).__name__ for error in lost])
        roots = {providers.get(self.ctx, provider.uuid).root_uuid for provider in trees + leaves}
        self.assertEqual(1, len(roots))

    def test_child_arrives_while_the_subtree_moves(self):
        for _ in range(5):
            there, top = factories.provider(self.ctx), factories.provider(self.ctx)
            below = factories.provider(self.ctx, parent=top)
            moved, child = races.run(
                functools.partial(self._move, top, there),
                functools.partial(self._create, name=factories.new_uuid(),
                                  parent_uuid=below.uuid))
            self.assertEqual(there.uuid, moved.root_uuid)
            self.assertEqual(there.uuid, providers.get(self.ctx, child.uuid).root_uuid)

    def test_child_arrives_in_the_middle_of_a_move(self):
        there, top = factories.provider(self.ctx), factories.provider(self.ctx)
        below = factories.provider(self.ctx, parent=top)

        def add_child(paused):
            ctx = self.context()
            with db.write(ctx):
                child = factories.provider(ctx, parent=below)
                paused.here()
            return child

        with races.Paused(add_child) as paused:
            moved = paused.against(self.database, functools.partial(self._move, top, there))
        self.assertEqual(there.uuid, moved.root_uuid)
        self.assertEqual(there.uuid, providers.get(self.ctx, paused.outcome.uuid).root_uuid)

    def test_delete_while_a_child_arrives(self):
        for _ in range(5):
            parent = factories.provider(self.ctx)
            gone, made = races.run(
                functools.partial(self._delete, parent),
                functools.partial(self._create, name=factories.new_uuid(),
                                  parent_uuid=parent.uuid))
            if isinstance(made, Exception):
                self.assertIsNone(gone)
                self.assertIsInstance(made, errors.ProviderNotCreated)
            else:
                self.assertIsInstance(gone, errors.ProviderHasChildren)

    def test_delete_waits_for_an_inventory_that_arrives(self):
        made = factories.provider(self.ctx)

        def add(paused):
            ctx = self.context()
            with db.write(ctx):
                inventories.create(
                    ctx, made.uuid, "VCPU", InventoryValues(4), allow_fully_reserved=True)
                paused.here()

        with races.Paused(add) as paused:
            # The deletion waits for the row that the paused transaction holds,
            # and sees the inventory when it gets it.
            outcome = paused.against(self.database, functools.partial(self._delete, made))
        self.assertIsNone(outcome)
        self.assertIsNone(paused.outcome)
        self.assertEqual([], self._inventory_rows())

    def test_delete_while_an_inventory_arrives(self):
        for _ in range(5):
            made = factories.provider(self.ctx)
            gone, added = races.run(functools.partial(self._delete, made),
                                    functools.partial(self._add_inventory, made))
            self.assertIsNone(gone)
            if isinstance(added, Exception):
                self.assertIsInstance(added, errors.ProviderNotFound)
            self.assertEqual([], self._inventory_rows())
