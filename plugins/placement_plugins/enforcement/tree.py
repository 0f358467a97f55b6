"""The model ``tree``: limits in trees of any depth."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from placement_core.amounts import Amount
from placement_core.plugin_api.catalog import Node
from placement_core.plugin_api.enforcement import Binding, Clash, EnforcementModel, LimitTree
from placement_plugins.enforcement import ancestry


class Tree(EnforcementModel):
    """Compares a limit with the nearest limit above it; without one, any limit is allowed."""

    api_version = 1
    name = "tree"
    description = (
        "Trees of any depth: no limit is above the nearest one over it, and what a node and "
        "those below it use together stays within the node's limit."
    )
    hierarchical = True

    def clashes(self, tree: LimitTree, changed: Collection[str]) -> list[Clash]:
        """Return the limits that exceed the nearest limit above them."""
        return ancestry.find_too_high(tree, changed)

    def bindings(
        self, lineage: Sequence[Node], limits: Mapping[str, Amount], default: Amount
    ) -> list[Binding]:
        """Return the project's limit, or else the default, and the limits above it."""
        return ancestry.bindings(lineage, limits, default)
