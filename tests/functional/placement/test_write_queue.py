"""Writes that wait in one process at the same moment share a transaction."""

from __future__ import annotations

import contextlib
import threading
import time
import unittest
from unittest import mock

import sqlalchemy as sa

from placement_core import errors as core_errors, tracing
from placement_core.placement import allocations, errors, tables
from placement_core.placement.allocations import grouped_writes, write_queue
from placement_core.placement.records import ANY_GENERATION
from placement_core.testing import factories
from tests import databases, races, spans
from tests.functional.placement import claims

_PATIENCE_SECONDS = 30


class _StopGate(allocations.Gate):
    """Stops the write of one consumer in the middle of its transaction."""

    def __init__(self, consumer):
        self._consumer = consumer
        self.reached, self.open = threading.Event(), threading.Event()

    def decide(self, ctx, checks, writes):
        if any(each.consumer_uuid == self._consumer for write in writes for each in write.writes):
            self.reached.set()
            self.open.wait(_PATIENCE_SECONDS)
        return {}


class _NotingGate(allocations.Gate):
    """Notes each check that it makes.

    :ivar made: [(consumer, check)].
    """

    def __init__(self):
        self.made = []

    def prepare(self, ctx, request):
        self.made.append((request.writes[0].consumer_uuid, _NotingCheck()))
        return self.made[-1][1]


class _NotingCheck(allocations.Check):
    told = 0

    def applied(self, session):
        self.told += 1


@databases.on_each_database
class TestWriteQueue(claims.ClaimsTestCase):

    def setUp(self):
        super().setUp()
        self.queue = allocations.WriteQueue(32)
        self.groups = []
        self.first = factories.new_uuid()
        self.gate = _StopGate(self.first)
        self.addCleanup(self.gate.open.set)
        self.patch("apply_together", self.apply_together)

    def patch(self, name, value):
        patcher = mock.patch.object(write_queue, name, value)
        patcher.start()
        self.addCleanup(patcher.stop)

    def apply_together(self, ctx, writes, *others):
        self.groups.append([len(write.request.writes) for write in writes])
        return grouped_writes.apply_together(ctx, writes, *others)

    def put(self, held, ctx=None, **options):
        options = {"consumer": factories.new_uuid(), "seen": None, **options}
        allocations.replace(ctx or self.context(), [self.write(held, **options)], [self.gate],
                            self.owners, self.queue)

    def delete(self, consumer):
        allocations.delete(self.context(), consumer, [self.gate], self.owners, self.queue)

    @contextlib.contextmanager
    def stopped(self, host):
        """Have a write in the middle of its transaction."""
        thread = threading.Thread(
            target=lambda: self.put({host: {"VCPU": 1}}, consumer=self.first), daemon=True)
        thread.start()
        self.assertTrue(self.gate.reached.wait(_PATIENCE_SECONDS))
        try:
            yield
        finally:
            self.gate.open.set()
            thread.join(_PATIENCE_SECONDS)

    def together(self, host, *functions, waiting=None):
        """Have functions write while another writer is stopped; return what became of them.

        :param waiting: how many of them come to wait; None: all.
        """
        self.patch("_PATIENCE_SECONDS", _PATIENCE_SECONDS)

        def let_go():
            self.wait_for(waiting or len(functions))
            self.gate.open.set()

        with self.stopped(host):
            return races.run(*functions, let_go)[:-1]

    def wait_for(self, count):
        """Wait until so many writes wait for their turn."""
        deadline = time.monotonic() + _PATIENCE_SECONDS / 2
        while len(self.queue._waiting) < count and time.monotonic() < deadline:
            time.sleep(0.01)

    def test_alone(self):
        host = self.provider(VCPU=8)
        for number in range(3):
            self.put({host: {"VCPU": 1}}, consumer=self.consumer,
                     seen=number or None)
        self.delete(self.consumer)
        self.assertEqual([], self.groups)

    def test_those_who_wait_share(self):
        host, other = self.provider(VCPU=8), self.provider(VCPU=80)
        outcomes = self.together(other, *(
            lambda number=number: self.put({host: {"VCPU": 1}, other: {"VCPU": number + 1}})
            for number in range(10)))
        self.assertEqual([[1] * 10], self.groups)
        self.assertEqual(
            ([errors.CapacityExceeded] * 2, 8),
            ([type(each) for each in outcomes if each is not None], outcomes.count(None)))
        self.assertEqual({"VCPU": 8}, self.used(host))
        self.assertEqual(host.generation + 8, self.generation(host))

    def test_who_comes_behind_a_group_waits_for_others(self):
        """Clients that a group has answered come back together, and share a transaction again."""
        host, other = self.provider(VCPU=8), self.provider(VCPU=8)

        def put():
            self.put({host: {"VCPU": 1}})

        self.together(other, put, put, put)
        self.patch("_LONGEST_GATHERING_SECONDS", _PATIENCE_SECONDS)
        self.queue._last_seconds = _PATIENCE_SECONDS

        def put_last():
            self.wait_for(2)
            put()

        self.assertEqual([None] * 3, races.run(put, put, put_last))
        self.assertEqual(([[1] * 3] * 2, {"VCPU": 6}), (self.groups, self.used(host)))

    def test_it_does_not_wait_for_long(self):
        host = self.provider(VCPU=8)
        self.patch("_LONGEST_GATHERING_SECONDS", 1)
        taken = {}
        for seconds in (_PATIENCE_SECONDS, 0):
            self.queue._last_size, self.queue._last_seconds = 3, seconds
            started = time.monotonic()
            self.put({host: {"VCPU": 1}})
            taken[seconds] = time.monotonic() - started
        self.assertTrue(taken[0] < 1 <= taken[_PATIENCE_SECONDS] < _PATIENCE_SECONDS, taken)

    def test_behind_one_that_nobody_joined_a_write_begins_alone(self):
        host, other = self.provider(VCPU=8), self.provider(VCPU=8)
        self.together(other, *[lambda: self.put({host: {"VCPU": 1}})] * 3)
        # The first waits for others, and is prepared again when none comes.
        self.assertEqual([2, 1], [self.count_preparations(host) for _ in range(2)])
        self.assertEqual([[1] * 3], self.groups)

    def test_two_that_met_by_chance_are_no_crowd(self):
        host, other = self.provider(VCPU=8), self.provider(VCPU=8)
        self.together(other, *[lambda: self.put({host: {"VCPU": 1}})] * 2)
        self.assertEqual(([[1, 1]], 1), (self.groups, self.count_preparations(host)))

    def count_preparations(self, host):
        """Write alone; return how often it was prepared: once more if it was in the queue."""
        noting = _NotingGate()
        allocations.replace(
            self.context(),
            [self.write({host: {"VCPU": 1}}, consumer=factories.new_uuid(), seen=None)],
            [self.gate, noting], self.owners, self.queue)
        return len(noting.made)

    def test_of_a_refused_member_nothing_is_written(self):
        """The row of a consumer that it does not let grow stays as it was, in every column."""
        host = self.provider(VCPU=8)
        self.put({host: {"VCPU": 1}}, consumer=self.consumer)
        before = self.row(self.consumer)
        outcomes = self.together(
            host,
            lambda: self.put({host: {"VCPU": 9}}, consumer=self.consumer, seen=1),
            lambda: self.put({host: {"VCPU": 1}}),
            lambda: self.put({host: {"VCPU": 1}}))
        self.assertEqual([errors.CapacityExceeded, type(None), type(None)],
                         [type(each) for each in outcomes])
        self.assertEqual(before, self.row(self.consumer))
        self.assertEqual({"VCPU": 4}, self.used(host))

    def test_each_attempt_has_checks_of_its_own(self):
        """A group of which one does not fit is made again: what came of that is returned."""
        host, noting = self.provider(VCPU=8), _NotingGate()
        consumers = [factories.new_uuid() for _ in range(3)]

        def put(consumer, amount):
            _, check = allocations.replace(
                self.context(), [self.write({host: {"VCPU": amount}}, consumer=consumer)],
                [self.gate, noting], self.owners, self.queue)
            return check

        outcomes = self.together(self.provider(VCPU=8), *(
            lambda consumer=consumer, amount=amount: put(consumer, amount)
            for consumer, amount in zip(consumers, (2, 9, 3), strict=True)))
        self.assertEqual([[1, 1, 1]], self.groups)
        self.assertIsInstance(outcomes[1], errors.CapacityExceeded)
        for consumer, check in ((consumers[0], outcomes[0]), (consumers[2], outcomes[2])):
            checks = [made for of, made in noting.made if of == consumer]
            self.assertEqual(2, len(checks))
            self.assertIs(checks[1], check)
            self.assertEqual(1, check.told)

    def test_members_that_are_applied_are_dated(self):
        host = self.provider(VCPU=8)
        self.put({host: {"VCPU": 1}}, consumer=self.consumer)
        self.assertIsNone(self.row(self.consumer).updated_at)
        outcomes = self.together(
            host,
            lambda: self.put({host: {"VCPU": 2}}, consumer=self.consumer, seen=1),
            lambda: self.put({host: {"VCPU": 1}}))
        self.assertEqual([None, None], outcomes)
        self.assertIsNotNone(self.row(self.consumer).updated_at)

    def row(self, consumer):
        with self.database.autocommit.connect() as connection:
            return connection.execute(sa.select(tables.consumers).where(
                tables.consumers.c.uuid == consumer)).one()

    @unittest.skipUnless(spans.INSTALLED, spans.REASON)
    def test_spans(self):
        """The span of the group is the leader's, and names what the others wrote for."""
        made = self.useFixture(spans.Spans())
        host, other = self.provider(VCPU=8), self.provider(VCPU=8)

        def put():
            with tracing.span("member"):
                self.put({host: {"VCPU": 1}})

        self.assertEqual([None] * 3, self.together(other, put, put, put))
        taken = made.take()
        (group,) = [span for span in taken if span.name == "write group"]
        members = {span.context.span_id for span in taken if span.name == "member"}
        self.assertEqual(3, len(members))
        self.assertEqual(members, {link.context.span_id for link in group.links})
        self.assertIn(group.parent.span_id, members)
        self.assertEqual(["write"], [span.name for span in spans.find_children(taken, group)])

    def test_each_has_its_own_answer(self):
        host = self.provider(VCPU=8)
        held, missing, gone = (factories.new_uuid() for _ in range(3))
        self.put({host: {"VCPU": 2}}, consumer=held)
        before = self.generation(host)
        outcomes = self.together(
            host,
            lambda: self.put({host: {"VCPU": 1}}),
            lambda: self.put({host: {"VCPU": 1}}, consumer=held),
            lambda: self.put({missing: {"VCPU": 1}}),
            lambda: self.put({host: {"CUSTOM_NOT": 1}}),
            lambda: self.put({host: {"VCPU": 9}}),
            lambda: self.put({host: {"VCPU": 1}}, seen=4),
            lambda: self.delete(gone),
            lambda: self.put({host: {"VCPU": 1}}, project="\ud800"), waiting=7)
        self.assertEqual(
            [type(None), errors.ConsumerGenerationConflict, errors.AllocationForUnknownProvider,
             errors.UnknownResourceClass, errors.CapacityExceeded,
             errors.ConsumerGenerationConflict, errors.NoAllocations, errors.InvalidOwner],
            [type(each) for each in outcomes])
        self.assertEqual({"VCPU": 4}, self.used(host))
        self.assertEqual(before + 2, self.generation(host))
        self.assertEqual(1, self.generation(held))

    def test_a_deletion_makes_room_for_its_group(self):
        host, other = self.provider(VCPU=4), self.provider(VCPU=4)
        self.put({host: {"VCPU": 4}}, consumer=self.consumer)
        outcomes = self.together(
            other, lambda: self.put({host: {"VCPU": 3}}), lambda: self.delete(self.consumer))
        self.assertEqual([None, None], outcomes)
        self.assertEqual([[1, 1]], self.groups)
        self.assertEqual({"VCPU": 3}, self.used(host))

    def test_a_consumer_is_in_a_group_once(self):
        host = self.provider(VCPU=8)
        outcomes = self.together(host, *(
            lambda amount=amount: self.put(
                {host: {"VCPU": amount}}, consumer=self.consumer, seen=ANY_GENERATION)
            for amount in (1, 2, 3)), lambda: self.put({host: {"VCPU": 1}}))
        self.assertEqual([None] * 4, outcomes)
        self.assertEqual(3, self.generation(self.consumer))
        self.assertEqual([[1, 1]], self.groups)

    def test_groups_are_bounded(self):
        host = self.provider(VCPU=100)
        self.queue = allocations.WriteQueue(4)

        def put_three():
            allocations.replace(self.context(), [
                self.write({host: {"VCPU": 1}}, consumer=factories.new_uuid())
                for _ in range(3)], [self.gate], self.owners, self.queue)

        outcomes = self.together(
            host, *[put_three] * 3, *[lambda: self.put({host: {"VCPU": 1}})] * 6)
        self.assertEqual([None] * 9, outcomes)
        self.assertEqual({"VCPU": 16}, self.used(host))
        self.assertEqual(4, max(map(sum, self.groups)), self.groups)

    def test_none_are_grouped_if_one_is_the_bound(self):
        host = self.provider(VCPU=100)
        self.queue = allocations.WriteQueue(1)
        outcomes = races.run(*[lambda: self.put({host: {"VCPU": 1}})] * 8)
        self.assertEqual(([None] * 8, []), (outcomes, self.groups))

    def test_nobody_waits_for_who_is_stuck(self):
        if self.kind == "sqlite":
            self.skipTest("SQLite has one writer at a time")
        host, other = self.provider(VCPU=8), self.provider(VCPU=8)
        with self.stopped(host):
            outcomes = races.run(*[lambda: self.put({other: {"VCPU": 1}})] * 6)
            self.assertEqual([None] * 6, outcomes)
        self.assertEqual(({"VCPU": 1}, {"VCPU": 6}), (self.used(host), self.used(other)))

    def test_who_leads_may_be_interrupted(self):
        host = self.provider(VCPU=8)
        self.patch("apply_together", mock.Mock(side_effect=SystemExit))
        outcomes = []

        def put():
            try:
                self.put({host: {"VCPU": 1}})
            except BaseException as error:
                outcomes.append(type(error))

        self.together(host, put, put, put)
        self.assertEqual([core_errors.Unavailable] * 2 + [SystemExit],
                         sorted(outcomes, key=lambda each: each is SystemExit))
        self.patch("apply_together", self.apply_together)
        self.put({host: {"VCPU": 1}})
