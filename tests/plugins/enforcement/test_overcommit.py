from __future__ import annotations

import pathlib

import fixtures
from oslo_config import cfg

from placement_core import errors
from placement_plugins.enforcement import overcommit
from tests import base
from tests.plugins.enforcement import limit_trees


class _TestCase(base.TestCase):

    def model(self, factor):
        return self.configured(f"[overcommit]\nfactor = {factor}\n")

    def configured(self, text):
        """Return the model as a configuration file makes it."""
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "placement.conf")
        path.write_text(text)
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[str(path)], default_config_dirs=[])
        return overcommit.Overcommit(conf)


class TestOption(_TestCase):

    def test_without_it_nothing_is_promised_twice(self):
        model = self.configured("")
        of = limit_trees.tree({"D": (None, 10), "P": ("D", 6), "Q": ("D", 5)}, default=0)
        self.assertEqual([("Q", "D")], limit_trees.clashing(model, of, ["Q"]))

    def test_bad_values(self):
        """One line: option, value, expectation."""
        for value, said in (
                ("0.99", " = 0.99: expected a number from 1 on"),
                ("-2", " = -2.0: expected a number from 1 on"),
                ("nan", " = nan: expected a number from 1 on"),
                ("inf", " = inf: expected a number from 1 on"),
                ("", " = None: expected a number from 1 on"),
                ("half", ": expected a number from 1 on: "
                         "could not convert string to float: 'half'")):
            error = self.assertRaises(errors.ConfigurationError, self.model, value)
            self.assertEqual(f"[overcommit] factor{said}", str(error))

    def test_from_the_environment(self):
        self.useFixture(fixtures.EnvironmentVariable("OS_OVERCOMMIT__FACTOR", "lots"))
        self.assertRaisesRegex(
            errors.ConfigurationError, r"^\[overcommit\] factor: .*'lots'$", self.model, 1)

    def test_it_is_in_the_sample(self):
        self.assertEqual([("overcommit", overcommit.OPTIONS)], overcommit.list_opts())

    def test_two_models_of_one_configuration(self):
        options = cfg.ConfigOpts()
        self.assertEqual("overcommit", overcommit.Overcommit(options).name)
        self.assertEqual("overcommit", overcommit.Overcommit(options).name)


class TestArithmetic(_TestCase):

    def test_products_are_exact_and_rounded_down(self):
        """As the factor was written: in floats 100 × 1.15 is 114.99…."""
        for limit, factor, expected in (
                (10, "1.1", 11), (100, "1.15", 115), (1000, "1.001", 1001), (9, "1.1", 9),
                (3, "1.5", 4), (1, "1.999", 1), (0, "7", 0), (2147483647, "3.3", 7086696035),
                (7, "1", 7), (7, "1e2", 700)):
            of = limit_trees.tree({"P": (None, limit)}, default=0)
            self.assertEqual(
                [("P", limit, "own", "set"), ("P", expected, "subtree", "set")],
                limit_trees.bounds(self.model(factor), of, "P"), (limit, factor))

    def test_unlimited_stays_unlimited(self):
        of = limit_trees.tree({"D": (None, -1), "P": ("D", -1), "Q": ("D", 3)}, default=-1)
        model = self.model("1.1")
        self.assertEqual([], limit_trees.bounds(model, of, "P"))
        self.assertEqual([], limit_trees.clashing(model, of, ["D", "P", "Q"]))


class TestLimits(_TestCase):

    def of(self, domain, *below):
        return limit_trees.tree(
            {"D": (None, domain), **{f"P{n}": ("D", each) for n, each in enumerate(below)}},
            default=0)

    def test_together_up_to_the_factor(self):
        model = self.model("1.1")
        self.assertEqual([], limit_trees.clashing(model, self.of(10, 6, 5), ["P1"]))
        self.assertEqual([("P1", "D")], limit_trees.clashing(model, self.of(10, 6, 6), ["P1"]))
        # The lowered limit of the node itself is at fault.
        self.assertEqual([("D", "P0")], limit_trees.clashing(model, self.of(9, 6, 5), ["D"]))

    def test_none_above_the_limit_itself(self):
        """The factor is for all of them together."""
        model = self.model("2")
        self.assertEqual([], limit_trees.clashing(model, self.of(10, 10, 10), ["P0"]))
        self.assertEqual([("P0", "D")], limit_trees.clashing(model, self.of(10, 11), ["P0"]))
        self.assertEqual(
            [("P0", "D")] * 2, limit_trees.clashing(model, self.of(10, -1, 1), ["P0"]))

    def test_only_the_next_below_count(self):
        """What these promise further is theirs; who has no limit is passed over."""
        nodes = {"D": (None, 10), "P": ("D", 6), "C": ("P", 6), "Q": ("D", None), "R": ("Q", 4)}
        model = self.model("1")
        tree = limit_trees.tree(nodes, default=0)
        self.assertEqual([], limit_trees.clashing(model, tree, list(nodes)))
        nodes["R"] = ("Q", 5)
        tree = limit_trees.tree(nodes, default=0)
        self.assertEqual([("R", "D")], limit_trees.clashing(model, tree, ["R"]))

    def test_a_limit_that_goes_away(self):
        """Those below it count one level higher then."""
        nodes = {"D": (None, 10), "P": ("D", None), "C1": ("P", 6), "C2": ("P", 6)}
        tree = limit_trees.tree(nodes, default=0)
        self.assertEqual([("C2", "D")], limit_trees.clashing(self.model("1"), tree, ["P"]))

    def test_faults_elsewhere_are_left_alone(self):
        nodes = {"D": (None, 10), "P": ("D", 9), "Q": ("D", 9), "C": ("P", 1)}
        self.assertEqual(
            [], limit_trees.clashing(self.model("1"), limit_trees.tree(nodes, default=0), ["C"]))

    def test_the_reason_names_both(self):
        self.assertEqual(
            ["The limits next below domain D are 13 together, that of project P1 (7) included; "
             "its own (10) allows 11."],
            [clash.reason for clash in self.model("1.1").clashes(self.of(10, 6, 7), ["P1"])])


class TestClaims(_TestCase):

    def test_the_project_has_its_limit_and_its_tree_the_factor(self):
        of = limit_trees.tree({"D": (None, 10), "P": ("D", 10), "Q": ("D", None)}, default=4)
        model = self.model("1.5")
        self.assertEqual(
            [("P", 10, "own", "set"), ("P", 15, "subtree", "set"), ("D", 15, "subtree", "set")],
            limit_trees.bounds(model, of, "P"))
        self.assertEqual(
            [("Q", 4, "own", "default"), ("D", 15, "subtree", "set")],
            limit_trees.bounds(model, of, "Q"))
        usages = {("P", "own"): 8, ("P", "subtree"): 9, ("D", "subtree"): 13}
        self.assertEqual([], limit_trees.refused(model, of, "P", usages, 2))
        self.assertEqual(
            [("P", 10, 8), ("D", 15, 13)], limit_trees.refused(model, of, "P", usages, 3))
