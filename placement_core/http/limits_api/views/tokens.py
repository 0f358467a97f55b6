"""POST /v3/auth/tokens: for clients that cannot do without logging in.

It exists where every token is believed (``[api] auth_strategy = noauth2``): whoever
they say they are, they are. Elsewhere, Keystone is where one logs in.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from placement_core import errors
from placement_core.http.operations import Call, Reply
from placement_core.plugin_api.catalog import Endpoint, Service
from placement_core.services import Services

#: noauth2 tokens do not expire; clients want to hear of a time.
_LIFETIME = datetime.timedelta(days=1)

_INTERFACES = ("public", "internal", "admin")
#: What this service is for clients, and where below its own root they reach it.
_OWN_SERVICES = {"identity": "/v3", "placement": "", "reservation": "/v1"}


class LogInElsewhere(errors.NotFound):
    """Tokens come from Keystone."""

    def __init__(self, address: str | None) -> None:
        where = f" at {address}" if address else ""
        super().__init__(f"This service gives no tokens: log in at Keystone{where}.")


class NoUser(errors.Invalid):
    """Nobody says who logs in."""

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
    given = call.body["auth"]
    user = _user(given["identity"])
    project_id = _project_id(call, given.get("scope")) or user
    now = datetime.datetime.now(datetime.UTC)
    roles = [{"id": "admin", "name": "admin"}] if user == "admin" else []
    document = {"token": {
        "methods": ["password"], "audit_ids": [],
        "issued_at": _text(now), "expires_at": _text(now + _LIFETIME),
        "user": {"id": user, "name": user, "password_expires_at": None, "domain": _DEFAULT},
        "project": _project(call, project_id), "is_domain": False, "roles": roles,
        "catalog": _catalog(call),
    }}
    return Reply(201, document, headers=(("X-Subject-Token", f"{user}:{project_id}"),))


_DEFAULT = {"id": "default", "name": "Default"}


def _user(identity: Mapping[str, Any]) -> str:
    """Return who logs in, in whichever wording."""
    for method in identity.values():
        if not isinstance(method, dict):
            continue
        user = method.get("user")
        if isinstance(user, dict):
            named = user.get("name") or user.get("id")
            if isinstance(named, str):
                return _believable(named)
        token = method.get("id")
        if isinstance(token, str) and token:
            return _believable(token.partition(":")[0])
    raise NoUser


def _believable(name: str) -> str:
    """Return a user's name, if a token can hold it."""
    if not name or ":" in name or not name.isascii() or not name.isprintable():
        raise NoUser
    return name


def _project_id(call: Call, scope: object) -> str | None:
    """Return the project of a scope; one that nobody knows is believed, too."""
    project = scope.get("project") if isinstance(scope, dict) else None
    if not isinstance(project, dict):
        return None
    id_, name = project.get("id"), project.get("name")
    if isinstance(id_, str) and id_:
        return _printable(id_)
    if not isinstance(name, str) or not name:
        return None
    found = call.services.catalog.projects(call.ctx, name=name)
    return found[0].id if found else _printable(name)


def _printable(id_: str) -> str:
    if not id_.isascii() or not id_.isprintable():
        raise errors.Invalid("Expecting to find an id in project that a token can hold.")
    return id_


def _project(call: Call, project_id: str) -> dict[str, Any]:
    catalog = call.services.catalog
    known = catalog.project(call.ctx, project_id)
    if known is None:
        return {"id": project_id, "name": project_id, "domain": _DEFAULT}
    domain = catalog.domain(call.ctx, known.domain_id)
    return {
        "id": known.id, "name": known.name,
        "domain": {"id": known.domain_id, "name": domain.name if domain else known.domain_id}}


def _catalog(call: Call) -> list[dict[str, Any]]:
    """Return the catalog in the form of a token.

    What this service is itself is there, in every region, even if nobody has written
    it down.
    """
    catalog = call.services.catalog
    endpoints: dict[str, list[Endpoint]] = {}
    for endpoint in catalog.endpoints(call.ctx):
        if endpoint.enabled:
            endpoints.setdefault(endpoint.service_id, []).append(endpoint)
    services = [each for each in catalog.services(call.ctx) if each.enabled]
    found = [_entry(service, endpoints.get(service.id, ())) for service in services]
    written = {entry["type"] for entry in found if entry["endpoints"]}
    regions = [None, *(region.id for region in catalog.regions(call.ctx))]
    return found + [
        _own_entry(kind, f"{call.prefix}{path}", regions)
        for kind, path in _OWN_SERVICES.items() if kind not in written]


def _entry(service: Service, endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    return {
        "id": service.id, "type": service.type, "name": service.name,
        "endpoints": [{
            "id": endpoint.id, "interface": endpoint.interface, "url": endpoint.url,
            "region_id": endpoint.region_id, "region": endpoint.region_id,
        } for endpoint in endpoints]}


def _own_entry(kind: str, url: str, regions: Iterable[str | None]) -> dict[str, Any]:
    endpoints = [
        Endpoint(f"{kind}-{interface}", kind, interface, url, region)
        for region in regions for interface in _INTERFACES]
    return _entry(Service(kind, kind, kind), endpoints)


def _text(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
