"""Online data migrations: fill columns of instance mappings that older nova did not write.

The values are read from the cells. Each migration makes one round over the rows: from where the
last run stopped (its watermark) to the end, then from the beginning to the watermark. It stops
early when it has filled as many rows as it may. So rows that cannot be migrated do not delay
others. Cells are read while no transaction is open; the rows of each cell are then written in a
short transaction of their own. A row that another process filled meanwhile is not changed.
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

#: How many rows are read, and looked up in the cells, at a time; the first pages are smaller
#: if only a few rows may be filled.
_PAGE = 500

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
    """How a column of instance mappings is filled.

    :ivar name: the name of the migration and of its watermark.
    :ivar read_values: reads {instance uuid: value} from a cell's database, without instances
        that have no value.
    """

    name: str
    column: sa.Column[Any]
    read_values: Callable[[Context, Collection[str]], Values]

    @property
    def is_unfilled(self) -> sa.ColumnElement[bool]:
        """The condition for rows that lack the value."""
        return sa.and_(self.column.is_(None), _mappings.c.project_id != tables.MARKER_PROJECT)


def populate_user_id(ctx: Context, max_count: int, cells: CellDatabases) -> tuple[int, int]:
    """Fill ``user_id`` of instance mappings from the instances (online migration).

    Deleted instances are included, because a soft-deleted one may be restored.

    :returns: (how many rows without the value were found, how many of them were filled).
    """
    return _populate(ctx, max_count, cells, _USER_ID)


def populate_queued_for_delete(
    ctx: Context, max_count: int, cells: CellDatabases
) -> tuple[int, int]:
    """Fill ``queued_for_delete`` of instance mappings (online migration).

    True if the instance is deleted or soft-deleted; false for all others, including those that
    their cell does not have.

    :returns: (how many rows without the value were found, how many of them were filled).
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
    """A round over the rows, or a part of one.

    :ivar seen: how many rows were read; after a whole round, how many were filled or are left.
    :ivar done: how many of them were filled.
    """

    def __init__(
        self, ctx: Context, cells: CellDatabases, backfill: _Backfill, max_count: int
    ) -> None:
        self.seen = self.done = 0
        self._ctx, self._cells, self._backfill = ctx, cells, backfill
        self._api = cells.api(ctx)
        self._left = max_count
        #: {id: cell} of the cells that have not failed to answer.
        self._up = {cell.id: cell for cell in cells.cells(ctx)}
        self._down: dict[int, str] = {}

    def walk(self, after: int, until: int | None) -> int | None:
        """Fill rows with ids above ``after`` in their order, as many as are allowed.

        :param until: the last id; None: continue to the end.
        :returns: the id at which it stopped, or None if it reached the end.
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
        """Log how many rows are left, and why; return their number."""
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
        """Return {instance uuid: value} of the rows whose cells have a value."""
        rows = _group_by_cell(page)

        def read(ctx: Context, cell: Cell) -> Values:
            return self._backfill.read_values(ctx, [row.instance_uuid for row in rows[cell.id]])

        answers = self._cells.scatter_gather(self._ctx, read, [self._up[id_] for id_ in rows])
        ids = {self._up[id_].uuid: id_ for id_ in rows}
        for missing in answers.missing:
            id_ = ids[missing.uuid]
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
    """Fill rows that still lack the value and are in the same cell; return their number."""
    statement = (
        sa.update(_mappings)
        .where(_mappings.c.id == sa.bindparam("of_id"), backfill.column.is_(None),
               _mappings.c.cell_id == sa.bindparam("in_cell"))
        .values({backfill.column: sa.bindparam("new_value")}))
    with db.write(api) as session:
        return session.execute(statement, values).rowcount


@db.retry_writes
def _count_left(api: Context, backfill: _Backfill) -> dict[int | None, int]:
    """Return {cell id: how many rows still lack the value}."""
    statement = (
        sa.select(_mappings.c.cell_id, sa.func.count().label("left"))
        .where(backfill.is_unfilled).group_by(_mappings.c.cell_id))
    with db.read_once(api) as session:
        return {row.cell_id: row.left for row in session.execute(statement)}
