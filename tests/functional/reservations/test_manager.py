"""The loop: what a manager does about events, failures, outages, and being stopped."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
import unittest
from unittest import mock

import fixtures

from placement_core import db, errors, metrics, services
from placement_core.http.leases_api import representations
from placement_core.reservations import records
from placement_core.reservations.manager import event_queue, loop
from placement_core.reservations.provisioning import compute_calls, outbox
from placement_core.testing.fakes import MemoryCompute
from tests import databases, scraping, spans
from tests.functional.reservations import eventful
from tests.http import base as http_base

START, BEFORE_END, END = eventful.KINDS
_PATIENCE_SECONDS = 60


class Turns(eventful.EffectTurns):
    """Does what a test says in the middle of each transaction.

    :ivar problems: what is raised, one for each time; afterwards nothing.
    """

    def __init__(self):
        self.problems = []
        self.middle = lambda _turn: None

    def effect(self, turn):
        self.middle(turn)
        if self.problems:
            raise self.problems.pop(0)


class ManagerTestCase(eventful.EventTestCase):

    def setUp(self):
        super().setUp()
        self.transitions = Turns()
        self.log = self.useFixture(fixtures.FakeLogger(loop.LOG.name))
        self.useFixture(fixtures.MonkeyPatch(f"{loop.__name__}._RETRY_SECONDS", 0))

    def manager(self, *steps, threads=2, retries=1, timeout=30):
        return loop.Manager(
            loop.new_owner(), self.context, self.transitions,
            loop.ManagerSettings(threads, 0.05, timeout, retries), steps)

    @contextlib.contextmanager
    def running(self, *steps, **how):
        made = self.manager(*steps, **how)
        thread = threading.Thread(target=made.run, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.stop()
            thread.join(_PATIENCE_SECONDS)
            self.assertFalse(thread.is_alive())

    def until(self, condition):
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline, self.log.output)
            time.sleep(0.02)

    def until_status(self, lease, status, kind=START):
        self.until(lambda: self.event(lease, kind).status == status)


@databases.on_each_database
class TestEvents(ManagerTestCase):

    def test_whole_lives(self):
        """What is due at the start, what becomes due, and what is made meanwhile."""
        leases = [self.lease(-3, 0.7, before_end=0.3, hosts=[number]) for number in range(5)]
        with self.running():
            self.until(lambda: len(self.effects()) >= 5)
            leases.append(self.lease(0, 0.9, before_end=0.8, hosts=[9]))
            self.until(lambda: len(self.effects()) == 18)
        self.assertEqual({(lease, kind): 1 for lease in leases for kind in eventful.KINDS},
                         self.effects())
        for lease in leases:
            at = [self.event(lease, kind).done_at for kind in eventful.KINDS]
            self.assertEqual(sorted(at), at)
            for kind in eventful.KINDS:
                row = self.event(lease, kind)
                self.assertLessEqual(row.due_at, row.done_at)

    def test_a_start_follows_the_end_it_waits_for(self):
        before = self.lease(-9, -1, hosts=[1], done=[START])
        after = self.lease(-1, 100, hosts=[1])
        with self.running():
            self.until_status(after, records.DONE)
        self.assertLess(self.event(before, END).done_at, self.event(after).done_at)

    def test_two_managers(self):
        leases = [self.lease(-1, 100) for _ in range(40)]
        with self.running(), self.running():
            self.until(lambda: len(self.effects()) == 40)
        self.assertEqual({(lease, START): 1 for lease in leases}, self.effects())

    def test_what_failed_is_tried_again(self):
        lease = self.lease(-1, 100)
        self.transitions.problems = [errors.Conflict("servers are left")]
        with self.running():
            self.until_status(lease, records.DONE)
        self.assertEqual(2, self.event(lease).attempt)
        self.assertIn("servers are left", self.log.output)

    def test_what_fails_too_often_is_given_up(self):
        lease = self.lease(-1, 100)
        self.transitions.problems = [errors.Conflict("servers are left")] * 9
        with self.running(retries=2):
            self.until_status(lease, records.E_ERROR)
        row = self.event(lease)
        self.assertEqual((3, "servers are left"), (row.attempt, row.problem))
        self.assertEqual({}, self.effects())
        self.assertIn(f"placement-core events retry {row.id}", self.log.output)

    def test_a_defect_is_its_events_alone(self):
        broken, fine = self.lease(-2, 100), self.lease(-1, 100)
        self.transitions.problems = [ZeroDivisionError("none of them")]
        with self.running(retries=0, threads=1):
            self.until_status(broken, records.E_ERROR)
            self.until_status(fine, records.DONE)
        self.assertEqual("ZeroDivisionError: none of them", self.event(broken).problem)

    def test_a_problem_that_no_database_keeps(self):
        """It is stored as it can be, and cut, whether or not the event is tried again."""
        self.useFixture(fixtures.MonkeyPatch(f"{loop.__name__}._RETRY_SECONDS", 3600))
        lease = self.lease(-1, 100)
        self.transitions.problems = [
            errors.Conflict("NUL \0, half \udc80" + "x" * 100_000) for _ in range(2)]
        with self.running(retries=1):
            self.until(lambda: self.event(lease).failures)
            problems = [self.event(lease).problem]
            self.set(lease, deadline_at=self.at(-1))
            self.until_status(lease, records.E_ERROR)
        problems.append(self.event(lease).problem)
        self.assertEqual([(r"NUL \x00, half \udc80x", 2000)] * 2,
                         [(problem[:22], len(problem)) for problem in problems])

    def test_a_database_that_does_not_answer_is_no_failure(self):
        lease = self.lease(-1, 100)
        self.transitions.problems = [errors.Unavailable("too busy")] * 5
        with self.running(retries=0):
            self.until_status(lease, records.DONE)
        self.assertEqual((1, 0), (self.event(lease).attempt, self.event(lease).failures))

    def test_what_cannot_even_be_given_back(self):
        """Its time ends, and it is taken again."""
        lease = self.lease(-1, 100)
        self.transitions.problems = [errors.Conflict("servers are left")]
        released = threading.Event()

        def unanswered(*_arguments, **_options):
            released.set()
            raise errors.Unavailable("too busy")

        with self.running(timeout=1) as running:
            with mock.patch.object(event_queue, "release", unanswered):
                self.assertTrue(released.wait(_PATIENCE_SECONDS))
            self.until_status(lease, records.DONE)
            self.until(lambda: running._pending == 0)
        self.assertEqual({(lease, START): 1}, self.effects())

    def test_somebody_else_has_it_now(self):
        """Its time was over before it was begun: nothing happens."""
        lease = self.lease(-1, 100)
        original = self.transitions.execute

        def too_late(ctx, turn):
            self.set(lease, owner="you", attempt=2, deadline_at=self.at(600))
            return original(ctx, turn)

        self.transitions.execute = too_late
        with self.running(threads=1) as running:
            self.until(lambda: self.event(lease).owner == "you" and not running._pending)
        self.assertEqual(({}, "", records.IN_PROGRESS),
                         (self.effects(), self.log.output, self.event(lease).status))


class TestLoop(ManagerTestCase):

    def test_it_takes_no_more_than_it_can_do(self):
        """The rest is for other managers."""
        go_on = threading.Event()
        self.transitions.middle = lambda _turn: go_on.wait(_PATIENCE_SECONDS)
        for _ in range(20):
            self.lease(-1, 100)
        with self.running(threads=1):
            self.until(lambda: event_queue.list_(self.ctx, status=records.IN_PROGRESS))
            time.sleep(0.3)
            self.assertEqual(8, len(event_queue.list_(self.ctx, status=records.IN_PROGRESS)))
            go_on.set()
            self.until(lambda: len(self.effects()) == 20)

    def test_it_finishes_what_it_has(self):
        begun, go_on = threading.Event(), threading.Event()

        def wait(_turn):
            begun.set()
            go_on.wait(_PATIENCE_SECONDS)

        self.transitions.middle = wait
        leases = [self.lease(-1, 100) for _ in range(3)]
        made = self.manager(threads=1)
        thread = threading.Thread(target=made.run, daemon=True)
        thread.start()
        self.assertTrue(begun.wait(_PATIENCE_SECONDS))
        made.stop()
        thread.join(0.2)
        self.assertTrue(thread.is_alive())
        go_on.set()
        thread.join(_PATIENCE_SECONDS)
        self.assertFalse(thread.is_alive())
        self.assertEqual({(lease, START): 1 for lease in leases}, self.effects())

    def test_an_outage(self):
        """It is told once, and when it is over."""
        lease = self.lease(-1, 100)
        original, down, asked = event_queue.next_due, threading.Event(), []
        down.set()

        def perhaps(ctx):
            asked.append(ctx)
            if down.is_set():
                raise errors.Unavailable("The database does not answer")
            return original(ctx)

        self.useFixture(fixtures.MonkeyPatch(f"{event_queue.__name__}.next_due", perhaps))
        with self.running():
            self.until(lambda: len(asked) > 5)
            down.clear()
            self.until_status(lease, records.DONE)
        self.assertEqual(1, self.log.output.count("does not answer"))
        self.assertEqual(1, self.log.output.count("works again"))

    def test_steps(self):
        done = {"good": 0, "bad": 0}

        def good(ctx):
            event_queue.list_(ctx)
            done["good"] += 1

        def bad(_ctx):
            done["bad"] += 1
            if done["bad"] < 4:
                raise ValueError("nothing works")

        with self.running(loop.PeriodicTask("good step", 0.02, good),
                          loop.PeriodicTask("bad step", 0.02, bad),
                          loop.PeriodicTask("rare step", 3600, lambda _ctx: done.update(rare=1))):
            self.until(lambda: min(done["good"], done["bad"]) > 5)
        self.assertEqual(1, done["rare"])
        self.assertEqual(1, self.log.output.count("bad step does not work"))
        self.assertEqual(1, self.log.output.count("bad step works again"))
        self.assertNotIn("good step", self.log.output)

    def test_another_failure_of_a_step(self):
        """It is told once, too, also if both come in turns."""
        problems, ended = [errors.Unavailable("too busy"), TypeError("a defect")] * 3, []

        def bad(_ctx):
            if problems:
                raise problems.pop()
            ended.append(True)

        with self.running(loop.PeriodicTask("bad step", 0.02, bad)):
            self.until(lambda: ended)
        self.assertEqual(1, self.log.output.count("bad step does not work"))
        self.assertEqual(1, self.log.output.count("bad step still does not work"))
        self.assertIn("TypeError: a defect", self.log.output)
        self.assertEqual(1, self.log.output.count("bad step works again"))

    def test_a_failure_that_goes_on(self):
        """It is told again after a while."""
        self.useFixture(fixtures.MonkeyPatch(f"{loop.__name__}._REMINDER_SECONDS", 0.05))

        def bad(_ctx):
            raise errors.Unavailable("too busy")

        with self.running(loop.PeriodicTask("bad step", 0.02, bad)):
            self.until(lambda: self.log.output.count("still does not work") > 1)
        self.assertEqual(1, self.log.output.count("bad step does not work"))

    def test_it_says_that_it_is_alive(self):
        self.useFixture(fixtures.MonkeyPatch(f"{loop.__name__}._HEARTBEAT_SECONDS", 0.05))
        lease = self.lease(-1, 100)
        with self.running() as made:
            self.until(lambda: f"manager {made.owner} is alive: 1 events done" in self.log.output)
        self.assertEqual(records.DONE, self.event(lease).status)

    @unittest.skipUnless(spans.INSTALLED, spans.REASON)
    def test_spans(self):
        made = self.useFixture(spans.Spans())
        late, fails = self.lease(-5, 100), self.lease(-9, 100, done=[START], before_end=-1)
        self.transitions.middle = lambda turn: turn.event_type == BEFORE_END and 1 / 0
        with self.running():
            self.until_status(late, records.DONE)
            self.until_status(fails, records.E_ERROR, BEFORE_END)
        taken = made.take()
        (started,) = [span for span in taken if span.name == START]
        self.assertEqual({"placement_core.lease_id": late}, dict(started.attributes))
        self.assertIn("write", [span.name for span in spans.find_children(taken, started)])
        failed = [span for span in taken if span.name == BEFORE_END]
        self.assertEqual({("ERROR", "ZeroDivisionError")}, {
            (span.status.status_code.name, span.attributes["error.type"]) for span in failed})

    def test_metrics(self):
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE))
        self.useFixture(scraping.Unmeasured())
        metrics.start()
        late, fails = self.lease(-5, 100), self.lease(-9, 100, done=[START], before_end=-1)
        self.transitions.middle = lambda turn: turn.event_type == BEFORE_END and 1 / 0
        with self.running():
            self.until_status(late, records.DONE)
            self.until_status(fails, records.E_ERROR, BEFORE_END)

        def numbers(name):
            return scraping.counted(lambda: scraping.shown()[1], name)

        self.assertEqual(
            {(START, "done"): 1, (BEFORE_END, "failed"): 1, (BEFORE_END, "given_up"): 1},
            numbers("lease_events_total"))
        self.assertEqual({(START,): 1}, numbers("lease_event_lateness_seconds_count"))
        self.assertTrue(5 <= numbers("lease_event_lateness_seconds_sum")[START,] < 40)


class TestCalls(ManagerTestCase):
    """The threads that make calls to the compute service."""

    def setUp(self):
        super().setUp()
        self.compute = MemoryCompute()
        with mock.patch.object(services, "_make_compute", lambda _conf: self.compute):
            parts = services.build(http_base.configuration(
                self.database.url.render_as_string(hide_password=False),
                {("reservations", "manager_threads"): 1}))
        self.addCleanup(parts.database.dispose)
        self.made = parts.manager(representations.LEASE)
        self.made._tasks = [dataclasses.replace(task, seconds=3600)
                            for task in self.made._tasks if "calls to" in task.name]
        with db.write(self.ctx) as session:
            for number in range(20):
                outbox.put(session, f"host:{number}", None,
                           compute_calls.remove_from_freepool(number, f"host-{number}"))
        self.thread = threading.Thread(target=self.made.run, daemon=True)
        self.addCleanup(self.made.stop)

    def test_many_that_are_due(self):
        """They are made without pauses between them."""
        self.thread.start()
        self.until(lambda: not outbox.list_(self.ctx))
        self.assertEqual(20, len(self.compute.calls))

    def test_it_stops_after_the_call_that_it_has_begun(self):
        """The rest is for other managers, at once."""
        begun, go_on = threading.Event(), threading.Event()

        def wait(*_call):
            begun.set()
            go_on.wait(_PATIENCE_SECONDS)

        self.compute.before = wait
        self.addCleanup(go_on.set)
        self.thread.start()
        self.assertTrue(begun.wait(_PATIENCE_SECONDS))
        self.made.stop()
        self.assertTrue(self.made._stopped.wait(_PATIENCE_SECONDS))
        go_on.set()
        self.thread.join(_PATIENCE_SECONDS)
        self.assertFalse(self.thread.is_alive())
        self.assertEqual((1, [0] * 19), (
            len(self.compute.calls), [call.attempts for call in outbox.list_(self.ctx)]))
