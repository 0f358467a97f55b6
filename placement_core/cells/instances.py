"""Instance mappings: which project and user own an instance, and which cell it is in.

They are rows of ``[api_database]``, which may be nova's: nova writes them, too, when it
builds, schedules and deletes instances. Source: spec nova_quota §1 and §3.
"""

from __future__ import annotations

import datetime
import functools
import uuid as uuids
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.cells import cell_tables, errors, mappings, tables
from placement_core.cells.databases import CellDatabases, load_cells
from placement_core.cells.records import Cell, Instance
from placement_core.context import Context
from placement_core.db import Session, texts

_LONGEST_ID = 255

_instances, _cells = tables.instance_mappings, tables.cell_mappings
_cell_instances = cell_tables.instances

#: The vm_state in nova of a deleted instance that may still be restored.
SOFT_DELETED = "soft-delete"

_RECORDS = sa.select(
    _instances.c.instance_uuid, _instances.c.project_id, _instances.c.user_id,
    _cells.c.uuid.label("cell_uuid"), _instances.c.queued_for_delete, _instances.c.id,
    _instances.c.created_at, _instances.c.updated_at,
).select_from(_instances.outerjoin(_cells, _cells.c.id == _instances.c.cell_id))
_BY_UUID = _RECORDS.where(_instances.c.instance_uuid == sa.bindparam("of_uuid"))
_INSERT = sa.insert(_instances)
_UPDATE = sa.update(_instances).where(_instances.c.id == sa.bindparam("of_id"))

#: The columns that lists can be filtered by.
_FIELDS: Mapping[str, sa.ColumnElement[Any]] = {
    "project_id": _instances.c.project_id, "user_id": _instances.c.user_id,
    "cell_id": _instances.c.cell_id, "queued_for_delete": _instances.c.queued_for_delete}

_IN_CELL = sa.select(
    _cell_instances.c.user_id, _cell_instances.c.deleted, _cell_instances.c.vm_state,
).where(_cell_instances.c.uuid == sa.bindparam("of_uuid"))
#: Sets only a column that is NULL, while the instance is in the cell that was read.
_HEAL = {
    column.name: _UPDATE.where(
        column.is_(None),
        _instances.c.cell_id == sa.select(_cells.c.id)
        .where(_cells.c.uuid == sa.bindparam("in_cell")).scalar_subquery(),
    ).values({column: sa.bindparam("new_value")})
    for column in (_instances.c.user_id, _instances.c.queued_for_delete)}

#: Marked as deleted, and not updated since a time.
_DELETED = sa.and_(
    _instances.c.queued_for_delete.is_(sa.true()),
    sa.func.coalesce(_instances.c.updated_at, _instances.c.created_at) < sa.bindparam("before"))
_OLD = (
    sa.select(_instances.c.id).where(_DELETED, _instances.c.id > sa.bindparam("after"))
    .order_by(_instances.c.id).limit(sa.bindparam("most", type_=sa.Integer)))
_PURGE = sa.delete(_instances).where(
    _DELETED, _instances.c.id.in_(sa.bindparam("ids", expanding=True)))
#: The number of rows that one transaction deletes.
_BATCH = 1000


@db.retry_writes
def register(
    ctx: Context, cells: CellDatabases, *, uuid: str, project_id: str, user_id: str,
    cell: str | None = None,
) -> tuple[Instance, bool]:
    """Insert an instance mapping; return it, and whether it is new.

    An instance that is already registered with the same contents is not changed.

    :param uuid: any spelling of a uuid.
    :param cell: the uuid or name of its cell; None: no cell was chosen yet.
    :raises errors.InvalidInstance: a value is not valid.
    :raises errors.UnknownCell: the cell does not exist.
    :raises errors.AmbiguousCell: several cells have this name.
    :raises errors.DuplicateInstance: it is registered with other contents, or deleted.
    """
    uuid = _validate(uuid, project_id, user_id)
    with db.write(cells.api(ctx)) as session:
        in_cell = None if cell is None else _get_cell(session, cell)
        present = _find(session, uuid)
        if present is not None:
            if (present.project_id, present.user_id, present.cell_uuid,
                    present.queued_for_delete) != (
                    project_id, user_id, in_cell and in_cell.uuid, False):
                raise errors.DuplicateInstance(uuid)
            return present, False
        try:
            session.execute(_INSERT, {
                "instance_uuid": uuid, "project_id": project_id, "user_id": user_id,
                "cell_id": in_cell and in_cell.id, "queued_for_delete": False})
        except db_exception.DBDuplicateEntry as error:
            # Another process inserted it at the same moment: read it again.
            raise db.TransactionConflict from error
        except db_exception.DBReferenceError:
            raise errors.UnknownCell(cell or "") from None
        return _get(session, uuid), True


def get(ctx: Context, cells: CellDatabases, uuid: str) -> Instance:
    """Return an instance; fill in what its mapping lacks.

    A mapping without ``user_id`` or ``queued_for_delete`` gets them from its cell, if the cell
    answers and has the instance.

    :raises errors.InstanceNotFound: it is not registered.
    """
    instance = _read(ctx, cells, uuid)
    if instance.cell_uuid is None or None not in (instance.user_id, instance.queued_for_delete):
        return instance
    in_cells = [cell for cell in cells.cells(ctx) if cell.uuid == instance.cell_uuid]
    read = functools.partial(_read_in_cell, uuid=instance.uuid)
    values = cells.scatter_gather(ctx, read, in_cells).answers.get(instance.cell_uuid)
    return instance if values is None else _heal(ctx, cells, instance, values)


@db.retry_writes
def list_(
    ctx: Context, cells: CellDatabases, *, project_id: str | None = None,
    user_id: str | None = None, cell: str | None = None, queued_for_delete: bool | None = None,
    marker: str | None = None, limit: int | None = None,
) -> list[Instance]:
    """Return instances in the order of creation, including deleted ones.

    :param cell: the uuid or name of a cell.
    :param queued_for_delete: whether they are deleted; None: either.
    :param marker: the uuid of the last instance of the previous page.
    :param limit: the largest number of instances to return.
    :raises errors.UnknownCell: the cell does not exist.
    :raises errors.AmbiguousCell: several cells have this name.
    :raises errors.UnknownInstanceMarker: the marker is not registered.
    """
    filters: dict[str, Any] = {
        "project_id": project_id, "user_id": user_id, "queued_for_delete": queued_for_delete}
    if not all(texts.is_storable(text) for text in (project_id, user_id) if text is not None):
        return []
    with db.read(cells.api(ctx)) as session:
        if cell is not None:
            filters["cell_id"] = _get_cell(session, cell).id
        statement = _RECORDS.order_by(_instances.c.id).limit(limit).where(*(
            _FIELDS[name] == value for name, value in filters.items() if value is not None))
        if marker is not None:
            last = _find(session, marker)
            if last is None:
                raise errors.UnknownInstanceMarker(marker)
            statement = statement.where(_instances.c.id > last.id)
        return [_make_record(row) for row in session.execute(statement)]


@db.retry_writes
def update(
    ctx: Context, cells: CellDatabases, uuid: str, *, cell: str | None = None,
    queued_for_delete: bool | None = None,
) -> Instance:
    """Set the cell of an instance, or whether it is deleted; return the instance.

    The row of a deleted instance stays, as in nova, because a cell may restore the instance.

    :param cell: the uuid or name of a cell; None: not changed.
    :param queued_for_delete: None: not changed.
    :raises errors.InstanceNotFound: it is not registered.
    :raises errors.UnknownCell: the cell does not exist.
    :raises errors.AmbiguousCell: several cells have this name.
    """
    with db.write(cells.api(ctx)) as session:
        present = _get(session, uuid)
        values: dict[str, Any] = {}
        if cell is not None:
            values["cell_id"] = _get_cell(session, cell).id
        if queued_for_delete is not None:
            values["queued_for_delete"] = queued_for_delete
        if not values:
            return present
        try:
            session.execute(_UPDATE.values(values), {"of_id": present.id})
        except db_exception.DBReferenceError:
            raise errors.UnknownCell(cell or "") from None
        return _get(session, uuid)


def purge(ctx: Context, cells: CellDatabases, *, before: datetime.datetime) -> int:
    """Delete the rows of instances that were marked as deleted before a time.

    Several processes may do so at the same time.

    :param before: a timezone-aware time.
    :returns: the number of deleted rows.
    :raises errors.KeptByNova: the rows are in nova's API database.
    """
    if cells.api(ctx) is not ctx:
        raise errors.KeptByNova
    naive_before = before.astimezone(datetime.UTC).replace(tzinfo=None)
    removed = after = 0
    while True:
        ids = _list_old(ctx, {"before": naive_before, "most": _BATCH, "after": after})
        if not ids:
            return removed
        removed += _remove(ctx, {"before": naive_before, "ids": ids})
        after = ids[-1]


@db.retry_writes
def _list_old(ctx: Context, parameters: Mapping[str, Any]) -> list[int]:
    with db.read_once(ctx) as session:
        return list(session.execute(_OLD, parameters).scalars())


@db.retry_writes
def _remove(ctx: Context, parameters: Mapping[str, Any]) -> int:
    with db.write(ctx) as session:
        return session.execute(_PURGE, parameters).rowcount


def is_deleted(deleted: int | None, vm_state: str | None) -> bool:
    """Return whether a row of a cell's ``instances`` is deleted or soft-deleted."""
    return bool(deleted) or vm_state == SOFT_DELETED


@db.retry_writes
def _read(ctx: Context, cells: CellDatabases, uuid: str) -> Instance:
    with db.read_once(cells.api(ctx)) as session:
        return _get(session, uuid)


def _read_in_cell(ctx: Context, _cell: Cell, *, uuid: str) -> Mapping[str, Any] | None:
    """Return the values of an instance in its cell's database, or None if it has no row."""
    with db.read_once(ctx) as session:
        row = session.execute(_IN_CELL, {"of_uuid": uuid}).first()
    if row is None:
        return None
    return {"user_id": row.user_id, "queued_for_delete": is_deleted(row.deleted, row.vm_state)}


@db.retry_writes
def _heal(
    ctx: Context, cells: CellDatabases, instance: Instance, values: Mapping[str, Any]
) -> Instance:
    """Fill in what an instance mapping lacks; return it."""
    with db.write(cells.api(ctx)) as session:
        for column, statement in _HEAL.items():
            if getattr(instance, column) is None and values[column] is not None:
                session.execute(statement, {
                    "of_id": instance.id, "in_cell": instance.cell_uuid,
                    "new_value": values[column]})
        return _get(session, instance.uuid)


def _get_cell(session: Session, cell: str) -> Cell:
    try:
        return mappings.pick(load_cells(session), cell)
    except errors.CellNotFound:
        raise errors.UnknownCell(cell) from None


def _get(session: Session, uuid: str) -> Instance:
    instance = _find(session, uuid)
    if instance is None:
        raise errors.InstanceNotFound(uuid)
    return instance


def _find(session: Session, uuid: str) -> Instance | None:
    try:
        canonical = str(uuids.UUID(uuid))
    except ValueError:
        return None
    row = session.execute(_BY_UUID, {"of_uuid": canonical}).first()
    return None if row is None else _make_record(row)


def _make_record(row: sa.Row[Any]) -> Instance:
    return Instance(
        row.instance_uuid, row.project_id, row.user_id, row.cell_uuid, row.queued_for_delete,
        row.id, _make_aware(row.created_at), _make_aware(row.updated_at))


def _make_aware(moment: datetime.datetime | None) -> datetime.datetime | None:
    return None if moment is None else moment.replace(tzinfo=datetime.UTC)


def _validate(uuid: str, project_id: str, user_id: str) -> str:
    """Check the values; return the uuid in the form that nova stores."""
    for field, text in (("project_id", project_id), ("user_id", user_id)):
        if not (text.strip() and len(text) <= _LONGEST_ID and texts.is_storable(text)):
            raise errors.InvalidInstance(
                field, f"expected text of 1 to {_LONGEST_ID} characters, without NUL")
    try:
        return str(uuids.UUID(uuid))
    except ValueError:
        raise errors.InvalidInstance("uuid", "it is not a uuid") from None
