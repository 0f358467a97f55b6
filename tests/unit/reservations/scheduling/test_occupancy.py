"""Which leases wait for hosts that are not free yet."""

from __future__ import annotations

import datetime

from placement_core.reservations.scheduling import occupancy
from placement_core.reservations.scheduling.occupancy import OccupiedHost
from tests import base

_START = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
_START_SECOND = int(_START.timestamp())


class TestKeepsWaiting(base.TestCase):
    def waits(self, *occupied, host_ids=(1, 2)):
        return occupancy.keeps_waiting(occupied, "mine", _START, host_ids)

    def test_cases(self):
        for host, expected in (
            (OccupiedHost(1, "other", _START_SECOND, None), True),
            (OccupiedHost(2, "other", _START_SECOND - 60, _START_SECOND + 60), True),
            (OccupiedHost(3, "other", _START_SECOND, None), False),
            (OccupiedHost(1, "mine", _START_SECOND, None), False),
            (OccupiedHost(1, "other", _START_SECOND + 1, None), False),
        ):
            self.assertEqual(expected, self.waits(host), host)

    def test_none_is_occupied(self):
        self.assertFalse(self.waits())

    def test_one_of_several_is_enough(self):
        self.assertTrue(self.waits(
            OccupiedHost(3, "other", 0, None), OccupiedHost(2, "other", 0, None)))
