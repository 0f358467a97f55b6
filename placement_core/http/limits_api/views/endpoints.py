"""/v3/endpoints, and /v3/endpoints/{id}."""

from __future__ import annotations

from typing import Any

from placement_core.catalog import endpoints
from placement_core.http import pages
from placement_core.http.limits_api import catalogs, representations
from placement_core.http.operations import Call, Reply
from placement_core.plugin_api.catalog import Endpoint


def list_(call: Call) -> Reply:
    """Return the endpoints of a service, a region and an interface."""
    records = call.services.catalog.endpoints(
        call.ctx, service_id=pages.get_last(call.query, "service_id"),
        region_id=pages.get_last(call.query, "region_id"),
        interface=pages.get_last(call.query, "interface"))
    return Reply(body=representations.render_list(
        call, "endpoints", records, representations.render_endpoint))


def show(call: Call) -> Reply:
    """Return one endpoint."""
    id_ = call.path["id"]
    return _reply(call, catalogs.require_found(
        "endpoint", id_, call.services.catalog.endpoint(call.ctx, id_)))


def create(call: Call) -> Reply:
    """Make an endpoint of a service."""
    body = _with_one_region(call.body["endpoint"])
    return _reply(call, endpoints.create(
        call.ctx, service_id=body["service_id"], interface=body["interface"],
        url=body["url"], region_id=body.get("region_id"),
        enabled=body.get("enabled", True)), 201)


def update(call: Call) -> Reply:
    """Change an endpoint."""
    return _reply(call, endpoints.update(
        call.ctx, call.path["id"], **_with_one_region(call.body["endpoint"])))


def delete(call: Call) -> Reply:
    """Remove an endpoint."""
    endpoints.delete(call.ctx, call.path["id"])
    return Reply(204)


def _with_one_region(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body in which the region has its newer name only."""
    if "region" not in body:
        return body
    older = body["region"]
    return {"region_id": older, **{
        name: value for name, value in body.items() if name != "region"}}


def _reply(call: Call, endpoint: Endpoint, status: int = 200) -> Reply:
    return Reply(status, representations.render_item(
        call, "endpoint", endpoint, representations.render_endpoint))
