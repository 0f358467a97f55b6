"""Steps of what is free, merged where there are too many."""

from __future__ import annotations

import datetime

from placement_core.http.dashboard.panels import calendar
from placement_core.plugin_api.reservations import Window
from placement_core.reservations.scheduling.availability import FreeStep
from tests import base

_START = datetime.datetime(2026, 11, 26, tzinfo=datetime.UTC)
_MINUTE = datetime.timedelta(minutes=1)


def _make_steps(count: int) -> list[FreeStep]:
    """Return steps of a minute each; what is free goes up and down."""
    return [FreeStep(Window(_START + number * _MINUTE, _START + (number + 1) * _MINUTE),
                     number % 7, number % 5, number % 3, number) for number in range(count)]


class TestMergeSteps(base.TestCase):
    def test_few(self) -> None:
        """Few steps stay as they are, however short."""
        steps = _make_steps(200)
        self.assertIs(steps, calendar.merge_steps(steps, 60 * _MINUTE))

    def test_many(self) -> None:
        """What is free throughout: the least of each; there is no gap, and nothing is lost."""
        steps = _make_steps(1000)
        merged = calendar.merge_steps(steps, 10 * _MINUTE)
        self.assertEqual(100, len(merged))
        self.assertEqual(FreeStep(
            Window(_START + 10 * _MINUTE, _START + 20 * _MINUTE), 0, 0, 0, 10), merged[1])
        self.assertEqual(
            [step.window.end_at for step in merged[:-1]],
            [step.window.start_at for step in merged[1:]])
        self.assertEqual(steps[-1].window.end_at, merged[-1].window.end_at)
        self.assertEqual([], calendar.merge_steps([], _MINUTE))
