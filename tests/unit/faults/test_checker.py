"""The checker of fault runs finds what it is there to find."""

from __future__ import annotations

from tests import base
from tests.faults import checker
from tests.faults.history import ANYTHING, Answer, Outcome, Read, Version, Write

_DONE, _REFUSED, _UNKNOWN = Outcome.DONE, Outcome.REFUSED, Outcome.UNKNOWN
_NOTHING = frozenset()


def _held(amount, host="host"):
    return frozenset({(host, "VCPU", amount)})


def _write(name, value, at, outcome=_DONE, **more):
    """Return a write that took half a second."""
    return Write(name, value, at, at + 0.5, outcome, **more)


def _read(name, value, at):
    return Read(name, value, at, at + 0.1)


class TestObjects(base.TestCase):

    def check(self, events, final):
        return checker.check_objects(events, {"limit": 5}, None, final)

    def test_what_was_acknowledged_is_there(self):
        events = [_write("a", 1, 0), _write("a", 2, 1, _REFUSED), _read("a", 1, 2)]
        self.assertEqual([], self.check(events, {"a": 1}))
        self.assertIn("a is None in the end", self.check(events, {})[0])
        self.assertIn("a is 2 in the end", self.check(events, {"a": 2})[0])

    def test_without_an_answer_both_may_be(self):
        events = [_write("a", 1, 0), _write("a", 2, 1, _UNKNOWN)]
        self.assertEqual([], self.check(events, {"a": 1}))
        self.assertEqual([], self.check(events, {"a": 2}))
        self.assertEqual(1, len(self.check(events, {"a": 3})))

    def test_it_may_come_late(self):
        events = [_write("a", 1, 0), _write("a", 2, 1, _UNKNOWN), _read("a", 1, 2)]
        self.assertEqual([], self.check(events, {"a": 2}))

    def test_it_comes_no_more_after_a_guarded_write(self):
        events = [_write("a", 1, 0), _write("a", 2, 1, _UNKNOWN)]
        self.assertEqual(1, len(self.check([*events, _write("a", 3, 2)], {"a": 2})))
        self.assertEqual([], self.check([*events, _write("a", 3, 2, guarded=False)], {"a": 2}))

    def test_reads_of_the_own_writes(self):
        [wrong] = self.check([_write("a", 1, 0), _write("a", 2, 1), _read("a", 1, 2)], {"a": 1})
        self.assertIn("a was read as 1", wrong)
        self.assertIn("before: done write of 1 from 0.000 to 0.500, done write of 2 from 1.000",
                      wrong)

    def test_what_was_there_before(self):
        self.assertEqual([], self.check([_write("limit", 6, 0, _REFUSED)], {"limit": 5}))
        self.assertEqual(1, len(self.check([_write("limit", 6, 0)], {"limit": 5})))

    def test_strangers(self):
        self.assertEqual(["b is there, and nobody made it"], self.check([], {"b": 1, "limit": 5}))

    def test_anything(self):
        events = [_write("a", ANYTHING, 0, _UNKNOWN)]
        self.assertEqual([], self.check(events, {"a": 7}) + self.check(events, {}))


class TestStaleReads(base.TestCase):

    def list(self, *events):
        return checker.list_stale_reads(events, None, [checker.StaleTime(8001, 2, 5)])

    def read(self, value, at, server=8001):
        return Read("a", value, at, at + 0.1, server)

    def test_while_that_may_be(self):
        events = [_write("a", 1, 0), _write("a", 2, 1)]
        stale, fresh = self.read(1, 2), self.read(2, 3)
        self.assertEqual([stale], self.list(*events, stale, fresh))
        for other in (self.read(1, 1.9), self.read(1, 5.1), self.read(1, 2, server=8002)):
            self.assertEqual([], self.list(*events, other, fresh))
        self.assertEqual([self.read(None, 2)], self.list(_write("a", 1, 1), self.read(None, 2)))

    def test_what_it_never_was_or_was_before_that(self):
        for value in (3, None):
            self.assertEqual(
                [], self.list(_write("a", 1, 0), _write("a", 2, 1), self.read(value, 2)))

    def test_what_it_may_be(self):
        self.assertEqual([], self.list(
            _write("a", 1, 0), _write("a", 2, 1, _UNKNOWN), self.read(1, 2)))


class TestVersions(base.TestCase):

    def check(self, *versions):
        return checker.check_versions([Version("p", *each) for each in versions])

    def test_rising(self):
        self.assertEqual([], self.check((1, 0, 1), (2, 2, 3), (2, 4, 5)))

    def test_falling(self):
        self.assertEqual(["p had version 1 at 4.000, after it had 2"],
                         self.check((2, 0, 3), (1, 4, 5)))

    def test_at_the_same_time_any_order_is_right(self):
        self.assertEqual([], self.check((2, 0, 3), (1, 2, 5)))


class TestTags(base.TestCase):

    def check(self, *reads, stale_times=()):
        """Check reads of (value, tag, server), one after the other."""
        return checker.check_tags([
            Read("limit", value, number, number + 0.1, server, tag)
            for number, (value, tag, server) in enumerate(reads)], stale_times)

    def test_as_they_should_be(self):
        self.assertEqual([], self.check(
            (1, "a", 1), (1, "a", 1), (1, "b", 2), (2, "c", 1), (2, "c", 1), (1, "d", 1)))

    def test_one_tag_of_two_answers(self):
        [wrong] = self.check((1, "a", 1), (2, "a", 1))
        self.assertIn("had the tag a with 1, and at 1.000 with 2", wrong)

    def test_a_tag_comes_back(self):
        [wrong] = self.check((1, "a", 1), (2, "b", 1), (1, "a", 1))
        self.assertIn("had the tag a again at 2.000, after b", wrong)

    def test_tags_of_other_processes(self):
        self.assertEqual([], self.check((1, "a", 1), (1, "b", 2), (1, "a", 1), (1, "b", 2)))

    def test_a_process_that_may_say_what_was_before(self):
        reads = (1, "a", 1), (2, "b", 1), (1, "a", 1)
        self.assertEqual([], self.check(*reads, stale_times=[checker.StaleTime(1, 1.5, 3)]))
        self.assertEqual(1, len(self.check(*reads, stale_times=[checker.StaleTime(2, 1.5, 3)])))


class TestTogether(base.TestCase):

    def check(self, final, *more):
        return checker.check_together(
            [*(_write(name, _held(1), 0, _UNKNOWN, together="gang") for name in "abc"), *more],
            _NOTHING, final)

    def test_all_or_none(self):
        self.assertEqual([], self.check({}) + self.check(dict.fromkeys("abc", _held(1))))

    def test_a_part(self):
        self.assertEqual(["gang: 2 of 3 are there"], self.check({"a": _held(1), "b": _held(1)}))

    def test_a_part_that_was_released(self):
        self.assertEqual([], self.check(
            {"a": _held(1), "b": _held(1)}, _write("c", _NOTHING, 1)))


class TestCapacity(base.TestCase):

    def check(self, *events):
        return checker.check_capacity(events, {("host", "VCPU"): 4})

    def test_more_than_there_is(self):
        [wrong] = self.check(_write("a", _held(3), 0), _write("b", _held(2), 1))
        self.assertEqual("host VCPU: 5 of 4 were held at 1.500", wrong)

    def test_one_after_the_other(self):
        self.assertEqual([], self.check(
            _write("a", _held(3), 0), _write("a", _NOTHING, 1), _write("b", _held(3), 1.2)))

    def test_what_may_not_be_held_any_more_does_not_count(self):
        self.assertEqual([], self.check(
            _write("a", _held(3), 0), _write("a", _NOTHING, 1, _UNKNOWN),
            _write("b", _held(3), 2)))

    def test_what_was_refused_does_not_count(self):
        self.assertEqual([], self.check(
            _write("a", _held(3), 0), _write("b", _held(3), 1, _REFUSED)))

    def test_a_provider_that_nobody_knows(self):
        self.assertEqual(1, len(self.check(_write("a", _held(1, "other"), 0))))


class TestQuota(base.TestCase):

    def check(self, *events):
        return checker.check_quota(events, "limit", 4, "VCPU", {"a", "b"})

    def limit(self, value, at, outcome=_DONE):
        return _write("limit", value, at, outcome, guarded=False)

    def test_more_than_the_limit(self):
        [wrong] = self.check(_write("a", _held(3), 0), _write("b", _held(2), 1))
        self.assertIn("b: 5 of VCPU were used", wrong)

    def test_a_limit_that_was_raised(self):
        claims = (_write("a", _held(3), 0), _write("b", _held(2), 2))
        self.assertEqual([], self.check(self.limit(5, 1), *claims))
        self.assertEqual([], self.check(self.limit(5, 1, _UNKNOWN), *claims))
        self.assertEqual(1, len(self.check(self.limit(5, 1, _REFUSED), *claims)))
        self.assertEqual(1, len(self.check(self.limit(5, 1), self.limit(4, 1.45), *claims)))

    def test_a_limit_that_was_raised_meanwhile(self):
        self.assertEqual([], self.check(
            self.limit(5, 2.1), _write("a", _held(3), 0), _write("b", _held(2), 2)))

    def test_a_limit_below_the_usage(self):
        """What was allowed stays; more is not allowed."""
        claims = (_write("a", _held(3), 0), self.limit(2, 1))
        self.assertEqual([], self.check(*claims, _write("a", _held(1), 2)))
        self.assertEqual(1, len(self.check(*claims, _write("a", _held(4), 2))))

    def test_others_do_not_count(self):
        self.assertEqual([], self.check(
            _write("a", _held(3), 0), _write("stranger", _held(9), 1)))


class TestAnswers(base.TestCase):

    def answer(self, status, began=0.0, ended=0.1, **more):
        return Answer("client", 0, "claim", status, began, ended, **more)

    def test_what_clients_may_see(self):
        self.assertEqual([], checker.check_answers([
            self.answer(200), self.answer(409), self.answer(None),
            self.answer(503, retry_after=True)], 10))

    def test_what_they_must_not(self):
        self.assertEqual(
            ["claim: 500 (2 times)", "claim: 503 without Retry-After (1 times)",
             "claim: an answer took more than 10 s (1 times)"],
            checker.check_answers([
                self.answer(500), self.answer(500), self.answer(503),
                self.answer(200, ended=11)], 10))

    def test_silence(self):
        answers = [self.answer(200, 0, 1), self.answer(503, 1, 4), self.answer(None, 4, 6),
                   self.answer(200, 6, 7.5)]
        self.assertEqual(6.5, checker.find_longest_silence(answers, 8))
        self.assertEqual(9.5, checker.find_longest_silence(answers, 17))
        self.assertEqual([], checker.check_silence(answers, 8, 6.5))
        self.assertEqual(["a client had no answer but 503s for 6.5 s, more than 6 s"],
                         checker.check_silence(answers, 8, 6))
