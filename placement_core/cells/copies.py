"""Instance mappings and server groups that are copied from a nova, many at a time.

They are in the service's own database, and are what they are in nova: a mapping may be without a
cell, a user, or the mark of deleted ones.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.cells import errors, tables
from placement_core.cells.databases import load_cells
from placement_core.context import Context
from placement_core.db import Session, lists

#: How many uuids are read at a time.
_PAGE = 1000

_cells, _instances = tables.cell_mappings, tables.instance_mappings
_groups, _members = tables.instance_groups, tables.instance_group_member

_SOME_INSTANCES = sa.select(
    _instances.c.instance_uuid, _instances.c.project_id, _instances.c.user_id,
    _cells.c.uuid.label("cell"), _instances.c.queued_for_delete,
).select_from(_instances.outerjoin(_cells, _cells.c.id == _instances.c.cell_id)).where(
    lists.among_many(_instances.c.instance_uuid, "uuids"))
_INSERT_INSTANCES = sa.insert(_instances).inline()
_UPDATE_INSTANCE = sa.update(_instances).where(
    _instances.c.instance_uuid == sa.bindparam("of_uuid"))
_DELETE_INSTANCE = sa.delete(_instances).where(
    _instances.c.instance_uuid == sa.bindparam("of_uuid"))

_SOME_GROUPS = sa.select(_groups.c.id, _groups.c.uuid, _groups.c.name, _groups.c.project_id,
                         _groups.c.user_id).where(lists.among_many(_groups.c.uuid, "uuids"))
_SOME_MEMBERS = (
    sa.select(_groups.c.uuid, _members.c.instance_uuid)
    .join(_members, _members.c.group_id == _groups.c.id)
    .where(lists.among_many(_groups.c.uuid, "uuids"), _members.c.instance_uuid.is_not(None)))
_INSERT_GROUPS = sa.insert(_groups).inline()
_INSERT_MEMBERS = sa.insert(_members).inline()
_UPDATE_GROUP = sa.update(_groups).where(_groups.c.id == sa.bindparam("of_id"))
_DELETE_GROUP = sa.delete(_groups).where(_groups.c.id == sa.bindparam("of_id"))
_DELETE_MEMBERS = sa.delete(_members).where(_members.c.group_id == sa.bindparam("of_id"))

#: What instance mappings may lack until ``db sync --contract``.
_CONTRACTED = ("user_id", "queued_for_delete")

#: {field: value} of an instance mapping or a server group.
Fields = Mapping[str, Any]


@db.retry_writes
def list_required_fields(ctx: Context) -> Sequence[str]:
    """Return the fields that an instance mapping must have since the contract step."""
    with db.read(ctx) as session:
        columns = sa.inspect(session.connection).get_columns(_instances.name)
    return [column["name"] for column in columns
            if column["name"] in _CONTRACTED and not column["nullable"]]


@db.retry_writes
def read_instances(ctx: Context, uuids: Sequence[str]) -> dict[str, Fields]:
    """Return the instance mappings of some instances: {uuid: fields}; ``cell`` is a uuid."""
    with db.read_once(ctx) as session:
        return {row.instance_uuid: {
            "project_id": row.project_id, "user_id": row.user_id, "cell": row.cell,
            "queued_for_delete": row.queued_for_delete,
        } for row in session.execute(_SOME_INSTANCES, {"uuids": list(uuids)})}


def read_instance_pages(ctx: Context) -> Iterator[Sequence[str]]:
    """Yield the uuids of all instance mappings, some at a time."""
    return _read_pages(ctx, _instances.c.id, _instances.c.instance_uuid)


@db.retry_writes
def insert_instances(ctx: Context, new: Mapping[str, Fields]) -> None:
    """Insert instance mappings: {uuid: fields}.

    :raises errors.UnknownCell: the cell of one does not exist.
    :raises errors.DuplicateInstance: one is there already.
    """
    with db.write(ctx) as session:
        cell_ids = _read_cell_ids(session)
        rows = [{"instance_uuid": uuid, **_make_values(fields, cell_ids)}
                for uuid, fields in new.items()]
        if not rows:
            return
        try:
            session.execute(_INSERT_INSTANCES, rows)
        except db_exception.DBDuplicateEntry:
            raise errors.DuplicateInstance(rows[0]["instance_uuid"]) from None


@db.retry_writes
def update_instance(ctx: Context, uuid: str, changes: Fields) -> None:
    """Change fields of an instance mapping.

    :raises errors.InstanceNotFound: it is not there.
    :raises errors.UnknownCell: its new cell does not exist.
    """
    with db.write(ctx) as session:
        values = _make_values(changes, _read_cell_ids(session))
        if not session.execute(_UPDATE_INSTANCE.values(values), {"of_uuid": uuid}).rowcount:
            raise errors.InstanceNotFound(uuid)


@db.retry_writes
def delete_instance(ctx: Context, uuid: str) -> None:
    """Delete an instance mapping, if it is there."""
    with db.write(ctx) as session:
        session.execute(_DELETE_INSTANCE, {"of_uuid": uuid})


@db.retry_writes
def read_groups(ctx: Context, uuids: Sequence[str]) -> dict[str, Fields]:
    """Return some server groups: {uuid: fields}; ``members`` are sorted, without repetition."""
    with db.read(ctx) as session:
        rows = session.execute(_SOME_GROUPS, {"uuids": list(uuids)}).all()
        members = collections.defaultdict(set)
        for member in session.execute(_SOME_MEMBERS, {"uuids": list(uuids)}):
            members[member.uuid].add(member.instance_uuid)
    return {row.uuid: {
        "name": row.name or "", "project_id": row.project_id, "user_id": row.user_id,
        "members": sorted(members[row.uuid])} for row in rows}


def read_group_pages(ctx: Context) -> Iterator[Sequence[str]]:
    """Yield the uuids of all server groups, some at a time."""
    return _read_pages(ctx, _groups.c.id, _groups.c.uuid)


@db.retry_writes
def insert_groups(ctx: Context, new: Mapping[str, Fields]) -> None:
    """Insert server groups: {uuid: fields}.

    :raises errors.DuplicateServerGroup: one is there already.
    """
    if not new:
        return
    with db.write(ctx) as session:
        try:
            session.execute(_INSERT_GROUPS, [
                {"uuid": uuid, "name": fields["name"] or None,
                 "project_id": fields["project_id"], "user_id": fields["user_id"]}
                for uuid, fields in new.items()])
        except db_exception.DBDuplicateEntry:
            raise errors.DuplicateServerGroup(next(iter(new))) from None
        ids = _read_group_ids(session, list(new))
        _insert_members(session, {
            ids[uuid]: fields["members"] for uuid, fields in new.items()})


@db.retry_writes
def update_group(ctx: Context, uuid: str, changes: Fields) -> None:
    """Change fields of a server group.

    :raises errors.ServerGroupNotFound: it is not there.
    """
    with db.write(ctx) as session:
        id_ = _read_group_ids(session, [uuid]).get(uuid)
        if id_ is None:
            raise errors.ServerGroupNotFound(uuid)
        values = {name: value for name, value in changes.items() if name != "members"}
        if values:
            session.execute(_UPDATE_GROUP.values(values), {"of_id": id_})
        if "members" in changes:
            session.execute(_DELETE_MEMBERS, {"of_id": id_})
            _insert_members(session, {id_: changes["members"]})


@db.retry_writes
def delete_group(ctx: Context, uuid: str) -> None:
    """Delete a server group, if it is there."""
    with db.write(ctx) as session:
        for id_ in _read_group_ids(session, [uuid]).values():
            session.execute(_DELETE_MEMBERS, {"of_id": id_})
            session.execute(_DELETE_GROUP, {"of_id": id_})


def _read_group_ids(session: Session, uuids: Sequence[str]) -> dict[str, int]:
    return {row.uuid: row.id for row in session.execute(_SOME_GROUPS, {"uuids": uuids})}


def _insert_members(session: Session, members: Mapping[int, Sequence[str]]) -> None:
    rows = [{"group_id": id_, "instance_uuid": uuid}
            for id_, uuids in members.items() for uuid in uuids]
    if rows:
        session.execute(_INSERT_MEMBERS, rows)


def _make_values(fields: Fields, cell_ids: Mapping[str, int]) -> dict[str, Any]:
    """Return the values of columns for fields of an instance mapping."""
    values = dict(fields)
    if "cell" in values:
        cell = values.pop("cell")
        if cell is not None and cell not in cell_ids:
            raise errors.UnknownCell(cell)
        values["cell_id"] = None if cell is None else cell_ids[cell]
    return values


def _read_cell_ids(session: Session) -> dict[str, int]:
    return {cell.uuid: cell.id for cell in load_cells(session)}


def _read_pages(
    ctx: Context, id_column: sa.Column[int], uuid_column: sa.Column[str]
) -> Iterator[Sequence[str]]:
    statement = (
        sa.select(id_column.label("id"), uuid_column.label("uuid"))
        .where(id_column > sa.bindparam("after")).order_by(id_column).limit(_PAGE))
    after = 0
    while rows := _read(ctx, statement, after):
        yield [row.uuid for row in rows]
        after = rows[-1].id


@db.retry_writes
def _read(ctx: Context, statement: sa.Executable, after: int) -> Sequence[sa.Row[Any]]:
    with db.read_once(ctx) as session:
        return session.execute(statement, {"after": after}).all()
