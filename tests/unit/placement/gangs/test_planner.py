import itertools
import random
from collections import Counter

import hypothesis
import numpy as np
from hypothesis import strategies as st

from placement_core.placement.gangs import planner
from tests import base, examples

_CHANCE = st.integers(0, 2**64).map(random.Random)


def make_sites(chance):
    """Make sites of hosts that lie in one domain ``within`` and one pool each."""
    hosts = [chance.randint(0, 3) for _ in range(chance.randint(1, 6))]
    within = [chance.randint(0, 1) for _ in range(4)]
    pools = [chance.choice((-1, -1, 7, 8)) for _ in range(4)]
    by = [chance.randint(0, 2) for _ in range(4)]
    divided = chance.random() < 0.5  # parts of one host are in different domains
    return planner.Sites(
        np.array([chance.randint(1, 3) for _ in hosts]),
        np.array(hosts),
        np.array([within[host] for host in hosts]),
        np.array([100 + at if divided else by[host] for at, host in enumerate(hosts)]),
        np.array([pools[host] for host in hosts]),
        {7: chance.randint(0, 3), 8: chance.randint(0, 3)} if max(pools) > 0 else {})


class Judge:
    """All numbers of members that the sites can take."""

    def __init__(self, sites, max_per_host):
        self.sites = sites
        self.max_per_host = max_per_host
        self.legal = [counts for counts in itertools.product(
            *(range(copies + 1) for copies in sites.copies.tolist())) if self.fits(counts)]

    def sum_by(self, keys, counts):
        sums = Counter()
        for key, count in zip(keys.tolist(), counts, strict=True):
            sums[key] += count
        return +sums

    def fits(self, counts):
        most = self.max_per_host
        if most is not None and any(
                count > most for count in self.sum_by(self.sites.hosts, counts).values()):
            return False
        return all(self.sum_by(self.sites.pools, counts)[pool] <= bound
                   for pool, bound in self.sites.pool_copies.items())

    def cost(self, counts, *, pack):
        domains = self.sum_by(self.sites.by, counts)
        return len(domains) if pack else max(domains.values(), default=0)

    def lowest_cost(self, number, *, pack):
        return min(self.cost(counts, pack=pack) for counts in self.legal if sum(counts) == number)


class TestPlanner(base.TestCase):

    @examples.draw(500)
    @hypothesis.given(
        _CHANCE, st.integers(1, 6), st.sampled_from((None, 1, 2)),
        st.sampled_from(("pack", "spread", "neither")))
    def test_against_all_choices(self, chance, wanted, max_per_host, rule):
        sites = make_sites(chance)
        rules = {"pack": rule == "pack", "spread": rule == "spread", "max_per_host": max_per_host}
        rooms = {}
        judges = {}
        for domain in set(sites.within.tolist()):
            part = sites.select(np.flatnonzero(sites.within == domain))
            judges[domain] = part, Judge(part, max_per_host)
            rooms[domain] = max(map(sum, judges[domain][1].legal))
        self.assertEqual(rooms, planner.count_room(sites, sites.within, max_per_host))

        chosen = planner.choose_domain(sites, wanted, **rules)
        part, judge = judges[chosen]
        taken = planner.distribute(part, wanted, **rules)
        counts = tuple(taken[site] for site in range(len(part)))
        self.assertIn(counts, judge.legal)
        placed = min(wanted, max(rooms.values()))
        self.assertEqual(placed, sum(counts))
        # Which hosts of a domain use a pool is not weighed against what other domains need.
        if rule != "neither" and not sites.pool_copies:
            pack = rule == "pack"
            lowest = min(
                judge.lowest_cost(placed, pack=pack) for domain, (_, judge) in judges.items()
                if rooms[domain] >= placed)
            self.assertEqual(lowest, judge.cost(counts, pack=pack))

    def test_larger_domains_stay_whole(self):
        copies = np.array([4, 2, 3])
        zeros, numbers = np.zeros(3, dtype=int), np.arange(3)
        sites = planner.Sites(copies, numbers, numbers, zeros, zeros - 1)
        neither = {"pack": False, "spread": False, "max_per_host": None}
        self.assertEqual(1, planner.choose_domain(sites, 2, **neither))
        self.assertEqual(2, planner.choose_domain(sites, 3, **neither))
        self.assertEqual(0, planner.choose_domain(sites, 9, **neither))
        packed = planner.Sites(copies, numbers, zeros, numbers, zeros - 1)
        rules = {"pack": True, "spread": False, "max_per_host": None}
        self.assertEqual({0: 4, 1: 2}, planner.distribute(packed, 6, **rules))
        self.assertEqual({2: 3}, planner.distribute(packed, 3, **rules))


class TestExtend(base.TestCase):
    """More members beside those that are there."""

    @examples.draw(500)
    @hypothesis.given(_CHANCE, st.integers(1, 5), st.booleans())
    def test_against_every_choice(self, chance, wanted, pack):
        count = chance.randint(1, 5)
        # -1: hosts that are in no domain together are one.
        copies, present, by = (
            np.array([chance.randint(least, most) for _ in range(count)])
            for least, most in ((0, 3), (0, 2), (-1, 1)))
        taken = planner.extend(copies, by, wanted, present, pack=pack, spread=not pack)
        self.assertEqual(min(wanted, copies.sum()), taken.total())
        self.assertTrue(all(0 < taken[site] <= copies[site] for site in taken), taken)

        def cost(counts):
            sums = Counter()
            for site in range(count):
                sums[int(by[site])] += int(present[site]) + counts[site]
            return len(+sums) if pack else max(sums.values())

        self.assertEqual(
            min(cost(counts) for counts in itertools.product(
                *(range(most + 1) for most in copies.tolist()))
                if sum(counts) == taken.total()),
            cost([taken[site] for site in range(count)]))

    def test_hosts_that_are_used_come_first(self):
        copies, present = np.array([2, 5, 2]), np.array([1, 0, 0])
        for by, expected in (([0, 0, 0], {0: 2, 2: 1}), ([0, 1, 0], {0: 2, 2: 1}),
                             ([0, 0, 1], {0: 2, 1: 1})):
            self.assertEqual(expected, planner.extend(
                copies, np.array(by), 3, present, pack=True, spread=False))
