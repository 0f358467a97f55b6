import collections
import contextlib
import dataclasses
import datetime
import logging
import threading
import time
from unittest import mock

import fixtures

from placement_core import db, errors
from placement_core.plugin_api.compute import ComputeRefused, ComputeUnavailable
from placement_core.reservations.provisioning import compute_calls, outbox
from placement_core.reservations.provisioning.compute_calls import ComputeCall
from placement_core.reservations.provisioning.outbox import CallCounts
from placement_core.reservations.provisioning.provisioner import HOST
from placement_core.reservations.records import PoolHost
from placement_core.testing import factories
from tests import databases
from tests.functional.reservations.outbox_cases import Killed, LostCommit, OutboxTestCase
from tests.functional.reservations.provisioner_cases import PROJECT


class Returning:
    """A compute driver; one call about one reservation returns something else."""

    def __init__(self, driver, call, result, reservation_id):
        self._driver, self._call = driver, call
        self._result, self._reservation_id = result, reservation_id

    def __getattr__(self, name):
        method = getattr(self._driver, name)
        if name != self._call:
            return method

        def call(**arguments):
            result = method(**arguments)
            is_about_it = arguments["reservation_id"] == self._reservation_id
            return self._result if is_about_it else result

        return call


@databases.on_each_database
class TestOutbox(OutboxTestCase):
    """Rows and workers."""

    def setUp(self):
        super().setUp()
        self.lent, self.reservation = self.lease(fields={"affinity": False})

    def test_results_are_kept(self):
        self.make(self.lent)
        self.assertEqual(CallCounts(made=2), self.work())
        aggregate = int(self.compute.put_slot_aggregate(self.reservation.id, PROJECT))
        self.assertEqual({"flavor_id": self.reservation.id, "server_group_id": None,
                          "aggregate_id": aggregate}, self.kept(self.reservation))
        self.assertEqual(CallCounts(), self.work())

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
        self.assertEqual(CallCounts(failed=1), self.work())
        self.assertEqual(CallCounts(), self.work())
        first, second = outbox.list_(self.ctx)
        self.assertEqual(("put_flavor", 1, "put_slot_aggregate", 0, None),
                         (first.name, first.attempts, second.name, second.attempts,
                          second.problem))
        self.assertIn("Nova sleeps.", first.problem)
        self.pass_time()
        self.assertEqual((CallCounts(made=2), []), (self.work(), self.waiting()))

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
        self.assertEqual(CallCounts(), self.work())
        self.assertEqual((0, 1), (
            outbox.retry(self.ctx, -1),
            outbox.retry(self.ctx, outbox.list_(self.ctx)[0].id)))
        self.assertEqual((CallCounts(made=2), []), (self.work(), self.waiting()))

    def test_a_problem_that_no_database_keeps(self):
        """It is stored as it can be, and cut."""
        self.failing("put_flavor", ComputeRefused("NUL \0, half \udc80" + "x" * 100_000))
        self.make(self.lent)
        self.assertEqual(CallCounts(failed=1), self.work())
        problem = outbox.list_(self.ctx)[0].problem
        self.assertEqual(2000, len(problem))
        self.assertEqual(r"ComputeRefused: NUL \x00, half \udc80x", problem[:38])

    def test_a_driver_that_breaks(self):
        """Its call waits; others go on."""
        other, reservation = self.lease()
        self.failing("put_flavor", ZeroDivisionError("oh"), of=self.reservation.id)
        self.make(self.lent)
        self.make(other)
        self.assertEqual(CallCounts(made=2, failed=1), self.work())
        self.assertIn("ZeroDivisionError", self.log.output)
        self.assertEqual({reservation.id}, set(self.compute.flavors))

    def test_a_driver_that_returns_something_else(self):
        """Its call is refused, with what it returned; others go on."""
        other, _ = self.lease()
        longest, largest = "f" * 36, str(2 ** 31 - 1)
        for call, results in {
            "put_flavor": (42, "f" * 37, "f\x00", ["f"], b"f"),
            "put_slot_aggregate": (42, "1" * 37),
        }.items():
            for result in results:
                driver = Returning(self.compute, call, result, self.reservation.id)
                self.make(self.lent)
                self.make(other)
                counts = self.work(driver=driver)
                self.assertEqual(1, counts.failed, (call, result))
                problem = outbox.list_(self.ctx)[0].problem
                self.assertIn(f"ComputeRefused: {call} of the driver returned", problem)
                self.assertIn(repr(result)[:20], problem)
                self.assertEqual({self.reservation.id}, {
                    each.subject for each in outbox.list_(self.ctx)})
                self.pass_time()
                self.work()
                self.assertEqual([], self.waiting())
        for call, result, expected in (
            ("put_flavor", longest, {"flavor_id": longest}),
            ("put_slot_aggregate", largest, {"aggregate_id": int(largest)}),
            # No number that there is a place for; as one that is no number.
            ("put_slot_aggregate", "2147483648", {"aggregate_id": None}),
            ("put_slot_aggregate", longest, {"aggregate_id": None}),
        ):
            self.make(self.lent)
            self.assertEqual(CallCounts(made=2), self.work(
                driver=Returning(self.compute, call, result, self.reservation.id)))
            self.assertEqual(expected, {
                name: id_ for name, id_ in self.kept(self.reservation).items()
                if name in expected})

    def test_counts_and_aggregates_that_are_something_else(self):
        self.make(self.lent)
        self.start(self.lent, {self.one: 1})
        self.assertEqual(1, self.work(driver=Returning(
            self.compute, "add_host", "42", self.reservation.id)).failed)
        self.assertIn("add_host of the driver returned '42'", outbox.list_(self.ctx)[0].problem)
        self.pass_time()
        self.work_until_done()
        self.end(self.lent)
        self.assertEqual(1, self.work(driver=Returning(
            self.compute, "delete_flavor_servers", None, self.reservation.id)).failed)
        self.assertIn("delete_flavor_servers of the driver returned None",
                      outbox.list_(self.ctx)[0].problem)
        self.pass_time()
        # What a call returns that is to return nothing is not looked at.
        self.assertEqual(0, self.work(driver=Returning(
            self.compute, "remove_flavor", "f" * 40, self.reservation.id)).failed)
        self.assertEqual([], self.waiting())

    def test_a_call_of_another_release(self):
        """It is not made, and not lost."""
        with db.write(self.ctx) as session:
            outbox.put(session, "subject", None, [ComputeCall("made", {})])
        self.assertEqual(CallCounts(failed=1), self.work())
        self.assertEqual(["made"], self.waiting())

    def test_calls_of_earlier_releases(self):
        """What is not needed any more holds up nothing that comes after it."""
        with db.write(self.ctx) as session:
            outbox.put(session, self.reservation.id, self.lent.id, [
                ComputeCall("put_server_group", {"reservation_id": "r", "affinity": False}),
                ComputeCall("open_freepool", {})])
        self.make(self.lent)
        self.assertEqual((CallCounts(made=4), []), (self.work(), self.waiting()))
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
            self.assertEqual(CallCounts(), self.work("other"))
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
            self.assertEqual(CallCounts(made=1), self.work("other", most=1))

        self.compute.after = come_between
        self.assertEqual(CallCounts(), self.work("stopped", most=1))
        self.assertEqual([self.reservation.id], list(self.compute.flavors))
        self.assertEqual(["put_slot_aggregate"], self.waiting())

    def test_an_id_that_another_call_has_got(self):
        """As SQLite does it: a worker that is late makes the call that is there, in its turn."""
        other, reservation = self.lease()
        calls = [(name, each.id) for each in (self.reservation, reservation)
                 for name in ("put_flavor", "put_slot_aggregate")]
        for done in (0, 1):
            self.make(self.lent)
            self.work(most=done)
            self._find_before(lambda: (self.work("other"), self.make(other)))
            self.work("late")
            self.work_until_done()
            self.assertEqual(calls, [call[:2] for call in self.compute.calls])
            self.compute.calls.clear()

    def _find_before(self, happen):
        """Let something happen after the next worker has found what is due."""
        find_due = outbox._find_due

        def find(*arguments):
            ids = find_due(*arguments)
            outbox._find_due = find_due
            happen()
            return ids

        self.useFixture(fixtures.MonkeyPatch(f"{outbox.__name__}._find_due", find))

    def test_a_lost_commit(self):
        """The worker makes the call that it has dequeued all the same."""
        self.make(self.lent)
        self.useFixture(LostCommit())
        self.assertEqual(CallCounts(made=2), self.work())

    def test_an_outage_after_a_call(self):
        """Its worker makes it again, together with what waited for it; others leave it alone."""
        with db.write(self.ctx) as session:
            for host_id, name in enumerate(("one", "two")):
                outbox.put(session, f"host:{host_id}", None,
                           compute_calls.add_to_freepool(host_id, name))
        with mock.patch.object(outbox, "_complete", side_effect=errors.Unavailable("too busy")):
            self.assertRaises(errors.Unavailable, self.work, most=1)
        self.assertEqual(CallCounts(), self.work("other"))
        self.assertEqual((CallCounts(made=2), []), (self.work(), self.waiting()))

    def test_a_call_that_another_worker_completes(self):
        """It was dequeued all the same: who makes one call makes no second one."""
        with db.write(self.ctx) as session:
            for host_id, name in enumerate(("one", "two")):
                outbox.put(session, f"host:{host_id}", None,
                           compute_calls.add_to_freepool(host_id, name))
        with mock.patch.object(outbox, "_complete", return_value=False):
            self.assertEqual(1, self.work(most=1).taken)
        self.assertEqual(1, len(self.compute.calls))

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

    def test_many_calls_that_wait_for_the_freepool(self):
        """A worker died while it changed the freepool: calls about other things go on."""
        hosts = range(100, 121)
        with db.write(self.ctx) as session:
            for host_id in hosts:
                outbox.put(session, f"host:{host_id}", None,
                           compute_calls.add_to_freepool(host_id, f"host-{host_id}"))
        self._die_and_leave(hosts)

    def test_many_calls_that_wait_for_one_aggregate(self):
        other, reservation = self.lease()
        hosts = range(100, 121)
        with db.write(self.ctx) as session:
            outbox.put(session, reservation.id, other.id, compute_calls.add_hosts(
                reservation.id, [PoolHost(id_, f"host-{id_}", id_) for id_ in hosts]))
        self._die_and_leave(hosts)

    def _die_and_leave(self, hosts):
        """Let a worker die in the first of many calls that change one aggregate."""
        def die(*call):
            raise Killed

        self.compute.known_hosts = {f"host-{host_id}" for host_id in hosts}
        self.compute.before = die
        with contextlib.suppress(Killed):
            self.work("killed")
        self.compute.before = lambda *call: None
        # They are due before all that comes later.
        self.make(self.lent)
        self.assertEqual(CallCounts(made=2), self.work())
        self.assertEqual([self.reservation.id], list(self.compute.flavors))
        self.assertEqual(len(hosts), len(self.waiting()))

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

    def test_an_outage_while_servers_go(self):
        """It may be longer than servers may take; they have all of that time afterwards."""
        self.compute.patience = 10**6
        self._in_force_with_server()
        self.end(self.lent, {self.one: 1})
        self.assertEqual(1, self.work().waiting)
        self.failing("delete_flavor_servers", ComputeUnavailable("no"), times=2)
        for _ in range(2):
            self.pass_time()
            self.assertEqual(1, self.work().failed)
            self.give_up()
        self.pass_time()
        self.assertEqual(1, self.work().waiting)
        self.assertIn(self.reservation.id, self.compute.flavors)
        self.give_up()
        self.work_until_done()
        self.assertNotIn(self.reservation.id, self.compute.flavors)

    def test_servers_that_do_not_leave_their_host(self):
        """After a time the next reservation of the host gets it beside them."""
        self.compute.patience = 10**6
        left, _ = self.lease(HOST)
        self.make(left)
        self.start(left, {self.one: 1})
        self.work_until_done()
        for preemptible in (False, True):
            self.compute.boot("one", project_id=PROJECT, preemptible=preemptible)
        comes, reservation = self.lease(HOST)
        self.make(comes)
        self.end(left, {self.one: 1})
        self.start(comes, {self.one: 1})
        self.work()
        self.assertEqual(set(), self.compute.aggregates[reservation.id][2])
        for _ in range(2):
            self.give_up()
            self.pass_time()
            self.work()
        self.assertEqual(({"one"}, []),
                         (self.compute.aggregates[reservation.id][2], self.waiting()))

    def test_waiting_for_servers_is_no_failure(self):
        """What comes after it is: the pause is the shortest, and the log has a warning."""
        self.compute.patience = 10**6
        self._in_force_with_server()
        self.end(self.lent, {self.one: 1})
        warnings = self.useFixture(fixtures.FakeLogger(outbox.LOG.name, level=logging.WARNING))
        for error, pause in ((ComputeUnavailable("Nova sleeps."), 1),
                             (ComputeRefused("There is no such host."), 15)):
            for _ in range(5):
                self.assertEqual(1, self.work().waiting)
                self.pass_time()
            self.failing("delete_flavor_servers", error)
            self.assertEqual(1, self.work().failed)
            [call, *_] = outbox.list_(self.ctx)
            wait = call.next_at - datetime.datetime.now(datetime.UTC)
            self.assertLessEqual(wait.total_seconds(), pause)
            self.assertEqual(1, call.attempts)
            self.assertIn(str(error), warnings.output)
            self.pass_time()

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
        self.assertEqual(["revoke_flavor", "delete_flavor_servers", "remove_host",
                          "remove_aggregate", "remove_flavor", "remove_server_group"],
                         self.names())
        self.assertEqual({}, self.compute.made())
        self.assertEqual([None] * 3, list(self.kept(self.reservation).values()))

    def test_an_end_during_a_call(self):
        """What is being made is waited for; it is not tried again, and undone."""
        def end(*call):
            self.compute.before = lambda *call: None
            self.end(self.lent, was_in_force=False)
            self.assertEqual(CallCounts(), self.work("other"))
            raise ComputeUnavailable("Nobody knows what came of it.")

        self.make(self.lent)
        self.compute.before = end
        self.assertEqual(1, self.work(most=1).failed)
        self.assertEqual(["remove_aggregate", "remove_flavor", "remove_server_group"],
                         self.waiting())
        self.work_until_done()
        self.assertEqual([], list(self.compute.made()))

    def test_a_host_that_comes_back(self):
        """It has another id then, and enters the freepool after it has left it, not before."""
        self.failing("remove_from_freepool", ComputeUnavailable("no"))
        self.provisioner.remove_host(self.ctx, self.one.host)
        self.provisioner.add_host(self.ctx, dataclasses.replace(self.one.host, id=99))
        self.work_until_done()
        self.assertEqual(({"one", "two"}, ["remove_from_freepool", "add_to_freepool"]),
                         (self.compute.freepool, self.names()))

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
        self.assertEqual(outbox.AuditResult([], []), outbox.audit(self.ctx, self.compute))
        # A call of somebody who was stopped arrives late.
        self.compute.groups.add(gone.id)
        self.compute.put_flavor(gone.id, vcpus=1, memory_mb=1, disk_gb=1, in_aggregate=True)
        self.compute.put_slot_aggregate(gone.id, PROJECT)
        unknown = factories.new_uuid()
        self.compute.put_host_aggregate(unknown, PROJECT)
        self.assertEqual(outbox.AuditResult([gone.id], [unknown]),
                         outbox.audit(self.ctx, self.compute))
        self.assertEqual(outbox.AuditResult([], [unknown]), outbox.audit(self.ctx, self.compute))
        self.work_until_done()
        self.assertEqual({self.reservation.id, unknown}, set(self.compute.made()))
