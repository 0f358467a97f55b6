"""Checks with the enforcement model whether changed limits fit into their trees."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

import sqlalchemy as sa

from placement_core import amounts
from placement_core.db import Session, lists
from placement_core.limits import errors, regions, tables
from placement_core.limits.references import Forest
from placement_core.plugin_api.enforcement import Clash, EnforcementModel, LimitTree

_registered, _limits = tables.registered_limits, tables.limits

_SET = sa.select(
    _limits.c.registered_limit_id, _limits.c.node_id, _limits.c.resource_limit,
).where(
    lists.among_many(_limits.c.registered_limit_id, "registered_ids"),
    lists.among_many(_limits.c.node_id, "node_ids"))
_SET_OF_ALL = (
    sa.select(
        _limits.c.registered_limit_id, _limits.c.node_id, _limits.c.resource_limit,
        _registered.c.service_id, _registered.c.region_key, _registered.c.resource_name,
        _registered.c.default_limit,
    ).join(_registered, _registered.c.id == _limits.c.registered_limit_id)
    .where(lists.among_many(_limits.c.node_id, "node_ids"))
    .order_by(_limits.c.id))


@dataclasses.dataclass(frozen=True, slots=True)
class Resource:
    """A registered limit: its row's key, what identifies it, and its default."""

    registered_limit_id: int
    service_id: str
    region_id: str | None
    resource_name: str
    default_limit: int


def check(
    session: Session, model: EnforcementModel, forest: Forest,
    changes: Mapping[Resource, Mapping[str, int | None]],
) -> None:
    """Check that limits would fit into their trees after changes, with one statement.

    :param forest: the whole trees of the nodes in ``changes``.
    :param changes: {resource: {node id: its new limit; None: it is deleted}}.
    :raises errors.HierarchyClash: one does not fit.
    """
    stored: dict[int, dict[str, int]] = {
        resource.registered_limit_id: {} for resource in changes}
    for row in session.execute(_SET, {
            "registered_ids": sorted(stored), "node_ids": sorted(forest.nodes)}):
        stored[row.registered_limit_id][row.node_id] = row.resource_limit
    for resource, changed in changes.items():
        limits = {**stored[resource.registered_limit_id], **changed}
        values = {node_id: value for node_id, value in limits.items() if value is not None}
        _judge(model, forest, resource, values, changed.keys())


def check_moved(
    session: Session, model: EnforcementModel, forest: Forest, node_id: str
) -> None:
    """Check that limits fit into the tree that a node was moved to, with one statement.

    :param forest: the whole tree that the node is in now.
    :raises errors.HierarchyClash: one does not fit.
    """
    values: dict[Resource, dict[str, int]] = {}
    for row in session.execute(_SET_OF_ALL, {"node_ids": sorted(forest.nodes)}):
        resource = Resource(
            row.registered_limit_id, row.service_id, regions.id_(row.region_key),
            row.resource_name, row.default_limit)
        values.setdefault(resource, {})[row.node_id] = row.resource_limit
    for resource, limits in values.items():
        _judge(model, forest, resource, limits, [node_id])


def _judge(
    model: EnforcementModel, forest: Forest, resource: Resource, values: Mapping[str, int],
    changed: Collection[str],
) -> None:
    tree = LimitTree(
        forest.around([*values, *changed]),
        {node_id: amounts.from_wire(value) for node_id, value in values.items()},
        amounts.from_wire(resource.default_limit))
    for clash in model.clashes(tree, changed):
        raise _refusal(resource, values, clash)


def _refusal(
    resource: Resource, values: Mapping[str, int], clash: Clash
) -> errors.HierarchyClash:
    other = resource.default_limit if clash.other_id is None else values.get(clash.other_id)
    return errors.HierarchyClash(
        resource_name=resource.resource_name, service_id=resource.service_id,
        region_id=resource.region_id, node_id=clash.node_id, value=values.get(clash.node_id),
        other_id=clash.other_id, other_value=other, reason=clash.reason)
