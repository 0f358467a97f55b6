"""GET /capacity/v1/limits/effective: all limits that a claim of a project is checked against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.http import pages
from placement_core.http.conditional import ETag
from placement_core.http.operations import Call, Reply
from placement_core.plugin_api.catalog import Node
from placement_core.plugin_api.enforcement import EnforcementModel
from placement_core.plugin_api.limits import EffectiveLimits
from placement_core.quota import limit_sources

#: How often everything is read again if the project moves between two reads.
_MOST_REPEATS = 2


def tag(call: Call) -> ETag | None:
    """Return the tag of the answer; None where another service keeps a part of it."""
    services = call.services
    if not (services.limits.transactional and services.catalog.local):
        return None
    # What was left out is no part: "region_id=None" means a region of that name.
    query = [
        f"{name}={call.query[name][-1]}"
        for name in ("service_id", "region_id", "project_id") if name in call.query]
    return ETag(
        ("effective", services.conf.limits.enforcement_model, *query), of_limits=True)


def show(call: Call) -> Reply:
    """Return the limits of a service in a region that matter to a project.

    ``subtrees`` has the projects whose usage counts together, for each node of the
    lineage that the model binds with its subtree; each of them has the project.
    """
    lineage, effective, subtrees = _read(call, pages.get_last(call.query, "project_id"))
    limits = {
        node.id: _to_wire(effective.overrides[node.id])
        for node in lineage if effective.overrides.get(node.id)}
    return Reply(body={
        "model": call.services.model.name,
        "lineage": [
            {"id": node.id, "parent_id": node.parent_id, "is_domain": node.is_domain}
            for node in lineage],
        "defaults": _to_wire(effective.defaults),
        "limits": limits,
        "subtrees": subtrees,
    })


def _read(
    call: Call, project_id: str | None, repeats: int = _MOST_REPEATS
) -> tuple[Sequence[Node], EffectiveLimits, dict[str, list[str]]]:
    """Return the lineage of a project, its limits, and the subtrees that are bound.

    :param repeats: how often to read again if the project moves between two reads.
    """
    services = call.services
    lineage = () if project_id is None else services.catalog.lineage(call.ctx, project_id)
    effective = services.limits.effective(
        call.ctx, [node.id for node in lineage],
        service_id=call.query["service_id"][-1],
        region_id=pages.get_last(call.query, "region_id"))
    bound = _find_bound(services.model, lineage, effective)
    subtrees = _read_subtrees(call, [node.id for node in lineage if node.id in bound])
    incomplete = _find_incomplete(lineage, subtrees)
    if incomplete and repeats and services.catalog.local:
        return _read(call, project_id, repeats - 1)
    for project_ids in incomplete:
        # It moves again and again, or the catalog, which is kept elsewhere, was asked for the
        # subtree long before.
        project_ids.append(lineage[-1].id)
    return lineage, effective, subtrees


def _find_bound(
    model: EnforcementModel, lineage: Sequence[Node], effective: EffectiveLimits
) -> set[str]:
    """Return the nodes of which some limit binds the whole subtree."""
    if not lineage:
        return set()
    return {
        binding.node_id
        for name in limit_sources.list_limited_resources(effective)
        for binding in model.bindings(
            lineage, {node_id: limits[name] for node_id, limits in effective.overrides.items()
                      if name in limits}, effective.defaults.get(name, 0))
        if binding.scope == "subtree"}


def _read_subtrees(call: Call, bound: Sequence[str]) -> dict[str, list[str]]:
    """Return {node: projects of its subtree} of some nodes of a lineage, the root first.

    The highest one's subtree holds the others: the catalog is asked once.
    """
    if not bound:
        return {}
    bound_ancestors: dict[str, list[str]] = {}
    subtrees: dict[str, list[str]] = {id_: [] for id_ in bound}
    # Parents come before children, so that a node's ancestors are known.
    for node in call.services.catalog.subtree(call.ctx, bound[0]):
        ancestors = bound_ancestors.get(node.parent_id or "", [])
        if node.id in subtrees:
            ancestors = [*ancestors, node.id]
        bound_ancestors[node.id] = ancestors
        if not node.is_domain:
            for id_ in ancestors:
                subtrees[id_].append(node.id)
    return subtrees


def _find_incomplete(
    lineage: Sequence[Node], subtrees: Mapping[str, list[str]]
) -> list[list[str]]:
    """Return the subtrees that lack the project, although they are of nodes of its lineage."""
    if not lineage or lineage[-1].is_domain:
        return []
    return [project_ids for project_ids in subtrees.values()
            if lineage[-1].id not in project_ids]


def _to_wire(values: Mapping[str, Amount]) -> dict[str, int]:
    return {name: amounts.to_wire(amount) for name, amount in values.items()}
