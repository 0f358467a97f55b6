"""A write whose COMMIT was lost is in intervals and audit once, and one that was undone never."""

from __future__ import annotations

import sqlite3
import time

import fixtures
import sqlalchemy as sa

from placement_core import db, errors as core_errors
from placement_core.changes import audit
from placement_core.changes.audit import AuditFilter
from placement_core.changes.journal import Journal
from placement_core.context import Context, Identity
from placement_core.db import transactions
from placement_core.db.database import Database
from placement_core.placement import allocations, errors
from placement_core.placement.allocations import grouped_writes
from placement_core.placement.allocations.gates import Undecided, WriteRequest
from placement_core.placement.allocations.grouped_writes import GroupedWrite, Shortages
from placement_core.placement.usage import intervals
from placement_core.placement.usage.intervals import UsageFilter
from placement_core.testing import factories
from tests import databases
from tests.functional.db import test_lost_commit
from tests.functional.placement import claims

_ALL = 1000
#: What the client notices of them is the same; whether the write was made is not.
_LOSSES = {"cut_answer": True, "cut_request": False}


class LossTestCase(claims.ClaimsTestCase):
    """``self.far`` audits, and loses COMMITs; ``self.ctx`` does neither."""

    def setUp(self):
        super().setUp()
        if self.kind == "sqlite":
            self.far = Database(self.database.settings, Journal(audits=True))
        else:
            self.proxy, self.far = test_lost_commit.put_proxy_before(
                self.database, Journal(audits=True))
            self.addCleanup(self.proxy.close)
        self.addCleanup(self.far.dispose)
        self.host = self.provider(VCPU=8)
        self.requests = 0

    def call(self):
        """Return the context of a request of its own."""
        self.requests += 1
        return Context(self.far, Identity("jane", "demo"), f"req-{self.requests}", operation="PUT")

    def lose(self, loss, *, then_refuse=False):
        """Lose the next COMMIT (``Proxy``); on SQLite the file system does that."""
        if self.kind == "sqlite":
            self.failure = self.useFixture(
                _FailingCommit(made=_LOSSES[loss], is_away=then_refuse))
        else:
            self.proxy.arm(loss, then_refuse=then_refuse)

    def restore(self):
        """Let the database answer again."""
        if self.kind == "sqlite":
            self.failure.is_away = False
        else:
            self.proxy.refusing = False
            deadline = time.monotonic() + 20
            while self.far.availability.is_away and time.monotonic() < deadline:
                time.sleep(0.05)

    def put(self, amount, ctx=None, **options):
        # Intervals of no duration are none; SQLite's clock has milliseconds.
        time.sleep(0.005)
        self.claim({self.host: {"VCPU": amount}} if amount else {}, ctx=ctx or self.call(),
                   **options)

    def intervals(self, consumer=None):
        """Return (amount, whether it has ended), in their order."""
        return [(each.amount, each.ended_at is not None) for each in intervals.list_(
            self.ctx, UsageFilter(consumer_uuid=consumer or self.consumer), limit=_ALL)]

    def audited(self, consumer=None):
        """Return the requests that the audit has of a consumer, the oldest first."""
        return [each.request_id for each in reversed(audit.list_(
            self.ctx, AuditFilter(uuid=consumer or self.consumer), limit=_ALL))]


class _FailingCommit(fixtures.Fixture):
    """The next COMMIT of SQLite fails, and may have been made all the same.

    :param made: whether it was.
    :ivar is_away: whether nobody can find out.
    """

    def __init__(self, *, made, is_away):
        super().__init__()
        self._made = made
        self.is_away = is_away

    def _setUp(self):
        self._commit, self._was_committed = transactions._commit, Journal.was_committed
        for name, replacement in (
                ("db.transactions._commit", self._fail),
                ("changes.journal.Journal.was_committed", self._look_up)):
            self.useFixture(fixtures.MonkeyPatch(f"placement_core.{name}", replacement))
        self._failed = False

    def _fail(self, database, connection, transaction):
        if self._failed:
            return self._commit(database, connection, transaction)
        self._failed = True
        if self._made:
            transaction.commit()
        else:
            transaction.rollback()
        return sa.exc.OperationalError("COMMIT", {}, sqlite3.OperationalError("disk I/O error"))

    def _look_up(self, *given):
        if self.is_away:
            raise core_errors.Unavailable("The database does not answer.")
        return self._was_committed(*given)


@databases.on_each_database
class TestLostCommits(LossTestCase):

    def test_a_claim(self):
        for number, loss in enumerate(_LOSSES, 1):
            consumer = factories.new_uuid()
            self.lose(loss)
            self.put(2, consumer=consumer, seen=None)
            self.assertEqual([(2, False)], self.intervals(consumer))
            self.assertEqual([f"req-{number}"], self.audited(consumer))

    def test_a_replacement(self):
        self.put(1)
        for amount, loss in enumerate(_LOSSES, 2):
            self.lose(loss)
            self.put(amount, seen=self.generation(self.consumer))
        self.assertEqual([(1, True), (2, True), (3, False)], self.intervals())
        self.assertEqual(["req-1", "req-2", "req-3"], self.audited())

    def test_a_deletion(self):
        for loss in _LOSSES:
            consumer = factories.new_uuid()
            self.put(2, consumer=consumer)
            time.sleep(0.005)
            self.lose(loss)
            deletion = self.call()
            allocations.delete(deletion, consumer)
            self.assertEqual([(2, True)], self.intervals(consumer))
            self.assertEqual(deletion.request_id, self.audited(consumer)[-1])
            self.assertEqual(2, len(self.audited(consumer)))

    def test_a_late_commit(self):
        if self.kind == "sqlite":
            self.skipTest("an SQLite database has no connection that could be slow")
        self.put(1)
        self.proxy.arm("delay", seconds=0.5)
        self.put(2, seen=1)
        self.assertTrue(self.proxy.happened.wait(20))
        self.assertEqual([(1, True), (2, False)], self.intervals())
        self.assertEqual(["req-1", "req-2"], self.audited())

    def test_nobody_knows_and_the_client_asks_again(self):
        """What was made is refused then, because the consumer is a newer one; else it is made."""
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.db.transactions._LOOK_UP_PAUSES_SECONDS", (0.05, 0.05)))
        for loss, made in _LOSSES.items():
            consumer = factories.new_uuid()
            self.put(1, consumer=consumer)
            unanswered, again = self.call(), self.call()
            self.lose(loss, then_refuse=True)
            self.assertRaises(
                core_errors.Unavailable, self.put, 2, unanswered, consumer=consumer, seen=1)
            self.restore()
            if made:
                self.assertRaises(errors.ConsumerGenerationConflict, self.put, 2, again,
                                  consumer=consumer, seen=1)
            else:
                self.put(2, again, consumer=consumer, seen=1)
            self.assertEqual([(1, True), (2, False)], self.intervals(consumer))
            self.assertEqual([(unanswered if made else again).request_id],
                             self.audited(consumer)[1:])

    def test_requests_that_share_a_transaction(self):
        consumers = [factories.new_uuid() for _ in range(2)]
        for consumer in consumers:
            self.put(1, consumer=consumer)
        for amount, (loss, made) in enumerate(_LOSSES.items(), 2):
            time.sleep(0.005)
            seen = self.generation(consumers[0])
            calls = [self.call() for _ in consumers]
            writes = [self.write({self.host: {"VCPU": amount}}, consumer=consumer, seen=seen)
                      for consumer in consumers]
            self.lose(loss)
            outcomes = grouped_writes.apply_together(self.call(), [
                GroupedWrite(WriteRequest([write]), [], call)
                for write, call in zip(writes, calls, strict=True)], [], self.owners,
                Shortages())
            self.assertEqual(["applied" if made else Undecided()] * 2, outcomes)
            for consumer, call in zip(consumers, calls, strict=True):
                self.assertEqual([(1, True), (2, False)], self.intervals(consumer))
                self.assertEqual(made, call.request_id in self.audited(consumer))
                self.assertEqual(2, len(self.audited(consumer)))


@databases.on_each_database
class TestUndoneWrites(LossTestCase):

    def setUp(self):
        super().setUp()
        self.put(2)

    def assert_nothing_was_recorded(self):
        self.assertEqual([(2, False)], self.intervals())
        self.assertEqual(["req-1"], self.audited())
        self.assertEqual(1, len(audit.list_(self.ctx, AuditFilter(), limit=_ALL)))

    def test_refused(self):
        self.assertRaises(errors.CapacityExceeded, self.put, 9)
        self.assertRaises(errors.ConsumerGenerationConflict, self.put, 3, seen=77)
        self.assertRaises(errors.ConsumerGenerationConflict, self.put, 3, seen=None)
        self.assert_nothing_was_recorded()

    def test_undone_after_it_was_written(self):
        """Together with something of the same transaction that fails."""
        def fail(ctx):
            with db.write(ctx) as session:
                self.put(3, ctx)
                session.flush()
                raise KeyError

        self.assertRaises(KeyError, fail, self.call())
        self.assert_nothing_was_recorded()

    def test_undone_after_everything_was_written(self):
        """The connection is lost, and the client is answered by a repetition."""
        if self.kind == "sqlite":
            self.skipTest("an SQLite database has no connection that could be lost")
        words = (b"INSERT INTO usage_intervals", b"INSERT INTO audit_log")
        for amount, word in enumerate(words, 3):
            # PostgreSQL's connections send a statement's text a few times only.
            self.far.dispose()
            self.proxy.arm("cut_answer", word=word)
            self.put(amount)
            self.assertTrue(self.proxy.happened.wait(20))
        self.assertEqual([(2, True), (3, True), (4, False)], self.intervals())
        self.assertEqual(["req-1", "req-2", "req-3"], self.audited())
