"""Every URL of the Placement API, on one screen. Source: spec placement_api §3 and §4."""

from __future__ import annotations

from collections.abc import Mapping

from placement_core.context import Context
from placement_core.http.json_schemas import NO_CONTENT
from placement_core.http.operations import BULK_BODY, COLLECTION_BODY, Operation
from placement_core.http.placement_api import answers, bodies, microversions as mv, policies
from placement_core.http.placement_api.queries import schemas
from placement_core.http.placement_api.views import (
    aggregates,
    allocations,
    candidates,
    inventories,
    providers,
    reshaper,
    resource_classes,
    root,
    traits,
    usages,
)
from placement_core.placement import providers as domain


def _load_provider(ctx: Context, path: Mapping[str, str]) -> object:
    """Find the provider that a path names, or fail."""
    return domain.get(ctx, path["uuid"])


def _get_project_target(query: Mapping[str, list[str]]) -> Mapping[str, str | None]:
    """Return the policy target of usages: the project that is asked about."""
    return {"project_id": query["project_id"][-1] if "project_id" in query else None}


_PROVIDER = "/resource_providers/{uuid}"
_INVENTORY = f"{_PROVIDER}/inventories/{{resource_class}}"

OPERATIONS = (
    Operation("GET", "/", root.show, policy=None, answers=answers.VERSIONS),

    Operation("GET", "/resource_providers", providers.list_, policies.PROVIDERS_LIST,
              query=schemas.PROVIDERS, repeated=schemas.REPEATED, json_only=True,
              answers=answers.PROVIDERS),
    Operation("POST", "/resource_providers", providers.create, policies.PROVIDERS_CREATE,
              body=bodies.PROVIDER_CREATE, answers=answers.PROVIDER_CREATED),
    Operation("GET", _PROVIDER, providers.show, policies.PROVIDERS_SHOW, json_only=True,
              answers=answers.PROVIDER),
    Operation("PUT", _PROVIDER, providers.update, policies.PROVIDERS_UPDATE,
              body=bodies.PROVIDER_UPDATE, check_exists=_load_provider,
              answers=answers.PROVIDER),
    Operation("DELETE", _PROVIDER, providers.delete, policies.PROVIDERS_DELETE,
              answers=NO_CONTENT),

    Operation("GET", f"{_PROVIDER}/inventories", inventories.list_, policies.INVENTORIES_LIST,
              json_only=True, answers=answers.INVENTORIES),
    Operation("POST", f"{_PROVIDER}/inventories", inventories.create,
              policies.INVENTORIES_CREATE, body=bodies.INVENTORY_CREATE,
              check_exists=_load_provider, answers=answers.INVENTORY_CREATED),
    Operation("PUT", f"{_PROVIDER}/inventories", inventories.replace,
              policies.INVENTORIES_UPDATE, body=bodies.INVENTORIES_REPLACE,
              check_exists=_load_provider, largest_body=COLLECTION_BODY,
              answers=answers.INVENTORIES),
    Operation("DELETE", f"{_PROVIDER}/inventories", inventories.delete_all,
              policies.INVENTORIES_DELETE, since=mv.DELETE_INVENTORIES, gate_status=405,
              answers=NO_CONTENT),
    Operation("GET", _INVENTORY, inventories.show, policies.INVENTORIES_SHOW, json_only=True,
              answers=answers.INVENTORY),
    Operation("PUT", _INVENTORY, inventories.update, policies.INVENTORIES_UPDATE,
              body=bodies.INVENTORY_UPDATE, check_exists=_load_provider,
              answers=answers.INVENTORY),
    Operation("DELETE", _INVENTORY, inventories.delete, policies.INVENTORIES_DELETE,
              answers=NO_CONTENT),

    Operation("GET", f"{_PROVIDER}/usages", usages.show_for_provider, policies.PROVIDER_USAGES,
              json_only=True, answers=answers.PROVIDER_USAGES),
    Operation("GET", "/usages", usages.list_, policies.USAGES, since=mv.PROJECT_USAGES,
              query=schemas.USAGES, json_only=True, target=_get_project_target,
              answers=answers.USAGES),

    Operation("GET", f"{_PROVIDER}/aggregates", aggregates.show, policies.AGGREGATES_LIST,
              since=mv.AGGREGATES, json_only=True, media_before_gate=True,
              answers=answers.AGGREGATES),
    Operation("PUT", f"{_PROVIDER}/aggregates", aggregates.replace, policies.AGGREGATES_UPDATE,
              since=mv.AGGREGATES, body=bodies.AGGREGATES_REPLACE, check_exists=_load_provider,
              largest_body=COLLECTION_BODY, media_before_gate=True,
              answers=answers.AGGREGATES),

    Operation("GET", f"{_PROVIDER}/traits", traits.show_for_provider,
              policies.PROVIDER_TRAITS_LIST, since=mv.TRAITS, json_only=True,
              answers=answers.PROVIDER_TRAITS),
    Operation("PUT", f"{_PROVIDER}/traits", traits.replace_for_provider,
              policies.PROVIDER_TRAITS_UPDATE, since=mv.TRAITS,
              body=bodies.PROVIDER_TRAITS_REPLACE, largest_body=COLLECTION_BODY,
              answers=answers.PROVIDER_TRAITS),
    Operation("DELETE", f"{_PROVIDER}/traits", traits.delete_for_provider,
              policies.PROVIDER_TRAITS_DELETE, since=mv.TRAITS, answers=NO_CONTENT),
    Operation("GET", "/traits", traits.list_, policies.TRAITS_LIST, since=mv.TRAITS,
              query=schemas.TRAITS, json_only=True, answers=answers.TRAITS),
    Operation("GET", "/traits/{name}", traits.show, policies.TRAITS_SHOW, since=mv.TRAITS,
              answers=NO_CONTENT),
    Operation("PUT", "/traits/{name}", traits.ensure, policies.TRAITS_UPDATE, since=mv.TRAITS,
              answers=answers.ENSURED),
    Operation("DELETE", "/traits/{name}", traits.delete, policies.TRAITS_DELETE,
              since=mv.TRAITS, answers=NO_CONTENT),

    Operation("GET", "/resource_classes", resource_classes.list_, policies.CLASSES_LIST,
              since=mv.RESOURCE_CLASSES, json_only=True, answers=answers.RESOURCE_CLASSES),
    Operation("POST", "/resource_classes", resource_classes.create, policies.CLASSES_CREATE,
              since=mv.RESOURCE_CLASSES, body=bodies.CLASS_CREATE, answers=answers.CREATED),
    Operation("GET", "/resource_classes/{name}", resource_classes.show, policies.CLASSES_SHOW,
              since=mv.RESOURCE_CLASSES, json_only=True, answers=answers.RESOURCE_CLASS),
    Operation("PUT", "/resource_classes/{name}", resource_classes.update,
              policies.CLASSES_UPDATE, since=mv.RESOURCE_CLASSES, body=bodies.CLASS_UPDATE,
              answers=answers.CLASS_UPDATED),
    Operation("DELETE", "/resource_classes/{name}", resource_classes.delete,
              policies.CLASSES_DELETE, since=mv.RESOURCE_CLASSES, answers=NO_CONTENT),

    Operation("GET", f"{_PROVIDER}/allocations", allocations.list_for_provider,
              policies.PROVIDER_ALLOCATIONS_LIST, json_only=True,
              answers=answers.PROVIDER_ALLOCATIONS),
    Operation("POST", "/allocations", allocations.manage, policies.ALLOCATIONS_MANAGE,
              since=mv.POST_ALLOCATIONS, body=bodies.ALLOCATIONS_MANAGE,
              largest_body=BULK_BODY, answers=NO_CONTENT),
    Operation("GET", "/allocations/{consumer}", allocations.show, policies.ALLOCATIONS_LIST,
              json_only=True, answers=answers.ALLOCATIONS),
    Operation("PUT", "/allocations/{consumer}", allocations.replace,
              policies.ALLOCATIONS_UPDATE, body=bodies.ALLOCATIONS_REPLACE,
              largest_body=COLLECTION_BODY, answers=NO_CONTENT),
    Operation("DELETE", "/allocations/{consumer}", allocations.delete,
              policies.ALLOCATIONS_DELETE, answers=NO_CONTENT),

    Operation("GET", "/allocation_candidates", candidates.list_, policies.CANDIDATES_LIST,
              since=mv.CANDIDATES, query=schemas.CANDIDATES, repeated=schemas.REPEATED,
              json_only=True, answers=answers.CANDIDATES),
    Operation("POST", "/reshaper", reshaper.reshape, policies.RESHAPE, since=mv.RESHAPER,
              body=bodies.RESHAPE, largest_body=BULK_BODY, answers=NO_CONTENT),
)
