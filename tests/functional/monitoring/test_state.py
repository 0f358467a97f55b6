"""The service's state, as a worker reads it for whoever scrapes."""

from __future__ import annotations

import threading
import time

import fixtures

from placement_core import errors, metrics
from placement_core.changes import follower
from placement_core.context import Context
from placement_core.monitoring import state
from placement_core.placement.index import CapacityIndex
from placement_core.reservations.manager import backlog, heartbeats
from placement_core.testing import factories
from tests import base, databases, scraping, threads


class StateTestCase(base.DatabaseTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger("placement_core.monitoring"))
        self.index = CapacityIndex(self.database)
        self.reader = state.StateReader(self.context, self.index)

    def let_age(self, seconds: float) -> None:
        """Let the numbers be older than they are."""
        self.reader._read_at -= seconds
        if self.index.failing_since is not None:
            self.index._follower.failing_since -= seconds

    def break_database(self) -> None:
        self.useFixture(fixtures.MonkeyPatch(
            f"{backlog.__name__}.measure", self.raise_unavailable))

    def broken_index(self) -> fixtures.MonkeyPatch:
        """Return what lets no refresh of the index succeed while it is used."""
        return fixtures.MonkeyPatch(
            f"{follower.__name__}.Follower._find_present", self.raise_unavailable)

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
        self.assertEqual(state.STATE.keys(), known.keys())
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
        """What was known stays for a minute, then it is left out; the index grows old."""
        self.assertEqual(0, self.reader.get()["managers"][()])
        self.useFixture(self.broken_index())
        self.let_age(30)
        self.reader.get()
        self.until_read()
        self.assertEqual(1, self.reader.get()["database_answers"][()])
        self.let_age(40)
        for _ in range(2):
            known = self.reader.get()
            self.assertEqual({"database_answers", "index_age_seconds"}, known.keys())
            self.assertEqual(0, known["database_answers"][()])
            self.assertLess(39, known["index_age_seconds"][()])
        self.assertEqual(1, self.log.output.count("cannot be read"))

    def test_a_worker_that_was_not_scraped_for_long(self) -> None:
        """Its index does not grow old because nobody asked: requests refresh it."""
        with self.broken_index():
            self.reader.get()
            self.until_read()
        self.let_age(300)
        self.index.snapshot(self.context())
        self.useFixture(self.broken_index())
        self.assertLess(self.reader.get()["index_age_seconds"][()], 60)

    def test_an_index_that_is_never_loaded(self) -> None:
        """Not even once: it grows old from the first attempt on."""
        self.useFixture(self.broken_index())
        self.reader.get()
        self.until_read()
        self.let_age(300)
        self.assertLess(299, self.reader.get()["index_age_seconds"][()])

    def test_from_the_start(self) -> None:
        self.break_database()
        self.assertEqual(0, self.reader.get()["database_answers"][()])
        self.assertIn("the state for metrics cannot be read: away", self.log.output)

    def test_a_thread_that_cannot_be_started(self) -> None:
        """The next scrape tries it again."""
        self.useFixture(threads.NoThread())
        self.assertEqual([0, 1], [self.reader.get()["database_answers"][()] for _ in range(2)])
        self.assertIn("the state for metrics cannot be read", self.log.output)

    def test_a_database_that_says_nothing(self) -> None:
        """Whoever scrapes waits for a bounded time, and one thread for the database."""
        go_on = threading.Event()
        self.addCleanup(self.until_read)
        self.addCleanup(go_on.set)

        def wait(_ctx: object) -> None:
            go_on.wait(60)
            self.raise_unavailable()

        self.useFixture(fixtures.MonkeyPatch(f"{backlog.__name__}.measure", wait))
        self.useFixture(fixtures.MonkeyPatch(f"{state.__name__}._PATIENCE_SECONDS", 0.1))
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
