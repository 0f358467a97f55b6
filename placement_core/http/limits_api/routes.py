"""Every URL of the limits API, below ``/v3``, on one screen. Source: spec limits §2 and §4."""

from __future__ import annotations

from placement_core.http.limits_api import bodies, policies, queries, tags
from placement_core.http.limits_api.views import (
    domains,
    endpoints,
    limits,
    projects,
    regions,
    registered_limits,
    services,
    tokens,
    version,
)
from placement_core.http.operations import Operation

OPERATIONS = (
    Operation("GET", "", version.show, policy=None),
    Operation("POST", "/auth/tokens", tokens.create, policy=None, body=bodies.TOKEN_CREATE),

    Operation("GET", "/registered_limits", registered_limits.list_, policies.LIST_REGISTERED,
              query=queries.REGISTERED, tag=tags.registered_limits),
    Operation("POST", "/registered_limits", registered_limits.create,
              policies.CREATE_REGISTERED, body=bodies.REGISTERED_CREATE),
    Operation("GET", "/registered_limits/{id}", registered_limits.show,
              policies.GET_REGISTERED, tag=tags.registered_limits),
    Operation("PATCH", "/registered_limits/{id}", registered_limits.update,
              policies.UPDATE_REGISTERED, body=bodies.REGISTERED_UPDATE),
    Operation("DELETE", "/registered_limits/{id}", registered_limits.delete,
              policies.DELETE_REGISTERED),

    Operation("GET", "/limits/model", limits.model, policies.GET_MODEL, tag=tags.model),
    Operation("GET", "/limits", limits.list_, policies.LIST_LIMITS, query=queries.LIMITS,
              tag=tags.limits),
    Operation("POST", "/limits", limits.create, policies.CREATE_LIMITS,
              body=bodies.LIMITS_CREATE),
    Operation("GET", "/limits/{id}", limits.show, policies.GET_LIMIT, tag=tags.limits),
    Operation("PATCH", "/limits/{id}", limits.update, policies.UPDATE_LIMIT,
              body=bodies.LIMIT_UPDATE),
    Operation("DELETE", "/limits/{id}", limits.delete, policies.DELETE_LIMIT),

    Operation("GET", "/regions", regions.list_, policies.LIST_REGIONS),
    Operation("POST", "/regions", regions.create, policies.CREATE_REGION,
              body=bodies.REGION_CREATE),
    Operation("GET", "/regions/{id}", regions.show, policies.GET_REGION),
    Operation("PATCH", "/regions/{id}", regions.update, policies.UPDATE_REGION,
              body=bodies.REGION_UPDATE),
    Operation("DELETE", "/regions/{id}", regions.delete, policies.DELETE_REGION),

    Operation("GET", "/services", services.list_, policies.LIST_SERVICES),
    Operation("POST", "/services", services.create, policies.CREATE_SERVICE,
              body=bodies.SERVICE_CREATE),
    Operation("GET", "/services/{id}", services.show, policies.GET_SERVICE),
    Operation("PATCH", "/services/{id}", services.update, policies.UPDATE_SERVICE,
              body=bodies.SERVICE_UPDATE),
    Operation("DELETE", "/services/{id}", services.delete, policies.DELETE_SERVICE),

    Operation("GET", "/endpoints", endpoints.list_, policies.LIST_ENDPOINTS,
              query=queries.ENDPOINTS),
    Operation("POST", "/endpoints", endpoints.create, policies.CREATE_ENDPOINT,
              body=bodies.ENDPOINT_CREATE),
    Operation("GET", "/endpoints/{id}", endpoints.show, policies.GET_ENDPOINT),
    Operation("PATCH", "/endpoints/{id}", endpoints.update, policies.UPDATE_ENDPOINT,
              body=bodies.ENDPOINT_UPDATE),
    Operation("DELETE", "/endpoints/{id}", endpoints.delete, policies.DELETE_ENDPOINT),

    Operation("GET", "/domains", domains.list_, policies.LIST_DOMAINS),
    Operation("POST", "/domains", domains.create, policies.CREATE_DOMAIN,
              body=bodies.DOMAIN_CREATE),
    Operation("GET", "/domains/{id}", domains.show, policies.GET_DOMAIN),
    Operation("PATCH", "/domains/{id}", domains.update, policies.UPDATE_DOMAIN,
              body=bodies.DOMAIN_UPDATE),
    Operation("DELETE", "/domains/{id}", domains.delete, policies.DELETE_DOMAIN),

    Operation("GET", "/projects", projects.list_, policies.LIST_PROJECTS),
    Operation("POST", "/projects", projects.create, policies.CREATE_PROJECT,
              body=bodies.PROJECT_CREATE),
    Operation("GET", "/projects/{id}", projects.show, policies.GET_PROJECT),
    Operation("PATCH", "/projects/{id}", projects.update, policies.UPDATE_PROJECT,
              body=bodies.PROJECT_UPDATE),
    Operation("DELETE", "/projects/{id}", projects.delete, policies.DELETE_PROJECT),
)
