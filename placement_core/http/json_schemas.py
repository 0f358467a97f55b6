"""What JSON schemas of bodies and answers consist of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placement_core.http.operations import ONLY, Answers, Ladder

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
INTEGER: Schema = {"type": "integer"}
INTEGER_OR_NULL: Schema = {"type": ["integer", "null"]}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
#: A count, or an amount; sums have no upper bound.
AMOUNT: Schema = {"type": "integer", "minimum": 0}


def record(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """Return the schema of an object that has no other keys than these."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def keyed(value: Schema, key: Schema = TEXT) -> Schema:
    """Return the schema of an object with any number of members."""
    return {"type": "object", "propertyNames": key, "additionalProperties": value}


def listed(item: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": item}


def or_null(schema: Schema) -> Schema:
    """Return the schema of something that may be missing."""
    return {"anyOf": [schema, {"type": "null"}]}


def answer(schema: Schema | None, status: int = 200) -> Ladder[Answers]:
    """Return the only answer of an operation.

    :param schema: of its body; None: it has no body.
    """
    return Ladder({ONLY: {status: schema}})


#: Done, without a body.
NO_CONTENT = answer(None, 204)
