"""``/leases/{id}``: a lease with its reservations, events and hosts, and what was done to it."""

from __future__ import annotations

from placement_core.http.capacity_api import policies
from placement_core.http.dashboard import projects, rendering, scopes, sections
from placement_core.http.leases_api import owners, policies as lease_policies
from placement_core.http.operations import Call, Reply
from placement_core.reservations.hosts import host_queries
from placement_core.reservations.leases import lease_queries, notifications
from placement_core.reservations.records import HostAllocation, Lease, Notification

#: The rules of the sections.
RULES = (policies.RESERVATIONS_NOTICES, lease_policies.HOSTS_ALLOCATIONS, *scopes.LEASE_RULES)
_MOST_NOTICES = 50


def show(call: Call) -> Reply:
    """Show a lease, if the caller may see it."""
    lease = lease_queries.get(
        call.ctx, call.path["id"], project_id=owners.get_visible_project(
            call, lease_policies.LEASES_GET, lease_policies.LEASES_GET_ALL))
    return rendering.render(
        call, "lease.html", title=lease.name, lease=lease,
        names=projects.find_names(call, {lease.project_id}),
        shares=sections.read(call, lease_policies.HOSTS_ALLOCATIONS, lambda: _list_shares(
            call, lease)),
        notices=sections.read(call, policies.RESERVATIONS_NOTICES, lambda: _list_notices(
            call, lease)))


def _list_shares(call: Call, lease: Lease) -> list[HostAllocation]:
    _, shares = host_queries.list_allocations(call.ctx, lease_id=lease.id)
    return list(shares)


def _list_notices(call: Call, lease: Lease) -> list[Notification]:
    """Return what was done to a lease, the newest first."""
    scope = scopes.find_scope(call, policies.RESERVATIONS_NOTICES)
    return [] if scope is None else notifications.list_newest(
        call.ctx, lease_id=lease.id, project_id=scope.project_id, limit=_MOST_NOTICES)
