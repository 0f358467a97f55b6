"""Query strings of lists: filters and pages.

Keys that nobody knows are ignored, as in Keystone.
Source: spec limits §2; differs: pages work (B2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, cast

from placement_core.http.limits_api import bodies
from placement_core.http.operations import ONLY, Ladder
from placement_core.limits import records

Query = Mapping[str, list[str]]

_COMPARISONS = (
    "contains", "startswith", "endswith", "icontains", "istartswith", "iendswith")

#: The most items of a page that can be asked for; more is as much.
_LARGEST_PAGE = 100_000

#: How many items a page has: an integer from 1 on.
LIMIT = {"pattern": "^[1-9][0-9]{0,17}$"}

_SCHEMAS: dict[str, Any] = {
    # Dashes are fine wherever they stand: an id is looked up literally.
    "service_id": {"pattern": "^(-?[0-9a-fA-F]){32}$"},
    "region_id": {"minLength": 1, "maxLength": 255},
    "resource_name": bodies.NAME,
    "project_id": bodies.NODE_ID,
    "domain_id": bodies.NODE_ID,
    "limit": LIMIT,
}

REGISTERED_FIELDS = ("service_id", "region_id", "resource_name")
LIMIT_FIELDS = (*REGISTERED_FIELDS, "project_id", "domain_id")


def schema(fields: Collection[str]) -> Ladder[dict[str, Any]]:
    """Return the schema of a list's query string."""
    return Ladder({ONLY: {
        "type": "object",
        "properties": {name: _SCHEMAS[name] for name in (*fields, "limit")},
    }})


REGISTERED = schema(REGISTERED_FIELDS)
LIMITS = schema(LIMIT_FIELDS)
ENDPOINTS: Ladder[dict[str, Any]] = Ladder({ONLY: {
    "type": "object",
    "properties": {"interface": {"enum": ["public", "internal", "admin"]}},
}})


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is asked for.

    :ivar size: None for all that follows.
    :ivar marker: the id of the last item of the page before.
    """

    size: int | None
    marker: str | None

    @property
    def wanted(self) -> int | None:
        """How many items to look for: one more tells whether there is a next page."""
        return None if self.size is None else self.size + 1


def page(query: Query) -> Page:
    """Return which page is asked for."""
    asked = last(query, "limit")
    size = min(int(asked), _LARGEST_PAGE) if asked is not None else None
    return Page(size, last(query, "marker") or None)


def filters(query: Query, fields: Collection[str]) -> list[records.Filter]:
    """Return the filters that a query string names; all of them have to match."""
    found = []
    for key, values in query.items():
        field, _, comparison = key.partition("__")
        if field not in fields or (comparison and comparison not in _COMPARISONS):
            continue
        operator = cast(records.Operator, comparison or "equals")
        found += [records.Filter(field, operator, value) for value in values]
    return found


def last(query: Query, key: str) -> str | None:
    """Return what a key was given last, if it was."""
    return query[key][-1] if key in query else None
