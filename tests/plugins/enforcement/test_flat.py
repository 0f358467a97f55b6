from __future__ import annotations

from oslo_config import cfg

from placement_plugins.enforcement import flat
from tests import base
from tests.plugins.enforcement import trees


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
            self.assertEqual([], self.model.clashes(trees.tree(nodes, default=0), list(nodes)))

    def test_only_the_project_binds(self):
        nodes = {"D": (None, 1), "P": ("D", 2), "C": ("P", None), "X": ("P", -1), "Z": ("P", 0)}
        of = trees.tree(nodes, default=20)
        for node_id, expected in {
                "D": [("D", 1, "own", "set")], "P": [("P", 2, "own", "set")],
                "C": [("C", 20, "own", "default")], "X": [], "Z": [("Z", 0, "own", "set")],
        }.items():
            self.assertEqual(expected, trees.bounds(self.model, of, node_id), node_id)

    def test_an_unlimited_default(self):
        of = trees.tree({"D": (None, None), "P": ("D", None)}, default=-1)
        self.assertEqual([], trees.bounds(self.model, of, "P"))
