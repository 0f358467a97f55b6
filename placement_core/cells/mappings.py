"""Cell mappings: the name, database and message bus of each cell.

They are rows of ``[api_database]``, which may be nova's. Nova ensures neither unique names nor
unique databases, so writers lock a revision in the service's own database, and check before
they write.
"""

from __future__ import annotations

import dataclasses
import uuid as uuids
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db, errors as core_errors
from placement_core.cells import errors, tables
from placement_core.cells.databases import CellDatabases, load_cells
from placement_core.cells.records import Cell
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.db import texts
from placement_core.masking import MASK

#: The uuid of nova's cell0, which has the instances that no host was found for.
CELL0 = "00000000-0000-0000-0000-000000000000"

_LONGEST_NAME = 255
#: The size of MySQL's TEXT, in bytes.
_LONGEST_URL = 65535

_mappings = tables.cell_mappings
_MAPPED = sa.select(tables.instance_mappings.c.id).where(
    tables.instance_mappings.c.cell_id == sa.bindparam("of_id")).limit(1)
_UPDATE = sa.update(_mappings).where(_mappings.c.id == sa.bindparam("of_id"))
_DELETE = sa.delete(_mappings).where(_mappings.c.id == sa.bindparam("of_id"))


def get(ctx: Context, cells: CellDatabases, cell: str) -> Cell:
    """Return a cell.

    :param cell: its uuid or name.
    :raises errors.CellNotFound: no cell has this uuid or name.
    :raises errors.AmbiguousCell: several cells have this name.
    """
    return pick(cells.cells(ctx), cell)


def pick(cells: list[Cell], name_or_uuid: str) -> Cell:
    """Return the cell with this uuid or name; raise the errors that ``get`` raises."""
    by_uuid = [cell for cell in cells if cell.uuid == name_or_uuid]
    by_name = [cell for cell in cells if cell.name == name_or_uuid]
    matches = by_uuid or by_name
    if len(matches) > 1:
        raise errors.AmbiguousCell(name_or_uuid, [cell.uuid for cell in by_name])
    if not matches:
        raise errors.CellNotFound(name_or_uuid)
    return matches[0]


def create(
    ctx: Context, cells: CellDatabases, *, name: str, database_connection: str,
    transport_url: str = "", uuid: str | None = None, disabled: bool = False,
) -> Cell:
    """Create a cell mapping.

    :param database_connection: the URL of its database; it is not connected to.
    :param uuid: any spelling of a uuid; a random one if None.
    :raises errors.InvalidCell: a value is not valid.
    :raises errors.DuplicateCell: another cell has this uuid, name or database.
    """
    try:
        uuid = str(uuids.UUID(uuid)) if uuid is not None else str(uuids.uuid4())
    except ValueError:
        raise errors.InvalidCell("uuid", "it is not a uuid") from None
    new = Cell(0, uuid, name, transport_url, database_connection, disabled)
    _require_valid(new)
    _require_usable(ctx, cells, new)
    return _create(ctx, cells, new)


def update(ctx: Context, cells: CellDatabases, cell: str, changes: Mapping[str, Any]) -> Cell:
    """Update a cell mapping; return it.

    :param cell: its uuid or name.
    :param changes: new values of name, database_connection, transport_url, disabled.
    :raises errors.CellNotFound: no cell has this uuid or name.
    :raises errors.AmbiguousCell: several cells have this name.
    :raises errors.InvalidCell: a value is not valid.
    :raises errors.DuplicateCell: another cell has this name or database.
    """
    return _update(ctx, cells, _Choice(cell), changes)


def require_copyable(
    ctx: Context, cells: CellDatabases, cell: Cell, others: Iterable[Cell]
) -> None:
    """Refuse a cell of a nova that cannot be ours; no database is connected to.

    It may be without a name or a database, and have the name of another one, as in nova.

    :param others: ours; may have the cell, as it is.
    :raises errors.InvalidCell: a value is not valid.
    :raises errors.DuplicateCell: another cell has this database.
    """
    if len(cell.name) > _LONGEST_NAME or not texts.is_storable(cell.name):
        raise errors.InvalidCell(
            "name", f"expected text of at most {_LONGEST_NAME} characters, without NUL")
    _require_valid_urls(cell)
    if cell.database_connection:
        _require_usable(ctx, cells, cell)
        _require_own_database(ctx, cells, cell, others)


@db.retry_writes
def put_copy(ctx: Context, cells: CellDatabases, cell: Cell) -> None:
    """Create or update the mapping of a cell of a nova, by its uuid; its ``id`` does not matter.

    :raises errors.InvalidCell: a value is not valid.
    :raises errors.DuplicateCell: another cell has this database.
    """
    with db.write(ctx) as own:
        revisions.increment(own, revisions.CELLS)
        with db.write(cells.api(ctx)) as session:
            present = load_cells(session)
            require_copyable(ctx, cells, cell, present)
            values = _values(cell) | {"name": cell.name or None}
            for other in present:
                if other.uuid == cell.uuid:
                    session.execute(_UPDATE, {"of_id": other.id, **values})
                    return
            session.execute(sa.insert(_mappings), values | {"uuid": cell.uuid})


def delete(ctx: Context, cells: CellDatabases, cell: str) -> None:
    """Delete a cell mapping; its database is not changed.

    :param cell: its uuid or name.
    :raises errors.CellNotFound: no cell has this uuid or name.
    :raises errors.AmbiguousCell: several cells have this name.
    :raises errors.CellInUse: instances or hosts are mapped to it.
    """
    _delete(ctx, cells, _Choice(cell))


class _Choice:
    """The cell that a request is about, which stays the same when its transaction is repeated.

    Where the mappings are in another database, an earlier attempt may have committed a new name,
    or the removal, there, and its commit to our own database failed.
    """

    def __init__(self, name_or_uuid: str) -> None:
        self._sought = name_or_uuid
        self._was_deleted = False

    def pick(self, cells: list[Cell]) -> Cell:
        """Return the cell; raise the errors that ``get`` raises."""
        cell = pick(cells, self._sought)
        self._sought = cell.uuid
        return cell

    def note_deletion(self) -> None:
        """Remember that an attempt deletes the cell."""
        self._was_deleted = True

    def is_deleted(self, cells: list[Cell]) -> bool:
        """Return whether an earlier attempt deleted the cell."""
        return self._was_deleted and all(cell.uuid != self._sought for cell in cells)


@db.retry_writes
def _update(
    ctx: Context, cells: CellDatabases, choice: _Choice, changes: Mapping[str, Any]
) -> Cell:
    with db.write(ctx) as own:
        revisions.increment(own, revisions.CELLS)
        with db.write(cells.api(ctx)) as session:
            present = load_cells(session)
            before = choice.pick(present)
            after = dataclasses.replace(before, **changes)
            if after == before:
                return before
            _require_valid(after)
            # A connection that nova wrote is not checked when another field changes.
            if after.database_connection != before.database_connection:
                _require_usable(ctx, cells, after)
                _require_own_database(ctx, cells, after, present)
            if after.name != before.name:
                _require_unique_name(after, present)
            session.execute(_UPDATE, {"of_id": before.id, **_values(after)})
    return after


@db.retry_writes
def _delete(ctx: Context, cells: CellDatabases, choice: _Choice) -> None:
    with db.write(ctx) as own:
        revisions.increment(own, revisions.CELLS)
        with db.write(cells.api(ctx)) as session:
            present = load_cells(session)
            if choice.is_deleted(present):
                return
            target = choice.pick(present)
            # SQLite does not enforce foreign keys by itself.
            if session.execute(_MAPPED, {"of_id": target.id}).first() is not None:
                raise errors.CellInUse(target.title)
            try:
                session.execute(_DELETE, {"of_id": target.id})
            except db_exception.DBReferenceError:
                raise errors.CellInUse(target.title) from None
            choice.note_deletion()


@db.retry_writes
def _create(ctx: Context, cells: CellDatabases, new: Cell) -> Cell:
    with db.write(ctx) as own:
        revisions.increment(own, revisions.CELLS)
        with db.write(cells.api(ctx)) as session:
            present = load_cells(session)
            for cell in present:
                if cell == dataclasses.replace(new, id=cell.id):
                    # An earlier attempt committed it, but its commit to our own database failed.
                    return cell
            for cell in present:
                if cell.uuid == new.uuid:
                    raise errors.DuplicateCell("uuid", cell.title)
            _require_unique_name(new, present)
            _require_own_database(ctx, cells, new, present)
            result = session.execute(sa.insert(_mappings), _values(new) | {"uuid": new.uuid})
            id_: int = result.inserted_primary_key[0]  # type: ignore[index]  # never None
            return dataclasses.replace(new, id=id_)


def _values(cell: Cell) -> dict[str, Any]:
    return {"name": cell.name, "transport_url": cell.transport_url,
            "database_connection": cell.database_connection, "disabled": cell.disabled}


def _require_valid(cell: Cell) -> None:
    if not (cell.name.strip() and len(cell.name) <= _LONGEST_NAME
            and texts.is_storable(cell.name)):
        raise errors.InvalidCell(
            "name", f"expected text of 1 to {_LONGEST_NAME} characters, without NUL")
    if _is_uuid(cell.name):
        raise errors.InvalidCell("name", "it looks like the uuid of a cell")
    _require_valid_urls(cell)
    if cell.disabled and cell.uuid == CELL0:
        raise errors.InvalidCell("disabled", "cell0 cannot be disabled")


def _require_valid_urls(cell: Cell) -> None:
    for field, url in (("database_connection", cell.database_connection),
                       ("transport_url", cell.transport_url)):
        if not texts.is_storable(url) or len(url.encode()) > _LONGEST_URL:
            raise errors.InvalidCell(field, "it is too long, or has characters no URL has")
        if f":{MASK}@" in url:
            raise errors.InvalidCell(field, f"it has {MASK} in place of a password")


def _require_usable(ctx: Context, cells: CellDatabases, cell: Cell) -> None:
    try:
        cells.require_usable(ctx, cell)
    except core_errors.ConfigurationError as error:
        raise errors.InvalidCell("database_connection", str(error)) from None


def _require_unique_name(cell: Cell, cells: list[Cell]) -> None:
    for other in cells:
        if other.id != cell.id and other.name == cell.name:
            raise errors.DuplicateCell("name", other.title)


def _require_own_database(
    ctx: Context, databases: CellDatabases, cell: Cell, cells: Iterable[Cell]
) -> None:
    """Refuse the database of another cell, whose instances would count twice."""
    for other in cells:
        if other.uuid != cell.uuid and databases.same_database(ctx, other, cell):
            raise errors.DuplicateCell("database_connection", other.title)


def _is_uuid(text: str) -> bool:
    try:
        uuids.UUID(text)
    except ValueError:
        return False
    return True
