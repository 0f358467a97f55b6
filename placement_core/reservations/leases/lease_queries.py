"""Queries of leases that were not deleted: one, pages of them, their versions."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import PreparedRead, Session, lists, texts
from placement_core.plugin_api.reservations import Window
from placement_core.reservations import errors, tables
from placement_core.reservations.leases import rendered_texts
from placement_core.reservations.records import Lease
from placement_core.reservations.store import lease_rows

_leases, _reservations, _shares, _texts = (
    tables.leases, tables.lease_reservations, tables.computehost_allocations,
    tables.lease_texts)

#: Sort keys of pages; leases with equal keys are ordered by number.
_SORT_KEYS: Mapping[str, sa.Column[Any]] = {
    "number": _leases.c.number, "start_at": _leases.c.start_at, "end_at": _leases.c.end_at,
    "name": _leases.c.name}


_KEYS = sa.select(
    _leases.c.number, _leases.c.id, _leases.c.name, _leases.c.project_id, _leases.c.deleted_at)
_BY_NUMBERS = _KEYS.where(lists.among_many(_leases.c.number, "numbers"))
_BY_IDS = _KEYS.where(lists.among_many(_leases.c.id, "ids"))
_NAMES = sa.select(_leases.c.id, _leases.c.name).where(lists.among_many(_leases.c.id, "ids"))


@db.retry_writes
def get(ctx: Context, lease_id: str, *, project_id: str | None = None) -> Lease:
    """Return a lease that was not deleted.

    :param project_id: the project that it must belong to; None: any.
    :raises LeaseNotFound:
    """
    with db.read(ctx) as session:
        return find(session, lease_id, project_id).lease


def find(session: Session, lease_id: str, project_id: str | None) -> lease_rows.LeaseSnapshot:
    """Return a lease that was not deleted, and when it was read.

    :raises LeaseNotFound:
    """
    snapshot = lease_rows.find(session, lease_id)
    if snapshot is None or project_id not in (None, snapshot.lease.project_id):
        raise errors.LeaseNotFound(f"There is no lease {lease_id[:64]}.")
    return snapshot


class LeaseFilters(TypedDict, total=False):
    """Filters and order of a list of leases; without filters: all leases.

    * ``project_id``, ``status``, ``name``: only leases with this value.
    * ``host_id``: only leases that have, or had, shares of this host.
    * ``overlaps``: only leases whose window overlaps this one.
    * ``sort_key``: ``number`` (the default), ``start_at``, ``end_at`` or ``name``; leases with
      equal keys are ordered by number.
    * ``descending``: the largest first.
    * ``after``: the id of the last lease of the previous page; it may be deleted by now.
    * ``limit``: how many at most.
    """

    project_id: str | None
    status: str | None
    name: str | None
    host_id: int | None
    overlaps: Window | None
    sort_key: str
    descending: bool
    after: str | None
    limit: int | None


@db.retry_writes
def page(ctx: Context, **filters: Unpack[LeaseFilters]) -> list[Lease]:
    """Return leases that were not deleted.

    :raises InvalidLease: ``after`` is no lease that can be seen.
    """
    with db.read(ctx) as session:
        return lease_rows.read(session, [row.id for row in list_versions(ctx, **filters)])


@db.retry_writes
def list_versions(ctx: Context, **filters: Unpack[LeaseFilters]) -> Sequence[Any]:
    """Return the leases that ``page`` would return, as rows of id and version.

    As long as its version is the same, a lease has not changed.

    :raises InvalidLease: ``after`` is no lease that can be seen.
    """
    return _page(ctx, filters, {})


@db.retry_writes
def list_texts(ctx: Context, format_: int, **filters: Unpack[LeaseFilters]) -> Sequence[Any]:
    """Return the rows of ``list_versions``, with the current text of each lease.

    :param format_: the format of the texts; a text is None where there is none.
    :raises InvalidLease: ``after`` is no lease that can be seen.
    """
    return _page(ctx, filters, {"format": format_})


@db.retry_writes
def get_names(ctx: Context, lease_ids: Collection[str]) -> dict[str, str]:
    """Return {id: name} of the leases that there are among these, deleted ones included."""
    with db.read(ctx) as session:
        return {row.id: row.name for row in session.execute(_NAMES, {"ids": [*lease_ids]})}


def list_keys(
    session: Session, *, numbers: Collection[int] = (), ids: Collection[str] = (),
) -> Sequence[Any]:
    """Return rows of number, id, name, project_id and deleted_at, of deleted leases, too.

    :param numbers: of those to return; ``ids``: of others, or of the same.
    """
    # Not one with OR, for which databases would look at all leases.
    return list({row.number: row for statement, parameters in (
        (_BY_NUMBERS, {"numbers": sorted(numbers)}), (_BY_IDS, {"ids": sorted(ids)}))
        if any(parameters.values()) for row in session.execute(statement, parameters)}.values())


def list_after(
    session: Session, number: int, *, project_id: str | None, limit: int
) -> list[Lease]:
    """Return the leases behind a number that were not deleted, in the order of creation.

    :param project_id: only those of this project; None: all.
    """
    statement = sa.select(_leases.c.id).where(lease_rows.EXISTING, _leases.c.number > number)
    if project_id is not None:
        statement = statement.where(_leases.c.project_id == project_id)
    ids = list(session.execute(statement.order_by(_leases.c.number).limit(limit)).scalars())
    return lease_rows.read(session, ids)


def _page(ctx: Context, filters: LeaseFilters, values: Mapping[str, Any]) -> Sequence[Any]:
    parameters: dict[str, Any] = {**values} | {
        name: filters[name] for name in ("project_id", "status", "name", "host_id")
        if filters.get(name) is not None}
    if not all(texts.is_storable(value) for value in parameters.values()
               if isinstance(value, str)):
        return []
    if (limit := filters.get("limit")) is not None:
        parameters["most"] = limit
    if (overlaps := filters.get("overlaps")) is not None:
        parameters |= {"starts": lease_rows.naive(overlaps.start_at),
                       "ends": lease_rows.naive(overlaps.end_at)}
    sort_key = filters.get("sort_key", "number")
    if (after := filters.get("after")) is not None:
        last = _read_marker(ctx, after, parameters.get("project_id"))
        parameters |= {"last_number": last.number, "last_value": last._asdict()[sort_key]}
    statement = _build_page(
        frozenset(parameters) - {"last_value"}, sort_key, filters.get("descending", False))
    return statement.fetch(ctx, parameters)


def _read_marker(ctx: Context, lease_id: str, project_id: str | None) -> Any:
    """Return the sort keys of the lease after which a page begins.

    :raises InvalidLease: the caller may not see it.
    """
    rows = _MARKER.fetch(ctx, {"lease_id": lease_id}) if lease_rows.is_id(lease_id) else []
    if not rows or project_id not in (None, rows[0].project_id):
        raise errors.InvalidLease(f"There is no lease {lease_id[:64]}.", "marker")
    return rows[0]


_MARKER = PreparedRead(sa.select(*_SORT_KEYS.values(), _leases.c.project_id).where(
    _leases.c.id == sa.bindparam("lease_id")))


@functools.lru_cache(256)
def _build_page(names: frozenset[str], sort_key: str, descending: bool) -> PreparedRead:
    column, number = _SORT_KEYS[sort_key], _leases.c.number
    statement = sa.select(_leases.c.id, _leases.c.version).where(lease_rows.EXISTING, *(
        _leases.c[name] == sa.bindparam(name)
        for name in sorted(names & {"project_id", "status", "name"})))
    if "format" in names:
        statement = statement.add_columns(_texts.c.text).outerjoin(_texts, rendered_texts.PRESENT)
    if "host_id" in names:
        statement = statement.where(sa.exists().where(
            _shares.c.reservation_id == _reservations.c.id,
            _reservations.c.lease_id == _leases.c.id,
            _shares.c.computehost_id == sa.bindparam("host_id")))
    if "starts" in names:
        statement = statement.where(
            _leases.c.start_at < sa.bindparam("ends"), _leases.c.end_at > sa.bindparam("starts"))
    if "last_number" in names:
        statement = statement.where(_build_after(
            [column, number] if column is not number else [number], descending))
    order = [column, number] if column is not number else [number]
    statement = statement.order_by(*(key.desc() if descending else key for key in order))
    return PreparedRead(
        statement.limit(sa.bindparam("most", type_=sa.Integer)) if "most" in names
        else statement)


def _build_after(
    order: Sequence[sa.Column[Any]], descending: bool
) -> sa.ColumnElement[bool]:
    """Build the condition that a row comes after the last one of the previous page."""
    def after(column: sa.Column[Any], name: str) -> sa.ColumnElement[bool]:
        last = sa.bindparam(name, type_=column.type)
        return column < last if descending else column > last

    *by_value, number = order
    condition = after(number, "last_number")
    for column in by_value:
        same = column == sa.bindparam("last_value", type_=column.type)
        condition = sa.or_(after(column, "last_value"), sa.and_(same, condition))
    return condition
