"""Count instances by their mappings in nova's API database, and in a cell.

Exactly the instances count that count in nova. Source: spec nova_quota §1.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.cells import tables
from placement_core.cells.cell_tables import instances
from placement_core.context import Context
from placement_core.db import lists, texts
from placement_core.plugin_api.counting import Owner

#: For more projects than this, all are counted: listing them would cost more.
_MANY = 1000
#: The state of deleted instances that may be restored; they do not count.
_SOFT_DELETED = "soft-delete"

_mappings, _cells = tables.instance_mappings, tables.cell_mappings

_ALIVE = _mappings.c.queued_for_delete == sa.false()
#: The mapping lacks what counting needs, so its project is counted in the cells.
_UNMIGRATED = sa.and_(
    _mappings.c.project_id != tables.MARKER_PROJECT,
    sa.or_(_mappings.c.queued_for_delete.is_(None),
           sa.and_(_mappings.c.user_id.is_(None), _ALIVE)))

_COUNTED = sa.and_(
    instances.c.deleted == 0,
    sa.or_(instances.c.vm_state != _SOFT_DELETED, instances.c.vm_state.is_(None)),
    sa.or_(instances.c.hidden == sa.false(), instances.c.hidden.is_(None)))

_MEMBERS = sa.select(
    _mappings.c.instance_uuid, _mappings.c.cell_id, _mappings.c.user_id,
    sa.case((_UNMIGRATED, 1), else_=0).label("unmigrated"),
    sa.case((_ALIVE, 1), else_=0).label("alive"),
).where(lists.among(_mappings.c.instance_uuid, "uuids"))
_MEMBERS_IN_CELL = sa.select(sa.func.count()).select_from(instances).where(
    _COUNTED, instances.c.user_id == sa.bindparam("user"),
    lists.among(instances.c.uuid, "uuids"))

_MAPPED_OF_USERS = sa.select(
    _mappings.c.project_id, _mappings.c.user_id, sa.func.count().label("instances"),
).where(_ALIVE, lists.among_many(_mappings.c.user_id, "users")).group_by(
    _mappings.c.project_id, _mappings.c.user_id)
_USERS_IN_CELL = sa.select(
    instances.c.project_id, instances.c.user_id, sa.func.count().label("instances"),
    sa.func.sum(instances.c.vcpus).label("vcpus"),
    sa.func.sum(instances.c.memory_mb).label("memory_mb"),
).where(_COUNTED, lists.among_many(instances.c.user_id, "users")).group_by(
    instances.c.project_id, instances.c.user_id)


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceTotals:
    """The number of instances and the sum of their resources; memory in MiB."""

    instances: int = 0
    vcpus: int = 0
    memory_mb: int = 0

    def __add__(self, other: InstanceTotals) -> InstanceTotals:
        return InstanceTotals(
            self.instances + other.instances, self.vcpus + other.vcpus,
            self.memory_mb + other.memory_mb)


@dataclasses.dataclass(frozen=True, slots=True)
class CellCount:
    """The instances in a cell.

    :ivar projects: {project: its totals}; projects without instances are missing.
    :ivar user: the given user's share of the totals.
    """

    projects: Mapping[str, InstanceTotals]
    user: InstanceTotals = InstanceTotals()


@dataclasses.dataclass(frozen=True, slots=True)
class MappingCount:
    """The number of instances by the mappings.

    :ivar projects: {project: number of instances}; projects without instances are missing.
    :ivar user: the number of them that belong to the given user.
    """

    projects: Mapping[str, int]
    user: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class MappedMembers:
    """The members of a server group, by the mappings.

    :ivar counted: the number of members that are the user's and not deleted. A member that is in
        no cell yet counts, too, if its mapping does not say whether it is.
    :ivar unknown: {cell id: uuids} of the other members whose mapping does not say it.
    """

    counted: int
    unknown: Mapping[int, Collection[str]]


# In the API database --------------------------------------------------------


@db.retry_writes
def find_unmigrated(api: Context, project_ids: Collection[str] | None = None) -> set[str]:
    """Return the projects that have mappings which cannot be counted yet.

    Mappings that are queued for deletion need no user. One statement.

    :param project_ids: only these projects; None: all.
    """
    projects = _choose_projects(project_ids)
    if projects is not None and not projects:
        return set()
    with db.read_once(api) as session:
        statement = _select_unmigrated(some=projects is not None)
        unmigrated = {
            row.project_id for row in session.execute(statement, {"projects": projects})}
    return unmigrated if project_ids is None else unmigrated & set(project_ids)


@db.retry_writes
def count_mapped(
    api: Context, project_ids: Collection[str] | None = None, *, user_id: str | None = None,
    without: Collection[str] = (),
) -> MappingCount:
    """Count instances by their mappings, including those being built. One statement.

    :param project_ids: only these projects; None: all.
    :param user_id: count this user's share, too.
    :param without: uuids of instances to leave out.
    """
    projects = _choose_projects(project_ids)
    if projects is not None and not projects:
        return MappingCount({})
    with db.read_once(api) as session:
        statement = _select_mapped(
            some=projects is not None, user=user_id is not None, without=bool(without))
        rows = session.execute(statement, {
            "projects": projects, "user": _storable_or_none(user_id),
            "without": _filter_storable(without)}).all()
    rows = _filter_projects(rows, project_ids)
    return MappingCount(
        {row.project_id: int(row.instances) for row in rows},
        sum(int(row.of_user) for row in rows) if user_id is not None else 0)


@db.retry_writes
def count_mapped_of_users(api: Context, user_ids: Collection[str]) -> dict[Owner, int]:
    """Count instances of users by their mappings, in each project. One statement.

    :returns: {(project, user): number}; without those that have none.
    """
    with db.read_once(api) as session:
        return {(row.project_id, row.user_id): row.instances for row in session.execute(
            _MAPPED_OF_USERS, {"users": sorted(_filter_storable(user_ids))})}


@db.retry_writes
def find_projects(api: Context) -> set[str]:
    """Return the projects that have an instance which is not deleted, by the mappings."""
    with db.read_once(api) as session:
        return {row.project_id for row in session.execute(
            sa.select(_mappings.c.project_id).where(_ALIVE).distinct())}


@db.retry_writes
def count_members(api: Context, instance_uuids: Collection[str], user_id: str) -> MappedMembers:
    """Count a user's members of a group that are not deleted, by the mappings. One statement."""
    counted = 0
    unknown: dict[int, list[str]] = {}
    with db.read_once(api) as session:
        rows = session.execute(_MEMBERS, {"uuids": _filter_storable(instance_uuids)})
        for row in rows:
            if row.user_id not in (None, user_id):
                continue
            if row.unmigrated and row.cell_id is not None:
                unknown.setdefault(row.cell_id, []).append(row.instance_uuid)
            elif row.unmigrated or row.alive:
                counted += 1
    return MappedMembers(counted, unknown)


@functools.cache
def _select_unmigrated(*, some: bool) -> sa.Select[Any]:
    statement = sa.select(_mappings.c.project_id).where(_UNMIGRATED).distinct()
    return statement.where(_match_projects(_mappings.c.project_id)) if some else statement


@functools.cache
def _select_mapped(*, some: bool, user: bool, without: bool) -> sa.Select[Any]:
    columns = [_mappings.c.project_id, sa.func.count().label("instances")]
    if user:
        columns.append(_build_user_sum(_mappings.c.user_id, sa.literal_column("1"), "of_user"))
    statement = sa.select(*columns).where(_ALIVE).group_by(_mappings.c.project_id)
    if some:
        statement = statement.where(_match_projects(_mappings.c.project_id))
    if without:
        statement = statement.where(sa.not_(lists.among(_mappings.c.instance_uuid, "without")))
    return statement


# In a cell ------------------------------------------------------------------


def count_in_cell(
    cell: Context, project_ids: Collection[str] | None = None, *, user_id: str | None = None,
    without: Collection[str] = (),
) -> CellCount:
    """Count the instances of a cell. One statement, however many projects.

    :param cell: a context on the cell's database.
    :param project_ids: only these projects; None: all.
    :param user_id: count this user's share, too.
    :param without: uuids of instances to leave out.
    """
    projects = _choose_projects(project_ids)
    if projects is not None and not projects:
        return CellCount({})
    with db.read_once(cell) as session:
        statement = _select_in_cell(
            some=projects is not None, user=user_id is not None, without=bool(without))
        rows = session.execute(statement, {
            "projects": projects, "user": _storable_or_none(user_id),
            "without": _filter_storable(without)}).all()
    rows = _filter_projects(rows, project_ids)
    return CellCount(
        {row.project_id: InstanceTotals(
            int(row.instances), int(row.vcpus or 0), int(row.memory_mb or 0))
         for row in rows},
        sum((InstanceTotals(int(row.of_user), int(row.vcpus_of_user or 0),
                     int(row.memory_mb_of_user or 0)) for row in rows), InstanceTotals())
        if user_id is not None else InstanceTotals())


def count_users_in_cell(
    cell: Context, user_ids: Collection[str]
) -> dict[Owner, InstanceTotals]:
    """Count the instances of users in a cell, in each project. One statement.

    :returns: {(project, user): their totals}; without those that have none.
    """
    with db.read_once(cell) as session:
        return {(row.project_id, row.user_id): InstanceTotals(
            int(row.instances), int(row.vcpus or 0), int(row.memory_mb or 0))
            for row in session.execute(
                _USERS_IN_CELL, {"users": sorted(_filter_storable(user_ids))})}


def count_members_in_cell(cell: Context, instance_uuids: Collection[str], user_id: str) -> int:
    """Count a user's instances in a cell, among those with the given uuids."""
    with db.read_once(cell) as session:
        count: int = session.execute(
            _MEMBERS_IN_CELL,
            {"uuids": _filter_storable(instance_uuids),
             "user": _storable_or_none(user_id)}).scalar_one()
    return count


@functools.cache
def _select_in_cell(*, some: bool, user: bool, without: bool) -> sa.Select[Any]:
    columns = [
        instances.c.project_id, sa.func.count().label("instances"),
        sa.func.sum(instances.c.vcpus).label("vcpus"),
        sa.func.sum(instances.c.memory_mb).label("memory_mb")]
    if user:
        columns += [
            _build_user_sum(instances.c.user_id, sa.literal_column("1"), "of_user"),
            _build_user_sum(instances.c.user_id, instances.c.vcpus, "vcpus_of_user"),
            _build_user_sum(instances.c.user_id, instances.c.memory_mb, "memory_mb_of_user")]
    statement = sa.select(*columns).where(_COUNTED).group_by(instances.c.project_id)
    if some:
        statement = statement.where(_match_projects(instances.c.project_id))
    else:
        statement = statement.where(instances.c.project_id.is_not(None))
    if without:
        statement = statement.where(sa.not_(lists.among(instances.c.uuid, "without")))
    return statement


# Both -----------------------------------------------------------------------


def _match_projects(column: sa.Column[Any]) -> sa.ColumnElement[bool]:
    return lists.among(column, "projects")


def _build_user_sum(
    owner: sa.Column[Any], value: sa.ColumnElement[Any], name: str
) -> sa.Label[Any]:
    return sa.func.sum(sa.case((owner == sa.bindparam("user"), value), else_=0)).label(name)


def _choose_projects(project_ids: Collection[str] | None) -> list[str] | None:
    """Return the projects that the statement lists, or None if it counts all."""
    if project_ids is None or len(project_ids) > _MANY:
        return None
    return _filter_storable(project_ids)


def _storable_or_none(user_id: str | None) -> str | None:
    """Return a user id, or None, which matches nothing, if no database can store it."""
    return user_id if user_id is not None and texts.is_storable(user_id) else None


def _filter_projects(
    rows: Sequence[sa.Row[Any]], project_ids: Collection[str] | None
) -> Sequence[sa.Row[Any]]:
    if project_ids is None:
        return rows
    projects = set(project_ids)
    return [row for row in rows if row.project_id in projects]


def _filter_storable(ids: Collection[str]) -> list[str]:
    """Return the ids that a database can store."""
    return sorted({id_ for id_ in ids if texts.is_storable(id_)})
