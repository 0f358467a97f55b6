"""The model ``strict_two_level``: domains, their projects, and one more level.

Source: Keystone's model of the same name, spec limits §3. Differs: -1 is greater than every
number (B5, B6), 0 is a limit (B4), the limit of a project below a project is compared with that
of its parent project (B7), and claims are checked (B13).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from placement_core.amounts import Amount
from placement_core.plugin_api.catalog import Node
from placement_core.plugin_api.enforcement import Binding, Clash, EnforcementModel, LimitTree
from placement_plugins.enforcement import ancestry


class StrictTwoLevel(EnforcementModel):
    """Compares a limit with the nearest limit above it or, if there is none, with the default.

    A root may have any limit, so a project can get more than the default once its domain has
    more. The sum of the limits below a node may exceed the node's limit; the usage may not.
    """

    api_version = 1
    name = "strict_two_level"
    description = (
        "A domain and two levels of projects: no limit is above the nearest one over it, and "
        "what a node and those below it use together stays within the node's limit."
    )
    hierarchical = True
    max_depth = 3

    def clashes(self, tree: LimitTree, changed: Collection[str]) -> list[Clash]:
        """Return the limits that are too high, and those that are on too deep a level."""
        return [
            *ancestry.find_too_deep(tree, changed, self.max_depth),
            *ancestry.find_too_high(tree, changed),
            *_find_above_default(tree, changed),
        ]

    def bindings(
        self, lineage: Sequence[Node], limits: Mapping[str, Amount], default: Amount
    ) -> list[Binding]:
        """Return the project's limit, or else the default, and the limits above it."""
        return ancestry.bindings(lineage, limits, default)


def _find_above_default(tree: LimitTree, changed: Collection[str]) -> list[Clash]:
    return [
        Clash(node_id, None, (
            f"The limit of {ancestry.title(tree, node_id)} "
            f"({ancestry.describe(tree.limits[node_id])}) is more than the registered default "
            f"({ancestry.describe(tree.default)}), and nothing above it has a limit."))
        for node_id, above_id in ancestry.find_pairs(tree, changed)
        if above_id is None and not _is_root(tree, node_id)
        and tree.limits[node_id] > tree.default]


def _is_root(tree: LimitTree, node_id: str) -> bool:
    node = tree.nodes.get(node_id)
    return node is not None and node.parent_id is None
