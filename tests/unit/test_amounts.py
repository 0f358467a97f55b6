from __future__ import annotations

from fractions import Fraction

from placement_core import amounts
from tests import base

_LARGEST = 2**31 - 1


class TestAmounts(base.TestCase):

    def test_on_the_wire(self):
        for value, amount in ((-1, amounts.UNLIMITED), (0, 0), (1, 1), (_LARGEST, _LARGEST)):
            self.assertEqual(amount, amounts.from_wire(value))
            written = amounts.to_wire(amount)
            self.assertEqual((value, int), (written, type(written)))

    def test_a_whole_number_with_a_point(self):
        """JSON's 5.0 is an integer, and is written as one."""
        self.assertEqual("5", str(amounts.to_wire(amounts.from_wire(5.0))))

    def test_unlimited_is_more_than_every_number(self):
        for number in (0, _LARGEST, 10**400):
            self.assertGreater(amounts.UNLIMITED, number)
        self.assertFalse(amounts.UNLIMITED > amounts.UNLIMITED)
        self.assertEqual(amounts.UNLIMITED, sum([3, amounts.UNLIMITED]))

    def test_over(self):
        for limit, usage, delta, expected in (
                (10, 9, 1, False), (10, 9, 2, True), (10, 10, 0, False), (10, 11, 0, True),
                (0, 0, 0, False), (0, 0, 1, True), (10, 12, -1, True), (10, 12, -2, False),
                (amounts.UNLIMITED, 10**400, 10**400, False)):
            self.assertIs(expected, amounts.is_over(limit, usage, delta), (limit, usage, delta))

    def test_scaled(self):
        for amount, factor, expected in (
                (10, "1.1", 11), (100, "1.15", 115), (9, "1.1", 9), (0, "5", 0),
                (_LARGEST, "1.5", 3221225470), (7, "0.5", 3),
                (amounts.UNLIMITED, "1.5", amounts.UNLIMITED)):
            self.assertEqual(
                expected, amounts.scale(amount, Fraction(factor)), (amount, factor))

    def test_scaled_amounts_are_whole(self):
        self.assertIs(int, type(amounts.scale(10, Fraction("1.25"))))
