"""The contract of enforcement models, as tests for their authors.

::

    class TestMine(enforcement.ModelContract, unittest.TestCase):
        def make_model(self):
            return Mine(cfg.ConfigOpts())

Most tests use random trees, the same ones in every run.
"""

from __future__ import annotations

import random
import threading
import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.plugin_api import loader
from placement_core.plugin_api.catalog import Node
from placement_core.plugin_api.enforcement import (
    Binding,
    Clash,
    EnforcementModel,
    LimitTree,
    Scope,
)

T = TypeVar("T")

#: The number of random trees in each test.
_CASES = 300
#: The depth of trees for a model without ``max_depth``; a domain is level 1.
_DEPTH = 5
_MOST_NODES = 7
_AMOUNTS: Sequence[Amount] = (0, 1, 2, 3, 5, 8, 13, 20, amounts.UNLIMITED)
#: A timeout that no model needs for a tree of seven nodes.
_FOREVER_SECONDS = 10

if TYPE_CHECKING:
    _Mixin = unittest.TestCase
else:
    _Mixin = object


class ModelContract(_Mixin):
    """Tests that every enforcement model has to pass."""

    def make_model(self) -> EnforcementModel:
        """Return the model to test."""
        raise NotImplementedError

    # Attributes -------------------------------------------------------------

    def test_it_says_what_it_is(self) -> None:
        """The model has a name, a description and its own ``api_version``."""
        model = self.make_model()
        self.assertRegex(model.name, r"\A[a-z0-9_]+\Z")
        self.assertTrue(model.description.strip(), "there is no description")
        self.assertIsNone(loader.find_mismatch("the model", type(model), EnforcementModel))

    # What binds a claim -------------------------------------------------------

    def test_the_own_bound_comes_first(self) -> None:
        """``bindings`` returns the project's own limit first, then those of its ancestors."""
        model = self.make_model()
        for case, lineage, tree in self._lineages(model):
            bindings = model.bindings(lineage, tree.limits, tree.default)
            upwards = [node.id for node in reversed(lineage)]
            places = [upwards.index(binding.node_id) for binding in bindings]
            self.assertEqual(sorted(places), places, case)
            if tree.limits.get(lineage[-1].id, tree.default) != amounts.UNLIMITED:
                self.assertEqual(lineage[-1].id, bindings[0].node_id, case)

    def test_what_is_unlimited_is_left_out(self) -> None:
        """``bindings`` returns no unlimited limits, so that no usage is counted for them."""
        model = self.make_model()
        for case, lineage, tree in self._lineages(model):
            bindings = model.bindings(lineage, tree.limits, tree.default)
            self.assertNotIn(amounts.UNLIMITED, [binding.limit for binding in bindings], case)
            unlimited = MappingProxyType(dict.fromkeys(tree.limits, amounts.UNLIMITED))
            self.assertEqual([], model.bindings(lineage, unlimited, amounts.UNLIMITED), case)

    def test_zero_is_zero(self) -> None:
        """A limit of 0 allows nothing, whether it is set or is the default."""
        model = self.make_model()
        for case, lineage, tree in self._lineages(model):
            others = {key: limit for key, limit in tree.limits.items() if key != lineage[-1].id}
            for limits, default in (
                    ({**others, lineage[-1].id: 0}, amounts.UNLIMITED), (others, 0)):
                bindings = model.bindings(lineage, MappingProxyType(limits), default)
                self.assertNotEqual([], model.judge("vcpus", bindings, _unused(bindings), 1), case)
                self.assertEqual([], model.judge("vcpus", bindings, _unused(bindings), 0), case)

    def test_the_default_binds_who_has_no_limit(self) -> None:
        """The default binds the own usage of a project without a limit, and no other node."""
        model = self.make_model()
        for case, lineage, tree in self._lineages(model):
            for binding in model.bindings(lineage, tree.limits, tree.default):
                if binding.source == "set":
                    self.assertIn(binding.node_id, tree.limits, case)
                else:
                    self.assertEqual(lineage[-1].id, binding.node_id, case)
                    self.assertEqual("own", binding.scope, case)
                    self.assertNotIn(binding.node_id, tree.limits, case)

    def test_each_bound_is_named_once(self) -> None:
        """``bindings`` returns at most one limit for each node and scope."""
        model = self.make_model()
        for case, lineage, tree in self._lineages(model):
            keys = [(binding.node_id, binding.scope)
                    for binding in model.bindings(lineage, tree.limits, tree.default)]
            self.assertEqual(len(keys), len(set(keys)), case)

    def test_who_shares_a_limit_shares_the_topmost(self) -> None:
        """Projects that a limit of the same node binds are bound by the same topmost node.

        Claims that count against the same limit wait for each other there.
        """
        model = self.make_model()
        for case, tree in self._trees(model):
            topmost: dict[str, str] = {}
            for node in tree.nodes.values():
                lineage, limits = _claim_of(tree, node)
                bindings = model.bindings(lineage, limits, tree.default)
                for binding in bindings:
                    self.assertEqual(
                        bindings[-1].node_id,
                        topmost.setdefault(binding.node_id, bindings[-1].node_id),
                        f"claims that the limit of {binding.node_id} binds, in {case}")

    def test_hierarchical_is_true_of_it(self) -> None:
        """A model that is not hierarchical does not depend on ancestors."""
        model = self.make_model()
        if model.hierarchical:
            return
        for case, lineage, tree in self._lineages(model):
            project_id = lineage[-1].id
            alone = {key: tree.limits[key] for key in tree.limits if key == project_id}
            self.assertEqual(
                model.bindings(lineage[-1:], alone, tree.default),
                model.bindings(lineage, tree.limits, tree.default), case)

    # Whether a claim fits -----------------------------------------------------

    def test_what_shrinks_is_never_refused(self) -> None:
        """A negative delta exceeds nothing, whatever the usage is."""
        model = self.make_model()
        for case, bindings, usages in self._usages(model):
            for delta in (-1, -1000):
                self.assertEqual([], model.judge("vcpus", bindings, usages, delta), case)

    def test_every_broken_bound_is_named(self) -> None:
        """``judge`` returns every exceeded limit, for a delta of 0 those exceeded already."""
        model = self.make_model()
        for case, bindings, usages in self._usages(model):
            for delta in (0, 1, 7):
                broken = [
                    ("vcpus", binding, usages[binding.node_id, binding.scope], delta)
                    for binding in bindings
                    if usages[binding.node_id, binding.scope] + delta > binding.limit]
                reported = [(excess.resource_name, excess.binding, excess.usage, excess.delta)
                            for excess in model.judge("vcpus", bindings, usages, delta)]
                self.assertEqual(broken, reported, case)

    # Whether limits are consistent ----------------------------------------------

    def test_trees_without_limits_are_fine(self) -> None:
        """Trees without limits have no clashes, also the empty tree."""
        model = self.make_model()
        empty = LimitTree({}, {}, 0)
        self.assertEqual([], model.clashes(empty, ()))
        self.assertEqual([], model.clashes(empty, ("a project that is gone",)))
        for case, tree in self._trees(model):
            bare = LimitTree(tree.nodes, {}, tree.default)
            self.assertEqual([], model.clashes(bare, tree.nodes), case)

    def test_unlimited_clashes_with_nothing_unlimited(self) -> None:
        """Trees in which all limits are unlimited have no clashes."""
        model = self.make_model()
        for case, tree in self._trees(model):
            limits = dict.fromkeys(tree.limits, amounts.UNLIMITED)
            self.assertEqual(
                [], model.clashes(LimitTree(tree.nodes, limits, amounts.UNLIMITED), tree.nodes),
                case)

    def test_only_what_changes_is_reported(self) -> None:
        """Without changes there are no clashes, and none in a valid tree."""
        model = self.make_model()
        for case, tree in self._trees(model):
            self.assertEqual([], model.clashes(tree, ()), case)
            if not model.clashes(tree, tree.nodes):
                for node_id in tree.nodes:
                    self.assertEqual([], model.clashes(tree, [node_id]), (node_id, case))

    def test_a_fault_concerns_the_node_it_names(self) -> None:
        """A clash is also reported if only the node that it names changes."""
        model = self.make_model()
        for case, tree in self._trees(model):
            for clash in model.clashes(tree, tree.nodes):
                self.assertNotEqual([], model.clashes(tree, [clash.node_id]), (clash, case))

    def test_a_fault_says_who(self) -> None:
        """A clash names nodes of the tree, also in its sentence."""
        model = self.make_model()
        for case, tree in self._trees(model):
            for clash in model.clashes(tree, tree.nodes):
                self._assert_names_nodes(clash, tree, case)

    def test_limits_below_the_deepest_level_are_named(self) -> None:
        """Only limits below the deepest level clash for this reason."""
        model = self.make_model()
        if model.max_depth is None:
            return
        nodes = {"1": Node("1", None, is_domain=True)}
        for level in range(2, model.max_depth + 2):
            nodes[str(level)] = Node(str(level), str(level - 1))
        for level in range(1, model.max_depth + 2):
            tree = LimitTree(nodes, {str(level): 0}, amounts.UNLIMITED)
            named = [clash.node_id for clash in model.clashes(tree, [str(level)])]
            self.assertEqual([] if level <= model.max_depth else [str(level)], named)

    def test_damaged_trees_are_survived(self) -> None:
        """Missing parents and loops raise no exceptions and cause no endless loops."""
        model = self.make_model()
        chance = _chance(0)
        for case, tree in self._trees(model):
            damaged = _damaged(chance, tree)
            for clash in _within_time(model.clashes, damaged, damaged.nodes):
                self._assert_names_nodes(clash, damaged, case)

    def test_valid_trees_can_be_written(self) -> None:
        """The limits of a valid tree can be set one after the other, in some order."""
        model = self.make_model()
        written = 0
        for case, tree in self._trees(model):
            if len(tree.limits) > 1 and not model.clashes(tree, tree.nodes):
                self.assertTrue(_can_be_written(model, tree), case)
                written += 1
        self.assertGreater(written, 0, "the model accepts hardly any tree with two limits")

    # -------------------------------------------------------------------------

    def _assert_names_nodes(self, clash: Clash, tree: LimitTree, case: str) -> None:
        self.assertIn(clash.node_id, tree.nodes, case)
        self.assertIn(clash.node_id, clash.reason, case)
        if clash.other_id is not None:
            self.assertIn(clash.other_id, tree.nodes, case)
            self.assertIn(clash.other_id, clash.reason, case)

    def _trees(self, model: EnforcementModel) -> Iterator[tuple[str, LimitTree]]:
        chance = _chance(1)
        for _ in range(_CASES):
            tree = _tree(chance, model.max_depth or _DEPTH)
            yield repr(tree), tree

    def _lineages(
        self, model: EnforcementModel
    ) -> Iterator[tuple[str, Sequence[Node], LimitTree]]:
        """Yield claims: the lineage of the claiming node, and the limits in that lineage."""
        chance = _chance(2)
        for case, tree in self._trees(model):
            node = tree.nodes[chance.choice(list(tree.nodes))]
            lineage, limits = _claim_of(tree, node)
            yield f"a claim of {node.id} in {case}", lineage, LimitTree(
                tree.nodes, limits, tree.default)

    def _usages(
        self, model: EnforcementModel
    ) -> Iterator[tuple[str, Sequence[Binding], Mapping[tuple[str, Scope], int]]]:
        chance = _chance(3)
        for case, lineage, tree in self._lineages(model):
            bindings = model.bindings(lineage, tree.limits, tree.default)
            usages = {(binding.node_id, binding.scope): chance.randint(0, 25)
                      for binding in bindings}
            yield f"{case}, usages {usages}", tuple(bindings), MappingProxyType(usages)


def _claim_of(tree: LimitTree, node: Node) -> tuple[Sequence[Node], Mapping[str, Amount]]:
    """Return the lineage of a node that claims, and the limits in it."""
    lineage = [node]
    while lineage[0].parent_id is not None:
        lineage.insert(0, tree.nodes[lineage[0].parent_id])
    return tuple(lineage), MappingProxyType(
        {each.id: tree.limits[each.id] for each in lineage if each.id in tree.limits})


def _chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 (trees to test with are no secret)


def _tree(chance: random.Random, depth: int) -> LimitTree:
    """Return some trees of projects in which limits mostly fit those above them."""
    nodes: dict[str, Node] = {}
    levels: dict[str, int] = {}
    # For each node, the largest limit that is likely to be accepted.
    bounds: dict[str, Amount] = {}
    limits: dict[str, Amount] = {}
    for number in range(chance.randint(1, _MOST_NODES)):
        parents = [node_id for node_id in nodes if levels[node_id] < depth]
        if not parents or chance.random() < 0.15:
            node = Node(f"domain-{number}", None, is_domain=True)
        else:
            node = Node(f"project-{number}", chance.choice(parents))
        nodes[node.id] = node
        levels[node.id] = 1 if node.parent_id is None else levels[node.parent_id] + 1
        bound = amounts.UNLIMITED if node.parent_id is None else bounds[node.parent_id]
        if chance.random() < 0.6:
            limits[node.id] = chance.choice(_AMOUNTS)
            if chance.random() < 0.7:
                limits[node.id] = min(limits[node.id], bound)
        bounds[node.id] = limits.get(node.id, bound)
    return LimitTree(
        MappingProxyType(nodes), MappingProxyType(limits), chance.choice(_AMOUNTS))


def _damaged(chance: random.Random, tree: LimitTree) -> LimitTree:
    """Return ``tree`` with some parents replaced by another node, the node itself, or none."""
    nodes = {
        node.id: Node(node.id, chance.choice([*tree.nodes, "gone"]), node.is_domain)
        if chance.random() < 0.5 else node
        for node in tree.nodes.values()}
    return LimitTree(MappingProxyType(nodes), tree.limits, tree.default)


def _can_be_written(model: EnforcementModel, tree: LimitTree) -> bool:
    """Return whether there is an order in which the limits of a tree can be set."""
    reached = {frozenset[str]()}
    for _ in tree.limits:
        reached = {
            present | {node_id}
            for present in reached for node_id in tree.limits.keys() - present
            if not model.clashes(_part(tree, present | {node_id}), [node_id])}
    return bool(reached)


def _part(tree: LimitTree, node_ids: Iterable[str]) -> LimitTree:
    return LimitTree(
        tree.nodes, {node_id: tree.limits[node_id] for node_id in node_ids}, tree.default)


def _unused(bindings: Sequence[Binding]) -> Mapping[tuple[str, Scope], int]:
    return {(binding.node_id, binding.scope): 0 for binding in bindings}


def _within_time(call: Callable[..., T], *arguments: object) -> T:
    """Return the result of a call, or fail after a timeout instead of hanging the tests."""
    answer: futures.Future[T] = futures.Future()

    def run() -> None:
        try:
            answer.set_result(call(*arguments))
        except Exception as error:  # noqa: BLE001 (``result`` raises it again)
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer.result(_FOREVER_SECONDS)
