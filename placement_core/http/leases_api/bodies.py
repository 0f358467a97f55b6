"""What a request body must look like: JSON schemas. Source: spec blazar §2.

They say of which types fields are; what is missing, and what dates mean, ``requests``
says in the words of the reference. What a reservation's own fields must look like,
its plugin says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placement_core.http.operations import ONLY, Ladder

Schema = dict[str, Any]
Body = Ladder[Schema | None]

#: As many reservations as a lease can have at most, whatever the options say.
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


#: ``start`` and ``end`` are the seed's names. Clients send ``events`` empty, and
#: ``before_end_date`` may be null; what events there are, is not theirs to say.
LEASE: Body = Ladder({ONLY: _record({
    "name": {"type": "string", "minLength": 1, "maxLength": 80, "pattern": r"\S"},
    "start_date": _DATE, "end_date": _DATE, "start": _DATE, "end": _DATE,
    "before_end_date": {**_DATE, "type": ["string", "null"]},
    "reservations": RESERVATIONS,
    "events": {"type": "array", "maxItems": 0},
})})

_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255}

#: All other fields are capabilities, which the domain judges.
HOST_CREATE: Body = Ladder({ONLY: {
    "type": "object", "properties": {"name": _NAME, "id": {"type": ["string", "integer"]}}}})

HOST_UPDATE: Body = Ladder({ONLY: {
    "type": "object",
    "properties": {
        "name": _NAME,
        "reservable": {
            "anyOf": [{"type": "boolean"}, {"enum": ["True", "true", "False", "false"]}]},
        "down_reason": {"type": ["string", "null"]},
    },
}})

PROPERTY_UPDATE: Body = Ladder({ONLY: {
    **_record({"private": {"type": "boolean"}}), "required": ["private"]}})
