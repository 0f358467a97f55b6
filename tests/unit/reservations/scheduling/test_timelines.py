"""What is promised of things over time."""

from __future__ import annotations

import numpy as np

from placement_core.reservations.scheduling import timelines
from placement_core.reservations.scheduling.timelines import Timelines
from tests import base


def _timelines(size, *promises):
    """Return timelines of ``(thing, start, end, amount)``."""
    things, starts, ends, amounts = (
        np.array(column, dtype=np.int64) for column in zip(*promises, strict=True))
    return Timelines(size, things, starts, ends, amounts[:, None])


class TestTimelines(base.TestCase):
    def setUp(self):
        super().setUp()
        self.timelines = _timelines(3, (0, 0, 10, 2), (0, 5, 15, 3), (2, 10, 20, 4))

    def peaks(self, start, end):
        return self.timelines.peaks(start, end)[:, 0].tolist()

    def test_peaks(self):
        for window, expected in (
            ((0, 5), [2, 0, 0]), ((0, 6), [5, 0, 0]), ((9, 11), [5, 0, 4]),
            ((15, 20), [0, 0, 4]), ((20, 30), [0, 0, 0]),
        ):
            self.assertEqual(expected, self.peaks(*window), window)

    def test_what_ends_gives_way_to_what_begins(self):
        self.timelines = _timelines(1, (0, 0, 10, 2), (0, 10, 20, 2))
        self.assertEqual([2], self.peaks(0, 20))

    def test_steps(self):
        steps = self.timelines.steps(0, 12)
        self.assertEqual(
            [(0, 0, 2), (0, 5, 5), (0, 10, 3), (0, 12, 0), (2, 10, 4), (2, 12, 0)],
            list(zip(steps.things.tolist(), steps.times.tolist(), steps.amounts[:, 0].tolist(),
                     strict=True)))

    def test_minima(self):
        """Of six, the first thing has four free at once, one or three later."""
        steps = self.timelines.steps(0, 30)
        things, times, free = steps.minima(6 - steps.amounts[:, 0], np.array([6, 6, 6]), 2)
        of_first = {time: amount for thing, time, amount in zip(
            things.tolist(), times.tolist(), free.tolist(), strict=True) if thing == 0}
        self.assertEqual({0: 4, 4: 1, 10: 3, 15: 6}, of_first)

    def test_totals(self):
        times, sums = timelines.totals(
            np.array([0, 0, 1, 1]), np.array([0, 5, 0, 7]), np.array([1, 2, 10, 20]))
        self.assertEqual(([0, 5, 7], [11, 12, 22]), (times.tolist(), sums.tolist()))
