"""Every URL of the capacity API, below its prefix, on one screen."""

from __future__ import annotations

from collections.abc import Mapping

from placement_core.http.capacity_api import bodies, policies, queries
from placement_core.http.capacity_api.views import (
    effective_limits,
    explain,
    limit_history,
    user_limits,
)
from placement_core.http.operations import Operation
from placement_core.http.placement_api import microversions as mv
from placement_core.http.placement_api.queries import schemas


def _project(query: Mapping[str, list[str]]) -> Mapping[str, str | None]:
    """Return the policy target of a question about a project."""
    return {"project_id": query["project_id"][-1] if "project_id" in query else None}


OPERATIONS = (
    Operation("GET", "/explain/allocation_candidates", explain.candidates,
              policies.EXPLAIN_CANDIDATES, since=mv.CANDIDATES, query=schemas.CANDIDATES,
              json_only=True),

    Operation("GET", "/limits/effective", effective_limits.show, policies.EFFECTIVE_LIMITS,
              query=queries.EFFECTIVE, json_only=True, tag=effective_limits.tag),
    Operation("GET", "/limits/history", limit_history.list_, policies.LIMIT_HISTORY,
              query=queries.HISTORY, json_only=True, target=_project),
    Operation("GET", "/limits/users", user_limits.list_, policies.USER_LIMITS_LIST,
              query=queries.USER_LIMITS, json_only=True, target=_project),
    Operation("POST", "/limits/users", user_limits.create, policies.USER_LIMITS_CREATE,
              body=bodies.USER_LIMITS_CREATE),
    Operation("GET", "/limits/users/{id}", user_limits.show, policies.USER_LIMITS_SHOW,
              json_only=True),
    Operation("PATCH", "/limits/users/{id}", user_limits.update, policies.USER_LIMITS_UPDATE,
              body=bodies.USER_LIMIT_UPDATE),
    Operation("DELETE", "/limits/users/{id}", user_limits.delete,
              policies.USER_LIMITS_DELETE),
)
