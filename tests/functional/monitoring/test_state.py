"""The service's state, as a worker reads it for whoever scrapes."""

from __future__ import annotations

import threading
import time

import fixtures

from placement_core import errors, metrics
from placement_core.context import Context
from placement_core.monitoring import state
from placement_core.placement.index import CapacityIndex
from placement_core.reservations.manager import backlog, heartbeats
from placement_core.testing import factories
from tests import base, databases, scraping


class StateTestCase(base.DatabaseTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger("placement_core.monitoring"))
        self.reader = state.StateReader(self.context, CapacityIndex(self.database))

    def let_age(self, seconds: float) -> None:
        """Let the numbers be older than they are."""
        self.reader._read_at -= seconds
        self.reader._index_current_at -= seconds

    def break_database(self) -> None:
        self.useFixture(fixtures.MonkeyPatch(
            f"{backlog.__name__}.measure", self.raise_unavailable))

    @staticmethod
    def raise_unavailable(*_anything: object) -> None:
        raise errors.Unavailable("away")

    def until_read(self) -> None:
        self.assertTrue(self.reader._read_done.wait(20))


@databases.on_each_database
class TestState(StateTestCase):
    def test_numbers(self) -> None:
        for _ in range(3):
            factories.provider(self.ctx)
        heartbeats.beat(self.context(), owner="manager")
        known = self.reader.get()
        self.assertEqual(metrics.STATE.keys(), known.keys())
        self.assertEqual(
            (1, 3, 1), tuple(known[name][()] for name in (
                "database_answers", "index_providers", "managers")))
        self.assertEqual({("PENDING",): 0, ("ACTIVE",): 0, ("TERMINATED",): 0, ("ERROR",): 0},
                         known["leases"])
        self.assertLess(known["index_age_seconds"][()], 30)


class TestReader(StateTestCase):
    def test_newer_numbers_are_read_meanwhile(self) -> None:
        self.assertEqual(0, self.reader.get()["managers"][()])
        heartbeats.beat(self.context(), owner="manager")
        self.assertEqual(0, self.reader.get()["managers"][()])
        measure, go_on = backlog.measure, threading.Event()
        self.addCleanup(go_on.set)

        def measure_later(ctx: Context) -> backlog.Backlog:
            go_on.wait(20)
            return measure(ctx)

        self.useFixture(fixtures.MonkeyPatch(f"{backlog.__name__}.measure", measure_later))
        self.let_age(30)
        self.assertEqual(0, self.reader.get()["managers"][()])
        go_on.set()
        self.until_read()
        self.assertEqual(1, self.reader.get()["managers"][()])

    def test_an_outage(self) -> None:
        """What was known stays for a minute; then it is left out, and the index grows old."""
        self.assertEqual(0, self.reader.get()["managers"][()])
        self.useFixture(fixtures.MonkeyPatch(
            f"{CapacityIndex.__module__}.CapacityIndex.snapshot", self.raise_unavailable))
        self.let_age(30)
        self.reader.get()
        self.until_read()
        self.assertEqual(1, self.reader.get()["database_answers"][()])
        self.let_age(40)
        for _ in range(2):
            known = self.reader.get()
            self.assertEqual({"database_answers", "index_age_seconds"}, known.keys())
            self.assertEqual(0, known["database_answers"][()])
            self.assertLess(69, known["index_age_seconds"][()])
        self.assertEqual(1, self.log.output.count("cannot be read"))

    def test_from_the_start(self) -> None:
        self.break_database()
        self.assertEqual(0, self.reader.get()["database_answers"][()])
        self.assertIn("the state for metrics cannot be read: away", self.log.output)

    def test_a_database_that_says_nothing(self) -> None:
        """Whoever scrapes waits for a bounded time, and one thread for the database."""
        go_on = threading.Event()
        self.addCleanup(self.until_read)
        self.addCleanup(go_on.set)

        def wait(_ctx: object) -> None:
            go_on.wait(60)
            self.raise_unavailable()

        self.useFixture(fixtures.MonkeyPatch(f"{backlog.__name__}.measure", wait))
        before = threading.active_count()
        started = time.monotonic()
        for _ in range(3):
            self.assertEqual(0, self.reader.get()["database_answers"][()])
        self.assertLess(time.monotonic() - started, 10)
        self.assertLessEqual(threading.active_count(), before + 1)


class TestPage(StateTestCase):
    def test_what_is_not_known_is_not_shown(self) -> None:
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE))
        self.useFixture(scraping.Unmeasured())
        metrics.start()
        self.break_database()
        metrics.count_claim("held")
        status, text = scraping.shown(self.reader.get)
        self.assertEqual("200 OK", status)
        numbers = scraping.numbers(text)
        self.assertEqual(0, numbers["database_answers",])
        self.assertEqual(1, numbers["claims_total", "held"])
        self.assertNotIn("placement_core_managers", text)
