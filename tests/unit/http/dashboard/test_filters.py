"""Numbers, moments and durations as people read them."""

from __future__ import annotations

import datetime

from placement_core.http.dashboard import filters
from tests import base


class TestFilters(base.TestCase):
    def test_numbers(self) -> None:
        for number, text in ((0, "0"), (1234567, "1,234,567"), (-5000, "-5,000"), (None, "–")):
            self.assertEqual(text, filters.format_number(number))

    def test_durations(self) -> None:
        """In the largest unit of which there are two."""
        for seconds, text in (
                (0, "0 s"), (0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"),
                (7200, "2 h"), (172_799, "47 h"), (172_800, "2 d"), (10**9, "11,574 d"),
                (None, "–")):
            self.assertEqual(text, filters.format_seconds(seconds))

    def test_moments(self) -> None:
        """In UTC, whatever offset they have."""
        zone = datetime.timezone(datetime.timedelta(hours=2))
        moment = datetime.datetime(2027, 1, 31, 1, 30, 15, tzinfo=zone)
        self.assertEqual(
            '<time datetime="2027-01-30T23:30:15+00:00">2027-01-30 23:30 UTC</time>',
            filters.format_moment(moment))
        self.assertEqual("–", filters.format_moment(None))
