"""Reconciles the compute service's freepool with the hosts that the design asks for.

Hosts enter and leave it as they are registered, reserved and released. This module corrects
what that leaves out: hosts that were registered while ``[reservations] instance_design`` had
another value, and changes that somebody made by hand. The freepool is closed to every project,
so a host that enters it while instance reservations have slots there is first added to their
aggregates, which admit their projects. Where there is no freepool any more, these need not be
closed to others: they are opened when their hosts have left it.

Locks: leases, then the host's root, then the outbox.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session, clock
from placement_core.placement import locks
from placement_core.plugin_api.compute import ComputeDriver
from placement_core.reservations import tables
from placement_core.reservations.provisioning import compute_calls, outbox
from placement_core.reservations.records import R_ACTIVE, PoolHost
from placement_core.reservations.store import lease_rows

LOG = logging.getLogger(__name__)

#: How many names one statement has at most.
_MOST_NAMES = 500

_hosts, _shares, _reservations, _slots, _leases = (
    tables.computehosts, tables.computehost_allocations, tables.lease_reservations,
    tables.instance_reservations, tables.leases)

_is_reserved = sa.exists(
    sa.select(_shares.c.computehost_id)
    .join(_reservations, _reservations.c.id == _shares.c.reservation_id)
    .where(_shares.c.computehost_id == _hosts.c.id, _shares.c.whole,
           _shares.c.end_second > clock.second(), _reservations.c.status == R_ACTIVE))
_has_calls = sa.exists(sa.select(tables.outbox.c.id).where(
    tables.outbox.c.host_id == _hosts.c.id))
_is_in_outbox = sa.exists(sa.select(tables.outbox.c.id).where(
    tables.outbox.c.subject == _reservations.c.id))
#: Instance reservations in force, on each of their hosts.
_SLOTS = (
    sa.select(_reservations.c.id, _reservations.c.lease_id, _leases.c.project_id,
              _slots.c.aggregate_id)
    .join(_shares, _shares.c.reservation_id == _reservations.c.id)
    .join(_slots, _slots.c.reservation_id == _reservations.c.id)
    .join(_leases, _leases.c.id == _reservations.c.lease_id)
    .where(_shares.c.end_second > clock.second(), _reservations.c.status == R_ACTIVE)
    .order_by(_reservations.c.id))
_ON_HOST = _SLOTS.where(_shares.c.computehost_id == sa.bindparam("of_host"))
_CLOSED = (
    _SLOTS.join(_hosts, _hosts.c.id == _shares.c.computehost_id)
    .where(_slots.c.aggregate_id.is_not(None), ~_is_in_outbox, _hosts.c.name.in_(
        sa.bindparam("names", expanding=True))))
_HOSTS_OF = (
    sa.select(_hosts.c.id, _hosts.c.name)
    .join(_shares, _shares.c.computehost_id == _hosts.c.id)
    .join(_reservations, _reservations.c.id == _shares.c.reservation_id)
    .where(_shares.c.end_second > clock.second(), _reservations.c.status == R_ACTIVE,
           _reservations.c.id == sa.bindparam("of_reservation"), ~_is_in_outbox)
    .order_by(_hosts.c.id))
_ALL = sa.select(
    _hosts.c.id, _hosts.c.name, _hosts.c.provider_id, _is_reserved.label("is_reserved"),
).where(~_has_calls).order_by(_hosts.c.id)
_ONE = _ALL.where(_hosts.c.id == sa.bindparam("of_host"))


def converge(ctx: Context, driver: ComputeDriver, *, has_freepool: bool) -> int:
    """Insert the calls that correct the freepool's hosts; return for how many hosts.

    Any number of managers may do so at the same time. Hosts that are not registered here stay as
    they are.

    :param has_freepool: the design has a freepool; False: all hosts leave it.
    :raises ComputeUnavailable, ComputeRefused: the compute service does not list its hosts.
    """
    inside = driver.freepool_hosts()
    if inside and not has_freepool:
        for reservation_id, lease_id in _find_closed_aggregates(ctx, inside):
            _open_aggregate(ctx, reservation_id, lease_id)
    count = sum(
        _correct_host(ctx, row.id, inside, has_freepool=has_freepool)
        for row in _find_hosts_without_calls(ctx)
        if _belongs_inside(row, has_freepool=has_freepool) != (row.name in inside))
    if count:
        LOG.warning("%d hosts %s the compute service's freepool, as [reservations] "
                    "instance_design asks for", count, "enter" if has_freepool else "leave")
    return count


def _belongs_inside(row: sa.Row[Any], *, has_freepool: bool) -> bool:
    return has_freepool and not row.is_reserved


@db.retry_writes
def _find_hosts_without_calls(ctx: Context) -> Sequence[sa.Row[Any]]:
    """Return the hosts about which no call is pending."""
    with db.read_once(ctx) as session:
        return session.execute(_ALL).all()


@db.retry_writes
def _correct_host(
    ctx: Context, host_id: int, inside: Collection[str], *, has_freepool: bool
) -> bool:
    """Insert the calls that one host needs, if it still needs them.

    Starts and ends of its leases, and its registration and removal, lock its root as well: their
    calls come before this one, or after it.
    """
    with db.write(ctx) as session:
        row = session.execute(_ONE, {"of_host": host_id}).first()
        if row is not None:
            _lock_leases(session, host_id)
            locks.lock_providers(session, {row.provider_id: 0})
            row = session.execute(_ONE, {"of_host": host_id}).first()
        if row is None or _belongs_inside(row, has_freepool=has_freepool) == (row.name in inside):
            return False
        host = PoolHost(row.id, row.name, row.provider_id)
        if has_freepool:
            for row in session.execute(_ON_HOST, {"of_host": host_id}).all():
                outbox.put(session, row.id, row.lease_id, [
                    *compute_calls.put_slot_aggregate(row.id, row.project_id),
                    *compute_calls.add_hosts(row.id, [host])])
        build_calls = (compute_calls.remove_from_freepool if host.name in inside
                       else compute_calls.add_to_freepool)
        outbox.put(session, f"host:{host_id}", None, build_calls(host_id, host.name))
    return True


def _lock_leases(session: Session, host_id: int) -> None:
    """Lock the leases with slots on a host: whoever inserts calls about a lease holds its row."""
    rows = session.execute(_ON_HOST, {"of_host": host_id}).all()
    if rows:
        lease_rows.lock_all(session, sorted({row.lease_id for row in rows}))


@db.retry_writes
def _find_closed_aggregates(ctx: Context, inside: Collection[str]) -> list[tuple[str, str]]:
    """Return ``(reservation, lease)`` of the reservations with aggregates on some hosts."""
    pairs: set[tuple[str, str]] = set()
    names = sorted(inside)
    for start in range(0, len(names), _MOST_NAMES):
        with db.read_once(ctx) as session:
            pairs |= {(row.id, row.lease_id) for row in session.execute(
                _CLOSED, {"names": names[start:start + _MOST_NAMES]})}
    return sorted(pairs)


@db.retry_writes
def _open_aggregate(ctx: Context, reservation_id: str, lease_id: str) -> None:
    """Insert calls: a reservation's hosts leave the freepool, then its aggregate is opened."""
    with db.write(ctx) as session:
        lease_rows.lock_all(session, [lease_id])
        hosts = session.execute(_HOSTS_OF, {"of_reservation": reservation_id}).all()
        if hosts:
            outbox.put(session, reservation_id, lease_id, [
                *(call for host in hosts
                  for call in compute_calls.remove_from_freepool(host.id, host.name)),
                *compute_calls.put_slot_aggregate(reservation_id, None)])
