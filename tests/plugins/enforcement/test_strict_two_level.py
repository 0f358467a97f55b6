"""Keystone's rules as spec limits §3 has them, and its defects of §6 mended."""

from __future__ import annotations

from oslo_config import cfg

from placement_plugins.enforcement import strict_two_level
from tests import base
from tests.plugins.enforcement import limit_trees


def _tree(domain, project, child=None, *, default=10, sibling=None):
    return limit_trees.tree(
        {"D": (None, domain), "P": ("D", project), "C": ("P", child), "S": ("P", sibling)},
        default=default)


class _TestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.model = strict_two_level.StrictTwoLevel(cfg.ConfigOpts())

    def assert_fine(self, of, *changed):
        self.assertEqual([], self.model.clashes(of, changed))

    def assert_clash(self, expected, of, *changed):
        self.assertEqual([expected], limit_trees.clashing(self.model, of, changed))


class TestKeystonesRules(_TestCase):

    def test_a_project_is_held_to_its_domain(self):
        self.assert_fine(_tree(20, 19), "P")
        self.assert_fine(_tree(20, 20), "P")
        self.assert_clash(("P", "D"), _tree(20, 21), "P")

    def test_without_a_domain_limit_it_is_held_to_the_default(self):
        self.assert_fine(_tree(None, 10), "P")
        self.assert_clash(("P", None), _tree(None, 11), "P")
        self.assert_clash(("P", None), _tree(None, 1, default=0), "P")
        self.assert_fine(_tree(None, 0, default=0), "P")

    def test_a_domain_limit_lets_projects_above_the_default(self):
        self.assert_fine(_tree(1000, None), "D")
        self.assert_fine(_tree(1000, 999), "P")

    def test_a_domain_is_held_to_its_projects(self):
        self.assert_fine(_tree(20, 20), "D")
        self.assert_clash(("D", "P"), _tree(19, 20), "D")
        # A project that has no limit of its own does not count.
        self.assert_fine(_tree(5, None), "D")

    def test_both_in_one_body(self):
        """The domain's new limit is the one that counts, in any order."""
        for changed in (("D", "P"), ("P", "D")):
            self.assert_fine(_tree(50, 50), *changed)
            self.assert_clash(("P", "D"), _tree(50, 51), *changed)

    def test_raised_from_above_and_lowered_from_below(self):
        before, after = (20, 20), (30, 30)
        self.assert_fine(_tree(after[0], before[1]), "D")
        self.assert_fine(_tree(*after), "P")
        self.assert_clash(("P", "D"), _tree(before[0], after[1]), "P")
        self.assert_fine(_tree(after[0], before[1]), "P")
        self.assert_fine(_tree(*before), "D")
        self.assert_clash(("D", "P"), _tree(before[0], after[1]), "D")

    def test_children_may_exceed_their_parent_together(self):
        self.assert_fine(_tree(20, 10, 10, sibling=10), "D", "P", "C", "S")

    def test_three_levels(self):
        """Keystone calls them two, and really accepts a project below a project."""
        self.assert_fine(_tree(20, 10, 5), "C")
        of = limit_trees.tree(
            {"D": (None, 9), "P": ("D", 9), "C": ("P", 9), "G": ("C", 1)}, default=9)
        self.assert_clash(("G", None), of, "G")
        self.assertEqual(
            "There can be no limit for project G: it is at level 4 of its tree, and the "
            "enforcement model reads 3.", self.model.clashes(of, ["G"])[0].reason)
        self.assert_fine(of, "D", "P", "C")


class TestDefectsOfKeystone(_TestCase):

    def test_b4_a_parent_of_zero(self):
        self.assert_clash(("P", "D"), _tree(0, 7), "P")
        self.assert_clash(("C", "P"), _tree(20, 0, 7), "C")
        self.assert_fine(_tree(20, 0, 0), "C")

    def test_b5_an_unlimited_parent(self):
        self.assert_fine(_tree(-1, 7), "P")
        self.assert_fine(_tree(-1, 7), "D")
        self.assert_fine(_tree(-1, -1), "D", "P")

    def test_b6_an_unlimited_child(self):
        self.assert_clash(("P", "D"), _tree(10, -1), "P")
        self.assert_clash(("P", None), _tree(None, -1), "P")
        self.assert_fine(_tree(None, -1, default=-1), "P")

    def test_b7_a_project_below_a_project(self):
        self.assert_clash(("C", "P"), _tree(20, 5, 8), "C")
        # And with no limit in between, to the domain's, not to the default.
        self.assert_fine(_tree(20, None, 15), "C")
        self.assert_clash(("C", "D"), _tree(20, None, 25), "C")


class TestWhatChanges(_TestCase):

    def test_faults_elsewhere_are_left_alone(self):
        """A tree that was broken by a change of the model can be mended step by step."""
        of = _tree(20, 30, 5, sibling=40)
        self.assert_clash(("C", "P"), _tree(20, 4, 5), "C")
        self.assert_fine(of, "C")
        self.assert_clash(("S", "P"), of, "S")
        self.assertEqual([("D", "P")], limit_trees.clashing(self.model, of, ["D"]))
        self.assertEqual(
            [("P", "D"), ("S", "P")], limit_trees.clashing(self.model, of, ["C", "P", "S"]))

    def test_a_limit_that_goes_away(self):
        """What stood below it now stands below the next one, or the default."""
        self.assert_clash(("P", None), _tree(None, 20), "D")
        self.assert_clash(("C", "D"), _tree(20, None, 25), "P")
        self.assert_fine(_tree(20, None, 15), "P")

    def test_a_project_that_is_moved(self):
        """It has no limit itself: it is what stands below it that may not fit."""
        nodes = {"D": (None, 20), "Q": ("D", 5), "P": ("D", None), "C": ("P", 8)}
        self.assert_fine(limit_trees.tree(nodes, default=10), "P")
        moved = {"E": (None, 5), **nodes, "P": ("E", None)}
        self.assert_clash(("C", "E"), limit_trees.tree(moved, default=10), "P")

    def test_the_reason_names_both(self):
        for of, changed, expected in (
                (_tree(10, 20), "P", "The limit of project P (20) is more than that of domain D "
                                     "above it (10)."),
                (_tree(10, -1), "D", "The limit of project P (unlimited) is more than that of "
                                     "domain D above it (10)."),
                (_tree(None, 20), "P", "The limit of project P (20) is more than the registered "
                                       "default (10), and nothing above it has a limit.")):
            self.assertEqual(
                [expected], [clash.reason for clash in self.model.clashes(of, [changed])])


class TestDamage(_TestCase):

    def test_a_loop_is_cut(self):
        of = limit_trees.tree({"A": ("B", 1), "B": ("A", 2)}, default=10)
        self.assert_clash(("B", "A"), of, "B")
        self.assert_clash(("A", "B"), of, "A")
        self.assert_clash(
            ("A", None), limit_trees.tree({"A": ("A", 11)}, default=10), "A")

    def test_a_parent_that_is_missing(self):
        """Nobody knows what is above: it is a project, held to the default."""
        self.assert_fine(limit_trees.tree({"P": ("gone", 10)}, default=10), "P")
        self.assert_clash(("P", None), limit_trees.tree({"P": ("gone", 11)}, default=10), "P")


class TestClaims(_TestCase):

    def test_the_project_and_all_above_it_bind(self):
        self.assertEqual(
            [("C", 5, "subtree", "set"), ("P", 10, "subtree", "set"),
             ("D", 20, "subtree", "set")],
            limit_trees.bounds(self.model, _tree(20, 10, 5), "C"))
        self.assertEqual(
            [("C", 10, "own", "default"), ("D", 20, "subtree", "set")],
            limit_trees.bounds(self.model, _tree(20, None), "C"))
        self.assertEqual(
            [("P", 0, "subtree", "set")], limit_trees.bounds(self.model, _tree(-1, 0), "P"))
        self.assertEqual([], limit_trees.bounds(self.model, _tree(-1, None, default=-1), "P"))

    def test_the_sum_of_usage_is_held(self):
        """Though the children's limits are fine each, and together too much."""
        of = _tree(20, 10, 10, sibling=10)
        usages = {("C", "subtree"): 3, ("P", "subtree"): 9, ("D", "subtree"): 9}
        self.assertEqual([], limit_trees.refused(self.model, of, "C", usages, 1))
        self.assertEqual([("P", 10, 9)], limit_trees.refused(self.model, of, "C", usages, 2))
        self.assertEqual(
            [("C", 10, 3), ("P", 10, 9), ("D", 20, 9)],
            limit_trees.refused(self.model, of, "C", usages, 12))
