"""/v3/projects, and /v3/projects/{id}."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from placement_core import errors
from placement_core.catalog import projects
from placement_core.http import pages
from placement_core.http.errors import NotAllowed
from placement_core.http.limits_api import (
    catalogs,
    policies,
    queries,
    representations,
    visibility,
)
from placement_core.http.operations import Call, Reply
from placement_core.limits import cleanup, project_moves
from placement_core.plugin_api.catalog import Domain, Project


class NoDomain(errors.Invalid):
    """A new project names no domain, and the caller's token has none."""

    def __init__(self) -> None:
        super().__init__("Expecting to find domain_id in project: the token has no domain.")


def list_(call: Call) -> Reply:
    """Return the projects that the caller sees and that pass the filters of the query.

    Domains are projects, too, and listed for those who ask for them.
    """
    catalog = call.services.catalog
    if queries.parse_flag(call.query, "is_domain"):
        return catalogs.reply_list(
            call, "projects", _list_domains(call), functools.partial(catalog.domain, call.ctx),
            representations.render_project)
    records = catalog.projects(
        call.ctx, name=pages.get_last(call.query, "name"),
        domain_id=pages.get_last(call.query, "domain_id"),
        parent_id=pages.get_last(call.query, "parent_id"))
    return catalogs.reply_list(
        call, "projects", records, functools.partial(catalog.project, call.ctx),
        representations.render_project)


def show(call: Call) -> Reply:
    """Return one project, or a domain as one, if the caller may see it."""
    id_ = call.path["id"]
    node = _get_node(call, id_)
    if not visibility.can_see(call, visibility.get_visibility(call), id_):
        raise NotAllowed(policies.GET_PROJECT)
    return _reply(call, node)


def create(call: Call) -> Reply:
    """Create a project in a domain, or below another project."""
    body = call.body["project"]
    parent_id = body.get("parent_id")
    domain_id = body.get("domain_id") or _find_domain_id(call, parent_id)
    return _reply(call, projects.create(
        call.ctx, name=body["name"], domain_id=domain_id, parent_id=parent_id,
        description=body.get("description") or "", enabled=body.get("enabled", True),
        max_depth=call.services.model.max_depth), 201)


def update(call: Call) -> Reply:
    """Change a project; its subtree moves with it to another parent."""
    changes = catalogs.parse_changes(call.body["project"])
    if "parent_id" in changes and changes["parent_id"] is None:
        # Right below its domain.
        changes["parent_id"] = projects.get(call.ctx, call.path["id"]).domain_id
    return _reply(call, project_moves.update_project(
        call.ctx, call.services.model, call.path["id"], **changes))


def delete(call: Call) -> Reply:
    """Delete a project without children, and its limits."""
    cleanup.delete_project(call.ctx, call.path["id"])
    return Reply(204)


def _list_domains(call: Call) -> Sequence[Domain]:
    """Return the domains that pass the filters of the query; nothing is above them."""
    if "domain_id" in call.query or "parent_id" in call.query:
        return ()
    return call.services.catalog.domains(call.ctx, name=pages.get_last(call.query, "name"))


def _get_node(call: Call, id_: str) -> Project | Domain:
    catalog = call.services.catalog
    project = catalog.project(call.ctx, id_)
    if project is not None:
        return project
    return catalogs.require_found("project", id_, catalog.domain(call.ctx, id_))


def _find_domain_id(call: Call, parent_id: str | None) -> str:
    """Return the domain of a new project that names none: its parent's, or the caller's."""
    caller = call.ctx.identity
    if parent_id is not None:
        parent = call.services.catalog.project(call.ctx, parent_id)
        return parent.domain_id if parent is not None else parent_id
    domain_id = caller.domain_id or caller.project_domain_id
    if domain_id is None:
        raise NoDomain
    return domain_id


def _reply(call: Call, project: Project | Domain, status: int = 200) -> Reply:
    return Reply(status, representations.render_item(
        call, "project", project, representations.render_project))
