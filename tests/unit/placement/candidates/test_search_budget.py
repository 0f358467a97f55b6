"""What a search may cost, counted without a clock, and that it is right all the same."""

import dataclasses
import random
import tracemalloc

import hypothesis
from hypothesis import strategies as st

from placement_core.placement.candidates import errors, search
from placement_core.placement.candidates.requests import (
    CandidatesRequest,
    RequestGroup,
    TraitFilter,
)
from tests import base, examples, snapshots
from tests.fuzz import candidates as fuzz
from tests.unit.placement.candidates import oracle, strategies
from tests.unit.placement.candidates.test_search import ask

GPU = "CUSTOM_GPU"
LIMITS = (1, 1000)


def host(count, *, first=1, capacity=1, parent=None, **options):
    """Make a root with devices below it.

    :param capacity: of each device, or what returns it for a number from 0.
    :param parent: what returns the parent for a number from 0; the root else.
    """
    rows = [snapshots.provider(first, snapshots.inventory("VCPU", 64))]
    for number in range(count):
        amount = capacity(number) if callable(capacity) else capacity
        rows.append(snapshots.provider(
            first + 1 + number, snapshots.inventory(GPU, amount),
            parent=parent(number) if parent else first, **options))
    return rows


def groups(count, *, amount=lambda number: 1, name=GPU, traits=lambda number: TraitFilter()):
    return tuple(
        RequestGroup(f"_{number}", {name: amount(number)}, traits(number))
        for number in range(count))


def hopeless(*, times=1, **options):
    """Ask for 1000 in 30 amounts, so many times; all but one are multiples of 3.

    So they do not go into ten hundreds, but nothing simple tells.
    """
    amounts = [*(27, 30, 33, 36, 39) * 5, 30, 33, 33, 39, 40] * times
    return CandidatesRequest(groups(len(amounts), amount=amounts.__getitem__), **options)


def sharing(hosts, pools):
    rows = [snapshots.provider(number, snapshots.inventory("VCPU", 64), aggregates=[101])
            for number in range(1, hosts + 1)]
    rows.extend(snapshots.provider(
        hosts + number, snapshots.inventory("DISK_GB", 100), snapshots.inventory("MEMORY_MB", 100),
        traits=[snapshots.SHARES], aggregates=[101]) for number in range(1, pools + 1))
    return rows


class TestWork(base.TestCase):
    """Every kind of request costs no more than what it offers, and what it finds."""

    def check(self, rows, request, expected, *, vain=1000):
        """Search with every limit.

        :param expected: how many there are, at most.
        :param vain: how many rows may be looked at for nothing, beyond
            ``fuzz.STEPS_EACH`` for each offer and each choice of a combination.
        """
        for limit in LIMITS:
            cost = fuzz.work(rows, dataclasses.replace(request, limit=limit))
            self.assertEqual(min(limit, expected), cost.found, limit)
            self.assertLessEqual(cost.steps, cost.bound - fuzz.STEPS_IN_VAIN + vain, limit)

    def test_equal_devices(self):
        for isolate in (True, False):
            for capacity in (1, 100, lambda number: 100 + number):
                self.check(host(64, capacity=capacity),
                           CandidatesRequest(groups(8), isolate=isolate), 1000)

    def test_many_hosts_of_equal_devices(self):
        rows = [row for number in range(100) for row in host(8, first=1 + 9 * number)]
        self.check(rows, CandidatesRequest(
            (RequestGroup("", {"VCPU": 1}), *groups(4)), isolate=True), 1000)

    def test_one_device_missing(self):
        for isolate in (True, False):
            for count in (8, 65):
                self.check(host(count - 1), CandidatesRequest(groups(count), isolate=isolate), 0)

    def test_sums_that_do_not_fit(self):
        for capacity in (3, lambda number: 3 + number % 2):
            self.check(host(16, capacity=capacity), CandidatesRequest(
                groups(24, amount=lambda number: 2 + number % 2)), 0, vain=20_000)

    def test_groups_that_differ_in_traits(self):
        rows = host(64, traits=["CUSTOM_A", "CUSTOM_B"])
        names = ("CUSTOM_A", "CUSTOM_B", "CUSTOM_C")
        for kinds, expected in ((2, 1000), (3, 0)):
            request = CandidatesRequest(groups(8, traits=lambda number, kinds=kinds: TraitFilter(
                (frozenset([names[number % kinds]]),))), isolate=True)
            self.check(rows, request, expected)

    def test_sharing_providers(self):
        rows = sharing(1000, 5)
        self.check(rows, CandidatesRequest((RequestGroup(
            "", {"VCPU": 1, "DISK_GB": 1, "MEMORY_MB": 1}),)), 1000)
        one = RequestGroup("", {"VCPU": 1})
        for count, expected in ((4, 1000), (5, 1000), (6, 0)):
            self.check(rows, CandidatesRequest(
                (one, *groups(count, name="DISK_GB")), isolate=True), expected)
        self.check(rows, CandidatesRequest(groups(4, name="DISK_GB"), isolate=True), 5 * 4 * 3 * 2)

    def test_deep_trees(self):
        for depth in (20, 100):
            rows = host(depth, parent=lambda number: 1 + number)
            everything = groups(8)
            suffixes = [group.suffix for group in everything]
            for subtrees in ((suffixes,), (suffixes[:5], suffixes[4:])):
                self.check(rows, CandidatesRequest(
                    everything, isolate=True, same_subtree=tuple(map(frozenset, subtrees))), 1000,
                    vain=depth**3)
            self.check(rows, CandidatesRequest(
                groups(depth + 1), isolate=True, same_subtree=(
                    frozenset(f"_{number}" for number in range(depth + 1)),)), 0,
                vain=depth**3)

    def test_subtrees_that_do_not_know_each_other(self):
        """The choices of one are not multiplied with those of the others."""
        rows = host(60, capacity=lambda number: 2 if number % 3 == 0 else 1,
                    parent=lambda number: 1 if number % 3 == 0 else 2 + number // 3 * 3)
        pairs = tuple(frozenset((f"_{number}", f"_{number + 1}")) for number in range(0, 8, 2))
        for isolate in (True, False):
            self.check(rows, CandidatesRequest(
                groups(8), isolate=isolate, same_subtree=pairs), 1000, vain=100_000)
        # The last pair finds no two devices that are large enough below one.
        large = groups(8, amount=lambda number: 2 if number > 5 else 1)
        self.check(rows, CandidatesRequest(large, isolate=True, same_subtree=pairs), 0,
                   vain=100_000)

    def test_very_many_groups(self):
        flat = [snapshots.provider(number, snapshots.inventory(GPU, 10_000))
                for number in range(1, 501)]
        for isolate, expected in ((True, 0), (False, 500)):
            request = CandidatesRequest(groups(1200), isolate=isolate, limit=1000)
            self.assertEqual(expected, len(search.find(snapshots.build(*flat), request)))
        self.check(host(20, capacity=10_000), CandidatesRequest(groups(1200)), 1000)
        self.check(host(20, capacity=10_000), CandidatesRequest(groups(1200), isolate=True), 0,
                   vain=200_000)

    def test_trees_that_are_alike_are_searched_once(self):
        one = self.steps(1)
        # Each group has 12 devices to choose from: that is seen for every tree.
        self.assertLessEqual(self.steps(200), one + 199 * 13 * 12)

    def steps(self, hosts):
        rows = [row for number in range(hosts)
                for row in host(12, first=1 + 13 * number, capacity=3)]
        # Room for 11, and 12 that do not go together.
        request = CandidatesRequest(groups(13, amount=lambda number: 2), limit=10)
        found = search.find(snapshots.build(*rows), request)
        self.assertEqual(0, len(found))
        return found.steps


class TestTooHard(base.TestCase):
    """Packing unequal amounts is hard for everybody; that is said instead of tried for ever."""

    # By default it lasts for some seconds.
    dead_ends = 5_000

    def test_refused(self):
        for limit in (None, 10):
            self.assertRaises(
                errors.TooHard, search.find, snapshots.build(*host(10, capacity=100)),
                hopeless(limit=limit, most_dead_ends=self.dead_ends))

    def test_the_request_says_after_how_much(self):
        snapshot = snapshots.build(*host(10, capacity=100), *host(1, first=101, capacity=2000))
        few, more = (search.find(snapshot, hopeless(limit=10, most_dead_ends=dead_ends)).steps
                     for dead_ends in (1_000, 10_000))
        self.assertLess(2 * few, more)

    def test_more_devices_cost_no_more(self):
        """A step among twice as many devices takes twice the time, so there are half as many."""
        few, more = (
            search.find(
                snapshots.build(*host(10 * times, capacity=100),
                                *host(1, first=101, capacity=2000)),
                hopeless(times=times, limit=1000, most_dead_ends=self.dead_ends)).steps
            for times in (1, 2))
        self.assertLess(more, 1.5 * few)

    def test_many_combinations_give_no_time_for_others(self):
        """A combination that was found allows few steps more, however many groups there are."""
        amounts = [7, 10, 8, 7, 5, 20, 9, 12, 3, 16, 7, 22, 3, 11, 7, 5]
        snapshot = snapshots.build(
            *host(6, capacity=lambda number: (36, 30, 26, 20, 4, 37)[number]))
        request = CandidatesRequest(
            groups(16, amount=amounts.__getitem__), limit=10**6, most_dead_ends=self.dead_ends)
        found = search.find(snapshot, request)
        self.assertLess(found.steps, 8 * (len(found) + self.dead_ends))

    def test_others_are_found_under_a_limit(self):
        rows = [*host(10, capacity=100), *host(10, first=101, capacity=200)]
        found = search.find(
            snapshots.build(*rows), hopeless(limit=10, most_dead_ends=self.dead_ends))
        self.assertEqual(10, len(found))


class TestMemory(base.TestCase):

    def peak(self, rows, request):
        """Return the most bytes that a search held at once, what it found included."""
        snapshot = snapshots.build(*rows)
        search.find(snapshot, dataclasses.replace(request, limit=1))
        tracemalloc.start()
        try:
            search.find(snapshot, request)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def test_bounded_by_the_limit(self):
        rows = host(64)
        for limit in (10, 1000, 5000):
            for isolate in (True, False):
                peak = self.peak(rows, CandidatesRequest(groups(8), isolate=isolate, limit=limit))
                self.assertLess(peak, 400_000 + limit * 1500, limit)

    def test_bounded_by_the_budget(self):
        """What is remembered of branches that came to nothing has a bound too."""
        snapshot = snapshots.build(*host(10, capacity=100))
        tracemalloc.start()
        try:
            self.assertRaises(errors.TooHard, search.find, snapshot,
                              hopeless(limit=1, most_dead_ends=10_000))
            self.assertLess(tracemalloc.get_traced_memory()[1], 10_000 * 400)
        finally:
            tracemalloc.stop()

    def test_bounded_by_the_limit_with_sharing_providers(self):
        for limit in (10, 5000):
            peak = self.peak(sharing(300, 20), CandidatesRequest(
                (RequestGroup("", {"VCPU": 1}), *groups(5, name="DISK_GB")),
                isolate=True, limit=limit))
            self.assertLess(peak, 1_000_000 + limit * 1500, limit)

    def test_trees_without_an_answer_are_not_kept(self):
        def rows(hosts):
            # The trees differ, and in none there is room.
            return [row for number in range(hosts) for row in host(
                6, first=1 + 7 * number, capacity=lambda device, number=number: (
                    2 + (number >> device) % 2))]

        request = CandidatesRequest(groups(7, amount=lambda number: 2), limit=100)
        self.assertLess(self.peak(rows(1000), request), 2_000_000)


class TestTreesAlike(base.TestCase):
    """What was found in one tree is translated for others that are alike."""

    @examples.draw(200)
    @hypothesis.given(st.integers(0, 2**64), st.integers(1, 15))
    def test_complete(self, seed, limit):
        chance = random.Random(seed)
        rows = self.copies(chance, strategies.make_providers(chance, chance.randint(1, 4)))
        request = strategies.make_request(chance, chance.randint(0, 3))
        expected = set(oracle.Oracle(rows, request).combinations())
        snapshot = snapshots.build(*rows)
        found = oracle.canonical(ask(snapshot, request))
        self.assertEqual(expected, set(found))
        self.assertEqual(len(found), len(expected))
        found = oracle.canonical(ask(snapshot, dataclasses.replace(request, limit=limit)))
        self.assertEqual(min(limit, len(expected)), len(found))
        self.assertEqual(len(found), len(set(found)))
        self.assertLessEqual(set(found), expected)

    def copies(self, chance, rows):
        """Return the trees two or three times, some of them a little changed."""
        found = []
        for at in range(0, chance.choice((20, 30)), 10):
            for row in rows:
                inventories = row.inventories
                if inventories and chance.random() < 0.1:
                    inventories = tuple(each._replace(used=1) for each in inventories)
                found.append(dataclasses.replace(
                    row, id=row.id + at, uuid=snapshots.uuid_of(row.id + at),
                    name=f"{row.name}-{at}", inventories=inventories,
                    parent_id=None if row.parent_id is None else row.parent_id + at))
        return found


class TestFuzz(base.TestCase):
    """The first cases of ``python -m tests.fuzz.candidates``."""

    def test_right(self):
        for seed in range(300):
            self.assertIsNone(fuzz.disagreement(random.Random(seed)), seed)

    def test_work(self):
        for seed in range(300):
            cost = fuzz.work(*fuzz.large(random.Random(seed)))
            self.assertIsNotNone(cost.found, seed)
            self.assertLessEqual(cost.steps, cost.bound, seed)
            self.assertLessEqual(cost.steps, cost.ceiling, seed)
