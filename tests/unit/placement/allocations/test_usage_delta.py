from __future__ import annotations

from placement_core.placement import tables
from placement_core.placement.allocations import usage_delta
from placement_core.placement.allocations.gates import PlannedWrite
from placement_core.placement.allocations.loaded import LoadedRows
from placement_core.placement.allocations.moves import Pair, PairChange
from placement_core.placement.allocations.plan import WritePlan
from placement_core.placement.records import AllocationWrite
from placement_core.plugin_api.counting import CONSUMERS
from tests import base

_VCPU, _RAM = 10, 11
_MINE, _THEIRS = (1, 2, 0), (3, 4, 0)


class DeltaTestCase(base.TestCase):

    def measure(self, counters, *, pairs=(), owners=None):
        """Measure a write of some consumers; all names are known, so no session is asked."""
        owners = {"one": _MINE} if owners is None else owners
        plan = WritePlan(owners=owners, pairs=list(pairs))
        plan.counters.update(counters)
        named = {_MINE: ("mine", "me"), _THEIRS: ("theirs", "them")}
        writes = [AllocationWrite(uuid, {"host": {"VCPU": 1}}, *named[owner])
                  for uuid, owner in owners.items()]
        return usage_delta.measure(PlannedWrite(
            None, writes, LoadedRows(classes={"VCPU": _VCPU, "MEMORY_MB": _RAM}), plan))


class TestMeasure(DeltaTestCase):

    def test_of_projects_and_their_users(self):
        delta = self.measure({
            (*_MINE, _VCPU): 2, (*_MINE, _RAM): -1, (*_MINE, tables.CONSUMERS_ID): 1,
            (*_THEIRS, _VCPU): 3}, owners={"one": _MINE, "two": _THEIRS})
        mine = {"VCPU": 2, "MEMORY_MB": -1, CONSUMERS: 1}
        self.assertEqual({"mine": mine, "theirs": {"VCPU": 3}}, delta.projects)
        self.assertEqual(
            {("mine", "me"): mine, ("theirs", "them"): {"VCPU": 3}}, delta.users)

    def test_types_of_consumers_are_added_up(self):
        delta = self.measure({(1, 2, 0, _VCPU): -2, (1, 2, 9, _VCPU): 3})
        self.assertEqual({"mine": {"VCPU": 1}}, delta.projects)

    def test_what_shrinks_is_no_growth(self):
        for counters in ({(*_MINE, _VCPU): -2}, {}):
            delta = self.measure(counters)
            self.assertEqual(({}, {}), (delta.projects, delta.users))

    def test_a_project_that_only_gives_up_is_not_named(self):
        delta = self.measure({(*_MINE, _VCPU): 2, (*_THEIRS, _VCPU): -2})
        self.assertEqual({"mine"}, set(delta.projects))


class TestMoves(DeltaTestCase):
    """What moves is held twice, and counts once."""

    def pair(self, vcpu):
        return Pair("migration", "instance", *_MINE[:2],
                    {_VCPU: vcpu, tables.CONSUMERS_ID: 1})

    def test_a_second_holding_does_not_count(self):
        counters = {(*_MINE, _VCPU): 4, (*_MINE, tables.CONSUMERS_ID): 1}
        self.assertEqual({}, self.measure(
            counters, pairs=[PairChange(None, self.pair(vcpu=4))]).projects)
        # A resize to a larger flavor: what it has more than before does.
        self.assertEqual({"mine": {"VCPU": 3}}, self.measure(
            {**counters, (*_MINE, _VCPU): 7},
            pairs=[PairChange(None, self.pair(vcpu=4))]).projects)

    def test_giving_up_the_second_holding_is_no_growth(self):
        self.assertEqual({}, self.measure(
            {(*_MINE, _VCPU): -4, (*_MINE, tables.CONSUMERS_ID): -1},
            pairs=[PairChange(self.pair(vcpu=4), None)]).projects)

    def test_giving_up_the_second_holding_gives_nothing_to_others(self):
        """What this project is counted for stays the same."""
        delta = self.measure({
            (*_MINE, _VCPU): -4, (*_MINE, tables.CONSUMERS_ID): -1,
            (*_THEIRS, _VCPU): 4, (*_THEIRS, tables.CONSUMERS_ID): 1},
            pairs=[PairChange(self.pair(vcpu=4), None)],
            owners={"one": _MINE, "two": _THEIRS})
        theirs = {"theirs": {"VCPU": 4, CONSUMERS: 1}}
        self.assertEqual((theirs, theirs), (delta.projects, delta.changes))

    def test_the_end_of_a_move_hides_no_growth(self):
        """Of another consumer of the same owner, or of the half that stays."""
        self.assertEqual({"mine": {"VCPU": 4}}, self.measure(
            {}, pairs=[PairChange(self.pair(vcpu=4), self.pair(vcpu=0))]).projects)

    def test_what_moves_again_is_no_growth(self):
        """What others get in the same write is theirs."""
        for others, grows in ((0, {}), (5, {"mine": {"VCPU": 5}})):
            again = PairChange(self.pair(vcpu=4), self.pair(vcpu=0), {_VCPU: 4})
            self.assertEqual(grows, self.measure(
                {(*_MINE, _VCPU): others}, pairs=[again]).projects)

    def test_what_is_given_up_besides_is_for_others(self):
        delta = self.measure(
            {(*_MINE, _VCPU): -7, (*_THEIRS, _VCPU): 4},
            pairs=[PairChange(self.pair(vcpu=4), None)],
            owners={"one": _MINE, "two": _THEIRS})
        self.assertEqual(-3, delta.changes["mine"]["VCPU"])
