"""Reads the pool and its bookings for planning, in a constant number of statements.

Whoever is about to book something locks the pool's row first (``revisions.POOL``), so what
is read stays true until the commit. Others read without the lock.
"""

from __future__ import annotations

import datetime
import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.db import Session, clock, lists, texts
from placement_core.placement.gangs import level_queries
from placement_core.placement.gangs.levels import Level
from placement_core.plugin_api.reservations import Hosts, Share, Window
from placement_core.reservations import tables
from placement_core.reservations.scheduling import occupancy, topology
from placement_core.reservations.scheduling.planner import ReservationRequest
from placement_core.reservations.scheduling.pools import AmountBooking, Bookings, Pool

_hosts, _shares, _amounts = (
    tables.computehosts, tables.computehost_allocations, tables.reservation_amounts)
_names, _capabilities = tables.resource_properties, tables.computehost_extra_capabilities

#: The properties that every host has, by the names that requirements use.
PROPERTIES: Mapping[str, sa.Column[Any]] = {
    "id": _hosts.c.id,
    "hypervisor_hostname": _hosts.c.name,
    "hypervisor_type": _hosts.c.hypervisor_type,
    "hypervisor_version": _hosts.c.hypervisor_version,
    "cpu_info": _hosts.c.cpu_info,
    "vcpus": _hosts.c.vcpus,
    "memory_mb": _hosts.c.memory_mb,
    "local_gb": _hosts.c.disk_gb,
    "service_name": _hosts.c.service_name,
    "availability_zone": _hosts.c.availability_zone,
}

_NOW = sa.select(clock.now())
_PROVIDER_IDS = sa.select(_hosts.c.id, _hosts.c.provider_id)
_HOSTS = sa.select(
    _hosts.c.id, _hosts.c.vcpus, _hosts.c.memory_mb, _hosts.c.disk_gb, _hosts.c.reservable,
    _hosts.c.promised).order_by(_hosts.c.id)
#: How many columns of ``_HOSTS`` go into ``Hosts.of``.
_COLUMNS = len(_HOSTS.selected_columns)
_CAPABILITIES = (
    sa.select(_names.c.property_name, _capabilities.c.computehost_id,
              _capabilities.c.capability_value)
    .join(_capabilities, _capabilities.c.property_id == _names.c.id)
    .where(_names.c.property_name.in_(sa.bindparam("names", expanding=True))))
_MARK_BOOKED = sa.update(_hosts).values(promised=True).where(
    lists.among_many(_hosts.c.id, "ids"))
#: Later than any lease.
_FOR_EVER = 2**40


def _during(table: sa.Table, *columns: Any) -> tuple[sa.Select[Any], sa.Select[Any]]:
    """Build the statements that read bookings in a period: all, and without some."""
    since, until = (sa.bindparam(name, type_=sa.BigInteger) for name in ("since", "until"))
    of_class = table.c.duration_class
    begins_in_time = sa.or_(*(
        sa.and_(of_class == sa.literal_column(str(number)),
                table.c.start_second > since - sa.literal_column(str(bound)),
                table.c.start_second < until)
        for number, bound in enumerate(tables.DURATION_BOUNDS)),
        sa.and_(of_class == sa.literal_column(str(len(tables.DURATION_BOUNDS))),
                table.c.start_second < until))
    bookings = sa.select(*columns).where(
        begins_in_time, table.c.end_second > since, table.c.start_second < until)
    return bookings, bookings.where(
        table.c.reservation_id.not_in(sa.bindparam("reservation_ids", expanding=True)))


_BOOKINGS = _during(
    _shares, _shares.c.computehost_id, _shares.c.start_second, _shares.c.end_second,
    _shares.c.slots * _shares.c.vcpus, _shares.c.slots * _shares.c.memory_mb,
    _shares.c.slots * _shares.c.disk_gb, _shares.c.whole)
_AMOUNT_BOOKINGS = _during(
    _amounts, _amounts.c.resource_type, _amounts.c.what, _amounts.c.start_second,
    _amounts.c.end_second, _amounts.c.amount)


def current_time(session: Session) -> datetime.datetime:
    """Return the present by the database's clock, in whole seconds.

    After a wait for locks, it is the time after the wait.
    """
    at: datetime.datetime = session.execute(_NOW).scalar_one()
    return at.replace(microsecond=0, tzinfo=datetime.UTC)


def read(
    session: Session, requests: Sequence[ReservationRequest], window: Window, *,
    cleaning_seconds: int, without: Collection[str] = (),
) -> Pool:
    """Return the pool with what is booked of it during a window.

    A reservation that is in force comes to new hosts at once; others do when they start,
    and the start waits until hosts are free: see ``occupancy``.

    :param requests: what is to be planned; properties of hosts that they do not name are not
        read.
    :param without: ids of reservations whose bookings are left out.
    """
    period = _find_period(window, cleaning_seconds)
    rows: Sequence[Any] = session.execute(
        *_excluding(_BOOKINGS, period, without)).all()
    occupied, overdue = _find_occupied(session, requests, window, cleaning_seconds)
    return Pool(_read_hosts(session, requests), Bookings.of(rows),
                _read_amounts(session, requests, period, without),
                cleaning_seconds=cleaning_seconds, occupied=occupied, overdue=overdue)


def read_bookings(session: Session, window: Window, *, cleaning_seconds: int) -> Bookings:
    """Return what is booked of hosts during a window, which may be past."""
    every, _ = _BOOKINGS
    rows: Sequence[Any] = session.execute(every, _find_period(window, cleaning_seconds)).all()
    return Bookings.of(rows)


def read_future(
    session: Session, requests: Sequence[ReservationRequest], since: int, bookings: Bookings, *,
    cleaning_seconds: int, without: Collection[str] = (),
) -> Pool:
    """Return the pool with what is booked of it from a time on, without an end.

    :param since: in seconds since the epoch.
    :param bookings: of hosts.
    :param without: as in ``read``; ``bookings`` are without them already.
    """
    period = {"since": since, "until": _FOR_EVER}
    if cleaning_seconds:
        bookings = bookings.beside(Bookings.of([
            (host.host_id, host.due_second, host.free_second - cleaning_seconds, 0, 0, 0, True)
            for host in occupancy.find(
                session, cleaning_seconds=cleaning_seconds, at_second=since)
            if host.free_second is not None]))
    return Pool(_read_hosts(session, requests), bookings,
                _read_amounts(session, requests, period, without),
                cleaning_seconds=cleaning_seconds)


def _find_period(window: Window, cleaning_seconds: int) -> dict[str, int]:
    """Return the parameters of statements that read what is booked during a window."""
    return {"since": window.start - cleaning_seconds, "until": window.end + cleaning_seconds}


def _find_occupied(
    session: Session, requests: Sequence[ReservationRequest], window: Window, cleaning_seconds: int
) -> tuple[set[int], set[int]]:
    """Return the ids of the hosts that nobody can come to in a window, and of those with a lease
    that has not ended, for which a start waits.
    """
    if not requests:
        return set(), set()
    hosts = occupancy.find(session, cleaning_seconds=cleaning_seconds, at_second=window.start)
    overdue = {host.host_id for host in hosts if host.free_second is None}
    occupied = {host.host_id for host in hosts
                if host.free_second is not None and host.free_second > window.start}
    if any(request.spec.started for request in requests):
        return occupied | overdue, set()
    return occupied, overdue


def mark_booked(session: Session, pool: Pool, shares: Iterable[Share]) -> None:
    """Mark hosts as booked at some time: ``computehosts.promised``."""
    rows = pool.rows({share.host_id for share in shares})
    new = pool.hosts.ids[rows[~pool.hosts.promised[rows]]]
    if len(new):
        session.execute(_MARK_BOOKED, {"ids": sorted(new.tolist())})


def _read_amounts(
    session: Session, requests: Sequence[ReservationRequest], period: Mapping[str, int],
    without: Collection[str],
) -> list[AmountBooking]:
    """Return the bookings of what is on no host, if a request may need such."""
    if not any(request.plugin.capacities() for request in requests):
        return []
    return [
        AmountBooking((row.resource_type, row.what), row.start_second, row.end_second,
                      row.amount)
        for row in session.execute(*_excluding(_AMOUNT_BOOKINGS, period, without))]


def _excluding(
    statements: tuple[sa.Select[Any], sa.Select[Any]], period: Mapping[str, int],
    without: Collection[str],
) -> tuple[sa.Select[Any], Mapping[str, Any]]:
    """Return the statement that leaves some reservations out, and its parameters."""
    every, others = statements
    return (others, {**period, "reservation_ids": sorted(without)}) if without else (every, period)


def _read_hosts(session: Session, requests: Sequence[ReservationRequest]) -> Hosts:
    keys: frozenset[str] = frozenset().union(*(
        request.plugin.properties(request.spec.values) for request in requests))
    of_columns = tuple(sorted(keys & PROPERTIES.keys()))
    rows: Sequence[Any] = session.execute(_hosts_with(of_columns)).all()
    properties: dict[str, Sequence[int | str | None]] = {
        key: [row[_COLUMNS + place] for row in rows] for place, key in enumerate(of_columns)}
    if keys - PROPERTIES.keys():
        of_hosts: dict[str, dict[int, str]] = defaultdict(dict)
        names = sorted(filter(texts.is_storable, keys - PROPERTIES.keys()))
        for row in session.execute(_CAPABILITIES, {"names": names}):
            of_hosts[row.property_name][row.computehost_id] = row.capability_value
        for level in topology.find_levels(keys):
            of_hosts[level.text] = _read_domain_names(session, level)
        for key, values in of_hosts.items():
            properties[key] = [values.get(row.id) for row in rows]
    return Hosts.of([row[:_COLUMNS] for row in rows] if of_columns else rows, properties)


def _read_domain_names(session: Session, level: Level) -> dict[int, str]:
    """Return the name of each host's domain, by the host's id."""
    names = level_queries.read_domain_names(session, level)
    return {row.id: names[row.provider_id] for row in session.execute(_PROVIDER_IDS)
            if row.provider_id in names}


@functools.lru_cache(256)
def _hosts_with(keys: tuple[str, ...]) -> sa.Select[Any]:
    # The same column twice, under one name, would be one.
    return _HOSTS.add_columns(*(
        PROPERTIES[key].label(f"property{place}") for place, key in enumerate(keys)))
