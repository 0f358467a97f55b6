"""What is answered: JSON schemas of the bodies of successes, by microversion.

Each name is the ``Ladder`` that an ``Operation`` takes. ``representations`` makes what they
describe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from placement_core.http.json_schemas import (
    AMOUNT,
    INTEGER,
    NUMBER,
    TEXT,
    TEXT_OR_NULL,
    Schema,
    answer,
    keyed,
    listed,
    or_null,
    record,
)
from placement_core.http.operations import Answers, Ladder, Version
from placement_core.http.placement_api import microversions as mv
from placement_core.http.placement_api.bodies import CLASS_PATTERN, UUID

_GENERATION = {"resource_provider_generation": INTEGER}

#: The name of a resource class.
CLASS: Schema = {"type": "string", "pattern": CLASS_PATTERN}
#: {resource class: amount}.
RESOURCES = keyed(AMOUNT, CLASS)
LINKS = listed(record({"rel": TEXT, "href": TEXT}))
TRAIT_NAMES = listed(TEXT)

#: Made, or there already; without a body.
ENSURED: Ladder[Answers] = Ladder({mv.BASE: {201: None, 204: None}})
CREATED = answer(None, 201)


def ok(schemas: Mapping[Version, Schema]) -> Ladder[Answers]:
    """Return the answers of an operation whose successes are all 200."""
    return Ladder({since: {200: schema} for since, schema in schemas.items()})


VERSIONS = ok({mv.BASE: record({"versions": listed(record({
    "id": TEXT, "max_version": TEXT, "min_version": TEXT, "status": TEXT,
    "links": LINKS}))})})

# Providers

_PROVIDER = {"uuid": UUID, "name": TEXT, "generation": INTEGER, "links": LINKS}
_NESTED = {"parent_provider_uuid": or_null(UUID), "root_provider_uuid": UUID}

PROVIDER = ok({
    mv.BASE: record(_PROVIDER),
    mv.NESTED_PROVIDERS: record({**_PROVIDER, **_NESTED}),
})
PROVIDERS = ok({
    since: record({"resource_providers": listed(answers[200] or {})})
    for since, answers in PROVIDER.rungs.items()})
PROVIDER_CREATED: Ladder[Answers] = Ladder({
    mv.BASE: {201: None},
    mv.PROVIDER_IN_BODY: {200: record({**_PROVIDER, **_NESTED})},
})

# Inventories

INVENTORY_FIELDS: dict[str, Schema] = {
    "total": INTEGER, "reserved": INTEGER, "min_unit": INTEGER, "max_unit": INTEGER,
    "step_size": INTEGER, "allocation_ratio": NUMBER}
_INVENTORY = record({**INVENTORY_FIELDS, **_GENERATION})

INVENTORY = ok({mv.BASE: _INVENTORY})
INVENTORY_CREATED: Ladder[Answers] = Ladder({mv.BASE: {201: _INVENTORY}})
INVENTORIES = ok({mv.BASE: record({
    "inventories": keyed(record(INVENTORY_FIELDS), CLASS), **_GENERATION})})

# Usages

PROVIDER_USAGES = ok({mv.BASE: record({"usages": RESOURCES, **_GENERATION})})
USAGES = ok({
    mv.PROJECT_USAGES: record({"usages": RESOURCES}),
    # By type of consumer; the type "unknown" is in lower case, and so is "all".
    mv.CONSUMER_TYPES: record({"usages": keyed({
        "type": "object", "properties": {"consumer_count": AMOUNT},
        "required": ["consumer_count"], "additionalProperties": AMOUNT})}),
})

# Aggregates, traits and resource classes

_AGGREGATES = {"aggregates": listed(TEXT)}
AGGREGATES = ok({
    mv.AGGREGATES: record(_AGGREGATES),
    mv.AGGREGATES_GENERATION: record({**_AGGREGATES, **_GENERATION}),
})
PROVIDER_TRAITS = ok({mv.TRAITS: record({"traits": TRAIT_NAMES, **_GENERATION})})
TRAITS = ok({mv.TRAITS: record({"traits": TRAIT_NAMES})})

_CLASS = record({"name": CLASS, "links": LINKS})
RESOURCE_CLASS = ok({mv.RESOURCE_CLASSES: _CLASS})
RESOURCE_CLASSES = ok({mv.RESOURCE_CLASSES: record({"resource_classes": listed(_CLASS)})})
CLASS_UPDATED: Ladder[Answers] = Ladder({
    mv.RESOURCE_CLASSES: {200: _CLASS},
    mv.ENSURE_CLASS: {201: None, 204: None},
})

# Allocations

_SHARE = {"resources": RESOURCES}
_GUARDED_SHARE = {**_SHARE, "consumer_generation": INTEGER}


def _make_provider_allocations(share: Mapping[str, Schema]) -> Schema:
    return record({"allocations": keyed(record(share)), **_GENERATION})


PROVIDER_ALLOCATIONS = ok({
    mv.BASE: _make_provider_allocations(_SHARE),
    mv.CONSUMER_GENERATION: _make_provider_allocations(_GUARDED_SHARE),
})

_HOLDINGS = {"allocations": keyed(record({"generation": INTEGER, **_SHARE}), UUID)}
_OWNED = {"project_id": TEXT_OR_NULL, "user_id": TEXT_OR_NULL}


def _make_holdings(fields: Mapping[str, Schema]) -> Schema:
    """Return the schema of what a consumer holds; one that holds nothing has no fields."""
    return record(_HOLDINGS, fields)


ALLOCATIONS = ok({
    mv.BASE: _make_holdings({}),
    mv.ALLOCATIONS_DICT: _make_holdings(_OWNED),
    mv.CONSUMER_GENERATION: _make_holdings({**_OWNED, "consumer_generation": INTEGER}),
    mv.CONSUMER_TYPES: _make_holdings({
        **_OWNED, "consumer_generation": INTEGER, "consumer_type": TEXT}),
})

# Candidates

_LISTED_REQUEST = record({"allocations": listed(record({
    "resource_provider": record({"uuid": UUID}), **_SHARE}))})
_KEYED_REQUEST = record({"allocations": keyed(record(_SHARE), UUID)})
_MAPPED_REQUEST = record({
    "allocations": keyed(record(_SHARE), UUID), "mappings": keyed(listed(UUID))})

_SUMMARY = {"resources": keyed(record({"capacity": INTEGER, "used": AMOUNT}), CLASS)}
_TRAITS = {"traits": TRAIT_NAMES}


def _make_candidates(request: Schema, *summary: Mapping[str, Schema]) -> Schema:
    return record({
        "allocation_requests": listed(request),
        "provider_summaries": keyed(record(_merge(summary)), UUID)})


def _merge(parts: Iterable[Mapping[str, Schema]]) -> dict[str, Schema]:
    return {name: schema for part in parts for name, schema in part.items()}


CANDIDATES = ok({
    mv.CANDIDATES: _make_candidates(_LISTED_REQUEST, _SUMMARY),
    mv.ALLOCATIONS_DICT: _make_candidates(_KEYED_REQUEST, _SUMMARY),
    mv.CANDIDATES_TRAITS: _make_candidates(_KEYED_REQUEST, _SUMMARY, _TRAITS),
    mv.NESTED_CANDIDATES: _make_candidates(_KEYED_REQUEST, _SUMMARY, _TRAITS, _NESTED),
    mv.MAPPINGS: _make_candidates(_MAPPED_REQUEST, _SUMMARY, _TRAITS, _NESTED),
})

# Errors


def make_error(*, required: Iterable[str] = (), **members: Schema) -> Schema:
    """Return the schema of an error document.

    :param required: members that it always has, beside those that every version has.
    :param members: what it may have besides.
    """
    error = record(
        {"status": INTEGER, "title": TEXT, "detail": TEXT, "request_id": TEXT},
        # What the header asks for is not offered.
        {"max_version": TEXT, "min_version": TEXT, **members})
    error["required"] += required
    return record({"errors": {
        "type": "array", "minItems": 1, "maxItems": 1, "items": error}})


ERROR: Ladder[Schema] = Ladder({
    mv.BASE: make_error(),
    # The refusal of a version that is not offered has no code.
    mv.ERROR_CODES: make_error(code=TEXT),
})
