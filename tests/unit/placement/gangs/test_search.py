import dataclasses
import itertools
import random
from collections import Counter

import hypothesis
import numpy as np
from hypothesis import strategies as st

from placement_core.placement.candidates.ordering import CandidateOrdering
from placement_core.placement.candidates.requests import (
    CandidatesRequest,
    RequestGroup,
    TraitFilter,
)
from placement_core.placement.gangs import errors, levels, search
from placement_core.placement.gangs.requests import GangRequest
from placement_core.plugin_api.candidate_order import CandidateOrder
from tests import base, examples, snapshots
from tests.unit.placement.candidates import strategies
from tests.unit.placement.gangs.oracle import GangOracle

_CHANCE = st.integers(0, 2**64).map(random.Random)
_LEVELS = ("host", "aggregate:trait=CUSTOM_A", "aggregate:name=rack-", "tree:1")
#: Deeper than levels of which members have to be in a domain.
_ORDER_LEVELS = (*_LEVELS, "tree:1", "tree:2")


def make_request(chance, shape):
    def level(odds, texts=_LEVELS):
        return levels.parse(chance.choice(texts)) if chance.random() < odds else None

    divided = level(0.6)
    members, pack = chance.choice((1, 2, 3, 4)), chance.random() < 0.5
    return GangRequest(
        shape, members, chance.randint(1, members), within=level(0.4),
        pack_by=divided if pack else None, spread_by=None if pack else divided,
        max_per_host=chance.choice((None, None, 1, 2)), order_by=level(0.7, _ORDER_LEVELS))


def add_marks(chance, rows):
    """Add providers that mark aggregates, and do nothing else; names come in any order."""
    numbers = chance.sample(range(1, 50), len(rows))
    rows = [dataclasses.replace(row, name=f"provider-{number}")
            for row, number in zip(rows, numbers, strict=True)]
    marks = [
        snapshots.provider(
            number, name=chance.choice((None, f"rack-{number}")),
            traits=["CUSTOM_A"] if chance.random() < 0.6 else [],
            aggregates=[each for each in strategies.AGGREGATES if chance.random() < 0.6])
        for number in range(51, 51 + chance.choice((0, 1, 2, 3)))]
    return [*rows, *marks]


def make_hosts(chance):
    """Make hosts of several parts, which all serve requests."""
    rows = []
    for _ in range(chance.choice((1, 2))):
        host = len(rows) + 1
        for number in range(host, host + chance.randint(2, 4)):
            rows.append(snapshots.provider(
                number,
                *(snapshots.inventory(name, chance.choice((1, 2)))
                  for name in ("VCPU", "CUSTOM_GPU") if chance.random() < 0.8),
                parent=None if number == host else chance.choice((host, host, number - 1)),
                aggregates=strategies.AGGREGATES))
    return rows


def make_pools(chance):
    """Make hosts that choose among disks that they share with others, and maybe their own."""
    hosts = [
        snapshots.provider(
            number, snapshots.inventory("VCPU", chance.randint(1, 3)),
            *([snapshots.inventory("DISK_GB", 1)] if chance.random() < 0.2 else ()),
            aggregates=[each for each in (101, 102, 103) if chance.random() < 0.6])
        for number in range(1, chance.choice((2, 3)) + 1)]
    pools = [
        snapshots.provider(
            number, snapshots.inventory("DISK_GB", chance.randint(1, 3)),
            traits=[snapshots.SHARES], aggregates=[number + 90])
        for number in (11, 12, 13)[:chance.choice((2, 3))]]
    return hosts + pools


def make_request_for_pools(chance):
    """Make a request whose members use a host and one of its disks."""
    return make_request(
        chance, CandidatesRequest((RequestGroup("", {"VCPU": 1, "DISK_GB": 1}),)))


def make_request_for_parts(chance):
    """Make a request whose members may use several parts of a host."""
    names = chance.choice((["VCPU"], ["CUSTOM_GPU"], ["VCPU", "CUSTOM_GPU"]))
    request = make_request(
        chance, CandidatesRequest((RequestGroup("", dict.fromkeys(names, 1)),)))
    return dataclasses.replace(request, order_by=levels.parse(
        chance.choice(("tree:1", "tree:1", "tree:2"))))


def provider_lists(**options):
    return st.builds(add_marks, _CHANCE, strategies.provider_lists(**options))


def gangs(**options):
    return st.builds(make_request, _CHANCE, strategies.requests(**options))


class TestAgainstTheOracle(base.TestCase):

    @examples.draw(300)
    @hypothesis.given(provider_lists(), gangs(groups=2))
    def test_all_rules(self, rows, request):
        self.judge(rows, request)

    @examples.draw(300)
    @hypothesis.given(provider_lists(most=6), gangs(groups=0))
    def test_plain_shapes(self, rows, request):
        self.judge(rows, request)

    @examples.draw(200)
    @hypothesis.given(st.builds(add_marks, _CHANCE, _CHANCE.map(make_hosts)),
                      _CHANCE.map(make_request_for_parts))
    def test_order_of_parts(self, rows, request):
        self.judge(rows, request)

    @examples.draw(200)
    @hypothesis.given(st.builds(add_marks, _CHANCE, _CHANCE.map(make_pools)),
                      _CHANCE.map(make_request_for_pools))
    def test_choice_of_pools(self, rows, request):
        self.judge(rows, request)

    def judge(self, rows, request):
        judge = GangOracle(rows, request)
        hypothesis.assume(len(judge.places) <= 9)
        shares = any(snapshots.NAMES.trait_ids[snapshots.SHARES] in row.traits for row in rows)
        most, cost = judge.best()
        try:
            members = search.find_members(snapshots.build(*rows), request)
        except errors.NoRoomForGang as refusal:
            self.assertLess(most, request.min_members, str(refusal))
            return
        places = [self.find_place(judge, member) for member in members]
        self.assertTrue(judge.fits(places))
        self.assertTrue(judge.is_ordered(places), members)
        self.assertEqual(most, len(members))
        if not shares:
            self.assertEqual(cost, judge.cost(places))

    def find_place(self, judge, member):
        taken = {(uuid, name): amount for uuid, resources in member.allocations.items()
                 for name, amount in resources.items()}
        return next(
            place for place in judge.places if place[0] == taken
            and judge.rows[place[1]].name == member.host)


class TestOrder(base.TestCase):
    """Hosts of two nodes with 2 VCPU each; their disk is at the root."""

    def make_host(self, number, name, *nodes):
        return [
            snapshots.provider(number, snapshots.inventory("DISK_GB", 100), name=name),
            *(snapshots.provider(
                at, snapshots.inventory("VCPU", 2), snapshots.inventory("CUSTOM_GPU", 1),
                parent=number, name=node)
              for at, node in enumerate(nodes, number + 1))]

    def find(self, rows, members, resources, **rules):
        rules = {name: levels.parse(text) for name, text in rules.items()}
        shape = CandidatesRequest((RequestGroup("", resources),))
        return search.find_members(
            snapshots.build(*rows), GangRequest(shape, members, members, **rules))

    def list_nodes(self, rows, members):
        names = {row.uuid: row.name for row in rows if row.parent_id is not None}
        return [[names[uuid] for uuid in member.allocations if uuid in names]
                for member in members]

    def test_parts_of_hosts(self):
        """By host, and on each by node, whatever else members use and what they are packed by."""
        rows = [*self.make_host(1, "host-10", "numa-1-a", "numa-0-a"),
                *self.make_host(11, "host-9", "numa-1-b", "numa-0-b")]
        expected = [[node] for node in ("numa-0-b", "numa-1-b", "numa-0-a", "numa-1-a")
                    for _ in range(2)]
        for resources, rules in (
                ({"VCPU": 1}, {}), ({"VCPU": 1, "DISK_GB": 1}, {}),
                ({"VCPU": 1}, {"pack_by": "tree:1"}), ({"VCPU": 1}, {"spread_by": "host"})):
            members = self.find(rows, 8, resources, order_by="tree:1", **rules)
            self.assertEqual(expected, self.list_nodes(rows, members), (resources, rules))

    def test_members_of_several_parts(self):
        """They come behind those of the first of these parts."""
        rows = self.make_host(1, "host", "numa-1", "numa-0")
        members = self.find(rows, 2, {"VCPU": 1, "CUSTOM_GPU": 1}, order_by="tree:1")
        nodes = [set(names) for names in self.list_nodes(rows, members)]
        self.assertIn(nodes, (
            [{"numa-0"}, {"numa-1"}], [{"numa-0"}, {"numa-0", "numa-1"}],
            [{"numa-0", "numa-1"}, {"numa-0", "numa-1"}], [{"numa-0", "numa-1"}, {"numa-1"}]))

    def test_hosts_without_the_level(self):
        """They take members, which come where the names of the hosts do."""
        rows = [*self.make_host(1, "host-1", "numa-1-a", "numa-0-a"),
                *self.make_host(11, "host-3", "numa-1-b", "numa-0-b"),
                snapshots.provider(21, snapshots.inventory("VCPU", 2), name="host-2")]
        members = self.find(rows, 10, {"VCPU": 1}, order_by="tree:1")
        self.assertEqual(
            ["host-1"] * 4 + ["host-2"] * 2 + ["host-3"] * 4,
            [member.host for member in members])
        # No host has a provider that deep.
        members = self.find(rows, 10, {"VCPU": 1}, order_by="tree:5")
        self.assertEqual(10, len(members))
        refusal = self.assertRaises(
            errors.NoRoomForGang, self.find, rows, 10, {"VCPU": 1}, within="tree:5")
        self.assertEqual(10, refusal.holds)
        self.assertIn("no tree:5 has room for one; the largest host", str(refusal))
        self.assertIn("there is room for 10 in total", str(refusal))

    def test_members_of_the_root(self):
        """Those that use no part come first on their host."""
        rows = [snapshots.provider(1, snapshots.inventory("VCPU", 2), name="host"),
                snapshots.provider(2, snapshots.inventory("VCPU", 2), parent=1, name="a-node")]
        members = self.find(rows, 4, {"VCPU": 1}, order_by="tree:1")
        self.assertEqual([[], [], ["a-node"], ["a-node"]], self.list_nodes(rows, members))

    def test_names_that_differ_in_zeros(self):
        """Hosts of rack-1 and rack-01 do not mix."""
        rows = [
            *(snapshots.provider(at, name=name, aggregates=[100 + at])
              for at, name in enumerate(("rack-1", "rack-01"), 1)),
            *(snapshots.provider(
                at, snapshots.inventory("VCPU", 1), name=f"host-{at}",
                aggregates=[101 + at % 2]) for at in range(11, 15))]
        members = self.find(rows, 4, {"VCPU": 1}, order_by="aggregate:name=rack-")
        self.assertEqual(["host-11", "host-13", "host-12", "host-14"],
                         [member.host for member in members])


class TestSharedStorage(base.TestCase):
    """Three hosts with 4 VCPU each, and a disk that two of them share."""

    def setUp(self):
        super().setUp()
        self.snapshot = snapshots.build(
            *(snapshots.provider(
                number, snapshots.inventory("VCPU", 4), aggregates=[101] if number < 3 else [])
              for number in (1, 2, 3)),
            snapshots.provider(
                4, snapshots.inventory("DISK_GB", 50), traits=[snapshots.SHARES],
                aggregates=[101], name="rack-1"))
        self.shape = CandidatesRequest((RequestGroup("", {"VCPU": 1, "DISK_GB": 10}),))

    def find(self, members, **rules):
        rules = {name: levels.parse(text) for name, text in rules.items()}
        return search.find_members(
            self.snapshot, GangRequest(self.shape, members, members, **rules))

    def test_as_many_as_the_disk_has_room_for(self):
        for rules in ({}, {"pack_by": "host"}, {"spread_by": "host"},
                      {"within": "aggregate:name=rack-"}):
            members = self.find(5, **rules)
            self.assertEqual(5, len(members))
            self.assertEqual(
                [{"DISK_GB": 10}] * 5,
                [member.allocations[snapshots.uuid_of(4)] for member in members])
            self.assertEqual(5, self.assertRaises(
                errors.NoRoomForGang, self.find, 6, **rules).holds)

    def test_rules_hold(self):
        self.assertEqual(1, len({member.host for member in self.find(4, pack_by="host")}))
        spread = [member.host for member in self.find(4, spread_by="host")]
        self.assertEqual(["provider-1"] * 2 + ["provider-2"] * 2, spread)


class TestChoiceOfStorage(base.TestCase):
    """Hosts choose among disks that other hosts use, too: no choice costs a member its place."""

    SHAPE = CandidatesRequest((RequestGroup("", {"VCPU": 1, "DISK_GB": 10}),))

    def count(self, hosts, pools, members=100, least=1, **rules):
        """Return how many members fit.

        :param hosts: of each its VCPUs and the numbers of its pools.
        :param pools: {number: for how many members its disk is enough}.
        """
        rows = [snapshots.provider(number, snapshots.inventory("VCPU", vcpus), aggregates=own)
                for number, (vcpus, *own) in enumerate(hosts, 1)]
        rows += [snapshots.provider(
            1000 + number, snapshots.inventory("DISK_GB", 10 * count), name=f"pool-{number}",
            traits=[snapshots.SHARES], aggregates=[number]) for number, count in pools.items()]
        found = search.find_members(
            snapshots.build(*rows), GangRequest(self.SHAPE, members, least, **rules))
        for (uuid, _), amount in add_up(found).items():
            row = next(row for row in rows if row.uuid == uuid)
            self.assertLessEqual(amount, row.inventories[0].capacity)
        return len(found)

    def test_all_hosts_reach_all_pools(self):
        self.assertEqual(20, self.count([(8, 1, 2)] * 4, {1: 10, 2: 10}))
        self.assertEqual(5, self.count([(5, 1, 2)], {1: 2, 2: 3}))
        self.assertEqual(9, self.count([(9, 1, 2), (9, 1, 2)], {1: 4, 2: 5}))

    def test_who_has_no_choice_finds_room(self):
        for hosts in itertools.permutations([(3, 1), (3, 1, 2), (3, 2)]):
            self.assertEqual(9, self.count(hosts, {1: 4, 2: 5}), hosts)

    def test_pools_in_a_circle(self):
        hosts = [(2, 1, 2), (2, 2, 3), (2, 1, 3)] * 5
        self.assertEqual(30, self.count(hosts, {1: 10, 2: 10, 3: 10}))
        self.assertEqual(30, self.count(hosts, {1: 19, 2: 1, 3: 10}))

    def test_rules_hold(self):
        hosts = [(8, 1, 2)] * 4
        self.assertEqual(12, self.count(hosts, {1: 10, 2: 10}, max_per_host=3))
        within = levels.parse("aggregate:name=pool-")
        self.assertEqual(8, self.count([(4, 1, 2)] * 2 + [(9, 2)], {1: 5, 2: 7}, within=within))
        self.assertEqual(15, self.count(hosts, {1: 10, 2: 10}, members=15,
                                        spread_by=levels.parse("host")))

    def test_refusal_says_how_many_fit(self):
        for rules, largest, total in (
                ({}, [("host", 3)], 6),
                ({"within": levels.parse("host")}, [("host", 4)], 6),
                ({"within": levels.parse("aggregate:name=pool-")},
                 [("aggregate:name=pool-", 6), ("host", 3)], 6),
                ({"max_per_host": 2}, [("host", 2)], 4)):
            with self.assertRaises(errors.NoRoomForGang) as raised:
                self.count([(4, 1, 2), (4, 1, 2)], {1: 3, 2: 3}, members=7, least=7, **rules)
            refusal = raised.exception
            self.assertEqual((largest, total), (
                [(each.level, each.holds) for each in refusal.largest], refusal.holds))
            self.assertTrue(all(each.name for each in refusal.largest))


def of_trait(trait):
    return TraitFilter((frozenset([trait]),))


def add_up(members):
    """Return what members take in all: {(provider uuid, resource class): amount}."""
    sums = Counter()
    for member in members:
        for uuid, resources in member.allocations.items():
            sums.update({(uuid, name): amount for name, amount in resources.items()})
    return sums


class TestHostsThatShare(base.TestCase):
    """The root of each host shares its disk, which the members do not want."""

    def make_host(self, number, *nodes):
        """Make a host of NUMA nodes, each its number of VCPUs and its traits."""
        return [
            snapshots.provider(
                number, snapshots.inventory("DISK_GB", 100), traits=[snapshots.SHARES]),
            *(snapshots.provider(
                at, snapshots.inventory("VCPU", vcpus), parent=number, traits=traits)
              for at, (vcpus, *traits) in enumerate(nodes, number + 1))]

    def find(self, rows, shape, members):
        return search.find_members(snapshots.build(*rows), GangRequest(shape, members, 1))

    def test_a_trait_of_other_nodes(self):
        """Members go to the nodes with the trait, which are not the same on each host."""
        rows = [
            *self.make_host(1, (4, "CUSTOM_A"), (4,)),
            *self.make_host(11, (4,), (4, "CUSTOM_A"))]
        rows += [snapshots.provider(
            root + 3, snapshots.inventory("CUSTOM_GPU", 4), parent=root) for root in (1, 11)]
        shape = CandidatesRequest((
            RequestGroup("", {"VCPU": 2, "CUSTOM_GPU": 1}, of_trait("CUSTOM_A")),))
        self.assertEqual(
            {(snapshots.uuid_of(number), name): amount for number, name, amount in (
                (2, "VCPU", 4), (4, "CUSTOM_GPU", 2), (13, "VCPU", 4), (14, "CUSTOM_GPU", 2))},
            add_up(self.find(rows, shape, 5)))

    def test_other_numbers_of_nodes(self):
        """As many members as fit, where hosts have other numbers of nodes for each group."""
        rows = [
            *self.make_host(1, (4, "CUSTOM_A"), (4, "CUSTOM_A"), (8, "CUSTOM_B")),
            *self.make_host(11, (4, "CUSTOM_A"), (4, "CUSTOM_B"), (8, "CUSTOM_B"))]
        shape = CandidatesRequest((
            RequestGroup("_1", {"VCPU": 2}, of_trait("CUSTOM_A")),
            RequestGroup("_2", {"VCPU": 2}, of_trait("CUSTOM_B"))))
        self.assertEqual(6, len(self.find(rows, shape, 9)))


class Listed(CandidateOrder):
    """Prefers trees as a list of the uuids of their roots says."""

    def __init__(self, uuids):
        self.uuids = uuids

    def rank(self, trees):
        return np.array([self.uuids.index(uuid) for uuid in trees.uuids])


class TestPools(base.TestCase):
    """Two hosts use a disk that they share, each another amount of it for a member."""

    def test_no_more_than_there_is(self):
        rows = [
            snapshots.provider(
                1, snapshots.inventory("DISK_GB", 60), traits=[snapshots.SHARES],
                aggregates=[101]),
            # Has room for the small disk of a member.
            snapshots.provider(
                2, snapshots.inventory("VCPU", 100), snapshots.inventory("DISK_GB", 15),
                aggregates=[101]),
            # Has no room for the large one.
            snapshots.provider(
                3, snapshots.inventory("VCPU", 1),
                snapshots.inventory("DISK_GB", 1000, max_unit=10), aggregates=[101])]
        shape = CandidatesRequest((
            RequestGroup("", {"VCPU": 1}), RequestGroup("_1", {"DISK_GB": 10}),
            RequestGroup("_2", {"DISK_GB": 20})))
        for numbers in itertools.permutations((1, 2, 3)):
            order = Listed([snapshots.uuid_of(number) for number in numbers])
            members = search.find_members(
                snapshots.build(*rows), GangRequest(shape, 3, 1),
                ordering=CandidateOrdering(order))
            taken = add_up(members)[snapshots.uuid_of(1), "DISK_GB"]
            self.assertLessEqual(taken, 60, numbers)
            self.assertEqual(2, len(members), numbers)
