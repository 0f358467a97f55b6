"""Queries of the freepool's hosts and of their allocations to reservations.

Each takes as many statements for a thousand hosts as for one.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session, clock, texts
from placement_core.plugin_api.reservations import Window
from placement_core.reservations import tables
from placement_core.reservations.errors import HostNotFound
from placement_core.reservations.records import R_DELETED, Host, HostAllocation
from placement_core.reservations.store import lease_rows

_LARGEST_ID = 2**31 - 1

_hosts, _names, _values = (
    tables.computehosts, tables.resource_properties, tables.computehost_extra_capabilities)
_shares, _reservations, _leases = (
    tables.computehost_allocations, tables.lease_reservations, tables.leases)

_FIELDS = tuple(
    field.name for field in dataclasses.fields(Host) if field.name != "capabilities")
#: Each row has the time of the query, which saves a further query for it.
_ROWS = sa.select(
    *(_hosts.c[name] for name in _FIELDS), _hosts.c.provider_id,
    _hosts.c.reservation_provider_id, clock.now().label("read_at"))
_DOWN = (
    _ROWS.where(_hosts.c.reservable == sa.false()).order_by(_hosts.c.id)
    .limit(sa.bindparam("most", type_=sa.Integer)))
_BY_ID = _ROWS.where(_hosts.c.id == sa.bindparam("of_id"))
_BY_NAME = _ROWS.where(_hosts.c.name == sa.bindparam("of_name"))
_NUMBER_BY_PROVIDER = sa.select(_hosts.c.id).where(
    _hosts.c.provider_uuid == sa.bindparam("of_provider"))
_CAPABILITIES = (
    sa.select(_values.c.computehost_id, _names.c.property_name, _values.c.capability_value)
    .join(_names, _names.c.id == _values.c.property_id)
    .where(_values.c.computehost_id >= sa.bindparam("first"),
           _values.c.computehost_id <= sa.bindparam("last"))
    .order_by(_names.c.property_name))

# A share that ended before it began was never in force.
_SHARES = (
    sa.select(
        _shares.c.computehost_id,
        sa.func.coalesce(_shares.c.host_name, _hosts.c.name).label("name"),
        _reservations.c.lease_id,
        _shares.c.reservation_id, _leases.c.project_id, _shares.c.slots, _shares.c.whole,
        _shares.c.start_second, _shares.c.end_second,
        (_reservations.c.status == R_DELETED).label("ended"))
    .join(_reservations, _reservations.c.id == _shares.c.reservation_id)
    .join(_leases, _leases.c.id == _reservations.c.lease_id)
    .outerjoin(_hosts, _hosts.c.id == _shares.c.computehost_id)
    .where(_shares.c.start_second < _shares.c.end_second)
    .order_by(_shares.c.computehost_id, _shares.c.start_second, _shares.c.reservation_id))


def get(ctx: Context, host_id: str) -> Host:
    """Return a host by its id.

    :raises HostNotFound:
    """
    return _read_one(ctx, _BY_ID, {"of_id": find_number(ctx, host_id)}, host_id)


def find(ctx: Context, name_or_id: str) -> Host:
    """Return a host by its name or its id; a name takes precedence.

    :raises HostNotFound:
    """
    if texts.is_storable(name_or_id):
        try:
            return _read_one(ctx, _BY_NAME, {"of_name": name_or_id}, name_or_id)
        except HostNotFound:
            pass
    return get(ctx, name_or_id)


@db.retry_writes
def page(ctx: Context, *, after: int | None = None, limit: int | None = None) -> list[Host]:
    """Return hosts, in the order of ids.

    :param after: the id of the last host of the previous page.
    """
    with db.read(ctx) as session:
        return _page(session, after, limit)[0]


@db.retry_writes
def list_down(ctx: Context, limit: int) -> list[Host]:
    """Return hosts that are not reservable, in the order of ids."""
    with db.read(ctx) as session:
        return build_hosts(session, session.execute(_DOWN, {"most": limit}).all())


@db.retry_writes
def list_allocations(
    ctx: Context, *, host_id: str | None = None, lease_id: str | None = None,
    reservation_id: str | None = None,
) -> tuple[Sequence[Host], Sequence[HostAllocation]]:
    """Return allocations of hosts to reservations.

    Without a lease or reservation, only those that end in the future.

    :returns: the hosts, also those without allocations; and the allocations.
    :raises HostNotFound:
    """
    with db.read(ctx) as session:
        if host_id is None:
            hosts, read_at = _page(session, None, None)
        else:
            row = read_row(session, find_number(ctx, host_id))
            hosts, read_at = [build_hosts(session, [row])[0]], row.read_at
        if not all(texts.is_storable(id_) for id_ in (lease_id, reservation_id) if id_):
            return hosts, []
        statement, parameters = _SHARES, dict[str, Any]()
        if host_id is not None:
            statement = statement.where(_shares.c.computehost_id == sa.bindparam("of_host"))
            parameters["of_host"] = hosts[0].id
        if lease_id is not None:
            statement = statement.where(_reservations.c.lease_id == sa.bindparam("of_lease"))
            parameters["of_lease"] = lease_id
        if reservation_id is not None:
            statement = statement.where(
                _shares.c.reservation_id == sa.bindparam("of_reservation"))
            parameters["of_reservation"] = reservation_id
        if lease_id is None and reservation_id is None:
            if read_at is None:
                return [], []
            statement = statement.where(_shares.c.end_second > sa.bindparam("now"))
            parameters["now"] = to_second(read_at)
        rows = session.execute(statement, parameters).all()
    return hosts, _build_allocations(rows)


# Rows --------------------------------------------------------------------------------


@db.retry_writes
def find_number(ctx: Context, host_id: str) -> int:
    """Return a host's id as a number.

    :param host_id: that number, or the uuid of its resource provider: nova knows hosts by that,
        so clouds have scripts with it.
    :raises HostNotFound: it is neither, or too large.
    """
    if lease_rows.is_id(host_id):
        with db.read_once(ctx) as session:
            number: int | None = session.execute(
                _NUMBER_BY_PROVIDER, {"of_provider": host_id}).scalar()
        if number is not None:
            return number
    if host_id.isascii() and host_id.isdigit() and len(host_id) <= len(str(_LARGEST_ID)):
        number = int(host_id)
        if number <= _LARGEST_ID:
            return number
    raise HostNotFound("There is no such host.")


def read_row(session: Session, host_id: int) -> sa.Row[Any]:
    """Return the row of a host, with the time of the query as ``read_at``.

    :raises HostNotFound:
    """
    row = session.execute(_BY_ID, {"of_id": host_id}).first()
    if row is None:
        raise HostNotFound(f"There is no host {host_id}.")
    return row


@db.retry_writes
def _read_one(
    ctx: Context, statement: sa.Select[Any], parameters: Mapping[str, Any], name_or_id: str
) -> Host:
    with db.read(ctx) as session:
        row = session.execute(statement, parameters).first()
        if row is None:
            raise HostNotFound(f"There is no host {name_or_id}.")
        return build_hosts(session, [row])[0]


def _page(
    session: Session, after: int | None, limit: int | None
) -> tuple[list[Host], datetime.datetime | None]:
    """Return hosts, and the time of the query; None: there are no hosts."""
    statement, parameters = _ROWS.order_by(_hosts.c.id), dict[str, Any]()
    if after is not None:
        statement = statement.where(_hosts.c.id > sa.bindparam("after"))
        parameters["after"] = after
    if limit is not None:
        statement = statement.limit(sa.bindparam("most", type_=sa.Integer))
        parameters["most"] = limit
    rows = session.execute(statement, parameters).all()
    return build_hosts(session, rows), rows[0].read_at if rows else None


def build_hosts(session: Session, rows: Sequence[sa.Row[Any]]) -> list[Host]:
    """Return the hosts of rows, with their capabilities; the rows are in the order of ids."""
    if not rows:
        return []
    values: dict[int, dict[str, str]] = {row.id: {} for row in rows}
    for row in session.execute(
            _CAPABILITIES, {"first": rows[0].id, "last": rows[-1].id}):
        values[row.computehost_id][row.property_name] = row.capability_value
    return [_build_host(row, values[row.id]) for row in rows]


def _build_host(row: sa.Row[Any], capabilities: Mapping[str, str]) -> Host:
    fields = {name: getattr(row, name) for name in _FIELDS}
    fields |= {
        "reservable": bool(row.reservable), "created_at": lease_rows.aware(row.created_at),
        "updated_at": None if row.updated_at is None else lease_rows.aware(row.updated_at)}
    return Host(**fields, capabilities=capabilities)


def _build_allocations(rows: Iterable[Any]) -> list[HostAllocation]:
    """Return the records of rows of ``_SHARES``; there may be tens of thousands."""
    windows: dict[tuple[int, int], Window] = {}
    allocations = []
    for (host_id, name, lease_id, reservation_id, project_id, slots, whole, start, end,
         ended) in rows:
        window = windows.get((start, end))
        if window is None:
            window = windows[start, end] = Window.of(start, end)
        allocations.append(HostAllocation(
            host_id, name or "", lease_id, reservation_id, project_id, slots, bool(whole),
            window, bool(ended)))
    return allocations


def to_second(moment: datetime.datetime) -> int:
    """Return a naive time of the database's clock in seconds since the epoch."""
    return int(lease_rows.aware(moment).timestamp())
