"""Whose turn it is, and what becomes of events that fail."""

from __future__ import annotations

import datetime

import fixtures

from placement_core import db
from placement_core.db.metadata import utcnow
from placement_core.reservations import errors, records
from placement_core.reservations.manager import event_queue
from tests import databases, races
from tests.functional.reservations import eventful

START, BEFORE_END, END = eventful.KINDS


@databases.on_each_database
class TestEvents(eventful.EventTestCase):

    def take(self, owner="me", most=100, seconds=30, ctx=None):
        return event_queue.dequeue(ctx or self.ctx, owner, most=most, seconds=seconds)

    def taken(self, **how):
        return [(turn.lease_id, turn.event_type) for turn in self.take(**how)]

    def expire(self, lease, kind=START):
        """The time of an event's owner is over, or the time until it is tried again."""
        self.set(lease, kind, deadline_at=self.at(-1))

    def fail(self, turn, problem="no host", *, retries=1, seconds=10):
        return event_queue.release(
            self.ctx, turn, problem, again_in_seconds=seconds, retries=retries)

    # Taking ------------------------------------------------------------------------

    def test_what_is_due(self):
        due, _later = self.lease(-2, 100), self.lease(50, 100)
        [turn] = self.take()
        self.assertEqual((due, START, "me", 1),
                         (turn.lease_id, turn.event_type, turn.owner, turn.number))
        self.assertTrue(2 <= turn.late_seconds < 30, turn)
        row = self.event(due)
        self.assertEqual((turn.event_id, records.IN_PROGRESS, "me", 1),
                         (row.id, row.status, row.owner, row.attempt))
        left = (row.deadline_at - utcnow()).total_seconds()
        self.assertTrue(20 < left <= 30.1, left)
        self.assertEqual([], self.take())
        self.assertEqual([], self.take("you"))

    def test_the_database_decides_about_the_time(self):
        """Parts of a second count: what is due in one is not taken before."""
        self.lease(0.9, 100)
        self.assertEqual([], self.take())
        self.set_all_due()
        self.assertEqual(1, len(self.take()))

    def set_all_due(self):
        for row in event_queue.list_(self.ctx):
            if row.event_type == START:
                self.set(row.lease_id, due_at=self.at(-0.2))

    def test_no_more_than_asked_for_and_in_order(self):
        third, first, second = self.lease(-1, 9), self.lease(-3, 9), self.lease(-2, 9)
        self.assertEqual([(first, START), (second, START)], self.taken(most=2))
        self.assertEqual([(third, START)], self.taken(most=2))

    def test_ends_before_starts_of_the_same_time(self):
        ends = self.lease(-9, -1, done=[START])
        starts = [self.lease(-1, 9) for _ in range(2)]
        self.assertEqual((ends, END), self.taken()[0])
        self.assertEqual(3, len(starts) + 1)

    def test_what_nobody_finished_in_time(self):
        lease = self.lease(-2, 100)
        [first] = self.take()
        self.expire(lease)
        [second] = self.take("you")
        self.assertEqual((first.event_id, "you", 2),
                         (second.event_id, second.owner, second.number))

    def test_only_the_last_who_took_it_has_an_effect(self):
        """One that was stopped for too long wakes up harmless."""
        lease = self.lease(-2, 100)
        turns = eventful.EffectTurns()
        [first] = self.take()
        self.expire(lease)
        [second] = self.take()  # by the same manager, another of its threads
        self.assertFalse(turns.execute(self.ctx, first))
        self.assertFalse(self.fail(first))
        self.assertFalse(turns.fail(self.ctx, first, "too late"))
        self.assertEqual(2, self.event(lease).attempt)
        self.assertTrue(turns.execute(self.ctx, second))
        self.assertFalse(turns.execute(self.ctx, first))
        self.assertFalse(turns.execute(self.ctx, second))
        self.assertEqual({(lease, START): 1}, self.effects())

    def test_two_who_take_at_once(self):
        leases = {self.lease(-2, 100) for _ in range(40)}
        contexts = {owner: self.context() for owner in "abcd"}

        def all_of(owner):
            found = []
            while got := self.take(owner, most=3, ctx=contexts[owner]):
                found += [turn.lease_id for turn in got]
            return found

        taken = races.run(*(lambda owner=owner: all_of(owner) for owner in contexts))
        found = [lease for one in taken for lease in one]
        self.assertEqual((40, leases), (len(found), set(found)))
        self.assertEqual({1}, {self.event(lease).attempt for lease in leases})

    def test_what_somebody_takes_just_now_is_not_waited_for(self):
        locked, free = self.lease(-2, 100), self.lease(-1, 100)
        if self.kind == "sqlite":
            self.skipTest("has one lock for everything")

        def hold(paused):
            ctx = self.context()
            with db.write(ctx) as session:
                session.execute(event_queue._LOCK, {"ids": [self.event(locked).id]}).all()
                paused.here()

        with races.Paused(hold):
            self.assertEqual([(free, START)], self.taken())
        self.assertEqual([(locked, START)], self.taken())

    # Order -------------------------------------------------------------------------

    def test_all_of_a_lease_is_past(self):
        """It starts, is told that it ends, and ends."""
        lease = self.lease(-30, -10, before_end=-20)
        for kind in eventful.KINDS:
            [turn] = self.take()
            self.assertEqual((lease, kind), (turn.lease_id, turn.event_type))
            self.assertEqual([], self.take())
            eventful.EffectTurns().execute(self.ctx, turn)
        self.assertEqual([], self.take())

    def test_an_end_does_not_wait_for_what_failed(self):
        for kind in (START, BEFORE_END):
            lease = self.lease(-30, -10, before_end=-20, done=[START, BEFORE_END])
            self.set(lease, kind, status=records.E_ERROR)
            self.assertEqual([(lease, END)], self.taken())
        # It was tried once, and will be again.
        lease = self.lease(-30, -10, before_end=-20, done=[START])
        [turn] = self.take()
        self.assertTrue(self.fail(turn))
        self.assertEqual([(lease, END)], self.taken())

    def test_an_end_waits_for_a_start_that_is_tried_again(self):
        lease = self.lease(-30, -10)
        [turn] = self.take()
        self.fail(turn)
        self.assertEqual([], self.take())
        self.expire(lease)
        self.assertEqual([(lease, START)], self.taken())

    def test_an_early_before_end_is_not_waited_for(self):
        lease = self.lease(-30, -10, before_end=10, done=[START])
        self.assertEqual([(lease, END)], self.taken())

    def test_a_start_waits_for_the_ends_on_its_hosts(self):
        before = self.lease(-30, -10, hosts=[1, 2], done=[START])
        starts = self.lease(-10, 10, hosts=[2, 3])
        beside = self.lease(-10, 10, hosts=[3, 4])
        [end, other] = self.take()
        self.assertEqual([(before, END), (beside, START)],
                         [(each.lease_id, each.event_type) for each in (end, other)])
        self.assertEqual([], self.take())
        eventful.EffectTurns().execute(self.ctx, end)
        self.assertEqual([(starts, START)], self.taken())

    def test_a_start_waits_as_long_as_the_end_is_not_done(self):
        before = self.lease(-30, -10, hosts=[1], done=[START])
        starts = self.lease(-5, 10, hosts=[1])
        for status in (records.UNDONE, records.IN_PROGRESS, records.E_ERROR):
            self.set(before, END, status=status, deadline_at=self.at(60))
            self.assertEqual([], self.take(), status)
        self.set(before, END, status=records.DONE, deadline_at=None)
        self.assertEqual([(starts, START)], self.taken())

    def test_ends_that_come_later_are_not_waited_for(self):
        """Slots of several leases on one host."""
        self.lease(-30, 60, hosts=[1], done=[START])
        self.lease(-30, -3, hosts=[1], done=[START, END])
        starts = self.lease(-5, 10, hosts=[1])
        self.assertEqual([(starts, START)], self.taken())
        # Due since, but not at the time of the start.
        late = self.lease(-30, -1, hosts=[2], done=[START])
        second = self.lease(-5, 10, hosts=[2])
        self.assertEqual([(second, START), (late, END)], self.taken())

    def test_a_lease_that_waits_for_too_long_ends_without_a_start(self):
        before = self.lease(-60, -40, hosts=[1], done=[START])
        self.set(before, END, status=records.E_ERROR)
        waits = self.lease(-30, -10, before_end=-20, hosts=[1])
        self.assertEqual([(waits, END)], self.taken())

    def test_many_that_wait_are_in_nobodys_way(self):
        for number in range(5):
            before = self.lease(-90, -80, hosts=[number], done=[START])
            self.set(before, END, status=records.E_ERROR)
            self.lease(-70, 10, hosts=[number])
        free = [self.lease(-3, 10, hosts=[9]), self.lease(-2, 10)]
        self.useFixture(fixtures.MonkeyPatch(f"{event_queue.__name__}._WINDOW", 3))
        self.assertEqual([(lease, START) for lease in free], self.taken())

    def test_what_a_start_waits_for(self):
        before = self.lease(-60, -40, hosts=[1], done=[START])
        waits, free = self.lease(-30, 10, hosts=[1]), self.lease(-30, 10, hosts=[2])
        event_queue.explain_waiting(self.ctx)
        self.assertIsNone(self.event(waits).problem)  # nothing has failed
        self.set(before, END, status=records.E_ERROR, problem="servers are left")
        event_queue.explain_waiting(self.ctx)
        said = self.event(waits)
        self.assertEqual(
            f"It waits for the end of lease {before}, which failed: servers are left",
            said.problem)
        self.assertIsNone(self.event(free).problem)
        event_queue.explain_waiting(self.ctx)
        self.assertEqual(said, self.event(waits))
        event_queue.retry(self.ctx, self.event(before, END).id)
        self.set(before, END, status=records.DONE)
        self.assertEqual({waits, free}, {lease for lease, _ in self.taken()})
        self.assertIsNone(self.event(waits).problem)

    # When --------------------------------------------------------------------------

    def test_next_due(self):
        self.assertIsNone(event_queue.next_due(self.ctx))
        lease = self.lease(50, 100)
        self.assertTrue(20 < event_queue.next_due(self.ctx) <= 50)
        self.set(lease, due_at=self.at(-1))
        self.assertTrue(50 < event_queue.next_due(self.ctx) <= 100)  # its end
        [turn] = self.take(seconds=40)
        self.assertTrue(10 < event_queue.next_due(self.ctx) <= 40.1)  # its manager may die
        self.fail(turn, seconds=5)
        self.assertTrue(0 < event_queue.next_due(self.ctx) <= 5.1)  # it is tried again
        self.set(lease, status=records.DONE, deadline_at=None)
        self.assertTrue(50 < event_queue.next_due(self.ctx) <= 100)

    # Failures ----------------------------------------------------------------------

    def test_what_failed_is_tried_again_later(self):
        lease = self.lease(-2, 100)
        due_at = self.event(lease).due_at
        [turn] = self.take()
        self.assertTrue(self.fail(turn, seconds=10))
        row = self.event(lease)
        self.assertEqual((records.UNDONE, None, "no host", due_at, 1),
                         (row.status, row.owner, row.problem, row.due_at, row.failures))
        self.assertEqual([], self.take())
        self.expire(lease)
        [again] = self.take()
        self.assertEqual(2, again.number)
        # It may fail once: what comes now is for the lease to deal with.
        self.assertFalse(self.fail(again, retries=1))
        self.assertEqual(records.IN_PROGRESS, self.event(lease).status)
        self.assertTrue(self.fail(again, retries=2))

    def test_a_manager_that_died_is_no_failure(self):
        lease = self.lease(-2, 100)
        for _ in range(3):
            [turn] = self.take()
            self.expire(lease)
        [turn] = self.take()
        self.assertEqual(4, turn.number)
        self.assertTrue(self.fail(turn))

    def test_retry(self):
        lease = self.lease(-2, 100)
        [turn] = self.take()
        self.fail(turn)
        self.expire(lease)
        [turn] = self.take()
        for status in (records.UNDONE, records.IN_PROGRESS, records.DONE):
            self.set(lease, status=status)
            refusal = self.assertRaises(
                errors.WrongStatus, event_queue.retry, self.ctx, turn.event_id)
            self.assertIn(status, str(refusal))
        self.set(lease, status=records.IN_PROGRESS)
        eventful.EffectTurns().fail(self.ctx, turn, "never")
        self.assertEqual([], self.take())
        event_queue.retry(self.ctx, turn.event_id)
        [again] = self.take()
        self.assertEqual(3, again.number)
        self.assertTrue(self.fail(again, retries=1))  # as if it had never failed
        self.assertRaises(errors.EventNotFound, event_queue.retry, self.ctx, "nothing")

    def test_list(self):
        lease, later = self.lease(-2, 100), self.lease(30, 60, done=[END])
        [turn] = self.take("me", seconds=30)
        shown = event_queue.list_(self.ctx)
        self.assertEqual([(lease, START), (later, START), (lease, END)],
                         [(each.lease_id, each.event_type) for each in shown])
        first, second, _ = shown
        self.assertEqual(
            (turn.event_id, records.IN_PROGRESS, "me", 1, 0, None),
            (first.id, first.status, first.owner, first.attempts, first.failures, first.problem))
        self.assertEqual(datetime.timedelta(0), first.deadline_at.utcoffset())
        self.assertEqual((None, None, 0), (second.owner, second.deadline_at, second.attempts))
        self.assertEqual([later], [
            each.lease_id for each in event_queue.list_(self.ctx, status=records.DONE)])
        self.assertEqual([], event_queue.list_(self.ctx, status=records.E_ERROR))
