"""Whether changed limits fit into their tree, as the enforcement model judges it."""

import types

from oslo_config import cfg

from placement_core.limits import errors, hierarchy, references
from placement_core.limits.hierarchy import Resource
from placement_core.limits.references import Forest
from placement_core.plugin_api.catalog import Node
from placement_plugins.enforcement.strict_two_level import StrictTwoLevel
from tests import base

NODES = [Node("domain", None, is_domain=True), Node("parent", "domain"), Node("child", "parent")]
FOREST = Forest({node.id: node for node in NODES})
CORES = Resource(1, "service", None, "cores", 10)


class Session:
    """A session whose only statement returns some rows."""

    def __init__(self, **limits):
        self._limits = limits

    def execute(self, statement, parameters):
        return [types.SimpleNamespace(
            registered_limit_id=1, node_id=node_id, resource_limit=limit, service_id="service",
            region_key="", resource_name="cores", default_limit=10)
            for node_id, limit in self._limits.items() if node_id in parameters["node_ids"]]


class TestHierarchy(base.TestCase):

    def check(self, changes, **stored):
        hierarchy.check(
            Session(**stored), StrictTwoLevel(cfg.ConfigOpts()),
            Forest({node.id: node for node in NODES[:2]}), {CORES: changes})

    def test_a_limit_that_fits(self):
        self.check({"parent": 20}, domain=20)
        self.check({"domain": 20}, parent=20)

    def test_a_limit_above_its_parents(self):
        error = self.assertRaises(
            errors.HierarchyClash, self.check, {"parent": 21}, domain=20)
        self.assertEqual(("parent", 21, "domain", 20), (
            error.node_id, error.value, error.other_id, error.other_value))

    def test_a_limit_below_its_childrens(self):
        error = self.assertRaises(
            errors.HierarchyClash, self.check, {"domain": 19}, parent=20)
        self.assertEqual({19, 20}, {error.value, error.other_value})

    def test_a_limit_that_is_taken_away(self):
        """The default is what the nodes below it are judged by then."""
        self.check({"domain": None}, domain=20, parent=10)
        self.assertRaises(
            errors.HierarchyClash, self.check, {"domain": None}, domain=20, parent=11)

    def test_a_node_that_was_moved(self):
        forest = Forest({node.id: node for node in NODES[:2]})
        model = StrictTwoLevel(cfg.ConfigOpts())
        hierarchy.check_moved(Session(domain=20, parent=20), model, forest, "parent")
        self.assertRaises(
            errors.HierarchyClash, hierarchy.check_moved, Session(domain=20, parent=21), model,
            forest, "parent")


class Catalog:

    def lineage(self, ctx, node_id):
        return NODES if node_id == "child" else [Node(node_id, "gone")]

    def subtree(self, ctx, node_id):
        return NODES if node_id == "domain" else [Node(node_id, "gone")]


class TestForest(base.TestCase):

    def test_around(self):
        self.assertEqual({"domain", "parent"}, FOREST.around(["parent"]).keys())
        self.assertEqual({"domain", "parent", "child"}, FOREST.around(["child"]).keys())
        self.assertEqual({}, FOREST.around(["stranger"]))

    def test_whole_trees(self):
        forest = references.forest(None, Catalog(), ["child", "parent", "stray"])
        self.assertEqual({"domain", "parent", "child", "stray"}, forest.nodes.keys())
        self.assertIsNone(forest.nodes["stray"].parent_id)
        self.assertEqual("parent", forest.nodes["child"].parent_id)
