"""JSON schemas of request bodies. Source: spec blazar §2.

They check the types of fields. ``requests`` checks for missing fields and parses dates, with the
error texts of the reference; plugins check the fields of their reservations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placement_core.http.operations import ONLY, Ladder

Schema = dict[str, Any]
Body = Ladder[Schema | None]

#: The most reservations of a lease, whatever the options say.
_MOST_RESERVATIONS = 100

_DATE: Schema = {"type": "string", "maxLength": 255}
_RESERVATION: Schema = {
    "type": "object", "maxProperties": 100,
    "properties": {
        "id": {"type": "string", "maxLength": 36},
        "resource_type": {"type": "string", "maxLength": 255}},
}
RESERVATIONS: Schema = {
    "type": "array", "maxItems": _MOST_RESERVATIONS, "items": _RESERVATION}


def _record(properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


#: ``start`` and ``end`` are the seed's names. Clients send ``events`` as an empty list, as they
#: cannot set events; ``before_end_date`` may be null.
LEASE: Body = Ladder({ONLY: _record({
    "name": {"type": "string", "minLength": 1, "maxLength": 80, "pattern": r"\S"},
    "start_date": _DATE, "end_date": _DATE, "start": _DATE, "end": _DATE,
    "before_end_date": {**_DATE, "type": ["string", "null"]},
    "reservations": RESERVATIONS,
    "events": {"type": "array", "maxItems": 0},
})})

_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
#: A flag as clients write it. Generators cannot name the members of an ``enum`` whose values
#: differ in case only.
FLAG = r"^([Tt]rue|[Ff]alse)\Z"

#: All other fields are capabilities, which the domain checks.
HOST_CREATE: Body = Ladder({ONLY: {
    "type": "object", "properties": {"name": _NAME, "id": {"type": ["string", "integer"]}}}})

HOST_UPDATE: Body = Ladder({ONLY: {
    "type": "object",
    "properties": {
        "name": _NAME,
        "reservable": {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": FLAG}]},
        "down_reason": {"type": ["string", "null"]},
    },
}})

PROPERTY_UPDATE: Body = Ladder({ONLY: {
    **_record({"private": {"type": "boolean"}}), "required": ["private"]}})
