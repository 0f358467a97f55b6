"""The models against the oracle, on small random worlds."""

from __future__ import annotations

import random

import hypothesis
from hypothesis import strategies as st
from oslo_config import cfg

from placement_core import amounts
from placement_core.plugin_api.catalog import Node
from placement_core.plugin_api.enforcement import LimitTree
from placement_plugins.enforcement import flat, overcommit, strict_two_level, tree
from tests import base
from tests.plugins.enforcement import limit_trees, oracle

_AMOUNTS = (-1, 0, 1, 2, 3, 4, 6, 9, 10, 20)
#: As it is configured, and as the oracle reckons.
_FACTORS = {1.0: (1, 1), 1.1: (11, 10), 1.15: (23, 20), 1.5: (3, 2), 2.0: (2, 1)}

_FLAT = flat.Flat(cfg.ConfigOpts())
_STRICT = strict_two_level.StrictTwoLevel(cfg.ConfigOpts())
_TREE = tree.Tree(cfg.ConfigOpts())


def _overcommit(factor):
    conf = cfg.ConfigOpts()
    conf.register_opts(overcommit.OPTIONS, group=overcommit.GROUP)
    conf.set_override("factor", factor, group=overcommit.GROUP)
    return overcommit.Overcommit(conf)


_OVERCOMMIT = {factor: _overcommit(factor) for factor in _FACTORS}


def _world(chance):
    """Make a world in which limits mostly fit those above them, and usages the limits."""
    parents, limits, used = {}, {}, {}
    default = chance.choice(_AMOUNTS)
    for number in range(chance.randint(1, 9)):
        node = f"n{number}"
        parents[node] = chance.choice(list(parents)) if parents and chance.random() < 0.8 else None
        above = next((limits[each] for each in _above(parents, node) if each in limits), 20)
        if chance.random() < 0.6:
            limits[node] = chance.choice(_AMOUNTS)
            if chance.random() < 0.6 and above != -1:
                limits[node] = chance.randint(0, above)
        used[node] = chance.randint(0, 4) if chance.random() < 0.5 else 0
    return oracle.World(parents, limits, used, default)


def _above(parents, node):
    while (node := parents[node]) is not None:
        yield node


# A seed rather than st.randoms: the odds are ours then.
_CHANCES = st.integers(0, 2**64).map(random.Random)
_WORLDS = _CHANCES.map(_world)


def _limit_tree(world):
    return LimitTree(
        {key: Node(key, parent, is_domain=parent is None)
         for key, parent in world.parents.items()},
        {key: amounts.from_wire(limit) for key, limit in world.limits.items()},
        amounts.from_wire(world.default))


class TestClashes(base.TestCase):

    def compare(self, model, world, chance, **rules):
        of = _limit_tree(world)
        faults = oracle.faults(world, **rules)
        nodes = list(world.parents)
        some = chance.sample(nodes, chance.randint(0, len(nodes)))
        for changed in (nodes, some, *([node] for node in nodes)):
            expected = [about for about, concerned in faults if concerned & set(changed)]
            found = [{clash.node_id, clash.other_id} - {None}
                     for clash in model.clashes(of, changed)]
            # What is too much together is said of the node above and one of those below.
            for about in expected:
                self.assertTrue(any(about <= each for each in found), (changed, about))
            for each in found:
                self.assertTrue(any(about <= each for about in expected), (changed, each))
            self.assertEqual(len(expected), len(found), changed)

    @hypothesis.given(_WORLDS, _CHANCES)
    def test_flat(self, world, chance):
        self.assertEqual([], _FLAT.clashes(_limit_tree(world), list(world.parents)))

    @hypothesis.given(_WORLDS, _CHANCES)
    def test_strict_two_level(self, world, chance):
        self.compare(_STRICT, world, chance, to_default=True, deepest=3)

    @hypothesis.given(_WORLDS, _CHANCES)
    def test_tree(self, world, chance):
        self.compare(_TREE, world, chance)

    @hypothesis.given(_WORLDS, _CHANCES, st.sampled_from(list(_FACTORS)))
    def test_overcommit(self, world, chance, factor):
        self.compare(_OVERCOMMIT[factor], world, chance, factor=_FACTORS[factor])


class TestClaims(base.TestCase):

    def compare(self, model, world, **rules):
        of = _limit_tree(world)
        for node in world.parents:
            lineage = limit_trees.lineage(of, node)
            limits = {each.id: of.limits[each.id] for each in lineage if each.id in of.limits}
            found = model.bindings(lineage, limits, of.default)
            usages = {
                (each.node_id, each.scope): world.used[each.node_id] if each.scope == "own"
                else world.subtree_usage(each.node_id) for each in found}
            for delta in (0, 1, 3, 8):
                self.assertEqual(
                    oracle.fits(world, node, delta, **rules),
                    not model.judge("vcpus", found, usages, delta), (node, delta))

    @hypothesis.given(_WORLDS)
    def test_flat(self, world):
        self.compare(_FLAT, world, hierarchical=False)

    @hypothesis.given(_WORLDS)
    def test_strict_two_level(self, world):
        self.compare(_STRICT, world)

    @hypothesis.given(_WORLDS)
    def test_tree(self, world):
        self.compare(_TREE, world)

    @hypothesis.given(_WORLDS, st.sampled_from(list(_FACTORS)))
    def test_overcommit(self, world, factor):
        self.compare(_OVERCOMMIT[factor], world, factor=_FACTORS[factor])


class TestWorlds(base.TestCase):
    """The worlds are worth it: faults and valid trees, claims that fit and that do not."""

    def test_both_outcomes_are_frequent(self):
        chance = random.Random(0)
        worlds = [_world(chance) for _ in range(300)]
        valid = sum(not oracle.faults(each) for each in worlds if len(each.limits) > 2)
        faulty = sum(bool(oracle.faults(each)) for each in worlds)
        fitting = sum(oracle.fits(each, "n0", 1) for each in worlds)
        for count in (valid, faulty, fitting, len(worlds) - fitting):
            self.assertGreater(count, 30)
