"""The model ``flat``: every project stands alone.

Source: Keystone's and oslo.limit's model of the same name, spec limits §3 and §4.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.plugin_api.catalog import Node
from placement_core.plugin_api.enforcement import Binding, Clash, EnforcementModel, LimitTree


class Flat(EnforcementModel):
    """Binds what a project uses itself by its own limit, or else by the default."""

    api_version = 1
    name = "flat"
    description = "Each project has its own limit; where it stands in a tree does not matter."

    def clashes(self, tree: LimitTree, changed: Collection[str]) -> list[Clash]:
        """Return nothing: limits do not know of one another."""
        return []

    def bindings(
        self, lineage: Sequence[Node], limits: Mapping[str, Amount], default: Amount
    ) -> list[Binding]:
        """Return the bound of the project itself."""
        project_id = lineage[-1].id
        limit = limits.get(project_id, default)
        if limit == amounts.UNLIMITED:
            return []
        return [Binding(project_id, limit, "own", "set" if project_id in limits else "default")]
