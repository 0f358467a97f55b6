"""Usage intervals for charging and history: listed, added up, and removed when they are old.

``allocations/usage_intervals`` writes them.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import sqlalchemy as sa

from placement_core import db, metrics
from placement_core.context import Context
from placement_core.db import clock, texts
from placement_core.placement import errors, tables
from placement_core.placement.allocations.usage_intervals import OPEN

_intervals, _bounds = tables.usage_intervals, tables.usage_interval_bounds

_SECONDS_A_DAY = 86_400
#: The order of intervals, which stays when one ends.
_KEY = ("consumer_uuid", "started_at", "allocation_id")
#: What separates the parts of a marker; the last one may contain it.
_SEPARATOR = "."
_MOST = sa.bindparam("most", type_=sa.Integer)

_OPEN_ROWS = OPEN.add_columns(
    sa.cast(sa.null(), _intervals.c.ended_at.type).label("ended_at"))
_ENDED_ROWS = sa.select(*(_intervals.c[column.name] for column in _OPEN_ROWS.selected_columns))
_COMPLETE_SINCE = sa.select(_bounds.c.complete_since)

_CUTOFF = clock.in_seconds(-sa.bindparam("keep_seconds", type_=sa.BigInteger))
_ADVANCE = (
    sa.update(_bounds).where(_bounds.c.complete_since < _CUTOFF).values(complete_since=_CUTOFF))
_LAST_OLD = (
    sa.select(_intervals.c.ended_at).where(_intervals.c.ended_at < _CUTOFF)
    .order_by(_intervals.c.ended_at).limit(1).offset(_MOST))
_REMOVE = sa.delete(_intervals).where(_intervals.c.ended_at < _CUTOFF)
_REMOVE_SOME = _REMOVE.where(
    _intervals.c.ended_at <= sa.bindparam("until", type_=_intervals.c.ended_at.type))


@dataclasses.dataclass(frozen=True, slots=True)
class UsageFilter:
    """Which intervals, by what they must have; None: any.

    :ivar start_at: only those that last beyond this moment (aware), and ``end_at``: only those
        that began before this one.
    """

    project_id: str | None = None
    user_id: str | None = None
    consumer_uuid: str | None = None
    resource_class: str | None = None
    start_at: datetime.datetime | None = None
    end_at: datetime.datetime | None = None

    @property
    def names(self) -> dict[str, str]:
        """Return the filters of equal texts, by column."""
        names = {name: getattr(self, name) for name in (
            "project_id", "user_id", "consumer_uuid", "resource_class")}
        return {name: text for name, text in names.items() if text is not None}


@dataclasses.dataclass(frozen=True, slots=True)
class UsageInterval:
    """An amount of a resource class that a consumer held, or holds, on a provider.

    The times are those of the whole interval, whatever was asked about.

    :ivar consumer_type: None: the consumer has no type.
    :ivar project_id, user_id: None: the consumer had no record.
    :ivar ended_at: None: it is held now.
    :ivar marker: names the interval in a list.
    """

    consumer_uuid: str
    consumer_type: str | None
    project_id: str | None
    user_id: str | None
    provider_uuid: str
    resource_class: str
    amount: int
    started_at: datetime.datetime
    ended_at: datetime.datetime | None
    marker: str


@dataclasses.dataclass(frozen=True, slots=True)
class UsageTotal:
    """What a project used of a resource class over some time.

    :ivar amount_seconds: the amounts, each times the seconds for which it was held.
    """

    project_id: str | None
    resource_class: str
    amount_seconds: int


@db.retry_writes
def get_complete_since(ctx: Context) -> datetime.datetime:
    """Return since when no interval is missing: they were not recorded, or removed as too old."""
    with db.read_once(ctx) as session:
        since: datetime.datetime = session.execute(_COMPLETE_SINCE).scalar_one()
    return since.replace(tzinfo=datetime.UTC)


@db.retry_writes
def list_(
    ctx: Context, filters: UsageFilter, *, marker: str | None = None, limit: int
) -> list[UsageInterval]:
    """Return the intervals that match all filters, by consumer, and by their beginning.

    An interval keeps its place when it ends, so pages that are read one after the other have
    each interval once that is there all the time.

    :param marker: that of the last interval of the previous page.
    :raises errors.InvalidMarker: it is none.
    """
    values: dict[str, Any] = dict(filters.names)
    if not all(map(texts.is_storable, values.values())):
        return []
    parts = []
    for rows in (_OPEN_ROWS, _ENDED_ROWS):
        statement = _restrict(rows, filters)
        if marker is not None:
            statement = _start_after(statement, marker)
        columns = statement.selected_columns
        parts.append(sa.select(
            statement.order_by(*(columns[name] for name in _KEY)).limit(limit).subquery()))
    both = sa.union_all(*parts).subquery()
    with db.read_once(ctx) as session:
        return [_make_interval(row) for row in session.execute(
            sa.select(both).order_by(*(both.c[name] for name in _KEY)).limit(limit))]


@db.retry_writes
def add_up(ctx: Context, filters: UsageFilter) -> list[UsageTotal]:
    """Return the sums of the intervals that match all filters, by project and resource class.

    Of each interval the part between ``start_at`` and ``end_at`` counts; of one that is open, up
    to now at most.
    """
    if not all(map(texts.is_storable, filters.names.values())):
        return []
    lasting = sa.union_all(*(
        _restrict(rows, filters) for rows in (_OPEN_ROWS, _ENDED_ROWS))).subquery()
    start, end = lasting.c.started_at, sa.func.coalesce(lasting.c.ended_at, clock.now())
    duration = _subtract(_clip(end, "<", filters.end_at), _clip(start, ">", filters.start_at))
    # Not in integers, which would overflow. The driver's number may be a Decimal.
    total = sa.type_coerce(
        sa.func.sum(duration * sa.literal_column("0.000001") * lasting.c.amount),
        sa.types.NullType())
    statement = (
        sa.select(lasting.c.project_id, lasting.c.resource_class, total.label("total"))
        # A clock may differ from the one by which an interval began.
        .where(duration > 0)
        .group_by(lasting.c.project_id, lasting.c.resource_class)
        .order_by(lasting.c.project_id, lasting.c.resource_class))
    with db.read_once(ctx) as session:
        return [UsageTotal(row.project_id, row.resource_class, round(row.total))
                for row in session.execute(statement)]


@db.retry_writes
def prune(ctx: Context, *, keep_days: int, most: int) -> int:
    """Delete intervals that ended longer ago than some days; return how many.

    To delete all, repeat it until it deletes fewer than ``most``. Any number of processes may do
    so at the same time.

    :param most: about how many at a time.
    """
    parameters = {"keep_seconds": keep_days * _SECONDS_A_DAY}
    with db.write(ctx) as session:
        session.execute(_ADVANCE, parameters)
        until = session.execute(_LAST_OLD, {**parameters, "most": most - 1}).scalar()
        if until is None:
            removed = session.execute_write(_REMOVE, parameters)
        else:
            removed = session.execute_write(_REMOVE_SOME, {**parameters, "until": until})
    metrics.count_removed_rows(_intervals.name, removed)
    return removed


def _restrict(rows: sa.Select[Any], filters: UsageFilter) -> sa.Select[Any]:
    columns = rows.selected_columns
    conditions: list[sa.ColumnElement[bool]] = [
        _get_expression(columns[name]) == text for name, text in filters.names.items()]
    if filters.start_at is not None:
        ended_at = _get_expression(columns["ended_at"])
        conditions.append(sa.or_(ended_at.is_(None), ended_at > _make_naive(filters.start_at)))
    if filters.end_at is not None:
        conditions.append(
            _get_expression(columns["started_at"]) < _make_naive(filters.end_at))
    return rows.where(*conditions)


def _start_after(rows: sa.Select[Any], marker: str) -> sa.Select[Any]:
    uuid, started_at, number = (_get_expression(rows.selected_columns[name]) for name in _KEY)
    after_uuid, after_start, after_number = _parse_marker(marker)
    return rows.where(
        uuid >= after_uuid,
        sa.or_(uuid > after_uuid, started_at > after_start,
               sa.and_(started_at == after_start, number > after_number)))


def _get_expression(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return what a label of a query stands for: conditions of the query cannot name labels."""
    return column.element if isinstance(column, sa.Label) else column


def _clip(
    moment: sa.ColumnElement[datetime.datetime], side: str, bound: datetime.datetime | None
) -> sa.ColumnElement[datetime.datetime]:
    if bound is None:
        return moment
    value = sa.literal(_make_naive(bound), moment.type)
    return sa.case((moment.op(side)(value), moment), else_=value)


def _subtract(
    end: sa.ColumnElement[datetime.datetime], start: sa.ColumnElement[datetime.datetime]
) -> sa.ColumnElement[int]:
    return clock.microseconds(end) - clock.microseconds(start)


def _make_naive(moment: datetime.datetime) -> datetime.datetime:
    return moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _make_interval(row: sa.Row[Any]) -> UsageInterval:
    microseconds = clock.to_microseconds(row.started_at)
    return UsageInterval(
        row.consumer_uuid, row.consumer_type, row.project_id, row.user_id, row.provider_uuid,
        row.resource_class, row.amount, row.started_at.replace(tzinfo=datetime.UTC),
        row.ended_at and row.ended_at.replace(tzinfo=datetime.UTC),
        _SEPARATOR.join((str(microseconds), str(row.allocation_id), row.consumer_uuid)))


def _parse_marker(marker: str) -> tuple[str, datetime.datetime, int]:
    """Return the key of an interval.

    :raises errors.InvalidMarker: the text is no marker.
    """
    try:
        microseconds, number, uuid = marker.split(_SEPARATOR, 2)
        started_at = clock.from_microseconds(int(microseconds))
        if texts.is_storable(uuid) and 0 <= int(number) < 2**31:
            return uuid, started_at, int(number)
    except (OverflowError, ValueError):
        pass
    raise errors.InvalidMarker(marker)
