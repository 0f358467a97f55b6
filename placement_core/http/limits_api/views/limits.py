"""/v3/limits, /v3/limits/{id} and /v3/limits/model."""

from __future__ import annotations

from placement_core.http import pages
from placement_core.http.errors import NotAllowed
from placement_core.http.limits_api import policies, queries, representations, visibility
from placement_core.http.operations import Call, Reply
from placement_core.limits import limits
from placement_core.limits.records import Limit


def model(call: Call) -> Reply:
    """Return the enforcement model that clients are told of."""
    return Reply(body=representations.render_model(call.services.advertised_model))


def list_(call: Call) -> Reply:
    """Return the limits that the caller sees and that pass every filter of the query."""
    page = call.parse_cut_page()
    visible = visibility.list_visible(
        call, visibility.get_visibility_of_limits(call), pages.get_last(call.query, "project_id"))
    records = limits.list_(
        call.ctx, queries.parse_filters(call.query, queries.LIMIT_FIELDS), visible=visible,
        marker=page.marker, limit=page.size_to_read)
    return Reply(body=representations.render_list(
        call, "limits", records, representations.render_limit, page))


def create(call: Call) -> Reply:
    """Set limits of projects and domains, all or nothing."""
    services = call.services
    created = limits.create_many(
        call.ctx, services.catalog, services.model, call.body["limits"])
    return Reply(201, representations.render_created(
        call, "limits", created, representations.render_limit))


def show(call: Call) -> Reply:
    """Return one limit, if the caller may see it."""
    limit = limits.get(call.ctx, call.path["id"])
    if not visibility.can_see(call, visibility.get_visibility_of_limits(call),
                              limit.project_id or limit.domain_id):
        raise NotAllowed(policies.GET_LIMIT)
    return _reply(call, limit)


def update(call: Call) -> Reply:
    """Change the value or the description of a limit."""
    services = call.services
    return _reply(call, limits.update(
        call.ctx, services.catalog, services.model, call.path["id"], call.body["limit"]))


def delete(call: Call) -> Reply:
    """Remove a limit: the registered default holds again."""
    services = call.services
    limits.delete(call.ctx, services.catalog, services.model, call.path["id"])
    return Reply(204)


def _reply(call: Call, limit: Limit) -> Reply:
    return Reply(body=representations.render_item(
        call, "limit", limit, representations.render_limit))
