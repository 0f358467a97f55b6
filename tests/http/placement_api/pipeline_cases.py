"""A table of operations to test the pipeline with: nothing here depends on what a view does."""

from __future__ import annotations

import dataclasses
import datetime

from placement_core import errors
from placement_core.http.apis import Api
from placement_core.http.operations import NOW, Call, Ladder, Operation, Reply
from placement_core.http.placement_api import microversions as mv, policies
from placement_core.http.placement_api.api import API
from tests.http import base

_BODY = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 10},
        "uuid": {"type": "string", "format": "uuid"},
        "amount": {"type": "integer", "minimum": 1},
    },
    "required": ["name"],
    "additionalProperties": False,
}
_QUERY = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "uuid": {"type": "string", "format": "uuid"},
        "limit": {"type": "string", "pattern": "^[1-9][0-9]*$"},
    },
    "additionalProperties": False,
}
_WHEN = datetime.datetime(2026, 2, 3, 4, 5, 6, 789)
UUID = "12345678-1234-5678-1234-567812345678"


def echo(call: Call) -> Reply:
    return Reply(body={
        "query": call.query, "path": dict(call.path), "body": call.body,
        "prefix": call.prefix, "user": call.ctx.identity.user_id,
        "project": call.ctx.identity.project_id, "roles": call.ctx.identity.roles,
    })


def _create(call: Call) -> Reply:
    return Reply(status=201, location=f"/things/{call.body['name']}")


def _missing(call: Call) -> Reply:
    raise errors.NotFound("No such thing.")


def fail(call: Call) -> Reply:
    raise RuntimeError("the secret is 42")


def _exists(ctx: object, path: dict[str, str]) -> None:
    if path["name"] == "missing":
        raise errors.NotFound("No such thing.")


class _Taken(errors.Conflict):
    code = "test.taken"


def take(call: Call) -> Reply:
    raise _Taken("It is taken.")


def _over(call: Call) -> Reply:
    raise errors.OverLimit("Too much.")


def _away(call: Call) -> Reply:
    raise errors.Unavailable("Not now.")


LIST, CREATE, SHOW = (
    policies.PROVIDERS_LIST, policies.PROVIDERS_CREATE, policies.PROVIDERS_SHOW)

OPERATIONS = (
    Operation("GET", "/", echo, policy=None),
    Operation("GET", "/things", echo, LIST, query=Ladder({mv.BASE: _QUERY}), json_only=True),
    Operation("POST", "/things", _create, CREATE, body=Ladder({mv.BASE: _BODY})),
    Operation("GET", "/things/{name}", echo, SHOW),
    Operation("PUT", "/things/{name}", echo, policies.PROVIDERS_UPDATE, check_exists=_exists,
              body=Ladder({mv.BASE: _BODY, mv.ENSURE_CLASS: None})),
    Operation("DELETE", "/things/{name}", lambda call: Reply(status=204),
              policies.PROVIDERS_DELETE, since=mv.DELETE_INVENTORIES, gate_status=405),
    Operation("GET", "/late", echo, SHOW, since=mv.TRAITS, json_only=True),
    Operation("PUT", "/late", echo, SHOW, since=mv.AGGREGATES,
              body=Ladder({mv.AGGREGATES: _BODY}), media_before_gate=True),
    Operation("GET", "/missing", _missing, SHOW),
    Operation("GET", "/broken", fail, SHOW),
    Operation("GET", "/taken", take, SHOW),
    Operation("GET", "/over", _over, SHOW),
    Operation("GET", "/away", _away, SHOW),
    Operation("GET", "/now", lambda call: Reply(body={}, last_modified=NOW), SHOW),
    Operation("GET", "/dated", lambda call: Reply(body=b"{}", last_modified=_WHEN), SHOW),
    Operation("GET", "/dateless", lambda call: Reply(body={}, cacheable=True), SHOW),
)


def table(*operations: Operation) -> tuple[Api]:
    """Return an API with these operations and Placement's habits, as the only one."""
    return (dataclasses.replace(API, operations=operations),)


class PipelineTestCase(base.HttpTestCase):
    apis = table(*OPERATIONS)
