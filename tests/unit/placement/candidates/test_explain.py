import tracemalloc

import hypothesis

from placement_core.placement.candidates import errors, explain, search
from placement_core.placement.candidates.requests import (
    AggregateFilter,
    CandidatesRequest,
    RequestGroup,
    TraitFilter,
)
from tests import base, examples, snapshots
from tests.unit.placement.candidates import strategies, test_search_budget

ISOLATED = "puts two groups on one provider and group_policy=isolate forbids that"


def vcpu(*amounts, **rules):
    return snapshots.inventory("VCPU", *amounts, **rules)


def gpu(*amounts, **rules):
    return snapshots.inventory("CUSTOM_GPU", *amounts, **rules)


def traits(*required, forbidden=()):
    """Return a filter for one trait of each of ``required``, written ``A|B``."""
    return TraitFilter(
        tuple(frozenset(names.split("|")) for names in required), frozenset(forbidden))


def aggregates(*required, forbidden=()):
    return AggregateFilter(
        tuple(frozenset(map(snapshots.uuid_of, numbers)) for numbers in required),
        frozenset(map(snapshots.uuid_of, forbidden)))


def group(suffix="", wanted=None, judged=TraitFilter(), inside=AggregateFilter(), tree=None):  # noqa: B008
    return RequestGroup(
        suffix, {"VCPU": 4} if wanted is None else wanted, judged, inside,
        None if tree is None else snapshots.uuid_of(tree))


def ask(snapshot, *groups, exclude_reserved=False, **options):
    return explain.explain_candidates(
        snapshot, CandidatesRequest(groups, **options), exclude_reserved=exclude_reserved)


def steps(filtered):
    return [(each.filter, each.value, each.left) for each in filtered]


class TestAgainstTheSearch(base.TestCase):

    @examples.draw(400)
    @hypothesis.given(strategies.provider_lists(), strategies.requests())
    def test_it_adds_up(self, rows, request):
        """What was not dropped is what was found; only an empty answer has a reason."""
        snapshot = snapshots.build(*rows)
        found = len(search.find(snapshot, request))
        explained = explain.explain_candidates(snapshot, request)
        self.assertEqual(found, explained.candidates)
        counted = explained.combinations
        self.assertTrue(counted.complete)
        self.assertEqual(found, counted.examined - sum(counted.dropped.values()))
        self.assertEqual(found == 0, bool(explained.reason))
        # What is in nobody's way is never to blame.
        self.assertNotIn("step_size is 1 ", explained.reason or "")
        left = [each.left for each in explained.trees.filters]
        self.assertEqual(sorted(left, reverse=True), left)
        for each in explained.groups:
            if each.group:
                left = [step.left for step in each.filters]
                self.assertEqual(sorted(left, reverse=True), left)


class TestSteps(base.TestCase):

    def test_granular_group(self):
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(8), traits=["CUSTOM_A"], aggregates=[101]),
            snapshots.provider(2, vcpu(8), traits=["CUSTOM_B"], aggregates=[101, 102]),
            snapshots.provider(3, vcpu(8), traits=["CUSTOM_A", "CUSTOM_C"], aggregates=[101]),
            snapshots.provider(4, vcpu(8), traits=["CUSTOM_B"], aggregates=[103]),
            snapshots.provider(5, vcpu(8)),
            snapshots.provider(6, vcpu(1)))
        explained = ask(snapshot, group(
            "_a", None, traits("CUSTOM_A|CUSTOM_B", forbidden=["CUSTOM_C"]),
            aggregates((101, 104), forbidden=[102]), tree=1))
        u = snapshots.uuid_of
        self.assertEqual([
            ("resources", "VCPU:4", 5), ("required", "in:CUSTOM_A,CUSTOM_B", 4),
            ("required", "!CUSTOM_C", 3), ("member_of", f"in:{u(101)},{u(104)}", 2),
            ("member_of", f"!{u(102)}", 1), ("in_tree", u(1), 1),
        ], steps(explained.groups[0].filters))
        self.assertEqual([("group", "_a", 1)], steps(explained.trees.filters))
        self.assertEqual((6, 6, 1, None), (
            explained.providers, explained.trees.total, explained.candidates, explained.reason))

    def test_unsuffixed_group(self):
        disk = snapshots.inventory("DISK_GB", 10)
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(8), aggregates=[101]),
            snapshots.provider(2, disk, parent=1, traits=["CUSTOM_A"]),
            snapshots.provider(3, vcpu(8), disk, aggregates=[101]),
            snapshots.provider(4, vcpu(8), disk, traits=["CUSTOM_A"]),
            snapshots.provider(5, vcpu(8), aggregates=[101], traits=["CUSTOM_B"]))
        explained = ask(
            snapshot,
            group("", {"VCPU": 4, "DISK_GB": 4}, traits("CUSTOM_A"), aggregates((101,))),
            root_traits=traits(forbidden=["CUSTOM_B"]))
        self.assertEqual([
            ("member_of", snapshots.uuid_of(101), 4), ("resources", "VCPU:4", 3),
            ("resources", "DISK_GB:4", 2), ("required", "CUSTOM_A", 1),
        ], steps(explained.groups[0].filters))
        self.assertEqual([
            ("root_required", "!CUSTOM_B", 3), ("resources", "VCPU:4", 2),
            ("resources", "DISK_GB:4", 2), ("required", "CUSTOM_A", 1),
        ], steps(explained.trees.filters))
        self.assertEqual((5, 4, 1), (
            explained.providers, explained.trees.total, explained.candidates))

    def test_limits(self):
        snapshot = snapshots.build(
            *(snapshots.provider(number, vcpu(8)) for number in range(1, 8)))
        request = CandidatesRequest((group(),), limit=3)
        for most, found in ((None, 3), (2, 2), (5, 3)):
            explained = explain.explain_candidates(snapshot, request, max_candidates=most)
            self.assertEqual((found, found), (explained.candidates, explained.limit))
        self.assertEqual(
            "[placement] max_allocation_candidates is 0",
            explain.explain_candidates(snapshot, request, max_candidates=0).reason)

    def test_unknown_names(self):
        snapshot = snapshots.build()
        self.assertRaises(errors.UnknownRequestedClass, ask, snapshot, group("", {"NOPE": 1}))
        self.assertRaises(
            errors.UnknownRequestedTraits, ask, snapshot, group("", None, traits("NOPE")))


class ReasonTestCase(base.TestCase):

    def assert_reason(self, reason, snapshot, *groups, **options):
        explained = ask(snapshot, *groups, **options)
        self.assertEqual(0, explained.candidates)
        self.assertEqual(reason, explained.reason)


class TestNoProvider(ReasonTestCase):
    """The sentence names the filter that left nobody."""

    def test_nobody_at_all(self):
        self.assert_reason("there are no resource providers", snapshots.build(), group())

    def test_room(self):
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(64, 40)),
            snapshots.provider(2, vcpu(64, 16), name="host-17"),
            snapshots.provider(3, vcpu(8)))
        for suffix in ("", "_a"):
            self.assert_reason(
                "no host has 64 free VCPU; the most is 48, on host-17", snapshot,
                group(suffix, {"VCPU": 64}))

    def test_no_room_left(self):
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(4, 4)), snapshots.provider(2, vcpu(4, 9)))
        self.assert_reason("no host has 1 free VCPU; none has any left", snapshot,
                           group("", {"VCPU": 1}))

    def test_no_inventory(self):
        snapshot = snapshots.build(snapshots.provider(1, vcpu(4)))
        self.assert_reason("no host has an inventory of CUSTOM_GPU", snapshot,
                           group("", {"CUSTOM_GPU": 1}))

    def test_numbers_beyond_32_bits(self):
        snapshot = snapshots.build(snapshots.provider(1, vcpu(2**40)))
        self.assert_reason(f"no host has {2**41} free VCPU; the most is {2**40}, on provider-1",
                           snapshot, group("", {"VCPU": 2**41}))
        self.assert_reason(
            f"no host has {2**31} VCPU to give at once; 1 host has so many free, "
            f"but the highest max_unit is {2**31 - 1} on provider-1",
            snapshot, group("", {"VCPU": 2**31}))

    def test_units(self):
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(64, max_unit=16)),
            snapshots.provider(2, vcpu(64, max_unit=30)),
            snapshots.provider(3, vcpu(64, min_unit=40)),
            snapshots.provider(4, vcpu(64, step_size=7)),
            snapshots.provider(5, vcpu(64, step_size=20)),
            snapshots.provider(6, vcpu(2)))
        self.assert_reason(
            "no host has 31 VCPU to give at once; 5 hosts have so many free, but the highest "
            "max_unit is 30 on provider-2, and the lowest min_unit is 40 on provider-3, and "
            "step_size is 7 on provider-4 and as unfit on 1 more",
            snapshot, group("", {"VCPU": 31}))

    def test_devices_are_no_hosts(self):
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(4)), snapshots.provider(2, gpu(3), parent=1))
        self.assert_reason("no provider has 4 free CUSTOM_GPU; the most is 3, on provider-2",
                           snapshot, group("", {"CUSTOM_GPU": 4}))
        self.assert_reason("no host has 5 free VCPU; the most is 4, on provider-1",
                           snapshot, group("", {"VCPU": 5}))

    def test_traits(self):
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(4), traits=["CUSTOM_A"]),
            snapshots.provider(2, vcpu(1), traits=["CUSTOM_B"]))
        for suffix in ("", "_a"):
            for judged, reason in (
                (traits("CUSTOM_B"), "no host that is left has the trait CUSTOM_B"),
                (traits("CUSTOM_B|CUSTOM_C"),
                 "no host that is left has one of the traits CUSTOM_B, CUSTOM_C"),
                (traits("CUSTOM_A", "CUSTOM_B"), "no host that is left has the trait CUSTOM_B"),
            ):
                self.assert_reason(reason, snapshot, group(suffix, None, judged))
        self.assert_reason(
            "every host that is left has the forbidden trait CUSTOM_A", snapshot,
            group("_a", None, traits(forbidden=["CUSTOM_A"])))
        self.assert_reason(
            "every host has one of the forbidden traits CUSTOM_A, CUSTOM_B", snapshot,
            group("", None, traits(forbidden=["CUSTOM_A", "CUSTOM_B"])))

    def test_aggregates(self):
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(4), aggregates=[101]),
            snapshots.provider(2, vcpu(1), aggregates=[101, 102]))
        one, two, three = (snapshots.uuid_of(number) for number in (101, 102, 103))
        for suffix, wanted, reason in (
            ("", aggregates((103,)), f"no host is a member of the aggregate {three}"),
            ("_a", aggregates((102, 103)),
             f"no host that is left is a member of one of the aggregates {two}, {three}"),
            ("", aggregates((101,), (103,)),
             f"no host is a member of the aggregate {one} and of the aggregate {three}"),
            ("", aggregates(forbidden=[101]),
             f"every host is a member of the forbidden aggregate {one}"),
            ("_a", aggregates(forbidden=[101, 102]),
             f"every host that is left is a member of one of the forbidden aggregates {one}, "
             f"{two}"),
        ):
            self.assert_reason(reason, snapshot, group(suffix, None, inside=wanted))

    def test_in_tree(self):
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(4)), snapshots.provider(2, vcpu(2), name="small"))
        for suffix in ("", "_a"):
            self.assert_reason(
                f"in_tree names {snapshots.uuid_of(9)}, and there is no such provider", snapshot,
                group(suffix, tree=9))
        self.assert_reason("no host that is left is in the tree of small", snapshot,
                           group("_a", tree=2))
        self.assert_reason("no host that is left has 4 free VCPU; the most is 2, on small",
                           snapshot, group("", tree=2))

    def test_a_group_that_asks_for_nothing(self):
        snapshot = snapshots.build(snapshots.provider(1, vcpu(4)))
        self.assert_reason(
            "group _b: it asks for nothing: without resources, it needs required or member_of",
            snapshot, group("_a"), group("_b", {}), same_subtree=(frozenset(("_a", "_b")),))

    def test_several_groups(self):
        snapshot = snapshots.build(snapshots.provider(1, vcpu(4)))
        self.assert_reason("group _a: no host has 5 free VCPU; the most is 4, on provider-1",
                           snapshot, group(), group("_a", {"VCPU": 5}))
        self.assert_reason(
            "group without suffix: no host has 5 free VCPU; the most is 4, on provider-1",
            snapshot, group("_a"), group("", {"VCPU": 5}))
        self.assert_reason(
            "group without suffix: no host that is left has the trait CUSTOM_A",
            snapshot, group("_a"), group("", None, traits("CUSTOM_A")))


class TestNoTree(ReasonTestCase):
    """Each group has providers, but no tree has some for all."""

    def test_room_on_one_host(self):
        disk = [snapshots.inventory("DISK_GB", size) for size in (100, 40, 20)]
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(2), disk[0]), snapshots.provider(2, vcpu(8), disk[1]),
            snapshots.provider(3, vcpu(8), disk[2]))
        self.assert_reason(
            "no host with VCPU:4 has 100 free DISK_GB; the most is 40, on provider-2", snapshot,
            group("", {"VCPU": 4, "DISK_GB": 100}))

    def test_units_on_one_host(self):
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(8), gpu(8, max_unit=2)),
            snapshots.provider(2, vcpu(2), gpu(8)))
        self.assert_reason(
            "no host with VCPU:4 has 3 CUSTOM_GPU to give at once; 1 host has so many free, but "
            "the highest max_unit is 2 on provider-1", snapshot,
            group("", {"VCPU": 4, "CUSTOM_GPU": 3}))

    def test_room_in_one_tree(self):
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(8)), snapshots.provider(2, gpu(2), parent=1),
            snapshots.provider(3, vcpu(2)), snapshots.provider(4, gpu(4), parent=3))
        self.assert_reason(
            "no tree of providers with VCPU:4 has a provider with 3 free CUSTOM_GPU; "
            "the most is 2, on provider-2", snapshot,
            group("", {"VCPU": 4, "CUSTOM_GPU": 3}))
        self.assert_reason(
            "no tree of providers with VCPU:4 has a provider that fits group _a", snapshot,
            group(), group("_a", {"CUSTOM_GPU": 3}))
        self.assert_reason(
            "no tree of providers with group _a has a provider that fits group _b", snapshot,
            group("_a"), group("_b", {"CUSTOM_GPU": 3}))

    def test_groups_on_one_host(self):
        snapshot = snapshots.build(snapshots.provider(1, vcpu(8)), snapshots.provider(2, gpu(2)))
        self.assert_reason("no host with VCPU:4 fits group _a", snapshot,
                           group(), group("_a", {"CUSTOM_GPU": 1}))

    def test_what_is_shared(self):
        """A provider that shares comes into question where it is anchored."""
        disk = [snapshots.inventory("DISK_GB", size) for size in (100, 40, 60)]
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(8), aggregates=[101]),
            snapshots.provider(2, disk[0], traits=[snapshots.SHARES], aggregates=[102]),
            snapshots.provider(3, disk[1], traits=[snapshots.SHARES], aggregates=[101]),
            snapshots.provider(4, disk[2]))
        self.assert_reason(
            "no tree of providers with VCPU:4 has a provider with 100 free DISK_GB; the most is "
            "40, on provider-3", snapshot, group("", {"VCPU": 4, "DISK_GB": 100}))

    def test_what_is_shared_with_others(self):
        """Who has room, but not for the trees that are left, is not to blame."""
        disk = snapshots.inventory("DISK_GB", 100)
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(8), aggregates=[101, 102]),
            snapshots.provider(2, aggregates=[102]),
            snapshots.provider(3, disk, parent=2, traits=[snapshots.SHARES], aggregates=[101]))
        self.assert_reason(
            "no tree of providers with VCPU:4 has a provider with an inventory of DISK_GB",
            snapshot, group("", {"VCPU": 4, "DISK_GB": 60}, inside=aggregates((102,))))

    def test_root_traits(self):
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(8), traits=["CUSTOM_A"]),
            snapshots.provider(2, vcpu(8), parent=1, traits=["CUSTOM_B"]))
        for judged, reason in (
            (traits("CUSTOM_B"), "no root provider has the trait CUSTOM_B"),
            (traits("CUSTOM_A", "CUSTOM_C"),
             "no root provider that is left has the trait CUSTOM_C"),
            (traits(forbidden=["CUSTOM_A"]),
             "every root provider has the forbidden trait CUSTOM_A"),
        ):
            self.assert_reason(reason, snapshot, group(), root_traits=judged)


class TestCombinations(base.TestCase):
    """Every tree has providers for all groups, but rules forbid each combination."""

    def snapshot(self, *devices):
        return snapshots.build(
            snapshots.provider(1, vcpu(8)),
            *(snapshots.provider(number, device, parent=1,
                                 traits=[snapshots.TRAITS[1 + number % 2]])
              for number, device in enumerate(devices, 2)))

    def assert_dropped(self, reason, dropped, snapshot, *groups, **options):
        explained = ask(snapshot, *groups, **options)
        self.assertEqual(0, explained.candidates)
        self.assertEqual(reason, explained.reason)
        counted = explained.combinations
        self.assertEqual(
            dropped, {rule: count for rule, count in counted.dropped.items() if count})
        self.assertTrue(counted.complete)

    def groups(self, count, amount=1):
        return [group(f"_{number}", {"CUSTOM_GPU": amount}) for number in range(count)]

    def test_isolate(self):
        self.assert_dropped(
            f"every combination {ISOLATED}", {"isolate": 8}, self.snapshot(gpu(9), gpu(9)),
            *self.groups(3), isolate=True)

    def test_same_subtree(self):
        self.assert_dropped(
            "every combination puts groups into different subtrees and same_subtree forbids that",
            {"same_subtree": 1}, self.snapshot(gpu(1), snapshots.inventory("DISK_GB", 1)),
            group("_a", {"CUSTOM_GPU": 1}), group("_b", {"DISK_GB": 1}),
            same_subtree=(frozenset(("_a", "_b")),))

    def test_capacity(self):
        self.assert_dropped(
            "every combination asks one provider for more CUSTOM_GPU than it has room for",
            {"capacity": 8}, self.snapshot(gpu(3), gpu(3)), *self.groups(3, amount=2))

    def test_capacity_with_max_unit(self):
        self.assert_dropped(
            "every combination asks one provider for more CUSTOM_GPU than it has room for",
            {"capacity": 1}, self.snapshot(gpu(9, max_unit=3)), *self.groups(2, amount=2))

    def test_traits_together(self):
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(8)),
            snapshots.provider(2, gpu(1), parent=1, traits=["CUSTOM_A"]),
            snapshots.provider(3, gpu(1), parent=1, traits=["CUSTOM_B"]))
        self.assert_dropped(
            "every combination lacks a trait that the providers of the group without suffix must "
            "have", {"required": 2}, snapshot,
            group("", {"VCPU": 1, "CUSTOM_GPU": 1}, traits("CUSTOM_A", "CUSTOM_B")))

    def test_one_provider_of_a_tree(self):
        self.assert_dropped(
            "every combination uses several providers of one tree and the microversion forbids "
            "that", {"one_provider_per_tree": 1}, self.snapshot(gpu(1)),
            group("", {"VCPU": 1, "CUSTOM_GPU": 1}), nested=False)

    def test_several_rules(self):
        self.assert_dropped(
            "of the 4 combinations, 2 put groups into different subtrees and same_subtree forbids "
            "that; 2 ask one provider for more CUSTOM_GPU than it has room for",
            {"same_subtree": 2, "capacity": 2}, self.snapshot(gpu(3), gpu(3)),
            *self.groups(2, amount=2), same_subtree=(frozenset(("_0", "_1")),))

    def test_only_some(self):
        explained = ask(self.snapshot(gpu(9), gpu(9)), *self.groups(2), isolate=True)
        self.assertEqual((2, None), (explained.candidates, explained.reason))
        self.assertEqual((4, 2), (
            explained.combinations.examined, explained.combinations.dropped["isolate"]))

    def test_more_than_anybody_could_examine(self):
        explained = ask(
            self.snapshot(*(gpu(1) for _ in range(20))), *self.groups(21), isolate=True)
        self.assertEqual(0, explained.candidates)
        self.assertFalse(explained.combinations.complete)
        # Each has 21 places.
        self.assertEqual(100_000 // 21, explained.combinations.examined)
        self.assertEqual(
            f"each of the first {100_000 // 21} combinations {ISOLATED}", explained.reason)

    def test_more_than_anybody_waits_for(self):
        explained = ask(self.snapshot(*(gpu(9) for _ in range(28))), *self.groups(3))
        self.assertEqual((20_000, False), (
            explained.combinations.examined, explained.combinations.complete))

    def test_what_is_shared_counts_once(self):
        disk = snapshots.inventory("DISK_GB", 100)
        snapshot = snapshots.build(
            *(snapshots.provider(number, vcpu(8), aggregates=[101]) for number in (1, 2, 3)),
            snapshots.provider(4, disk, traits=[snapshots.SHARES], aggregates=[101]))
        explained = ask(snapshot, group("_a", {"DISK_GB": 60}), group("_b", {"DISK_GB": 60}))
        self.assertEqual((0, 1), (explained.candidates, explained.combinations.examined))


class TestWork(base.TestCase):
    """What it may cost, whatever a request leaves to choose."""

    def test_equal_devices_without_a_limit(self):
        """Eight groups over 64 devices: 10 to the 14th candidates on each of four hosts."""
        snapshot = snapshots.build(*(row for number in range(4) for row in test_search_budget.host(
            64, first=1 + 100 * number, capacity=8)))
        for options in ({}, {"limit": 10**9}):
            for isolate in (True, False):
                request = CandidatesRequest(
                    test_search_budget.groups(8), isolate=isolate, **options)
                tracemalloc.start()
                try:
                    explained = explain.explain_candidates(snapshot, request)
                    self.assertLess(tracemalloc.get_traced_memory()[1], 60_000_000)
                finally:
                    tracemalloc.stop()
                # Eight places in each.
                self.assertEqual(18_750, explained.candidates)
                self.assertEqual("no more than 18750 candidates are counted", explained.cut)
                self.assertIsNone(explained.reason)
                self.assertEqual(options.get("limit"), explained.limit)

    def test_what_is_counted(self):
        """As many as there are up to the bound, and of more it says so."""
        self.patch(explain, "MOST_COUNTED", 8)
        for hosts, expected in ((7, (7, False)), (8, (8, False)), (9, (8, True))):
            snapshot = snapshots.build(*(
                snapshots.provider(number, vcpu(8)) for number in range(1, hosts + 1)))
            for limit in (None, 100):
                explained = ask(snapshot, group(), limit=limit)
                self.assertEqual(expected, (explained.candidates, explained.cut is not None))
            self.assertEqual((5, None), (
                ask(snapshot, group(), limit=5).candidates, ask(snapshot, group(), limit=5).cut))

    def test_trees_that_cost_too_much(self):
        snapshot = snapshots.build(*test_search_budget.host(10, capacity=100),
                                   *test_search_budget.host(1, first=101, capacity=2000))
        explained = explain.explain_candidates(
            snapshot, test_search_budget.hopeless(limit=10, most_dead_ends=10_000))
        self.assertEqual(1, explained.candidates)
        self.assertIn("1 provider trees cost too much to search", explained.cut)
        self.assertRaises(
            errors.TooHard, explain.explain_candidates, snapshot,
            test_search_budget.hopeless(most_dead_ends=10_000))
