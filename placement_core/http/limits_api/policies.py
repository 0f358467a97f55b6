"""The policy rules of the limits API: Keystone's names, and who passes by default.

``list_limits`` and ``get_limit`` let every token pass: of whom a caller sees limits,
``visibility`` says, and the rule ``limits:all_projects``, who sees all of them. The same holds
for projects and domains.
Source: spec limits §2, "Policies"; requirement L7.
"""

from __future__ import annotations

from oslo_policy import policy

from placement_core.http import roles

GET_MODEL = "identity:get_limit_model"

LIST_REGISTERED = "identity:list_registered_limits"
GET_REGISTERED = "identity:get_registered_limit"
CREATE_REGISTERED = "identity:create_registered_limits"
UPDATE_REGISTERED = "identity:update_registered_limit"
DELETE_REGISTERED = "identity:delete_registered_limit"

LIST_LIMITS = "identity:list_limits"
GET_LIMIT = "identity:get_limit"
CREATE_LIMITS = "identity:create_limits"
UPDATE_LIMIT = "identity:update_limit"
DELETE_LIMIT = "identity:delete_limit"
LIMITS_OF_ALL = "identity:limits:all_projects"

LIST_REGIONS = "identity:list_regions"
GET_REGION = "identity:get_region"
CREATE_REGION = "identity:create_region"
UPDATE_REGION = "identity:update_region"
DELETE_REGION = "identity:delete_region"

LIST_SERVICES = "identity:list_services"
GET_SERVICE = "identity:get_service"
CREATE_SERVICE = "identity:create_service"
UPDATE_SERVICE = "identity:update_service"
DELETE_SERVICE = "identity:delete_service"

LIST_ENDPOINTS = "identity:list_endpoints"
GET_ENDPOINT = "identity:get_endpoint"
CREATE_ENDPOINT = "identity:create_endpoint"
UPDATE_ENDPOINT = "identity:update_endpoint"
DELETE_ENDPOINT = "identity:delete_endpoint"

LIST_DOMAINS = "identity:list_domains"
GET_DOMAIN = "identity:get_domain"
CREATE_DOMAIN = "identity:create_domain"
UPDATE_DOMAIN = "identity:update_domain"
DELETE_DOMAIN = "identity:delete_domain"

LIST_PROJECTS = "identity:list_projects"
GET_PROJECT = "identity:get_project"
CREATE_PROJECT = "identity:create_project"
UPDATE_PROJECT = "identity:update_project"
DELETE_PROJECT = "identity:delete_project"
ALL_PROJECTS = "identity:projects:all_projects"

_ANY_TOKEN = ["system", "domain", "project"]
_SYSTEM_OR_PROJECT = ["system", "project"]

#: The check of callers who see all limits and projects.
_EVERYTHING = f"{roles.ADMIN_OR_SERVICE} or system_scope:all"
#: Services read the catalog to find out what their limits are called; in Keystone an
#: operator has to give them a role for that.
_CATALOG_READERS = f"{roles.ADMIN_OR_SERVICE} or (role:reader and system_scope:all)"


def _read(
    name: str, description: str, path: str, check: str = ""
) -> policy.DocumentedRuleDefault:
    return policy.DocumentedRuleDefault(
        name, check, description,
        [{"method": method, "path": f"/v3{path}"} for method in ("GET", "HEAD")],
        scope_types=_ANY_TOKEN)


def _everything(
    name: str, description: str, *paths: str
) -> policy.DocumentedRuleDefault:
    return policy.DocumentedRuleDefault(
        name, _EVERYTHING, description,
        [{"method": "GET", "path": f"/v3{path}"} for path in paths], scope_types=_ANY_TOKEN)


def _write(name: str, description: str, operation: str) -> policy.DocumentedRuleDefault:
    method, path = operation.split()
    return policy.DocumentedRuleDefault(
        name, roles.ADMIN, description, [{"method": method, "path": f"/v3{path}"}],
        scope_types=_SYSTEM_OR_PROJECT)


RULES: list[policy.DocumentedRuleDefault] = [
    _read(GET_MODEL, "Show the enforcement model.", "/limits/model"),

    _read(LIST_REGISTERED, "List registered limits.", "/registered_limits"),
    _read(GET_REGISTERED, "Show a registered limit.", "/registered_limits/{id}"),
    _write(CREATE_REGISTERED, "Create registered limits.", "POST /registered_limits"),
    _write(UPDATE_REGISTERED, "Update a registered limit.", "PATCH /registered_limits/{id}"),
    _write(DELETE_REGISTERED, "Delete a registered limit.", "DELETE /registered_limits/{id}"),

    _read(LIST_LIMITS, "List the limits that the caller may see.", "/limits"),
    _read(GET_LIMIT, "Show a limit that the caller may see.", "/limits/{id}"),
    _write(CREATE_LIMITS, "Create limits of projects and domains.", "POST /limits"),
    _write(UPDATE_LIMIT, "Update a limit.", "PATCH /limits/{id}"),
    _write(DELETE_LIMIT, "Delete a limit.", "DELETE /limits/{id}"),
    _everything(LIMITS_OF_ALL, "See the limits of all projects and domains.",
                "/limits", "/limits/{id}"),

    _read(LIST_REGIONS, "List regions.", "/regions"),
    _read(GET_REGION, "Show a region.", "/regions/{id}"),
    _write(CREATE_REGION, "Create a region.", "POST /regions"),
    _write(UPDATE_REGION, "Update a region.", "PATCH /regions/{id}"),
    _write(DELETE_REGION, "Delete a region, and its limits.", "DELETE /regions/{id}"),

    _read(LIST_SERVICES, "List services.", "/services", _CATALOG_READERS),
    _read(GET_SERVICE, "Show a service.", "/services/{id}", _CATALOG_READERS),
    _write(CREATE_SERVICE, "Create a service.", "POST /services"),
    _write(UPDATE_SERVICE, "Update a service.", "PATCH /services/{id}"),
    _write(DELETE_SERVICE, "Delete a service, and its limits.", "DELETE /services/{id}"),

    _read(LIST_ENDPOINTS, "List endpoints.", "/endpoints", _CATALOG_READERS),
    _read(GET_ENDPOINT, "Show an endpoint.", "/endpoints/{id}", _CATALOG_READERS),
    _write(CREATE_ENDPOINT, "Create an endpoint.", "POST /endpoints"),
    _write(UPDATE_ENDPOINT, "Update an endpoint.", "PATCH /endpoints/{id}"),
    _write(DELETE_ENDPOINT, "Delete an endpoint.", "DELETE /endpoints/{id}"),

    _read(LIST_DOMAINS, "List the domains that the caller may see.", "/domains"),
    _read(GET_DOMAIN, "Show a domain that the caller may see.", "/domains/{id}"),
    _write(CREATE_DOMAIN, "Create a domain.", "POST /domains"),
    _write(UPDATE_DOMAIN, "Update a domain.", "PATCH /domains/{id}"),
    _write(DELETE_DOMAIN, "Delete a domain, its projects and their limits.",
           "DELETE /domains/{id}"),

    _read(LIST_PROJECTS, "List the projects that the caller may see.", "/projects"),
    _read(GET_PROJECT, "Show a project that the caller may see.", "/projects/{id}"),
    _write(CREATE_PROJECT, "Create a project.", "POST /projects"),
    _write(UPDATE_PROJECT, "Update a project, or move it in its tree.",
           "PATCH /projects/{id}"),
    _write(DELETE_PROJECT, "Delete a project, and its limits.", "DELETE /projects/{id}"),
    _everything(ALL_PROJECTS, "See all projects and domains.",
                "/projects", "/projects/{id}", "/domains", "/domains/{id}"),
]
