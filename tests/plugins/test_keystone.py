"""What is remembered of Keystone's answers, without a Keystone: time and threads."""

from __future__ import annotations

import functools
import threading

from placement_core import errors
from placement_plugins import keystone, keystone_cache
from tests import base, races
from tests.plugins.remote import Clock, configuration, login

CACHE_SECONDS = 30
MAX_STALE_SECONDS = 600


class Source:
    """Somebody who is asked; answers, and counts.

    :ivar tags: the tags that came with the questions.
    """

    def __init__(self) -> None:
        self.value: object = "first"
        self.tag: str | None = None
        self.tags: list[str | None] = []
        self.error: Exception | None = None

    def fetch(self, tag: str | None) -> keystone_cache.FetchResult | None:
        self.tags.append(tag)
        if self.error is not None:
            raise self.error
        if tag is not None and tag == self.tag:
            return None
        return keystone_cache.FetchResult(self.value, self.tag)


class TestAnswers(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.clock = Clock()
        self.source = Source()
        self.answers = self.make()

    def make(self, **changes: object) -> keystone_cache.AnswerCache:
        options = {"option": "[limits] max_stale_seconds", "clock": self.clock} | changes
        return keystone_cache.AnswerCache(
            options.pop("cache_seconds", CACHE_SECONDS), MAX_STALE_SECONDS, **options)

    def ask(self, question: str = "q") -> object:
        return self.answers.ask(question, self.source.fetch)


class TestTime(TestAnswers):
    """One thread, and a clock."""

    def test_asked_once_while_fresh(self) -> None:
        self.assertEqual("first", self.ask())
        self.source.value = "second"
        self.clock.forward(CACHE_SECONDS - 0.1)
        self.assertEqual("first", self.ask())
        self.assertEqual(1, len(self.source.tags))
        self.clock.forward(0.1)
        self.assertEqual("second", self.ask())
        self.assertEqual([None, None], self.source.tags)

    def test_questions_are_apart(self) -> None:
        self.ask("one")
        self.source.value = "second"
        self.assertEqual("second", self.ask("two"))
        self.assertEqual("first", self.ask("one"))

    def test_nothing_is_an_answer_too(self) -> None:
        for nothing in (None, (), {}):
            self.source = Source()
            self.source.value = nothing
            self.assertEqual(nothing, self.ask(f"about {nothing}"))
            self.assertEqual(nothing, self.ask(f"about {nothing}"))
            self.assertEqual(1, len(self.source.tags))

    def test_a_tag_is_sent_and_believed(self) -> None:
        self.source.tag = '"1"'
        self.ask()
        self.source.value = "never fetched"
        for _ in range(2):
            self.clock.forward(CACHE_SECONDS)
            self.assertEqual("first", self.ask())
            self.assertEqual("first", self.ask())
        self.source.tag, self.source.value = '"2"', "second"
        self.clock.forward(CACHE_SECONDS)
        self.assertEqual("second", self.ask())
        self.assertEqual([None, '"1"', '"1"', '"1"'], self.source.tags)

    def test_age_counts_from_the_question(self) -> None:
        """What the source says is true of some moment after it was asked."""
        def slow(tag: str | None) -> keystone_cache.FetchResult:
            self.source.tags.append(tag)
            self.clock.forward(20)
            return keystone_cache.FetchResult("slow", None)

        self.answers.ask("q", slow)
        self.clock.forward(CACHE_SECONDS - 20)
        self.answers.ask("q", slow)
        self.assertEqual(2, len(self.source.tags))

    def test_no_cache(self) -> None:
        self.answers = self.make(cache_seconds=0)
        self.ask()
        self.source.value = "second"
        self.assertEqual("second", self.ask())

    def test_an_outage(self) -> None:
        self.ask()
        self.clock.forward(MAX_STALE_SECONDS - 1)
        self.source.error = keystone_cache.Outage("connection refused")
        self.assertEqual("first", self.ask())
        self.clock.forward(1)
        error = self.assertRaises(errors.Unavailable, self.ask)
        self.assertEqual(
            "Keystone does not answer, and its last answer is 600 seconds old, more than "
            "[limits] max_stale_seconds = 600 allows.", str(error))

    def test_an_outage_does_not_make_answers_younger(self) -> None:
        self.ask()
        self.source.error = keystone_cache.Outage("connection refused")
        for _ in range(9):
            self.clock.forward(60)
            self.assertEqual("first", self.ask())
        self.clock.forward(60)
        self.assertRaises(errors.Unavailable, self.ask)

    def test_recovery_is_immediate(self) -> None:
        self.ask()
        self.clock.forward(MAX_STALE_SECONDS)
        self.source.error = keystone_cache.Outage("connection refused")
        self.assertRaises(errors.Unavailable, self.ask)
        self.source.error, self.source.value = None, "second"
        self.assertEqual("second", self.ask())
        asked = len(self.source.tags)
        self.assertEqual("second", self.ask())
        self.assertEqual(asked, len(self.source.tags))

    def test_one_that_hangs_is_left_alone_for_as_long(self) -> None:
        """Otherwise each question of a request would wait for the time limit."""
        def hang(tag: str | None) -> keystone_cache.FetchResult:
            self.source.tags.append(tag)
            self.clock.forward(10)
            raise keystone_cache.Outage("timed out")

        for question in ("one", "two"):
            self.ask(question)
        self.clock.forward(CACHE_SECONDS)
        self.assertEqual("first", self.answers.ask("one", hang))
        asked = len(self.source.tags)
        self.clock.forward(9.9)
        for question in ("one", "two"):
            self.assertEqual("first", self.answers.ask(question, hang))
        self.assertRaises(errors.Unavailable, self.answers.ask, "three", hang)
        self.assertEqual(asked, len(self.source.tags))
        self.clock.forward(0.1)
        self.source.value = "second"
        self.assertEqual("second", self.ask("two"))

    def test_an_outage_before_anything_is_known(self) -> None:
        self.source.error = keystone_cache.Outage("connection refused")
        error = self.assertRaises(errors.Unavailable, self.ask)
        self.assertEqual(
            "Keystone does not answer, and what it would say is not known.", str(error))

    def test_being_refused_is_no_outage(self) -> None:
        self.ask()
        self.clock.forward(CACHE_SECONDS)
        self.source.error = keystone.KeystoneRefuses("no")
        self.assertRaises(keystone.KeystoneRefuses, self.ask)

    def test_what_was_not_asked_longest_is_forgotten(self) -> None:
        self.answers = self.make(most=2)
        for question in ("a", "b", "a", "c"):
            self.ask(question)
        asked = len(self.source.tags)
        self.ask("a")
        self.assertEqual(asked, len(self.source.tags))
        self.ask("b")
        self.assertEqual(asked + 1, len(self.source.tags))


class Held:
    """A fetch that waits in the middle until it is let go."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.begun = threading.Event()
        self.let_go = threading.Event()

    def fetch(self, tag: str | None) -> keystone_cache.FetchResult | None:
        self.begun.set()
        assert self.let_go.wait(30)
        return self._source.fetch(tag)


class TestThreads(TestAnswers):
    """Several threads that ask at once."""

    def setUp(self) -> None:
        super().setUp()
        self.held = Held(self.source)
        self.outcomes: list[object] = []

    def start(self, fetch, question: str = "q") -> threading.Thread:
        def play() -> None:
            try:
                self.outcomes.append(self.answers.ask(question, fetch))
            except errors.Unavailable as error:
                self.outcomes.append(error)

        thread = threading.Thread(target=play, daemon=True)
        thread.start()
        return thread

    def hold(self, question: str = "q") -> threading.Thread:
        """Let a thread ask, and return when it is in the middle of it."""
        thread = self.start(self.held.fetch, question)
        self.assertTrue(self.held.begun.wait(30))
        return thread

    def end(self, *threads: threading.Thread) -> None:
        self.held.let_go.set()
        for thread in threads:
            thread.join(30)
            self.assertFalse(thread.is_alive())

    def test_one_asks_for_all(self) -> None:
        first = self.hold()
        others = [self.start(self.source.fetch) for _ in range(5)]
        for other in others:
            other.join(0.02)
            self.assertTrue(other.is_alive(), "nothing is known: there is nothing to return")
        self.end(first, *others)
        self.assertEqual(["first"] * 6, self.outcomes)
        self.assertEqual(1, len(self.source.tags))

    def test_many_threads(self) -> None:
        """No question is lost and none is asked twice while it is fresh."""
        outcomes = races.run(*(
            functools.partial(self.answers.ask, f"q{number % 4}", self.source.fetch)
            for number in range(40)))
        self.assertEqual(["first"] * 40, outcomes)
        self.assertEqual(4, len(self.source.tags))

    def test_others_are_served_what_is_known(self) -> None:
        self.ask()
        self.source.value = "second"
        self.clock.forward(CACHE_SECONDS)
        first = self.hold()
        self.assertEqual("first", self.ask())
        self.end(first)
        self.assertEqual(["second"], self.outcomes)
        self.assertEqual("second", self.ask())

    def test_but_not_what_is_long_outdated(self) -> None:
        """Keystone answers: nobody has to be content with an answer of last week."""
        self.ask()
        self.source.value = "second"
        self.clock.forward(2 * CACHE_SECONDS)
        first = self.hold()
        other = self.start(self.source.fetch)
        other.join(0.02)
        self.end(first, other)
        self.assertEqual(["second", "second"], self.outcomes)
        self.assertEqual(2, len(self.source.tags))

    def test_all_are_told_of_an_outage(self) -> None:
        self.source.error = keystone_cache.Outage("connection refused")
        first = self.hold()
        others = [self.start(self.source.fetch) for _ in range(3)]
        for other in others:
            other.join(0.02)
        self.end(first, *others)
        self.assertEqual(
            ["KeystoneUnreachable"] * 4, [type(each).__name__ for each in self.outcomes])
        self.assertEqual(1, len(self.source.tags))
        self.source.error = None
        self.assertEqual("first", self.ask())

    def test_one_thread_finds_out_whether_an_outage_is_over(self) -> None:
        """A Keystone that hangs holds one thread, whatever the others ask."""
        self.ask("one")
        self.ask("two")
        self.clock.forward(5 * CACHE_SECONDS)
        self.source.error = keystone_cache.Outage("timed out")
        self.ask("one")
        first = self.hold("one")
        asked = len(self.source.tags)
        self.assertEqual("first", self.ask("one"))
        self.assertEqual("first", self.ask("two"))
        self.assertEqual(asked, len(self.source.tags))
        self.end(first)
        self.source.error = None
        self.source.value = "second"
        self.assertEqual("second", self.ask("two"))

    def test_a_failure_of_another_kind_leaves_nothing_behind(self) -> None:
        self.source.error = ZeroDivisionError()
        self.assertRaises(ZeroDivisionError, self.ask)
        self.source.error = None
        self.assertEqual("first", self.ask())


class TestConfiguration(base.TestCase):
    """A login that cannot work stops the service at its start, with one line."""

    def assert_refused(self, expected: str, **groups: object) -> None:
        conf = configuration(self, limits={"cache_seconds": 1}, **groups)
        conf.register_opts(keystone.freshness_options("limits"), group="limits")
        error = self.assertRaises(
            errors.ConfigurationError, keystone.Client, conf,
            needed_by="[limits] driver = keystone", freshness="limits")
        self.assertIn(expected, str(error))
        self.assertNotIn("\n", str(error))

    def test_no_login(self) -> None:
        self.assert_refused(
            "[keystone_client] auth_type: expected the way this service logs in at Keystone, "
            "such as password, because [limits] driver = keystone")

    def test_no_such_way(self) -> None:
        self.assert_refused(
            "[keystone_client]: ", keystone_client=login("http://k/v3", auth_type="magic"))

    def test_no_address(self) -> None:
        self.assert_refused(
            "[keystone_client]: ", keystone_client=login("http://k/v3", auth_url=None))

    def test_no_such_interface(self) -> None:
        self.assert_refused(
            "[keystone_client]: ",
            keystone_client=login("http://k/v3", valid_interfaces="secret"))

    def test_the_login_of_another_section(self) -> None:
        """Nothing is asked at the start: Keystone may be down then."""
        other = login("http://k.example/v3")
        override = other.pop("endpoint_override")
        conf = configuration(
            self, keystone_authtoken=other,
            keystone_client={"auth_section": "keystone_authtoken", "endpoint_override": override})
        conf.register_opts(keystone.freshness_options("limits"), group="limits")
        keystone.Client(conf, needed_by="[limits] driver = keystone", freshness="limits")
