"""/resource_providers/{uuid}/inventories and /{resource_class} below it."""

from __future__ import annotations

from placement_core.http.operations import Call, Reply
from placement_core.http.placement_api import (
    microversions as mv,
    representations,
    request_upgrades,
)
from placement_core.placement import inventories
from placement_core.placement.records import Inventory, ProviderInventories


def list_(call: Call) -> Reply:
    """Return all inventories of a provider."""
    return _make_reply_of_all(inventories.list_(call.ctx, call.path["uuid"]))


def create(call: Call) -> Reply:
    """Add inventory of one class; the generation in the body is not compared."""
    resource_class = call.body["resource_class"]
    item, generation = inventories.create(
        call.ctx, call.path["uuid"], resource_class, request_upgrades.upgrade_inventory(call.body),
        allow_fully_reserved=_allows_fully_reserved(call))
    reply = _make_reply(item, generation)
    reply.status = 201
    provider = representations.get_provider_path(call.path["uuid"])
    reply.location = f"{provider}/inventories/{resource_class}"
    return reply


def replace(call: Call) -> Reply:
    """Make these the inventories of a provider."""
    generation, values = request_upgrades.upgrade_inventories(call.body)
    return _make_reply_of_all(inventories.replace(
        call.ctx, call.path["uuid"], values, generation=generation,
        allow_fully_reserved=_allows_fully_reserved(call)))


def delete_all(call: Call) -> Reply:
    """Remove all inventories of a provider."""
    inventories.delete_all(call.ctx, call.path["uuid"])
    return Reply(204)


def show(call: Call) -> Reply:
    """Return the inventory of one class."""
    return _make_reply(*inventories.get(call.ctx, call.path["uuid"], call.path["resource_class"]))


def update(call: Call) -> Reply:
    """Replace the inventory of one class."""
    return _make_reply(*inventories.update(
        call.ctx, call.path["uuid"], call.path["resource_class"],
        request_upgrades.upgrade_inventory(call.body),
        generation=call.body["resource_provider_generation"],
        allow_fully_reserved=_allows_fully_reserved(call)))


def delete(call: Call) -> Reply:
    """Remove the inventory of one class."""
    inventories.delete(call.ctx, call.path["uuid"], call.path["resource_class"])
    return Reply(204)


def _allows_fully_reserved(call: Call) -> bool:
    return call.microversion >= mv.FULLY_RESERVED


def _make_reply(item: Inventory, generation: int) -> Reply:
    return Reply(
        body={**representations.render_inventory(item),
              "resource_provider_generation": generation},
        last_modified=representations.find_newest_change([item]), cacheable=True)


def _make_reply_of_all(item: ProviderInventories) -> Reply:
    # An empty list has nothing whose time could be told.
    modified = representations.find_newest_change(item.inventories) if item.inventories else None
    return Reply(
        body=representations.render_provider_inventories(item), last_modified=modified,
        cacheable=True)
