"""Query strings of the capacity API. Unknown keys are refused."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from placement_core.feed import tokens
from placement_core.http import pages
from placement_core.http.limits_api import bodies
from placement_core.http.operations import ONLY, Ladder
from placement_core.http.placement_api import microversions as mv

_TEXT = {"minLength": 1, "maxLength": 255}
#: Fits a database key.
_NUMBER = {"pattern": "^[0-9]{1,18}$"}
#: The uuid of what a threshold is about.
_SUBJECT = {"pattern": r"^[0-9a-f-]{36}\Z"}
_FLAG = {"enum": ["true", "false"]}
#: How long something lasts, from 1 on.
_LASTING = {"pattern": r"^[1-9][0-9]{0,11}\Z"}
_SCHEMAS: dict[str, Any] = {
    "service_id": _TEXT,
    "region_id": _TEXT,
    "resource_name": bodies.NAME,
    "project_id": bodies.NODE_ID,
    "domain_id": bodies.NODE_ID,
    "user_id": _TEXT,
    "limit_id": _TEXT,
    "consumer_type": _TEXT,
    "resource_provider": _TEXT,
    "in_tree": _TEXT,
    "member_of": _TEXT,
    "resource_class": _TEXT,
    "required": _TEXT,
    "group_by": {"enum": ["root", "aggregate", "trait"]},
    "cell": _TEXT,
    "queued_for_delete": _FLAG,
    "check": _FLAG,
    "name": _TEXT,
    "kind": {"enum": ["registered_limit", "limit", "user_limit"]},
    "state": {"enum": ["held", "expired"]},
    "limit": pages.LIMIT,
    "marker": _TEXT,
    "host": _TEXT,
    "lease_id": _TEXT,
    "start": _TEXT,
    "end": _TEXT,
    "from": _TEXT,
    "to": _TEXT,
    "consumer_uuid": _TEXT,
    "request_id": _TEXT,
    "operation": _TEXT,
    "uuid": _TEXT,
    "format": {"enum": ["json", "csv"]},
    "reservations": {"minLength": 1},
    "microversion": {"enum": list(mv.BY_NUMBER)},
    "minutes": _LASTING,
    "seconds": _LASTING,
    "after": {"minLength": 1, "maxLength": tokens.LONGEST},
    "kinds": {"minLength": 1, "maxLength": 255},
    "wait": {"pattern": r"^([0-9]|[12][0-9]|30)\Z"},
    "include": {"enum": ["document", "audit", "document,audit"]},
}

USER_LIMIT_FIELDS = ("project_id", "user_id", "service_id", "region_id", "resource_name")
HISTORY_FIELDS = (
    "kind", "limit_id", "service_id", "region_id", "resource_name", "project_id", "domain_id",
    "user_id")


def _make_schema(
    names: Collection[str], required: Collection[str] = (), **own: Any
) -> Ladder[dict[str, Any]]:
    return Ladder({ONLY: {
        "type": "object",
        "properties": {name: own.get(name, _SCHEMAS[name]) for name in names},
        "required": list(required),
        "additionalProperties": False,
    }})


CHANGES = _make_schema(
    ("after", "kinds", "project_id", "limit", "wait", "include"), project_id=_TEXT)
OPENAPI = _make_schema(("microversion",))
#: Owners of consumers are any text, as in PUT /allocations.
CLAIMS = _make_schema(("project_id", "state", "limit", "marker"), project_id=_TEXT, marker=_NUMBER)
EFFECTIVE = _make_schema(("service_id", "region_id", "project_id"), ("service_id",))
USER_LIMITS = _make_schema((*USER_LIMIT_FIELDS, "limit", "marker"))
HISTORY = _make_schema((*HISTORY_FIELDS, "limit", "marker"), marker=_NUMBER)
CELLS = _make_schema(("check",))
CONSUMERS = _make_schema(
    ("project_id", "user_id", "consumer_type", "resource_provider", "limit", "marker"),
    project_id=_TEXT)
USAGES = _make_schema(("limit", "marker"))
_USAGE_FILTERS = (
    "project_id", "user_id", "consumer_uuid", "resource_class", "from", "to", "format")
USAGE_INTERVALS = _make_schema((*_USAGE_FILTERS, "limit", "marker"), project_id=_TEXT)
USAGE_TOTALS = _make_schema(_USAGE_FILTERS, project_id=_TEXT)
AUDIT = _make_schema(
    ("project_id", "user_id", "request_id", "operation", "kind", "uuid", "from", "to", "limit",
     "marker"), project_id=_TEXT, kind=_TEXT)
THRESHOLDS = _make_schema(("limit", "marker"), marker=_SUBJECT)
WORKERS = _make_schema(("limit",))
REFUSALS = _make_schema(("project_id", "limit"), project_id=_TEXT)
STRANDED = _make_schema(("limit",))
PROVIDERS = _make_schema(("in_tree", "member_of", "limit", "marker"))
_ROOM_FILTERS = ("resource_class", "in_tree", "member_of", "required", "limit", "marker")
ROOM = _make_schema(("group_by", *_ROOM_FILTERS), member_of={}, required={})
ROOM_HOSTS = _make_schema(_ROOM_FILTERS, member_of={}, required={})
COMPUTE_NODES = _make_schema(("cell", "name", "limit", "marker"))
INSTANCES = _make_schema(
    ("project_id", "user_id", "cell", "queued_for_delete", "limit", "marker"), project_id=_TEXT)
QUOTA = _make_schema(("limit", "marker"))
QUOTA_OF_PROJECT = _make_schema(("user_id",))
TIMELINE = _make_schema(("start", "end", "limit"))
NEXT_FIT = _make_schema(("reservations", "start", "minutes", "seconds"), ("reservations",))
RESERVATION_HISTORY = _make_schema(
    ("project_id", "host", "start", "end", "limit", "marker"), project_id=_TEXT)
NOTICES = _make_schema(
    ("project_id", "lease_id", "limit", "marker"), project_id=_TEXT, marker=_NUMBER)
