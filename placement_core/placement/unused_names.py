"""Removal of projects, users, consumer types and aggregates that nothing refers to any more.

Their rows stand for names that clients once used, and other rows refer to their ids without a
lock: claims of one project must not wait for each other. So a row is removed in two steps. A pass
marks what is unused, and a later pass removes what has been marked for ``_KEPT_SECONDS``. Between
its look at such a row and its commit, a writer takes no longer than ``TRUSTED_SECONDS``; if the
mark is older than ``_STALE_SECONDS``, it deletes the mark first (``build_keep``), which makes the
row stay for that long again. So no transaction can refer to a row while it is being removed::

    marked             stale                     removed, if the mark is still there
      |----- 12 h -----|------------ 12 h ------------|
             | writers ignore the mark, and commit within the hour

The row with the highest id is never removed, because SQLite would use its id again.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db, metrics
from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.db import TransactionConflict, clock, inserts, lists
from placement_core.db.metadata import utcnow
from placement_core.placement import tables

#: How long writers may rely on their look at a row, at most.
TRUSTED_SECONDS = 3600
#: Marks of this age are deleted by writers.
_STALE_SECONDS = 43_200
#: How long an unused row is kept.
_KEPT_SECONDS = 86_400
#: How many rows one transaction marks or removes.
_BATCH = 200
#: How many ids one query reads.
_PAGE = 1000

_marks = tables.unused_names
_consumers, _counters, _moves, _members = (
    tables.consumers, tables.usage_counters, tables.moves, tables.resource_provider_aggregates)


@dataclasses.dataclass(frozen=True, slots=True)
class _Names:
    """A table of names, and the columns that refer to its ids."""

    table: sa.Table
    references: Sequence[sa.ColumnElement[Any]]

    @property
    def parameters(self) -> dict[str, Any]:
        return {"kind": self.table.name}


_ALL = (
    _Names(tables.projects, (
        _consumers.c.project_id, sa.func.abs(_counters.c.project_id), _moves.c.project_id)),
    _Names(tables.users, (_consumers.c.user_id, _counters.c.user_id, _moves.c.user_id)),
    _Names(tables.consumer_types, (
        _consumers.c.consumer_type_id, _counters.c.consumer_type_id)),
    _Names(tables.placement_aggregates, (_members.c.aggregate_id,)),
)

_of_kind = _marks.c.kind == sa.bindparam("kind")
_of_ids = sa.and_(_of_kind, lists.among(_marks.c.row_id, "ids"))


def _is_older(seconds: int) -> sa.ColumnElement[bool]:
    return _marks.c.since <= clock.in_seconds(sa.literal_column(str(-seconds), sa.Integer))


_PROJECTS = sa.select(tables.projects.c.id, tables.projects.c.external_id).where(
    lists.among(tables.projects.c.id, "ids"))
_NOW = sa.select(clock.now())
_MARKED = sa.select(_marks.c.row_id, _is_older(_KEPT_SECONDS).label("due")).where(_of_kind)
_DUE = sa.select(_marks.c.row_id).where(_of_ids, _is_older(_KEPT_SECONDS))
_UNMARK = sa.delete(_marks).where(_of_ids)
_UNMARK_DUE = sa.delete(_marks).where(_of_ids, _is_older(_KEPT_SECONDS))


def is_stale(table: sa.Table) -> sa.ColumnElement[bool]:
    """Build whether a row of ``table`` must be kept (``build_keep``) before it is referred to."""
    return sa.exists().where(
        _marks.c.kind == table.name, _marks.c.row_id == table.c.id, _is_older(_STALE_SECONDS))


def build_keep(table: sa.Table, name: sa.Column[str]) -> sa.Delete:
    """Build the statement that keeps the row of the parameter ``name`` for some hours.

    If the row is being removed, the statement waits, and the row does not exist afterwards.
    """
    row_id = sa.select(table.c.id).where(name == sa.bindparam("name")).scalar_subquery()
    return sa.delete(_marks).where(
        _marks.c.kind == table.name, _marks.c.row_id == row_id, _is_older(_STALE_SECONDS))


def find_or_insert(
    connection: sa.Connection, name: sa.Column[Any], names: Collection[str]
) -> dict[str, int]:
    """Return the ids of rows, inserting those that are missing: {name: id}.

    Those that are about to be removed are kept for some hours.

    :param name: the column of the names, of one of the tables that this module is about.
    """
    rows = _read_ids(connection, name, names)
    missing = sorted(set(names) - {row.name for row in rows if not row.stale})
    if missing:
        keep, now = build_keep(name.table, name), utcnow()
        for row in rows:
            if row.stale:
                connection.execute(keep, {"name": row.name})
        inserts.insert_missing(connection, name.table, [
            {name.key: each, "created_at": now} for each in missing])
        rows = _read_ids(connection, name, names)
    return {row.name: row.id for row in rows}


def _read_ids(
    connection: sa.Connection, name: sa.Column[Any], names: Collection[str]
) -> Sequence[sa.Row[Any]]:
    return connection.execute(
        sa.select(name.table.c.id, name.label("name"), is_stale(name.table).label("stale"))
        .where(lists.among_many(name, "names")), {"names": sorted(names)}).all()


def remove(ctx: Context) -> int:
    """Mark rows that are unused, and remove those that have been for a day; return how many.

    Any number of processes may do so at the same time, beside all writers.
    """
    return sum(_remove_unused(ctx, names) for names in _ALL)


def _remove_unused(ctx: Context, names: _Names) -> int:
    # Read first: a mark may seem older than it is, by less than a pass takes.
    now = _read_time(ctx)
    used, marked = _read_used(ctx, names), _read_marked(ctx, names)
    for batch in _split(sorted(marked.keys() & used)):
        _unmark(ctx, names, batch)
    due = sorted(id_ for id_, is_due in marked.items() if is_due and id_ not in used)
    removed = sum(_remove_rows(ctx, names, batch) for batch in _split(due))
    for ids in _list_pages(ctx, names):
        for batch in _split([id_ for id_ in ids if id_ not in used and id_ not in marked]):
            _mark(ctx, names, batch, now)
    metrics.count_removed_rows(names.table.name, removed)
    return removed


@db.retry_writes
def _read_time(ctx: Context) -> datetime.datetime:
    with db.read_once(ctx) as session:
        now: datetime.datetime = session.execute(_NOW).scalar_one()
        return now


@db.retry_writes
def _read_used(ctx: Context, names: _Names) -> set[int]:
    with db.read_once(ctx) as session:
        return set(session.execute(
            sa.union(*map(sa.select, names.references))).scalars())


@db.retry_writes
def _read_marked(ctx: Context, names: _Names) -> dict[int, bool]:
    """Return {row id: whether it has been marked for long enough}."""
    with db.read_once(ctx) as session:
        return {row.row_id: bool(row.due) for row in session.execute(_MARKED, names.parameters)}


@db.retry_writes
def _unmark(ctx: Context, names: _Names, ids: Collection[int]) -> None:
    with db.write(ctx) as session:
        session.execute(_UNMARK, {**names.parameters, "ids": ids})


@db.retry_writes
def _remove_rows(ctx: Context, names: _Names, ids: Collection[int]) -> int:
    row_id = names.table.c.id
    with db.write(ctx) as session:
        due = list(session.execute(_DUE, {**names.parameters, "ids": ids}).scalars())
        if not due:
            return 0
        if names.table is tables.projects:
            for row in session.execute(_PROJECTS, {"ids": due}):
                session.record_change(kinds.PROJECT, row.id, project=row.external_id)
        removed = session.execute(
            sa.delete(names.table).where(lists.among(row_id, "ids")), {"ids": due}).rowcount
        if session.execute(_UNMARK_DUE, {**names.parameters, "ids": due}).rowcount != len(due):
            raise TransactionConflict  # a writer keeps one of them, or another manager was faster
    return removed


def _list_pages(ctx: Context, names: _Names) -> Iterator[Sequence[int]]:
    """Yield the ids of all rows, page by page, but the highest."""
    after = -1
    while ids := _read_page(ctx, names, after):
        yield ids
        after = ids[-1]


@db.retry_writes
def _read_page(ctx: Context, names: _Names, after: int) -> Sequence[int]:
    row_id = names.table.c.id
    highest = sa.select(sa.func.max(row_id)).scalar_subquery()
    with db.read_once(ctx) as session:
        return session.execute(
            sa.select(row_id).where(row_id > after, row_id < highest)
            .order_by(row_id).limit(_PAGE)).scalars().all()


@db.retry_writes
def _mark(
    ctx: Context, names: _Names, ids: Collection[int], since: datetime.datetime
) -> None:
    with db.write(ctx) as session:
        inserts.insert_missing(session.connection, _marks, [
            {"kind": names.table.name, "row_id": id_, "since": since} for id_ in ids])


def _split(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), _BATCH):
        yield ids[start:start + _BATCH]
