"""Hosts of which more is booked than they have."""

from __future__ import annotations

import datetime

from placement_core.plugin_api.reservations import Size
from placement_core.takeover import double_bookings
from placement_core.takeover.double_bookings import Booking
from tests import base

_NOON = datetime.datetime(2031, 1, 1, 12)
_HOUR = datetime.timedelta(hours=1)


def _booking(
    lease: str, start: int, end: int, vcpus: int = 0, *, whole: bool = False, host: str = "1"
) -> Booking:
    return Booking(host, lease, lease, _NOON + start * _HOUR, _NOON + end * _HOUR,
                   (vcpus, 0, 0), whole)


class TestFind(base.TestCase):
    def find(self, *bookings: Booking) -> dict[str, list[tuple[str, int, list[str]]]]:
        overbooked = double_bookings.find(bookings, {"1": Size(8, 8, 8), "2": Size(8, 8, 8)})
        return {
            lease: [(one.host_id, (one.since - _NOON) // _HOUR, list(one.others)) for one in all_]
            for lease, all_ in overbooked.items()}

    def test_what_fits(self) -> None:
        for bookings in (
            [], [_booking("a", 0, 1, 4), _booking("b", 0, 1, 4)],
            [_booking("a", 0, 1, whole=True), _booking("b", 1, 2, 8)],
            [_booking("a", 0, 1, whole=True), _booking("b", 0, 1, whole=True, host="2")],
        ):
            self.assertEqual({}, self.find(*bookings), bookings)

    def test_more_than_it_has(self) -> None:
        self.assertEqual(
            {"a": [("1", 1, ["b (b)"])], "b": [("1", 1, ["a (a)"])]},
            self.find(_booking("a", 0, 2, 5), _booking("b", 1, 3, 4)))

    def test_one_alone(self) -> None:
        self.assertEqual({"a": [("1", 0, [])]}, self.find(_booking("a", 0, 2, 9)))

    def test_a_whole_host_and_slots(self) -> None:
        self.assertEqual(
            {"a": [("1", 2, ["b (b)"])], "b": [("1", 2, ["a (a)"])]},
            self.find(_booking("a", 0, 3, 1), _booking("b", 2, 4, whole=True)))

    def test_long_lists_are_cut(self) -> None:
        [one] = self.find(*(_booking(f"l{n}", 0, 1, 8) for n in range(9)))["l0"]
        self.assertEqual(["l1 (l1)", "3 more"], [one[2][0], one[2][-1]])

    def test_hosts_of_unknown_size(self) -> None:
        bookings = [_booking("a", 0, 1, 8), _booking("b", 0, 1, 8)]
        self.assertEqual({}, double_bookings.find(bookings, {"1": Size(0, 0, 0)}))
