"""What shares hold over time."""

from __future__ import annotations

from placement_core.plugin_api.reservations import Share, Size, Window
from placement_core.reservations.policy import budgets
from tests import base

_HOUR = 3600


class TestSumShares(base.TestCase):
    def sums(self, *shares, start=0, end=2 * _HOUR, since=0):
        """Return the sums in units of the limits."""
        sums = budgets.sum_shares(shares, Window.of(start, end), since)
        return {name: sums[name] / budget.unit for name, budget in budgets.BUDGETS.items()}

    def test_nothing(self):
        self.assertEqual(dict.fromkeys(budgets.BUDGETS, 0), self.sums())

    def test_slots(self):
        self.assertEqual({
            "lease:vcpu_hours": 12, "lease:memory_gb_hours": 6, "lease:disk_gb_hours": 60,
            "lease:host_hours": 0}, self.sums(Share(1, 3, Size(2, 1024, 10))))

    def test_whole_hosts(self):
        host = Share(1, 1, Size(8, 2048, 100), whole=True)
        self.assertEqual({
            "lease:vcpu_hours": 16, "lease:memory_gb_hours": 4, "lease:disk_gb_hours": 200,
            "lease:host_hours": 2}, self.sums(host))

    def test_several_add_up(self):
        share = Share(1, 1, Size(1, 0, 0))
        self.assertEqual(6, self.sums(share, Share(2, 2, Size(1, 0, 0)))["lease:vcpu_hours"])

    def test_only_from_a_second_on(self):
        share = Share(1, 1, Size(1, 0, 0))
        for since, expected in ((0, 2), (_HOUR, 1), (2 * _HOUR, 0), (9 * _HOUR, 0)):
            self.assertEqual(expected, self.sums(share, since=since)["lease:vcpu_hours"], since)
