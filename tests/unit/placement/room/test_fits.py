"""How many copies fit, and what stops the next one."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import hypothesis
import numpy as np
from hypothesis import strategies as st

from placement_core.placement.candidates.requests import (
    AggregateFilter,
    CandidatesRequest,
    RequestGroup,
    TraitFilter,
)
from placement_core.placement.room import fits, part_room, tree_packing
from placement_core.placement.room.shapes import Shape
from placement_core.placement.room.shared_room import divide
from tests import base, examples, snapshots
from tests.unit.placement.candidates import oracle, strategies

_MOST_STATES = 20_000


class TooLarge(Exception):
    """Trying everything takes too long."""


class Judge:
    """Places copies one by one, in every order, wherever the naive search finds room."""

    def __init__(self, rows, request):
        self.judge = oracle.Oracle(rows, request)
        self.combinations = {}
        for (allocations, _), anchors in self.judge.combinations().items():
            self.combinations.setdefault(allocations, set()).update(anchors)

    def count(self, anchor=None):
        """Return how many copies fit, in all or with one anchor."""
        uses = [allocations for allocations, anchors in self.combinations.items()
                if anchor is None or anchor in anchors]
        slots = sorted({(uuid, name) for use in uses for uuid, name, _ in use})
        places = {slot: at for at, slot in enumerate(slots)}
        vectors = []
        for use in uses:
            vector = [0] * len(slots)
            for uuid, name, amount in use:
                vector[places[uuid, name]] = amount
            vectors.append(vector)
        states = 0

        @functools.cache
        def place(free):
            nonlocal states
            states += 1
            if states > _MOST_STATES:
                raise TooLarge
            after = [tuple(left - amount for left, amount in zip(free, vector, strict=True))
                     for vector in vectors]
            return max((1 + place(left) for left in after if min(left) >= 0), default=0)

        return place(tuple(self.free(*slot) for slot in slots))

    def free(self, uuid, name):
        inventory = self.judge.by_uuid[uuid].inventories[name]
        return inventory.capacity - inventory.used


def find(request, *rows, most_hosts=100, **options):
    return fits.find(snapshots.build(*rows), request, most_hosts=most_hosts, **options)


def ask(resources, **options):
    return CandidatesRequest((RequestGroup("", resources, **options),))


def host(number, vcpus, memory_mb=0, **options):
    inventories = [snapshots.inventory("VCPU", vcpus)]
    if memory_mb:
        inventories.append(snapshots.inventory("MEMORY_MB", memory_mb))
    return snapshots.provider(number, *inventories, name=f"host-{number}", **options)


def by_name(found):
    return {each.name: each.fits for each in found.hosts}


def stops(found):
    return {(each.filter, each.value): each.hosts for each in found.stopped_by.obstacles}


class TestAgainstTheOracle(base.TestCase):
    @examples.draw(600)
    @hypothesis.given(strategies.provider_lists(most=6), strategies.requests(groups=2))
    def test_numbers(self, rows, request):
        judge = Judge(rows, request)
        found = find(request, *rows)
        try:
            expected = judge.count()
            on_each = {
                provider.uuid: judge.count(provider.id)
                for provider in judge.judge.providers.values() if provider.parent is None}
        except TooLarge:
            return
        if found.exact:
            self.assertEqual(expected, found.fits)
            self.assertEqual({uuid: count for uuid, count in on_each.items() if count},
                             {each.uuid: each.fits for each in found.hosts})
        else:
            self.assertLessEqual(found.fits, expected)
            self.assertTrue(found.fits or not expected)
        self.assertEqual(bool(judge.combinations), bool(found.fits))
        self.assertNotEqual("", found.stopped_by.reason)

    @examples.draw(200)
    @hypothesis.given(strategies.provider_lists(most=6), strategies.requests(groups=2))
    def test_every_host_is_counted_once(self, rows, request):
        found = find(request, *rows)
        roots = [row for row in rows if row.parent_id is None]
        counted = sum(each.hosts for each in found.stopped_by.obstacles)
        pools = [row for row in roots if snapshots.NAMES.trait_ids[snapshots.SHARES] in row.traits]
        self.assertLessEqual(len(roots) - len(pools), counted)
        self.assertLessEqual(counted, len(roots))


class TestOneProviderForEachPart(base.TestCase):
    def test_the_scarcest_class(self):
        found = find(ask({"VCPU": 2, "MEMORY_MB": 4}), host(1, 7, 100), host(2, 100, 7),
                     host(3, 1, 100))
        self.assertEqual({"host-1": 3, "host-2": 1}, by_name(found))
        self.assertEqual((4, True, 2), (found.fits, found.exact, found.host_count))
        self.assertEqual({("resources", "VCPU:2"): 2, ("resources", "MEMORY_MB:4"): 1},
                         stops(found))

    def test_units(self):
        """Each copy has to be valid by itself; the sum of all may exceed max_unit."""
        for units, expected in (({"max_unit": 2}, 8), ({"max_unit": 1}, 0), ({"min_unit": 3}, 0),
                                ({"step_size": 2}, 8), ({"step_size": 4}, 0)):
            row = snapshots.provider(1, snapshots.inventory("VCPU", 17, **units))
            self.assertEqual(expected, find(ask({"VCPU": 2}), row).fits, units)

    def test_what_no_column_holds(self):
        """Capacities that exceed 32 bits are counted exactly."""
        row = snapshots.provider(1, snapshots.inventory("MEMORY_MB", 10**10, used=1))
        self.assertEqual(10**10 - 1, find(ask({"MEMORY_MB": 1}), row).fits)

    def test_groups_that_meet(self):
        """All groups of a flat host are on its one provider, and add up."""
        request = CandidatesRequest((
            RequestGroup("_A", {"VCPU": 2}), RequestGroup("_B", {"VCPU": 3})))
        found = find(request, host(1, 14))
        self.assertEqual((2, {("resources", "group _A,group _B"): 1}),
                         (found.fits, stops(found)))

    def test_too_many_hosts_to_list(self):
        found = find(ask({"VCPU": 1}), host(1, 3), host(2, 9), host(3, 6), most_hosts=2)
        self.assertEqual((18, 3, ["host-2", "host-3"]), (
            found.fits, found.host_count, [each.name for each in found.hosts]))


class TestNestedTrees(base.TestCase):
    def setUp(self):
        super().setUp()
        self.rows = [
            host(1, 1, 64), *(snapshots.provider(
                2 + at, snapshots.inventory("CUSTOM_GPU", total), parent=1,
                traits=["CUSTOM_A"] if at else [])
                for at, total in enumerate((5, 3)))]

    def test_a_class_from_several_providers(self):
        found = find(ask({"CUSTOM_GPU": 2, "MEMORY_MB": 8}), *self.rows)
        self.assertEqual((3, True), (found.fits, found.exact))

    def test_a_trait_of_one_of_them(self):
        request = ask({"CUSTOM_GPU": 1}, traits=TraitFilter((frozenset({"CUSTOM_A"}),)))
        self.assertEqual(3, find(request, *self.rows).fits)

    def test_groups_apart(self):
        """Each copy needs both providers, so the smaller one decides."""
        groups = (RequestGroup("_A", {"CUSTOM_GPU": 1}), RequestGroup("_B", {"CUSTOM_GPU": 1}))
        self.assertEqual(3, find(CandidatesRequest(groups, isolate=True), *self.rows).fits)
        self.assertEqual(4, find(CandidatesRequest(groups), *self.rows).fits)

    def test_more_than_a_search_may_cost(self):
        """At least what a greedy choice finds; and it says that there may be more."""
        self.patch(tree_packing, "_MOST_NODES", 0)
        groups = (RequestGroup("_A", {"CUSTOM_GPU": 2}), RequestGroup("_B", {"CUSTOM_GPU": 3}))
        rows = [host(1, 1), *(snapshots.provider(
            2 + at, snapshots.inventory("CUSTOM_GPU", 9), parent=1) for at in range(3))]
        found = find(CandidatesRequest(groups, isolate=True), *rows)
        self.assertFalse(found.exact)
        self.assertTrue(found.stopped_by.reason.startswith("perhaps there is room for more: "))
        self.assertIn(found.fits, range(1, 6))


class TestSharingProviders(base.TestCase):
    def pool(self, number, disk_gb, *aggregates):
        return snapshots.provider(number, snapshots.inventory("DISK_GB", disk_gb),
                                  aggregates=aggregates, traits=[snapshots.SHARES])

    def test_one_for_all(self):
        """Each host alone could have all of it; together they cannot."""
        found = find(ask({"VCPU": 1, "DISK_GB": 10}), host(1, 4, aggregates=[101]),
                     host(2, 4, aggregates=[101]), self.pool(3, 55, 101))
        self.assertEqual((5, True, {"host-1": 4, "host-2": 4}),
                         (found.fits, found.exact, by_name(found)))
        self.assertEqual({("resources", "DISK_GB:10"): 1, ("resources", "VCPU:1,DISK_GB:10"): 1},
                         stops(found))

    def test_those_that_some_hosts_share(self):
        """A host that two serve leaves the first to one that it alone serves."""
        found = find(ask({"VCPU": 1, "DISK_GB": 10}), host(1, 3, aggregates=[101, 102]),
                     host(2, 3, aggregates=[101]), self.pool(3, 30, 101), self.pool(4, 30, 102))
        self.assertEqual((6, True), (found.fits, found.exact))

    def test_disk_of_its_own(self):
        """It serves first where there is some."""
        own = host(1, 4, 0, aggregates=[101])
        own = dataclasses.replace(
            own, inventories=(*own.inventories, snapshots.inventory("DISK_GB", 30)))
        found = find(ask({"VCPU": 1, "DISK_GB": 10}), own, host(2, 4, aggregates=[101]),
                     self.pool(3, 30, 101))
        self.assertEqual((6, True), (found.fits, found.exact))

    def test_a_trait_of_the_hosts(self):
        """A condition that each choice meets does not make it harder."""
        found = find(ask({"VCPU": 1, "DISK_GB": 10}, traits=TraitFilter(
            (frozenset({"CUSTOM_A"}),))), host(1, 4, aggregates=[101], traits=["CUSTOM_A"]),
            host(2, 4, aggregates=[101]), self.pool(3, 30, 101))
        self.assertEqual((3, True), (found.fits, found.exact))
        self.assertEqual(1, stops(found)["required", "CUSTOM_A"])


class TestDivision(base.TestCase):
    """The flow from kinds of trees to sharing providers, against every subset of these."""

    @examples.draw(300)
    @hypothesis.given(st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 4), st.lists(
            st.booleans(), min_size=3, max_size=3)), min_size=1, max_size=6),
        st.lists(st.integers(0, 9), min_size=3, max_size=3))
    def test_as_much_as_possible(self, trees, pools):
        copies = np.array([tree[0] for tree in trees])
        own = np.array([tree[1] for tree in trees])
        room = part_room.PartRoom(
            own, np.array(pools), np.array([tree[2] for tree in trees]), np.arange(len(trees)))
        division = divide(copies, [room])
        needs = np.maximum(copies - own, 0)
        # The smallest cut: pools that are empty in the end, and the trees that need no others.
        served = min(
            sum(pool for pool, cut in zip(pools, cuts, strict=True) if cut)
            + sum(need for need, (_, _, reach) in zip(needs.tolist(), trees, strict=True)
                  if any(reached and not cut for reached, cut in zip(reach, cuts, strict=True)))
            for cuts in itertools.product((False, True), repeat=len(pools)))
        self.assertEqual(int(copies.sum() - needs.sum()) + served, int(division.copies.sum()))
        self.assertEqual(division.most, int(division.copies.sum()))
        self.assertTrue((division.copies <= copies).all())
        self.assertTrue((division.copies >= copies - needs).all())


class TestObstacles(base.TestCase):
    def test_each_kind(self):
        """A filter counts before a lack of room."""
        request = CandidatesRequest((RequestGroup(
            "", {"VCPU": 2}, TraitFilter((frozenset({"CUSTOM_A"}),), frozenset({"CUSTOM_B"})),
            AggregateFilter((frozenset({snapshots.uuid_of(101)}),))),),
            root_traits=TraitFilter((frozenset({"CUSTOM_C"}),)))
        good = {"traits": ["CUSTOM_A", "CUSTOM_C"], "aggregates": [101]}
        found = find(
            request, host(1, 8, **good), host(2, 1, **good),
            host(3, 1, traits=["CUSTOM_C"], aggregates=[101]),
            host(4, 8, traits=["CUSTOM_A", "CUSTOM_C"]),
            host(5, 8, traits=["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"], aggregates=[101]),
            host(6, 8, traits=["CUSTOM_A"], aggregates=[101]))
        self.assertEqual({
            ("resources", "VCPU:2"): 2, ("required", "CUSTOM_A"): 1,
            ("member_of", snapshots.uuid_of(101)): 1, ("required", "!CUSTOM_B"): 1,
            ("root_required", "CUSTOM_C"): 1}, stops(found))
        self.assertIn("1 host is left out by required=CUSTOM_A", found.stopped_by.reason)
        self.assertIn("2 hosts have no room for VCPU:2", found.stopped_by.reason)

    def test_pooled_trees(self):
        rows = (host(1, 4), host(2, 8, pooled=True))
        self.assertEqual(12, find(ask({"VCPU": 1}), *rows).fits)
        found = find(ask({"VCPU": 1}), *rows, exclude_reserved=True)
        self.assertEqual((4, 1), (found.fits, stops(found)["fence", "kept for reservations"]))

    def test_groups(self):
        groups = (RequestGroup("_A", {"CUSTOM_GPU": 1}, TraitFilter((frozenset({"CUSTOM_A"}),))),
                  RequestGroup("_B", {"VCPU": 1}))
        gpu = snapshots.inventory("CUSTOM_GPU", 1)
        found = find(
            CandidatesRequest(groups), host(1, 4), snapshots.provider(2, gpu, parent=1),
            host(3, 4), snapshots.provider(4, gpu, parent=3, traits=["CUSTOM_A"]),
            host(5, 4, traits=["CUSTOM_A"]))
        self.assertEqual(1, found.fits)
        self.assertEqual({("required", "CUSTOM_A"): 1, ("resources", "group _A"): 2},
                         stops(found))

    def test_nothing_fits(self):
        """The sentence is that of the candidates."""
        found = find(ask({"VCPU": 9}), host(1, 8), host(2, 4))
        self.assertEqual("no host has 9 free VCPU; the most is 8, on host-1",
                         found.stopped_by.reason)
        self.assertEqual({("resources", "VCPU:9"): 2}, stops(found))
        found = find(CandidatesRequest((
            RequestGroup("_A", {"VCPU": 1}), RequestGroup("_B", {"VCPU": 1})), isolate=True),
            host(1, 8))
        self.assertIn("group_policy=isolate forbids that", found.stopped_by.reason)
        self.assertEqual("there are no resource providers",
                         find(ask({"VCPU": 9})).stopped_by.reason)


class TestShapes(base.TestCase):

    def test_each_by_itself(self):
        """As often as if the others did not come; what names an unknown class fits nowhere."""
        snapshot = snapshots.build(
            snapshots.provider(1, snapshots.inventory("VCPU", 8, 2),
                               snapshots.inventory("MEMORY_MB", 100)),
            snapshots.provider(2, snapshots.inventory("VCPU", 4),
                               snapshots.inventory("MEMORY_MB", 10)))
        shapes = [Shape(amounts, 1.0) for amounts in (
            {"VCPU": 2}, {"VCPU": 2, "MEMORY_MB": 20}, {"CUSTOM_NONE": 1}, {"VCPU": 9})]
        self.assertEqual([(shape, fits_, True) for shape, fits_ in zip(
            shapes, (5, 3, 0, 0), strict=True)], [
                (count.shape, count.fits, count.exact)
                for count in fits.count_shapes(snapshot, shapes)])
