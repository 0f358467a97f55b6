"""Assigns other hosts to leases whose hosts failed, where there are some.

A share is lost if its host is out of service or has left the pool, or if more of the host is
booked than it has by now. While a lease is in force, its other shares stay where they are. Each
lease is healed in one transaction, which decides by what it reads then; so any number of managers
may heal at the same time.
Source: spec blazar §4 (monitor, heal); differs: missing shares are assigned later, as soon as
they fit, and the lease is then no longer degraded.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from placement_core import db, errors as core_errors
from placement_core.changes import kinds, revisions
from placement_core.context import Context
from placement_core.db import Session
from placement_core.plugin_api.reservations import (
    Amounts,
    Demand,
    DoesNotFit,
    NotChangeable,
    ReservationPlugin,
    ReservationSpec,
    Share,
    Slots,
    WholeHosts,
    Window,
)
from placement_core.reservations import tables
from placement_core.reservations.leases import notifications
from placement_core.reservations.provisioning.provisioner import Provisioner
from placement_core.reservations.records import R_ACTIVE, R_PENDING, Lease, Reservation
from placement_core.reservations.scheduling import planner, pool_queries
from placement_core.reservations.scheduling.planner import Grant, ReservationRequest
from placement_core.reservations.scheduling.pools import FreeCapacity, Pool
from placement_core.reservations.store import bookings, lease_rows

LOG = logging.getLogger(__name__)

#: The last second that a datetime can have: no lease begins later.
_NEVER = 253_402_300_799

_hosts, _shares = tables.computehosts, tables.computehost_allocations
_leases, _reservations = tables.leases, tables.lease_reservations

_IN_FORCE_OR_LATER = (R_PENDING, R_ACTIVE)
_within_horizon = (
    _reservations.c.status.in_(_IN_FORCE_OR_LATER), _leases.c.deleted_at.is_(None),
    _shares.c.end_second > sa.bindparam("now", type_=sa.BigInteger),
    _shares.c.start_second < sa.bindparam("horizon", type_=sa.BigInteger))
_LEASES_WITH_SHARES = (
    sa.select(_leases.c.id, _leases.c.number, _leases.c.start_at).distinct()
    .join(_reservations, _reservations.c.lease_id == _leases.c.id)
    .join(_shares, _shares.c.reservation_id == _reservations.c.id))
_WITHOUT_HOST = (
    _LEASES_WITH_SHARES.outerjoin(_hosts, _hosts.c.id == _shares.c.computehost_id)
    .where(*_within_horizon, sa.or_(_hosts.c.id.is_(None), sa.not_(_hosts.c.reservable))))
_ON_HOSTS = _LEASES_WITH_SHARES.where(
    *_within_horizon, _shares.c.computehost_id.in_(sa.bindparam("host_ids", expanding=True)))
_MISSING = (
    sa.select(_leases.c.id, _leases.c.number, _leases.c.start_at).distinct()
    .join(_reservations, _reservations.c.lease_id == _leases.c.id)
    .where(_reservations.c.missing_resources, _reservations.c.status.in_(_IN_FORCE_OR_LATER),
           _leases.c.deleted_at.is_(None), _leases.c.end_at > sa.bindparam("now_at"),
           _leases.c.start_at < sa.bindparam("horizon_at")))
#: Reservations of leases that give way to another lease, and are not healed yet.
_LATER = (
    sa.select(_shares.c.reservation_id).distinct()
    .join(_reservations, _reservations.c.id == _shares.c.reservation_id)
    .join(_leases, _leases.c.id == _reservations.c.lease_id)
    .where(_leases.c.number > sa.bindparam("number"),
           _shares.c.computehost_id.in_(sa.bindparam("host_ids", expanding=True)),
           _shares.c.end_second > sa.bindparam("horizon", type_=sa.BigInteger),
           _shares.c.start_second >= sa.bindparam("horizon", type_=sa.BigInteger)))

_MARK_BOOKED = sa.update(_hosts).values(promised=True).where(
    _hosts.c.id.in_(sa.bindparam("host_ids", expanding=True)), sa.not_(_hosts.c.promised))


@dataclasses.dataclass(slots=True)
class HealingResult:
    """The leases that a run of healing has changed, or tried to.

    :ivar whole: leases that have all their shares again; ``degraded``: leases that have not.
    :ivar failed: leases that could not be healed in this run.
    """

    whole: list[str] = dataclasses.field(default_factory=list)
    degraded: list[str] = dataclasses.field(default_factory=list)
    failed: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class _Repair:
    """The change of one reservation.

    :ivar reservation: the reservation before; ``repaired``: the reservation afterwards.
    :ivar shares_before: its shares before; ``shares_after``: its shares afterwards.
    """

    reservation: Reservation
    repaired: Reservation
    shares_before: Sequence[Share]
    shares_after: Sequence[Share]

    @classmethod
    def of(
        cls, reservation: Reservation, before: Sequence[Share], after: Sequence[Share], *,
        missing: bool,
    ) -> _Repair:
        """Return the repair of a reservation that gets other shares, or misses some."""
        moves_in_force = (reservation.status == R_ACTIVE
                          and _slots_by_host(before) != _slots_by_host(after))
        return cls(reservation, dataclasses.replace(
            reservation, missing_resources=missing,
            resources_changed=reservation.resources_changed or moves_in_force), before, after)

    @property
    def changes_shares(self) -> bool:
        """Return whether the shares are others afterwards."""
        return _slots_by_host(self.shares_before) != _slots_by_host(self.shares_after)


class Healing:
    """Assigns other hosts to leases that lost some.

    :param plugins: {resource type: plugin}.
    :param interval_seconds: only leases that are in force, or start within this time, are
        healed; 0: all.
    """

    def __init__(
        self, plugins: Mapping[str, ReservationPlugin], provisioner: Provisioner, *,
        cleaning_seconds: int, interval_seconds: int,
    ) -> None:
        self._plugins = plugins
        self._provisioner = provisioner
        self._cleaning_seconds = cleaning_seconds
        self._interval_seconds = interval_seconds

    def heal(self, ctx: Context) -> HealingResult:
        """Heal every lease that lost shares, or misses shares that fit by now."""
        result = HealingResult()
        for lease_id in db.retry_writes(self._find_leases_to_heal)(ctx):
            try:
                if not db.retry_writes(self._needs_repair)(ctx, lease_id):
                    continue
                whole = db.retry_writes(self._heal)(ctx, lease_id)
            except core_errors.Error as error:
                LOG.warning("the lease %s could not be healed now: %s", lease_id, error)
                result.failed.append(lease_id)
                continue
            except Exception:  # A defect here or in a plugin: it concerns this lease only.
                LOG.exception("the lease %s could not be healed", lease_id)
                result.failed.append(lease_id)
                continue
            if whole is not None:
                (result.whole if whole else result.degraded).append(lease_id)
        return result

    def _find_leases_to_heal(self, ctx: Context) -> list[str]:
        """Return the ids of the leases that may need healing, in the order of healing.

        Of the leases on overbooked hosts, those that were created last lose their shares first.
        All others are healed in the order of their starts.
        """
        with db.read(ctx) as session:
            now = int(pool_queries.current_time(session).timestamp())
            horizon = Window.of(now, self._find_horizon(now))
            parameters: dict[str, Any] = {"now": horizon.start, "horizon": horizon.end}
            overbooked = _find_overbooked_hosts(session, horizon)
            on_overbooked = list(session.execute(
                _ON_HOSTS, {**parameters, "host_ids": overbooked})) if overbooked else []
            affected = [*session.execute(_WITHOUT_HOST, parameters), *session.execute(_MISSING, {
                "now_at": lease_rows.naive(horizon.start_at),
                "horizon_at": lease_rows.naive(horizon.end_at)})]
        on_overbooked.sort(key=lambda row: row.number, reverse=True)
        affected.sort(key=lambda row: (row.start_at, row.number))
        return list(dict.fromkeys(row.id for row in (*on_overbooked, *affected)))

    def _find_horizon(self, now: int) -> int:
        """Return the second from which on leases that start are not healed yet."""
        return now + self._interval_seconds if self._interval_seconds else _NEVER

    def _needs_repair(self, ctx: Context, lease_id: str) -> bool:
        """Return whether healing a lease would change anything, without a lock."""
        with db.read(ctx) as session:
            snapshot = lease_rows.find(session, lease_id)
            return snapshot is not None and bool(self._plan_repairs(session, *snapshot))

    def _heal(self, ctx: Context, lease_id: str) -> bool | None:
        """Heal a lease; return whether it has all shares again; None: there was nothing to do."""
        with db.write(ctx) as session:
            revisions.increment(session, revisions.POOL)
            snapshot = (lease_rows.find(session, lease_id)
                        if lease_rows.lock(session, lease_id) else None)
            if snapshot is None:
                return None
            lease, now = snapshot
            repairs = self._plan_repairs(session, lease, now)
            if not repairs:
                return None
            session.record_change(kinds.LEASE, lease.number)
            healed = _apply_repairs(lease, repairs, now)
            for repair in repairs:
                _write_repair(session, healed, repair, now)
            lease_rows.update(session, lease.number, {
                "degraded": healed.degraded, "updated_at": lease_rows.naive(now)})
            for repair in repairs:
                if repair.changes_shares:
                    self._provisioner.change(
                        ctx, healed, repair.repaired, repair.shares_before, repair.shares_after)
            notifications.add(ctx, notifications.CHANGED, healed)
        LOG.warning("the lease %s has lost or got hosts: %s", lease_id, _describe(repairs))
        return not healed.degraded

    # Planning --------------------------------------------------------------------

    def _plan_repairs(
        self, session: Session, lease: Lease, now: datetime.datetime
    ) -> list[_Repair]:
        """Return the changes that the reservations of a lease need."""
        reservations = [
            reservation for reservation in lease.reservations
            if reservation.status in _IN_FORCE_OR_LATER
            and reservation.resource_type in self._plugins]
        if lease.end_at <= now or not reservations:
            return []
        window = Window(max(now, lease.start_at), lease.end_at)
        shares = bookings.read_shares(session, lease)
        remaining = _find_remaining_shares(
            session, window, shares, lease.number, self._find_horizon(int(now.timestamp())))
        affected = [
            reservation for reservation in reservations if reservation.missing_resources
            or len(remaining[reservation.id]) < len(shares[reservation.id])]
        if not affected:
            return []
        requests = [
            ReservationRequest(self._plugins[reservation.resource_type], ReservationSpec(
                reservation.id, lease.project_id, reservation.fields, remaining[reservation.id],
                started=reservation.status == R_ACTIVE))
            for reservation in affected]
        pool = pool_queries.read(
            session, requests, window, cleaning_seconds=self._cleaning_seconds,
            without=[reservation.id for reservation in affected])
        # What remains stays, also beside leases that give way; replacements fit beside all.
        pool = pool.with_room_for(
            [share for reservation in affected for share in remaining[reservation.id]],
            window.start, window.end)
        outcomes = _plan_together(pool, window, requests) or _plan_one_by_one(
            pool, window, requests)
        repairs = [
            _Repair.of(reservation, shares[reservation.id], after, missing=missing)
            for reservation, (after, missing) in zip(affected, outcomes, strict=True)]
        return [repair for repair in repairs
                if repair.changes_shares or repair.repaired != repair.reservation]


#: All shares of a reservation from now on, and whether some are missing.
_Outcome = tuple[Sequence[Share], bool]


def _plan_together(
    pool: Pool, window: Window, requests: Sequence[ReservationRequest]
) -> list[_Outcome] | None:
    """Plan all that the reservations need; None: it does not fit."""
    try:
        return [(grant.shares, False) for grant in planner.plan(pool, window, requests)]
    except (DoesNotFit, NotChangeable, core_errors.Invalid):
        return None


def _plan_one_by_one(
    pool: Pool, window: Window, requests: Sequence[ReservationRequest]
) -> list[_Outcome]:
    """Plan one reservation after the other, each as much as fits next to the others."""
    shares_of = {request.spec.reservation_id: request.spec.held for request in requests}
    outcomes = []
    for request in requests:
        others = [share for id_, shares in shares_of.items()
                  if id_ != request.spec.reservation_id for share in shares]
        shares, missing = _plan_as_much_as_fits(
            pool.beside(others, window.start, window.end), window, request)
        shares_of[request.spec.reservation_id] = shares
        outcomes.append((shares, missing))
    return outcomes


def _plan_as_much_as_fits(pool: Pool, window: Window, request: ReservationRequest) -> _Outcome:
    present = sum(share.slots for share in request.spec.held)
    try:
        [demand] = planner.needs(pool, [request])
        if isinstance(demand, Amounts):
            return request.spec.held, False
        target = amount = planner.required_count(demand)
        while amount > present:
            try:
                [grant] = planner.plan(pool, window, [request], [_reduce_demand(demand, amount)])
            except DoesNotFit as refusal:
                amount -= refusal.missing.get("slots") or refusal.missing["hosts"]
            else:
                return grant.shares, amount < target
    except (NotChangeable, core_errors.Invalid) as error:
        LOG.debug("reservation %s: %s", request.spec.reservation_id, error)
        return request.spec.held, True
    return request.spec.held, present < target


def _reduce_demand(demand: WholeHosts | Slots, amount: int) -> Demand:
    """Return the demand with another number of slots, or another minimum of hosts."""
    if isinstance(demand, Slots):
        return dataclasses.replace(demand, amount=amount)
    return dataclasses.replace(demand, minimum=amount)


# Lost shares -------------------------------------------------------------------------


def _find_remaining_shares(
    session: Session, window: Window, shares: Mapping[str, Sequence[Share]], number: int,
    horizon: int,
) -> dict[str, list[Share]]:
    """Return the shares of a lease's reservations, {reservation id: shares}, without lost ones.

    It loses nothing to leases that were created after it and start beyond the horizon: these
    give way when they are healed.

    :param number: the lease's.
    """
    on_hosts: defaultdict[int, list[Share]] = defaultdict(list)
    for of_reservation in shares.values():
        for share in of_reservation:
            on_hosts[share.host_id].append(share)
    later = session.execute(_LATER, {
        "number": number, "host_ids": sorted(on_hosts), "horizon": horizon}).scalars()
    pool = _read_pool(session, window, without={*shares, *later})
    free = pool.free(window.start, window.end)
    lost = {
        host_id for host_id, row in zip(on_hosts, pool.rows(on_hosts), strict=True)
        if row < 0 or not pool.hosts.reservable[row]
        or not _has_room(free, row, on_hosts[host_id])}
    return {id_: [share for share in of_reservation if share.host_id not in lost]
            for id_, of_reservation in shares.items()}


def _has_room(free: FreeCapacity, row: int, shares: Iterable[Share]) -> bool:
    """Return whether a host has room for shares next to what others hold of it."""
    if any(share.whole for share in shares):
        return bool(free.untouched[row])
    needed = sum(share.slots * np.array(share.size.amounts()) for share in shares)
    return bool(free.shareable[row] and (needed <= free.amounts[row]).all())


def _find_overbooked_hosts(session: Session, window: Window) -> list[int]:
    """Return the ids of hosts of which more is booked at some moment than they have."""
    pool = _read_pool(session, window)
    steps = pool.timelines.steps(window.start, window.end)
    free = pool.free_in_steps(steps.things, steps.amounts)
    # A host that is booked whole has no other bookings; its size does not matter.
    overbooked = steps.things[free.shareable & (free.amounts < 0).any(axis=1)]
    host_ids: list[int] = pool.hosts.ids[np.unique(overbooked)].tolist()
    return host_ids


def _read_pool(
    session: Session, window: Window, *, without: Collection[str] = ()
) -> Pool:
    """Return the pool with its bookings.

    Without cleaning time: bookings that were made with a shorter one are not lost.
    """
    return pool_queries.read(session, (), window, cleaning_seconds=0, without=without)


# Writing -----------------------------------------------------------------------------


def _apply_repairs(lease: Lease, repairs: Iterable[_Repair], now: datetime.datetime) -> Lease:
    """Return the lease after its repairs."""
    repaired = {repair.reservation.id: repair.repaired for repair in repairs}
    reservations = [
        dataclasses.replace(repaired[reservation.id], updated_at=now)
        if reservation.id in repaired else reservation
        for reservation in lease.reservations]
    return dataclasses.replace(
        lease, reservations=reservations, updated_at=now,
        degraded=any(reservation.missing_resources for reservation in reservations))


def _write_repair(session: Session, lease: Lease, repair: _Repair, now: datetime.datetime) -> None:
    """Write a repair. The caller holds the locks on the pool's row and the lease's."""
    grant = Grant(repair.shares_after)
    if repair.reservation.status == R_ACTIVE:
        remainder = Window(max(now, lease.start_at), lease.end_at)
        lost = (_slots_by_host(repair.shares_before).keys()
                - _slots_by_host(repair.shares_after).keys())
        bookings.release(session, repair.reservation, lost, remainder)
        bookings.extend(session, [(repair.reservation, repair.shares_before, grant)], remainder)
    elif repair.changes_shares:
        bookings.replace(session, [(repair.reservation, grant)], lease.window)
    session.execute(_MARK_BOOKED, {"host_ids": sorted(_slots_by_host(repair.shares_after))})
    lease_rows.set_health(session, repair.repaired, now)


def _slots_by_host(shares: Iterable[Share]) -> dict[int, int]:
    """Return {host id: slots} of shares."""
    return {share.host_id: share.slots for share in shares}


def _describe(repairs: Iterable[_Repair]) -> str:
    """Return a text of repairs, for the log."""
    return "; ".join(
        f"{repair.reservation.id}: hosts {sorted(_slots_by_host(repair.shares_before))} became "
        f"{sorted(_slots_by_host(repair.shares_after))}"
        + (", and some are missing" if repair.repaired.missing_resources else "")
        for repair in repairs)
