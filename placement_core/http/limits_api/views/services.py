"""/v3/services, and /v3/services/{id}."""

from __future__ import annotations

from placement_core.catalog import services
from placement_core.http import pages
from placement_core.http.limits_api import catalogs, representations
from placement_core.http.operations import Call, Reply
from placement_core.limits import cleanup
from placement_core.plugin_api.catalog import Service


def list_(call: Call) -> Reply:
    """Return the services of a type and a name."""
    records = call.services.catalog.services(
        call.ctx, service_type=pages.get_last(call.query, "type"),
        name=pages.get_last(call.query, "name"))
    return Reply(body=representations.render_list(
        call, "services", records, representations.render_service))


def show(call: Call) -> Reply:
    """Return one service."""
    id_ = call.path["id"]
    return _reply(call, catalogs.require_found(
        "service", id_, call.services.catalog.service(call.ctx, id_)))


def create(call: Call) -> Reply:
    """Make a service."""
    body = call.body["service"]
    return _reply(call, services.create(
        call.ctx, service_type=body["type"], name=body.get("name", ""),
        description=body.get("description") or "", enabled=body.get("enabled", True)), 201)


def update(call: Call) -> Reply:
    """Change a service."""
    return _reply(call, services.update(
        call.ctx, call.path["id"], **catalogs.parse_changes(call.body["service"])))


def delete(call: Call) -> Reply:
    """Remove a service, its endpoints and its limits."""
    cleanup.delete_service(call.ctx, call.path["id"])
    return Reply(204)


def _reply(call: Call, service: Service, status: int = 200) -> Reply:
    return Reply(status, representations.render_item(
        call, "service", service, representations.render_service))
