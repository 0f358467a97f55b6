"""/v3/regions, and /v3/regions/{id}."""

from __future__ import annotations

from placement_core.catalog import regions
from placement_core.http import pages
from placement_core.http.limits_api import catalogs, representations
from placement_core.http.operations import Call, Reply
from placement_core.limits import cleanup
from placement_core.plugin_api.catalog import Region


def list_(call: Call) -> Reply:
    """Return regions: all, or those below one."""
    records = call.services.catalog.regions(
        call.ctx, parent_region_id=pages.get_last(call.query, "parent_region_id"))
    return Reply(body=representations.render_list(
        call, "regions", records, representations.render_region))


def show(call: Call) -> Reply:
    """Return one region."""
    id_ = call.path["id"]
    return _reply(call, catalogs.require_found(
        "region", id_, call.services.catalog.region(call.ctx, id_)))


def create(call: Call) -> Reply:
    """Make a region; without an id, it gets one."""
    body = call.body["region"]
    return _reply(call, regions.create(
        call.ctx, id=body.get("id") or None, parent_region_id=body.get("parent_region_id"),
        description=body.get("description") or ""), 201)


def update(call: Call) -> Reply:
    """Describe a region anew, or move it below another one."""
    return _reply(call, regions.update(
        call.ctx, call.path["id"], **catalogs.parse_changes(call.body["region"])))


def delete(call: Call) -> Reply:
    """Remove a region, and its limits."""
    cleanup.delete_region(call.ctx, call.path["id"])
    return Reply(204)


def _reply(call: Call, region: Region, status: int = 200) -> Reply:
    return Reply(status, representations.render_item(
        call, "region", region, representations.render_region))
