"""Who may claim of a host of the freepool."""

from __future__ import annotations

from placement_core import db
from placement_core.placement import allocations, errors, locks, providers
from placement_core.placement.allocations import applying, reserved_trees, reshaper
from placement_core.placement.records import InventoryValues
from placement_core.reservations.hosts.access import HostAccessGate
from placement_core.testing import factories
from tests import databases, races
from tests.functional.placement.claims import ClaimsTestCase
from tests.functional.quota.held import HeldTestCase
from tests.functional.reservations import fenced
from tests.round_trips import RoundTrips

OF_HOST = {"VCPU": 16, "MEMORY_MB": 32768, "DISK_GB": 100}
OF_SLOT = {"VCPU": 4, "MEMORY_MB": 4096, "DISK_GB": 10}


class FenceTestCase(ClaimsTestCase):
    """A test with a host that can be registered, and one that stays as it is."""

    def setUp(self) -> None:
        super().setUp()
        self.fence = HostAccessGate()
        self.host = factories.provider(self.ctx, "host", inventory=OF_HOST)
        self.below = fenced.child(self.ctx, self.host)
        self.free = factories.provider(self.ctx, "free", inventory=OF_HOST)
        self.leases = fenced.Leases(self.ctx, self.host, self.below)

    def put(self, held, *, ctx=None, **options) -> None:
        """Write allocations as PUT /allocations does."""
        options.setdefault("consumer", factories.new_uuid())
        allocations.replace(
            ctx or self.ctx, [self.write(held, **options)], [self.fence], self.owners)

    def unfenced(self, held, **options) -> str:
        """Write allocations of a new consumer though nobody lets it in."""
        consumer = factories.new_uuid()
        self.claim(held, consumer=consumer, **options)
        return consumer

    def assert_refused(self, held, words: str = "", **options) -> None:
        options.setdefault("consumer", factories.new_uuid())
        before = self.held(options["consumer"])
        error = self.assertRaises(errors.ProviderReserved, self.put, held, **options)
        self.assertEqual("reservations.fenced", error.code)
        self.assertIn(words, str(error))
        self.assertIn("Host host is kept for reservations", str(error))
        self.assertEqual(before, self.held(options["consumer"]))


class RegisteredTestCase(FenceTestCase):

    def setUp(self) -> None:
        super().setUp()
        fenced.register(self.ctx, self.host, self.below)


@databases.on_each_database
class TestFence(RegisteredTestCase):

    def test_nobody_without_a_reservation(self) -> None:
        self.assert_refused({self.host: {"VCPU": 1}}, "project project of consumer")
        self.assert_refused({self.host: {"VCPU": 1}, self.free: {"DISK_GB": 1}})
        self.put({self.free: {"VCPU": 1}})

    def test_a_lease_that_is_not_in_force(self) -> None:
        self.leases.lease("soon", whole=True, status="pending")
        self.leases.lease("over", whole=True, status="deleted")
        # Given up before the end of the lease, which is in force still.
        self.leases.lease("healed", whole=True, end=-1)
        for project in ("soon", "over", "healed"):
            self.assert_refused({self.host: {"VCPU": 1}}, project=project)

    def test_a_slot(self) -> None:
        lease = self.leases.lease("mine", slots=2)
        for _ in range(2):
            self.put(self.leases.slot(lease, **OF_SLOT), project="mine")
        self.assertRaises(errors.CapacityExceeded, self.put, self.leases.slot(lease),
                          project="mine")
        self.assertEqual({"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 20}, self.used(self.host))

    def test_slots_without_a_class(self) -> None:
        self.leases.lease("mine", slots=2, named=False)
        self.leases.lease("mine", slots=1, size=(1, 1024, 0), named=False)
        self.put({self.host: {"VCPU": 8, "MEMORY_MB": 9216}}, project="mine")
        self.assert_refused({self.host: {"VCPU": 1, "MEMORY_MB": 1}},
                            "project mine would have 9 VCPU, 9217 MiB", project="mine")
        self.put({self.host: {"VCPU": 1}}, project="mine")
        self.assert_refused({self.host: {"VCPU": 1}}, project="theirs")

    def test_moves_within_a_host_are_no_claims(self) -> None:
        held = {self.host: {"VCPU": 4, "DISK_GB": 4}}
        instance, migration = self.unfenced(held), factories.new_uuid()

        def move(source: str, target: str, held, project: str = "project") -> None:
            allocations.replace(self.ctx, [
                self.write({}, consumer=source),
                self.write(held, consumer=target, project=project)], [self.fence])

        self.assertRaises(
            errors.ProviderReserved, move, instance, migration, {self.host: {"VCPU": 5}})
        self.assertRaises(errors.ProviderReserved, move, instance, migration, held, "theirs")
        move(instance, migration, held)
        self.put({self.free: {"VCPU": 4}}, consumer=instance)
        move(migration, instance, held)
        self.assertEqual({self.host.uuid: {"VCPU": 4, "DISK_GB": 4}}, self.held(instance))

    def test_reshaping_within_a_host_is_no_claim(self) -> None:
        consumer = self.unfenced({self.host: {"VCPU": 4, "DISK_GB": 4}})
        numa = factories.provider(self.ctx, parent=self.host)
        moved = {self.host: {"DISK_GB": 4}, numa: {"VCPU": 4}}

        def reshape(*writes) -> None:
            reshaper.reshape(self.ctx, {
                provider.uuid: (self.generation(provider), {
                    name: InventoryValues(total) for name, total in inventory.items()})
                for provider, inventory in (
                    (self.host, {"DISK_GB": 100, "MEMORY_MB": 32768}), (numa, {"VCPU": 16}))
            }, writes, [self.fence])

        self.assertRaises(errors.ProviderReserved, reshape, self.write(moved, consumer=consumer),
                          self.write({numa: {"VCPU": 1}}, consumer=factories.new_uuid()))
        reshape(self.write(moved, consumer=consumer))
        self.assertEqual({"VCPU": 4}, self.used(numa))

    def test_who_is_not_concerned_pays_nothing(self) -> None:
        trips = RoundTrips(self.database)
        self.claim({self.free: {"VCPU": 1}})

        def counted(write) -> list[int]:
            consumer = factories.new_uuid()
            return [trips.of(write, held, consumer=consumer) for held in (
                {self.free: {"VCPU": 1, "DISK_GB": 2}}, {self.free: {"VCPU": 2}}, {})]

        self.assertEqual(counted(self.claim), counted(self.put))


class TestRules(RegisteredTestCase):
    """What no database has a part in."""

    def test_who_has_left_the_pool_is_for_all(self) -> None:
        fenced.remove(self.ctx, self.host)
        self.put({self.host: {"VCPU": 1}})

    def test_a_lease_of_the_whole_host(self) -> None:
        self.leases.lease("mine", whole=True)
        self.put({self.host: OF_HOST}, project="mine")
        self.assert_refused({self.host: {"DISK_GB": 1}}, project="theirs")

    def test_a_slot_has_a_size(self) -> None:
        lease = self.leases.lease("mine", slots=2)
        for more in ({"VCPU": 5}, {"MEMORY_MB": 4097}, {"DISK_GB": 11}):
            self.assert_refused(
                self.leases.slot(lease, **OF_SLOT | more),
                f"1 of the slots of reservation {lease}", project="mine")

    def test_who_does_not_take_a_slot(self) -> None:
        lease = self.leases.lease("mine", slots=2)
        self.assert_refused(
            {self.host: {"VCPU": 1}}, fenced.class_of(lease), project="mine")

    def test_pcpus_count_as_vcpus_and_nested_providers_too(self) -> None:
        numa = factories.provider(self.ctx, parent=self.host, inventory={"PCPU": 8})
        lease = self.leases.lease("mine")
        slot = self.leases.slot(lease, VCPU=2)
        self.assert_refused({**slot, numa.uuid: {"PCPU": 3}}, "5 VCPU", project="mine")
        self.put({**slot, numa.uuid: {"PCPU": 2}}, project="mine")
        self.assert_refused({numa: {"PCPU": 1}})

    def test_all_slots_of_a_reservation_together(self) -> None:
        lease = self.leases.lease("mine", slots=2)
        # Somebody has more than the slot that it takes, from before.
        big = self.unfenced(self.leases.slot(lease, **OF_SLOT | {"VCPU": 7}), project="mine")
        self.assert_refused(self.leases.slot(lease, VCPU=2), "9 VCPU", project="mine")
        self.put(self.leases.slot(lease, VCPU=1), project="mine")
        self.put(self.leases.slot(lease, VCPU=6), consumer=big, project="mine")

    def test_a_slot_after_the_end(self) -> None:
        lease = self.leases.lease("mine", slots=2)
        consumer = factories.new_uuid()
        self.put(self.leases.slot(lease, VCPU=2), consumer=consumer, project="mine")
        self.leases.end(lease)
        self.assert_refused(self.leases.slot(lease, VCPU=2), project="mine")
        self.assert_refused(self.leases.slot(lease, VCPU=3), consumer=consumer, project="mine")
        self.put(self.leases.slot(lease, VCPU=1), consumer=consumer, project="mine")

    def test_the_slots_of_another_reservation_on_the_host(self) -> None:
        mine, theirs = (self.leases.lease(project) for project in ("mine", "theirs"))
        self.put(self.leases.slot(theirs, **OF_SLOT), project="theirs")
        self.put(self.leases.slot(mine, **OF_SLOT), project="mine")

    def test_less_is_never_refused(self) -> None:
        consumer = self.unfenced({self.host: {"VCPU": 4, "DISK_GB": 4}})
        self.assert_refused({self.host: {"VCPU": 5, "DISK_GB": 3}}, consumer=consumer)
        self.put({self.host: {"VCPU": 4, "DISK_GB": 3}}, consumer=consumer)
        self.put({self.host: {"VCPU": 2}, self.free: {"VCPU": 9}}, consumer=consumer)
        allocations.delete(self.ctx, consumer)

    def test_two_do_not_take_over_from_one(self) -> None:
        held = {self.host: {"VCPU": 4}}
        instance = self.unfenced(held)
        self.assertRaises(errors.ProviderReserved, allocations.replace, self.ctx, [
            self.write({}, consumer=instance),
            *(self.write(held, consumer=factories.new_uuid()) for _ in range(2)),
        ], [self.fence])

    def test_trees_stay_as_they_are(self) -> None:
        below = factories.provider(self.ctx, "below", parent=self.host)
        for provider, parent in ((below, None), (self.host, self.free), (self.free, self.host)):
            error = self.assertRaises(
                errors.ProviderReserved, providers.update, self.ctx, provider.uuid,
                name=provider.name, parent_uuid=parent and parent.uuid, allow_reparenting=True)
            self.assertIn(provider.uuid, str(error))
        providers.delete(self.ctx, below.uuid)
        with db.write(self.ctx) as session:
            reserved_trees.mark(session, self.free.id)
        for provider in (self.below, self.free):
            self.assertRaises(errors.ProviderReserved, providers.delete, self.ctx, provider.uuid)


@databases.on_each_database
class TestHeldClaims(HeldTestCase):

    def test_a_claim_that_is_due_makes_room(self) -> None:
        host = factories.provider(self.ctx, "host", inventory=OF_HOST)
        below = fenced.child(self.ctx, host)
        fenced.register(self.ctx, host, below)
        leases = fenced.Leases(self.ctx, host, below)
        slot = leases.slot(leases.lease(self.cloud.leaf), VCPU=4)

        def take(seconds: int | None = None) -> str:
            return self.cloud.claims_by(HostAccessGate()).claim(
                self.ctx, self.write(slot, consumer=factories.new_uuid(), seen=None,
                                     project=self.cloud.leaf),
                hold_seconds=seconds).consumer_uuid

        first = take(600)
        self.assertRaises(errors.ProviderReserved, take)
        self.pass_time(first)
        second = take()
        self.assertEqual(({}, slot), (self.held(first), self.held(second)))


@databases.on_each_database
class TestRaces(FenceTestCase):
    """A host that is registered, and a claim of it: never both."""

    def test_registered_between_the_look_and_the_lock(self) -> None:
        if self.kind == "sqlite":
            self.skipTest("one writer at a time")
        write, pauses = applying.write_allocations, []

        def paused_write(session, planned, now):
            write(session, planned, now)
            for pause in pauses:
                pause.here()

        self.patch(applying, "write_allocations", paused_write)
        consumer, ctx = factories.new_uuid(), self.context()

        def claim(pause):
            pauses.append(pause)
            self.put({self.host: {"VCPU": 1}}, ctx=ctx, consumer=consumer)

        with races.Paused(claim) as paused:
            fenced.register(self.ctx, self.host, self.below)
        self.assertIsInstance(paused.outcome, errors.ProviderReserved)
        self.assertEqual({}, self.held(consumer))

    def test_a_claim_waits_for_a_registration(self) -> None:
        lock, pauses, ctx = locks.lock_providers, [], self.context()

        def paused_lock(session, steps):
            lock(session, steps)
            if self.below.id in steps and pauses:
                pauses[0].here()

        self.patch(locks, "lock_providers", paused_lock)

        def register(pause):
            pauses.append(pause)
            fenced.register(ctx, self.host, self.below)

        with races.Paused(register) as paused:
            outcome = paused.against(
                self.database, lambda: self.put({self.host: {"VCPU": 1}}))
        self.assertIsNone(paused.outcome)
        self.assertIsInstance(outcome, errors.ProviderReserved)

    def test_never_both(self) -> None:
        for number in range(6):
            host = factories.provider(self.ctx, f"host {number}", inventory=OF_HOST)
            below = fenced.child(self.ctx, host)
            registering, claiming, consumer = self.context(), self.context(), factories.new_uuid()
            outcomes = races.run(
                lambda ctx=registering, host=host, below=below:
                    fenced.register(ctx, host, below),
                lambda ctx=claiming, host=host, consumer=consumer:
                    self.put({host: {"VCPU": 1}}, ctx=ctx, consumer=consumer))
            self.assertEqual(1, outcomes.count(None), outcomes)
            refusal, = (each for each in outcomes if each is not None)
            self.assertIsInstance(
                refusal, errors.ProviderReserved if outcomes[0] is None else fenced.InUse)
            self.assertEqual(outcomes[1] is None, bool(self.held(consumer)))

    def test_a_claim_and_the_end_of_its_lease(self) -> None:
        fenced.register(self.ctx, self.host, self.below)
        for whole in (True, False):
            lease = self.leases.lease("mine", whole=whole)
            held = {self.host: {"VCPU": 1}} if whole else self.leases.slot(lease, VCPU=1)
            ending, claiming = self.context(), self.context()
            consumer = factories.new_uuid()
            used, refusal = races.run(
                lambda ctx=ending, lease=lease: self.leases.end(lease, ctx),
                lambda ctx=claiming, held=held, consumer=consumer:
                    self.put(held, ctx=ctx, consumer=consumer, project="mine"))
            self.assertIs(used, refusal is None, refusal)
            self.assertIs(used, bool(self.held(consumer)))
            if used:
                allocations.delete(self.ctx, consumer)

    def test_two_claims_of_one_slots_room_on_different_providers(self) -> None:
        fenced.register(self.ctx, self.host, self.below)
        numa = [factories.provider(self.ctx, parent=self.host, inventory={"VCPU": 8})
                for _ in range(2)]
        self.leases.lease("mine", named=False)
        contexts = [self.context() for _ in numa]
        outcomes = races.run(*(
            lambda ctx=ctx, cell=cell: self.put({cell: {"VCPU": 3}}, ctx=ctx, project="mine")
            for ctx, cell in zip(contexts, numa, strict=True)))
        self.assertEqual(1, outcomes.count(None), outcomes)
        self.assertEqual(
            [errors.ProviderReserved], [type(each) for each in outcomes if each is not None])
