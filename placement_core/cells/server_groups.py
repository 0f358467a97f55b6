"""Read the members of nova's server groups, which are counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.cells import errors, tables
from placement_core.cells.databases import CellDatabases
from placement_core.context import Context
from placement_core.db import failures, texts

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
    :raises errors.UnreadableServerGroups: nova's tables cannot be read.
    """
    groups: dict[str, list[str]] = {}
    if texts.is_storable(group) and texts.is_storable(project_id):
        for row in _read(cells.api(ctx), project_id, group):
            groups.setdefault(row.uuid, []).extend(
                [] if row.instance_uuid is None else [row.instance_uuid])
    if group in groups:
        return groups[group]
    if not groups:
        raise errors.UnknownServerGroup(group, project_id)
    if len(groups) > 1:
        raise errors.AmbiguousServerGroup(group, sorted(groups))
    return next(iter(groups.values()))


def _read(api: Context, project_id: str, group: str) -> Sequence[sa.Row[Any]]:
    """Return the members of a project's server groups of a uuid or name."""
    try:
        with db.read_once(api) as session:
            return session.execute(_OF_GROUP, {"project": project_id, "group": group}).all()
    except (db_exception.DBError, sa.exc.DBAPIError) as error:
        if not failures.is_unreadable_table(error):
            raise
        raise errors.UnreadableServerGroups(
            api.database.masked_url, failures.describe_error(error)) from error
