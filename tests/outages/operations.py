"""A well-formed request for every operation of every API."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

from placement_core import app
from tests.http.leases_api import cases

_ID = cases.NOBODY
_CLASS = "CUSTOM_OUTAGE"
_INVENTORY = {"total": 8}
_ALLOCATIONS = {_ID: {"resources": {"VCPU": 1}}}
_OWNER = {"project_id": "demo", "user_id": "jane"}
_CONSUMER = {
    **_OWNER, "consumer_type": "INSTANCE", "consumer_generation": None,
    "allocations": _ALLOCATIONS}
_LIMIT = {"service_id": _ID, "resource_name": "class:VCPU"}
_LEASE = {
    "name": "outage", "start_date": cases.date(1), "end_date": cases.date(2),
    "reservations": [cases.instance()], "events": []}

#: What stands for a parameter of a path; else it is an id that nothing has.
_PARAMETERS = {"resource_class": _CLASS, "name": _CLASS}

_BODIES: dict[str, Any] = {
    "POST /resource_providers": {"name": "outage"},
    "PUT /resource_providers/{uuid}": {"name": "outage"},
    "POST /resource_providers/{uuid}/inventories": {"resource_class": "VCPU", **_INVENTORY},
    "PUT /resource_providers/{uuid}/inventories": {
        "resource_provider_generation": 0, "inventories": {"VCPU": _INVENTORY}},
    "PUT /resource_providers/{uuid}/inventories/{resource_class}": {
        "resource_provider_generation": 0, **_INVENTORY},
    "PUT /resource_providers/{uuid}/aggregates": {
        "resource_provider_generation": 0, "aggregates": []},
    "PUT /resource_providers/{uuid}/traits": {
        "resource_provider_generation": 0, "traits": ["HW_CPU_X86_AVX"]},
    "POST /resource_classes": {"name": _CLASS},
    "POST /allocations": {_ID: _CONSUMER},
    "PUT /allocations/{consumer}": _CONSUMER,
    "POST /reshaper": {
        "inventories": {
            _ID: {"resource_provider_generation": 0, "inventories": {"VCPU": _INVENTORY}}},
        "allocations": {_ID: _CONSUMER}},
    "POST /v3/auth/tokens": {"auth": {"identity": {"token": {"id": "jane"}}}},
    "POST /v3/registered_limits": {"registered_limits": [{**_LIMIT, "default_limit": 1}]},
    "PATCH /v3/registered_limits/{id}": {"registered_limit": {"default_limit": 2}},
    "POST /v3/limits": {"limits": [{**_LIMIT, "project_id": "demo", "resource_limit": 1}]},
    "PATCH /v3/limits/{id}": {"limit": {"resource_limit": 1}},
    "POST /v3/regions": {"region": {}},
    "PATCH /v3/regions/{id}": {"region": {}},
    "POST /v3/services": {"service": {"type": "placement"}},
    "PATCH /v3/services/{id}": {"service": {}},
    "POST /v3/endpoints": {"endpoint": {
        "service_id": _ID, "interface": "public", "url": "http://localhost"}},
    "PATCH /v3/endpoints/{id}": {"endpoint": {}},
    "POST /v3/domains": {"domain": {"name": "outage"}},
    "PATCH /v3/domains/{id}": {"domain": {}},
    "POST /v3/projects": {"project": {"name": "outage", "domain_id": "default"}},
    "PATCH /v3/projects/{id}": {"project": {}},
    "POST /v1/leases": _LEASE,
    "PUT /v1/leases/{id}": {"name": "outage"},
    "PATCH /v1/os-hosts/properties/{name}": {"private": True},
    "POST /v1/os-hosts": {"name": "outage"},
    "PUT /v1/os-hosts/{id}": {"reservable": True},
    "POST /capacity/v1/claims/confirm": {"consumer_uuids": [_ID]},
    "POST /capacity/v1/claims/release": {"consumer_uuids": [_ID]},
    "POST /capacity/v1/claims": {"claim": {
        **_OWNER, "consumer_type": "INSTANCE", "allocations": _ALLOCATIONS}},
    "POST /capacity/v1/explain/quota": {"project_id": "demo", "deltas": {"class:VCPU": 1}},
    "POST /capacity/v1/limits/users": {
        "user_limits": [{**_LIMIT, **_OWNER, "resource_limit": 1}]},
    "PATCH /capacity/v1/limits/users/{id}": {"user_limit": {"resource_limit": 1}},
    "POST /capacity/v1/cells": {"cell": {
        "name": "outage", "database_connection": "mysql://nova@127.0.0.1:9/nova"}},
    "PATCH /capacity/v1/cells/{cell}": {"cell": {"disabled": True}},
    "POST /capacity/v1/instances": {"instance": {**_OWNER, "uuid": _ID}},
    "PATCH /capacity/v1/instances/{uuid}": {"instance": {"queued_for_delete": True}},
    "POST /capacity/v1/quota/check": {"project_id": "demo", "deltas": {"class:VCPU": 1}},
    "POST /capacity/v1/quota/server_group_members": {**_OWNER, "members": []},
    "POST /capacity/v1/reservations/whatif": _LEASE,
}

_QUERIES = {
    "/usages": "?project_id=demo",
    "/allocation_candidates": "?resources=VCPU:1",
    "/capacity/v1/explain/allocation_candidates": "?resources=VCPU:1",
    "/capacity/v1/room/fits": "?resources=VCPU:1",
    "/capacity/v1/limits/effective": f"?service_id={_ID}",
    "/capacity/v1/reservations/next_fit":
        f"?minutes=60&reservations={json.dumps([cases.instance()])}".replace('"', "%22")
        .replace(" ", ""),
}

#: They say what they are, whatever the database does.
WITHOUT_DATABASE = frozenset({
    "GET /", "GET /v3", "GET /v3/limits/model", "GET /v1", "GET /v1/", "GET /v1/versions",
    "GET /capacity/v1", "GET /capacity/v1/openapi.json",
})


@dataclasses.dataclass(frozen=True)
class Sample:
    """A request.

    :ivar operation: its method and route.
    :ivar api: the name of its API.
    :ivar body: for JSON, if there is one.
    """

    operation: str
    api: str
    method: str
    path: str
    body: Any


def each() -> Iterator[Sample]:
    """Yield a request for each operation."""
    for api in app.APIS:
        for operation in api.operations:
            route = f"{api.prefix}{operation.path}"
            name = f"{operation.method} {route}"
            path = re.sub(r"\{(\w+)\}", lambda match: _parameter(route, match[1]), route)
            yield Sample(name, api.name, operation.method, path + _QUERIES.get(route, ""),
                         _BODIES.get(name))


def _parameter(route: str, name: str) -> str:
    if name == "id" and ("os-hosts" in route or "/events/" in route):
        return "7"  # They are numbered.
    return _PARAMETERS.get(name, _ID)
