"""What is promised of the pool, read for planning: a few statements, whatever there is.

Whoever will promise something takes the pool's row first (``revisions.POOL``), so that
what is read stays true until the commit. Others read it without.
"""

from __future__ import annotations

import datetime
import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.db import Session, arrays, clock
from placement_core.plugin_api.reservations import Hosts, Share, Window
from placement_core.reservations import tables
from placement_core.reservations.scheduling import occupancy
from placement_core.reservations.scheduling.planner import Wanted
from placement_core.reservations.scheduling.pools import AmountBooking, Bookings, Pool

_hosts, _held, _amounts = (
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
_PROMISED = {
    dialect: sa.update(_hosts).values(promised=True).where(
        arrays.among(_hosts.c.id, "ids", dialect=dialect))
    for dialect in ("postgresql", "mysql", "sqlite")}
#: Later than any lease.
_FOR_EVER = 2**40


def _during(table: sa.Table, *columns: Any) -> tuple[sa.Select[Any], sa.Select[Any]]:
    """Return the statements that read what is promised: all, and without some."""
    since, until = (sa.bindparam(name, type_=sa.BigInteger) for name in ("since", "until"))
    of_class = table.c.duration_class
    begins_in_time = sa.or_(*(
        sa.and_(of_class == sa.literal_column(str(number)),
                table.c.start_second > since - sa.literal_column(str(bound)),
                table.c.start_second < until)
        for number, bound in enumerate(tables.DURATION_BOUNDS)),
        sa.and_(of_class == sa.literal_column(str(len(tables.DURATION_BOUNDS))),
                table.c.start_second < until))
    every = sa.select(*columns).where(
        begins_in_time, table.c.end_second > since, table.c.start_second < until)
    return every, every.where(
        table.c.reservation_id.not_in(sa.bindparam("reservation_ids", expanding=True)))


_PROMISES = _during(
    _held, _held.c.computehost_id, _held.c.start_second, _held.c.end_second,
    _held.c.slots * _held.c.vcpus, _held.c.slots * _held.c.memory_mb,
    _held.c.slots * _held.c.disk_gb, _held.c.whole)
_PROMISED_AMOUNTS = _during(
    _amounts, _amounts.c.resource_type, _amounts.c.what, _amounts.c.start_second,
    _amounts.c.end_second, _amounts.c.amount)


def current_time(session: Session) -> datetime.datetime:
    """Return the present by the database's clock, in whole seconds.

    Locks that were waited for are past.
    """
    at: datetime.datetime = session.execute(_NOW).scalar_one()
    return at.replace(microsecond=0, tzinfo=datetime.UTC)


def read(
    session: Session, wanted: Sequence[Wanted], window: Window, *, cleaning_seconds: int,
    without: Collection[str] = (),
) -> Pool:
    """Return the pool with what is promised of it during a window.

    Who plans for a reservation that is in force comes to hosts at once, others when they
    start, and that waits: see ``occupancy``.

    :param wanted: what is to be planned: properties that it does not ask for are left out.
    :param without: ids of reservations whose promises are left out.
    """
    given = {"since": window.start - cleaning_seconds, "until": window.end + cleaning_seconds}
    promised: Sequence[Any] = session.execute(
        *_besides(_PROMISES, given, without)).all()
    return Pool(_read_hosts(session, wanted), Bookings.of(promised),
                _read_amounts(session, wanted, given, without),
                cleaning_seconds=cleaning_seconds,
                occupied=_occupied(session, wanted, window, cleaning_seconds))


def read_future(
    session: Session, wanted: Sequence[Wanted], since: int, promises: Bookings, *,
    cleaning_seconds: int, without: Collection[str] = (),
) -> Pool:
    """Return the pool with what is promised of it from a time on, for ever.

    :param since: in seconds since the epoch.
    :param promises: of hosts.
    :param without: as in ``read``; ``promises`` are without them already.
    """
    given = {"since": since, "until": _FOR_EVER}
    if cleaning_seconds:
        promises = promises.beside(Bookings.of([
            (each.host_id, each.due_second, each.free_second - cleaning_seconds, 0, 0, 0, True)
            for each in occupancy.find(session, cleaning_seconds=cleaning_seconds)
            if each.free_second is not None]))
    return Pool(_read_hosts(session, wanted), promises,
                _read_amounts(session, wanted, given, without),
                cleaning_seconds=cleaning_seconds)


def _occupied(
    session: Session, wanted: Sequence[Wanted], window: Window, cleaning_seconds: int
) -> set[int]:
    """Return the ids of the hosts that nobody can come to in a window."""
    at_once = any(each.asked.started for each in wanted)
    if not wanted or not (at_once or cleaning_seconds):
        return set()
    return {
        each.host_id for each in occupancy.find(session, cleaning_seconds=cleaning_seconds)
        if (at_once if each.free_second is None else each.free_second > window.start)}


def mark_booked(session: Session, pool: Pool, shares: Iterable[Share]) -> None:
    """Remember of hosts that somebody has, or had, something of them."""
    rows = pool.rows({share.host_id for share in shares})
    new = pool.hosts.ids[rows[~pool.hosts.promised[rows]]]
    if len(new):
        session.execute(_PROMISED[session.dialect], {"ids": sorted(new.tolist())})


def _read_amounts(
    session: Session, wanted: Sequence[Wanted], given: Mapping[str, int],
    without: Collection[str],
) -> list[AmountBooking]:
    """Return what is promised of what is on no host, if somebody wants some of that."""
    if not any(each.plugin.capacities() for each in wanted):
        return []
    return [
        AmountBooking((row.resource_type, row.what), row.start_second, row.end_second,
                      row.amount)
        for row in session.execute(*_besides(_PROMISED_AMOUNTS, given, without))]


def _besides(
    statements: tuple[sa.Select[Any], sa.Select[Any]], given: Mapping[str, int],
    without: Collection[str],
) -> tuple[sa.Select[Any], Mapping[str, Any]]:
    """Return the statement that leaves some reservations out, and its parameters."""
    every, others = statements
    return (others, {**given, "reservation_ids": sorted(without)}) if without else (every, given)


def _read_hosts(session: Session, wanted: Sequence[Wanted]) -> Hosts:
    keys: frozenset[str] = frozenset().union(*(
        each.plugin.properties(each.asked.values) for each in wanted))
    of_columns = tuple(sorted(keys & PROPERTIES.keys()))
    rows: Sequence[Any] = session.execute(_hosts_with(of_columns)).all()
    properties: dict[str, Sequence[int | str | None]] = {
        key: [row[_COLUMNS + place] for row in rows] for place, key in enumerate(of_columns)}
    if keys - PROPERTIES.keys():
        of_hosts: dict[str, dict[int, str]] = defaultdict(dict)
        for row in session.execute(
                _CAPABILITIES, {"names": sorted(keys - PROPERTIES.keys())}):
            of_hosts[row.property_name][row.computehost_id] = row.capability_value
        for key, values in of_hosts.items():
            properties[key] = [values.get(row.id) for row in rows]
    return Hosts.of([row[:_COLUMNS] for row in rows] if of_columns else rows, properties)


@functools.lru_cache(256)
def _hosts_with(keys: tuple[str, ...]) -> sa.Select[Any]:
    # The same column twice, under one name, would be one.
    return _HOSTS.add_columns(*(
        PROPERTIES[key].label(f"property{place}") for place, key in enumerate(keys)))
