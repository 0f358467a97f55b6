"""The project whose leases a caller sees or changes; all projects by policy."""

from __future__ import annotations

from placement_core.http.errors import NotAllowed
from placement_core.http.operations import Call


def get_visible_project(
    call: Call, rule: str, everybodys: str, asked: str | None = None
) -> str | None:
    """Return the project whose leases a caller sees; None: all of them.

    :param rule: the policy rule of the operation.
    :param everybodys: the rule of those who see the leases of all projects.
    :param asked: the only project whose leases they want to see.
    :raises NotAllowed: they want to see those of another one, or have none.
    """
    if call.allows(everybodys):
        return asked
    project_id = call.ctx.identity.project_id
    if project_id is None or asked not in (None, project_id):
        raise NotAllowed(rule)
    return project_id
