"""What a request body must look like: JSON schemas. Source: spec limits §2, "Validation"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placement_core.http.operations import ONLY, Ladder

Schema = dict[str, Any]
Body = Ladder[Schema | None]

#: The largest value of a limit: its column is a signed 32-bit integer.
MAX_INT = 2147483647
#: Domains and projects.
NODE_ID_PATTERN = "^[a-zA-Z0-9-]+$"

NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"\S"}
NODE_ID: Schema = {
    "type": "string", "minLength": 1, "maxLength": 64, "pattern": NODE_ID_PATTERN}
_ID: Schema = {"type": "string", "format": "uuid"}
_REGION_ID: Schema = {"type": ["string", "null"], "minLength": 1, "maxLength": 255}
DESCRIPTION: Schema = {"type": ["string", "null"], "maxLength": 255}
VALUE: Schema = {"type": "integer", "minimum": -1, "maximum": MAX_INT}
_ENABLED: Schema = {"type": "boolean"}


def record(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    """Return the schema of an object that has no other keys than these."""
    return {
        "type": "object", "properties": dict(properties), "required": list(required),
        "additionalProperties": False,
    }


def wrapped(name: str, schema: Schema) -> Body:
    """Return a body that has one member, which follows a schema."""
    return Ladder({ONLY: record({name: schema}, (name,))})


def batch(name: str, schema: Schema) -> Body:
    """Return a body with a list of at least one item."""
    return wrapped(name, {"type": "array", "minItems": 1, "items": schema})


# Limits

LIMIT_KEY = {"service_id": _ID, "region_id": _REGION_ID, "resource_name": NAME}
_REGISTERED = {**LIMIT_KEY, "default_limit": VALUE, "description": DESCRIPTION}
_LIMIT = {**LIMIT_KEY, "resource_limit": VALUE, "description": DESCRIPTION}
_LIMIT_CHANGES = record({"resource_limit": VALUE, "description": DESCRIPTION})
_LIMIT_REQUIRED = ("service_id", "resource_name", "resource_limit")

REGISTERED_CREATE = batch(
    "registered_limits", record(_REGISTERED, ("service_id", "resource_name", "default_limit")))
REGISTERED_UPDATE = wrapped("registered_limit", record(_REGISTERED))
LIMITS_CREATE = batch("limits", {
    **record({**_LIMIT, "project_id": NODE_ID, "domain_id": NODE_ID}, _LIMIT_REQUIRED),
    # Exactly one of them, and null is one, too.
    "oneOf": [{"required": ["project_id"]}, {"required": ["domain_id"]}],
})
LIMIT_UPDATE = wrapped("limit", _LIMIT_CHANGES)

# The catalog

_NODE_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 64, "pattern": r"\S"}
_SHORT: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
#: Members that only Keystone has; clients send them empty.
_EMPTY: dict[str, Schema] = {
    "tags": {"type": "array", "maxItems": 0},
    "options": {"type": "object", "maxProperties": 0},
}

_REGION = {"parent_region_id": _REGION_ID, "description": DESCRIPTION}
REGION_CREATE = wrapped("region", record({
    "id": {"type": ["string", "null"], "maxLength": 255}, **_REGION,
    # keystoneclient sends it always, although regions have no such field.
    "enabled": {"enum": [True]}}))
REGION_UPDATE = wrapped("region", record(_REGION))

_SERVICE: dict[str, Schema] = {
    "type": _SHORT, "name": {"type": "string", "maxLength": 255}, "description": DESCRIPTION,
    "enabled": _ENABLED}
SERVICE_CREATE = wrapped("service", record(_SERVICE, ("type",)))
SERVICE_UPDATE = wrapped("service", record(_SERVICE))

_ENDPOINT: dict[str, Schema] = {
    "service_id": {"type": "string", "minLength": 1, "maxLength": 64},
    "interface": {"enum": ["public", "internal", "admin"]},
    "url": {"type": "string", "maxLength": 225, "pattern": "^[a-zA-Z0-9+.-]+:.+"},
    "region_id": _REGION_ID, "region": _REGION_ID, "enabled": _ENABLED}
ENDPOINT_CREATE = wrapped("endpoint", record(_ENDPOINT, ("service_id", "interface", "url")))
ENDPOINT_UPDATE = wrapped("endpoint", record(_ENDPOINT))

_DOMAIN = {
    "name": _NODE_NAME, "description": DESCRIPTION, "enabled": _ENABLED, **_EMPTY}
DOMAIN_CREATE = wrapped("domain", record(_DOMAIN, ("name",)))
DOMAIN_UPDATE = wrapped("domain", record(_DOMAIN))

_PARENT_ID: Schema = {**NODE_ID, "type": ["string", "null"]}
_PROJECT = {**_DOMAIN, "parent_id": _PARENT_ID, "is_domain": {"enum": [False]}}
PROJECT_CREATE = wrapped(
    "project", record({**_PROJECT, "domain_id": _PARENT_ID}, ("name",)))
PROJECT_UPDATE = wrapped("project", record(_PROJECT))

# Tokens

#: Credentials do not matter where every token is believed.
TOKEN_CREATE = wrapped("auth", {
    "type": "object",
    "properties": {"identity": {"type": "object"}, "scope": {"type": ["object", "string"]}},
    "required": ["identity"],
})
