"""How many equal items fit into the limits that bind a project."""

from placement_core import amounts
from placement_core.quota import checks
from placement_core.quota.queries import Measure
from placement_core.quota.records import LimitUsage
from tests import base


def measure(**limits):
    """Return a measure; limits: {resource name: [(limit, used), ...]}."""
    return Measure(None, {
        name: [LimitUsage("node", name, "own", "set", limit, used) for limit, used in pairs]
        for name, pairs in limits.items()}, None)


class TestCountFitting(base.TestCase):

    def test_the_tightest_limit_decides(self):
        binding = measure(cores=[(10, 2), (20, 14)], ram=[(100, 0)])
        self.assertEqual(3, checks.count_fitting(binding, {"cores": 2, "ram": 10}))
        self.assertEqual(1, checks.count_fitting(binding, {"cores": 2, "ram": 100}))

    def test_nothing_binds(self):
        for limits in ({"cores": []}, {"cores": [(amounts.UNLIMITED, 5)]}):
            self.assertEqual(
                amounts.UNLIMITED, checks.count_fitting(measure(**limits), {"cores": 1}))

    def test_items_of_nothing(self):
        """They fit without end, unless a limit is exceeded already."""
        self.assertEqual(
            amounts.UNLIMITED, checks.count_fitting(measure(cores=[(5, 5)]), {"cores": 0}))
        self.assertEqual(0, checks.count_fitting(measure(cores=[(5, 6)]), {"cores": 0}))
