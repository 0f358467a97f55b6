"""Fills instance mappings with what older versions of nova did not write, from the cells.

Two online data migrations. Each makes one round over the rows, from where the last one stopped
(a watermark) to the end and from the front to there, and stops earlier when it has filled as
many as it may: so rows that cannot be migrated delay no others. Cells are read while no
transaction is open; each cell's rows are then written in a short one of their own. A row that
another process filled meanwhile stays as it is.
Source: seed 000, requirement Q5; spec nova_quota §3, N11.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.cells import cell_tables, instances, tables, watermarks
from placement_core.cells.databases import CellDatabases
from placement_core.cells.records import Cell
from placement_core.context import Context

LOG = logging.getLogger(__name__)

#: How many rows are read, and looked up in the cells, at a time; fewer at first, where only
#: few are to be filled.
_PAGE = 500

#: The project of a row that nova inserted as a marker of its own.
_MARKER_PROJECT = "00000000-0000-0000-0000-000000000000"

_mappings = tables.instance_mappings
_instances = cell_tables.instances

_USERS = sa.select(_instances.c.uuid, _instances.c.user_id).where(
    _instances.c.uuid.in_(sa.bindparam("uuids", expanding=True)))
_DELETED = sa.select(_instances.c.uuid).where(
    _instances.c.uuid.in_(sa.bindparam("uuids", expanding=True)),
    sa.or_(_instances.c.deleted != 0, _instances.c.vm_state == instances.SOFT_DELETED))

Row = sa.Row[Any]
Values = Mapping[str, object]


@dataclasses.dataclass(frozen=True, slots=True)
class _Backfill:
    """How a column that may lack its value is filled.

    :ivar name: of the migration, and of its watermark.
    :ivar read_values: reads a cell's database, {instance uuid: value}; without those that
        have none.
    """

    name: str
    column: sa.Column[Any]
    read_values: Callable[[Context, Collection[str]], Values]

    @property
    def is_unfilled(self) -> sa.ColumnElement[bool]:
        """The rows that lack the value."""
        return sa.and_(self.column.is_(None), _mappings.c.project_id != _MARKER_PROJECT)


def populate_user_id(ctx: Context, max_count: int, cells: CellDatabases) -> tuple[int, int]:
    """Fill ``user_id`` of instance mappings from the instances (online migration).

    Those of deleted instances too: a soft-deleted one may come back.

    :returns: (how many were looked at, how many of them were filled now).
    """
    return _populate(ctx, max_count, cells, _USER_ID)


def populate_queued_for_delete(
    ctx: Context, max_count: int, cells: CellDatabases
) -> tuple[int, int]:
    """Fill ``queued_for_delete`` of instance mappings (online migration).

    True where the instance is deleted or soft-deleted; false for all others, also
    those that their cell does not know.

    :returns: (how many were looked at, how many of them were filled now).
    """
    return _populate(ctx, max_count, cells, _QUEUED_FOR_DELETE)


def count_without_user_id(ctx: Context, cells: CellDatabases) -> int:
    """Return how many instance mappings lack ``user_id``."""
    return sum(_count_left(cells.api(ctx), _USER_ID).values())


def count_without_queued_for_delete(ctx: Context, cells: CellDatabases) -> int:
    """Return how many instance mappings lack ``queued_for_delete``."""
    return sum(_count_left(cells.api(ctx), _QUEUED_FOR_DELETE).values())


def _read_users(ctx: Context, uuids: Collection[str]) -> Values:
    with db.read_once(ctx) as session:
        return {row.uuid: row.user_id for row in session.execute(_USERS, {"uuids": list(uuids)})
                if row.user_id}


def _read_deleted(ctx: Context, uuids: Collection[str]) -> Values:
    with db.read_once(ctx) as session:
        deleted = set(session.execute(_DELETED, {"uuids": list(uuids)}).scalars())
    return {uuid: uuid in deleted for uuid in uuids}


_USER_ID = _Backfill("populate_user_id", _mappings.c.user_id, _read_users)
_QUEUED_FOR_DELETE = _Backfill(
    "populate_queued_for_delete", _mappings.c.queued_for_delete, _read_deleted)


def _populate(
    ctx: Context, max_count: int, cells: CellDatabases, backfill: _Backfill
) -> tuple[int, int]:
    round_ = _Round(ctx, cells, backfill, max_count)
    start = watermarks.get(ctx, backfill.name)
    at = round_.walk(start, None)
    if at is None and start:
        at = round_.walk(0, start)
    if (at or 0) != start:
        watermarks.put(ctx, backfill.name, at or 0)
    if at is None:
        round_.seen = round_.done + round_.report()
    return round_.seen, round_.done


class _Round:
    """One call: a round over the rows, or a part of it.

    :ivar seen: how many rows it read.
    :ivar done: how many of them it filled.
    """

    def __init__(
        self, ctx: Context, cells: CellDatabases, backfill: _Backfill, max_count: int
    ) -> None:
        self.seen = self.done = 0
        self._ctx, self._cells, self._backfill = ctx, cells, backfill
        self._api = cells.api(ctx)
        self._left = max_count
        #: Cells that have answered so far, {id: cell}.
        self._up = {cell.id: cell for cell in cells.cells(ctx)}
        self._down: dict[int, str] = {}

    def walk(self, after: int, until: int | None) -> int | None:
        """Fill rows with ids above ``after`` in their order, as many as are allowed.

        :param until: the last id; None goes on to the end.
        :returns: where it stopped; None: it came to the end.
        """
        size = self._left
        while self._left:
            page = self._read_page(after, until, min(size, _PAGE))
            if not page:
                return None
            size *= 2
            values = self._read_values(page)
            fillable = [row for row in page if row.instance_uuid in values][:self._left]
            if len(fillable) == self._left:
                page = page[:page.index(fillable[-1]) + 1]
            for rows in _group_by_cell(fillable).values():
                filled = _write(self._api, self._backfill, [
                    {"of_id": row.id, "in_cell": row.cell_id,
                     "new_value": values[row.instance_uuid]} for row in rows])
                self.done += filled
                self._left -= filled
            self.seen += len(page)
            after = page[-1].id
        return after

    def report(self) -> int:
        """Log what is left, and why; return how many rows that is."""
        left = _count_left(self._api, self._backfill)
        for cell_id, count in left.items():
            if cell_id is None:
                reason = "they have no cell yet"
            elif cell_id in self._down:
                reason = f"{self._down[cell_id]}; run this again when the cell is back"
            elif cell_id in self._up:
                reason = (f"cell {self._up[cell_id].title} does not know their instances "
                          "(any more)")
            else:
                reason = "their cell has no mapping"
            LOG.warning("%s: %d instance mappings are left: %s",
                        self._backfill.name, count, reason)
        return sum(left.values())

    def _read_page(self, after: int, until: int | None, size: int) -> Sequence[Row]:
        statement = (
            sa.select(_mappings.c.id, _mappings.c.instance_uuid, _mappings.c.cell_id)
            .where(self._backfill.is_unfilled, _mappings.c.id > after,
                   _mappings.c.cell_id.in_(sorted(self._up)))
            .order_by(_mappings.c.id).limit(size))
        if until is not None:
            statement = statement.where(_mappings.c.id <= until)
        return _read(self._api, statement)

    def _read_values(self, page: Sequence[Row]) -> Values:
        """Return {instance uuid: value} of those rows whose cells know one."""
        rows = _group_by_cell(page)

        def read(ctx: Context, cell: Cell) -> Values:
            return self._backfill.read_values(ctx, [row.instance_uuid for row in rows[cell.id]])

        answers = self._cells.scatter_gather(self._ctx, read, [self._up[id_] for id_ in rows])
        for missing in answers.missing:
            [id_] = [id_ for id_ in rows if self._up[id_].uuid == missing.uuid]
            del self._up[id_]
            self._down[id_] = f"cell {missing.name} is missing: {missing.reason}"
        return {uuid: value for values in answers.answers.values()
                for uuid, value in values.items()}


def _group_by_cell(rows: Sequence[Row]) -> dict[int, list[Row]]:
    by_cell = collections.defaultdict(list)
    for row in rows:
        by_cell[row.cell_id].append(row)
    return dict(by_cell)


@db.retry_writes
def _read(api: Context, statement: sa.Select[Any]) -> Sequence[Row]:
    with db.read_once(api) as session:
        return session.execute(statement).all()


@db.retry_writes
def _write(api: Context, backfill: _Backfill, values: Sequence[Mapping[str, object]]) -> int:
    """Fill rows that lack their value and are in the same cell; return how many those were."""
    statement = (
        sa.update(_mappings)
        .where(_mappings.c.id == sa.bindparam("of_id"), backfill.column.is_(None),
               _mappings.c.cell_id == sa.bindparam("in_cell"))
        .values({backfill.column: sa.bindparam("new_value")}))
    with db.write(api) as session:
        return session.execute(statement, values).rowcount


@db.retry_writes
def _count_left(api: Context, backfill: _Backfill) -> dict[int | None, int]:
    """Return {cell id: how many rows still lack their value}."""
    statement = (
        sa.select(_mappings.c.cell_id, sa.func.count().label("left"))
        .where(backfill.is_unfilled).group_by(_mappings.c.cell_id))
    with db.read_once(api) as session:
        return {row.cell_id: row.left for row in session.execute(statement)}
