"""Spec placement_api §1.8, line by line: which write raises which generation.

Beside it: every write that touches a provider raises its ``revision``, also
those that leave its generation alone.
"""

import functools

import sqlalchemy as sa

from placement_core import db
from placement_core.placement import (
    aggregates,
    allocations,
    errors,
    inventories,
    providers,
    tables,
    traits,
)
from placement_core.placement.allocations import reshaper
from placement_core.placement.records import ANY_GENERATION, AllocationWrite, InventoryValues
from placement_core.testing import factories
from tests import base, databases, races

_OWNER = {"project_id": "project", "user_id": "user"}


class GenerationTestCase(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.provider, self.other = (
            factories.provider(self.ctx, inventory={"VCPU": 8}) for _ in range(2))
        self.consumer = factories.new_uuid()

    def _state(self, provider):
        with db.read(self.ctx) as session:
            return session.execute(
                sa.select(tables.resource_providers.c.generation,
                          tables.resource_providers.c.revision)
                .where(tables.resource_providers.c.id == provider.id)).one()

    def assertSteps(self, steps, write, *, touched=True):
        """Check how far ``write`` raises the generations of both providers.

        :param steps: of ``provider``, or of (``provider``, ``other``).
        :param touched: whether the revision of ``provider`` rises.
        """
        watched = (self.provider, self.other)
        before = [self._state(provider) for provider in watched]
        write()
        after = [self._state(provider) for provider in watched]
        expected = steps if isinstance(steps, tuple) else (steps, 0)
        self.assertEqual(expected, tuple(
            now.generation - then.generation for now, then in zip(after, before, strict=True)))
        if touched:
            self.assertGreater(after[0].revision, before[0].revision)
        else:
            self.assertEqual(after[0].revision, before[0].revision)

    def generation(self):
        return self._state(self.provider).generation

    def write(self, consumer=None, *, held, expected=ANY_GENERATION):
        """Return the allocation write of {provider: VCPU}."""
        return AllocationWrite(
            consumer or self.consumer,
            {provider.uuid: {"VCPU": used} for provider, used in held.items()},
            expected_generation=expected, **_OWNER)

    def allocate(self, consumer=None, *, held, expected=ANY_GENERATION):
        allocations.replace(self.ctx, [self.write(consumer, held=held, expected=expected)])


@databases.on_each_database
class TestProviderGenerations(GenerationTestCase):

    def test_new(self):
        self.assertEqual(0, providers.create(self.ctx, name="new").generation)

    def test_rename_and_reparent(self):
        update = functools.partial(
            providers.update, self.ctx, self.provider.uuid, allow_reparenting=True)
        self.assertSteps(0, lambda: update(name="b"))
        self.assertSteps(0, lambda: update(name="b", parent_uuid=self.other.uuid))
        self.assertSteps(0, lambda: update(name="b", parent_uuid=None))

    def test_child_comes_and_goes(self):
        child = factories.new_uuid()
        self.assertSteps(0, lambda: providers.create(
            self.ctx, name="child", uuid=child, parent_uuid=self.provider.uuid))
        self.assertSteps(0, lambda: providers.delete(self.ctx, child), touched=False)

    def test_inventories(self):
        uuid, values = self.provider.uuid, InventoryValues(8)
        options = {"allow_fully_reserved": True}
        self.assertSteps(1, lambda: inventories.create(
            self.ctx, uuid, "DISK_GB", values, **options))
        for _ in range(2):
            self.assertSteps(1, lambda: inventories.update(
                self.ctx, uuid, "DISK_GB", values, generation=self.generation(), **options))
            self.assertSteps(1, lambda: inventories.replace(
                self.ctx, uuid, {"VCPU": values, "DISK_GB": values},
                generation=self.generation(), **options))
        self.assertSteps(1, lambda: inventories.delete(self.ctx, uuid, "DISK_GB"))
        for _ in range(2):
            self.assertSteps(1, lambda: inventories.delete_all(self.ctx, uuid))

    def test_traits(self):
        def replace(*names):
            return traits.replace_for_provider(
                self.ctx, self.provider.uuid, names, generation=self.generation())

        def delete():
            traits.delete_for_provider(self.ctx, self.provider.uuid)

        self.assertSteps(0, replace)
        self.assertSteps(0, delete)
        self.assertSteps(1, lambda: replace("HW_CPU_X86_MMX"))
        self.assertSteps(0, lambda: replace("HW_CPU_X86_MMX", "HW_CPU_X86_MMX"))
        self.assertSteps(1, lambda: replace("HW_CPU_X86_AVX"))
        self.assertSteps(1, delete)

    def test_traits_answer_with_the_generation(self):
        generation = self.generation()
        for raised, names in ((0, []), (1, ["HW_CPU_X86_MMX"]), (1, ["HW_CPU_X86_MMX"])):
            written = traits.replace_for_provider(
                self.ctx, self.provider.uuid, names, generation=self.generation())
            self.assertEqual(
                (generation + raised, self.generation()),
                (written.generation, written.generation))

    def test_aggregates(self):
        def replace(uuids, generation):
            aggregates.replace_for_provider(
                self.ctx, self.provider.uuid, uuids, generation=generation)

        uuids = [factories.new_uuid()]
        for _ in range(2):
            self.assertSteps(1, lambda: replace(uuids, self.generation()))
            self.assertSteps(0, lambda: replace(uuids, None))
        self.assertSteps(0, lambda: replace([], None))
        self.assertSteps(1, lambda: replace([], self.generation()))

    def test_allocations_raise_every_provider_they_name(self):
        self.assertSteps(1, lambda: self.allocate(held={self.provider: 1}))
        self.assertSteps(1, lambda: self.allocate(held={self.provider: 1}))
        self.assertSteps((1, 1), lambda: self.allocate(held={self.provider: 1, self.other: 1}))

    def test_allocations_leave_those_behind_that_they_do_not_name(self):
        self.allocate(held={self.provider: 1})
        self.assertSteps((0, 1), lambda: self.allocate(held={self.other: 1}))

    def test_empty_allocations_raise_those_that_are_left(self):
        self.allocate(held={self.provider: 1, self.other: 1})
        self.assertSteps((1, 1), lambda: self.allocate(held={}))

    def test_many_allocations_raise_once_for_each_request(self):
        self.assertSteps((1, 1), lambda: allocations.replace(self.ctx, [
            self.write(factories.new_uuid(), held=held)
            for held in ({self.provider: 1}, {self.provider: 1, self.other: 1})]))

    def test_deleting_allocations(self):
        self.allocate(held={self.provider: 1})
        self.assertSteps(0, lambda: allocations.delete(self.ctx, self.consumer))

    def test_reshape(self):
        def reshape(wanted, writes=()):
            reshaper.reshape(
                self.ctx, {self.provider.uuid: (self.generation(), wanted)}, list(writes))

        full = {"VCPU": InventoryValues(8)}
        self.assertSteps(2, lambda: reshape(full))
        self.assertSteps(3, lambda: reshape(full, [self.write(held={self.provider: 1})]))
        self.assertSteps((3, 1), lambda: reshape(
            full, [self.write(held={self.provider: 1, self.other: 1})]))
        self.allocate(held={})
        self.assertSteps(1, lambda: reshape({}))

    def test_refused_writes_raise_nothing(self):
        uuid, values = self.provider.uuid, InventoryValues(8)
        self.allocate(held={self.provider: 1})
        options = {"generation": self.generation(), "allow_fully_reserved": True}
        for error, write in (
            (errors.InventoryInUse, functools.partial(
                inventories.replace, self.ctx, uuid, {}, **options)),
            (errors.UnknownResourceClass, functools.partial(
                inventories.replace, self.ctx, uuid, {"CUSTOM_NO": values}, **options)),
            (errors.InventoryInUse, functools.partial(inventories.delete_all, self.ctx, uuid)),
            (errors.UnknownTraits, functools.partial(
                traits.replace_for_provider, self.ctx, uuid, ["CUSTOM_NO"],
                generation=self.generation())),
            (errors.CapacityExceeded, functools.partial(self.allocate, held={self.provider: 9})),
            (errors.ProviderInUse, functools.partial(providers.delete, self.ctx, uuid)),
        ):
            self.assertSteps(
                0, functools.partial(self.assertRaises, error, write), touched=False)


@databases.on_each_database
class TestConsumerGenerations(GenerationTestCase):

    def consumer_generation(self):
        held = allocations.list_for_consumer(self.ctx, self.consumer)
        return held and held.generation

    def test_each_write_raises_it(self):
        self.allocate(held={self.provider: 1}, expected=None)
        self.assertEqual(1, self.consumer_generation())
        self.allocate(held={self.provider: 1}, expected=1)
        self.assertEqual(2, self.consumer_generation())
        self.allocate(held={self.other: 1})
        self.assertEqual(3, self.consumer_generation())

    def test_it_begins_again_when_nothing_is_held(self):
        for empty in (functools.partial(self.allocate, held={}, expected=1),
                      functools.partial(allocations.delete, self.ctx, self.consumer)):
            self.allocate(held={self.provider: 1}, expected=None)
            empty()
            self.assertIsNone(self.consumer_generation())
            self.assertRaises(errors.ConsumerGenerationConflict, self.allocate,
                              held={self.provider: 1}, expected=2)

    def test_refusals_leave_it(self):
        self.allocate(held={self.provider: 1}, expected=None)
        for expected in (None, 0, 2):
            self.assertRaises(errors.ConsumerGenerationConflict, self.allocate,
                              held={self.provider: 1}, expected=expected)
        self.assertRaises(
            errors.CapacityExceeded, self.allocate, held={self.provider: 9}, expected=1)
        self.assertEqual(1, self.consumer_generation())


@databases.on_each_database
class TestNounsAgainstAllocations(GenerationTestCase):
    """Real allocation writes against writes of providers and inventories."""

    def _allocate(self):
        allocations.replace(self.context(), [self.write(held={self.provider: 1})])

    def _settle(self, outcome, allowed):
        if outcome is not None:
            self.assertIsInstance(outcome, allowed)

    def test_provider_goes_while_an_allocation_arrives(self):
        for _ in range(5):
            self.provider = factories.provider(self.ctx, inventory={"VCPU": 8})
            self.consumer = factories.new_uuid()
            gone, claimed = races.run(
                functools.partial(providers.delete, self.context(), self.provider.uuid),
                self._allocate)
            self._settle(gone, errors.ProviderInUse)
            self._settle(claimed, errors.AllocationForUnknownProvider)
            self.assertEqual(1, (gone is None) + (claimed is None))
            held = allocations.list_for_consumer(self.ctx, self.consumer)
            self.assertEqual(claimed is None, held is not None)

    def test_inventory_goes_while_an_allocation_arrives(self):
        for _ in range(5):
            self.provider = factories.provider(self.ctx, inventory={"VCPU": 8})
            self.consumer = factories.new_uuid()
            gone, claimed = races.run(
                functools.partial(inventories.delete_all, self.context(), self.provider.uuid),
                self._allocate)
            self._settle(gone, errors.InventoryInUse)
            self._settle(claimed, errors.InventoryMissing)
            self.assertEqual(1, (gone is None) + (claimed is None))

    def test_used_survives_a_new_inventory(self):
        """PUT inventories and claims at once: ``used`` is what the allocations say."""
        consumers = [factories.new_uuid() for _ in range(6)]

        def claim(consumer):
            allocations.replace(
                self.context(), [self.write(consumer, held={self.provider: 1})])

        def resize(total):
            while True:
                ctx = self.context()
                seen = providers.get(ctx, self.provider.uuid).generation
                try:
                    return inventories.replace(
                        ctx, self.provider.uuid, {"VCPU": InventoryValues(total)},
                        generation=seen, allow_fully_reserved=True)
                except errors.ProviderGenerationConflict:
                    continue

        outcomes = races.run(
            *(functools.partial(claim, consumer) for consumer in consumers),
            *(functools.partial(resize, total) for total in (10, 20)))
        self.assertEqual([None] * 6, outcomes[:6])
        with db.read(self.ctx) as session:
            row = session.execute(sa.select(tables.inventories).where(
                tables.inventories.c.resource_provider_id == self.provider.id)).one()
        self.assertEqual(6, row.used)
        self.assertIn(row.capacity, (10, 20))
