"""The policy rules of the Placement API: their names and who passes by default.

The names are upstream Placement's, so that an existing policy.yaml keeps its
meaning. Source: spec placement_api §6.
"""

from __future__ import annotations

from oslo_policy import policy

from placement_core.http import roles

PROVIDERS_LIST = "placement:resource_providers:list"
PROVIDERS_CREATE = "placement:resource_providers:create"
PROVIDERS_SHOW = "placement:resource_providers:show"
PROVIDERS_UPDATE = "placement:resource_providers:update"
PROVIDERS_DELETE = "placement:resource_providers:delete"

CLASSES_LIST = "placement:resource_classes:list"
CLASSES_CREATE = "placement:resource_classes:create"
CLASSES_SHOW = "placement:resource_classes:show"
CLASSES_UPDATE = "placement:resource_classes:update"
CLASSES_DELETE = "placement:resource_classes:delete"

INVENTORIES_LIST = "placement:resource_providers:inventories:list"
INVENTORIES_CREATE = "placement:resource_providers:inventories:create"
INVENTORIES_SHOW = "placement:resource_providers:inventories:show"
INVENTORIES_UPDATE = "placement:resource_providers:inventories:update"
INVENTORIES_DELETE = "placement:resource_providers:inventories:delete"

AGGREGATES_LIST = "placement:resource_providers:aggregates:list"
AGGREGATES_UPDATE = "placement:resource_providers:aggregates:update"

PROVIDER_USAGES = "placement:resource_providers:usages"
USAGES = "placement:usages"

TRAITS_LIST = "placement:traits:list"
TRAITS_SHOW = "placement:traits:show"
TRAITS_UPDATE = "placement:traits:update"
TRAITS_DELETE = "placement:traits:delete"

PROVIDER_TRAITS_LIST = "placement:resource_providers:traits:list"
PROVIDER_TRAITS_UPDATE = "placement:resource_providers:traits:update"
PROVIDER_TRAITS_DELETE = "placement:resource_providers:traits:delete"

ALLOCATIONS_MANAGE = "placement:allocations:manage"
ALLOCATIONS_LIST = "placement:allocations:list"
ALLOCATIONS_UPDATE = "placement:allocations:update"
ALLOCATIONS_DELETE = "placement:allocations:delete"
PROVIDER_ALLOCATIONS_LIST = "placement:resource_providers:allocations:list"

CANDIDATES_LIST = "placement:allocation_candidates:list"
RESHAPE = "placement:reshaper:reshape"


def _make_rule(
    name: str, description: str, operation: str, check: str = roles.ADMIN_OR_SERVICE
) -> policy.DocumentedRuleDefault:
    method, path = operation.split()
    return policy.DocumentedRuleDefault(
        name, check, description, [{"method": method, "path": path}], scope_types=roles.SCOPES)


_PROVIDER = "/resource_providers/{uuid}"

RULES: list[policy.DocumentedRuleDefault] = [
    _make_rule(PROVIDERS_LIST, "List resource providers.", "GET /resource_providers"),
    _make_rule(PROVIDERS_CREATE, "Create a resource provider.", "POST /resource_providers"),
    _make_rule(PROVIDERS_SHOW, "Show a resource provider.", f"GET {_PROVIDER}"),
    _make_rule(PROVIDERS_UPDATE, "Rename or move a resource provider.", f"PUT {_PROVIDER}"),
    _make_rule(PROVIDERS_DELETE, "Delete a resource provider.", f"DELETE {_PROVIDER}"),
    _make_rule(CLASSES_LIST, "List resource classes.", "GET /resource_classes"),
    _make_rule(CLASSES_CREATE, "Create a resource class.", "POST /resource_classes"),
    _make_rule(CLASSES_SHOW, "Show a resource class.", "GET /resource_classes/{name}"),
    _make_rule(CLASSES_UPDATE, "Make sure a resource class exists, or rename it.",
          "PUT /resource_classes/{name}"),
    _make_rule(CLASSES_DELETE, "Delete a resource class.", "DELETE /resource_classes/{name}"),
    _make_rule(INVENTORIES_LIST, "List the inventories of a provider.",
          f"GET {_PROVIDER}/inventories"),
    _make_rule(INVENTORIES_CREATE, "Create an inventory of a provider.",
          f"POST {_PROVIDER}/inventories"),
    _make_rule(INVENTORIES_SHOW, "Show an inventory of a provider.",
          f"GET {_PROVIDER}/inventories/{{resource_class}}"),
    _make_rule(INVENTORIES_UPDATE, "Update inventories of a provider.",
          f"PUT {_PROVIDER}/inventories/{{resource_class}}"),
    _make_rule(INVENTORIES_DELETE, "Delete inventories of a provider.",
          f"DELETE {_PROVIDER}/inventories/{{resource_class}}"),
    _make_rule(AGGREGATES_LIST, "List the aggregates of a provider.",
          f"GET {_PROVIDER}/aggregates"),
    _make_rule(AGGREGATES_UPDATE, "Replace the aggregates of a provider.",
          f"PUT {_PROVIDER}/aggregates"),
    _make_rule(PROVIDER_USAGES, "Show the usages of a provider.", f"GET {_PROVIDER}/usages"),
    _make_rule(USAGES, "Show the usages of a project.", "GET /usages",
          roles.ADMIN_OR_PROJECT_READER_OR_SERVICE),
    _make_rule(TRAITS_LIST, "List traits.", "GET /traits"),
    _make_rule(TRAITS_SHOW, "Show a trait.", "GET /traits/{name}"),
    _make_rule(TRAITS_UPDATE, "Make sure a trait exists.", "PUT /traits/{name}"),
    _make_rule(TRAITS_DELETE, "Delete a trait.", "DELETE /traits/{name}"),
    _make_rule(PROVIDER_TRAITS_LIST, "List the traits of a provider.", f"GET {_PROVIDER}/traits"),
    _make_rule(PROVIDER_TRAITS_UPDATE, "Replace the traits of a provider.",
          f"PUT {_PROVIDER}/traits"),
    _make_rule(PROVIDER_TRAITS_DELETE, "Remove all traits of a provider.",
          f"DELETE {_PROVIDER}/traits"),
    _make_rule(ALLOCATIONS_MANAGE, "Replace the allocations of several consumers.",
          "POST /allocations"),
    _make_rule(ALLOCATIONS_LIST, "List the allocations of a consumer.",
          "GET /allocations/{consumer_uuid}"),
    _make_rule(ALLOCATIONS_UPDATE, "Replace the allocations of a consumer.",
          "PUT /allocations/{consumer_uuid}"),
    _make_rule(ALLOCATIONS_DELETE, "Delete the allocations of a consumer.",
          "DELETE /allocations/{consumer_uuid}"),
    _make_rule(PROVIDER_ALLOCATIONS_LIST, "List the allocations on a provider.",
          f"GET {_PROVIDER}/allocations"),
    _make_rule(CANDIDATES_LIST, "List allocation candidates.", "GET /allocation_candidates"),
    _make_rule(RESHAPE, "Move inventories and allocations between providers.", "POST /reshaper",
          roles.SERVICE),
]
