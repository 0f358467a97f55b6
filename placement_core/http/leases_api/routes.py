"""Every URL of the reservation API, below ``/v1``, on one screen. Source: spec blazar §2."""

from __future__ import annotations

from placement_core.http.json_schemas import NO_CONTENT
from placement_core.http.leases_api import answers, bodies, policies, queries
from placement_core.http.leases_api.views import (
    allocations,
    hosts,
    leases,
    properties,
    versions,
)
from placement_core.http.operations import COLLECTION_BODY, Operation

OPERATIONS = (
    # ``/`` and ``/versions`` in the reference; here, ``/`` is the Placement API's.
    Operation("GET", "", versions.show, policy=None, answers=answers.VERSIONS),
    Operation("GET", "/", versions.show, policy=None, answers=answers.VERSIONS),
    Operation("GET", "/versions", versions.show, policy=None, answers=answers.VERSIONS),

    Operation("GET", "/leases", leases.list_, policies.LEASES_GET, query=queries.LEASES,
              json_only=True, also=(policies.LEASES_GET_ALL,), answers=answers.LEASES),
    Operation("POST", "/leases", leases.create, policies.LEASES_POST, body=bodies.LEASE,
              largest_body=COLLECTION_BODY, json_only=True, answers=answers.LEASE_CREATED),
    Operation("GET", "/leases/{id}", leases.show, policies.LEASES_GET, json_only=True,
              also=(policies.LEASES_GET_ALL,), answers=answers.LEASE),
    Operation("PUT", "/leases/{id}", leases.update, policies.LEASES_PUT, body=bodies.LEASE,
              largest_body=COLLECTION_BODY, json_only=True, also=(policies.LEASES_PUT_ALL,),
              answers=answers.LEASE),
    Operation("DELETE", "/leases/{id}", leases.delete, policies.LEASES_DELETE,
              also=(policies.LEASES_DELETE_ALL,), answers=NO_CONTENT),

    # Before the hosts: these are no ids.
    Operation("GET", "/os-hosts/allocations", allocations.list_, policies.HOSTS_ALLOCATIONS,
              query=queries.ALLOCATIONS, json_only=True, answers=answers.ALLOCATIONS),
    Operation("GET", "/os-hosts/properties", properties.list_, policies.HOSTS_PROPERTIES,
              query=queries.PROPERTIES, json_only=True,
              also=(policies.HOSTS_PRIVATE_PROPERTIES,), answers=answers.PROPERTIES),
    Operation("PATCH", "/os-hosts/properties/{name}", properties.update,
              policies.HOSTS_UPDATE_PROPERTY, body=bodies.PROPERTY_UPDATE, json_only=True,
              answers=answers.PROPERTY),

    Operation("GET", "/os-hosts", hosts.list_, policies.HOSTS_GET, query=queries.HOSTS,
              json_only=True, answers=answers.HOSTS),
    Operation("POST", "/os-hosts", hosts.create, policies.HOSTS_POST,
              body=bodies.HOST_CREATE, json_only=True,
              answers=answers.HOST_CREATED, refusals=(404,)),
    Operation("GET", "/os-hosts/{id}", hosts.show, policies.HOSTS_GET, json_only=True,
              answers=answers.HOST),
    Operation("PUT", "/os-hosts/{id}", hosts.update, policies.HOSTS_PUT,
              body=bodies.HOST_UPDATE, json_only=True, answers=answers.HOST),
    Operation("DELETE", "/os-hosts/{id}", hosts.delete, policies.HOSTS_DELETE,
              answers=NO_CONTENT),
    Operation("GET", "/os-hosts/{id}/allocation", allocations.show,
              policies.HOSTS_ALLOCATIONS, query=queries.ALLOCATIONS, json_only=True,
              answers=answers.ALLOCATION),
)
