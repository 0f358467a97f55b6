"""/v1/os-hosts/properties, and /v1/os-hosts/properties/{name}."""

from __future__ import annotations

from placement_core.http.leases_api import policies, queries, representations
from placement_core.http.operations import Call, Reply
from placement_core.reservations.hosts import host_properties


def list_(call: Call) -> Reply:
    """Return properties; private ones if ``all`` is true and the caller may see them."""
    properties = host_properties.list_(
        call.ctx, detail=queries.parse_flag(call.query, "detail"),
        private=queries.parse_flag(call.query, "all")
        and call.allows(policies.HOSTS_PRIVATE_PROPERTIES))
    return Reply(body={"resource_properties": representations.render_properties(properties)})


def update(call: Call) -> Reply:
    """Make a property private, or public."""
    changed = host_properties.change(
        call.ctx, call.path["name"], private=call.body["private"])
    return Reply(body={"resource_property": representations.render_changed_property(changed)})
