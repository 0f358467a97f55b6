"""Whose data a caller may see: that of all projects, of the own one, or none."""

from __future__ import annotations

from placement_core.http.leases_api import policies as lease_policies
from placement_core.http.operations import Call
from placement_core.recent_changes import Scope

#: The rules that ``find_scope_of_leases`` asks.
LEASE_RULES = (lease_policies.LEASES_GET, lease_policies.LEASES_GET_ALL)


def find_scope(call: Call, rule: str) -> Scope | None:
    """Return whose data a rule about projects lets the caller see; None: nobody's."""
    if call.allows(rule, target={"project_id": None}):
        return Scope(None)
    project_id = call.ctx.identity.project_id
    return Scope(project_id) if project_id is not None and call.allows(rule) else None


def find_scope_of_leases(call: Call) -> Scope | None:
    """Return whose leases the caller may see; None: nobody's."""
    if not call.allows(lease_policies.LEASES_GET):
        return None
    if call.allows(lease_policies.LEASES_GET_ALL):
        return Scope(None)
    project_id = call.ctx.identity.project_id
    return None if project_id is None else Scope(project_id)
