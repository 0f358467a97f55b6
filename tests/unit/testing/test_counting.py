"""The contract of counting drivers finds what is wrong with one."""

from __future__ import annotations

import unittest
from collections import Counter

from placement_core.context import Context
from placement_core.plugin_api.counting import (
    INSTANCES,
    Count,
    CountingDriver,
    MemberCount,
    MissingCell,
    UserCount,
)
from placement_core.testing.counting import CountingContract
from tests import base
from tests.unit.testing import outcomes


class _Memory(CountingDriver):
    """Counts the instances that the suite passes."""

    api_version = 1
    units = frozenset({"VCPU", "MEMORY_MB", INSTANCES})

    def __init__(self, instances):
        self._instances = instances

    def count(self, ctx, project_ids, *, units, user_id=None, without=()):
        instances = [each for each in self._instances
                     if each.project_id in project_ids and each.uuid not in without]
        of_user = [each for each in instances if each.user_id == user_id]
        return Count(_add_up(instances, units, "project_id"), "memory",
                     None if user_id is None else _add_up(of_user, units, "user_id").get(
                         user_id, {}))

    def count_all(self, ctx, *, units):
        return Count(_add_up(self._instances, units, "project_id"), "memory")

    def server_group_members(self, ctx, instance_uuids, user_id):
        return MemberCount(sum(
            each.uuid in instance_uuids and each.user_id == user_id
            for each in self._instances), "memory")


def _add_up(instances, units, owner):
    """Return {project or user: {unit: amount}}."""
    used = {}
    for instance in instances:
        amounts = {**instance.amounts, INSTANCES: 1}
        used.setdefault(getattr(instance, owner), Counter()).update(
            {unit: amount for unit, amount in amounts.items() if unit in units})
    return used


class _IndexesUnits(_Memory):
    def count(self, ctx, project_ids, *, units, user_id=None, without=()):
        return super().count(ctx, project_ids, units=units[:], user_id=user_id, without=without)


class _IndexesOwners(_Memory):
    def count_users(self, ctx, owners, *, units):
        return super().count_users(ctx, owners[:], units=units)


class _CountsWhatNobodyAsked(_Memory):
    def count(self, ctx, project_ids, *, units, user_id=None, without=()):
        return super().count(
            ctx, project_ids, units=self.units, user_id=user_id, without=without)


class _CountsEveryProject(_Memory):
    def count(self, ctx, project_ids, *, units, user_id=None, without=()):
        count = super().count(ctx, project_ids, units=units, user_id=user_id, without=without)
        return Count(self.count_all(ctx, units=units).projects, "memory", count.user)


class _IgnoresWithout(_Memory):
    def count(self, ctx, project_ids, *, units, user_id=None, without=()):
        return super().count(ctx, project_ids, units=units, user_id=user_id)


class _CountsUsersEverywhere(_Memory):
    def count_users(self, ctx, owners, *, units):
        used = _add_up(self._instances, units, "user_id")
        return UserCount({owner: used.get(owner[1], {}) for owner in owners}, "memory")


class _AlwaysNamesACell(_Memory):
    def count(self, ctx, project_ids, *, units, user_id=None, without=()):
        count = super().count(ctx, project_ids, units=units, user_id=user_id, without=without)
        return Count(count.projects, "memory", count.user, [MissingCell("uuid", "one", "down")])


class _CountsOnce(_Memory):
    counted = None

    def count_all(self, ctx, *, units):
        self.counted = self.counted or super().count_all(ctx, units=units)
        return self.counted

    def count(self, ctx, project_ids, *, units, user_id=None, without=()):
        if self.counted is not None:
            return Count({}, "memory", {})
        self.counted = super().count(
            ctx, project_ids, units=units, user_id=user_id, without=without)
        return self.counted


class _KnowsNoGroups(_Memory):
    def server_group_members(self, ctx, instance_uuids, user_id):
        return MemberCount(0, "memory")


class _CountsMembersOfAll(_Memory):
    def server_group_members(self, ctx, instance_uuids, user_id):
        return MemberCount(len(set(instance_uuids)), "memory")


_FAULTS = {
    _IndexesUnits: "test_one_project",
    _IndexesOwners: "test_several_users",
    _CountsWhatNobodyAsked: "test_only_units_that_were_asked_for",
    _CountsEveryProject: "test_one_project",
    _IgnoresWithout: "test_without",
    _CountsUsersEverywhere: "test_several_users",
    _AlwaysNamesACell: "test_one_project",
    _CountsOnce: "test_asked_again",
    _KnowsNoGroups: "test_server_group_members",
    _CountsMembersOfAll: "test_server_group_members",
}


def _find_failures(driver: type[_Memory]) -> set[str]:
    """Return the contract's tests that a driver does not pass."""

    class Suite(CountingContract, unittest.TestCase):
        def given(self, instances):
            return driver(instances), Context(database=None)

    return outcomes.find_failures(Suite)


class TestContract(base.TestCase):
    def test_a_good_one(self):
        self.assertEqual(set(), _find_failures(_Memory))

    def test_what_is_wrong(self):
        for driver, name in _FAULTS.items():
            self.assertIn(name, _find_failures(driver), driver.__name__)

    def test_a_driver_that_says_that_it_counts_no_members(self):
        """It is not asked for them, so it need not know groups."""
        class CountsNoMembers(_Memory):
            api_version = 1
            counts_members = False

            def server_group_members(self, ctx, instance_uuids, user_id):
                raise NotImplementedError

        self.assertEqual(set(), _find_failures(CountsNoMembers))
