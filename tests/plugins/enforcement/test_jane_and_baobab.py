"""The story of seed 002: a limit may be lowered below what is used (requirement L4)."""

from __future__ import annotations

from oslo_config import cfg

from placement_plugins.enforcement import flat, overcommit, strict_two_level, tree
from tests import base
from tests.plugins.enforcement import limit_trees

_CPUS_BY_DEFAULT = 20


class TestJaneAndBaobab(base.TestCase):
    """Jane works in the project Baobab, and Kelly administers it."""

    def test_every_model(self):
        for model in (flat.Flat, strict_two_level.StrictTwoLevel, tree.Tree,
                      overcommit.Overcommit):
            self.story(model(cfg.ConfigOpts()))

    def story(self, model):
        def fits(of, used, delta):
            usages = {("Baobab", "own"): used, ("Baobab", "subtree"): used}
            return not limit_trees.refused(model, of, "Baobab", usages, delta)

        before = limit_trees.tree(
            {"forest": (None, None), "Baobab": ("forest", None)}, default=_CPUS_BY_DEFAULT)
        self.assertTrue(fits(before, 0, 18), model.name)
        self.assertTrue(fits(before, 18, 2), model.name)
        self.assertFalse(fits(before, 18, 3), model.name)

        # Kelly lowers the limit, and nothing asks what is used.
        after = limit_trees.tree(
            {"forest": (None, None), "Baobab": ("forest", 10)}, default=_CPUS_BY_DEFAULT)
        self.assertEqual([], model.clashes(after, ["Baobab"]), model.name)

        # Jane gets nothing more, and may give back; nothing is taken from her.
        self.assertFalse(fits(after, 18, 1), model.name)
        self.assertFalse(fits(after, 18, 0), model.name)
        self.assertTrue(fits(after, 18, -1), model.name)

        # After eight the project is at its limit; it takes nine until there is room for one.
        self.assertTrue(fits(after, 10, 0), model.name)
        self.assertFalse(fits(after, 10, 1), model.name)
        self.assertTrue(fits(after, 9, 1), model.name)
        self.assertFalse(fits(after, 9, 2), model.name)
