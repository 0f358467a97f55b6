"""Visibility of leases: those of the caller's project, or of all projects by policy."""

from __future__ import annotations

from placement_core.http.errors import NotAllowed
from placement_core.http.operations import Call


def get_visible_project(
    call: Call, rule: str, all_projects_rule: str, requested: str | None = None
) -> str | None:
    """Return the project whose leases a caller may see or change; None: all projects.

    :param rule: the policy rule of the operation.
    :param all_projects_rule: the rule that grants access to the leases of all projects.
    :param requested: the project that the request filters by, if any.
    :raises NotAllowed: it is another project, or the caller has none.
    """
    if call.allows(all_projects_rule):
        return requested
    project_id = call.ctx.identity.project_id
    if project_id is None or requested not in (None, project_id):
        raise NotAllowed(rule)
    return project_id
