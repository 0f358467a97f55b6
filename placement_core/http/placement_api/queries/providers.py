"""GET /resource_providers: its query string becomes a ``ProviderFilter``.

Source: spec placement_api §3.2.
"""

from __future__ import annotations

from collections.abc import Mapping

from placement_core.http.operations import Version
from placement_core.http.placement_api.queries import values
from placement_core.placement.candidates import requests


def parse(query: Mapping[str, list[str]], version: Version) -> requests.ProviderFilter:
    """Return what a query string filters by; an empty name or uuid filters nothing.

    :raises errors.Invalid: a value is misformed, or of a later microversion.
    """
    last = {name: texts[-1] for name, texts in query.items()}
    return requests.ProviderFilter(
        name=last.get("name") or None,
        uuid=last.get("uuid") or None,
        in_tree=last.get("in_tree"),
        resources=values.parse_resources(last["resources"]) if "resources" in last else {},
        traits=values.parse_traits(query.get("required", ()), version),
        aggregates=values.parse_aggregates(query.get("member_of", ()), version),
    )
