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


def tag(call: Call) -> ETag | None:
    """Return the tag of the answer; None where another service keeps a part of it."""
    services = call.services
    if not (services.limits.transactional and services.catalog.local):
        return None
    query = [
        f"{name}={pages.get_last(call.query, name)}"
        for name in ("service_id", "region_id", "project_id")]
    return ETag(
        ("effective", services.conf.limits.enforcement_model, *query), of_limits=True)


def show(call: Call) -> Reply:
    """Return the limits of a service in a region that matter to a project.

    ``subtrees`` has the projects whose usage counts together, for each node of the
    lineage that the model binds with its subtree.
    """
    services = call.services
    project_id = pages.get_last(call.query, "project_id")
    lineage = _read_lineage(call, project_id)
    effective = services.limits.effective(
        call.ctx, [node.id for node in lineage],
        service_id=call.query["service_id"][-1],
        region_id=pages.get_last(call.query, "region_id"))
    limits = {
        node.id: _to_wire(effective.overrides[node.id])
        for node in lineage if effective.overrides.get(node.id)}
    bound = _find_bound(services.model, lineage, effective)
    return Reply(body={
        "model": services.model.name,
        "lineage": [
            {"id": node.id, "parent_id": node.parent_id, "is_domain": node.is_domain}
            for node in lineage],
        "defaults": _to_wire(effective.defaults),
        "limits": limits,
        "subtrees": _read_subtrees(call, [node.id for node in lineage if node.id in bound]),
    })


def _read_lineage(call: Call, project_id: str | None) -> Sequence[Node]:
    if project_id is None:
        return ()
    return call.services.catalog.lineage(call.ctx, project_id)


def _find_bound(
    model: EnforcementModel, lineage: Sequence[Node], effective: EffectiveLimits
) -> set[str]:
    """Return the nodes of which some limit binds the whole subtree."""
    if not lineage:
        return set()
    return {
        binding.node_id
        for name, default in effective.defaults.items()
        for binding in model.bindings(
            lineage, {node_id: limits[name] for node_id, limits in effective.overrides.items()
                      if name in limits}, default)
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


def _to_wire(values: Mapping[str, Amount]) -> dict[str, int]:
    return {name: amounts.to_wire(amount) for name, amount in values.items()}
