"""The contract of enforcement models finds what is wrong with one."""

from __future__ import annotations

import dataclasses
import threading
import unittest
from unittest import mock

from oslo_config import cfg

from placement_core import amounts
from placement_core.plugin_api.enforcement import Clash, EnforcementModel
from placement_core.testing import enforcement
from placement_plugins.enforcement import tree
from tests import base
from tests.unit.testing import outcomes


class _Silent(EnforcementModel):
    """It does not say for which version it was written."""

    name = "silent"
    description = "All it says."

    def clashes(self, tree, changed):
        return []

    def bindings(self, lineage, limits, default):
        return []


class _BadName(tree.Tree):
    name = "Bad Name"


class _OtherVersion(tree.Tree):
    api_version = EnforcementModel.api_version + 1


class _FromTheTop(tree.Tree):
    def bindings(self, lineage, limits, default):
        return super().bindings(lineage, limits, default)[::-1]


class _NamesUnlimited(tree.Tree):
    def bindings(self, lineage, limits, default):
        found = super().bindings(lineage, {**limits, lineage[-1].id: 1}, default)
        limit = limits.get(lineage[-1].id, default)
        return [dataclasses.replace(found[0], limit=limit), *found[1:]]


class _ZeroIsNothing(tree.Tree):
    def bindings(self, lineage, limits, default):
        found = super().bindings(lineage, limits, default)
        return [each for each in found if each.limit]


class _DefaultBindsAll(tree.Tree):
    def bindings(self, lineage, limits, default):
        found = super().bindings(lineage, limits, default)
        if default == amounts.UNLIMITED or (found and found[0].source == "default"):
            return found
        return [*super().bindings(lineage[-1:], {}, default), *found]


class _DefaultBindsBelow(tree.Tree):
    def bindings(self, lineage, limits, default):
        return [dataclasses.replace(each, scope="subtree")
                for each in super().bindings(lineage, limits, default)]


class _SaysItTwice(tree.Tree):
    def bindings(self, lineage, limits, default):
        return [each for each in super().bindings(lineage, limits, default) for _ in "12"]


class _NearestTwo(tree.Tree):
    def bindings(self, lineage, limits, default):
        return super().bindings(lineage, limits, default)[:2]


class _NotSoFlat(tree.Tree):
    hierarchical = False


class _RefusesToShrink(tree.Tree):
    def judge(self, resource_name, bindings, usages, delta):
        if delta < 0:
            return super().judge(resource_name, bindings, usages, 0)
        return super().judge(resource_name, bindings, usages, delta)


class _OneTooStrict(tree.Tree):
    def judge(self, resource_name, bindings, usages, delta):
        found = super().judge(resource_name, bindings, usages, delta + 1)
        return [dataclasses.replace(each, delta=delta) for each in found]


class _DislikesProjects(tree.Tree):
    def clashes(self, tree, changed):
        return [Clash(each, None, f"{each} is there.") for each in tree.nodes if each in changed]


class _EqualIsTooMuch(tree.Tree):
    def clashes(self, tree, changed):
        return [*super().clashes(tree, changed), *(
            Clash(each, tree.nodes[each].parent_id, f"{each}, {tree.nodes[each].parent_id}")
            for each in tree.limits if each in changed
            and tree.limits[each] == tree.limits.get(tree.nodes[each].parent_id))]


class _ReportsEverything(tree.Tree):
    def clashes(self, tree, changed):
        return super().clashes(tree, tree.nodes)


class _OnlyWhenAllChange(tree.Tree):
    def clashes(self, tree, changed):
        return super().clashes(tree, changed) if len(changed) > 1 else []


class _SaysNo(tree.Tree):
    def clashes(self, tree, changed):
        return [dataclasses.replace(each, reason="No.") for each in super().clashes(tree, changed)]


class _Shallow(tree.Tree):
    max_depth = 2


class _TrustsTrees(tree.Tree):
    def clashes(self, tree, changed):
        for each in tree.nodes.values():
            if each.parent_id is not None:
                assert tree.nodes[each.parent_id]
        return super().clashes(tree, changed)


class _NoneAlone(tree.Tree):
    def clashes(self, tree, changed):
        if len(tree.limits) != 1:
            return super().clashes(tree, changed)
        return [Clash(each, None, f"{each} is alone.") for each in tree.limits if each in changed]


class _RefusesAll(tree.Tree):
    def clashes(self, tree, changed):
        return [Clash(each, None, f"{each} has one.") for each in tree.limits if each in changed]


_FAULTS = {
    _Silent: "test_it_says_what_it_is",
    _BadName: "test_it_says_what_it_is",
    _OtherVersion: "test_it_says_what_it_is",
    _FromTheTop: "test_the_own_bound_comes_first",
    _NamesUnlimited: "test_what_is_unlimited_is_left_out",
    _ZeroIsNothing: "test_zero_is_zero",
    _DefaultBindsAll: "test_the_default_binds_who_has_no_limit",
    _DefaultBindsBelow: "test_the_default_binds_who_has_no_limit",
    _SaysItTwice: "test_each_bound_is_named_once",
    _NearestTwo: "test_who_shares_a_limit_shares_the_topmost",
    _NotSoFlat: "test_hierarchical_is_true_of_it",
    _RefusesToShrink: "test_what_shrinks_is_never_refused",
    _OneTooStrict: "test_every_broken_bound_is_named",
    _DislikesProjects: "test_trees_without_limits_are_fine",
    _EqualIsTooMuch: "test_unlimited_clashes_with_nothing_unlimited",
    _ReportsEverything: "test_only_what_changes_is_reported",
    _OnlyWhenAllChange: "test_a_fault_concerns_the_node_it_names",
    _SaysNo: "test_a_fault_says_who",
    _Shallow: "test_limits_below_the_deepest_level_are_named",
    _TrustsTrees: "test_damaged_trees_are_survived",
    _NoneAlone: "test_valid_trees_can_be_written",
    _RefusesAll: "test_valid_trees_can_be_written",
}


def _failing(model, *names):
    """Return the contract's tests (those of a name, or all) that a model does not pass."""

    class Test(enforcement.ModelContract, unittest.TestCase):
        def make_model(self):
            return model(cfg.ConfigOpts())

    return outcomes.find_failures(Test, *names)


class TestContract(base.TestCase):

    def test_a_sound_model_passes(self):
        self.assertEqual(set(), _failing(tree.Tree))

    def test_each_test_can_fail(self):
        for model, name in _FAULTS.items():
            self.assertEqual({name}, _failing(model, name), model.__name__)
        self.assertEqual(
            set(unittest.TestLoader().getTestCaseNames(enforcement.ModelContract)),
            set(_FAULTS.values()))

    def test_a_model_that_never_ends(self):
        """It fails the one test; it does not hang the others."""
        end = threading.Event()
        self.addCleanup(end.set)

        class Endless(tree.Tree):
            def clashes(self, tree, changed):
                if any(node.parent_id == node.id for node in tree.nodes.values()):
                    end.wait()
                return super().clashes(tree, changed)

        name = "test_damaged_trees_are_survived"
        with mock.patch.object(enforcement, "_FOREVER_SECONDS", 0.05):
            self.assertEqual({name}, _failing(Endless, name))
