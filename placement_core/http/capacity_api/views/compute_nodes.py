"""/capacity/v1/compute_nodes: compute nodes, their capacity, and where it is kept."""

from __future__ import annotations

import dataclasses
from typing import Any

from placement_core.compute import errors
from placement_core.compute.nodes import LARGEST_PAGE, Key
from placement_core.compute.records import ComputeNode, State
from placement_core.http import pages
from placement_core.http.operations import Call, Reply

_PATH = "/capacity/v1/compute_nodes"
#: The default size of a page.
_PAGE = 100

_FIELDS = (
    "id", "uuid", "host", "hypervisor_hostname", "hypervisor_type", "hypervisor_version",
    "vcpus", "memory_mb", "local_gb", "cpu_allocation_ratio", "ram_allocation_ratio",
    "disk_allocation_ratio", "created_at", "updated_at")


def list_(call: Call) -> Reply:
    """Return the compute nodes that pass every filter of the query, by cell."""
    page = call.parse_page()
    node_page = call.services.compute_nodes.list_(
        call.ctx, cell=pages.get_last(call.query, "cell"),
        named=pages.get_last(call.query, "name"),
        after=None if page.marker is None else _parse_marker(page.marker),
        limit=min(page.size or _PAGE, LARGEST_PAGE))
    next_url = None
    if node_page.more:
        last = node_page.nodes[-1]
        next_url = pages.make_next_url(
            f"{call.prefix}{_PATH}", call.query, f"{last.cell.uuid}.{last.id}")
    return Reply(body={
        "compute_nodes": [_render(node) for node in node_page.nodes],
        "missing_cells": [
            {"uuid": cell.uuid, "name": cell.name, "reason": cell.reason}
            for cell in node_page.missing],
        "links": {"next": next_url}})


def show(call: Call) -> Reply:
    """Return one compute node."""
    return Reply(body={"compute_node": _render(
        call.services.compute_nodes.get(call.ctx, call.path["uuid"]))})


def _parse_marker(marker: str) -> Key:
    """Return the key of the node that a page ended with."""
    cell_uuid, _, number = marker.rpartition(".")
    if not (number.isascii() and number.isdigit() and len(number) <= 10):
        raise errors.BadMarker(marker)
    return cell_uuid, min(int(number), 2**31 - 1)


def _render(node: ComputeNode) -> dict[str, Any]:
    migrated = node.state is State.MIGRATED
    return {
        **{field: getattr(node, field) for field in _FIELDS},
        "cell": {"uuid": node.cell.uuid, "name": node.cell.name},
        "inventories": {name: dataclasses.asdict(values)
                        for name, values in node.inventories.items()},
        "resource_provider_uuid": node.uuid if migrated else None,
        "migrated": migrated,
        "state": node.state.value,
        "reason": node.reason or None,
        "remarks": list(node.remarks),
    }
