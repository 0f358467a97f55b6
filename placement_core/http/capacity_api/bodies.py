"""What a request body must look like: JSON schemas."""

from __future__ import annotations

from typing import Any

from placement_core.http.limits_api import bodies
from placement_core.http.limits_api.bodies import Body, Schema
from placement_core.http.operations import ONLY, Ladder
from placement_core.http.placement_api import bodies as placement_bodies, microversions as mv

#: Users are Keystone's, or somebody's LDAP directory's: any text.
USER_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"\S"}

UUID: Schema = {"type": "string", "format": "uuid"}

_CHANGES: dict[str, Any] = {
    "resource_limit": bodies.VALUE, "description": bodies.DESCRIPTION}
_USER_LIMIT: dict[str, Any] = {
    "project_id": bodies.NODE_ID, "user_id": USER_ID, **bodies.LIMIT_KEY, **_CHANGES}

USER_LIMITS_CREATE = bodies.batch("user_limits", bodies.record(_USER_LIMIT, (
    "project_id", "user_id", "service_id", "resource_name", "resource_limit")))
USER_LIMIT_UPDATE = bodies.wrapped("user_limit", bodies.record(_CHANGES))

# A claim is of the newest shape of PUT /allocations, for a consumer that is new.
_ALLOCATIONS = placement_bodies.ALLOCATIONS_REPLACE.at(mv.NEWEST)
assert _ALLOCATIONS is not None
_HOLDINGS: dict[str, Schema] = _ALLOCATIONS["properties"]
#: More would lock too much at once.
MOST_MEMBERS = 1000
_COUNT_OF_MEMBERS: Schema = {"type": "integer", "minimum": 1, "maximum": MOST_MEMBERS}
_TEXTS: Schema = {"type": "array", "maxItems": 100, "items": {
    "type": "string", "minLength": 1, "maxLength": 10000}}
_LEVEL: Schema = {"type": "string", "minLength": 1, "maxLength": 300}
#: The parameters of candidates that groups have, as JSON.
_SHAPE: dict[str, Schema] = {
    "resources": {
        "type": "object", "minProperties": 1, "maxProperties": 100,
        "propertyNames": {"pattern": "^[A-Z0-9_]{1,255}$"},
        "additionalProperties": {
            "type": "integer", "minimum": 1, "maximum": placement_bodies.MAX_INT}},
    "required": _TEXTS,
    "member_of": _TEXTS,
    "in_tree": placement_bodies.UUID,
}
_FIND = bodies.record({
    **_SHAPE,
    "groups": {
        "type": "object", "maxProperties": 100,
        "propertyNames": {"pattern": "^[a-zA-Z0-9_-]{1,64}$"},
        "additionalProperties": bodies.record(_SHAPE)},
    "group_policy": {"type": "string", "enum": ["none", "isolate"]},
    "same_subtree": {"type": "array", "maxItems": 100, "items": {
        "type": "array", "minItems": 1, "maxItems": 100, "items": {
            "type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}}},
    "root_required": _TEXTS,
    "members": _COUNT_OF_MEMBERS,
    "min_members": _COUNT_OF_MEMBERS,
    "max_per_host": _COUNT_OF_MEMBERS,
    **dict.fromkeys(("within", "pack_by", "spread_by", "order_by"), _LEVEL),
    "consumer_uuids": {
        "type": "array", "minItems": 1, "maxItems": MOST_MEMBERS, "items": placement_bodies.UUID},
}, ("members",))
_CLAIM = bodies.record({
    **{name: _HOLDINGS[name] for name in ("project_id", "user_id", "consumer_type", "mappings")},
    "allocations": {**_HOLDINGS["allocations"], "minProperties": 1},
    "consumer_uuid": placement_bodies.UUID,
    "hold_seconds": {
        "type": "integer", "minimum": 1, "maximum": placement_bodies.MAX_INT},
    "find": _FIND,
    "dry_run": {"type": "boolean"},
}, ("project_id", "user_id", "consumer_type"))

CLAIM_CREATE = bodies.wrapped("claim", _CLAIM)
CLAIMS_SELECTED: Body = Ladder({ONLY: bodies.record({"consumer_uuids": {
    "type": "array", "minItems": 1, "maxItems": MOST_MEMBERS,
    "items": placement_bodies.UUID}}, ("consumer_uuids",))})

#: Of a cell: names are text, URLs are checked by who reads them.
_CELL: dict[str, Any] = {
    "name": bodies.NAME,
    "database_connection": {"type": "string", "minLength": 1, "maxLength": 65535},
    "transport_url": {"type": "string", "maxLength": 65535},
    "disabled": {"type": "boolean"},
}
CELL_CREATE = bodies.wrapped("cell", bodies.record(
    {**_CELL, "uuid": UUID}, ("name", "database_connection")))
CELL_UPDATE = bodies.wrapped("cell", bodies.record(_CELL))

INSTANCE_REGISTER = bodies.wrapped("instance", bodies.record(
    {"uuid": UUID, "project_id": USER_ID, "user_id": USER_ID,
     "cell": {**bodies.NAME, "type": ["string", "null"]}},
    ("uuid", "project_id", "user_id")))
INSTANCE_UPDATE = bodies.wrapped("instance", bodies.record(
    {"cell": bodies.NAME, "queued_for_delete": {"type": "boolean"}}))

# Quota

#: As placement has them: any text.
_PROJECT_ID = USER_ID
_UUID: Schema = {"type": "string", "maxLength": 36, "pattern": "^[0-9a-fA-F-]{32,36}$"}
_UUIDS: Schema = {"type": "array", "maxItems": 10000, "uniqueItems": True, "items": _UUID}
_COUNT: Schema = {"type": "integer", "minimum": 1, "maximum": bodies.MAX_INT}
#: No allocation is larger than a limit can be.
_AMOUNT: Schema = {"type": "integer", "minimum": 0, "maximum": bodies.MAX_INT}
_NOTHING: Schema = {"type": "integer", "enum": [0]}
_WHO: dict[str, Schema] = {"project_id": _PROJECT_ID, "user_id": USER_ID}


def _named(amount: Schema) -> Schema:
    """Return the schema of {resource name: amount}, at least one."""
    return {"type": "object", "minProperties": 1, "maxProperties": 500,
            "propertyNames": bodies.NAME, "additionalProperties": amount}


_DELTAS = bodies.record(
    {**_WHO, "deltas": _named(_AMOUNT), "recheck": {"type": "boolean", "enum": [False]}},
    ("project_id", "deltas"))
_ITEMS = bodies.record(
    {**_WHO, "per_item": _named(_AMOUNT), "min_count": _COUNT, "max_count": _COUNT},
    ("project_id", "per_item", "min_count", "max_count"))
_RECHECK = bodies.record(
    {**_WHO, "deltas": _named(_NOTHING), "recheck": {"type": "boolean", "enum": [True]},
     "consumers": {**_UUIDS, "minItems": 1}},
    ("project_id", "deltas", "recheck", "consumers"))


def _one_of(*schemas: Schema) -> Body:
    return Ladder({ONLY: {"type": "object", "oneOf": list(schemas)}})


QUOTA_CHECK = _one_of(_DELTAS, _ITEMS, _RECHECK)
QUOTA_EXPLAIN = _one_of(_DELTAS, _ITEMS)
_GROUP: dict[str, Schema] = {**_WHO, "asked": _AMOUNT}
SERVER_GROUP_MEMBERS = _one_of(
    bodies.record({**_GROUP, "members": _UUIDS}, ("project_id", "user_id", "members")),
    bodies.record({**_GROUP, "group": bodies.NAME}, ("project_id", "user_id", "group")))
