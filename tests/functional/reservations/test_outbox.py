import collections
import contextlib
import datetime
import threading
import time

import fixtures
import sqlalchemy as sa

from placement_core import db
from placement_core.db import clock
from placement_core.plugin_api.compute import ComputeRefused, ComputeUnavailable
from placement_core.reservations import tables
from placement_core.reservations.provisioning import compute_calls, outbox, slots
from placement_core.reservations.provisioning.compute_calls import Call
from placement_core.reservations.provisioning.outbox import Worked
from placement_core.reservations.provisioning.provisioner import HOST
from placement_core.testing import factories
from placement_core.testing.fakes import MemoryCompute
from tests import databases
from tests.functional.reservations.provisioner_worlds import PROJECT, ProvisionerTestCase


class Killed(BaseException):
    """A worker dies at this moment."""


class OutboxTestCase(ProvisionerTestCase):
    """A test with a compute service in memory."""

    design = "aggregate"
    acts = True

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger("placement_core.reservations"))
        self.one, self.two = self.host("one"), self.host("two")
        self.compute = MemoryCompute(["one", "two"])
        self.compute.freepool = {"one", "two"}
        self.compute.calls.clear()

    def work(self, owner="worker", most=100, patience_seconds=600):
        return outbox.work_off(
            self.context(), self.compute, owner, most, patience_seconds=patience_seconds)

    def pass_time(self, **values):
        """Let every pause and deadline be over."""
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.update(tables.outbox).values(
                next_at=clock.now(), deadline_at=clock.now(), **values))

    def give_up(self):
        """Let it be too late for what has a time."""
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.update(tables.outbox).where(
                tables.outbox.c.give_up_at.is_not(None)).values(give_up_at=clock.now()))

    def work_until_done(self):
        for _ in range(20):
            self.work()
            if not self.waiting():
                return
            self.pass_time()
        self.fail(f"There is no end of calls: {outbox.list_(self.ctx)}")

    def names(self):
        """Return the names of the calls so far, and forget them."""
        found = [call[0] for call in self.compute.calls]
        self.compute.calls.clear()
        return found

    def failing(self, name, error, times=1, of=None):
        """Let a call fail some times; only of one reservation, if that is given."""
        left = [times]

        def before(*call):
            if call[0] == name and left[0] and of in (None, call[1]):
                left[0] -= 1
                raise error

        self.compute.before = before


@databases.on_each_database
class TestOutbox(OutboxTestCase):
    """Rows and workers."""

    def setUp(self):
        super().setUp()
        self.lent, self.reservation = self.lease(fields={"affinity": False})

    def test_results_are_kept(self):
        self.make(self.lent)
        self.assertEqual(Worked(made=2), self.work())
        aggregate = int(self.compute.put_slot_aggregate(self.reservation.id, PROJECT))
        self.assertEqual({"flavor_id": self.reservation.id, "server_group_id": None,
                          "aggregate_id": aggregate}, self.kept(self.reservation))
        self.assertEqual(Worked(), self.work())

    def test_nothing_is_written_by_what_is_undone(self):
        """A lease that is refused after all leaves no call."""
        def fail(*values, **named):
            put(*values, **named)
            raise ComputeRefused("no")

        put = outbox.put
        self.addCleanup(setattr, outbox, "put", put)
        outbox.put = fail
        self.assertRaises(ComputeRefused, self.make, self.lent)
        self.assertEqual([], self.waiting())

    def test_a_call_that_does_not_come_through(self):
        """It is made again after a pause, and what comes after it waits."""
        self.failing("put_flavor", ComputeUnavailable("Nova sleeps."))
        self.make(self.lent)
        self.assertEqual(Worked(failed=1), self.work())
        self.assertEqual(Worked(), self.work())
        first, second = outbox.list_(self.ctx)
        self.assertEqual(("put_flavor", 1, "put_slot_aggregate", 0, None),
                         (first.name, first.attempts, second.name, second.attempts,
                          second.problem))
        self.assertIn("Nova sleeps.", first.problem)
        self.pass_time()
        self.assertEqual((Worked(made=2), []), (self.work(), self.waiting()))

    def test_pauses_grow(self):
        """Up to a minute; for what was refused, up to ten."""
        self.make(self.lent)
        for error, pauses in ((ComputeUnavailable("no"), {3: 8, 5: 32, 40: 60}),
                              (ComputeRefused("no"), {3: 120, 40: 600})):
            for attempt, pause in pauses.items():
                self.failing("put_flavor", error)
                self.pass_time(attempt=attempt)
                self.work()
                wait = outbox.list_(self.ctx)[0].next_at - datetime.datetime.now(datetime.UTC)
                self.assertTrue(pause - 5 < wait.total_seconds() <= pause, (attempt, wait))

    def test_a_refused_call(self):
        """It stays, with its reason, is tried rarely, and at once when somebody says so."""
        self.failing("put_flavor", ComputeRefused("Such flavors are forbidden."))
        self.make(self.lent)
        self.work()
        (problem, _) = [each.problem for each in outbox.list_(self.ctx)]
        self.assertEqual("ComputeRefused: Such flavors are forbidden.", problem)
        self.assertIn("somebody has to see to it", self.log.output)
        self.assertEqual(Worked(), self.work())
        self.assertEqual((0, 1), (
            outbox.retry(self.ctx, -1),
            outbox.retry(self.ctx, outbox.list_(self.ctx)[0].id)))
        self.assertEqual((Worked(made=2), []), (self.work(), self.waiting()))

    def test_a_driver_that_breaks(self):
        """Its call waits; others go on."""
        other, reservation = self.lease()
        self.failing("put_flavor", ZeroDivisionError("oh"), of=self.reservation.id)
        self.make(self.lent)
        self.make(other)
        self.assertEqual(Worked(made=2, failed=1), self.work())
        self.assertIn("ZeroDivisionError", self.log.output)
        self.assertEqual({reservation.id}, set(self.compute.flavors))

    def test_a_call_of_another_release(self):
        """It is not made, and not lost."""
        with db.write(self.ctx) as session:
            outbox.put(session, "subject", None, [Call("made", {})])
        self.assertEqual(Worked(failed=1), self.work())
        self.assertEqual(["made"], self.waiting())

    def test_calls_of_earlier_releases(self):
        """What is not needed any more holds up nothing that comes after it."""
        with db.write(self.ctx) as session:
            outbox.put(session, self.reservation.id, self.lent.id, [
                Call("put_server_group", {"reservation_id": "r", "affinity": False}),
                Call("open_freepool", {})])
        self.make(self.lent)
        self.assertEqual((Worked(made=4), []), (self.work(), self.waiting()))
        self.assertEqual({self.reservation.id: {"flavor", "aggregate"}}, self.compute.made())

    def test_a_worker_dies_before_its_call(self):
        self._die("before")

    def test_a_worker_dies_after_its_call(self):
        """The call is made again: made twice is made once."""
        self._die("after")

    def _die(self, moment):
        self.make(self.lent)
        self.start(self.lent, {self.one: 1})

        def die(*call):
            raise Killed

        while True:
            setattr(self.compute, moment, die)
            with contextlib.suppress(Killed):
                self.work(owner=factories.new_uuid())
            setattr(self.compute, moment, lambda *call: None)
            # Nobody else has it before the deadline.
            self.assertEqual(Worked(), self.work("other"))
            self.pass_time()
            if not self.work("other", most=1).taken:
                break
        self.assertEqual([], self.waiting())
        flavor = self.compute.flavors[self.reservation.id]
        self.assertEqual(({PROJECT}, {"one"}),
                         (flavor.projects, self.compute.aggregates[self.reservation.id][2]))

    def test_a_worker_that_was_stopped_comes_too_late(self):
        """Another has made its call; it removes nothing, and its answer is not kept."""
        self.make(self.lent)

        def come_between(*call):
            self.compute.after = lambda *call: None
            self.pass_time()
            self.compute.flavors.clear()
            self.assertEqual(Worked(made=1), self.work("other", most=1))

        self.compute.after = come_between
        self.assertEqual(Worked(), self.work("stopped", most=1))
        self.assertEqual([self.reservation.id], list(self.compute.flavors))
        self.assertEqual(["put_slot_aggregate"], self.waiting())

    def test_many_workers(self):
        """Every call once, in the order of its reservation."""
        leases = [self.lease(fields={"affinity": True}) for _ in range(12)]
        for lent, _ in leases:
            self.make(lent)
            self.start(lent, {self.one: 1, self.two: 1})
        threads = [threading.Thread(target=self.work, args=(f"worker-{number}",))
                   for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.work_until_done()
        for _, reservation in leases:
            names = [call[0] for call in self.compute.calls if call[1] == reservation.id]
            self.assertEqual(
                [*["put_flavor", "put_slot_aggregate"] * 2, "add_host", "add_host",
                 "grant_flavor"], names)

    def test_one_aggregate_at_a_time(self):
        """Nova's schedulers lose one of two changes of an aggregate that come at once."""
        inside, most = collections.Counter(), collections.Counter()
        lock = threading.Lock()

        def key(call):
            return call[1] if call[0] in compute_calls.OF_AGGREGATE else (
                "freepool" if call[0] in compute_calls.OF_FREEPOOL else None)

        def before(*call):
            if key(call) is None:
                return
            with lock:
                inside[key(call)] += 1
                most[key(call)] = max(most[key(call)], inside[key(call)])
            time.sleep(0.02)

        def after(*call):
            with lock:
                inside[key(call)] -= 1

        self.compute.before, self.compute.after = before, after
        hosts = [self.one, self.two, *(self.host(f"h{number}") for number in range(6))]
        self.compute.known_hosts = {world.host.name for world in hosts}
        leases = [self.lease(HOST), self.lease(), self.lease(HOST)]
        for number, (lent, _) in enumerate(leases):
            self.make(lent)
            self.start(lent, dict.fromkeys(hosts[:4] if number < 2 else hosts[4:], 1))
        threads = [threading.Thread(target=self.work, args=(f"worker-{number}",))
                   for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.work_until_done()
        self.assertEqual({1}, set(most.values()))
        self.assertEqual({"freepool", *(each.id for _, each in leases)}, set(most))

    def test_servers_that_take_their_time(self):
        """What removes the rest waits for them, and nobody else does."""
        self.compute.patience = 2
        self._in_force_with_server()
        self.end(self.lent, {self.one: 1})
        other, _ = self.lease()
        self.make(other)
        self.assertEqual((1, 1), (self.work().waiting, len(self.compute.servers)))
        self.assertIn(self.reservation.id, self.compute.flavors)
        self.assertEqual("1 are left", outbox.list_(self.ctx)[0].problem)
        self.work_until_done()
        self.assertEqual({}, self.compute.servers)
        self.assertNotIn(self.reservation.id, self.compute.flavors)

    def test_servers_that_do_not_go(self):
        """After a time it goes on without; the time begins with the first call."""
        self.compute.patience = 10**6
        self._in_force_with_server()
        self.failing("delete_flavor_servers", ComputeUnavailable("no"), times=2)
        self.end(self.lent, {self.one: 1})
        for _ in range(3):
            self.work()
            self.give_up()
            self.pass_time()
            self.assertIn(self.reservation.id, self.compute.flavors)
        self.work_until_done()
        self.assertNotIn(self.reservation.id, self.compute.flavors)
        self.assertIn("goes on without", self.log.output)

    def test_no_patience(self):
        self.compute.patience = 10**6
        self._in_force_with_server()
        self.end(self.lent, {self.one: 1})
        self.work(patience_seconds=0)
        self.pass_time()
        self.work(patience_seconds=0)
        self.assertEqual({}, self.compute.flavors)

    def _in_force_with_server(self):
        self.make(self.lent)
        self.start(self.lent, {self.one: 1})
        self.work_until_done()
        self.compute.boot("one", project_id=PROJECT, lease=self.reservation.id)

    def test_an_end_before_the_start_was_called(self):
        """What nobody has begun is not begun any more, and a refusal does not stand in the way."""
        self.failing("put_flavor", ComputeRefused("no"), times=100)
        self.make(self.lent)
        self.work()
        self.start(self.lent, {self.one: 1})
        self.end(self.lent, {self.one: 1})
        self.names()
        self.work_until_done()
        self.assertEqual(["revoke_flavor", "delete_flavor_servers", "remove_aggregate",
                          "remove_flavor", "remove_server_group"], self.names())
        self.assertEqual({}, self.compute.made())
        self.assertEqual([None] * 3, list(self.kept(self.reservation).values()))

    def test_an_end_during_a_call(self):
        """What is being made is waited for; it is not tried again, and undone."""
        def end(*call):
            self.compute.before = lambda *call: None
            self.end(self.lent, was_in_force=False)
            self.assertEqual(Worked(), self.work("other"))
            raise ComputeUnavailable("Nobody knows what came of it.")

        self.make(self.lent)
        self.compute.before = end
        self.assertEqual(1, self.work(most=1).failed)
        self.assertEqual(["remove_aggregate", "remove_flavor", "remove_server_group"],
                         self.waiting())
        self.work_until_done()
        self.assertEqual([], list(self.compute.made()))

    def test_left_behind(self):
        """What ended reservations have is removed; what others have is told of."""
        self.make(self.lent)
        self.work()
        ended, gone = self.lease(fields={"affinity": True})
        self.make(ended)
        self.start(ended, {self.one: 1})
        self.work()
        self.end(ended, {self.one: 1})
        self.work()
        self.assertEqual(outbox.Audit([], []), outbox.audit(self.ctx, self.compute))
        # A call of somebody who was stopped arrives late.
        self.compute.groups.add(gone.id)
        self.compute.put_flavor(gone.id, vcpus=1, memory_mb=1, disk_gb=1, in_aggregate=True)
        self.compute.put_slot_aggregate(gone.id, PROJECT)
        unknown = factories.new_uuid()
        self.compute.put_host_aggregate(unknown, PROJECT)
        self.assertEqual(outbox.Audit([gone.id], [unknown]),
                         outbox.audit(self.ctx, self.compute))
        self.assertEqual(outbox.Audit([], [unknown]), outbox.audit(self.ctx, self.compute))
        self.work_until_done()
        self.assertEqual({self.reservation.id, unknown}, set(self.compute.made()))


class TestDesigns(OutboxTestCase):
    """Which calls each happening consists of."""

    def test_slots_of_an_aggregate(self):
        lent, reservation = self.lease(fields={"affinity": False})
        self.make(lent)
        self.work()
        self.assertEqual(["put_flavor", "put_slot_aggregate"], self.names())
        flavor = self.compute.flavors[reservation.id]
        self.assertEqual(
            ((2, 1024, 10), True, slots.resource_class(reservation.id), set()),
            (flavor.size, flavor.in_aggregate, flavor.resource_class, flavor.projects))
        self.start(lent, {self.one: 1, self.two: 1})
        self.work()
        self.assertEqual(
            ["put_flavor", "put_slot_aggregate", "add_host", "add_host", "grant_flavor"],
            self.names())
        self.assertEqual(("slot", PROJECT, {"one", "two"}),
                         self.compute.aggregates[reservation.id])
        self.assertEqual({"one", "two"}, self.compute.freepool)
        self.assertEqual({PROJECT}, self.compute.flavors[reservation.id].projects)
        self.change(lent, {self.one: 1, self.two: 1}, {self.one: 1})
        self.work()
        self.assertEqual(["remove_host"], self.names())
        self.change(lent, {self.one: 1}, {self.one: 3, self.two: 1})
        self.work()
        self.assertEqual(["put_slot_aggregate", "add_host", "add_host"], self.names())
        self.end(lent, {self.one: 3, self.two: 1})
        self.work()
        self.assertEqual(["revoke_flavor", "delete_flavor_servers", "remove_aggregate",
                          "remove_flavor", "remove_server_group"], self.names())
        self.assertEqual(({}, {"one", "two"}), (self.compute.made(), self.compute.freepool))

    def test_slots_in_placement(self):
        self.provisioner = self.make_provisioner(design="placement")
        lent, reservation = self.lease(fields={"affinity": True})
        self.provisioner.add_host(self.ctx, self.one.host)
        self.make(lent)
        self.start(lent, {self.one: 1})
        self.work()
        self.assertEqual(["put_flavor", "put_flavor", "grant_flavor"], self.names())
        flavor = self.compute.flavors[reservation.id]
        self.assertEqual(
            (f"CUSTOM_RESERVATION_{reservation.id.upper().replace('-', '_')}", False),
            (flavor.resource_class, flavor.in_aggregate))
        self.end(lent, {self.one: 1})
        self.work()
        self.assertEqual({}, self.compute.made())

    def test_a_change_before_the_start(self):
        """The flavor follows the fields."""
        lent, reservation = self.lease(fields={"affinity": True})
        self.make(lent)
        self.work()
        self.change(lent, {self.one: 1}, {self.two: 1}, status="pending",
                    fields={"vcpus": 4, "affinity": None})
        self.work()
        self.assertEqual((4, 1024, 10), self.compute.flavors[reservation.id].size)

    def test_changes_that_nobody_carried_out_yet(self):
        lent, reservation = self.lease()
        self.make(lent)
        for vcpus in (4, 8):
            self.change(lent, {}, {}, status="pending", fields={"vcpus": vcpus})
        self.work()
        self.assertEqual(["put_flavor", "put_slot_aggregate"], self.names())
        self.assertEqual(8, self.compute.flavors[reservation.id].size[0])

    def test_hosts(self):
        lent, reservation = self.lease(HOST, {"before_end": "snapshot"})
        self.compute.boot("one", project_id="other", preemptible=True)
        self.make(lent)
        self.start(lent, {self.one: 1, self.two: 1})
        self.work_until_done()
        self.assertEqual(
            ["put_host_aggregate", "delete_preemptible_servers", "delete_preemptible_servers",
             "add_host", "remove_from_freepool"],
            [call[0] for call in self.compute.calls if "two" not in call])
        self.assertEqual(
            (set(), {"one", "two"}, {}, int(self.compute.put_host_aggregate(
                reservation.id, PROJECT))),
            (self.compute.freepool, self.compute.aggregates[reservation.id][2],
             self.compute.servers, self.kept(reservation)["aggregate_id"]))
        self.compute.boot("one", project_id=PROJECT)
        self._do("prepare_end", lent, "active", self.shares({self.one: 1, self.two: 1}))
        self.work_until_done()
        self.assertEqual(1, len(self.compute.images))
        self.end(lent, {self.one: 1, self.two: 1})
        self.work_until_done()
        self.assertEqual(({}, {"one", "two"}, {}),
                         (self.compute.made(), self.compute.freepool, self.compute.servers))

    def test_an_end_waits_for_images(self):
        self._with_image_to_make()
        self.work()
        self.assertEqual(["delete_host_servers"], [
            name for name in self.waiting() if name.startswith("delete")])
        self.names()
        self.work_until_done()
        self.assertEqual(["snapshot_host_servers", "delete_host_servers"], self.names()[:2])
        self.assertEqual((1, {}), (len(self.compute.images), self.compute.servers))

    def test_images_that_cannot_be_made(self):
        """An end does not wait for them longer than for servers."""
        self.provisioner = self.make_provisioner(patience_seconds=0)
        self.failing("snapshot_host_servers", ComputeRefused("no room"), times=100)
        self._with_image_to_make()
        self.work_until_done()
        self.assertEqual((0, {}), (len(self.compute.images), self.compute.servers))

    def _with_image_to_make(self):
        lent, _ = self.lease(HOST, {"before_end": "snapshot"})
        self.make(lent)
        self.start(lent, {self.one: 1})
        self.work_until_done()
        self.compute.boot("one", project_id=PROJECT)
        self._do("prepare_end", lent, "active", self.shares({self.one: 1}))
        self.end(lent, {self.one: 1})

    def test_no_snapshot(self):
        lent, _ = self.lease(HOST)
        self._do("prepare_end", lent, "active", self.shares({self.one: 1}))
        self.assertEqual([], self.waiting())

    def test_hosts_without_a_freepool(self):
        """Where placement counts slots there is none to leave."""
        self.provisioner = self.make_provisioner(design="placement")
        self.compute.freepool = set()
        lent, _ = self.lease(HOST)
        self.make(lent)
        self.start(lent, {self.one: 1})
        self.work_until_done()
        self.end(lent, {self.one: 1})
        self.work_until_done()
        self.assertEqual(({}, set()), (self.compute.made(), self.compute.freepool))

    def test_a_failed_host_of_a_host_reservation(self):
        """Another takes its place; a call about it that is refused holds nothing up."""
        lent, reservation = self.lease(HOST)
        self.make(lent)
        self.compute.known_hosts = {"two"}
        self.start(lent, {self.one: 1})
        self.work()
        self.assertEqual(["add_host", "remove_from_freepool"], self.waiting())
        self.compute.known_hosts = {"one", "two"}
        self.change(lent, {self.one: 1}, {self.two: 1})
        self.work_until_done()
        self.assertEqual(({"one"}, {"two"}),
                         (self.compute.freepool, self.compute.aggregates[reservation.id][2]))

    def test_who_comes_to_a_host_waits_until_it_was_left(self):
        """A server that does not die is nobody else's, and the end harms nobody."""
        self.compute.patience = 1
        left, _ = self.lease(HOST)
        self.make(left)
        self.start(left, {self.one: 1})
        self.work_until_done()
        self.compute.boot("one", project_id=PROJECT)
        comes, reservation = self.lease(HOST)
        self.make(comes)
        self.end(left, {self.one: 1})
        self.start(comes, {self.one: 1})
        self.names()
        self.work()
        self.assertEqual({"delete_host_servers", "put_host_aggregate"}, set(self.names()))
        self.work_until_done()
        self.assertEqual(({"two"}, {"one"}, {}),
                         (self.compute.freepool, self.compute.aggregates[reservation.id][2],
                          self.compute.servers))

    def test_hosts_of_a_reservation_do_not_wait_for_each_other(self):
        self.compute.patience = 3
        lent, _ = self.lease(HOST)
        self.make(lent)
        self.start(lent, {self.one: 1, self.two: 1})
        self.work_until_done()
        for name in ("one", "two"):
            self.compute.boot(name, project_id=PROJECT)
        self.end(lent, {self.one: 1, self.two: 1})
        self.assertEqual(Worked(waiting=2), self.work())

    def test_hosts_come_and_go(self):
        self.compute.freepool = set()
        self.provisioner.add_host(self.ctx, self.one.host)
        self.work()
        self.assertEqual((["add_to_freepool"], {"one"}),
                         (self.names(), self.compute.freepool))
        self.provisioner.add_host(self.ctx, self.two.host)
        self.provisioner.remove_host(self.ctx, self.two.host)
        self.provisioner.remove_host(self.ctx, self.one.host)
        self.work()
        self.assertEqual((["remove_from_freepool"] * 2, set()),
                         (self.names(), self.compute.freepool))

    def test_without_a_compute_service(self):
        """Nothing is ever written to the outbox."""
        self.provisioner = self.make_provisioner(design="placement", acts=False)
        self.provisioner.add_host(self.ctx, self.one.host)
        for resource_type in ("virtual:instance", HOST):
            lent, _ = self.lease(resource_type, {"before_end": "snapshot"}
                                 if resource_type == HOST else None)
            self.make(lent)
            self.change(lent, {self.one: 1}, {self.one: 1}, status="pending")
            self.start(lent, {self.one: 1})
            self._do("prepare_end", lent, "active", self.shares({self.one: 1}))
            self.change(lent, {self.one: 1}, {self.two: 1})
            self.end(lent, {self.two: 1})
        self.provisioner.remove_host(self.ctx, self.one.host)
        self.assertEqual([], self.waiting())
