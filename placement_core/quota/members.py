"""Members of server groups, limited per user as in nova."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from placement_core import amounts
from placement_core.amounts import Amount
from placement_core.context import Context
from placement_core.plugin_api.counting import MemberCount
from placement_core.quota import errors
from placement_core.quota.queries import QuotaQueries

#: The resource name of limits on the members of a server group.
RESOURCE_NAME = "server_group_members"


@dataclasses.dataclass(frozen=True, slots=True)
class ServerGroupMembers:
    """The members of a user in a server group, with their limit.

    :ivar limit: the user's own limit, or else the project's, or else the default.
    """

    limit: Amount
    asked: int
    count: MemberCount

    @property
    def fits(self) -> bool:
        """Say whether the requested members fit."""
        return not amounts.is_over(self.limit, self.count.members, self.asked)


def check(
    ctx: Context, queries: QuotaQueries, *, project_id: str, user_id: str,
    uuids: Collection[str], asked: int = 0,
) -> ServerGroupMembers:
    """Check how many members a user has in a server group, and whether more are allowed.

    :param uuids: the group's instances; those of other users, and deleted ones, do not count.
    :param asked: how many more; 0 asks whether there are too many already.
    :raises errors.UncountedResource: the counting driver does not count members.
    :raises errors.UnknownProject: there is no such project.
    :raises errors.MissingCells: members cannot be counted (``[quota] on_missing_cell``).
    :raises errors.Unavailable: limits, catalog or members are not known now.
    """
    if not queries.counting.counts_members:
        raise errors.UncountedResource(RESOURCE_NAME)
    subject = queries.subject(ctx, project_id, user_id)
    limits = subject.project_limits.effective
    limit = subject.of_user.get(RESOURCE_NAME)
    if limit is None:
        limit = limits.overrides.get(project_id, {}).get(RESOURCE_NAME)
    if limit is None:
        limit = limits.defaults.get(RESOURCE_NAME, queries.decisions.unregistered)
    count = queries.counting.server_group_members(ctx, uuids, user_id)
    queries.require_cells(count.missing_cells)
    return ServerGroupMembers(limit, asked, count)
