"""POST /v3/auth/tokens: for clients that always log in.

It exists where every token is believed (``[api] auth_strategy = noauth2``): callers are
whoever they say. Elsewhere, they log in at Keystone.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from placement_core import errors
from placement_core.http.operations import Call, Reply
from placement_core.plugin_api.catalog import Endpoint, Service
from placement_core.services import Services

#: noauth2 tokens do not expire, but clients require a time.
_LIFETIME = datetime.timedelta(days=1)

_INTERFACES = ("public", "internal", "admin")
#: The types of service that this one is, and the paths of each.
_OWN_SERVICES = {"identity": "/v3", "placement": "", "reservation": "/v1"}


class LogInElsewhere(errors.NotFound):
    """Tokens come from Keystone."""

    def __init__(self, address: str | None) -> None:
        where = f" at {address}" if address else ""
        super().__init__(f"This service gives no tokens: log in at Keystone{where}.")


class NoUser(errors.Invalid):
    """A request names no user."""

    def __init__(self) -> None:
        super().__init__("Expecting to find a user or a token in identity.")


def check_issued_here(services: Services) -> None:
    """Go on only where this service believes every token.

    :raises LogInElsewhere: tokens come from Keystone; it says where that is.
    """
    conf = services.conf
    if conf.api.auth_strategy != "noauth2":
        raise LogInElsewhere(conf.keystone_authtoken.www_authenticate_uri)


def create(call: Call) -> Reply:
    """Return a token for whoever the caller says to be."""
    body = call.body["auth"]
    user = _find_user(body["identity"])
    project_id = _find_project_id(call, body.get("scope")) or user
    now = datetime.datetime.now(datetime.UTC)
    roles = [{"id": "admin", "name": "admin"}] if user == "admin" else []
    document = {"token": {
        "methods": ["password"], "audit_ids": [],
        "issued_at": _format_time(now), "expires_at": _format_time(now + _LIFETIME),
        "user": {"id": user, "name": user, "password_expires_at": None, "domain": _DEFAULT},
        "project": _render_project(call, project_id), "is_domain": False, "roles": roles,
        "catalog": _render_catalog(call),
    }}
    return Reply(201, document, headers=(("X-Subject-Token", f"{user}:{project_id}"),))


_DEFAULT = {"id": "default", "name": "Default"}


def _find_user(identity: Mapping[str, Any]) -> str:
    """Return the user of any authentication method."""
    for method in identity.values():
        if not isinstance(method, dict):
            continue
        user = method.get("user")
        if isinstance(user, dict):
            name = user.get("name") or user.get("id")
            if isinstance(name, str):
                return _require_user_name(name)
        token = method.get("id")
        if isinstance(token, str) and token:
            return _require_user_name(token.partition(":")[0])
    raise NoUser


def _require_user_name(name: str) -> str:
    """Return a user's name, if a token can hold it."""
    if not name or ":" in name or not name.isascii() or not name.isprintable():
        raise NoUser
    return name


def _find_project_id(call: Call, scope: object) -> str | None:
    """Return the project of a scope; one that is not in the catalog is believed, too."""
    project = scope.get("project") if isinstance(scope, dict) else None
    if not isinstance(project, dict):
        return None
    id_, name = project.get("id"), project.get("name")
    if isinstance(id_, str) and id_:
        return _require_printable(id_)
    if not isinstance(name, str) or not name:
        return None
    projects = call.services.catalog.projects(
        call.ctx, name=name, domain_id=_find_domain_id(call, project.get("domain")))
    return projects[0].id if projects else _require_printable(name)


def _find_domain_id(call: Call, domain: object) -> str | None:
    """Return the domain in which a project is named; None: the catalog does not have it.

    Then the project is looked for in all of them: clients name a domain out of habit.
    """
    if not isinstance(domain, dict):
        return None
    catalog, id_, name = call.services.catalog, domain.get("id"), domain.get("name")
    if isinstance(id_, str) and id_:
        return None if catalog.domain(call.ctx, id_) is None else id_
    if not isinstance(name, str) or not name:
        return None
    return next((each.id for each in catalog.domains(call.ctx, name=name)), None)


def _require_printable(id_: str) -> str:
    if not id_.isascii() or not id_.isprintable():
        raise errors.Invalid("Expecting to find an id in project that a token can hold.")
    return id_


def _render_project(call: Call, project_id: str) -> dict[str, Any]:
    catalog = call.services.catalog
    project = catalog.project(call.ctx, project_id)
    if project is None:
        return {"id": project_id, "name": project_id, "domain": _DEFAULT}
    domain = catalog.domain(call.ctx, project.domain_id)
    domain_name = domain.name if domain else project.domain_id
    return {
        "id": project.id, "name": project.name,
        "domain": {"id": project.domain_id, "name": domain_name}}


def _render_catalog(call: Call) -> list[dict[str, Any]]:
    """Return the catalog in the form of a token.

    It has this service itself in every region, even without an entry in the database.
    """
    catalog = call.services.catalog
    endpoints: dict[str, list[Endpoint]] = {}
    for endpoint in catalog.endpoints(call.ctx):
        if endpoint.enabled:
            endpoints.setdefault(endpoint.service_id, []).append(endpoint)
    entries = [
        _render_entry(service, endpoints.get(service.id, ()))
        for service in catalog.services(call.ctx) if service.enabled]
    types = {entry["type"] for entry in entries if entry["endpoints"]}
    regions = [None, *(region.id for region in catalog.regions(call.ctx))]
    return entries + [
        _render_own_entry(type_, f"{call.prefix}{path}", regions)
        for type_, path in _OWN_SERVICES.items() if type_ not in types]


def _render_entry(service: Service, endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    return {
        "id": service.id, "type": service.type, "name": service.name,
        "endpoints": [{
            "id": endpoint.id, "interface": endpoint.interface, "url": endpoint.url,
            "region_id": endpoint.region_id, "region": endpoint.region_id,
        } for endpoint in endpoints]}


def _render_own_entry(type_: str, url: str, regions: Iterable[str | None]) -> dict[str, Any]:
    endpoints = [
        Endpoint(f"{type_}-{interface}", type_, interface, url, region)
        for region in regions for interface in _INTERFACES]
    return _render_entry(Service(type_, type_, type_), endpoints)


def _format_time(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
