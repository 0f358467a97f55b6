"""/v3/registered_limits, and /v3/registered_limits/{id}."""

from __future__ import annotations

from placement_core.http.limits_api import queries, representations
from placement_core.http.operations import Call, Reply
from placement_core.limits import registered
from placement_core.limits.records import RegisteredLimit


def list_(call: Call) -> Reply:
    """Return the registered limits that pass every filter of the query."""
    page = call.parse_cut_page()
    records = registered.list_(
        call.ctx, queries.parse_filters(call.query, queries.REGISTERED_FIELDS),
        marker=page.marker, limit=page.size_to_read)
    return Reply(body=representations.render_list(
        call, "registered_limits", records, representations.render_registered_limit, page))


def create(call: Call) -> Reply:
    """Register resources, all or nothing."""
    created = registered.create_many(
        call.ctx, call.services.catalog, call.body["registered_limits"])
    return Reply(201, representations.render_created(
        call, "registered_limits", created, representations.render_registered_limit))


def show(call: Call) -> Reply:
    """Return one registered limit."""
    return _reply(call, registered.get(call.ctx, call.path["id"]))


def update(call: Call) -> Reply:
    """Change a registered limit that no limit refers to."""
    return _reply(call, registered.update(
        call.ctx, call.services.catalog, call.path["id"], call.body["registered_limit"]))


def delete(call: Call) -> Reply:
    """Delete a registered limit that no limit refers to."""
    registered.delete(call.ctx, call.path["id"])
    return Reply(204)


def _reply(call: Call, registered_limit: RegisteredLimit) -> Reply:
    return Reply(body=representations.render_item(
        call, "registered_limit", registered_limit, representations.render_registered_limit))
