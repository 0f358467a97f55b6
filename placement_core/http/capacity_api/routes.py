"""Every URL of the capacity API, below its prefix, on one screen."""

from __future__ import annotations

from collections.abc import Mapping

from placement_core.http.capacity_api import answers, bodies, policies, queries
from placement_core.http.capacity_api.views import (
    cells,
    claims,
    compute_nodes,
    consumers,
    effective_limits,
    explain,
    fits,
    instances,
    limit_history,
    openapi,
    providers,
    quota,
    reservations,
    room,
    stranded,
    usages,
    user_limits,
    versions,
)
from placement_core.http.json_schemas import NO_CONTENT
from placement_core.http.leases_api import bodies as lease_bodies
from placement_core.http.limits_api import ownership
from placement_core.http.operations import BULK_BODY, COLLECTION_BODY, Operation
from placement_core.http.placement_api import microversions as mv
from placement_core.http.placement_api.queries import schemas


def _project(query: Mapping[str, list[str]]) -> Mapping[str, str | None]:
    """Return the policy target of a question about a project."""
    return {"project_id": query["project_id"][-1] if "project_id" in query else None}


OPERATIONS = (
    Operation("GET", "", versions.show, policy=None, json_only=True, answers=answers.VERSION),
    Operation("GET", "/openapi.json", openapi.show, policy=None, query=queries.OPENAPI,
              json_only=True, etag=openapi.tag, answers=answers.OPENAPI),

    Operation("GET", "/claims", claims.list_, policies.CLAIMS_LIST, query=queries.CLAIMS,
              json_only=True, answers=answers.CLAIMS),
    Operation("POST", "/claims", claims.create, policies.CLAIMS_CREATE,
              body=bodies.CLAIM_CREATE, largest_body=COLLECTION_BODY,
              answers=answers.CLAIM_CREATED),
    Operation("POST", "/claims/confirm", claims.confirm_all, policies.CLAIMS_CONFIRM,
              body=bodies.CLAIMS_SELECTED, largest_body=COLLECTION_BODY,
              answers=answers.CONFIRMED, refusals=(404,)),
    Operation("POST", "/claims/release", claims.release_all, policies.CLAIMS_RELEASE,
              body=bodies.CLAIMS_SELECTED, largest_body=COLLECTION_BODY,
              answers=answers.RELEASED),
    Operation("GET", "/claims/{id}", claims.show, policies.CLAIMS_SHOW, json_only=True,
              answers=answers.CLAIM),
    Operation("POST", "/claims/{id}/confirm", claims.confirm, policies.CLAIMS_CONFIRM,
              answers=answers.CLAIM),
    Operation("DELETE", "/claims/{id}", claims.release, policies.CLAIMS_RELEASE,
              answers=NO_CONTENT),

    Operation("GET", "/explain/allocation_candidates", explain.candidates,
              policies.EXPLAIN_CANDIDATES, since=mv.CANDIDATES, query=schemas.CANDIDATES,
              repeated=schemas.REPEATED, json_only=True, answers=answers.CANDIDATES_EXPLAINED),
    Operation("POST", "/explain/quota", quota.explain, policies.EXPLAIN_QUOTA,
              body=bodies.QUOTA_EXPLAIN, largest_body=COLLECTION_BODY, json_only=True,
              also=(policies.QUOTA_OF_ALL,), answers=answers.QUOTA_EXPLAINED),

    Operation("GET", "/limits/effective", effective_limits.show, policies.EFFECTIVE_LIMITS,
              query=queries.EFFECTIVE, json_only=True, etag=effective_limits.tag,
              answers=answers.EFFECTIVE_LIMITS),
    Operation("GET", "/limits/history", limit_history.list_, policies.LIMIT_HISTORY,
              query=queries.HISTORY, json_only=True, target=_project,
              check_served=ownership.check_limits, answers=answers.LIMIT_HISTORY),
    Operation("GET", "/limits/users", user_limits.list_, policies.USER_LIMITS_LIST,
              query=queries.USER_LIMITS, json_only=True, target=_project,
              check_served=ownership.check_limits, answers=answers.USER_LIMITS),
    Operation("POST", "/limits/users", user_limits.create, policies.USER_LIMITS_CREATE,
              body=bodies.USER_LIMITS_CREATE, largest_body=BULK_BODY,
              check_served=ownership.check_limits, answers=answers.USER_LIMITS_CREATED),
    Operation("GET", "/limits/users/{id}", user_limits.show, policies.USER_LIMITS_SHOW,
              json_only=True, check_served=ownership.check_limits, answers=answers.USER_LIMIT),
    Operation("PATCH", "/limits/users/{id}", user_limits.update, policies.USER_LIMITS_UPDATE,
              body=bodies.USER_LIMIT_UPDATE, check_served=ownership.check_limits,
              answers=answers.USER_LIMIT),
    Operation("DELETE", "/limits/users/{id}", user_limits.delete,
              policies.USER_LIMITS_DELETE, check_served=ownership.check_limits,
              answers=NO_CONTENT),

    Operation("GET", "/cells", cells.list_, policies.CELLS_LIST, query=queries.CELLS,
              json_only=True, answers=answers.CELLS),
    Operation("POST", "/cells", cells.create, policies.CELLS_CREATE, body=bodies.CELL_CREATE,
              answers=answers.CELL_CREATED),
    Operation("GET", "/cells/{cell}", cells.show, policies.CELLS_SHOW, query=queries.CELLS,
              json_only=True, answers=answers.CELL, refusals=(409,)),
    Operation("PATCH", "/cells/{cell}", cells.update, policies.CELLS_UPDATE,
              body=bodies.CELL_UPDATE, answers=answers.CELL),
    Operation("DELETE", "/cells/{cell}", cells.delete, policies.CELLS_DELETE,
              answers=NO_CONTENT),

    Operation("GET", "/consumers", consumers.list_, policies.CONSUMERS_LIST,
              query=queries.CONSUMERS, json_only=True, answers=answers.CONSUMERS, refusals=(404,)),
    Operation("GET", "/providers", providers.list_, policies.PROVIDERS_LIST,
              query=queries.PROVIDERS, json_only=True, answers=answers.PROVIDERS, refusals=(404,)),
    Operation("GET", "/usages", usages.list_, policies.USAGES_LIST, query=queries.USAGES,
              json_only=True, answers=answers.USAGES),

    Operation("GET", "/room", room.show, policies.ROOM_SHOW, query=queries.ROOM,
              repeated=schemas.REPEATED, json_only=True, also=(policies.ROOM_HOSTS,),
              answers=answers.ROOM, refusals=(404,)),
    Operation("GET", "/room/hosts", room.list_hosts, policies.ROOM_HOSTS,
              query=queries.ROOM_HOSTS, repeated=schemas.REPEATED, json_only=True,
              answers=answers.ROOM_HOSTS, refusals=(404,)),
    Operation("GET", "/room/fits", fits.show, policies.ROOM_FITS, since=mv.CANDIDATES,
              query=schemas.CANDIDATES, repeated=schemas.REPEATED, json_only=True,
              answers=answers.FITS),
    Operation("GET", "/room/stranded", stranded.show, policies.ROOM_STRANDED,
              query=queries.STRANDED, json_only=True, answers=answers.STRANDED, refusals=(409,)),

    Operation("GET", "/compute_nodes", compute_nodes.list_, policies.COMPUTE_NODES_LIST,
              query=queries.COMPUTE_NODES, json_only=True, answers=answers.COMPUTE_NODES),
    Operation("GET", "/compute_nodes/{uuid}", compute_nodes.show,
              policies.COMPUTE_NODES_SHOW, json_only=True,
              answers=answers.COMPUTE_NODE, refusals=(409,)),

    Operation("GET", "/instances", instances.list_, policies.INSTANCES_LIST,
              query=queries.INSTANCES, json_only=True, answers=answers.INSTANCES),
    Operation("POST", "/instances", instances.register, policies.INSTANCES_REGISTER,
              body=bodies.INSTANCE_REGISTER, answers=answers.INSTANCE_REGISTERED),
    Operation("GET", "/instances/{uuid}", instances.show, policies.INSTANCES_SHOW,
              json_only=True, answers=answers.INSTANCE),
    Operation("PATCH", "/instances/{uuid}", instances.update, policies.INSTANCES_UPDATE,
              body=bodies.INSTANCE_UPDATE, answers=answers.INSTANCE),
    Operation("DELETE", "/instances/{uuid}", instances.delete, policies.INSTANCES_DELETE,
              answers=NO_CONTENT),

    Operation("GET", "/quota", quota.list_, policies.QUOTA_LIST, query=queries.QUOTA,
              json_only=True, also=(policies.QUOTA_OF_ALL,), answers=answers.QUOTAS),
    Operation("POST", "/quota/check", quota.check, policies.QUOTA_CHECK,
              body=bodies.QUOTA_CHECK, largest_body=COLLECTION_BODY, json_only=True,
              also=(policies.QUOTA_OF_ALL, policies.QUOTA_RECHECK),
              answers=answers.QUOTA_CHECKED),
    Operation("POST", "/quota/server_group_members", quota.server_group_members,
              policies.QUOTA_MEMBERS, body=bodies.SERVER_GROUP_MEMBERS,
              largest_body=COLLECTION_BODY, json_only=True, also=(policies.QUOTA_OF_ALL,),
              answers=answers.SERVER_GROUP_MEMBERS),
    Operation("GET", "/quota/{project_id}", quota.show, policies.QUOTA_SHOW,
              query=queries.QUOTA_OF_PROJECT, json_only=True,
              also=(policies.QUOTA_OF_ALL,), answers=answers.QUOTA),

    Operation("POST", "/reservations/whatif", reservations.what_if,
              policies.RESERVATIONS_WHAT_IF, body=lease_bodies.LEASE,
              largest_body=COLLECTION_BODY, json_only=True, answers=answers.LEASE_FITS),
    Operation("GET", "/reservations/timeline", reservations.timeline,
              policies.RESERVATIONS_TIMELINE, query=queries.TIMELINE, json_only=True,
              answers=answers.TIMELINE),
    Operation("GET", "/reservations/next_fit", reservations.next_fit,
              policies.RESERVATIONS_NEXT_FIT, query=queries.NEXT_FIT, json_only=True,
              answers=answers.NEXT_FIT),
    Operation("GET", "/reservations/history", reservations.list_history,
              policies.RESERVATIONS_HISTORY, query=queries.RESERVATION_HISTORY,
              json_only=True, answers=answers.RESERVATION_HISTORY),
    Operation("GET", "/reservations/notices", reservations.list_notices,
              policies.RESERVATIONS_NOTICES, query=queries.NOTICES, json_only=True,
              target=_project, answers=answers.NOTICES),
    Operation("POST", "/reservations/events/{id}/retry", reservations.retry_event,
              policies.RESERVATIONS_RETRY_EVENT, answers=NO_CONTENT),
)
