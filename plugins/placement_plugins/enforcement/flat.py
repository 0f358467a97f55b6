"""The model ``flat``: limits of projects are independent of each other.

Source: Keystone's and oslo.limit's model of the same name, spec limits §3 and §4.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.plugin_api.catalog import Node
from placement_core.plugin_api.enforcement import Binding, Clash, EnforcementModel, LimitTree


class Flat(EnforcementModel):
    """Binds the own usage of a project by its limit, or by the default if it has none."""

    api_version = 1
    name = "flat"
    description = "Each project has its own limit; where it stands in a tree does not matter."

    def clashes(self, tree: LimitTree, changed: Collection[str]) -> list[Clash]:
        """Return no clashes: any limits are consistent."""
        return []

    def bindings(
        self, lineage: Sequence[Node], limits: Mapping[str, Amount], default: Amount
    ) -> list[Binding]:
        """Return the project's own limit, or else the default."""
        project_id = lineage[-1].id
        limit = limits.get(project_id, default)
        if limit == amounts.UNLIMITED:
            return []
        return [Binding(project_id, limit, "own", "set" if project_id in limits else "default")]
