"""Read the members of nova's server groups, which are counted."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core import db
from placement_core.cells import errors, tables
from placement_core.cells.databases import CellDatabases
from placement_core.context import Context
from placement_core.db import texts

_groups, _members = tables.instance_groups, tables.instance_group_member

_OF_GROUP = (
    sa.select(_groups.c.uuid, _members.c.instance_uuid)
    .outerjoin(_members, _members.c.group_id == _groups.c.id)
    .where(
        _groups.c.project_id == sa.bindparam("project"),
        sa.or_(_groups.c.uuid == sa.bindparam("group"), _groups.c.name == sa.bindparam("group")))
    .order_by(_members.c.id)
)


@db.retry_writes
def list_members(
    ctx: Context, cells: CellDatabases, group: str, *, project_id: str
) -> list[str]:
    """Return the uuids of a server group's instances, including deleted ones.

    :param group: its uuid, or its name in the project.
    :raises errors.UnknownServerGroup: the project has no such group.
    :raises errors.AmbiguousServerGroup: the project has several groups with this name.
    """
    groups: dict[str, list[str]] = {}
    if texts.is_storable(group) and texts.is_storable(project_id):
        with db.read_once(cells.api(ctx)) as session:
            for row in session.execute(_OF_GROUP, {"project": project_id, "group": group}):
                groups.setdefault(row.uuid, []).extend(
                    [] if row.instance_uuid is None else [row.instance_uuid])
    if group in groups:
        return groups[group]
    if not groups:
        raise errors.UnknownServerGroup(group, project_id)
    if len(groups) > 1:
        raise errors.AmbiguousServerGroup(group, sorted(groups))
    return next(iter(groups.values()))
