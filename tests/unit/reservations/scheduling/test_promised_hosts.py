"""What hosts have promised from now on, against a look at every second."""

from __future__ import annotations

import random

import hypothesis
from hypothesis import strategies as st

from placement_core.reservations.scheduling import promised_hosts
from placement_core.reservations.scheduling.pools import Bookings
from tests import base, examples


class TestPromisedHosts(base.TestCase):
    @examples.draw(200)
    @hypothesis.given(st.integers(0, 2**64).map(random.Random), st.integers(0, 12))
    def test_as_second_by_second(self, chance: random.Random, count: int) -> None:
        """The most at one moment, of hosts that are there, with bookings that are not over."""
        now, hosts = 10, [2, 3, 5]
        rows = []
        for _ in range(count):
            start = chance.randint(0, 20)
            rows.append((
                chance.choice((1, 2, 3, 4, 5)), start, start + chance.randint(0, 9),
                chance.randint(0, 4), chance.randint(0, 4), 0, chance.random() < 0.2))
        promised = promised_hosts.find_promised(
            hosts, [100 + host for host in hosts], Bookings.of(rows), now)
        expected = {}
        for host in hosts:
            of_host = [row for row in rows if row[0] == host and row[2] > now]
            at_moments = [
                [row for row in of_host if row[1] <= second < row[2]]
                for second in range(now, 31)]
            whole = any(row[-1] for moment in at_moments for row in moment)
            amounts = [max(sum(row[column] for row in moment if not row[-1])
                           for moment in at_moments) for column in (3, 4, 5)]
            if whole or any(amounts):
                expected[100 + host] = (whole, amounts)
        self.assertEqual(expected, {
            provider_id: (whole, amounts) for provider_id, whole, amounts in zip(
                promised.provider_ids, promised.whole.tolist(), promised.amounts.tolist(),
                strict=True)})
