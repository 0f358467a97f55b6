"""Whole lives of leases, with all that they do in placement and in a compute service."""

import datetime
import unittest

import fixtures
import sqlalchemy as sa

from placement_core import db, errors as core_errors
from placement_core.db import clock
from placement_core.placement import (
    allocations,
    errors as placement_errors,
    providers,
)
from placement_core.placement.candidates import search
from placement_core.placement.candidates.requests import CandidatesRequest, RequestGroup
from placement_core.placement.records import AllocationWrite
from placement_core.plugin_api.reservations import DoesNotFit
from placement_core.reservations import records, tables
from placement_core.reservations.hosts.access import HostAccessGate
from placement_core.reservations.hosts.healing import Healing
from placement_core.reservations.hosts.registry import HostRegistry
from placement_core.reservations.leases.service import Leases
from placement_core.reservations.leases.transitions import EventAttempt, Transitions
from placement_core.reservations.provisioning import (
    outbox,
    slot_providers,
    slots as placed_slots,
)
from placement_core.reservations.provisioning.provisioner import Provisioner
from placement_core.reservations.scheduling.booking_index import BookingIndex
from placement_core.testing import factories
from placement_core.testing.fakes import MemoryCompute
from placement_plugins.compute.none import NoCompute
from placement_plugins.compute.nova import NovaCompute
from tests import databases, nova_standin
from tests.functional.reservations.lease_cases import NotedRules
from tests.functional.reservations.pool_cases import PoolTestCase, slots, whole
from tests.plugins import remote


class LifeTestCase(PoolTestCase):
    """Two hosts in the freepool, and a compute service in memory."""

    design = "placement"
    leftovers = "report"
    cleaning_seconds = 0

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger("placement_core.reservations"))
        self.compute = self.driver()
        self.provisioner = Provisioner(
            design=self.design, leftovers=self.leftovers, acts=self.compute.acts,
            patience_seconds=600)
        plugins, rules = self.plugins(), NotedRules()
        self.healing = Healing(
            plugins, self.provisioner, cleaning_seconds=self.cleaning_seconds, interval_seconds=0)
        self.pool = HostRegistry(self.provisioner, self.nodes, self.healing)
        self.leases = Leases(
            plugins, self.provisioner, rules, BookingIndex(self.database),
            cleaning_seconds=self.cleaning_seconds, minutes_before_end=60, max_reservations=10)
        self.transitions = Transitions(
            plugins, self.provisioner, rules, cleaning_seconds=self.cleaning_seconds)
        self.hosts = [self.host(name) for name in ("one", "two")]
        self.work()

    def driver(self):
        return MemoryCompute(["one", "two"])

    def plugins(self):
        """Return what can be reserved: {resource type: plugin}."""
        return self.parts.reservation_plugins

    def happen(self, lease, event_type):
        """Let an event be due, and carried out."""
        with db.write(self.ctx) as session:
            row = session.execute(sa.select(tables.lease_events).where(
                tables.lease_events.c.lease_id == lease.id,
                tables.lease_events.c.event_type == event_type)).one()
            session.execute(
                sa.update(tables.lease_events).where(tables.lease_events.c.id == row.id)
                .values(status=records.IN_PROGRESS, owner="me", attempt=row.attempt + 1))
        turn = EventAttempt(row.id, lease.id, event_type, "me", row.attempt + 1)
        self.assertTrue(self.transitions.execute(self.context(), turn))

    def work(self):
        """Make all calls."""
        for _ in range(20):
            outbox.make_calls(self.context(), self.compute, "worker", 100)
            if not outbox.list_(self.ctx):
                return
            with self.database.autocommit.connect() as connection:
                connection.execute(sa.update(tables.outbox).values(next_at=clock.now()))
        self.fail(f"There is no end of calls: {outbox.list_(self.ctx)}")

    def waiting(self):
        return [each.name for each in outbox.list_(self.ctx)]

    def made(self):
        return dict(self.compute.made())


@databases.on_each_database
class TestInPlacement(LifeTestCase):
    """The design ``placement``, without a compute service."""

    def driver(self):
        return NoCompute(self.parts.conf)

    def candidates(self, name):
        """Return the providers that can give one slot and two processors of their tree."""
        request = CandidatesRequest((RequestGroup("", {name: 1, "VCPU": 2}),))
        found = search.find(self.parts.index.snapshot(self.context()), request)
        return len(found)

    def test_slots_without_disk(self):
        """Servers that boot from volumes take none of the host."""
        lease = self.lease(slots(9, vcpus=1, disk_gb=0))
        name = placed_slots.resource_class(lease.reservations[0].id)
        self.happen(lease, records.START)
        with db.read_once(self.ctx) as session:
            held = session.execute(sa.select(
                tables.computehost_allocations.c.slots,
                tables.computehost_allocations.c.disk_gb)).all()
        self.assertEqual([(8, 0), (1, 0)], sorted(map(tuple, held), reverse=True))
        full = next(each for each in self.hosts if self.held(lease)[each.name] == 8)
        self.boot(full, name, fence=HostAccessGate(), VCPU=1)
        self.assertRaises(placement_errors.ProviderReserved, self.boot, full, name,
                          fence=HostAccessGate(), VCPU=1, DISK_GB=1)

    def boot(self, host, name, *, fence=None, **resources):
        """Claim as nova does with the reservation's flavor; return the consumer."""
        consumer = factories.new_uuid()
        allocations.replace(self.context(), [AllocationWrite(
            consumer, {self.child(host): {name: 1}, host.provider_uuid: resources or {"VCPU": 2}},
            "project", "user")], [] if fence is None else [fence])
        return consumer

    def test_a_life(self):
        """Candidates find the slots while the lease is in force, and claims count them."""
        lease = self.lease(slots(2, vcpus=2, affinity=False))
        name = placed_slots.resource_class(lease.reservations[0].id)
        self.assertRaises(core_errors.Invalid, self.candidates, name)
        self.happen(lease, records.START)
        self.assertEqual(2, self.candidates(name))
        server = self.boot(self.hosts[0], name)
        self.assertEqual(1, self.candidates(name))
        self.happen(lease, records.END)
        self.assertEqual(0, self.candidates(name))
        allocations.delete(self.context(), server)
        placed_slots.tidy(self.context())
        self.assertRaises(core_errors.Invalid, self.candidates, name)
        self.assertEqual([], self.waiting())

    def test_growing_and_giving_up(self):
        lease = self.lease(slots(1, vcpus=2))
        name = placed_slots.resource_class(lease.reservations[0].id)
        self.happen(lease, records.START)
        self.assertEqual(1, self.candidates(name))
        self.leases.change(self.context(), lease.id, records.LeaseChange(reservations=[
            records.ChangedReservation(lease.reservations[0].id, None, {"amount": 8})]))
        self.assertEqual(2, self.candidates(name))
        self.leases.delete(self.context(), lease.id)
        self.assertRaises(core_errors.Invalid, self.candidates, name)

    def test_a_host_fails(self):
        lease = self.lease(slots(1, vcpus=2))
        name = placed_slots.resource_class(lease.reservations[0].id)
        self.happen(lease, records.START)
        [before] = self.held(lease)
        [failed] = [each for each in self.hosts if each.name == before]
        self.pool.change(self.context(), str(failed.id), {}, reservable=False, reason="fire")
        self.assertNotEqual({before: 1}, self.held(lease))
        self.assertEqual(1, self.candidates(name))

    def test_the_provider_of_slots_stays(self):
        """Who deletes a tree from below, as nova does, is refused at once."""
        lease = self.lease(slots(2, vcpus=2, affinity=False))
        name = placed_slots.resource_class(lease.reservations[0].id)
        child = self.child(self.hosts[0])
        self.assertRaises(
            placement_errors.ProviderReserved, providers.delete, self.context(), child)
        self.happen(lease, records.START)
        self.assertEqual(2, self.candidates(name))
        self.leases.delete(self.context(), lease.id)
        self.pool.remove(self.context(), str(self.hosts[0].id))
        self.assertRaises(placement_errors.ProviderNotFound, providers.get, self.ctx, child)
        self.pool.register(self.context(), "one", {})

    def test_a_provider_of_slots_that_is_gone(self):
        """A start makes it anew, with the protection that it did not have."""
        lease = self.lease(slots(2, vcpus=2, affinity=False))
        name = placed_slots.resource_class(lease.reservations[0].id)
        self.lose_child(self.hosts[0])
        self.happen(lease, records.START)
        self.assertEqual(2, self.candidates(name))
        self.assertRaises(placement_errors.ProviderReserved, providers.delete, self.context(),
                          self.child(self.hosts[0]))
        self.leases.delete(self.context(), lease.id)
        self.pool.remove(self.context(), str(self.hosts[0].id))

    def test_a_provider_of_slots_whose_name_is_taken(self):
        """The start fails with the reason, and not as if it could be tried again at once."""
        lease = self.lease(slots(2, vcpus=2, affinity=False))
        self.lose_child(self.hosts[0])
        providers.create(self.context(), name="reservation_one")
        self.assertRaises(
            placement_errors.DuplicateProvider, self.happen, lease, records.START)

    def test_a_provider_of_slots_that_another_start_made(self):
        """Who has missed it looks again, under the lock."""
        lease = self.lease(slots(2, vcpus=2, affinity=False))
        children, find = [self.child(host) for host in self.hosts], slot_providers.find
        too_early = [{}]
        self.useFixture(fixtures.MonkeyPatch(
            f"{slot_providers.__name__}.find",
            lambda *values: too_early.pop() if too_early else find(*values)))
        self.happen(lease, records.START)
        self.assertEqual(([], children), (too_early, [self.child(host) for host in self.hosts]))

    def test_a_host_fails_without_its_provider_of_slots(self):
        lease = self.lease(slots(1, vcpus=2))
        name = placed_slots.resource_class(lease.reservations[0].id)
        self.happen(lease, records.START)
        [before] = self.held(lease)
        [failed] = [host for host in self.hosts if host.name == before]
        self.lose_child(failed)
        self.pool.change(self.context(), str(failed.id), {}, reservable=False, reason="fire")
        self.assertNotEqual({before: 1}, self.held(lease))
        self.assertEqual(1, self.candidates(name))


class TestInAnAggregate(LifeTestCase):
    """The design ``aggregate``, with a compute service in memory."""

    design = "aggregate"

    def test_a_refused_lease_leaves_nothing(self):
        self.lease(whole(1))
        self.work()
        before = self.made()
        self.assertRaises(DoesNotFit, self.lease, slots(1), whole(2))
        self.assertEqual(([], before), (self.waiting(), self.made()))

    def test_a_change_that_is_refused_leaves_nothing(self):
        lease = self.lease(slots(1))
        self.work()
        self.compute.calls.clear()
        self.assertRaises(
            DoesNotFit, self.leases.change, self.context(), lease.id,
            records.LeaseChange(reservations=[records.ChangedReservation(
                lease.reservations[0].id, None, {"amount": 1000})]))
        self.work()
        self.assertEqual([], self.compute.calls)

    def test_a_start_does_not_wait(self):
        """The lease is in force although nobody has reached the compute service yet."""
        lease = self.lease(slots(1))
        self.happen(lease, records.START)
        self.assertEqual("ACTIVE", self.found(lease).status)
        self.assertEqual({}, self.made())
        self.happen(lease, records.END)
        self.assertEqual("TERMINATED", self.found(lease).status)
        self.work()
        self.assertEqual({}, self.made())

    def test_an_end_that_is_put_off(self):
        """Images are made again before the new end."""
        lease = self.lease(whole(1, before_end="snapshot"))
        self.happen(lease, records.START)
        self.work()
        [host] = self.held(lease)
        self.compute.boot(host, project_id="project")
        for hours in (10, 20):
            self.leases.change(self.context(), lease.id, records.LeaseChange(
                end_at=self.minute + datetime.timedelta(hours=hours)))
            for _ in range(2):
                self.happen(lease, records.BEFORE_END)
                self.work()
            self.assertEqual(hours // 10, len(self.compute.images))

    def test_a_host_leaves_and_comes_back(self):
        self.assertEqual({"one", "two"}, self.compute.freepool)
        self.pool.remove(self.context(), str(self.hosts[0].id))
        self.work()
        self.assertEqual({"two"}, self.compute.freepool)


@unittest.skipUnless(nova_standin.INSTALLED, "nova is not installed")
class TestInNova(LifeTestCase):
    """Both designs in Nova, whose stand-in checks what it is sent."""

    design = "aggregate"

    def setUp(self):
        self.nova = nova_standin.shared()
        self.nova.reset(hosts={"one": "compute-1", "two": "compute-2"})
        super().setUp()
        self.addCleanup(lambda: self.assertEqual([], self.nova.violations()))

    def driver(self):
        return NovaCompute(remote.configuration(self, nova={
            "auth_type": "password", "auth_url": f"{self.nova.url}/v3", "username": "service",
            "user_domain_id": "default", "password": nova_standin.PASSWORD,
            "project_name": "service", "project_domain_id": "default", "timeout": 20}))

    def hosts_of(self, name):
        return [host for each in self.nova.world()["aggregates"].values()
                if each["name"] == name for host in sorted(each["hosts"])]

    def assert_nothing_left(self):
        world = self.nova.world()
        self.assertEqual(
            ({}, {}, {}, ["freepool"] if self.design == "aggregate" else []),
            (world["flavors"], world["groups"], world["servers"],
             [each["name"] for each in world["aggregates"].values()]))
        self.assertEqual(["compute-1", "compute-2"] if self.design == "aggregate" else [],
                         self.hosts_of("freepool"))
        self.assertEqual({}, self.made())

    def test_slots(self):
        lease = self.lease(slots(2, vcpus=2, affinity=False))
        id_ = lease.reservations[0].id
        self.work()
        made = self.reservation(lease).compute_ids
        world = self.nova.world()
        self.assertEqual((None, {}), (made["server_group_id"], world["groups"]))
        self.assertEqual([id_], list(world["flavors"]))
        self.assertEqual([], world["flavors"][id_]["projects"])
        self.happen(lease, records.START)
        self.work()
        flavor = self.nova.world()["flavors"][id_]
        self.assertEqual((["project"], 2), (flavor["projects"], flavor["vcpus"]))
        if self.design == "aggregate":
            self.assertEqual(["compute-1", "compute-2"], self.hosts_of(id_))
            self.assertEqual(["compute-1", "compute-2"], self.hosts_of("freepool"))
            self.assertEqual(
                made["aggregate_id"],
                next(each["id"] for each in world["aggregates"].values() if each["name"] == id_))
            self.assertEqual(id_, flavor["specs"].pop(
                "aggregate_instance_extra_specs:reservation"))
        self.assertEqual(
            {f"resources:{placed_slots.resource_class(id_)}": "1"}, flavor["specs"])
        self.nova.boot("compute-1", project="project", flavor=id_)
        self.nova.set(delete_after=2)
        self.happen(lease, records.END)
        self.work()
        self.assert_nothing_left()

    def test_hosts(self):
        lease = self.lease(whole(1, 2, before_end="snapshot"))
        id_ = lease.reservations[0].id
        self.happen(lease, records.START)
        self.work()
        self.assertEqual((["compute-1", "compute-2"], []),
                         (self.hosts_of(id_), self.hosts_of("freepool")))
        self.assertIsInstance(self.reservation(lease).compute_ids["aggregate_id"], int)
        self.nova.boot("compute-2", project="project")
        self.happen(lease, records.BEFORE_END)
        outbox.make_calls(self.context(), self.compute, "worker", 100)
        self.assertEqual(["snapshot_host_servers"], self.waiting())
        [(id_, image)] = self.nova.world()["images"].items()
        self.nova.set(images={id_: image | {"status": "active"}})
        self.work()
        self.happen(lease, records.END)
        self.work()
        self.assert_nothing_left()

    def test_both_in_one_lease_given_up_early(self):
        lease = self.lease(slots(1, affinity=True), whole(1))
        self.work()
        later = self.lease(slots(1), hours=(20, 30), name="later")
        self.work()
        self.happen(lease, records.START)
        self.work()
        self.leases.delete(self.context(), lease.id)
        self.leases.delete(self.context(), later.id)
        self.work()
        self.assert_nothing_left()

    def test_answers_that_are_lost(self):
        """Nova does half of it, or does not tell: in the end all is there once, then nothing."""
        self.nova.fail({"how": "500 after", "rate": 0.2, "seed": 7})
        lease = self.lease(slots(2, vcpus=2, affinity=True), whole(1))
        self.happen(lease, records.START)
        self.work_in_trouble()
        world = self.nova.world()
        self.assertEqual((1, 0, 3 if self.design == "aggregate" else 1), tuple(
            len(world[kind]) for kind in ("flavors", "groups", "aggregates")))
        self.happen(lease, records.END)
        self.work_in_trouble()
        self.nova.fail()
        self.assertEqual(outbox.AuditResult([], []), outbox.audit(self.context(), self.compute))
        self.assert_nothing_left()

    def work_in_trouble(self):
        for _ in range(10):
            try:
                self.work()
            except self.failureException:
                continue
            return
        self.fail("There is no end of trouble.")


class TestInNovaAndPlacement(TestInNova):
    """The design ``placement``, with Nova: flavors, no freepool."""

    design = "placement"
