from __future__ import annotations

from oslo_config import cfg

from placement_plugins.enforcement import tree
from tests import base
from tests.plugins.enforcement import limit_trees

#: Five levels; what is set may skip some.
_NODES = {"1": (None, 50), "2": ("1", None), "3": ("2", 20), "4": ("3", None), "5": ("4", 10)}


class TestTree(base.TestCase):
    def setUp(self):
        super().setUp()
        self.model = tree.Tree(cfg.ConfigOpts())

    def clashing(self, changed, **limits):
        nodes = {**_NODES, **{key[1:]: (_NODES[key[1:]][0], limit)
                              for key, limit in limits.items()}}
        return limit_trees.clashing(self.model, limit_trees.tree(nodes, default=3), changed)

    def test_a_limit_is_held_to_the_nearest_above(self):
        for changed, limits, expected in (
                ("5", {"n5": 20}, []),
                ("5", {"n5": 21}, [("5", "3")]),
                ("5", {"n5": -1}, [("5", "3")]),
                ("5", {"n4": 5}, [("5", "4")]),
                ("4", {"n4": 5}, [("4", "5")]),
                ("4", {"n4": 0, "n5": 0}, []),
                ("3", {"n3": 9}, [("3", "5")]),
                ("3", {"n3": 51}, [("3", "1")]),
                ("3", {"n3": -1, "n1": -1}, []),
                ("3", {"n3": None, "n5": 50}, []),
                ("3", {"n3": None, "n5": 51}, [("5", "1")]),
                ("1", {"n1": 0}, [("1", "3")])):
            self.assertEqual(expected, self.clashing([changed], **limits), (changed, limits))

    def test_the_default_bounds_no_limit(self):
        """It is what projects get that have none; nothing above: anything may be set."""
        self.assertEqual([], self.clashing(list("12345"), n1=None, n3=1000))
        self.assertEqual([], self.clashing(list("12345"), n1=None, n3=-1))

    def test_every_level_binds(self):
        of = limit_trees.tree(_NODES, default=3)
        self.assertEqual(
            [("5", 10, "subtree", "set"), ("3", 20, "subtree", "set"),
             ("1", 50, "subtree", "set")], limit_trees.bounds(self.model, of, "5"))
        self.assertEqual(
            [("4", 3, "own", "default"), ("3", 20, "subtree", "set"),
             ("1", 50, "subtree", "set")], limit_trees.bounds(self.model, of, "4"))

    def test_a_very_deep_tree(self):
        count = 5000
        nodes = {str(n): (str(n - 1) if n else None, None) for n in range(count)}
        nodes["0"], nodes[str(count - 1)] = (None, 1), (str(count - 2), 2)
        self.assertEqual(
            [(str(count - 1), "0")],
            limit_trees.clashing(self.model, limit_trees.tree(nodes, default=1), [str(count - 1)]))
