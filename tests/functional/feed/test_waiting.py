"""Waiting for a commit, and for a database that is away."""

from __future__ import annotations

import threading
import time
from typing import Any

import fixtures

from placement_core import errors
from placement_core.changes import vector
from placement_core.feed import reading, waiting
from placement_core.feed.records import Answer, Filters
from placement_core.feed.tokens import encode
from placement_core.feed.waiting import ChangeWatch
from placement_core.testing import factories
from tests import base, databases

_FILTERS = Filters(frozenset({"provider"}))


class WaitingTestCase(base.DatabaseTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.watch = ChangeWatch(self.context, 2)
        self.addCleanup(self.watch.stop)

    def read(self, seconds: float) -> waiting.Waited:
        return waiting.read(
            self.ctx, self.watch, reading.read_now(self.ctx).token, _FILTERS, most=10,
            seconds=seconds, idle=threading.Lock)

    def later(self, action: Any) -> None:
        timer = threading.Timer(0.2, action)
        timer.start()
        self.addCleanup(timer.join)


@databases.on_each_database
class TestCommits(WaitingTestCase):
    def test_a_commit_is_noticed(self) -> None:
        for _ in range(3):
            self.later(lambda: factories.provider(self.context()))
            started = time.monotonic()
            self.assertEqual(1, len(self.read(20).answer.changes))
            self.assertLess(time.monotonic() - started, 10)


class TestWaiting(WaitingTestCase):
    def test_nothing_happens(self) -> None:
        self.assertEqual(((), False), (tuple(self.read(0.2).answer.changes), False))

    def test_what_is_hidden_is_no_answer(self) -> None:
        """The token moves on, so nothing is looked at twice."""
        token = reading.read_now(self.ctx).token
        reads = []
        read = reading.read
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.feed.reading.read",
            lambda *args, **options: reads.append(args[1]) or read(*args, **options)))
        factories.provider(self.ctx)
        waited = waiting.read(
            self.ctx, self.watch, token, Filters(frozenset({"trait"})), most=10, seconds=0.4,
            idle=threading.Lock)
        self.assertNotEqual(token, waited.answer.token)
        self.assertEqual(1, len(reads))

    def test_others_are_busy(self) -> None:
        """A reader does not want their commits: it reads now and then, and its time ends."""
        token = reading.read_now(self.ctx).token
        reads = []
        read = reading.read
        ended = threading.Event()

        def read_beside_commits(*args: Any, **options: Any) -> Any:
            reads.append(args)
            answer = read(*args, **options)
            if not ended.is_set():
                factories.provider(self.context())
            return answer

        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.feed.reading.read", read_beside_commits))
        factories.provider(self.ctx)
        self.addCleanup(ended.set)
        started = time.monotonic()
        waited = waiting.read(
            self.ctx, self.watch, token, Filters(frozenset({"trait"})), most=10, seconds=1,
            idle=threading.Lock)
        self.assertFalse(waited.answer.changes)
        self.assertLess(time.monotonic() - started, 10)
        # One before it waits and one as soon as it does; a pause follows each of the rest.
        self.assertLessEqual(len(reads), 2 + 1 / waiting._EVERY_SECONDS)

    def follow(self, *, seconds: float, pulse_seconds: float) -> list[Answer]:
        with self.watch.enter():
            return list(waiting.follow(
                self.ctx, self.watch, reading.read_now(self.ctx),
                Filters(frozenset({"trait"})), most=10,
                seconds=seconds, pulse_seconds=pulse_seconds))

    def test_a_reader_hears_something_now_and_then(self) -> None:
        answers = self.follow(seconds=1, pulse_seconds=0.2)
        self.assertTrue(4 <= len(answers) <= 7, answers)
        self.assertFalse(any(answer.changes for answer in answers))

    def test_so_does_one_beside_others_who_are_busy(self) -> None:
        """Its token moves on, though it wants nothing of what they change."""
        busy = threading.Event()

        def write() -> None:
            while not busy.wait(0.01):
                factories.provider(self.context())

        writer = threading.Thread(target=write)
        writer.start()
        try:
            answers = self.follow(seconds=2, pulse_seconds=0.3)
        finally:
            busy.set()
            writer.join()
        self.assertTrue(4 <= len(answers) <= 8, answers)
        self.assertFalse(any(answer.changes for answer in answers))
        self.assertEqual(len(answers), len({encode(answer.token) for answer in answers}))

    def test_nobody_asks_while_nobody_waits(self) -> None:
        asked = []
        read_digest = vector.read_digest
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.changes.vector.read_digest",
            lambda ctx: asked.append(1) or read_digest(ctx)))
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.feed.waiting._STAYS_SECONDS", 0.1))
        self.read(0.2)
        self.assertTrue(asked)
        time.sleep(0.5)
        asked.clear()
        time.sleep(0.2)
        self.assertEqual([], asked)
        self.read(0.2)
        self.assertTrue(asked)

    def test_as_many_wait_as_may(self) -> None:
        with self.watch.enter() as first, self.watch.enter() as second:
            self.assertTrue(first and second)
            self.assertTrue(self.read(20).busy)
        self.assertFalse(self.read(0.1).busy)

    def test_no_thread_can_be_started(self) -> None:
        """A reader cannot wait; later ones can."""
        def refuse(_thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        log = self.useFixture(fixtures.FakeLogger())
        with fixtures.MonkeyPatch("threading.Thread.start", refuse):
            self.assertTrue(self.read(20).busy)
        self.assertIn("nobody can wait for changes: can't start new thread", log.output)
        self.assertEqual(0, self.watch.waiting)
        self.later(lambda: factories.provider(self.context()))
        self.assertEqual(1, len(self.read(20).answer.changes))

    def test_the_database_goes_away_and_comes_back(self) -> None:
        away = threading.Event()
        read_digest = vector.read_digest

        def read(ctx: Any) -> Any:
            if away.is_set():
                raise errors.Unavailable("gone")
            return read_digest(ctx)

        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.changes.vector.read_digest", read))
        self.later(away.set)
        self.assertRaises(errors.Unavailable, self.read, 20)
        away.clear()
        time.sleep(0.3)
        self.assertFalse(self.read(0.2).answer.changes)

    def test_the_process_ends(self) -> None:
        self.later(self.watch.stop)
        started = time.monotonic()
        self.assertFalse(self.read(20).busy)
        self.assertLess(time.monotonic() - started, 10)
        self.assertTrue(self.read(20).busy)
