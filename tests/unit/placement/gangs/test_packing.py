"""Packing finds as much as trying everything does, as long as its budget lasts."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from unittest import mock

from placement_core.placement.candidates import search as candidate_search
from placement_core.placement.candidates.requests import CandidatesRequest, RequestGroup
from placement_core.placement.gangs import copies, errors, packing, search
from placement_core.placement.gangs.packing import PackingBudget
from placement_core.placement.gangs.requests import GangRequest
from placement_core.placement.gangs.tree_packing import TreePacker
from placement_core.placement.gangs.uses import count_repeats, take
from tests import base, snapshots

#: Each copy takes 1 of two providers.
_PAIR = CandidatesRequest(
    (RequestGroup("_A", {"VCPU": 1}), RequestGroup("_B", {"VCPU": 1})), isolate=True)


def build_hosts(*hosts):
    """Build a snapshot of hosts, each with devices that have so much VCPU."""
    rows = []
    for devices in hosts:
        root = len(rows) + 1
        rows.append(snapshots.provider(root))
        rows += [
            snapshots.provider(
                root + number, snapshots.inventory("VCPU", amount), parent=root)
            for number, amount in enumerate(devices, 1)]
    return snapshots.build(*rows)


class TestPack(base.TestCase):

    def test_against_trying_everything(self):
        for seed in range(300):
            chance = random.Random(seed)
            free = {(row, 0): chance.randint(0, 6) for row in range(5)}
            uses = list({
                tuple(sorted((cell, chance.choice((1, 1, 2)))
                             for cell in chance.sample(sorted(free), chance.choice((1, 2, 2, 3)))))
                for _ in range(chance.randint(0, 7))})
            most = chance.choice((2, 50))
            packed = packing.pack(uses, free, most, self.make_budget())
            taken = Counter()
            for at in packed:
                taken.update(dict(uses[at]))
            self.assertTrue(all(free[cell] >= amount for cell, amount in taken.items()))
            self.assertEqual(min(most, self.find_most(uses, free)), len(packed), seed)

    def test_hosts_and_pools(self):
        """More than a search could try; in each order."""
        for seed in range(105):
            chance = random.Random(seed)
            hosts = chance.randint(2, 15) if seed < 100 else 800
            free = {(pool, 2): chance.randint(0, hosts) for pool in range(chance.randint(2, 5))}
            reach = {host: [pool for pool in free if chance.random() < 0.5]
                     for host in range(100, 100 + hosts)}
            uses = [tuple(sorted([(pool, 1), ((host, 0), 2), ((host, 1), 1)]))
                    for host, pools in reach.items() for pool in pools]
            chance.shuffle(uses)
            rooms = {host: chance.randint(1, 5) for host in reach}
            most = self.find_most_of_pools(free, reach, rooms)
            for host, room in rooms.items():
                free |= {(host, 0): 2 * room + chance.randint(0, 1),
                         (host, 1): room + chance.randint(0, 2)}
            budget = self.make_budget()
            packed = packing.pack(uses, free, most + 10, budget)
            self.assertEqual(most, len(packed), seed)
            # For the ten that do not fit, it does not try everything.
            self.assertLessEqual(budget.steps, 100 * len(uses), seed)
            taken = Counter()
            for at in packed:
                taken.update(dict(uses[at]))
            self.assertTrue(all(free[cell] >= amount for cell, amount in taken.items()))

    def find_most_of_pools(self, free, reach, rooms):
        """Return the least of what can bound copies: some pools, and who reaches others."""
        return min(
            sum(free[pool] for pool in pools) + sum(
                room for host, room in rooms.items() if set(reach[host]) - set(pools))
            for number in range(len(free) + 1)
            for pools in itertools.combinations(free, number))

    def make_budget(self):
        budget = PackingBudget(1)
        budget.begin_tree()
        return budget

    def find_most(self, uses, free):
        if not uses:
            return 0
        use, *others = uses
        best = 0
        for number in range(count_repeats(use, free) + 1):
            left = dict(free)
            take(use, left, number)
            best = max(best, number + self.find_most(others, left))
        return best


class TestManyDevices(base.TestCase):

    def find(self, snapshot, members):
        return search.find_members(snapshot, GangRequest(_PAIR, members, members))

    def assert_pairs(self, wanted, snapshot):
        """Check that so many pairs are found, and not one more."""
        taken = Counter()
        for member in self.find(snapshot, wanted):
            self.assertEqual(2, len(member.allocations))
            taken.update(member.allocations.keys())
        self.assertEqual(2 * wanted, taken.total())
        refusal = self.assertRaises(errors.NoRoomForGang, self.find, snapshot, wanted + 1)
        self.assertEqual(wanted, refusal.holds)
        return taken

    def test_equal_ones(self):
        for count in (64, 301):
            snapshot = build_hosts([1] * count)
            self.assertEqual({1}, set(self.assert_pairs(count // 2, snapshot).values()))
        self.assertEqual(13, len(self.find(build_hosts([1] * 64), 13)))

    def test_unequal_ones(self):
        """First those with much room, so that none of it is left alone."""
        for pairs, devices in ((40, [1] * 40 + [60]), (75, [30] * 4 + [1] * 30), (75, [50] * 3),
                               (100, [1, 2, 3, 4] * 20)):
            taken = self.assert_pairs(pairs, build_hosts(devices))
            for number, amount in enumerate(devices, 2):
                self.assertLessEqual(taken[snapshots.uuid_of(number)], amount)

    def test_work_is_bounded(self):
        """Many hosts, none like another: each gets its share of what may be looked at."""
        chance = random.Random(1)
        hosts = [[chance.choice((1, 1, 2, 5, 9)) for _ in range(64)] for _ in range(40)]
        choices = candidate_search.choose(build_hosts(*hosts), _PAIR)
        prepared = self.pack(choices, most=1, greedy=0, searched=0)[0]
        for greedy, searched in ((0, 0), (20_000, 10_000)):
            steps, rooms = self.pack(choices, most=1000, greedy=greedy, searched=searched)
            self.assertEqual(40, len(rooms))
            self.assertLess(steps, prepared + 2 * (greedy + searched) + 40 * 500)
        self.assertGreater(min(rooms), 2)

    def pack(self, choices, *, most, greedy, searched):
        """Return how much was looked at, and how many copies there are on each host."""
        before = choices.plan.budget.steps
        packer = TreePacker(choices.plan, 0, most)
        with (mock.patch.object(packing, "_MOST_GREEDY_STEPS", greedy),
              mock.patch.object(packing, "_MOST_SEARCH_STEPS", searched)):
            rooms = [len(site.combinations) for _, sites in packer.pack(choices)
                     for site in sites.values()]
        return packer.budget.steps + choices.plan.budget.steps - before, rooms

    def test_a_search_ends(self):
        """Also where greedy choices leave much that may fit."""
        chance = random.Random(2)
        shape = CandidatesRequest((
            RequestGroup("_A", {"VCPU": 5}), RequestGroup("_B", {"VCPU": 7}),
            RequestGroup("_C", {"VCPU": 11})), isolate=True)
        snapshot = build_hosts(*([chance.randint(7, 40) for _ in range(8)] for _ in range(5)))
        sites = copies.find_sites(candidate_search.choose(snapshot, shape), 0, 1000)
        self.assertEqual(5, len(sites))
