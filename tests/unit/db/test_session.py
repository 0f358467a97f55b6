"""The names of transactions."""

from __future__ import annotations

from placement_core.db import session
from tests import base

_SECOND = 10**9
_DAY = 86_400 * _SECOND


class TestTransactionNames(base.TestCase):

    def test_those_of_one_time_are_neighbours(self) -> None:
        """Indexes begin with them: random ones would write to another page each."""
        names = [session.make_txn(_DAY + second * _SECOND)
                 for second in range(3) for _ in range(100)]
        self.assertEqual(
            [0] * 100 + [1] * 100 + [2] * 100,
            [second for _, second in sorted(
                (name, place // 100) for place, name in enumerate(names))])

    def test_those_of_one_moment_differ(self) -> None:
        self.assertEqual(100, len({session.make_txn(_DAY) for _ in range(100)}))

    def test_a_sum_of_one_for_each_slot_is_a_signed_integer_of_64_bits(self) -> None:
        largest = max(session.make_txn(day * _DAY) for day in range(20_000, 20_200))
        self.assertGreater(largest, 2**54)
        self.assertLess(256 * largest, 2**63)
