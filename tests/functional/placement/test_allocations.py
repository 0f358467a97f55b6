import sqlalchemy as sa

from placement_core import db, errors as categories
from placement_core.changes import vector
from placement_core.placement import allocations, errors, inventories, providers, tables
from placement_core.placement.allocations import usage_delta
from placement_core.placement.records import ANY_GENERATION, InventoryValues
from placement_core.placement.usage import usages
from placement_core.plugin_api.counting import CONSUMERS
from placement_core.testing import factories
from tests import databases
from tests.functional.placement import claims


@databases.on_each_database
class TestReplacing(claims.ClaimsTestCase):

    def test_a_new_consumer_is_at_generation_one(self):
        host = self.provider(VCPU=8, MEMORY_MB=1024)
        self.claim({host: {"VCPU": 2, "MEMORY_MB": 512}}, seen=None)
        found = allocations.list_for_consumer(self.ctx, self.consumer)
        self.assertEqual(1, found.generation)
        self.assertEqual(("project", "user", "INSTANCE"),
                         (found.project_id, found.user_id, found.consumer_type))
        self.assertEqual({host.uuid: {"VCPU": 2, "MEMORY_MB": 512}}, self.held())
        self.assertEqual({"VCPU": 2, "MEMORY_MB": 512}, self.used(host))
        self.assertEqual(host.generation + 1, self.generation(host))
        self.assertEqual(host.generation + 1,
                         found.providers[host.uuid].provider_generation)

    def test_a_write_replaces_everything(self):
        here, there = self.provider(VCPU=8, DISK_GB=10), self.provider(VCPU=8)
        self.claim({here: {"VCPU": 8, "DISK_GB": 5}})
        self.claim({there: {"VCPU": 8}})
        self.assertEqual({there.uuid: {"VCPU": 8}}, self.held())
        self.assertEqual({"VCPU": 0, "DISK_GB": 0}, self.used(here))
        self.assertEqual({"VCPU": 8}, self.used(there))

    def test_generations_rise_for_named_providers_only(self):
        here, there = self.provider(VCPU=8), self.provider(VCPU=8)
        self.claim({here: {"VCPU": 1}})
        self.claim({there: {"VCPU": 1}})
        self.assertEqual(here.generation + 1, self.generation(here))
        self.assertEqual(there.generation + 1, self.generation(there))
        # Left behind without being named: changed all the same.
        self.assertGreater(self.revision(here), self.generation(here))
        self.claim({})
        self.assertEqual(here.generation + 1, self.generation(here))
        self.assertEqual(there.generation + 2, self.generation(there))

    def test_a_generation_rises_once_for_many_consumers(self):
        host = self.provider(VCPU=8)
        allocations.replace(self.ctx, [
            self.write({host: {"VCPU": 1}}, consumer=factories.new_uuid()) for _ in range(3)])
        self.assertEqual(host.generation + 1, self.generation(host))
        self.assertEqual({"VCPU": 3}, self.used(host))

    def test_what_a_consumer_held_does_not_count_against_it(self):
        host = self.provider(VCPU=8)
        self.claim({host: {"VCPU": 8}})
        self.claim({host: {"VCPU": 8}})
        self.claim({host: {"VCPU": 6}})
        self.assertEqual({"VCPU": 6}, self.used(host))
        self.assertEqual(3, self.generation(self.consumer))

    def test_resources_move_between_consumers_in_one_call(self):
        host, target = self.provider(VCPU=8), self.provider(VCPU=8)
        migration = factories.new_uuid()
        self.claim({host: {"VCPU": 8}}, seen=None)
        allocations.replace(self.ctx, [
            self.write({target: {"VCPU": 8}}, seen=1),
            self.write({host: {"VCPU": 8}}, consumer=migration, kind="MIGRATION", seen=None)])
        self.assertEqual({target.uuid: {"VCPU": 8}}, self.held())
        self.assertEqual({host.uuid: {"VCPU": 8}}, self.held(migration))
        allocations.replace(self.ctx, [
            self.write({}, consumer=migration, seen=1),
            self.write({host: {"VCPU": 8}}, seen=2)])
        self.assertEqual({"VCPU": 8}, self.used(host))
        self.assertEqual({"VCPU": 0}, self.used(target))
        self.assertIsNone(self.generation(migration))

    def test_empty_removes_the_consumer(self):
        host = self.provider(VCPU=8)
        self.claim({host: {"VCPU": 8}}, seen=None)
        self.claim({}, seen=1)
        self.assertIsNone(allocations.list_for_consumer(self.ctx, self.consumer))
        self.assertIsNone(self.generation(self.consumer))
        self.claim({host: {"VCPU": 8}}, seen=None)
        self.assertEqual(1, self.generation(self.consumer))

    def test_empty_for_an_unknown_consumer_leaves_nothing(self):
        for seen in (None, ANY_GENERATION):
            self.claim({}, seen=seen)
        self.assertEqual(0, self.count(tables.consumers))
        self.assertEqual(0, self.count(tables.projects))
        self.assertRaises(errors.ConsumerGenerationConflict, self.claim, {}, seen=4)

    def test_old_writes_keep_the_consumer_type(self):
        host = self.provider(VCPU=8)
        self.claim({host: {"VCPU": 1}})
        self.claim({host: {"VCPU": 1}}, kind=None)
        self.assertEqual("INSTANCE",
                         allocations.list_for_consumer(self.ctx, self.consumer).consumer_type)
        self.claim({host: {"VCPU": 1}}, kind="MIGRATION")
        self.assertEqual("MIGRATION",
                         allocations.list_for_consumer(self.ctx, self.consumer).consumer_type)

    def test_owners_that_differ_in_trailing_blanks(self):
        """MySQL takes them for equal, as in OpenStack Placement; elsewhere they are others."""
        host = self.provider(VCPU=8)
        other = factories.new_uuid()
        for first, second in (("p", "p "), ("q ", "q"), (" ", "  "), ("r  ", "r ")):
            for consumer, names in ((self.consumer, (first, second)), (other, (second, first))):
                for name in names:
                    self.claim({host: {"VCPU": 1}}, consumer=consumer, project=name, user=name)
                    holder = allocations.list_for_consumer(self.ctx, consumer)
                    owner = (name.rstrip() or " ") if self.kind == "mysql" else name
                    self.assertEqual((owner, owner), (holder.project_id, holder.user_id))
        # Both in one write, of consumers that exist and of new ones.
        for consumers in ((self.consumer, other), (factories.new_uuid(), factories.new_uuid())):
            allocations.replace(self.ctx, [
                self.write({host: {"VCPU": 1}}, consumer=consumer, project=name, user=name)
                for consumer, name in zip(consumers, ("r", "r "), strict=True)])
        self.assertEqual({"VCPU": 4}, self.used(host))

    def test_an_owner_that_is_stored_with_trailing_blanks(self):
        """Of an adopted database: it is found by its name without them, too."""
        if self.kind != "mysql":
            self.skipTest("only MySQL takes such names for equal")
        with self.database.writer.begin() as connection:
            for table in (tables.projects, tables.users):
                connection.execute(sa.insert(table).values(external_id="old "))
        host = self.provider(VCPU=8)
        for name in ("old", "old ", "else", "old"):
            self.claim({host: {"VCPU": 1}}, project=name, user=name)
        self.claim({host: {"VCPU": 1}}, consumer=factories.new_uuid(), project="old", user="old")
        self.assertEqual({"VCPU": 2}, self.used(host))

    def test_an_inventory_may_share_its_classes_with_many_providers(self):
        hosts = [self.provider(VCPU=8, MEMORY_MB=64, DISK_GB=9) for _ in range(25)]
        self.claim({host: {"VCPU": 1, "MEMORY_MB": 2, "DISK_GB": 3} for host in hosts})
        for host in hosts:
            self.assertEqual({"VCPU": 1, "MEMORY_MB": 2, "DISK_GB": 3}, self.used(host))
        self.claim({hosts[0]: {"VCPU": 1}})
        self.assertEqual({"VCPU": 0, "MEMORY_MB": 0, "DISK_GB": 0}, self.used(hosts[1]))

    def test_very_many_consumers_in_one_call(self):
        host = self.provider(VCPU=5000)
        consumers = [factories.new_uuid() for _ in range(510)]
        allocations.replace(self.ctx, [
            self.write({host: {"VCPU": 2}}, consumer=consumer, seen=None)
            for consumer in consumers])
        self.assertEqual({"VCPU": 1020}, self.used(host))
        allocations.replace(self.ctx, [
            self.write({}, consumer=consumer, seen=1) for consumer in consumers])
        self.assertEqual({"VCPU": 0}, self.used(host))
        self.assertEqual(0, self.count(tables.consumers))

    def test_one_of_very_many_exists(self):
        host = self.provider(VCPU=5000)
        consumers = sorted(factories.new_uuid() for _ in range(260))
        self.claim({host: {"VCPU": 1}}, consumer=consumers[130], seen=None)
        writes = [self.write({host: {"VCPU": 2}}, consumer=consumer, seen=None)
                  for consumer in consumers]
        self.assertRaises(errors.ConsumerGenerationConflict, allocations.replace, self.ctx, writes)
        self.assertEqual(({"VCPU": 1}, 1), (self.used(host), self.count(tables.consumers)))
        writes[130] = self.write({host: {"VCPU": 3}}, consumer=consumers[130], seen=1)
        allocations.replace(self.ctx, writes)
        self.assertEqual(({"VCPU": 521}, 260), (self.used(host), self.count(tables.consumers)))

    def test_whole_numbers_may_have_a_point(self):
        host = self.provider(VCPU=8)
        self.claim({host: {"VCPU": 2.0}}, seen=None)
        self.claim({host: {"VCPU": 3.0}}, seen=1.0)
        self.assertEqual({"VCPU": 3}, self.used(host))
        error = self.assertRaises(errors.ConstraintsViolated, self.claim, {host: {"VCPU": 1e30}})
        self.assertEqual(int(1e30), error.asked)

    def test_readers_hear_of_every_provider_that_changed(self):
        here, there, other = (self.provider(VCPU=8) for _ in range(3))
        self.claim({here: {"VCPU": 1}})
        with db.read(self.ctx) as session:
            before = vector.read_current(session)
        self.claim({there: {"VCPU": 1}})
        with db.read(self.ctx) as session:
            changed = vector.read_changes(session, before, vector.read_current(session))
        # What the project uses in sum is what it was.
        self.assertEqual({("provider", here.id), ("provider", there.id)}, changed)
        allocations.delete(self.ctx, self.consumer)
        with db.read(self.ctx) as session:
            changed = vector.read_changes(session, before, vector.read_current(session))
        self.assertEqual({("provider", here.id), ("provider", there.id)},
                         {(kind, ref) for kind, ref in changed if kind == "provider"})
        self.assertEqual(["project"], [kind for kind, _ in changed if kind != "provider"])
        self.assertNotIn(("provider", other.id), changed)

    def test_a_write_joins_a_larger_transaction(self):
        host = self.provider(VCPU=4)
        other = factories.new_uuid()

        def fill():
            with db.write(self.ctx):
                self.claim({host: {"VCPU": 3}}, project="inner")
                try:
                    self.claim({host: {"VCPU": 2}}, consumer=other)
                except errors.CapacityExceeded as error:
                    refusal = error
                self.claim({host: {"VCPU": 1}}, consumer=other)
            return refusal

        refusal = fill()
        self.assertEqual((2, 3, 4), (refusal.asked, refusal.used, refusal.capacity))
        self.assertEqual({"VCPU": 4}, self.used(host))


@databases.on_each_database
class TestRefusals(claims.ClaimsTestCase):

    def refused(self, kind, held, **options):
        """Check that a claim is refused and leaves nothing; return the refusal."""
        before = self.held(), self.generation(self.consumer)
        error = self.assertRaises(kind, self.claim, held, **options)
        self.assertEqual(before, (self.held(), self.generation(self.consumer)))
        return error

    def test_generation_of_an_existing_consumer(self):
        host = self.provider(VCPU=8)
        for _ in range(3):
            self.claim({host: {"VCPU": 1}})
        for seen in (1, 2, 4, -7, 2**40):
            for held in ({host: {"VCPU": 1}}, {}):
                error = self.refused(errors.ConsumerGenerationConflict, held, seen=seen)
                self.assertEqual(
                    f"consumer generation conflict - expected 3 but got {seen}", str(error))
                self.assertEqual("placement.concurrent_update", error.code)
        for held in ({host: {"VCPU": 1}}, {}):
            error = self.refused(errors.ConsumerGenerationConflict, held, seen=None)
            self.assertEqual(
                "consumer generation conflict - expected 3 but got None", str(error))

    def test_generation_of_an_unknown_consumer(self):
        host = self.provider(VCPU=8)
        for seen in (0, 5):
            error = self.refused(
                errors.ConsumerGenerationConflict, {host: {"VCPU": 1}}, seen=seen)
            self.assertEqual(
                f"consumer generation conflict - expected null but got {seen}", str(error))

    def test_unknown_provider(self):
        missing = factories.new_uuid()
        error = self.refused(
            errors.AllocationForUnknownProvider, {missing: {"VCPU": 1}}, seen=None)
        self.assertEqual(
            f"Allocation for resource provider '{missing}' that does not exist.", str(error))
        self.assertIsInstance(error, categories.Invalid)
        self.assertEqual(0, self.count(tables.consumers))

    def test_unknown_class(self):
        host = self.provider(VCPU=8)
        error = self.refused(errors.UnknownResourceClass, {host: {"COWS": 1}})
        self.assertEqual(
            f"Unable to allocate inventory for consumer {self.consumer}: "
            "No such resource class COWS.", str(error))
        error = self.assertRaises(errors.UnknownResourceClass, allocations.replace, self.ctx, [
            self.write({host: {"COWS": 1}}),
            self.write({host: {"VCPU": 1}}, consumer=factories.new_uuid())])
        self.assertEqual(
            "Unable to allocate inventory No such resource class COWS.", str(error))

    def test_no_inventory(self):
        host = self.provider(VCPU=8)
        error = self.refused(errors.InventoryMissing, {host: {"VCPU": 1, "DISK_GB": 1}})
        self.assertEqual(
            f"Unable to allocate inventory: Inventory for 'DISK_GB' on resource provider "
            f"'{host.uuid}' invalid.", str(error))
        self.assertIsInstance(error, categories.Conflict)

    def test_constraints(self):
        host = self.provider(
            VCPU=InventoryValues(100, min_unit=4, max_unit=16, step_size=4), DISK_GB=10)
        for amount in (3, 17, 20, 6, 2**31, 2**70):
            error = self.refused(
                errors.ConstraintsViolated, {host: {"DISK_GB": 1, "VCPU": amount}})
            self.assertIn("The requested amount would violate inventory constraints.",
                          str(error))
            self.assertEqual(amount, error.asked)
        self.claim({host: {"VCPU": 4}})
        # Each amount is judged, not their sum, and not the change.
        error = self.assertRaises(errors.ConstraintsViolated, allocations.replace, self.ctx, [
            self.write({host: {"VCPU": 6}}),
            self.write({host: {"VCPU": 6}}, consumer=factories.new_uuid())])
        self.assertEqual(6, error.asked)
        self.assertEqual({"VCPU": 4, "DISK_GB": 0}, self.used(host))

    def test_capacity(self):
        host = self.provider(VCPU=InventoryValues(10, reserved=1, allocation_ratio=1.5))
        self.claim({host: {"VCPU": 13}})
        error = self.refused(errors.CapacityExceeded, {host: {"VCPU": 14}})
        self.assertIn("Unable to allocate inventory: Unable to create allocation for 'VCPU' on "
                      f"resource provider '{host.uuid}'. The requested amount would exceed the "
                      "capacity.", str(error))
        self.assertEqual((1, 13, 13), (error.asked, error.used, error.capacity))
        self.assertEqual("placement.undefined_code", error.code)

    def test_capacity_is_judged_on_the_sum(self):
        host = self.provider(VCPU=8)
        first, second = factories.new_uuid(), factories.new_uuid()
        error = self.assertRaises(errors.CapacityExceeded, allocations.replace, self.ctx, [
            self.write({host: {"VCPU": 5}}, consumer=first),
            self.write({host: {"VCPU": 4}}, consumer=second)])
        self.assertEqual((9, 0, 8), (error.asked, error.used, error.capacity))
        self.assertEqual(({}, {}), (self.held(first), self.held(second)))
        self.assertEqual(0, self.count(tables.consumers))

    def test_one_short_class_of_many_undoes_all(self):
        host = self.provider(VCPU=8, MEMORY_MB=10)
        self.refused(errors.CapacityExceeded, {host: {"VCPU": 1, "MEMORY_MB": 11}}, seen=None)
        self.assertEqual({"VCPU": 0, "MEMORY_MB": 0}, self.used(host))
        self.assertEqual(host.generation, self.generation(host))

    def test_an_over_committed_class_may_shrink_but_not_grow(self):
        host = self.provider(VCPU=8)
        other = factories.new_uuid()
        self.claim({host: {"VCPU": 4}})
        self.claim({host: {"VCPU": 4}}, consumer=other)
        inventories.update(
            self.ctx, host.uuid, "VCPU", InventoryValues(2),
            generation=self.generation(host), allow_fully_reserved=True)
        self.claim({host: {"VCPU": 4}})
        self.refused(errors.CapacityExceeded, {host: {"VCPU": 5}})
        self.claim({host: {"VCPU": 3}})
        # It holds nothing there yet: it may not add to the excess.
        self.assertRaises(errors.CapacityExceeded, self.claim, {host: {"VCPU": 1}},
                          consumer=factories.new_uuid())
        # A swap within one request leaves the sum as it was.
        allocations.replace(self.ctx, [
            self.write({host: {"VCPU": 4}}),
            self.write({host: {"VCPU": 3}}, consumer=other)])
        self.assertEqual({"VCPU": 7}, self.used(host))

    def test_text_that_no_database_keeps(self):
        host = self.provider(VCPU=8)
        for name in ("a\0b", "\ud800"):
            self.refused(errors.InvalidOwner, {host: {"VCPU": 1}}, project=name)
            self.refused(categories.Error, {host: {name: 1}})
            self.refused(categories.Error, {name: {"VCPU": 1}})
            self.assertIsNone(allocations.list_for_consumer(self.ctx, name))
            self.assertRaises(errors.NoAllocations, allocations.delete, self.ctx, name)
        self.assertRaises(categories.Error, self.claim, {host: {"VCPU": 1}}, consumer="a" * 37)

    def test_the_consumer_is_judged_before_provider_class_and_inventory(self):
        self.assertRaises(errors.ConsumerGenerationConflict, self.claim,
                          {factories.new_uuid(): {"COWS": 1}}, seen=3)
        host = self.provider()
        self.assertRaises(errors.AllocationForUnknownProvider, self.claim,
                          {host: {"COWS": 1}, factories.new_uuid(): {"VCPU": 1}}, seen=None)
        self.assertRaises(errors.UnknownResourceClass, self.claim,
                          {host: {"VCPU": 1, "COWS": 1}}, seen=None)


@databases.on_each_database
class TestDeleting(claims.ClaimsTestCase):

    def test_delete(self):
        host = self.provider(VCPU=8)
        self.claim({host: {"VCPU": 8}})
        allocations.delete(self.ctx, self.consumer)
        self.assertEqual({}, self.held())
        self.assertEqual({"VCPU": 0}, self.used(host))
        self.assertIsNone(self.generation(self.consumer))
        self.assertEqual(host.generation + 1, self.generation(host))
        self.assertEqual([], usages.for_project(self.ctx, "project"))

    def test_nothing_there(self):
        error = self.assertRaises(
            errors.NoAllocations, allocations.delete, self.ctx, self.consumer)
        self.assertEqual(f"No allocations for consumer '{self.consumer}'", str(error))
        self.assertIsInstance(error, categories.NotFound)

    def test_a_freed_provider_can_go(self):
        host = self.provider(VCPU=8)
        self.claim({host: {"VCPU": 8}})
        self.assertRaises(errors.ProviderInUse, providers.delete, self.ctx, host.uuid)
        allocations.delete(self.ctx, self.consumer)
        providers.delete(self.ctx, host.uuid)


@databases.on_each_database
class TestListing(claims.ClaimsTestCase):

    def test_of_a_provider(self):
        host, other = self.provider(VCPU=8, DISK_GB=8), self.provider(VCPU=8)
        second = factories.new_uuid()
        self.claim({host: {"VCPU": 1, "DISK_GB": 2}, other: {"VCPU": 3}})
        self.claim({host: {"VCPU": 4}}, consumer=second)
        self.claim({host: {"VCPU": 5}}, consumer=second)
        found = allocations.list_for_provider(self.ctx, host.uuid)
        self.assertEqual(host.generation + 3, found.generation)
        self.assertEqual(
            {self.consumer: ({"VCPU": 1, "DISK_GB": 2}, 1), second: ({"VCPU": 5}, 2)},
            {uuid: (dict(share.resources), share.consumer_generation)
             for uuid, share in found.consumers.items()})
        self.assertIsNotNone(found.consumers[second].created_at)

    def test_of_a_provider_without_any(self):
        host = self.provider()
        found = allocations.list_for_provider(self.ctx, host.uuid)
        self.assertEqual((host.generation, {}), (found.generation, dict(found.consumers)))
        self.assertRaises(errors.ProviderNotFound, allocations.list_for_provider, self.ctx,
                          factories.new_uuid())

    def test_of_an_unknown_consumer(self):
        for text in (factories.new_uuid(), "anything at all", "", "é" * 300):
            self.assertIsNone(allocations.list_for_consumer(self.ctx, text))


class _Guard(allocations.Gate, allocations.Check):
    """Writes down what it is asked, and refuses when told to."""

    def __init__(self, test, refusal=None):
        self.test = test
        self.refusal = refusal
        self.calls = []

    def prepare(self, ctx, request):
        self.calls.append(("prepare", len(request.writes)))
        self.test.assertIsNone(ctx.session)
        return self

    def decide(self, ctx, checks, writes):
        grown = usage_delta.measure(*writes)
        used = ctx.session.execute(sa.select(sa.func.sum(tables.inventories.c.used))).scalar()
        self.calls.append(("decide", int(used), grown.projects))
        return {0: self.refusal} if self.refusal else {}


@databases.on_each_database
class TestGuard(claims.ClaimsTestCase):

    def test_a_guard_is_asked_before_anything_is_used(self):
        host = self.provider(VCPU=8)
        guard = _Guard(self)
        allocations.replace(self.ctx, [
            self.write({host: {"VCPU": 3}}),
            self.write({host: {"VCPU": 4}}, consumer=factories.new_uuid())], [guard])
        self.assertEqual(
            [("prepare", 2), ("decide", 0, {"project": {"VCPU": 7, CONSUMERS: 2}})],
            guard.calls)

    def test_a_guard_refuses(self):
        host = self.provider(VCPU=8)
        guard = _Guard(self, categories.OverLimit("too much"))
        self.assertRaises(categories.OverLimit, allocations.replace, self.ctx,
                          [self.write({host: {"VCPU": 3}})], [guard])
        self.assertEqual({"VCPU": 0}, self.used(host))
        self.assertEqual({}, self.held())


class _Witness(allocations.Gate, allocations.Check):
    """Writes down what it is told, and makes room when a write is refused."""

    def __init__(self, make_room=lambda: False):
        self.told = []
        self._make_room = make_room

    def prepare(self, ctx, request):
        self.told.append("prepare")
        return self

    def consumers_locked(self, session, writes):
        self.told.append("consumers_locked")

    def decide(self, ctx, checks, writes):
        self.told.append("decide")
        return {}

    def applied(self, session):
        self.told.append("applied")

    def make_room(self, ctx, request, refusal):
        self.told.append(type(refusal).__name__)
        return self._make_room()


@databases.on_each_database
class TestOneRoad(claims.ClaimsTestCase):
    """Whatever writes allocations, gates see the same."""

    def setUp(self):
        super().setUp()
        self.host = self.provider(VCPU=8)

    def reshape(self, writes, gates):
        allocations.reshape(self.ctx, {self.host.uuid: (
            self.generation(self.host), {"VCPU": InventoryValues(total=8)})}, writes, gates)

    def test_gates_are_told_in_one_order(self):
        for road in (
            lambda gates: allocations.replace(
                self.ctx, [self.write({self.host: {"VCPU": 2}})], gates),
            lambda gates: self.reshape([self.write({self.host: {"VCPU": 3}})], gates),
            lambda gates: allocations.delete(self.ctx, self.consumer, gates),
        ):
            witness = _Witness()
            road([witness])
            self.assertEqual(
                ["prepare", "consumers_locked", "decide", "applied"], witness.told)

    def test_a_refused_write_is_tried_once_more_if_there_is_room(self):
        for road in (lambda *write: allocations.replace(self.ctx, *write), self.reshape):
            old, new = factories.new_uuid(), factories.new_uuid()
            wanted = [self.write({self.host: {"VCPU": 8}}, consumer=new)]
            self.claim({self.host: {"VCPU": 8}}, consumer=old)
            no_room, room = _Witness(), _Witness(
                lambda old=old: allocations.delete(self.context(), old) is None)
            self.assertRaises(errors.CapacityExceeded, road, wanted, [no_room])
            self.assertEqual("CapacityExceeded", no_room.told[-1])
            road(wanted, [room])
            attempt = ["prepare", "consumers_locked", "decide"]
            self.assertEqual(
                [*attempt, "CapacityExceeded", *attempt, "applied"], room.told)
            self.assertEqual({self.host.uuid: {"VCPU": 8}}, self.held(new))
            allocations.delete(self.ctx, new)
