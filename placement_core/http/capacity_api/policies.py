"""The policy rules of the capacity API: their names and who passes by default."""

from __future__ import annotations

from oslo_policy import policy

from placement_core.http import roles

EXPLAIN_CANDIDATES = "capacity:explain:allocation_candidates"

EFFECTIVE_LIMITS = "capacity:limits:effective"
LIMIT_HISTORY = "capacity:limits:history"
USER_LIMITS_LIST = "capacity:limits:users:list"
USER_LIMITS_SHOW = "capacity:limits:users:show"
USER_LIMITS_CREATE = "capacity:limits:users:create"
USER_LIMITS_UPDATE = "capacity:limits:users:update"
USER_LIMITS_DELETE = "capacity:limits:users:delete"


def _rule(
    name: str, description: str, operation: str, check: str = roles.ADMIN_OR_SERVICE
) -> policy.DocumentedRuleDefault:
    method, path = operation.split()
    return policy.DocumentedRuleDefault(
        name, check, description, [{"method": method, "path": f"/capacity/v1{path}"}],
        scope_types=roles.SCOPES)


RULES: list[policy.DocumentedRuleDefault] = [
    _rule(EXPLAIN_CANDIDATES,
          "Explain which allocation candidates there are, and why not more.",
          "GET /explain/allocation_candidates"),
    _rule(EFFECTIVE_LIMITS, "Show all limits that bind the claims of a project.",
          "GET /limits/effective"),
    _rule(LIMIT_HISTORY, "List the changes of limits.", "GET /limits/history",
          roles.ADMIN_OR_PROJECT_READER_OR_SERVICE),
    _rule(USER_LIMITS_LIST, "List limits of users.", "GET /limits/users",
          roles.ADMIN_OR_PROJECT_READER_OR_SERVICE),
    _rule(USER_LIMITS_SHOW, "Show a limit of a user.", "GET /limits/users/{id}"),
    _rule(USER_LIMITS_CREATE, "Create limits of users.", "POST /limits/users", roles.ADMIN),
    _rule(USER_LIMITS_UPDATE, "Update a limit of a user.", "PATCH /limits/users/{id}",
          roles.ADMIN),
    _rule(USER_LIMITS_DELETE, "Delete a limit of a user.", "DELETE /limits/users/{id}",
          roles.ADMIN),
]
