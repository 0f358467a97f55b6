import dataclasses
import itertools
import json

import hypothesis
import numpy as np
from hypothesis import strategies as st

from placement_core.placement.candidates import answers, errors, search
from placement_core.placement.candidates.ordering import CandidateOrdering
from placement_core.placement.candidates.requests import (
    CandidatesRequest,
    RequestGroup,
    TraitFilter,
)
from placement_core.plugin_api.candidate_order import CandidateOrder
from tests import base, examples, snapshots
from tests.unit.placement.candidates import oracle, strategies


class OrderByUuid(CandidateOrder):
    """Ranks trees by their uuids in some way, two of three the same as another."""

    api_version = 1

    def __init__(self, seed):
        self.seed = seed

    def rank(self, trees):
        return np.array([self.rank_one(each) for each in trees.uuids])

    def rank_one(self, uuid):
        return (int(uuid[-12:], 16) * 7919 ^ self.seed) % 3


def ask(snapshot, request, **options):
    found = search.find(snapshot, request, **options)
    return json.loads(answers.render(snapshot, request, found))


class TestAgainstTheOracle(base.TestCase):

    @examples.draw(500)
    @hypothesis.given(strategies.provider_lists(), strategies.requests())
    def test_complete(self, rows, request):
        judge = oracle.Oracle(rows, request)
        expected = judge.combinations()
        document = ask(snapshots.build(*rows), request)
        found = oracle.canonical(document)
        self.assertEqual(set(expected), set(found))
        self.assertEqual(len(found), len(set(found)))
        self.assertEqual(judge.summarised(expected), set(document["provider_summaries"]))

    @examples.draw(300)
    @hypothesis.given(
        strategies.provider_lists(), strategies.requests(), st.integers(1, 12), st.booleans())
    def test_limited(self, rows, request, limit, randomize):
        judge = oracle.Oracle(rows, request)
        expected = judge.combinations()
        limited = dataclasses.replace(request, limit=limit)
        document = ask(snapshots.build(*rows), limited, randomize=randomize)
        found = oracle.canonical(document)
        self.assertEqual(min(limit, len(expected)), len(found))
        self.assertEqual(len(found), len(set(found)))
        self.assertLessEqual(set(found), set(expected))
        self.assertEqual(judge.summarised(found), set(document["provider_summaries"]))
        if not any(provider.shares for provider in judge.providers.values()):
            everywhere = set().union(*expected.values(), set())
            here = set().union(*(expected[each] for each in found), set())
            self.assertEqual(min(limit, len(everywhere)), len(here), "trees did not take turns")

    @examples.draw(300)
    @hypothesis.given(
        strategies.provider_lists(), strategies.requests(), st.one_of(
            st.none(), st.integers(1, 12)), st.booleans(), st.integers(0, 9))
    def test_ordered(self, rows, request, limit, randomize, seed):
        """An order changes which candidates a limit leaves, and nothing else."""
        judge, order = oracle.Oracle(rows, request), OrderByUuid(seed)
        expected = judge.combinations()
        limited = dataclasses.replace(request, limit=limit)
        found = oracle.canonical(ask(
            snapshots.build(*rows), limited, randomize=randomize,
            ordering=CandidateOrdering(order)))
        self.assertEqual(len(found), len(set(found)))
        self.assertLessEqual(set(found), set(expected))
        if limit is None:
            self.assertEqual(set(expected), set(found))
            return
        self.assertEqual(min(limit, len(expected)), len(found))
        if not any(provider.shares for provider in judge.providers.values()):
            ranks = {root: order.rank_one(snapshots.uuid_of(root))
                     for root in set().union(*expected.values(), set())}
            roots = [next(iter(expected[each])) for each in found][:len(ranks)]
            self.assertEqual(sorted(ranks.values())[:limit], [ranks[root] for root in roots])

    @examples.draw(200)
    @hypothesis.given(
        strategies.provider_lists(), strategies.requests(subtrees=False), st.integers(1, 8))
    def test_distinct_come_first(self, rows, request, limit):
        """A limited answer has as many different ones as there are, up to the limit."""
        judge = oracle.Oracle(rows, request)
        looks = {
            provider.uuid: (
                provider.root,
                frozenset(each for name, each in provider.inventories.items()
                          if any(name in group.resources for group in request.groups)),
                frozenset(provider.traits), frozenset(provider.aggregates))
            for provider in judge.providers.values()}
        expected = {_orbit(each, looks) for each in judge.combinations()}
        limited = dataclasses.replace(request, limit=limit)
        document = ask(snapshots.build(*rows), limited)
        found = {_orbit(each, looks) for each in oracle.canonical(document)}
        if len(expected) <= limit:
            self.assertLessEqual(found, expected)
        coarse = {provider: look[:2] for provider, look in looks.items()}
        least = {_orbit(each, coarse) for each in judge.combinations()}
        self.assertLessEqual(min(limit, len(least)), len(found))

    @examples.draw(100)
    @hypothesis.given(
        strategies.provider_lists(), strategies.requests(), st.integers(1, 6),
        st.sampled_from(("depth-first", "breadth-first")))
    def test_bounded(self, rows, request, most, strategy):
        expected = oracle.Oracle(rows, request).combinations()
        snapshot = snapshots.build(*rows)
        found = oracle.canonical(ask(snapshot, request, max_candidates=most, strategy=strategy))
        self.assertEqual(min(most, len(expected)), len(found))
        self.assertLessEqual(set(found), set(expected))


def _orbit(combination, looks):
    """Return a combination with providers replaced by what they look like.

    Of all ways to number the equal ones the smallest is taken, so that two
    combinations have one orbit exactly if an exchange of equals makes one of
    the other.
    """
    allocations, mappings = combination
    uuids = sorted({uuid for uuid, _, _ in allocations}
                   | {uuid for _, uuids in mappings for uuid in uuids})
    signatures = []
    for uuid in uuids:
        signatures.append((
            repr(sorted(map(repr, looks[uuid]))),
            tuple(sorted((name, amount) for each, name, amount in allocations if each == uuid)),
            tuple(sorted(suffix for suffix, serving in mappings if uuid in serving))))
    return tuple(sorted(signatures))


class TestEqualDevices(base.TestCase):

    def gpus(self, hosts=3, gpus=8):
        rows = []
        for host in range(hosts):
            first = 1 + host * (gpus + 1)
            rows.append(snapshots.provider(first, snapshots.inventory("VCPU", 64)))
            rows.extend(
                snapshots.provider(
                    first + number, snapshots.inventory("CUSTOM_GPU", 1), parent=first)
                for number in range(1, gpus + 1))
        return snapshots.build(*rows)

    def request(self, groups=4, **options):
        return CandidatesRequest(
            (RequestGroup("", {"VCPU": 1}),
             *(RequestGroup(f"_{number}", {"CUSTOM_GPU": 1}) for number in range(groups))),
            **options)

    def test_each_tree_before_permutations(self):
        snapshot = self.gpus()
        found = search.find(snapshot, self.request(isolate=True, limit=3))
        roots = [int(snapshot.layout.root[combination[0]]) for combination in found]
        self.assertEqual(3, len(set(roots)))

    def test_permutations_fill_the_limit(self):
        found = search.find(self.gpus(), self.request(isolate=True, limit=1000))
        self.assertEqual(1000, len(set(found)))

    def test_complete_without_limit(self):
        found = search.find(self.gpus(hosts=1), self.request(isolate=True))
        self.assertEqual(8 * 7 * 6 * 5, len(set(found)))

    def test_many_groups_many_devices(self):
        snapshot = self.gpus(hosts=1, gpus=64)
        found = search.find(snapshot, self.request(groups=8, isolate=True, limit=1000))
        self.assertEqual(1000, len(set(found)))

    def test_nearly_enough_devices(self):
        """An answer that is empty for want of one device does not take forever."""
        for isolate in (True, False):
            found = search.find(
                self.gpus(hosts=1, gpus=20), self.request(groups=21, isolate=isolate))
            self.assertEqual(0, len(found))


class TestHopelessRequests(base.TestCase):
    """Each of these took minutes or longer before the search learnt to see it."""

    def devices(self, count, *, deep=False):
        rows = [snapshots.provider(
            1, snapshots.inventory("VCPU", 64), snapshots.inventory("DISK_GB", 9))]
        rows.extend(
            snapshots.provider(
                number, snapshots.inventory("MEMORY_MB", 20 + number),
                snapshots.inventory("CUSTOM_GPU", 1 + number * 7 % 23),
                parent=number - 1 if deep else 1, traits=[snapshots.TRAITS[1 + number % 2]])
            for number in range(2, count + 2))
        return snapshots.build(*rows)

    def groups(self, count, resources):
        return tuple(RequestGroup(f"_{number}", resources) for number in range(count))

    def test_traits_that_no_combination_has(self):
        """One provider would have to have both, and would compete with the groups."""
        unsuffixed = RequestGroup("", {"VCPU": 1, "DISK_GB": 1, "MEMORY_MB": 1}, TraitFilter(
            (frozenset(["CUSTOM_A"]), frozenset(["CUSTOM_B"]))))
        request = CandidatesRequest((unsuffixed, *self.groups(16, {"MEMORY_MB": 2})))
        self.assertEqual(0, len(search.find(self.devices(12), request)))

    def test_one_bond_that_fails_beside_one_that_can_be_met_in_many_ways(self):
        many = self.groups(8, {"MEMORY_MB": 2})
        few = tuple(RequestGroup(f"_gpu{number}", {"CUSTOM_GPU": 23}) for number in range(3))
        self.assertEqual(0, len(search.find(self.devices(20), CandidatesRequest((*many, *few)))))

    def test_subtrees_with_too_little_room(self):
        request = CandidatesRequest(
            self.groups(12, {"MEMORY_MB": 1}), isolate=True, limit=50,
            same_subtree=(frozenset(f"_{number}" for number in range(8)),
                          frozenset(f"_{number}" for number in range(5, 12))))
        self.assertEqual(50, len(search.find(self.devices(14, deep=True), request)))
        self.assertEqual(0, len(search.find(self.devices(11, deep=True), request)))


class TestRequests(base.TestCase):

    def test_unknown_names(self):
        snapshot = snapshots.build()
        error = self.assertRaises(
            errors.UnknownRequestedClass, search.find, snapshot,
            CandidatesRequest((RequestGroup("", {"VPCU": 1}),)))
        self.assertEqual("Invalid resource class in resources parameter: "
                         "No such resource class VPCU.", str(error))
        error = self.assertRaises(
            errors.UnknownRequestedTraits, search.find, snapshot,
            CandidatesRequest((RequestGroup("", {"VCPU": 1}, TraitFilter(
                (frozenset(["CUSTOM_A", "X"]),), frozenset(["Y"]))),)))
        self.assertEqual("No such trait(s): X, Y.", str(error))

    def test_amounts_beyond_every_number(self):
        snapshot = snapshots.build(snapshots.provider(1, snapshots.inventory("VCPU", 10**40)))
        for amount, count in ((2**31 - 1, 1), (2**31, 0), (10**30, 0)):
            found = search.find(snapshot, CandidatesRequest((RequestGroup("", {"VCPU": amount}),)))
            self.assertEqual(count, len(found), amount)

    def test_sums_beyond_64_bits(self):
        snapshot = snapshots.build(
            snapshots.provider(1, snapshots.inventory("VCPU", 10**40, 2**62)))
        request = CandidatesRequest(tuple(
            RequestGroup(suffix, {"VCPU": 2**29}) for suffix in ("", "_a")))
        document = ask(snapshot, request)
        self.assertEqual(1, len(document["allocation_requests"]))
        summary = document["provider_summaries"][snapshots.uuid_of(1)]
        self.assertEqual({"VCPU": {"capacity": 10**40, "used": 2**62}}, summary["resources"])

    def test_less_than_nothing(self):
        snapshot = snapshots.build(snapshots.provider(1, snapshots.inventory("VCPU", -5, 3)))
        self.assertEqual(
            0, len(search.find(snapshot, CandidatesRequest((RequestGroup("", {"VCPU": 1}),)))))

    def test_empty_world(self):
        for limit, isolate in itertools.product((None, 5), (True, False)):
            request = CandidatesRequest(
                tuple(RequestGroup(suffix, {"VCPU": 1}) for suffix in ("", "_a", "_b")),
                limit=limit, isolate=isolate)
            self.assertEqual(
                {"allocation_requests": [], "provider_summaries": {}},
                ask(snapshots.build(), request))
