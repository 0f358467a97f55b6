"""/resource_providers and /resource_providers/{uuid}."""

from __future__ import annotations

from placement_core.http.operations import Call, Ladder, Reply
from placement_core.http.placement_api import microversions as mv, representations
from placement_core.http.placement_api.queries import providers as query
from placement_core.placement import providers
from placement_core.placement.candidates import providers as search
from placement_core.placement.records import Provider

_SHOWS_CREATED = Ladder({mv.BASE: False, mv.PROVIDER_IN_BODY: True})


def list_(call: Call) -> Reply:
    """Return the providers that pass every filter of the query."""
    filters = query.parse(call.query, call.microversion)
    entries = search.find(call.services.index.snapshot(call.ctx), filters)
    return Reply(
        body=representations.render_providers(entries, call.microversion, call.prefix),
        last_modified=representations.find_newest_change([entry.provider for entry in entries]),
        cacheable=True)


def create(call: Call) -> Reply:
    """Create a provider; from 1.20 on it is shown."""
    provider = providers.create(
        call.ctx, name=call.body["name"], uuid=call.body.get("uuid"),
        parent_uuid=call.body.get("parent_provider_uuid"))
    reply = _make_reply(call, provider) if _SHOWS_CREATED.at(call.microversion) else Reply(201)
    reply.location = representations.get_provider_path(provider.uuid)
    return reply


def show(call: Call) -> Reply:
    """Return one provider."""
    return _make_reply(call, providers.get(call.ctx, call.path["uuid"]))


def update(call: Call) -> Reply:
    """Rename a provider, and move it in the trees where the body names a parent."""
    return _make_reply(call, providers.update(
        call.ctx, call.path["uuid"], name=call.body["name"],
        parent_uuid=call.body.get("parent_provider_uuid", providers.KEEP),
        allow_reparenting=call.microversion >= mv.REPARENTING))


def delete(call: Call) -> Reply:
    """Remove a provider."""
    providers.delete(call.ctx, call.path["uuid"])
    return Reply(204)


def _make_reply(call: Call, provider: Provider) -> Reply:
    return Reply(
        body=representations.render_provider(provider, call.microversion, call.prefix),
        last_modified=representations.find_newest_change([provider]), cacheable=True)
