"""Pooled trees are left out unless the request names them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection, Iterator, Sequence

import fixtures
import hypothesis
from hypothesis import strategies as st

from placement_core.placement.allocations import reserved_trees
from placement_core.placement.candidates import search
from placement_core.placement.candidates.requests import (
    AggregateFilter,
    CandidatesRequest,
    RequestGroup,
)
from placement_core.placement.index.records import ProviderRow
from tests import base, examples, snapshots
from tests.unit.placement.candidates import oracle, strategies
from tests.unit.placement.candidates.test_explain import ask as explain, group, steps, vcpu
from tests.unit.placement.candidates.test_search import ask

#: Stands for the resource class of a reservation.
PASS = "CUSTOM_GPU"


class FenceTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch(f"{reserved_trees.__name__}.PASSES", PASS))


def pooled(chance: random.Random, rows: Sequence[ProviderRow]) -> list[ProviderRow]:
    """Pool some of the trees."""
    return [
        dataclasses.replace(row, pooled=row.parent_id is None and chance.random() < 0.5)
        for row in rows]


def root_of(row: ProviderRow, rows: Sequence[ProviderRow]) -> int:
    by_id = {each.id: each for each in rows}
    while row.parent_id is not None:
        row = by_id[row.parent_id]
    return row.id


def open_rows(
    rows: Sequence[ProviderRow], request: CandidatesRequest
) -> Iterator[ProviderRow]:
    """Return the providers of trees that are not pooled, or named."""
    names = {each for group in request.groups for each in group.resources
             if each.startswith(PASS)}
    aggregates = {uuid for group in request.groups
                  for uuids in group.aggregates.member_of for uuid in uuids}
    trees = {group.in_tree for group in request.groups}
    named = {
        root_of(row, rows) for row in rows
        if row.uuid in trees or row.aggregates & aggregates
        or any(snapshots.CLASSES[each.class_id] in names for each in row.inventories)}
    kept = {row.id for row in rows if row.pooled} - named
    return (row for row in rows if root_of(row, rows) not in kept)


class TestAgainstAWorldWithoutThem(FenceTestCase):
    @examples.draw(400)
    @hypothesis.given(
        strategies.provider_lists(), strategies.requests(), st.randoms(use_true_random=False))
    def test_the_same_candidates(
        self, rows: list[ProviderRow], request: CandidatesRequest, chance: random.Random
    ) -> None:
        rows = pooled(chance, rows)
        expected = ask(snapshots.build(*open_rows(rows, request)), request)
        found = ask(snapshots.build(*rows), request, exclude_reserved=True)
        self.assertEqual(set(oracle.canonical(expected)), set(oracle.canonical(found)))

    @examples.draw(100)
    @hypothesis.given(
        strategies.provider_lists(), strategies.requests(), st.randoms(use_true_random=False))
    def test_without_a_fence_they_are_like_others(
        self, rows: list[ProviderRow], request: CandidatesRequest, chance: random.Random
    ) -> None:
        expected = ask(snapshots.build(*rows), request)
        self.assertEqual(expected, ask(snapshots.build(*pooled(chance, rows)), request))


class TestNaming(FenceTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.snapshot = snapshots.build(
            snapshots.provider(1, vcpu(8), aggregates=[101]),
            snapshots.provider(2, vcpu(8), aggregates=[102], pooled=True),
            snapshots.provider(3, snapshots.inventory(PASS, 2), parent=2),
            snapshots.provider(4, vcpu(8), pooled=True),
            snapshots.provider(5, snapshots.inventory("DISK_GB", 2), parent=4))

    def hosts(self, *groups: RequestGroup) -> Collection[int]:
        """Return the roots of what is found."""
        request = CandidatesRequest(groups)
        roots = self.snapshot.layout.root
        return {
            self.snapshot.entry(int(roots[row])).provider.id
            for combination in search.find(self.snapshot, request, exclude_reserved=True)
            for row in combination}

    def test_nothing_is_named(self) -> None:
        self.assertEqual({1}, self.hosts(group()))
        self.assertEqual({1}, self.hosts(group("_A")))
        self.assertEqual(set(), self.hosts(group(wanted={"DISK_GB": 1})))

    def test_a_class(self) -> None:
        self.assertEqual({2}, self.hosts(group(wanted={"VCPU": 1, PASS: 1})))
        self.assertEqual({2}, self.hosts(group(), group("_A", {PASS: 1})))

    def test_an_aggregate(self) -> None:
        def member(*uuids: int) -> AggregateFilter:
            return AggregateFilter((frozenset(map(snapshots.uuid_of, uuids)),))

        self.assertEqual({1, 2}, self.hosts(group(inside=member(101, 102))))
        self.assertEqual(set(), self.hosts(group(inside=member(103))))
        self.assertEqual({1}, self.hosts(group(inside=AggregateFilter(
            forbidden=frozenset([snapshots.uuid_of(102)])))))

    def test_a_tree(self) -> None:
        self.assertEqual({4}, self.hosts(group(tree=5)))
        self.assertEqual({2}, self.hosts(group("_A", tree=2)))


class TestSharing(FenceTestCase):
    def test_a_provider_of_a_pooled_tree_shares_nothing(self) -> None:
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(8), aggregates=[101]),
            snapshots.provider(2, vcpu(8), pooled=True),
            snapshots.provider(3, snapshots.inventory("DISK_GB", 9), parent=2, aggregates=[101],
                               traits=[snapshots.SHARES]))
        request = CandidatesRequest((group(wanted={"VCPU": 1, "DISK_GB": 1}),))
        self.assertEqual(2, len(search.find(snapshot, request)))
        self.assertEqual(0, len(search.find(snapshot, request, exclude_reserved=True)))


class TestExplain(FenceTestCase):
    def test_how_many_are_left_out(self) -> None:
        snapshot = snapshots.build(
            snapshots.provider(1, vcpu(8)), snapshots.provider(2, vcpu(8), pooled=True),
            snapshots.provider(3, vcpu(1), pooled=True))
        found = explain(snapshot, group(), exclude_reserved=True)
        self.assertIsNone(found.reason)
        self.assertEqual(1, found.candidates)
        self.assertEqual(
            [("resources", "VCPU:4", 2), ("fence", "1 kept for reservations", 1)],
            steps(found.trees.filters))
        self.assertEqual(2, explain(snapshot, group()).candidates)

    def test_only_these_are_left(self) -> None:
        rest = ("kept for reservations, and the request names no reservation's resource "
                "class, aggregate (member_of) or tree (in_tree)")
        rows = [snapshots.provider(number, vcpu(8), pooled=True) for number in (1, 2)]
        self.assertEqual(f"the only host left is {rest}",
                         explain(
                             snapshots.build(*rows[:1]), group(), exclude_reserved=True).reason)
        self.assertEqual(f"all 2 hosts left are {rest}",
                         explain(snapshots.build(*rows), group(), exclude_reserved=True).reason)
        rows.append(snapshots.provider(3, vcpu(8), parent=2))
        self.assertEqual(f"all 2 trees of providers left are {rest}",
                         explain(snapshots.build(*rows), group(), exclude_reserved=True).reason)

    def test_room_comes_first(self) -> None:
        snapshot = snapshots.build(snapshots.provider(1, vcpu(3), pooled=True))
        self.assertEqual("no host has 4 free VCPU; the most is 3, on provider-1",
                         explain(snapshot, group(), exclude_reserved=True).reason)
