from __future__ import annotations

from placement_core.placement import tables
from placement_core.placement.allocations import moves
from placement_core.placement.allocations.moves import ConsumerChange, Pair, PairChange
from tests import base

_VCPU, _RAM = 10, 11
_SMALL = {_VCPU: 1, _RAM: 512}
_LARGE = {_VCPU: 4, _RAM: 512}


def on(provider, amounts=None):
    """Return what a consumer holds that has all of it on one provider."""
    return {(provider, class_id): amount
            for class_id, amount in (amounts or _SMALL).items()}


def holding(before, after, project=1):
    return ConsumerChange(before, after, project, 2)


def pair(second="migration", first="instance", used=None):
    return Pair(second, first, 1, 2, {
        tables.CONSUMERS_ID: 1, **(_SMALL if used is None else used)})


class TestNewPairs(base.TestCase):

    def found(self, written):
        return [(each.consumer_uuid, each.moved_from)
                for each in moves.find_new_pairs(written, _RAM)]

    def test_a_migration_takes_over_what_an_instance_held(self):
        self.assertEqual([("migration", "instance")], self.found({
            "instance": holding(on(1), {}), "migration": holding({}, on(1))}))

    def test_of_equals_each_takes_over_from_one(self):
        self.assertEqual([("three", "one")], self.found({
            "one": holding(on(1), {}), "three": holding({}, on(1)), "four": holding({}, on(2))}))

    def test_no_move(self):
        for written in (
                {"one": holding(on(1), {}), "two": holding({}, on(1, _LARGE))},
                {"one": holding(on(1), {}), "two": holding({}, on(1), project=9)},
                {"one": holding(on(1), on(2)), "two": holding({}, on(1))},
                {"one": holding({}, on(1))}):
            self.assertEqual([], self.found(written), written)

    def test_an_evacuation_adds_the_same_on_another_host(self):
        written = {"instance": holding(on(1), {**on(1), **on(2)})}
        self.assertEqual([("instance", "instance")], self.found(written))
        self.assertEqual([], list(moves.find_new_pairs(written, None)))

    def test_no_evacuation(self):
        for after in (on(2), {**on(1), **on(2, _LARGE)}, {**on(1, _LARGE), **on(2)}):
            self.assertEqual([], self.found({"instance": holding(on(1), after)}), after)


class TestPlan(base.TestCase):

    def plan(self, written, *, pairs=None, others=None):
        known = pair() if pairs is None else pairs
        return moves.plan_pairs({known.consumer_uuid: known}, written, others or {}, _RAM)

    def test_a_resize_counts_the_smaller_of_both(self):
        begun = pair(used={tables.CONSUMERS_ID: 0})
        changes = self.plan({"instance": holding({}, on(2, _LARGE))}, pairs=begun,
                            others={"migration": on(1)})
        self.assertEqual([PairChange(begun, pair())], changes)

    def test_confirmed(self):
        self.assertEqual([PairChange(pair(), None)], self.plan(
            {"migration": holding(on(1), {})}, others={"instance": on(2)}))

    def test_reverted(self):
        """The migration gives back to the instance what it held."""
        self.assertEqual([PairChange(pair(), None)], self.plan({
            "migration": holding(on(1), {}), "instance": holding(on(2), on(1))}))

    def test_given_to_another_project(self):
        self.assertEqual([PairChange(pair(), None)], self.plan(
            {"instance": holding(on(2), on(2), project=9)}, others={"migration": on(1)}))

    def test_what_stays_as_it_is_is_left_out(self):
        self.assertEqual([], self.plan(
            {"instance": holding(on(2), on(3))}, others={"migration": on(1)}))

    def test_the_end_of_an_evacuation(self):
        evacuated = pair("instance", used={**_SMALL, tables.CONSUMERS_ID: 0})
        both = {**on(1), **on(2)}
        for after in (holding(both, on(2)), holding(both, {}), holding(both, both, project=9),
                      # As much on a third host as on both together is growth.
                      holding(both, on(3, {_VCPU: 2, _RAM: 1024}))):
            self.assertEqual([PairChange(evacuated, None)], self.plan(
                {"instance": after}, pairs=evacuated))
        # Both hosts are kept, with more of one: only that is growth.
        self.assertEqual([PairChange(evacuated, None, _SMALL)], self.plan(
            {"instance": holding(both, {**on(1), **on(2, _LARGE)})}, pairs=evacuated))
        self.assertEqual([], self.plan({"instance": holding(both, both)}, pairs=evacuated))

    def test_an_evacuated_instance_moves_again(self):
        """Its migration gets what it holds on both hosts, and quota refuses no move."""
        evacuated = pair("instance", used={**_SMALL, tables.CONSUMERS_ID: 0})
        both = {**on(1), **on(2)}
        self.assertEqual(
            [PairChange(evacuated, None, _SMALL),
             PairChange(None, pair(used={tables.CONSUMERS_ID: 0}))],
            self.plan({"instance": holding(both, {}), "migration": holding({}, both)},
                      pairs=evacuated))

    def test_a_resized_instance_moves_again(self):
        """Another migration gets what it holds; what the first one gets besides is growth."""
        begun = Pair("second", "instance", 1, 2, {tables.CONSUMERS_ID: 0})
        for first in ({}, {"migration": holding(on(1), on(1, _LARGE))}):
            [of_first, of_second] = self.plan(
                {"instance": holding(on(2), {}), "second": holding({}, on(2)), **first},
                others={"migration": on(1)})
            self.assertEqual({**_SMALL, tables.CONSUMERS_ID: 1}, of_first.uncovered)
            self.assertEqual(PairChange(None, begun), of_second)
