"""History: who held which hosts, from when to when; and how it is forgotten.

Leases that have ended, or were deleted, stay in their tables until ``prune`` removes them.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session, clock, lists, texts
from placement_core.plugin_api.reservations import Size, Window
from placement_core.reservations import records, tables
from placement_core.reservations.errors import InvalidLease
from placement_core.reservations.leases import rendered_texts
from placement_core.reservations.records import HostHistoryEntry
from placement_core.reservations.store import lease_rows

_leases, _reservations, _held, _hosts, _notices = (
    tables.leases, tables.lease_reservations, tables.computehost_allocations,
    tables.computehosts, tables.lease_notices)

_SECONDS_A_DAY = 86_400
#: Later than any start.
_NEVER = 2**40

#: ``HostHistoryEntry.marker``: a lease's number, a reservation's place in it, a host, a
#: start. Older markers have no start: they stand for all of the host.
_MARKER = re.compile("([0-9]{1,18})-([0-9]{1,9})-([0-9]{1,18})(?:-([0-9]{1,18}))?")

# The name that a row has is that of a host which is gone; its id may be another's by now.
_HOST_NAME = sa.func.coalesce(_held.c.host_name, _hosts.c.name)

_PAGE = (
    sa.select(
        _held, _HOST_NAME.label("name_of_host"), _reservations.c.lease_id,
        _reservations.c.resource_type, _reservations.c.status, _reservations.c.position,
        _leases.c.number, _leases.c.name.label("lease_name"), _leases.c.project_id,
        _leases.c.user_id, _leases.c.deleted_at)
    .join(_reservations, _reservations.c.id == _held.c.reservation_id)
    .join(_leases, _leases.c.id == _reservations.c.lease_id)
    .outerjoin(_hosts, _hosts.c.id == _held.c.computehost_id)
    # What has not begun is no history yet; what was given up before it began never was.
    .where(_reservations.c.status != records.R_PENDING,
           _held.c.end_second > _held.c.start_second)
    .order_by(_leases.c.number, _reservations.c.position, _held.c.computehost_id,
              _held.c.start_second))

_FILTERS = {
    "project_id": _leases.c.project_id == sa.bindparam("project_id"),
    "host": sa.bindparam("host") == _HOST_NAME,
    "since": _held.c.end_second > sa.bindparam("since"),
    "until": _held.c.start_second < sa.bindparam("until"),
    "after": sa.or_(
        _leases.c.number > sa.bindparam("after_lease"),
        sa.and_(
            _leases.c.number == sa.bindparam("after_lease"),
            sa.or_(
                _reservations.c.position > sa.bindparam("after_position"),
                sa.and_(
                    _reservations.c.position == sa.bindparam("after_position"),
                    sa.or_(
                        _held.c.computehost_id > sa.bindparam("after_host"),
                        sa.and_(
                            _held.c.computehost_id == sa.bindparam("after_host"),
                            _held.c.start_second > sa.bindparam(
                                "after_start", type_=sa.BigInteger))))))),
}

_KEEP_NAME = (
    sa.update(_held)
    .where(_held.c.computehost_id == sa.bindparam("of_host"), _held.c.host_name.is_(None))
    .values(host_name=sa.bindparam("name")))

#: When it was over; one in error is not, whatever the time.
_OVER_AT = sa.func.coalesce(_leases.c.ended_at, _leases.c.deleted_at)
_MOST = sa.bindparam("most", type_=sa.Integer)
_LONG_AGO = clock.in_seconds(-sa.bindparam("keep_seconds", type_=sa.BigInteger))
_OLD_LEASES = (
    sa.select(_leases.c.id).where(_OVER_AT < _LONG_AGO).order_by(_leases.c.number).limit(_MOST))
_OLD_NOTICES = (
    sa.select(_notices.c.id).where(_notices.c.at < _LONG_AGO).order_by(_notices.c.at)
    .limit(_MOST))
_RESERVATIONS = sa.select(_reservations.c.id).where(
    lists.among(_reservations.c.lease_id, "ids"))
#: What a lease consists of, in the order in which it can be removed.
_PARTS = (
    (tables.instance_reservations, "reservation_id"),
    (tables.computehost_reservations, "reservation_id"),
    (tables.computehost_allocations, "reservation_id"),
    (tables.reservation_amounts, "reservation_id"),
    (tables.lease_events, "lease_id"),
    (tables.lease_reservations, "lease_id"),
    (tables.leases, "id"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class PruneResult:
    """What was removed: so many of each."""

    leases: int
    notices: int
    texts: int


@db.retry_writes
def page(
    ctx: Context, *, project_id: str | None = None, host: str | None = None,
    since: datetime.datetime | None = None, until: datetime.datetime | None = None,
    after: str | None = None, limit: int | None = None,
) -> list[HostHistoryEntry]:
    """Return who held which hosts, in the order in which their leases were made.

    What is held now is among it; what has not begun is not.

    :param host: only of the host of that name, also one that left the freepool.
    :param since: only what was held at that time or later; ``until``: before that time.
    :param after: the marker of the last one of the page before.
    :raises InvalidLease: ``after`` is no marker.
    """
    values: dict[str, Any] = {
        "project_id": project_id, "host": host,
        "since": None if since is None else int(since.timestamp()),
        # A part of a second more begins before the next second.
        "until": None if until is None else -int(-until.timestamp() // 1)}
    values = {name: value for name, value in values.items() if value is not None}
    if not all(texts.is_storable(value) for value in values.values() if isinstance(value, str)):
        return []
    names = tuple(values)
    if after is not None:
        match = _MARKER.fullmatch(after)
        if match is None:
            raise InvalidLease(f"{after[:64]} is no marker of the history.", "marker")
        keys = ("after_lease", "after_position", "after_host", "after_start")
        values |= zip(keys, map(int, match.groups(default=str(_NEVER))), strict=True)
        names += ("after",)
    if limit is not None:
        values["most"] = limit
    with db.read_once(ctx) as session:
        return [_holding(row)
                for row in session.execute(_page(names, limit is not None), values)]


@functools.cache
def _page(names: tuple[str, ...], bounded: bool) -> sa.Select[Any]:
    statement = _PAGE.where(*(_FILTERS[name] for name in names))
    return statement.limit(_MOST) if bounded else statement


def _holding(row: sa.Row[Any]) -> HostHistoryEntry:
    return HostHistoryEntry(
        row.computehost_id, row.name_of_host or "", row.lease_id, row.lease_name,
        row.project_id, row.user_id, row.reservation_id, row.resource_type, row.slots,
        Size(row.vcpus, row.memory_mb, row.disk_gb), bool(row.whole),
        Window.of(row.start_second, row.end_second), row.status == records.R_DELETED,
        row.deleted_at is not None,
        f"{row.number}-{row.position}-{row.computehost_id}-{row.start_second}")


def keep_name(session: Session, host_id: int, name: str) -> None:
    """Remember how a host was called that leaves the freepool."""
    session.execute(_KEEP_NAME, {"of_host": host_id, "name": name})


def remove_old(ctx: Context, *, keep_days: int, most: int = 1000) -> PruneResult:
    """Remove all that was over long ago; any number may do so at the same time.

    :param most: how many leases, and how many notices and texts, one transaction removes.
    :returns: how many were removed.
    """
    removed = PruneResult(0, 0, 0)
    while True:
        pruned = prune(ctx, keep_days=keep_days, most=most)
        removed = PruneResult(removed.leases + pruned.leases, removed.notices + pruned.notices,
                         removed.texts + pruned.texts)
        if max(pruned.leases, pruned.notices, pruned.texts) < most:
            return removed


@db.retry_writes
def prune(ctx: Context, *, keep_days: int, most: int) -> PruneResult:
    """Remove what was over long ago: leases with all that is theirs, and notices.

    Texts of leases that were deleted go at once: nobody is shown these.

    However much there is, it takes the same number of statements. To remove all, repeat it
    until nothing was removed. Any number may do so at the same time.

    :param most: how many leases, and how many notices, are removed at most.
    """
    parameters = {"keep_seconds": keep_days * _SECONDS_A_DAY, "most": most}
    with db.write(ctx) as session:
        notices = list(session.execute(_OLD_NOTICES, parameters).scalars())
        if notices:
            session.execute(_build_delete(_notices, "id"), {"ids": notices})
        lease_ids = list(session.execute(_OLD_LEASES, parameters).scalars())
        if lease_ids:
            _remove(session, lease_ids)
        texts_removed = rendered_texts.remove_needless(session, most)
    return PruneResult(len(lease_ids), len(notices), texts_removed)


def _remove(session: Session, lease_ids: Sequence[str]) -> None:
    # The leases' rows first, as everybody who changes one.
    lease_rows.lock_all(session, lease_ids)
    reservation_ids = list(session.execute(
        _RESERVATIONS, {"ids": lease_ids}).scalars())
    for table, key in _PARTS:
        ids = reservation_ids if key == "reservation_id" else lease_ids
        if ids:
            session.execute(_build_delete(table, key), {"ids": ids})


@functools.cache
def _build_delete(table: sa.Table, key: str) -> sa.Delete:
    return sa.delete(table).where(lists.among_many(table.c[key], "ids"))
