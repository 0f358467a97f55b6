"""Trees of limits as the tables of cases write them."""

from __future__ import annotations

from placement_core import amounts
from placement_core.plugin_api.catalog import Node
from placement_core.plugin_api.enforcement import LimitTree


def tree(nodes, *, default):
    """Return a tree of limits.

    :param nodes: {id: (parent id, limit as the API spells it; None: none set)}; a node
        without a parent is a domain.
    :param default: the registered default, as the API spells it.
    """
    return LimitTree(
        {key: Node(key, parent, is_domain=parent is None) for key, (parent, _) in nodes.items()},
        {key: amounts.from_wire(limit) for key, (_, limit) in nodes.items() if limit is not None},
        amounts.from_wire(default))


def lineage(of, node_id):
    """Return a node of a tree and those above it, the root first."""
    node = of.nodes[node_id]
    above = () if node.parent_id is None else lineage(of, node.parent_id)
    return (*above, node)


def clashing(model, of, changed):
    """Return what clashes: (node, other), in no order."""
    return sorted(
        ((clash.node_id, clash.other_id) for clash in model.clashes(of, changed)), key=str)


def bounds(model, of, node_id):
    """Return what binds a claim of a node: (node, amount, scope, source)."""
    return [(each.node_id, each.limit, each.scope, each.source)
            for each in model.bindings(lineage(of, node_id), of.limits, of.default)]


def refused(model, of, node_id, usages, delta):
    """Return the bounds that a claim breaks: (node, amount, usage).

    :param usages: {(node, scope): amount}.
    """
    found = model.bindings(lineage(of, node_id), of.limits, of.default)
    return [(each.binding.node_id, each.binding.limit, each.usage)
            for each in model.judge("vcpus", found, usages, delta)]
