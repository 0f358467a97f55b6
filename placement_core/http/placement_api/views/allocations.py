"""/allocations, /allocations/{consumer} and /resource_providers/{uuid}/allocations."""

from __future__ import annotations

import uuid

from placement_core.http import validation
from placement_core.http.operations import Call, Reply
from placement_core.http.placement_api import representations, request_upgrades
from placement_core.placement import allocations
from placement_core.placement.errors import MalformedConsumer


def list_for_provider(call: Call) -> Reply:
    """Return what is held on a provider."""
    item = allocations.list_for_provider(call.ctx, call.path["uuid"], call.services.owners)
    modified = representations.find_newest(
        share.created_at for share in item.consumers.values())
    return Reply(
        body=representations.render_provider_allocations(item, call.microversion),
        last_modified=modified, cacheable=True)


def show(call: Call) -> Reply:
    """Return what a consumer holds; one that does not exist holds nothing."""
    item = allocations.list_for_consumer(call.ctx, call.path["consumer"], call.services.owners)
    modified = representations.find_newest(
        held.created_at for held in (item.providers.values() if item else ()))
    return Reply(
        body=representations.render_consumer_allocations(item, call.microversion),
        last_modified=modified, cacheable=True)


def replace(call: Call) -> Reply:
    """Make this all that a consumer holds."""
    if not validation.is_uuid_like(call.path["consumer"]):
        raise MalformedConsumer(call.path["consumer"])
    consumer = str(uuid.UUID(call.path["consumer"]))
    call.services.claims.replace(call.ctx, [request_upgrades.upgrade_allocations(
        consumer, call.body, call.microversion, call.services.owners.incomplete)])
    return Reply(204)


def manage(call: Call) -> Reply:
    """Make this all that several consumers hold, all or nothing."""
    call.services.claims.replace(call.ctx, request_upgrades.upgrade_all_allocations(
        call.body, call.microversion, call.services.owners.incomplete))
    return Reply(204)


def delete(call: Call) -> Reply:
    """Take away all that a consumer holds."""
    call.services.claims.delete(call.ctx, call.path["consumer"])
    return Reply(204)
