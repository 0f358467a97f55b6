"""The policy rules of the capacity API: their names and who passes by default."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_policy import policy

from placement_core.http import roles

CHANGES_LIST = "capacity:changes:list"
CHANGES_OF_ALL = "capacity:changes:all_projects"

CLAIMS_LIST = "capacity:claims:list"
CLAIMS_SHOW = "capacity:claims:show"
CLAIMS_CREATE = "capacity:claims:create"
CLAIMS_CONFIRM = "capacity:claims:confirm"
CLAIMS_RELEASE = "capacity:claims:release"

EXPLAIN_CANDIDATES = "capacity:explain:allocation_candidates"

EFFECTIVE_LIMITS = "capacity:limits:effective"
LIMIT_HISTORY = "capacity:limits:history"
USER_LIMITS_LIST = "capacity:limits:users:list"
USER_LIMITS_SHOW = "capacity:limits:users:show"
USER_LIMITS_CREATE = "capacity:limits:users:create"
USER_LIMITS_UPDATE = "capacity:limits:users:update"
USER_LIMITS_DELETE = "capacity:limits:users:delete"

CELLS_LIST = "capacity:cells:list"
CELLS_SHOW = "capacity:cells:show"
CELLS_CREATE = "capacity:cells:create"
CELLS_UPDATE = "capacity:cells:update"
CELLS_DELETE = "capacity:cells:delete"

COMPUTE_NODES_LIST = "capacity:compute_nodes:list"
COMPUTE_NODES_SHOW = "capacity:compute_nodes:show"

CONSUMERS_LIST = "capacity:consumers:list"
PROVIDERS_LIST = "capacity:providers:list"
USAGES_LIST = "capacity:usages:list"
USAGE_INTERVALS = "capacity:usage:intervals"
USAGE_TOTALS = "capacity:usage:totals"

ROOM_SHOW = "capacity:room:show"
ROOM_HOSTS = "capacity:room:hosts"
ROOM_FITS = "capacity:room:fits"
ROOM_STRANDED = "capacity:room:stranded"

INSTANCES_LIST = "capacity:instances:list"
INSTANCES_SHOW = "capacity:instances:show"
INSTANCES_REGISTER = "capacity:instances:register"
INSTANCES_UPDATE = "capacity:instances:update"
INSTANCES_DELETE = "capacity:instances:delete"

AUDIT_LIST = "capacity:audit:list"
THRESHOLDS_LIST = "capacity:thresholds:list"
WORKERS_LIST = "capacity:workers:list"
REFUSALS_LIST = "capacity:refusals:list"

QUOTA_LIST = "capacity:quota:list"
QUOTA_SHOW = "capacity:quota:show"
QUOTA_CHECK = "capacity:quota:check"
QUOTA_MEMBERS = "capacity:quota:server_group_members"
EXPLAIN_QUOTA = "capacity:explain:quota"
QUOTA_OF_ALL = "capacity:quota:all_projects"
QUOTA_RECHECK = "capacity:quota:recheck"

RESERVATIONS_WHAT_IF = "capacity:reservations:whatif"
RESERVATIONS_TIMELINE = "capacity:reservations:timeline"
RESERVATIONS_NEXT_FIT = "capacity:reservations:next_fit"
RESERVATIONS_HISTORY = "capacity:reservations:history"
RESERVATIONS_NOTICES = "capacity:reservations:notices"
RESERVATIONS_RETRY_EVENT = "capacity:reservations:events:retry"

#: Of which projects a reader is told, ``limits_api.visibility`` says: those of the own domain, or
#: the own project and those below it, unless the caller passes ``QUOTA_OF_ALL``.
_READERS = f"{roles.ADMIN_OR_SERVICE} or role:reader"
#: The limits of a domain bind all projects in it, so whoever has a role there may ask about them.
_PROJECT_OR_DOMAIN = ["project", "domain"]


def _rule(
    name: str, description: str, operations: str, check: str = roles.ADMIN_OR_SERVICE,
    scopes: Sequence[str] = roles.SCOPES,
) -> policy.DocumentedRuleDefault:
    return policy.DocumentedRuleDefault(
        name, check, description,
        [{"method": method, "path": f"/capacity/v1{path}"}
         for method, path in map(str.split, operations.split(", "))],
        scope_types=list(scopes))


def _quota_rule(name: str, description: str, operation: str) -> policy.DocumentedRuleDefault:
    return _rule(name, description, operation, _READERS, _PROJECT_OR_DOMAIN)


RULES: list[policy.DocumentedRuleDefault] = [
    _rule(CHANGES_LIST, "Follow what changes, of one project or of all.", "GET /changes",
          roles.ADMIN_OR_PROJECT_READER_OR_SERVICE),
    _rule(CHANGES_OF_ALL, "See in changes on which hosts consumers have something.",
          "GET /changes"),
    _rule(CLAIMS_LIST, "List claims that are held or expired.", "GET /claims"),
    _rule(CLAIMS_SHOW, "Show a claim.", "GET /claims/{id}"),
    _rule(CLAIMS_CREATE, "Claim capacity and quota, for good or for a time.", "POST /claims"),
    _rule(CLAIMS_CONFIRM, "Keep held claims for good.",
          "POST /claims/{id}/confirm, POST /claims/confirm"),
    _rule(CLAIMS_RELEASE, "Give back what claims hold.",
          "DELETE /claims/{id}, POST /claims/release"),
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
    _rule(CELLS_LIST, "List cells, and ask whether they answer.", "GET /cells"),
    _rule(CELLS_SHOW, "Show a cell, and ask whether it answers.", "GET /cells/{cell}"),
    _rule(CELLS_CREATE, "Add a cell.", "POST /cells", roles.ADMIN),
    _rule(CELLS_UPDATE, "Update a cell.", "PATCH /cells/{cell}", roles.ADMIN),
    _rule(CELLS_DELETE, "Remove a cell.", "DELETE /cells/{cell}", roles.ADMIN),
    _rule(COMPUTE_NODES_LIST, "List compute nodes.", "GET /compute_nodes"),
    _rule(COMPUTE_NODES_SHOW, "Show a compute node.", "GET /compute_nodes/{uuid}"),
    _rule(CONSUMERS_LIST, "List consumers with their allocations.", "GET /consumers"),
    _rule(PROVIDERS_LIST, "List providers with inventories, traits and aggregates.",
          "GET /providers"),
    _rule(USAGES_LIST, "List what all projects use.", "GET /usages"),
    _rule(USAGE_INTERVALS, "List which consumers held what on which providers, from when to when.",
          "GET /usage/intervals"),
    _rule(USAGE_TOTALS, "Show what projects used over some time.", "GET /usage/totals",
          roles.ADMIN_OR_PROJECT_READER_OR_SERVICE),
    _rule(ROOM_SHOW, "Show how much room there is.", "GET /room"),
    _rule(ROOM_HOSTS, "Show how much room each host has. capacity:room:show asks for it, too, "
          "where in_tree or group_by=root tells of single hosts, and capacity:room:stranded where "
          "it lists hosts.", "GET /room/hosts"),
    _rule(ROOM_FITS, "Ask how many more of a request fit, on which hosts, and what stops the "
          "next one.", "GET /room/fits"),
    _rule(ROOM_STRANDED, "Show which room no usual request can use; with capacity:room:hosts also "
          "on which hosts.", "GET /room/stranded"),
    _rule(INSTANCES_LIST, "List instances.", "GET /instances"),
    _rule(INSTANCES_SHOW, "Show an instance.", "GET /instances/{uuid}"),
    _rule(INSTANCES_REGISTER, "Register an instance.", "POST /instances"),
    _rule(INSTANCES_UPDATE, "Update an instance.", "PATCH /instances/{uuid}"),
    _rule(INSTANCES_DELETE, "Mark an instance as deleted.", "DELETE /instances/{uuid}"),
    _rule(AUDIT_LIST, "List who changed what.", "GET /audit", roles.ADMIN),
    _rule(THRESHOLDS_LIST, "List the thresholds that are reached.", "GET /thresholds"),
    _rule(WORKERS_LIST, "List the processes that serve, and how they do.", "GET /workers"),
    _rule(REFUSALS_LIST, "List the requests that were refused in the last hour, of callers in one "
          "project or in all.", "GET /refusals", roles.ADMIN_OR_PROJECT_READER_OR_SERVICE),
    _quota_rule(QUOTA_LIST, "Show what projects may have, have, and could still have.",
                "GET /quota"),
    _quota_rule(QUOTA_SHOW, "Show what a project may have, has, and could still have.",
                "GET /quota/{project_id}"),
    _quota_rule(QUOTA_CHECK, "Ask whether a request fits into the limits.",
                "POST /quota/check"),
    _quota_rule(QUOTA_MEMBERS, "Count the members of a server group.",
                "POST /quota/server_group_members"),
    _rule(QUOTA_OF_ALL, "Ask about every project, beside the rule of the question.",
          "GET /quota"),
    _rule(QUOTA_RECHECK, "Ask whether what was made may stay, beside capacity:quota:check: the "
          "answer is noted, and decides about others.", "POST /quota/check"),
    _quota_rule(EXPLAIN_QUOTA, "Ask why a request does not fit into the limits.",
                "POST /explain/quota"),
    _rule(RESERVATIONS_WHAT_IF, "Ask whether a lease would be admitted.",
          "POST /reservations/whatif", roles.ADMIN_OR_READER_OF_OWN),
    _rule(RESERVATIONS_TIMELINE, "Show how much of the freepool is free over time.",
          "GET /reservations/timeline", f"{roles.ADMIN_OR_READER_OF_OWN} or {roles.SERVICE}"),
    _rule(RESERVATIONS_NEXT_FIT, "Ask when a lease would fit.",
          "GET /reservations/next_fit", roles.ADMIN_OR_READER_OF_OWN),
    _rule(RESERVATIONS_HISTORY, "List who held which hosts, from when to when.",
          "GET /reservations/history"),
    _rule(RESERVATIONS_NOTICES, "List what was done to leases.", "GET /reservations/notices",
          roles.ADMIN_OR_PROJECT_READER_OR_SERVICE),
    _rule(RESERVATIONS_RETRY_EVENT, "Let an event of a lease that failed be tried again.",
          "POST /reservations/events/{id}/retry", roles.ADMIN),
]
