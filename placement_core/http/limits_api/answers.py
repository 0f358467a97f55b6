"""What is answered: JSON schemas of the bodies of successes.

``representations`` makes what they describe.
"""

from __future__ import annotations

from collections.abc import Mapping

from placement_core.http.apis import KEYSTONE_ERROR
from placement_core.http.json_schemas import (
    FLAG,
    INTEGER,
    TEXT,
    TEXT_OR_NULL,
    Schema,
    answer,
    listed,
    record,
)
from placement_core.http.operations import ONLY, Answers, Ladder

_LINKS = record({"self": TEXT})
#: Of a list; there is no way back.
_PAGE_LINKS = record({"next": TEXT_OR_NULL, "self": TEXT, "previous": TEXT_OR_NULL})

VERSION = answer(record({"version": record({
    "id": TEXT, "status": TEXT, "updated": TEXT,
    "links": listed(record({"rel": TEXT, "href": TEXT})),
    "media-types": listed(record({"base": TEXT, "type": TEXT}))})}))


def _make_item(fields: Mapping[str, Schema]) -> Schema:
    return record({"id": TEXT, **fields, "links": _LINKS})


def _list(name: str, item: Schema) -> Ladder[Answers]:
    """Return the answer of a list, which may be a page of a longer one."""
    return answer(record(
        {name: listed(item), "links": _PAGE_LINKS}, {"truncated": FLAG}))


def _show(name: str, item: Schema, status: int = 200) -> Ladder[Answers]:
    return answer(record({name: item}), status)


# Limits

_LIMIT_KEY = {"service_id": TEXT, "region_id": TEXT_OR_NULL, "resource_name": TEXT}
_REGISTERED = _make_item({
    **_LIMIT_KEY, "default_limit": INTEGER, "description": TEXT_OR_NULL})
_LIMIT = _make_item({
    **_LIMIT_KEY, "project_id": TEXT_OR_NULL, "domain_id": TEXT_OR_NULL,
    "resource_limit": INTEGER, "description": TEXT_OR_NULL})

REGISTERED_LIMIT = _show("registered_limit", _REGISTERED)
REGISTERED_LIMITS = _list("registered_limits", _REGISTERED)
REGISTERED_LIMITS_CREATED = _show("registered_limits", listed(_REGISTERED), 201)
LIMIT = _show("limit", _LIMIT)
LIMITS = _list("limits", _LIMIT)
LIMITS_CREATED = _show("limits", listed(_LIMIT), 201)
MODEL = answer(record({"model": record({"name": TEXT, "description": TEXT})}))

# The catalog

#: What only Keystone has.
_EMPTY: dict[str, Schema] = {
    "tags": {"type": "array", "maxItems": 0}, "options": {"type": "object", "maxProperties": 0}}
_NAMED = {"name": TEXT_OR_NULL, "description": TEXT_OR_NULL, "enabled": FLAG}

_REGION = _make_item({"parent_region_id": TEXT_OR_NULL, "description": TEXT_OR_NULL})
_SERVICE = _make_item({"type": TEXT, **_NAMED})
_ENDPOINT = _make_item({
    "service_id": TEXT, "interface": TEXT, "url": TEXT, "region_id": TEXT_OR_NULL,
    "region": TEXT_OR_NULL, "enabled": FLAG})
_DOMAIN = _make_item({**_NAMED, **_EMPTY})
_PROJECT = _make_item({
    **_NAMED, "domain_id": TEXT_OR_NULL, "parent_id": TEXT_OR_NULL, "is_domain": FLAG, **_EMPTY})

REGION, REGION_CREATED = _show("region", _REGION), _show("region", _REGION, 201)
REGIONS = _list("regions", _REGION)
SERVICE, SERVICE_CREATED = _show("service", _SERVICE), _show("service", _SERVICE, 201)
SERVICES = _list("services", _SERVICE)
ENDPOINT, ENDPOINT_CREATED = _show("endpoint", _ENDPOINT), _show("endpoint", _ENDPOINT, 201)
ENDPOINTS = _list("endpoints", _ENDPOINT)
DOMAIN, DOMAIN_CREATED = _show("domain", _DOMAIN), _show("domain", _DOMAIN, 201)
DOMAINS = _list("domains", _DOMAIN)
PROJECT, PROJECT_CREATED = _show("project", _PROJECT), _show("project", _PROJECT, 201)
PROJECTS = _list("projects", _PROJECT)

# Tokens

_NAMES = {"id": TEXT, "name": TEXT}
_ENDPOINT_OF_TOKEN = record({
    "id": TEXT, "interface": TEXT, "url": TEXT, "region_id": TEXT_OR_NULL,
    "region": TEXT_OR_NULL})
TOKEN = answer(record({"token": record({
    "methods": listed(TEXT), "audit_ids": listed(TEXT), "issued_at": TEXT, "expires_at": TEXT,
    "user": record({
        **_NAMES, "password_expires_at": TEXT_OR_NULL, "domain": record(_NAMES)}),
    "project": record({**_NAMES, "domain": record(_NAMES)}),
    "is_domain": FLAG,
    "roles": listed(record(_NAMES)),
    "catalog": listed(record({
        "id": TEXT, "type": TEXT, "name": TEXT_OR_NULL, "endpoints": listed(_ENDPOINT_OF_TOKEN)})),
})}), 201)

ERROR: Ladder[Schema] = Ladder({ONLY: KEYSTONE_ERROR})
