"""Providers and consumers that are made exactly what they are elsewhere."""

from __future__ import annotations

import dataclasses

from placement_core.placement import (
    allocations,
    errors,
    inventories,
    provider_copies,
    providers,
    records,
    resource_classes,
    traits,
)
from placement_core.placement.allocations import consumer_copies
from placement_core.placement.allocations.consumer_copies import ConsumerCopy
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.index.capacity_index import CapacityIndex
from placement_core.placement.provider_copies import ProviderCopy
from placement_core.placement.records import InventoryValues
from placement_core.placement.usage import audit, usages
from placement_core.testing import factories
from tests import base, databases

A, B, C, D = (f"{letter * 8}-0000-0000-0000-000000000000" for letter in "abcd")
SERVER, VOLUME = (f"{letter * 8}-1111-1111-1111-111111111111" for letter in "ef")
AGGREGATE = "99999999-0000-0000-0000-000000000000"


def provider(uuid: str, name: str, parent: str | None = None, **fields: object) -> ProviderCopy:
    copy = ProviderCopy(uuid, name, 0, parent, {}, (), ())
    return dataclasses.replace(copy, **fields)


def consumer(
    uuid: str, held: dict[str, dict[str, int]], kind: str | None = "INSTANCE",
    project: str = "p1", generation: int = 1,
) -> ConsumerCopy:
    return ConsumerCopy(uuid, project, "u1", kind, generation, held)


class CopiesTestCase(base.DatabaseTestCase):
    def write(self, *copies: ProviderCopy) -> None:
        provider_copies.write(self.ctx, copies)

    def claim(self, *copies: ConsumerCopy) -> None:
        consumer_copies.write(self.ctx, copies)

    def assert_audited(self) -> None:
        self.assertEqual([], audit.audit(self.ctx, repair=False))


@databases.on_each_database
class TestProviderCopies(CopiesTestCase):
    def test_all_of_a_provider(self) -> None:
        resource_classes.create(self.ctx, "CUSTOM_GOLD")
        traits.ensure(self.ctx, "CUSTOM_FAST")
        host = provider(
            A, "host", generation=7, traits=("CUSTOM_FAST", "HW_CPU_X86_AVX"),
            aggregates=(AGGREGATE,), inventories={
                "VCPU": InventoryValues(8, 1, allocation_ratio=16.0),
                "CUSTOM_GOLD": InventoryValues(3)})
        child = provider(B, "numa0", A, generation=2)
        self.write(host, child)
        self.assertEqual([host, child], provider_copies.list_all(self.ctx))
        self.assertEqual(child, provider_copies.get(self.ctx, B))
        self.assertIsNone(provider_copies.get(self.ctx, C))
        self.assertEqual((A, 7), (providers.get(self.ctx, B).root_uuid,
                                  providers.get(self.ctx, A).generation))
        self.assert_audited()
        changed = provider(
            A, "renamed", generation=9, traits=("CUSTOM_FAST",),
            inventories={"VCPU": InventoryValues(4), "DISK_GB": InventoryValues(9)})
        self.write(changed)
        self.assertEqual(changed, provider_copies.get(self.ctx, A))
        self.assert_audited()

    def test_names_that_are_swapped(self) -> None:
        self.write(provider(A, "one"), provider(B, "two"))
        self.write(provider(A, "two"), provider(B, "one"), provider(C, "three"))
        self.assertEqual({A: "two", B: "one", C: "three"},
                         providers.get_names(self.ctx, [A, B, C]))

    def test_a_name_of_one_that_is_renamed(self) -> None:
        self.write(provider(A, "one"))
        self.write(provider(B, "one"), provider(A, "two"))
        self.assertEqual({A: "two", B: "one"}, providers.get_names(self.ctx, [A, B]))

    def test_a_name_that_is_taken(self) -> None:
        self.write(provider(A, "one"))
        self.assertRaises(errors.DuplicateProvider, self.write, provider(B, "one"))
        self.assertIsNone(provider_copies.get(self.ctx, B))

    def test_trees_that_change(self) -> None:
        self.write(provider(A, "a"), provider(B, "b", A), provider(C, "c", B), provider(D, "d"))
        self.write(provider(B, "b", D))
        self.assertEqual([D, D], [providers.get(self.ctx, uuid).root_uuid for uuid in (B, C)])
        # Upside down.
        self.write(provider(C, "c"), provider(B, "b", C))
        self.assertEqual(
            [(C, None), (C, C)],
            [(each.root_uuid, each.parent_uuid) for uuid in (C, B)
             for each in (providers.get(self.ctx, uuid),)])

    def test_a_generation_that_is_set(self) -> None:
        """Down as well as up; nothing else changes, and clients go on with it."""
        host = provider(A, "host", generation=7, inventories={"VCPU": InventoryValues(4)})
        self.write(host)
        for seen, generation in ((7, 3), (3, 12)):
            provider_copies.set_generation(self.ctx, A, generation, seen=seen)
            self.assertEqual([dataclasses.replace(host, generation=generation)],
                             provider_copies.list_all(self.ctx))
        self.assertRaises(errors.ProviderGenerationConflict, provider_copies.set_generation,
                          self.ctx, A, 1, seen=3)
        self.assertRaises(errors.ProviderNotFound, provider_copies.set_generation,
                          self.ctx, B, 1, seen=3)

    def test_a_parent_that_is_not_there(self) -> None:
        self.assertRaises(errors.ProviderNotCreated, self.write, provider(A, "a", B))

    def test_a_loop(self) -> None:
        self.write(provider(A, "a"), provider(B, "b", A))
        self.assertRaises(errors.ProviderNotCreated, self.write, provider(A, "a", B))
        self.assertIsNone(providers.get(self.ctx, A).parent_uuid)

    def test_names_that_are_not_there(self) -> None:
        self.assertRaises(errors.UnknownTraits, self.write, provider(A, "a", traits=("CUSTOM_X",)))
        self.assertRaises(errors.UnknownResourceClass, self.write, provider(
            A, "a", inventories={"CUSTOM_X": InventoryValues(1)}))

    def test_inventory_that_comes_behind_its_allocations(self) -> None:
        self.write(provider(A, "a"))
        self.claim(consumer(SERVER, {A: {"VCPU": 3}}))
        [finding] = audit.audit(self.ctx, repair=False)
        self.assertEqual(("inventory", 3), (finding.what, finding.actual))
        self.write(provider(A, "a", inventories={"VCPU": InventoryValues(2)}))
        self.assertEqual({"VCPU": 3}, usages.for_provider(self.ctx, A).usages)
        self.assert_audited()

    def test_who_runs_sees_it(self) -> None:
        index = CapacityIndex(self.database)
        index.snapshot(self.context())
        self.write(provider(A, "a", inventories={"VCPU": InventoryValues(2)}))
        self.claim(consumer(SERVER, {A: {"VCPU": 1}}))
        self.assertEqual([], index.verify(self.context()))
        self.assertEqual(A, index.snapshot(self.context()).entry(0).provider.uuid)


@databases.on_each_database
class TestConsumerCopies(CopiesTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.write(*(
            provider(uuid, uuid, generation=5, inventories={
                "VCPU": InventoryValues(2), "MEMORY_MB": InventoryValues(100)})
            for uuid in (A, B)))

    def test_all_of_a_consumer(self) -> None:
        server = consumer(SERVER, {A: {"VCPU": 2, "MEMORY_MB": 10}, B: {"VCPU": 1}},
                          generation=4)
        volume = consumer(VOLUME, {B: {"VCPU": 1}}, None, "p2")
        self.claim(server, volume)
        self.assertEqual([server, volume], consumer_copies.list_all(self.ctx))
        self.assertEqual(volume, consumer_copies.get(self.ctx, VOLUME))
        self.assertEqual(5, providers.get(self.ctx, A).generation)
        self.assert_audited()
        changed = consumer(SERVER, {B: {"VCPU": 2}}, "MIGRATION", "p3", 9)
        self.claim(changed, volume)
        self.assertEqual([changed, volume], consumer_copies.list_all(self.ctx))
        self.assert_audited()

    def test_owners_with_trailing_blanks(self) -> None:
        """MySQL takes them for equal to those without, whichever it has."""
        for first, second, uuid in (("p ", "p", SERVER), ("q", "q ", VOLUME)):
            for generation, project in enumerate((first, first, second, first), 1):
                self.claim(consumer(uuid, {A: {"VCPU": 1}}, None, project, generation))
                copy = consumer_copies.get(self.ctx, uuid)
                assert copy is not None
                self.assertEqual((generation, project.rstrip(" ")),
                                 (copy.generation, copy.project_id.rstrip(" ")))
            self.claim(consumer(factories.new_uuid(), {A: {"VCPU": 1}}, None, second))
            self.assert_audited()

    def test_more_than_fits(self) -> None:
        self.claim(consumer(SERVER, {A: {"VCPU": 50}}))
        self.assertEqual(50, usages.for_provider(self.ctx, A).usages["VCPU"])
        self.assert_audited()

    def test_a_type_that_is_taken_away(self) -> None:
        self.claim(consumer(SERVER, {A: {"VCPU": 1}}))
        untyped = consumer(SERVER, {A: {"VCPU": 1}}, None, generation=2)
        self.claim(untyped)
        self.assertEqual(untyped, consumer_copies.get(self.ctx, SERVER))
        self.assert_audited()

    def test_one_that_holds_nothing_is_deleted(self) -> None:
        self.claim(consumer(SERVER, {A: {"VCPU": 1}}))
        self.claim(consumer(SERVER, {}), consumer(VOLUME, {}))
        self.assertEqual([], consumer_copies.list_all(self.ctx))
        self.assertEqual(5, providers.get(self.ctx, A).generation)
        self.assert_audited()

    def test_clients_go_on_with_its_generation(self) -> None:
        self.claim(consumer(SERVER, {A: {"VCPU": 1}}, generation=6))
        for generation, expected in ((5, errors.ConsumerGenerationConflict), (6, None)):
            write = records.AllocationWrite(
                SERVER, {A: {"VCPU": 2}}, "p1", "u1", "INSTANCE", generation)
            if expected is None:
                allocations.replace(self.ctx, [write], owners=Owners())
            else:
                self.assertRaises(
                    expected, allocations.replace, self.ctx, [write], owners=Owners())
        self.assertEqual(7, consumer_copies.get(self.ctx, SERVER).generation)

    def test_names_that_are_not_there(self) -> None:
        self.assertRaises(errors.AllocationForUnknownProvider, self.claim,
                          consumer(SERVER, {C: {"VCPU": 1}}))
        self.assertRaises(errors.UnknownResourceClass, self.claim,
                          consumer(SERVER, {A: {"CUSTOM_X": 1}}))
        self.assertEqual([], consumer_copies.list_all(self.ctx))

    def test_one_that_was_claimed_here(self) -> None:
        host = factories.provider(self.ctx, inventory={"VCPU": 4})
        allocations.replace(self.ctx, [records.AllocationWrite(
            SERVER, {host.uuid: {"VCPU": 4}}, "p9", "u9", "INSTANCE", None)], owners=Owners())
        self.claim(consumer(SERVER, {A: {"VCPU": 1}}, generation=3))
        self.assertEqual(consumer(SERVER, {A: {"VCPU": 1}}, generation=3),
                         consumer_copies.get(self.ctx, SERVER))
        self.assertEqual(0, inventories.get(self.ctx, host.uuid, "VCPU")[0].used)
        self.assert_audited()
