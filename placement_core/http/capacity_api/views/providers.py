"""GET /capacity/v1/providers: providers with inventories, traits and aggregates."""

from __future__ import annotations

from typing import Any

from placement_core.http import pages
from placement_core.http.operations import Call, Reply
from placement_core.http.placement_api import representations
from placement_core.placement import provider_list
from placement_core.placement.provider_list import ListedProvider

_PATH = "/capacity/v1/providers"
#: The default size of a page.
_PAGE = 1000


def list_(call: Call) -> Reply:
    """Return the providers that match every filter of the query, by uuid."""
    page = call.parse_page()
    size = page.size or _PAGE
    providers = provider_list.list_(
        call.ctx, in_tree=pages.get_last(call.query, "in_tree"),
        member_of=pages.get_last(call.query, "member_of"), marker=page.marker, limit=size + 1)
    listed, links = pages.split_page(
        f"{call.prefix}{_PATH}", call.query, providers, size, lambda provider: provider.uuid)
    return Reply(body={"providers": [render(provider) for provider in listed], "links": links})


def render(provider: ListedProvider) -> dict[str, Any]:
    """Return the document of a provider."""
    return {
        "uuid": provider.uuid,
        "name": provider.name,
        "generation": provider.generation,
        "root_provider_uuid": provider.root_uuid,
        "parent_provider_uuid": provider.parent_uuid,
        "inventories": {
            item.resource_class: {**representations.render_inventory(item), "used": item.used}
            for item in provider.inventories},
        "traits": provider.traits,
        "aggregates": provider.aggregates,
    }
