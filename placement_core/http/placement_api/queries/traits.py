"""GET /traits: its filters.

Source: spec placement_api §3.8. Differs: an operator that is neither ``in``
nor ``startswith`` is refused, not ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from placement_core.http.placement_api.queries import errors


class TraitFilters(TypedDict, total=False):
    """The arguments of ``traits.list_``."""

    names: list[str]
    prefix: str
    associated: bool


def parse(query: Mapping[str, list[str]]) -> TraitFilters:
    """Return the filters of a query string.

    :raises errors.BadQuery: a value is misformed.
    """
    filters: TraitFilters = {}
    if "name" in query:
        name = query["name"][-1]
        operator, _, value = name.partition(":")
        if operator == "in" and ":" in name:
            filters["names"] = value.split(",")
        elif operator == "startswith" and ":" in name:
            filters["prefix"] = value
        else:
            raise errors.BadQuery(
                "Badly formatted name parameter. Expected name query string parameter in form: "
                f'?name=[in|startswith]:[name1,name2|prefix]. Got: "{name}"')
    if "associated" in query:
        associated = query["associated"][-1].lower()
        if associated not in ("true", "false"):
            raise errors.BadQuery(
                'The query parameter "associated" only accepts "true" or "false"')
        filters["associated"] = associated == "true"
    return filters
