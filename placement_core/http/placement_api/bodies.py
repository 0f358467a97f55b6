"""What a request body must look like: JSON schemas, by microversion.

Each name is the ``Ladder`` that an ``Operation`` takes. Clients see the wording
that the ``jsonschema`` package has for a violation, so the choice of keywords
here is part of the API. Source: spec placement_api §1.4 and §3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placement_core.http.json_schemas import Schema, record
from placement_core.http.operations import Ladder
from placement_core.http.placement_api import microversions as mv

#: The largest amount an inventory can hold: its columns are signed 32-bit.
MAX_INT = 2147483647
#: The largest finite number of a single-precision column.
_MAX_RATIO = 3.40282e38

CLASS_PATTERN = "^[A-Z0-9_]+$"
CUSTOM_PATTERN = "^CUSTOM_[A-Z0-9_]+$"
#: A uuid as the key of an object: 36 characters that occur in one.
UUID_KEY_PATTERN = "^[0-9a-fA-F-]{36}$"

UUID: Schema = {"type": "string", "format": "uuid"}
_UUID_OR_NULL: Schema = {"anyOf": [UUID, {"type": "null"}]}
_INTEGER: Schema = {"type": "integer"}
_INTEGER_OR_NULL: Schema = {"type": ["integer", "null"]}
_OWNER: Schema = {"type": "string", "minLength": 1, "maxLength": 255}


def _make_keyed_schema(pattern: str, value: Schema, *, least: int = 0) -> Schema:
    """Return the schema of an object whose keys match ``pattern``."""
    schema: Schema = {
        "type": "object",
        "patternProperties": {pattern: value},
        "additionalProperties": False,
    }
    if least:
        schema["minProperties"] = least
    if pattern == UUID_KEY_PATTERN:
        # "$" lets a line feed follow; such a key would not fit its column.
        schema["propertyNames"] = {"maxLength": 36}
    return schema


def _extend_schema(
    schema: Schema, names: Mapping[str, Schema], *, required: Sequence[str] = ()
) -> Schema:
    """Return an object's schema with more keys, of which some are required."""
    return {
        **schema,
        "properties": {**schema["properties"], **names},
        "required": [*schema["required"], *required],
    }


# Providers

_PROVIDER_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 200}
_PARENT = {"parent_provider_uuid": _UUID_OR_NULL}
_PROVIDER_NEW = record({"name": _PROVIDER_NAME}, {"uuid": UUID})
_PROVIDER = record({"name": _PROVIDER_NAME})

PROVIDER_CREATE: Ladder[Schema | None] = Ladder({
    mv.BASE: _PROVIDER_NEW,
    mv.NESTED_PROVIDERS: _extend_schema(_PROVIDER_NEW, _PARENT),
})
PROVIDER_UPDATE: Ladder[Schema | None] = Ladder({
    mv.BASE: _PROVIDER,
    mv.NESTED_PROVIDERS: _extend_schema(_PROVIDER, _PARENT),
})

# Inventories

_AMOUNT: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_INT}
_GENERATION = {"resource_provider_generation": _INTEGER}
_INVENTORY = record({"total": _AMOUNT}, {
    "reserved": {"type": "integer", "minimum": 0, "maximum": MAX_INT},
    "min_unit": _AMOUNT,
    "max_unit": _AMOUNT,
    "step_size": _AMOUNT,
    # Negative ratios are legal (their capacity is checked later), but must fit
    # the column like positive ones.
    "allocation_ratio": {"type": "number", "minimum": -_MAX_RATIO, "maximum": _MAX_RATIO},
})
#: All inventories of a provider. The keys are checked against the classes that
#: exist, whatever they look like, and their records always.
_INVENTORIES = _extend_schema(record(_GENERATION), {
    "inventories": {
        "type": "object",
        "additionalProperties": _extend_schema(_INVENTORY, _GENERATION),
    },
}, required=["inventories"])

INVENTORY_CREATE: Ladder[Schema | None] = Ladder({
    mv.BASE: _extend_schema(
        _INVENTORY,
        {"resource_class": {"type": "string", "pattern": CLASS_PATTERN}, **_GENERATION},
        required=["resource_class"],
    ),
})
INVENTORY_UPDATE: Ladder[Schema | None] = Ladder({
    mv.BASE: _extend_schema(_INVENTORY, _GENERATION, required=["resource_provider_generation"]),
})
INVENTORIES_REPLACE: Ladder[Schema | None] = Ladder({mv.BASE: _INVENTORIES})

# Aggregates and traits of a provider, resource classes

#: Aggregates are stored as they are written, so the longer spellings of a uuid
#: (``urn:uuid:…``) do not fit.
_AGGREGATES: Schema = {
    "type": "array", "items": {**UUID, "maxLength": 36}, "uniqueItems": True}

AGGREGATES_REPLACE: Ladder[Schema | None] = Ladder({
    mv.AGGREGATES: _AGGREGATES,
    mv.AGGREGATES_GENERATION: record({"aggregates": _AGGREGATES, **_GENERATION}),
})
PROVIDER_TRAITS_REPLACE: Ladder[Schema | None] = Ladder({
    mv.TRAITS: record({
        "traits": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 255},
        },
        **_GENERATION,
    }),
})

_CUSTOM_CLASS = record({
    "name": {"type": "string", "pattern": CUSTOM_PATTERN, "maxLength": 255},
})

CLASS_CREATE: Ladder[Schema | None] = Ladder({mv.RESOURCE_CLASSES: _CUSTOM_CLASS})
CLASS_UPDATE: Ladder[Schema | None] = Ladder({
    mv.RESOURCE_CLASSES: _CUSTOM_CLASS,
    mv.ENSURE_CLASS: None,
})

# Allocations

_RESOURCES = {
    "resources": _make_keyed_schema(CLASS_PATTERN, {"type": "integer", "minimum": 1}, least=1),
}
_OWNERS = {"project_id": _OWNER, "user_id": _OWNER}
_CONSUMER_GENERATION = {"consumer_generation": _INTEGER_OR_NULL}
_MAPPINGS: dict[str, Schema] = {
    "mappings": {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"type": "array", "minItems": 1, "items": UUID},
    },
}
_CONSUMER_TYPE: dict[str, Schema] = {
    "consumer_type": {
        "type": "string", "pattern": CLASS_PATTERN, "minLength": 1, "maxLength": 255},
}

_LISTED = record({
    "allocations": {
        "type": "array",
        "minItems": 1,
        "items": record({"resource_provider": record({"uuid": UUID}), **_RESOURCES}),
    },
})


def _make_allocations_schema(*, least: int) -> Schema:
    """Return the schema of a consumer's allocations, keyed by provider (1.12)."""
    holdings = record(_RESOURCES, {"generation": _INTEGER})
    return record({
        "allocations": _make_keyed_schema(UUID_KEY_PATTERN, holdings, least=least), **_OWNERS})


_REMOVABLE = _make_allocations_schema(least=0)
_GUARDED = _extend_schema(_REMOVABLE, _CONSUMER_GENERATION, required=["consumer_generation"])
_MAPPED = _extend_schema(_GUARDED, _MAPPINGS)
_TYPED = _extend_schema(_MAPPED, _CONSUMER_TYPE, required=["consumer_type"])


def _make_consumer_schema(schema: Schema, *, least: int = 1) -> Schema:
    return _make_keyed_schema(UUID_KEY_PATTERN, schema, least=least)


ALLOCATIONS_REPLACE: Ladder[Schema | None] = Ladder({
    mv.BASE: _LISTED,
    mv.OWNERS: _extend_schema(_LISTED, _OWNERS, required=["project_id", "user_id"]),
    mv.ALLOCATIONS_DICT: _make_allocations_schema(least=1),
    mv.CONSUMER_GENERATION: _GUARDED,
    mv.MAPPINGS: _MAPPED,
    mv.CONSUMER_TYPES: _TYPED,
})
ALLOCATIONS_MANAGE: Ladder[Schema | None] = Ladder({
    mv.POST_ALLOCATIONS: _make_consumer_schema(_REMOVABLE),
    mv.CONSUMER_GENERATION: _make_consumer_schema(_GUARDED),
    mv.MAPPINGS: _make_consumer_schema(_MAPPED),
    mv.CONSUMER_TYPES: _make_consumer_schema(_TYPED),
})


def _make_reshape_schema(consumer: Schema) -> Schema:
    return record({
        "inventories": _make_keyed_schema(UUID_KEY_PATTERN, _INVENTORIES, least=1),
        "allocations": _make_consumer_schema(consumer, least=0),
    })


RESHAPE: Ladder[Schema | None] = Ladder({
    mv.RESHAPER: _make_reshape_schema(_GUARDED),
    mv.MAPPINGS: _make_reshape_schema(_MAPPED),
    mv.CONSUMER_TYPES: _make_reshape_schema(_TYPED),
})
