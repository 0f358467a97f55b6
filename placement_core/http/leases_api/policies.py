"""The policy rules of the reservation API: Blazar's names, and who passes by default.

Members of a project make, change and delete its leases, its readers see them: a lease
of another project is not there for them, unless they pass the rule ``…:all_projects``
beside that of the operation. Source: spec blazar §4, "Policies".
"""

from __future__ import annotations

from oslo_policy import policy

from placement_core.http import roles

LEASES_GET = "blazar:leases:get"
LEASES_POST = "blazar:leases:post"
LEASES_PUT = "blazar:leases:put"
LEASES_DELETE = "blazar:leases:delete"
LEASES_GET_ALL = "blazar:leases:get:all_projects"
LEASES_PUT_ALL = "blazar:leases:put:all_projects"
LEASES_DELETE_ALL = "blazar:leases:delete:all_projects"

HOSTS_GET = "blazar:oshosts:get"
HOSTS_POST = "blazar:oshosts:post"
HOSTS_PUT = "blazar:oshosts:put"
HOSTS_DELETE = "blazar:oshosts:delete"
HOSTS_ALLOCATIONS = "blazar:oshosts:get_allocations"
HOSTS_PROPERTIES = "blazar:oshosts:get_resource_properties"
HOSTS_PRIVATE_PROPERTIES = "blazar:oshosts:get_resource_properties:private"
HOSTS_UPDATE_PROPERTY = "blazar:oshosts:update_resource_properties"


def _rule(
    name: str, description: str, *operations: str, check: str = roles.ADMIN
) -> policy.DocumentedRuleDefault:
    split = [operation.split() for operation in operations]
    return policy.DocumentedRuleDefault(
        name, check, description,
        [{"method": method, "path": f"/v1{path}"} for method, path in split],
        scope_types=roles.SCOPES)


RULES: list[policy.DocumentedRuleDefault] = [
    _rule(LEASES_GET, "List leases, or show one.", "GET /leases", "GET /leases/{id}",
          check=roles.ADMIN_OR_READER_OF_OWN),
    _rule(LEASES_POST, "Make a lease.", "POST /leases", check=roles.ADMIN_OR_MEMBER_OF_OWN),
    _rule(LEASES_PUT, "Change a lease.", "PUT /leases/{id}",
          check=roles.ADMIN_OR_MEMBER_OF_OWN),
    _rule(LEASES_DELETE, "End a lease, and give it up.", "DELETE /leases/{id}",
          check=roles.ADMIN_OR_MEMBER_OF_OWN),
    _rule(LEASES_GET_ALL, "See the leases of all projects, beside blazar:leases:get.",
          "GET /leases", "GET /leases/{id}"),
    _rule(LEASES_PUT_ALL, "Change a lease of any project, beside blazar:leases:put.",
          "PUT /leases/{id}"),
    _rule(LEASES_DELETE_ALL, "End a lease of any project, beside blazar:leases:delete.",
          "DELETE /leases/{id}"),

    _rule(HOSTS_GET, "List the hosts of the freepool, or show one.", "GET /os-hosts",
          "GET /os-hosts/{id}"),
    _rule(HOSTS_POST, "Let a host into the freepool.", "POST /os-hosts"),
    _rule(HOSTS_PUT, "Change the properties of a host, or take it out of service.",
          "PUT /os-hosts/{id}"),
    _rule(HOSTS_DELETE, "Let a host out of the freepool.", "DELETE /os-hosts/{id}"),
    _rule(HOSTS_ALLOCATIONS, "Show what reservations hold of hosts.",
          "GET /os-hosts/allocations", "GET /os-hosts/{id}/allocation"),
    _rule(HOSTS_PROPERTIES, "List the names of properties of hosts.",
          "GET /os-hosts/properties"),
    _rule(HOSTS_PRIVATE_PROPERTIES,
          "See private properties too, beside blazar:oshosts:get_resource_properties.",
          "GET /os-hosts/properties"),
    _rule(HOSTS_UPDATE_PROPERTY, "Make a property of hosts private, or public.",
          "PATCH /os-hosts/properties/{name}"),
]
