from __future__ import annotations

import datetime

from placement_core.db import clock
from tests import base


class TestMicroseconds(base.TestCase):

    def test_there_and_back(self) -> None:
        for number, moment in (
                (0, datetime.datetime(1970, 1, 1)),
                (-1, datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)),
                (1_772_366_405_000_007, datetime.datetime(2026, 3, 1, 12, 0, 5, 7))):
            with self.subTest(number=number):
                self.assertEqual(number, clock.to_microseconds(moment))
                self.assertEqual(moment, clock.from_microseconds(number))

    def test_no_such_time(self) -> None:
        for number in (2**63, -(2**63), 10**40):
            with self.subTest(number=number):
                self.assertRaises(OverflowError, clock.from_microseconds, number)
