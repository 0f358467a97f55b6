"""/traits, and /resource_providers/{uuid}/traits."""

from __future__ import annotations

from placement_core.http.operations import Call, Reply
from placement_core.http.placement_api import representations
from placement_core.http.placement_api.queries import traits as query
from placement_core.placement import traits
from placement_core.placement.records import ProviderTraits


def list_(call: Call) -> Reply:
    """Return the traits that pass the filters of the query."""
    records = traits.list_(call.ctx, **query.parse(call.query))
    return Reply(
        body=representations.render_traits(records),
        last_modified=representations.find_newest_change(records), cacheable=True)


def show(call: Call) -> Reply:
    """Confirm that a trait exists."""
    item = traits.get(call.ctx, call.path["name"])
    return Reply(204, last_modified=representations.find_newest_change([item]), cacheable=True)


def ensure(call: Call) -> Reply:
    """Make a custom trait, or confirm that it exists."""
    item, created = traits.ensure(call.ctx, call.path["name"])
    return Reply(
        201 if created else 204, location=f"/traits/{item.name}",
        last_modified=representations.find_newest_change([item]), cacheable=True)


def delete(call: Call) -> Reply:
    """Remove a custom trait."""
    traits.delete(call.ctx, call.path["name"])
    return Reply(204)


def show_for_provider(call: Call) -> Reply:
    """Return the traits of a provider."""
    return _make_reply(traits.list_for_provider(call.ctx, call.path["uuid"]))


def replace_for_provider(call: Call) -> Reply:
    """Make these the traits of a provider."""
    return _make_reply(traits.replace_for_provider(
        call.ctx, call.path["uuid"], call.body["traits"],
        generation=call.body["resource_provider_generation"]))


def delete_for_provider(call: Call) -> Reply:
    """Take all traits from a provider."""
    traits.delete_for_provider(call.ctx, call.path["uuid"])
    return Reply(204)


def _make_reply(item: ProviderTraits) -> Reply:
    return Reply(
        body=representations.render_provider_traits(item),
        last_modified=representations.find_newest_change(item.traits), cacheable=True)
