"""Functions on limits in a tree of projects, which the hierarchical models share.

Trees may be damaged. The ancestors of a node end at a parent that is missing, and where a loop
closes; so each node of a loop is a descendant of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.plugin_api.catalog import Node
from placement_core.plugin_api.enforcement import Binding, Clash, LimitTree


def walk_up(tree: LimitTree, node_id: str) -> Iterator[str]:
    """Yield the ids of a node and its ancestors, upwards."""
    passed: set[str] = set()
    current_id: str | None = node_id
    while current_id is not None and current_id not in passed:
        yield current_id
        passed.add(current_id)
        node = tree.nodes.get(current_id)
        current_id = None if node is None else node.parent_id


def find_pairs(tree: LimitTree, changed: Collection[str]) -> Iterator[tuple[str, str | None]]:
    """Yield each node with a limit, and its nearest ancestor with a limit.

    Pairs are left out if neither of the two nodes, nor a node between them, is in ``changed``.
    (A node between them has lost its limit or was moved, so the two are a new pair.)

    :returns: pairs of ids; the second is None if no ancestor has a limit.
    """
    changed = frozenset(changed)
    for node_id in tree.limits:
        above_id = None
        concerned = False
        for ancestor_id in walk_up(tree, node_id):
            concerned = concerned or ancestor_id in changed
            if ancestor_id != node_id and ancestor_id in tree.limits:
                above_id = ancestor_id
                break
        if concerned:
            yield node_id, above_id


def find_too_high(tree: LimitTree, changed: Collection[str]) -> list[Clash]:
    """Return the limits that exceed the nearest limit above them."""
    return [
        _make_clash(node_id, above_id, changed, (
            f"The limit of {title(tree, node_id)} ({describe(tree.limits[node_id])}) is more than "
            f"that of {title(tree, above_id)} above it ({describe(tree.limits[above_id])})."))
        for node_id, above_id in find_pairs(tree, changed)
        if above_id is not None and tree.limits[node_id] > tree.limits[above_id]]


def find_sums_too_high(
    tree: LimitTree, changed: Collection[str], allowed: Mapping[str, Amount]
) -> list[Clash]:
    """Return a clash for each node where the sum of the nearest limits below is too high.

    :param allowed: {node id: the allowed sum}, for each node that has a limit.
    """
    below: dict[str, list[str]] = {}
    for node_id, above_id in find_pairs(tree, tree.limits):
        if above_id is not None:
            below.setdefault(above_id, []).append(node_id)
    clashes = []
    parent_ids = dict.fromkeys(above_id for _, above_id in find_pairs(tree, changed))
    for above_id in filter(None, parent_ids):
        total = sum(tree.limits[child_id] for child_id in below[above_id])
        if total > allowed[above_id]:
            # The clash names one of these limits: the highest that changes, if one does.
            node_id = max(below[above_id], key=lambda child_id: (
                child_id in changed, tree.limits[child_id], child_id))
            clashes.append(_make_clash(node_id, above_id, changed, (
                f"The limits next below {title(tree, above_id)} are {describe(total)} together, "
                f"that of {title(tree, node_id)} ({describe(tree.limits[node_id])}) included; its "
                f"own ({describe(tree.limits[above_id])}) allows {describe(allowed[above_id])}.")))
    return clashes


def find_too_deep(tree: LimitTree, changed: Collection[str], max_depth: int) -> list[Clash]:
    """Return the changed limits of nodes that are deeper than ``max_depth``."""
    levels = {node_id: sum(1 for _ in walk_up(tree, node_id))
              for node_id in tree.limits if node_id in changed}
    return [
        Clash(node_id, None, (
            f"There can be no limit for {title(tree, node_id)}: it is at level {level} of its "
            f"tree, and the enforcement model reads {max_depth}."))
        for node_id, level in levels.items() if level > max_depth]


def bindings(
    lineage: Sequence[Node], limits: Mapping[str, Amount], default: Amount
) -> list[Binding]:
    """Return the project's own limit or the default, and the limits of its ancestors.

    A limit that is set applies to the usage of the node's whole subtree, the default to the own
    usage of the project.
    """
    project_id = lineage[-1].id
    bound = [Binding(node.id, limits[node.id], "subtree", "set")
             for node in reversed(lineage) if node.id in limits]
    if project_id not in limits:
        bound.insert(0, Binding(project_id, default, "own", "default"))
    return [binding for binding in bound if binding.limit != amounts.UNLIMITED]


def title(tree: LimitTree, node_id: str) -> str:
    """Return the kind and id of a node, for messages."""
    node = tree.nodes.get(node_id)
    return f"{'domain' if node is not None and node.is_domain else 'project'} {node_id}"


def describe(amount: Amount) -> str:
    """Return an amount in words."""
    return "unlimited" if amount == amounts.UNLIMITED else str(amount)


def _make_clash(node_id: str, above_id: str, changed: Collection[str], reason: str) -> Clash:
    """Return a clash of two nodes; the one that changes is named first."""
    if above_id in changed and node_id not in changed:
        return Clash(above_id, node_id, reason)
    return Clash(node_id, above_id, reason)
