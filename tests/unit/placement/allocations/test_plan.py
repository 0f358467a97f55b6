from __future__ import annotations

from placement_core.db.transactions import TransactionConflict
from placement_core.placement import tables
from placement_core.placement.allocations import owners
from placement_core.placement.allocations.loaded import LoadedRows
from placement_core.placement.allocations.plan import NewAllocation, plan_writes
from placement_core.placement.records import AllocationWrite
from tests import base

_HOST, _OTHER = 1, 2
_VCPU, _RAM = 10, 11
_OWNER = (5, 6, 7)


class PlanTestCase(base.TestCase):
    """Rows of two hosts, two classes, and a consumer that holds 2 VCPU on one of them."""

    def setUp(self):
        super().setUp()
        self.rows = LoadedRows(
            providers={"host": _HOST, "other": _OTHER},
            classes={"VCPU": _VCPU, "MEMORY_MB": _RAM},
            owners={"old": _OWNER, "new": _OWNER},
            held={"old": {(_HOST, _VCPU): 2}}, held_rows={"old": {(_HOST, _VCPU): [100]}},
            projects={"project": 5, "theirs": 50}, users={"user": 6},
            types={"INSTANCE": 7, "MIGRATION": 70})

    def plan(self, *writes, existed=("old",), **options):
        return plan_writes(writes, self.rows, set(existed), **options)

    @staticmethod
    def write(consumer, allocations, project="project", kind=None):
        return AllocationWrite(consumer, allocations, project, "user", kind)


class TestAmounts(PlanTestCase):

    def test_a_new_consumer(self):
        self.rows.held, self.rows.held_rows = {}, {}
        plan = self.plan(self.write("new", {"host": {"VCPU": 2, "MEMORY_MB": 3.0}}), existed=())
        self.assertEqual([], plan.ended)
        self.assertEqual([NewAllocation("new", (_HOST, _VCPU), 2),
                          NewAllocation("new", (_HOST, _RAM), 3)], plan.begun)
        self.assertEqual({(_HOST, _VCPU): 2, (_HOST, _RAM): 3}, plan.deltas)
        self.assertEqual({_HOST: 1}, plan.steps)
        self.assertEqual({(*_OWNER, _VCPU): 2, (*_OWNER, _RAM): 3,
                          (*_OWNER, tables.CONSUMERS_ID): 1}, plan.counters)

    def test_the_same_again_is_judged_though_nothing_changes(self):
        plan = self.plan(self.write("old", {"host": {"VCPU": 2}}))
        self.assertEqual([], plan.ended)
        self.assertEqual([NewAllocation("old", (_HOST, _VCPU), 2, 100)], plan.begun)
        self.assertEqual({(_HOST, _VCPU): 0}, plan.deltas)
        self.assertEqual({}, plan.counters)

    def test_another_owner_does_not_keep_the_rows(self):
        plan = self.plan(self.write("old", {"host": {"VCPU": 2}}, project="theirs"))
        self.assertEqual([100], plan.ended)
        self.assertEqual([NewAllocation("old", (_HOST, _VCPU), 2)], plan.begun)

    def test_several_rows_of_one_amount_become_one(self):
        self.rows.held_rows = {"old": {(_HOST, _VCPU): [100, 101]}}
        plan = self.plan(self.write("old", {"host": {"VCPU": 2}}))
        self.assertEqual([100, 101], plan.ended)
        self.assertEqual([NewAllocation("old", (_HOST, _VCPU), 2)], plan.begun)

    def test_amounts_move_between_consumers_of_one_write(self):
        plan = self.plan(self.write("old", {}), self.write("new", {"host": {"VCPU": 2}}))
        self.assertEqual({(_HOST, _VCPU): 0}, plan.deltas)
        self.assertEqual((["old"], {"new": _OWNER}), (plan.emptied, plan.owners))
        self.assertEqual({}, plan.counters)

    def test_what_has_no_inventory_is_given_up_uncounted(self):
        self.rows.uncounted.add((_HOST, _VCPU))
        self.assertEqual({}, self.plan(self.write("old", {})).deltas)
        self.assertEqual(
            {(_HOST, _VCPU): 0}, self.plan(self.write("old", {"host": {"VCPU": 2}})).deltas)


class TestGenerations(PlanTestCase):
    """Of the providers: those rise that the write names, all others are locked as they are."""

    def test_a_provider_that_is_left(self):
        plan = self.plan(self.write("old", {"other": {"VCPU": 2}}))
        self.assertEqual({_OTHER: 1, _HOST: 0}, plan.steps)

    def test_a_consumer_that_is_emptied(self):
        self.assertEqual({_HOST: 1}, self.plan(self.write("old", {})).steps)

    def test_a_deletion(self):
        plan = self.plan(self.write("old", {}), raise_generations=False)
        self.assertEqual({_HOST: 0}, plan.steps)

    def test_a_provider_that_one_leaves_and_another_enters(self):
        plan = self.plan(self.write("old", {"other": {"VCPU": 2}}),
                         self.write("new", {"host": {"VCPU": 1}}))
        self.assertEqual({_HOST: 1, _OTHER: 1}, plan.steps)


class TestOwners(PlanTestCase):

    def test_another_project(self):
        plan = self.plan(self.write("old", {"host": {"VCPU": 3}}, "theirs"))
        self.assertEqual({"old": (50, 6, 7)}, plan.moved)
        self.assertEqual({
            (*_OWNER, _VCPU): -2, (*_OWNER, tables.CONSUMERS_ID): -1,
            (50, 6, 7, _VCPU): 3, (50, 6, 7, tables.CONSUMERS_ID): 1}, plan.counters)

    def test_another_type(self):
        plan = self.plan(self.write("old", {"host": {"VCPU": 2}}, kind="MIGRATION"))
        self.assertEqual({"old": (5, 6, 70)}, plan.moved)

    def test_who_is_emptied_keeps_its_owner(self):
        self.assertEqual({}, self.plan(self.write("old", {}, "theirs")).moved)

    def test_an_owner_that_is_gone(self):
        self.assertRaises(owners.OwnerMissing, self.plan,
                          self.write("old", {"host": {"VCPU": 2}}, "unknown"))

    def test_a_consumer_that_was_made_meanwhile(self):
        """Its row was not there to be locked, and nothing is wanted for it."""
        self.assertRaises(TransactionConflict, self.plan, self.write("new", {}), existed=())

    def test_a_consumer_without_a_record(self):
        del self.rows.owners["old"]
        plan = self.plan(self.write("old", {}), existed=())
        self.assertEqual(([100], [], {}), (plan.ended, plan.emptied, plan.counters))
