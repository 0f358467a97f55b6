"""Random leases on random hosts, made, changed and given up, against a naive oracle.

What is admitted fits, minute by minute, and what is refused does not fit in any way.
"""

import random

import sqlalchemy as sa

from placement_core import db
from placement_core.plugin_api.reservations import DoesNotFit
from placement_core.reservations import tables
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.records import NewReservation
from tests.functional.reservations import lease_cases
from tests.functional.reservations.lease_cases import MINUTE
from tests.plugins.reservations import oracle, pools


class TestAgainstTheOracle(lease_cases.LeasesTestCase):

    def setUp(self):
        super().setUp()
        self.known = {}
        self.admitted = self.refused = 0

    def reservation(self, want):
        among = pools.requirement(want, self.sizes)
        if want.kind == "host":
            return self.whole(want.least, want.most, hypervisor_properties=among)
        return NewReservation("virtual:instance", {
            **self.instances(want.amount, want.size, affinity=want.affinity).raw_fields,
            "resource_properties": among})

    def minute(self, number):
        return self.at(0) + number * MINUTE

    def world(self, *, without=None):
        """Return what the oracle is to know: the hosts and what is held of them."""
        world = oracle.World(self.sizes, [], self.cleaning, racks=self.racks)
        for lease_id, (wants, placed, start, end) in self.known.items():
            if lease_id != without:
                for want, put in zip(wants, placed, strict=True):
                    for place, slots in put.items():
                        whole = want.kind == "host"
                        size = self.sizes[place] if whole else want.size
                        world.taken.append((
                            place, start, end, tuple(slots * each for each in size), whole))
        return world

    def play(self, seed):
        chance = random.Random(seed)
        self.cleaning = chance.choice((0, 0, 2))
        self.leases = self.service(cleaning_seconds=60 * self.cleaning)
        sizes = [chance.choice(((4, 4, 4), (8, 4, 6), (2, 8, 3), (6, 6, 6)))
                 for _ in range(chance.randint(1, 4))]
        self.sizes = dict(zip(self.hosts(*sizes), sizes, strict=True))
        self.racks = {host: chance.choice("ab") for host in self.sizes}
        self.capability("rack", self.racks)
        for _ in range(25):
            deed = chance.random()
            if deed < 0.15 and self.known:
                lease_id = chance.choice(sorted(self.known))
                self.leases.delete(self.ctx, lease_id)
                del self.known[lease_id]
            elif deed < 0.4 and self.known:
                self.change_one(chance)
            else:
                self.make_one(chance)

    def make_one(self, chance):
        world = self.world()
        wants = [pools.random_want(chance, world, ("host", "slots", "slots"))
                 for _ in range(chance.randint(1, 3))]
        start = chance.randint(0, 15)
        end = start + chance.randint(1, 8)
        expected = oracle.fits(world, start, end, wants)
        try:
            lease = self.create(*map(self.reservation, wants), start=self.minute(start),
                                end=self.minute(end))
        except DoesNotFit as refusal:
            self.assertFalse(expected, f"refused: {refusal}")
            self.refused += 1
            return
        self.check(world, lease, wants, start, end, expected)

    def change_one(self, chance):
        lease_id = chance.choice(sorted(self.known))
        world = self.world(without=lease_id)
        wants, _, start, end = self.known[lease_id]
        start = max(0, start + chance.randint(-3, 3))
        end = max(start + 1, end + chance.randint(-3, 4))
        expected = oracle.fits(world, start, end, wants)
        lease = lease_queries.get(self.ctx, lease_id)
        try:
            lease = self.change(
                lease, start_at=self.minute(start), end_at=self.minute(end))
        except DoesNotFit as refusal:
            self.assertFalse(expected, f"refused: {refusal}")
            self.refused += 1
            return
        self.check(world, lease, wants, start, end, expected)

    def check(self, world, lease, wants, start, end, expected):
        self.admitted += 1
        placed = self.slots(lease)
        self.assertTrue(expected, placed)
        self.assertTrue(oracle.stands(world, start, end, wants, placed), placed)
        for want, put in zip(wants, placed, strict=True):
            if "within" in want.rules:
                self.assertEqual(1, len(oracle.domains(world, want.rules["within"], put)))
        for each in self.held(lease):
            self.assertEqual({lease.window}, {window for _, window in each.values()})
        self.known[lease.id] = wants, placed, start, end

    def test_many(self):
        for seed in range(12):
            with self.subTest(seed):
                self.known.clear()
                self.play(seed)
                for lease_id in self.known:
                    self.leases.delete(self.ctx, lease_id)
                self.clear_hosts()
        self.assertTrue(min(self.admitted, self.refused) > 50, (self.admitted, self.refused))

    def clear_hosts(self):
        with db.write(self.ctx) as session:
            session.execute(sa.delete(tables.computehost_extra_capabilities))
            session.execute(sa.delete(tables.resource_properties))
            session.execute(sa.delete(tables.computehosts))
