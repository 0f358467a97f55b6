"""/v1/os-hosts/allocations, and /v1/os-hosts/{id}/allocation."""

from __future__ import annotations

from placement_core.http import pages
from placement_core.http.leases_api import representations
from placement_core.http.leases_api.representations import Document
from placement_core.http.operations import Call, Reply
from placement_core.reservations.hosts import host_queries


def list_(call: Call) -> Reply:
    """Return the allocations of every host."""
    return Reply(body={"allocations": _render_allocations(call)})


def show(call: Call) -> Reply:
    """Return the allocations of one host."""
    (allocation,) = _render_allocations(call, call.path["id"])
    return Reply(body={"allocation": allocation})


def _render_allocations(call: Call, host_id: str | None = None) -> list[Document]:
    return representations.render_allocations(*host_queries.list_allocations(
        call.ctx, host_id=host_id, lease_id=pages.get_last(call.query, "lease_id"),
        reservation_id=pages.get_last(call.query, "reservation_id")))
