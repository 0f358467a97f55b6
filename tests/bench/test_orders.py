"""The trace that compares orders of candidates; it has no clock, so its numbers are the same."""

from __future__ import annotations

from benchmarks import orders
from tests import base


class TestTrace(base.TestCase):
    def test_least_stranded_places_more(self) -> None:
        trace = orders.play()
        self.assertGreater(trace.compare("least_stranded"), 1.05, trace)
        self.assertEqual(1, trace.compare("rotate"))
        self.assertLess(trace.compare("spread"), 1, trace)
