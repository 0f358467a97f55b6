"""History: which leases had which hosts, and when; removal of old leases.

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

from placement_core import db, metrics
from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.db import Session, clock, lists, texts
from placement_core.plugin_api.reservations import Size, Window
from placement_core.reservations import records, tables
from placement_core.reservations.errors import InvalidLease
from placement_core.reservations.leases import rendered_texts
from placement_core.reservations.records import HostHistoryEntry
from placement_core.reservations.store import lease_rows

_leases, _reservations, _events, _shares, _hosts, _notices = (
    tables.leases, tables.lease_reservations, tables.lease_events,
    tables.computehost_allocations, tables.computehosts, tables.lease_notices)

_SECONDS_A_DAY = 86_400
#: Later than any start.
_NEVER = 2**40

#: ``HostHistoryEntry.marker``: the lease's number, the reservation's position in it, the host's
#: id, the start. Older markers lack the start: they stand for all entries of the host.
_MARKER = re.compile("([0-9]{1,18})-([0-9]{1,9})-([0-9]{1,18})(?:-([0-9]{1,18}))?")

# A row has a name if its host was removed; another host may have its id by now.
_HOST_NAME = sa.func.coalesce(_shares.c.host_name, _hosts.c.name)

_has_started = sa.exists().where(
    _events.c.lease_id == _leases.c.id, _events.c.event_type == records.START,
    _events.c.status == records.DONE)
_PAGE = (
    sa.select(
        _shares, _HOST_NAME.label("name_of_host"), _reservations.c.lease_id,
        _reservations.c.resource_type, _reservations.c.status, _reservations.c.position,
        _leases.c.number, _leases.c.name.label("lease_name"), _leases.c.project_id,
        _leases.c.user_id, _leases.c.deleted_at)
    .join(_reservations, _reservations.c.id == _shares.c.reservation_id)
    .join(_leases, _leases.c.id == _reservations.c.lease_id)
    .outerjoin(_hosts, _hosts.c.id == _shares.c.computehost_id)
    # Reservations that have not begun, or whose start has failed, are not history yet; shares of
    # zero length were never in force.
    .where(_reservations.c.status != records.R_PENDING,
           sa.or_(_reservations.c.status != records.R_ERROR, _has_started),
           _shares.c.end_second > _shares.c.start_second)
    .order_by(_leases.c.number, _reservations.c.position, _shares.c.computehost_id,
              _shares.c.start_second))

_FILTERS = {
    "project_id": _leases.c.project_id == sa.bindparam("project_id"),
    "host": sa.bindparam("host") == _HOST_NAME,
    "since": _shares.c.end_second > sa.bindparam("since"),
    "until": _shares.c.start_second < sa.bindparam("until"),
    "after": sa.or_(
        _leases.c.number > sa.bindparam("after_lease"),
        sa.and_(
            _leases.c.number == sa.bindparam("after_lease"),
            sa.or_(
                _reservations.c.position > sa.bindparam("after_position"),
                sa.and_(
                    _reservations.c.position == sa.bindparam("after_position"),
                    sa.or_(
                        _shares.c.computehost_id > sa.bindparam("after_host"),
                        sa.and_(
                            _shares.c.computehost_id == sa.bindparam("after_host"),
                            _shares.c.start_second > sa.bindparam(
                                "after_start", type_=sa.BigInteger))))))),
}

_SET_HOST_NAME = (
    sa.update(_shares)
    .where(_shares.c.computehost_id == sa.bindparam("of_host"), _shares.c.host_name.is_(None))
    .values(host_name=sa.bindparam("name")))

#: When a lease ended; a lease in error has not ended, whatever the time.
_ENDED_AT = sa.func.coalesce(_leases.c.ended_at, _leases.c.deleted_at)
_MOST = sa.bindparam("most", type_=sa.Integer)
_LONG_AGO = clock.in_seconds(-sa.bindparam("keep_seconds", type_=sa.BigInteger))
_OLD_LEASES = (
    sa.select(_leases.c.number, _leases.c.id, _leases.c.name, _leases.c.project_id)
    .where(_ENDED_AT < _LONG_AGO).order_by(_leases.c.number).limit(_MOST))
_OLD_NOTICES = (
    sa.select(_notices.c.id).where(_notices.c.at < _LONG_AGO).order_by(_notices.c.at)
    .limit(_MOST))
_RESERVATIONS = sa.select(_reservations.c.id).where(
    lists.among(_reservations.c.lease_id, "ids"))
#: The tables of a lease, with the keys to its rows, in the order of removal.
_TABLES = (
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
    """How many rows of each kind were removed."""

    leases: int
    notices: int
    texts: int


@db.retry_writes
def page(
    ctx: Context, *, project_id: str | None = None, host: str | None = None,
    since: datetime.datetime | None = None, until: datetime.datetime | None = None,
    after: str | None = None, limit: int | None = None,
) -> list[HostHistoryEntry]:
    """Return shares of hosts, past and present, in the order of creation of their leases.

    Shares that have not begun are left out.

    :param host: only shares of the host of that name, which may have left the freepool.
    :param since: only shares that were held at that time or later; ``until``: before that time.
    :param after: the marker of the last entry of the previous page.
    :raises InvalidLease: ``after`` is no marker.
    """
    values: dict[str, Any] = {
        "project_id": project_id, "host": host,
        "since": None if since is None else int(since.timestamp()),
        # Rounded up: shares that begin within that second are before ``until``.
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
        return [_build_entry(row)
                for row in session.execute(_page(names, limit is not None), values)]


@functools.cache
def _page(names: tuple[str, ...], bounded: bool) -> sa.Select[Any]:
    statement = _PAGE.where(*(_FILTERS[name] for name in names))
    return statement.limit(_MOST) if bounded else statement


def _build_entry(row: sa.Row[Any]) -> HostHistoryEntry:
    return HostHistoryEntry(
        row.computehost_id, row.name_of_host or "", row.lease_id, row.lease_name,
        row.project_id, row.user_id, row.reservation_id, row.resource_type, row.slots,
        Size(row.vcpus, row.memory_mb, row.disk_gb), bool(row.whole),
        Window.of(row.start_second, row.end_second), row.status == records.R_DELETED,
        row.deleted_at is not None,
        f"{row.number}-{row.position}-{row.computehost_id}-{row.start_second}")


def store_host_name(session: Session, host_id: int, name: str) -> None:
    """Store the name of a host that leaves the freepool in its past shares."""
    session.execute(_SET_HOST_NAME, {"of_host": host_id, "name": name})


def remove_old(ctx: Context, *, keep_days: int, most: int = 200) -> PruneResult:
    """Remove all old leases and notifications; several managers may do so at once.

    :param most: how many leases, notices and texts one transaction removes at most, each.
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
    """Remove old leases with all their rows, and old notices.

    Texts of deleted leases are removed at once, as they are never shown.

    The number of statements does not depend on the number of rows. To remove all, repeat it until
    nothing was removed. Several managers may do so at the same time.

    :param most: how many leases, notices and texts are removed at most, each.
    """
    parameters = {"keep_seconds": keep_days * _SECONDS_A_DAY, "most": most}
    with db.write(ctx) as session:
        notices = list(session.execute(_OLD_NOTICES, parameters).scalars())
        if notices:
            session.execute(_build_delete(_notices, "id"), {"ids": notices})
        leases = session.execute(_OLD_LEASES, parameters).all()
        if leases:
            _remove(session, leases)
        texts_removed = rendered_texts.remove_orphans(session, most)
    for table, rows in ((tables.leases, len(leases)), (_notices, len(notices)),
                        (tables.lease_texts, texts_removed)):
        metrics.count_removed_rows(table.name, rows)
    return PruneResult(len(leases), len(notices), texts_removed)


def _remove(session: Session, leases: Sequence[sa.Row[Any]]) -> None:
    lease_ids = [row.id for row in leases]
    # The leases' rows first: the order of locks in all transactions that change leases.
    lease_rows.lock_all(session, lease_ids)
    for row in leases:
        session.record_change(
            kinds.LEASE, row.number, uuid=row.id, name=row.name, project=row.project_id)
    reservation_ids = list(session.execute(
        _RESERVATIONS, {"ids": lease_ids}).scalars())
    for table, key in _TABLES:
        ids = reservation_ids if key == "reservation_id" else lease_ids
        if ids:
            session.execute(_build_delete(table, key), {"ids": ids})


@functools.cache
def _build_delete(table: sa.Table, key: str) -> sa.Delete:
    return sa.delete(table).where(lists.among_many(table.c[key], "ids"))
