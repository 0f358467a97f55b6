"""Foresee which limits would not fit into their trees, by the enforcement model. Pure."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from placement_core import amounts
from placement_core.limits.errors import HierarchyClash
from placement_core.plugin_api.catalog import Node
from placement_core.plugin_api.enforcement import Clash, EnforcementModel, LimitTree

#: (id of the service, id of the region, name of the resource).
Resource = tuple[str, str | None, str]


@dataclasses.dataclass(frozen=True, slots=True)
class NodeLimit:
    """A limit of a project or a domain.

    :ivar value: as the APIs spell it.
    """

    id: str
    resource: Resource
    node_id: str
    value: int


def find_clashes(
    model: EnforcementModel, nodes: Mapping[str, Node], defaults: Mapping[Resource, int],
    limits: Iterable[NodeLimit], new: Sequence[NodeLimit],
) -> dict[str, str]:
    """Return which limits would be refused, with the reason: {id: reason}.

    Those of one resource that clash with nothing go first; then each of the others is added, in
    its order, if it clashes with none before it.

    :param nodes: of the whole catalog, as it will be.
    :param defaults: of the registered limits, as they will be.
    :param limits: all that are here and stay as they are.
    :param new: those that are created or changed.
    """
    stored: dict[Resource, dict[str, int]] = collections.defaultdict(dict)
    for limit in limits:
        stored[limit.resource][limit.node_id] = limit.value
    wanted: dict[Resource, list[NodeLimit]] = collections.defaultdict(list)
    for limit in new:
        if limit.resource in defaults:
            wanted[limit.resource].append(limit)
    reasons: dict[str, str] = {}
    for resource, of_resource in wanted.items():
        tree = _Tree(model, nodes, resource, defaults[resource], stored[resource])
        reasons.update(tree.add(of_resource))
    return reasons


class _Tree:
    """The limits of one resource, as far as they are decided."""

    def __init__(
        self, model: EnforcementModel, nodes: Mapping[str, Node], resource: Resource,
        default: int, values: Mapping[str, int],
    ) -> None:
        self._model = model
        self._nodes = nodes
        self._resource = resource
        self._default = default
        self._values = dict(values)

    def add(self, new: Sequence[NodeLimit]) -> dict[str, str]:
        """Add limits that fit; return why the others do not."""
        clashes = self._find({limit.node_id: limit.value for limit in new})
        if not clashes:
            return {}
        involved = {node_id for clash in clashes for node_id in (clash.node_id, clash.other_id)}
        self._values.update({
            limit.node_id: limit.value for limit in new if limit.node_id not in involved})
        reasons = {}
        for limit in new:
            if limit.node_id not in involved:
                continue
            change = {limit.node_id: limit.value}
            if of_limit := self._find(change):
                reasons[limit.id] = self._describe(of_limit[0], {**self._values, **change})
            else:
                self._values.update(change)
        return reasons

    def _find(self, changes: Mapping[str, int]) -> list[Clash]:
        return self._model.clashes(LimitTree(
            self._nodes, {node_id: amounts.from_wire(value)
                          for node_id, value in {**self._values, **changes}.items()},
            amounts.from_wire(self._default)), changes)

    def _describe(self, clash: Clash, values: Mapping[str, int]) -> str:
        service_id, region_id, resource_name = self._resource
        return str(HierarchyClash(
            resource_name=resource_name, service_id=service_id, region_id=region_id,
            node_id=clash.node_id, value=values.get(clash.node_id), other_id=clash.other_id,
            other_value=None, reason=clash.reason))
