"""Limits over a tree of projects: what the hierarchical models share.

Trees may be damaged. The way up from a node ends at a parent that is missing, and
where a loop closes; so each node of a loop is below the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.plugin_api.catalog import Node
from placement_core.plugin_api.enforcement import Binding, Clash, LimitTree


def upwards(tree: LimitTree, node_id: str) -> Iterator[str]:
    """Yield a node and those above it, the nearest first; the ids alone."""
    passed: set[str] = set()
    above: str | None = node_id
    while above is not None and above not in passed:
        yield above
        passed.add(above)
        node = tree.nodes.get(above)
        above = None if node is None else node.parent_id


def pairs(tree: LimitTree, changed: Collection[str]) -> Iterator[tuple[str, str | None]]:
    """Yield each node with a limit, and the nearest node above it that has one.

    Left out are pairs that ``changed`` has nothing to do with: it holds neither
    of the two nor a node between them. (A node between has just lost its limit,
    or was moved: the two did not face each other before.)

    :returns: (node id, id of the node above; None: none has a limit).
    """
    changed = frozenset(changed)
    for node_id in tree.limits:
        above_id = None
        concerned = False
        for each in upwards(tree, node_id):
            concerned = concerned or each in changed
            if each != node_id and each in tree.limits:
                above_id = each
                break
        if concerned:
            yield node_id, above_id


def too_high(tree: LimitTree, changed: Collection[str]) -> list[Clash]:
    """Return the limits that are more than the nearest one above them."""
    return [
        _between(node_id, above_id, changed, (
            f"The limit of {title(tree, node_id)} ({said(tree.limits[node_id])}) is more than "
            f"that of {title(tree, above_id)} above it ({said(tree.limits[above_id])})."))
        for node_id, above_id in pairs(tree, changed)
        if above_id is not None and tree.limits[node_id] > tree.limits[above_id]]


def too_high_together(
    tree: LimitTree, changed: Collection[str], allowed: Mapping[str, Amount]
) -> list[Clash]:
    """Return where the limits next below a node are together more than it allows.

    :param allowed: {node id: how much}, for each node that has a limit.
    """
    below: dict[str, list[str]] = {}
    for node_id, above_id in pairs(tree, tree.limits):
        if above_id is not None:
            below.setdefault(above_id, []).append(node_id)
    found = []
    concerned = dict.fromkeys(above_id for _, above_id in pairs(tree, changed))
    for above_id in filter(None, concerned):
        total = sum(tree.limits[each] for each in below[above_id])
        if total > allowed[above_id]:
            # Of so many, the one to speak of: about to change, or else the highest.
            node_id = max(below[above_id], key=lambda each: (
                each in changed, tree.limits[each], each))
            found.append(_between(node_id, above_id, changed, (
                f"The limits next below {title(tree, above_id)} are {said(total)} together, "
                f"that of {title(tree, node_id)} ({said(tree.limits[node_id])}) included; its "
                f"own ({said(tree.limits[above_id])}) allows {said(allowed[above_id])}.")))
    return found


def too_deep(tree: LimitTree, changed: Collection[str], max_depth: int) -> list[Clash]:
    """Return the changed limits of nodes that are deeper than ``max_depth``."""
    levels = {each: sum(1 for _ in upwards(tree, each)) for each in tree.limits if each in changed}
    return [
        Clash(node_id, None, (
            f"There can be no limit for {title(tree, node_id)}: it is at level {level} of its "
            f"tree, and the enforcement model reads {max_depth}."))
        for node_id, level in levels.items() if level > max_depth]


def bindings(
    lineage: Sequence[Node], limits: Mapping[str, Amount], default: Amount
) -> list[Binding]:
    """Return the project's own limit or the default, and every limit set above it.

    What was set for a node is for its whole subtree; the default is for what the
    project uses itself.
    """
    project_id = lineage[-1].id
    found = [Binding(each.id, limits[each.id], "subtree", "set")
             for each in reversed(lineage) if each.id in limits]
    if project_id not in limits:
        found.insert(0, Binding(project_id, default, "own", "default"))
    return [each for each in found if each.limit != amounts.UNLIMITED]


def title(tree: LimitTree, node_id: str) -> str:
    """Return what people call a node."""
    node = tree.nodes.get(node_id)
    return f"{'domain' if node is not None and node.is_domain else 'project'} {node_id}"


def said(amount: Amount) -> str:
    """Return an amount in words."""
    return "unlimited" if amount == amounts.UNLIMITED else str(amount)


def _between(node_id: str, above_id: str, changed: Collection[str], reason: str) -> Clash:
    """Return a clash of two nodes; the one that changes is named first."""
    if above_id in changed and node_id not in changed:
        return Clash(above_id, node_id, reason)
    return Clash(node_id, above_id, reason)
