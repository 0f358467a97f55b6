"""Pools that are derived from others."""

from __future__ import annotations

from placement_core.plugin_api.reservations import Hosts, Share, Size
from placement_core.reservations.scheduling.pools import Bookings, Pool
from tests import base

SIZE = Size(4, 0, 0)


class TestRoomForShares(base.TestCase):
    def setUp(self):
        super().setUp()
        # Host 1 has too little for its booking, host 2 has 4 besides, host 3 is empty.
        self.pool = Pool(
            Hosts.of([(1, 3, 9, 9, True, True), (2, 8, 9, 9, True, True),
                      (3, 8, 9, 9, True, False)]),
            Bookings.of([(1, 50, 60, 4, 0, 0, False), (2, 50, 60, 4, 0, 0, False)]),
            cleaning_seconds=5, occupied=[3])

    def count_slots(self, *shares):
        pool = self.pool.with_room_for(shares, 0, 100)
        self.assertEqual((1, [True, True, False]),
                         (pool.occupied, pool.hosts.reservable.tolist()))
        return pool.free(0, 100).slots(SIZE).tolist()

    def test_shares(self):
        for shares, expected in (
            ([], [0, 1, 2]),
            ([Share(1, 1, SIZE, False)], [1, 1, 2]),
            ([Share(1, 1, SIZE, False), Share(1, 2, SIZE, False)], [3, 1, 2]),
            ([Share(2, 1, SIZE, False)], [0, 1, 2]),
            ([Share(2, 2, SIZE, False), Share(3, 1, SIZE, False)], [0, 2, 2]),
            ([Share(1, 1, SIZE, True), Share(9, 1, SIZE, False)], [0, 1, 2]),
        ):
            with self.subTest(shares=shares):
                self.assertEqual(expected, self.count_slots(*shares))

    def test_the_pool_stays_as_it_was(self):
        self.count_slots(Share(1, 1, SIZE, False))
        self.assertEqual([0, 1, 2], self.pool.free(0, 100).slots(SIZE).tolist())
