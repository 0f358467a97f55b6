"""The policy rules of the Placement API: their names and who passes by default.

The names are upstream Placement's, so that an existing policy.yaml keeps its
meaning. Source: spec placement_api §6.
"""

from __future__ import annotations

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
