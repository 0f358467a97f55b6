from __future__ import annotations

from oslo_config import cfg

from placement_plugins.enforcement import flat
from tests import base
from tests.plugins.enforcement import limit_trees


class TestFlat(base.TestCase):
    def setUp(self):
        super().setUp()
        self.model = flat.Flat(cfg.ConfigOpts())

    def test_nothing_clashes(self):
        """Not a child above its parent, nor a tree of any depth, nor a loop."""
        for nodes in (
                {"D": (None, 1), "P": ("D", 100), "C": ("P", -1)},
                {"D": (None, 0), **{str(n): (str(n - 1) if n else "D", n) for n in range(9)}},
                {"A": ("B", 1), "B": ("A", 2)}):
            tree = limit_trees.tree(nodes, default=0)
            self.assertEqual([], self.model.clashes(tree, list(nodes)))

    def test_only_the_project_binds(self):
        nodes = {"D": (None, 1), "P": ("D", 2), "C": ("P", None), "X": ("P", -1), "Z": ("P", 0)}
        of = limit_trees.tree(nodes, default=20)
        for node_id, expected in {
                "D": [("D", 1, "own", "set")], "P": [("P", 2, "own", "set")],
                "C": [("C", 20, "own", "default")], "X": [], "Z": [("Z", 0, "own", "set")],
        }.items():
            self.assertEqual(expected, limit_trees.bounds(self.model, of, node_id), node_id)

    def test_an_unlimited_default(self):
        of = limit_trees.tree({"D": (None, None), "P": ("D", None)}, default=-1)
        self.assertEqual([], limit_trees.bounds(self.model, of, "P"))
