"""What binds a project: the limits of its tree, and what counts against them."""

from oslo_config import cfg

from placement_core import amounts
from placement_core.plugin_api.catalog import Node
from placement_core.plugin_api.counting import CONSUMERS
from placement_core.plugin_api.limits import EffectiveLimits
from placement_core.quota import resources
from placement_core.quota.decisions import Decisions
from placement_core.quota.limit_sources import ServiceKey
from placement_plugins.enforcement.tree import Tree
from tests import base

DOMAIN, TOP, LEAF, OTHER = (
    Node("domain", None, is_domain=True), Node("top", "domain"), Node("leaf", "top"),
    Node("other", "top"))


class Catalog:
    """A domain with a tree of projects; notes whose subtree was asked for."""

    local = False

    def __init__(self):
        self.asked = []

    def lineage(self, ctx, project_id):
        return [DOMAIN, TOP, {"leaf": LEAF, "other": OTHER}[project_id]]

    def subtree(self, ctx, node_id):
        self.asked.append(node_id)
        nodes = [DOMAIN, TOP, LEAF, OTHER]
        return nodes[nodes.index({node.id: node for node in nodes}[node_id]):]


class Limits:
    transactional = False

    def __init__(self, limits):
        self._limits = limits

    def effective(self, ctx, node_ids, *, service_id, region_id):
        return self._limits


class TestProjectLimits(base.TestCase):

    def setUp(self):
        super().setUp()
        self.catalog = Catalog()

    def decisions(self, defaults, overrides, **options):
        return Decisions(
            None, self.catalog, Limits(EffectiveLimits(defaults, overrides)),
            Tree(cfg.ConfigOpts()),
            resources=resources.parse(["cores=VCPU+PCPU", "servers=consumers"]), **options)

    def read(self, decisions, project_id="leaf"):
        return decisions.project_limits(None, project_id, ServiceKey("service", (None,)), 1)

    def test_who_counts(self):
        decisions = self.decisions({"cores": 5}, {"domain": {"cores": 9}, "top": {"cores": 7}})
        limits = self.read(decisions)
        self.assertEqual(
            [("leaf", "own", 5), ("top", "subtree", 7), ("domain", "subtree", 9)],
            [(binding.node_id, binding.scope, binding.limit)
             for binding in decisions.bindings(limits, "cores")])
        self.assertEqual(
            [{"leaf"}, {"top", "leaf", "other"}, {"domain", "top", "leaf", "other"}],
            [set(limits.counted_projects(binding).project_ids)
             for binding in decisions.bindings(limits, "cores")])

    def test_the_highest_subtree_has_the_others_in_it(self):
        self.read(self.decisions({"cores": 5}, {"domain": {"cores": 9}, "top": {"cores": 7}}))
        self.assertEqual(["domain"], self.catalog.asked)

    def test_a_tree_without_limits_of_its_own_is_not_read(self):
        self.read(self.decisions({"cores": 5}, {}))
        self.assertEqual([], self.catalog.asked)

    def test_what_is_exceeded(self):
        decisions = self.decisions({"cores": 5}, {"top": {"cores": 7}})
        limits = self.read(decisions)
        used = {"leaf": 3, "top": 6}
        for delta, expected in ((1, []), (2, ["top"]), (3, ["leaf", "top"])):
            self.assertEqual(expected, [
                excess.binding.node_id for excess in decisions.judge(
                    decisions.bind(limits, {"cores": delta}),
                    lambda binding, *_: used[binding.node_id])])

    def test_names_that_units_are_judged_by(self):
        decisions = self.decisions({"cores": 5}, {})
        units = {"VCPU", "VGPU", CONSUMERS}
        self.assertEqual(
            ["cores", "class:VGPU"], decisions.limit_names(self.read(decisions), units))
        decisions = self.decisions({"cores": 5}, {}, unregistered=amounts.UNLIMITED)
        self.assertEqual(["cores"], decisions.limit_names(self.read(decisions), units))
