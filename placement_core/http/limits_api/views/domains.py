"""/v3/domains, and /v3/domains/{id}."""

from __future__ import annotations

import functools

from placement_core.catalog import domains
from placement_core.http import pages
from placement_core.http.errors import NotAllowed
from placement_core.http.limits_api import catalogs, policies, representations, visibility
from placement_core.http.operations import Call, Reply
from placement_core.limits import cleanup
from placement_core.plugin_api.catalog import Domain


def list_(call: Call) -> Reply:
    """Return the domains that the caller sees and that pass the filters of the query."""
    catalog = call.services.catalog
    records = catalog.domains(call.ctx, name=pages.get_last(call.query, "name"))
    return catalogs.reply_list(
        call, "domains", records, functools.partial(catalog.domain, call.ctx),
        representations.render_domain)


def show(call: Call) -> Reply:
    """Return one domain, if the caller may see it."""
    id_ = call.path["id"]
    domain = catalogs.require_found("domain", id_, call.services.catalog.domain(call.ctx, id_))
    if not visibility.can_see(call, visibility.get_visibility(call), id_):
        raise NotAllowed(policies.GET_DOMAIN)
    return _reply(call, domain)


def create(call: Call) -> Reply:
    """Make a domain."""
    body = call.body["domain"]
    return _reply(call, domains.create(
        call.ctx, name=body["name"], description=body.get("description") or "",
        enabled=body.get("enabled", True)), 201)


def update(call: Call) -> Reply:
    """Change a domain; one that is to be deleted is disabled first."""
    return _reply(call, domains.update(
        call.ctx, call.path["id"], **catalogs.parse_changes(call.body["domain"])))


def delete(call: Call) -> Reply:
    """Remove a disabled domain, its projects and their limits."""
    cleanup.delete_domain(call.ctx, call.path["id"])
    return Reply(204)


def _reply(call: Call, domain: Domain, status: int = 200) -> Reply:
    return Reply(status, representations.render_item(
        call, "domain", domain, representations.render_domain))
