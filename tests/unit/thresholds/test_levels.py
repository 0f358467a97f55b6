"""Which threshold a measurement has reached."""

from __future__ import annotations

from placement_core.thresholds import levels
from placement_core.thresholds.levels import Measurement, Subject
from tests import base

_LIMIT = Subject("limit", "web", "own", "cores")
_SHAPE = Subject("capacity", None, None, "VCPU:4")


class TestPercentages(base.TestCase):

    def find(self, used, limit, before=0, hysteresis=2):
        return levels.find_percentage(
            Measurement(_LIMIT, limit, used), [80, 95, 100], hysteresis, before)

    def test_up(self):
        for used, level in ((0, 0), (79, 0), (80, 80), (94, 80), (95, 95), (99, 95), (100, 100),
                            (250, 100)):
            self.assertEqual(level, self.find(used, 100), used)

    def test_down_by_the_hysteresis(self):
        for used, before, level in ((99, 100, 100), (98, 100, 100), (97, 100, 95), (93, 95, 95),
                                    (92, 95, 80), (78, 80, 80), (77, 80, 0), (0, 100, 0)):
            self.assertEqual(level, self.find(used, 100, before), (used, before))

    def test_what_was_not_reached_has_no_hysteresis(self):
        self.assertEqual(80, self.find(94, 100, before=80))

    def test_without_hysteresis(self):
        self.assertEqual(80, self.find(94, 100, before=95, hysteresis=0))

    def test_limits_of_nothing(self):
        self.assertEqual(0, self.find(0, 0))
        self.assertEqual(100, self.find(1, 0))
        self.assertEqual(0, self.find(-1, 0, before=100))

    def test_small_limits(self):
        self.assertEqual(100, self.find(1, 1))
        self.assertEqual(0, self.find(0, 1, before=100))


class TestShortage(base.TestCase):

    def find(self, fits, before=0, hysteresis=2, fewest=10):
        return levels.find_shortage(Measurement(_SHAPE, fewest, fits), hysteresis, before)

    def test_both_ways(self):
        for fits, before, level in ((10, 0, 0), (9, 0, 1), (0, 0, 1), (10, 1, 1), (11, 1, 0)):
            self.assertEqual(level, self.find(fits, before), (fits, before))

    def test_without_hysteresis(self):
        self.assertEqual(0, self.find(10, 1, hysteresis=0))

    def test_of_many(self):
        self.assertEqual(1, self.find(1019, 1, fewest=1000))
        self.assertEqual(0, self.find(1020, 1, fewest=1000))


class TestSubjects(base.TestCase):

    def test_each_has_a_uuid_of_its_own(self):
        subjects = [_LIMIT, _SHAPE, Subject("limit", "web", "subtree", "cores"),
                    Subject("limit", "data", "own", "cores"),
                    Subject("limit", "web", "own", "ram")]
        self.assertEqual(5, len({subject.uuid for subject in subjects}))
        self.assertEqual(_LIMIT.uuid, Subject("limit", "web", "own", "cores").uuid)
