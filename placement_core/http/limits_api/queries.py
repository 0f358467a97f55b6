"""Query strings of lists: filters.

Unknown keys are ignored, as in Keystone.
Source: spec limits §2; differs: pages work (B2).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from placement_core.http import pages
from placement_core.http.limits_api import bodies
from placement_core.http.operations import ONLY, Ladder
from placement_core.limits import records

_COMPARISONS = (
    "contains", "startswith", "endswith", "icontains", "istartswith", "iendswith")

_SCHEMAS: dict[str, Any] = {
    # Dashes are fine wherever they stand: an id is looked up literally.
    "service_id": {"pattern": "^(-?[0-9a-fA-F]){32}$"},
    "region_id": {"minLength": 1, "maxLength": 255},
    "resource_name": bodies.NAME,
    "project_id": bodies.NODE_ID,
    "domain_id": bodies.NODE_ID,
    "limit": pages.LIMIT,
    "marker": {},
}

REGISTERED_FIELDS = ("service_id", "region_id", "resource_name")
LIMIT_FIELDS = (*REGISTERED_FIELDS, "project_id", "domain_id")


def make_schema(fields: Collection[str]) -> Ladder[dict[str, Any]]:
    """Return the schema of a list's query string."""
    return Ladder({ONLY: {
        "type": "object",
        "properties": {name: _SCHEMAS[name] for name in (*fields, "limit", "marker")},
    }})


REGISTERED = make_schema(REGISTERED_FIELDS)
LIMITS = make_schema(LIMIT_FIELDS)


def _make_catalog_schema(**fields: Any) -> Ladder[dict[str, Any]]:
    """Return the schema of the filters of a list of the catalog."""
    return Ladder({ONLY: {"type": "object", "properties": fields}})


#: A value that nothing has finds nothing.
_ANY: dict[str, Any] = {}
REGIONS = _make_catalog_schema(parent_region_id=_ANY)
SERVICES = _make_catalog_schema(type=_ANY, name=_ANY)
ENDPOINTS = _make_catalog_schema(
    service_id=_ANY, region_id=_ANY, interface={"enum": ["public", "internal", "admin"]})
_FALSE_WORDS = ("0", "f", "false", "off", "n", "no")
_TRUE_WORDS = ("", "1", "t", "true", "on", "y", "yes")
#: As Keystone reads it: the parameter alone means true. Python's ``$`` also stands before a last
#: line break, unlike that of other languages.
_FLAG: dict[str, Any] = {"pattern": "^({})(?!\\n)$".format("|".join(
    "".join(f"[{letter.upper()}{letter}]" for letter in word)
    for word in (*_FALSE_WORDS, *_TRUE_WORDS)))}
_PAGE: dict[str, Any] = {name: _SCHEMAS[name] for name in ("limit", "marker")}
DOMAINS = _make_catalog_schema(name=_ANY, enabled=_FLAG, **_PAGE)
PROJECTS = _make_catalog_schema(
    name=_ANY, domain_id=_ANY, parent_id=_ANY, enabled=_FLAG, is_domain=_FLAG, **_PAGE)


def parse_flag(query: pages.Query, key: str) -> bool | None:
    """Return whether a query string asks for what is so, or what is not; None: for both."""
    word = pages.get_last(query, key)
    return None if word is None else word.lower() not in _FALSE_WORDS


def parse_filters(query: pages.Query, fields: Collection[str]) -> list[records.Filter]:
    """Return the filters that a query string names; all of them have to match."""
    filters = []
    for key, values in query.items():
        field, _, comparison = key.partition("__")
        if field not in fields or (comparison and comparison not in _COMPARISONS):
            continue
        operator = cast(records.Operator, comparison or "equals")
        filters += [records.Filter(field, operator, value) for value in values]
    return filters
