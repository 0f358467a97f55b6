"""What a query string may hold: JSON schemas of {name: last value}, by microversion.

Source: spec placement_api §1.4, §3 and §4.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from placement_core.http.json_schemas import Schema, record
from placement_core.http.operations import Ladder
from placement_core.http.placement_api import bodies, microversions as mv

_TEXT: Schema = {"type": "string"}
_OWNER: Schema = {"type": "string", "minLength": 1, "maxLength": 255}

#: The parameters of request groups, which take a suffix.
GROUPED = ("resources", "required", "member_of", "in_tree")
#: What a suffix may be.
SUFFIXES: Ladder[str] = Ladder({
    mv.BASE: "[1-9][0-9]*",
    mv.NAMED_SUFFIXES: "[a-zA-Z0-9_-]{1,64}",
})
GROUP_POLICIES = ["none", "isolate"]
LIMIT_PATTERN = "^[1-9][0-9]*$"


PROVIDERS: Ladder[Schema] = Ladder({
    mv.BASE: record({}, {"name": _TEXT, "uuid": bodies.UUID}),
    mv.MEMBER_OF: record({}, {"name": _TEXT, "uuid": bodies.UUID, "member_of": _TEXT}),
    mv.RESOURCES_QUERY: record({}, {
        "name": _TEXT, "uuid": bodies.UUID, "member_of": _TEXT, "resources": _TEXT}),
    mv.NESTED_PROVIDERS: record({}, {
        "name": _TEXT, "uuid": bodies.UUID, "member_of": _TEXT, "resources": _TEXT,
        "in_tree": bodies.UUID}),
    mv.PROVIDERS_REQUIRED: record({}, {
        "name": _TEXT, "uuid": bodies.UUID, "member_of": _TEXT, "resources": _TEXT,
        "in_tree": bodies.UUID, "required": _TEXT}),
})

TRAITS: Ladder[Schema] = Ladder({
    mv.TRAITS: record({}, {"name": _TEXT, "associated": _TEXT}),
})

USAGES: Ladder[Schema] = Ladder({
    mv.PROJECT_USAGES: record({"project_id": _OWNER}, {"user_id": _OWNER}),
    mv.CONSUMER_TYPES: record({"project_id": _OWNER}, {
        "user_id": _OWNER,
        "consumer_type": {
            "type": "string", "minLength": 1, "maxLength": 255,
            "pattern": f"{bodies.CLASS_PATTERN}|^all|^unknown$",
        },
    }),
})

#: The filters that may be repeated: every value has to match.
REPEATED: Ladder[Collection[str]] = Ladder({
    mv.BASE: (),
    mv.MEMBER_OF_REPEATED: ("member_of",),
    mv.SAME_SUBTREE: ("member_of", "same_subtree"),
    mv.ANY_TRAITS: ("member_of", "same_subtree", "required"),
})

_LIMIT: Schema = {"type": "string", "pattern": LIMIT_PATTERN, "minLength": 1}
_LIMITED = {"limit": _LIMIT}
_POLICY = {**_LIMITED, "group_policy": {"type": "string", "enum": GROUP_POLICIES}}
_ROOT = {**_POLICY, "root_required": _TEXT}


def _make_grouped_schema(names: Iterable[str], suffix: str, whole: dict[str, Schema]) -> Schema:
    """Return a schema where each of ``names`` may be followed by a suffix."""
    schema = record({}, whole)
    schema["patternProperties"] = {f"^{name}({suffix})?$": _TEXT for name in names}
    return schema


_NUMBERED = SUFFIXES.at(mv.GRANULAR)
_NAMED = SUFFIXES.at(mv.NAMED_SUFFIXES)

CANDIDATES: Ladder[Schema] = Ladder({
    mv.CANDIDATES: record({"resources": _TEXT}),
    mv.CANDIDATES_LIMIT: record({"resources": _TEXT}, _LIMITED),
    mv.CANDIDATES_TRAITS: record({"resources": _TEXT}, {**_LIMITED, "required": _TEXT}),
    mv.CANDIDATES_MEMBER_OF: record({"resources": _TEXT}, {
        **_LIMITED, "required": _TEXT, "member_of": _TEXT}),
    mv.GRANULAR: _make_grouped_schema(GROUPED[:3], _NUMBERED, _POLICY),
    mv.CANDIDATES_IN_TREE: _make_grouped_schema(GROUPED, _NUMBERED, _POLICY),
    mv.NAMED_SUFFIXES: _make_grouped_schema(GROUPED, _NAMED, _POLICY),
    mv.ROOT_REQUIRED: _make_grouped_schema(GROUPED, _NAMED, _ROOT),
    mv.SAME_SUBTREE: _make_grouped_schema(GROUPED, _NAMED, {**_ROOT, "same_subtree": _TEXT}),
})
