"""What answers look like: documents and links. Source: spec limits §1 and §2.

Functions take records and return what JSON can hold. ``root`` is the URL of ``/v3``.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from placement_core.http import pages
from placement_core.http.operations import Call
from placement_core.limits.records import Limit, RegisteredLimit
from placement_core.plugin_api.catalog import Domain, Endpoint, Project, Region, Service
from placement_core.plugin_api.enforcement import EnforcementModel

Document = dict[str, Any]
T = TypeVar("T")


def get_root_url(call: Call) -> str:
    """Return the URL of ``/v3`` as the caller sees it."""
    return f"{call.prefix}/v3"


def render_item(call: Call, name: str, item: T, show: Callable[[T, str], Document]) -> Document:
    """Return one item in its wrapper."""
    return {name: show(item, get_root_url(call))}


def render_created(
    call: Call, name: str, items: Sequence[T], show: Callable[[T, str], Document]
) -> Document:
    """Return the items that a batch created."""
    base = get_root_url(call)
    return {name: [show(item, base) for item in items]}


def render_list(
    call: Call, name: str, items: Sequence[T], show: Callable[[T, str], Document],
    page: pages.Page = pages.WHOLE,
) -> Document:
    """Return a list with its links.

    :param items: up to one more than the page takes; then there is a next page.
    """
    base = get_root_url(call)
    more = page.size is not None and len(items) > page.size
    documents = [show(item, base) for item in (items[:page.size] if more else items)]
    links = {"next": None, "self": call.address, "previous": None}
    if not more:
        return {name: documents, "links": links}
    links["next"] = pages.make_next_url(
        call.address.partition("?")[0], call.query, str(documents[-1]["id"]))
    return {name: documents, "links": links, "truncated": True}


def render_model(item: EnforcementModel) -> Document:
    """Return an enforcement model."""
    return {"model": {"name": item.name, "description": item.description}}


def render_registered_limit(item: RegisteredLimit, base: str) -> Document:
    """Return a registered limit."""
    return {
        "id": item.id, "service_id": item.service_id, "region_id": item.region_id,
        "resource_name": item.resource_name, "default_limit": item.default_limit,
        "description": item.description,
        "links": {"self": f"{base}/registered_limits/{item.id}"},
    }


def render_limit(item: Limit, base: str) -> Document:
    """Return a limit of a project or domain."""
    return {
        "id": item.id, "project_id": item.project_id, "domain_id": item.domain_id,
        "service_id": item.service_id, "region_id": item.region_id,
        "resource_name": item.resource_name, "resource_limit": item.resource_limit,
        "description": item.description, "links": {"self": f"{base}/limits/{item.id}"},
    }


def render_region(item: Region, base: str) -> Document:
    """Return a region."""
    return {
        "id": item.id, "parent_region_id": item.parent_region_id,
        "description": item.description,
        "links": {"self": f"{base}/regions/{urllib.parse.quote(item.id, safe='')}"},
    }


def render_service(item: Service, base: str) -> Document:
    """Return a service."""
    return {
        "id": item.id, "type": item.type, "name": item.name, "description": item.description,
        "enabled": item.enabled, "links": {"self": f"{base}/services/{item.id}"},
    }


def render_endpoint(item: Endpoint, base: str) -> Document:
    """Return an endpoint; its region has two names in Keystone."""
    return {
        "id": item.id, "service_id": item.service_id, "interface": item.interface,
        "url": item.url, "region_id": item.region_id, "region": item.region_id,
        "enabled": item.enabled, "links": {"self": f"{base}/endpoints/{item.id}"},
    }


def render_domain(item: Domain, base: str) -> Document:
    """Return a domain."""
    return {
        "id": item.id, "name": item.name, "description": item.description,
        "enabled": item.enabled, "tags": [], "options": {},
        "links": {"self": f"{base}/domains/{item.id}"},
    }


def render_project(item: Project | Domain, base: str) -> Document:
    """Return a project, or a domain as one, which it is in Keystone."""
    project = item if isinstance(item, Project) else None
    return {
        "id": item.id, "name": item.name,
        "domain_id": project.domain_id if project else None,
        "parent_id": project.parent_id if project else None,
        "is_domain": project is None, "description": item.description,
        "enabled": item.enabled, "tags": [], "options": {},
        "links": {"self": f"{base}/projects/{item.id}"},
    }


def render_version(base: str) -> Document:
    """Return the document that clients discover the API with."""
    return {"version": {
        "id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": f"{base}/"}],
        "media-types": [{
            "base": "application/json",
            "type": "application/vnd.openstack.identity-v3+json"}],
    }}
