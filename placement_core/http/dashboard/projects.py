"""Which projects a caller may ask about, their names, and where each has its page."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from placement_core import errors
from placement_core.http.capacity_api import policies
from placement_core.http.dashboard import rendering
from placement_core.http.limits_api import visibility
from placement_core.http.operations import Call

#: The page of a project; below the dashboard.
PATH = "/project"


class AmbiguousName(errors.Invalid):
    """Several projects have this name."""

    code = "placement.dashboard.ambiguous_name"


def list_visible(call: Call) -> Collection[str] | None:
    """Return the projects that the caller may ask about; None: all."""
    return visibility.list_visible(call, dataclasses.replace(
        visibility.get_visibility(call, policies.QUOTA_OF_ALL), above=False))


def find_id(call: Call, text: str, visible: Collection[str] | None) -> str:
    """Return the id of the one project that has a text as id or name; else the text.

    :raises AmbiguousName: several of the visible ones have this name.
    """
    catalog = call.services.catalog
    if catalog.project(call.ctx, text) is not None or catalog.domain(call.ctx, text) is not None:
        return text
    ids = [project.id for project in catalog.projects(call.ctx, name=text)
           if visible is None or project.id in visible]
    if len(ids) > 1:
        raise AmbiguousName(f"Several projects have this name: {', '.join(sorted(ids))}.")
    return ids[0] if ids else text


def find_names(call: Call, ids: Collection[str]) -> dict[str, str]:
    """Return {id: name} of projects and domains, as far as the caller may see them.

    Those that the catalog does not have are left out. It is asked for each, so there may be as
    many as a page has rows.
    """
    catalog, visible = call.services.catalog, list_visible(call)
    nodes = {id_: catalog.project(call.ctx, id_) or catalog.domain(call.ctx, id_)
             for id_ in ids if visible is None or id_ in visible}
    return {id_: node.name for id_, node in nodes.items() if node is not None}


def make_url(call: Call, project_id: str) -> str:
    """Return the URL of the page of a project.

    The id is a parameter, because it may be any text, and servers and proxies change slashes and
    dots in paths.
    """
    return rendering.make_url(rendering.get_mount(call), PATH, {"id": project_id})
