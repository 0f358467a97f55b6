"""/v1/leases, and /v1/leases/{id}."""

from __future__ import annotations

from typing import Any

import orjson

from placement_core.http import pages
from placement_core.http.leases_api import owners, policies, queries, representations, requests
from placement_core.http.operations import Call, Reply
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.leases.rendered_cache import RenderedLeases


def list_(call: Call) -> Reply:
    """Return the leases that the caller may see and that match all filters of the query."""
    query, page = call.query, call.parse_cut_page()
    sort_key, descending = queries.parse_order(query)
    documents = RenderedLeases(representations.LEASE, call.services.lease_texts).page(
        call.ctx,
        project_id=owners.get_visible_project(
            call, policies.LEASES_GET, policies.LEASES_GET_ALL,
            pages.get_last(query, "project_id")),
        status=pages.get_last(query, "status"), name=pages.get_last(query, "name"),
        host_id=queries.parse_number(query, "host"), overlaps=queries.parse_window(query),
        sort_key=sort_key, descending=descending, after=page.marker, limit=page.size_to_read)
    body: dict[str, Any] = {"leases": [orjson.Fragment(text) for _, text in documents[:page.size]]}
    if page.size is not None and len(documents) > page.size:
        body["leases_links"] = [{"rel": "next", "href": pages.make_next_url(
            f"{call.prefix}/v1/leases", call.query, documents[page.size - 1][0])}]
    return Reply(body=body)


def create(call: Call) -> Reply:
    """Create a lease."""
    new = requests.parse_new_lease(call.body, call.ctx.identity, policies.LEASES_POST)
    lease = call.services.leases.create(call.ctx, new)
    return Reply(201, {"lease": representations.render_lease(lease)})


def show(call: Call) -> Reply:
    """Return a lease, if the caller may see it."""
    lease = lease_queries.get(
        call.ctx, call.path["id"],
        project_id=owners.get_visible_project(call, policies.LEASES_GET, policies.LEASES_GET_ALL))
    return Reply(body={"lease": representations.render_lease(lease)})


def update(call: Call) -> Reply:
    """Change a lease."""
    changed = call.services.leases.change(
        call.ctx, call.path["id"], requests.parse_lease_change(call.body),
        project_id=owners.get_visible_project(call, policies.LEASES_PUT, policies.LEASES_PUT_ALL))
    return Reply(body={"lease": representations.render_lease(changed)})


def delete(call: Call) -> Reply:
    """Delete a lease; end it first if it is in force."""
    call.services.leases.delete(
        call.ctx, call.path["id"],
        project_id=owners.get_visible_project(
            call, policies.LEASES_DELETE, policies.LEASES_DELETE_ALL))
    return Reply(204)
