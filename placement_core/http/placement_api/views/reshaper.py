"""POST /reshaper."""

from __future__ import annotations

from placement_core.http.operations import Call, Reply
from placement_core.http.placement_api import request_upgrades


def reshape(call: Call) -> Reply:
    """Move inventories, and the allocations on them, in one step."""
    inventories = {
        provider: request_upgrades.upgrade_inventories(body)
        for provider, body in call.body["inventories"].items()}
    call.services.claims.reshape(call.ctx, inventories, request_upgrades.upgrade_all_allocations(
        call.body["allocations"], call.microversion, call.services.owners.incomplete))
    return Reply(204)
