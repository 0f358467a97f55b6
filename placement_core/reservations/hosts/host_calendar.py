"""Which leases have which hosts of the freepool during a time, host by host."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import lists, texts
from placement_core.plugin_api.reservations import Window
from placement_core.reservations import tables

_hosts, _shares, _reservations, _leases = (
    tables.computehosts, tables.computehost_allocations, tables.lease_reservations,
    tables.leases)

#: A share that ended before it began was never in force.
_overlaps = sa.and_(
    _shares.c.start_second < sa.bindparam("until", type_=sa.BigInteger),
    _shares.c.end_second > sa.bindparam("since", type_=sa.BigInteger),
    _shares.c.start_second < _shares.c.end_second)
_of_project = _leases.c.project_id == sa.bindparam("of_project")
_joined = (
    _shares.join(_reservations, _reservations.c.id == _shares.c.reservation_id)
    .join(_leases, _leases.c.id == _reservations.c.lease_id))


@dataclasses.dataclass(frozen=True, slots=True)
class HostShare:
    """A share of a host that a lease has; times are aware UTC."""

    lease_id: str
    lease_name: str
    status: str
    project_id: str
    start_at: datetime.datetime
    end_at: datetime.datetime
    slots: int
    whole: bool


@dataclasses.dataclass(frozen=True, slots=True)
class HostCalendar:
    """A host with the shares that overlap a time, by their starts."""

    id: int
    name: str
    provider_uuid: str
    shares: Sequence[HostShare]


@db.retry_writes
def page(
    ctx: Context, window: Window, *, project_id: str | None = None, host_id: int | None = None,
    after: int = 0, limit: int,
) -> list[HostCalendar]:
    """Return hosts that leases have during a window, in the order of ids.

    :param project_id: only shares of the leases of this project.
    :param host_id: only this host.
    :param after: the id of the last host of the previous page.
    """
    values: dict[str, Any] = {
        "since": window.start, "until": window.end, "after": after, "most": limit}
    if project_id is not None:
        if not texts.is_storable(project_id):
            return []
        values["of_project"] = project_id
    if host_id is not None:
        values["of_host"] = host_id
    names = frozenset(values)
    with db.read(ctx) as session:
        hosts = session.execute(_select_hosts(names), values).all()
        shares: dict[int, list[HostShare]] = {host.id: [] for host in hosts}
        if hosts:
            for row in session.execute(
                    _select_shares(names), {**values, "ids": list(shares)}):
                shares[row.computehost_id].append(_build_share(row))
    return [HostCalendar(host.id, host.name, host.provider_uuid, shares[host.id])
            for host in hosts]


def _select_overlapping(names: frozenset[str], *columns: Any) -> sa.Select[Any]:
    statement = sa.select(*columns).select_from(_joined).where(
        _overlaps, _leases.c.deleted_at.is_(None))
    return statement.where(_of_project) if "of_project" in names else statement


@functools.cache
def _select_hosts(names: frozenset[str]) -> sa.Select[Any]:
    having_shares = _select_overlapping(names, _shares.c.computehost_id)
    statement = (
        sa.select(_hosts.c.id, _hosts.c.name, _hosts.c.provider_uuid)
        .where(_hosts.c.id.in_(having_shares), _hosts.c.id > sa.bindparam("after"))
        .order_by(_hosts.c.id).limit(sa.bindparam("most", type_=sa.Integer)))
    return statement.where(
        _hosts.c.id == sa.bindparam("of_host")) if "of_host" in names else statement


@functools.cache
def _select_shares(names: frozenset[str]) -> sa.Select[Any]:
    return _select_overlapping(
        names, _shares.c.computehost_id, _shares.c.start_second, _shares.c.end_second,
        _shares.c.slots, _shares.c.whole, _leases.c.id, _leases.c.name, _leases.c.status,
        _leases.c.project_id,
    ).where(lists.among_many(_shares.c.computehost_id, "ids")).order_by(
        _shares.c.computehost_id, _shares.c.start_second, _leases.c.number)


def _build_share(row: sa.Row[Any]) -> HostShare:
    window = Window.of(row.start_second, row.end_second)
    return HostShare(row.id, row.name, row.status, row.project_id, window.start_at,
                     window.end_at, row.slots, bool(row.whole))
