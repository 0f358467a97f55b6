"""What a process notes about itself."""

from __future__ import annotations

import threading
import time

import fixtures

from placement_core import db, metrics
from placement_core.monitoring import process
from tests import base, scraping, threads


class TestNotes(base.DatabaseTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE))
        self.useFixture(scraping.Unmeasured())
        metrics.start()
        self.notes = process.ProcessNotes(self.database, 8, lambda: 1)

    def numbers(self, name: str) -> scraping.Numbers:
        return scraping.counted(lambda: scraping.shown()[1], name)

    def test_requests(self) -> None:
        for _ in range(4):
            self.notes.begin_request()
        self.notes.end_request()
        self.notes.note()
        self.assertEqual({(): 2}, self.numbers("http_requests_in_flight"))
        self.assertEqual({(): 1}, self.numbers("http_requests_waiting"))
        self.assertEqual({(): 8}, self.numbers("http_requests_limit"))
        self.assertLess(0, self.numbers("threads")[()])

    def test_connections(self) -> None:
        with db.write(self.ctx), db.read(self.context()):
            self.notes.note()
            used = self.numbers("database_connections")
        self.notes.note()
        left = self.numbers("database_connections")
        for pool, numbers in (("writer", (1, 0)), ("snapshot", (1, 0)), ("autocommit", (0, 0))):
            self.assertEqual(numbers, (used[pool, "in_use"], left[pool, "in_use"]), pool)
            self.assertLessEqual(numbers[0], left[pool, "idle"], pool)
            self.assertEqual(55, used[pool, "limit"])

    def test_one_thread(self) -> None:
        """It notes again and again, and ends when the process counts anew."""
        self.useFixture(fixtures.MonkeyPatch(f"{process.__name__}._PAUSE_SECONDS", 0.02))

        def list_threads() -> list[threading.Thread]:
            return [thread for thread in threading.enumerate()
                    if thread.name == "notes for metrics" and thread not in before]

        before = threading.enumerate()
        for number in (1, 2, 3):
            self.notes.begin_request()
            self.until(lambda number=number: number - 1 == self.numbers(
                "http_requests_in_flight")[()])
        self.assertEqual(1, len(list_threads()))
        self.useFixture(scraping.Unmeasured())
        self.until(lambda: not list_threads())

    def test_a_thread_that_cannot_be_started(self) -> None:
        """The request goes on, and the next one starts the thread."""
        log = self.useFixture(fixtures.FakeLogger(process.__name__))
        self.useFixture(threads.NoThread())
        self.notes.begin_request()
        self.assertIn("cannot be noted", log.output)
        self.notes.begin_request()
        self.until(lambda: self.numbers("http_requests_in_flight")[()] == 1)

    def test_notes_that_fail(self) -> None:
        """It is logged once, and tried again."""
        log = self.useFixture(fixtures.FakeLogger(process.__name__))
        self.useFixture(fixtures.MonkeyPatch(f"{process.__name__}._PAUSE_SECONDS", 0.02))
        errors = [OSError("No space left on device")] * 3

        def count_waiting() -> int:
            if errors:
                raise errors.pop()
            return 0

        notes = process.ProcessNotes(self.database, 8, count_waiting)
        notes.begin_request()
        self.until(lambda: self.numbers("http_requests_in_flight")[()] == 1)
        self.assertEqual(1, log.output.count("cannot be noted"))

    def until(self, condition: object) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
