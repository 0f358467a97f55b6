"""Leases whose hosts failed get others, where there are some.

A share is lost when its host is out of service or has left the pool, or when what is
promised of the host is more than it has by now. What a lease holds elsewhere stays where
it is while it is in force. Each lease is one transaction that decides by what it finds
then, so any number may heal at the same time.
Source: spec blazar §4 (monitor, heal); differs: what is missing is placed again when it
fits, and the lease is degraded no longer.
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

#: The last second that has a date: no lease begins later.
_NEVER = 253_402_300_799

_hosts, _held = tables.computehosts, tables.computehost_allocations
_leases, _reservations = tables.leases, tables.lease_reservations

_IN_FORCE_OR_LATER = (R_PENDING, R_ACTIVE)
_soon = (
    _reservations.c.status.in_(_IN_FORCE_OR_LATER), _leases.c.deleted_at.is_(None),
    _held.c.end_second > sa.bindparam("now", type_=sa.BigInteger),
    _held.c.start_second < sa.bindparam("horizon", type_=sa.BigInteger))
_HOLDING = (
    sa.select(_leases.c.id, _leases.c.number, _leases.c.start_at).distinct()
    .join(_reservations, _reservations.c.lease_id == _leases.c.id)
    .join(_held, _held.c.reservation_id == _reservations.c.id))
_WITHOUT_HOST = (
    _HOLDING.outerjoin(_hosts, _hosts.c.id == _held.c.computehost_id)
    .where(*_soon, sa.or_(_hosts.c.id.is_(None), sa.not_(_hosts.c.reservable))))
_ON_HOSTS = _HOLDING.where(
    *_soon, _held.c.computehost_id.in_(sa.bindparam("host_ids", expanding=True)))
_MISSING = (
    sa.select(_leases.c.id, _leases.c.number, _leases.c.start_at).distinct()
    .join(_reservations, _reservations.c.lease_id == _leases.c.id)
    .where(_reservations.c.missing_resources, _reservations.c.status.in_(_IN_FORCE_OR_LATER),
           _leases.c.deleted_at.is_(None), _leases.c.end_at > sa.bindparam("now_at"),
           _leases.c.start_at < sa.bindparam("horizon_at")))

_MARK_BOOKED = sa.update(_hosts).values(promised=True).where(
    _hosts.c.id.in_(sa.bindparam("host_ids", expanding=True)), sa.not_(_hosts.c.promised))


@dataclasses.dataclass(slots=True)
class HealingResult:
    """What healing did.

    :ivar whole: leases that hold all they shall again; ``degraded`` those that do not.
    :ivar failed: leases that could not be healed now.
    """

    whole: list[str] = dataclasses.field(default_factory=list)
    degraded: list[str] = dataclasses.field(default_factory=list)
    failed: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class _Repair:
    """What becomes of one reservation.

    :ivar was: the reservation; ``is_`` as it is from now on.
    :ivar before: what it held; ``after`` what it holds from now on.
    """

    was: Reservation
    is_: Reservation
    before: Sequence[Share]
    after: Sequence[Share]

    @classmethod
    def of(
        cls, reservation: Reservation, before: Sequence[Share], after: Sequence[Share], *,
        missing: bool,
    ) -> _Repair:
        """Make what becomes of a reservation."""
        others = reservation.status == R_ACTIVE and _slots(before) != _slots(after)
        return cls(reservation, dataclasses.replace(
            reservation, missing_resources=missing,
            resources_changed=reservation.resources_changed or others), before, after)

    @property
    def moves(self) -> bool:
        """Whether it holds something else."""
        return _slots(self.before) != _slots(self.after)


class Healing:
    """Finds other hosts for what leases lost.

    :param plugins: by resource type.
    :param interval_seconds: only leases that are in force, or start within so many seconds;
        0: all.
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
        """Heal every lease that lost something, or misses something that fits by now."""
        healed = HealingResult()
        for lease_id in db.retry_writes(self._due)(ctx):
            try:
                if not db.retry_writes(self._would_change)(ctx, lease_id):
                    continue
                whole = db.retry_writes(self._heal)(ctx, lease_id)
            except core_errors.Error as error:
                LOG.warning("the lease %s could not be healed now: %s", lease_id, error)
                healed.failed.append(lease_id)
                continue
            if whole is not None:
                (healed.whole if whole else healed.degraded).append(lease_id)
        return healed

    def _due(self, ctx: Context) -> list[str]:
        """Return the leases that may need healing.

        Where more is promised of hosts than they have, those that came last give way;
        of all others, those that start first go first.
        """
        with db.read(ctx) as session:
            now = int(pool_queries.current_time(session).timestamp())
            soon = Window.of(
                now, now + self._interval_seconds if self._interval_seconds else _NEVER)
            parameters: dict[str, Any] = {"now": soon.start, "horizon": soon.end}
            full = _overfull(session, soon)
            crowded = list(session.execute(_ON_HOSTS, {**parameters, "host_ids": full})) \
                if full else []
            hurt = [*session.execute(_WITHOUT_HOST, parameters), *session.execute(_MISSING, {
                "now_at": lease_rows.naive(soon.start_at),
                "horizon_at": lease_rows.naive(soon.end_at)})]
        crowded.sort(key=lambda row: row.number, reverse=True)
        hurt.sort(key=lambda row: (row.start_at, row.number))
        return list(dict.fromkeys(row.id for row in (*crowded, *hurt)))

    def _would_change(self, ctx: Context, lease_id: str) -> bool:
        """Say whether healing a lease would change anything, without a lock."""
        with db.read(ctx) as session:
            present = lease_rows.find(session, lease_id)
            return present is not None and bool(self._repairs(session, *present))

    def _heal(self, ctx: Context, lease_id: str) -> bool | None:
        """Heal a lease; say whether it is whole then; None: there was nothing to do."""
        with db.write(ctx) as session:
            revisions.raise_(session, revisions.POOL)
            present = (lease_rows.find(session, lease_id)
                       if lease_rows.lock(session, lease_id) else None)
            if present is None:
                return None
            lease, now = present
            repairs = self._repairs(session, lease, now)
            if not repairs:
                return None
            session.record_change(kinds.LEASE, lease.number)
            healed = _healed(lease, repairs, now)
            for repair in repairs:
                _write(session, healed, repair, now)
            lease_rows.update(session, lease.number, {
                "degraded": healed.degraded, "updated_at": lease_rows.naive(now)})
            for repair in repairs:
                if repair.moves:
                    self._provisioner.change(ctx, healed, repair.is_, repair.before, repair.after)
            notifications.add(ctx, notifications.CHANGED, healed)
        LOG.warning("the lease %s has lost or got hosts: %s", lease_id, _describe(repairs))
        return not healed.degraded

    # Planning --------------------------------------------------------------------

    def _repairs(
        self, session: Session, lease: Lease, now: datetime.datetime
    ) -> list[_Repair]:
        """Return what has to be written about the reservations of a lease."""
        ours = [reservation for reservation in lease.reservations
                if reservation.status in _IN_FORCE_OR_LATER
                and reservation.resource_type in self._plugins]
        if lease.end_at <= now or not ours:
            return []
        window = Window(max(now, lease.start_at), lease.end_at)
        shares = bookings.read_shares(session, lease)
        left = _without_lost(session, window, shares)
        hurt = [reservation for reservation in ours if reservation.missing_resources
                or len(left[reservation.id]) < len(shares[reservation.id])]
        if not hurt:
            return []
        requests = [
            ReservationRequest(self._plugins[reservation.resource_type], ReservationSpec(
                reservation.id, lease.project_id, reservation.fields, left[reservation.id],
                started=reservation.status == R_ACTIVE))
            for reservation in hurt]
        pool = pool_queries.read(
            session, requests, window, cleaning_seconds=self._cleaning_seconds,
            without=[reservation.id for reservation in hurt])
        outcomes = _together(pool, window, requests) or _one_by_one(pool, window, requests)
        repairs = [
            _Repair.of(reservation, shares[reservation.id], after, missing=missing)
            for reservation, (after, missing) in zip(hurt, outcomes, strict=True)]
        return [repair for repair in repairs if repair.moves or repair.is_ != repair.was]


#: What a reservation gets: all that it holds from now on, and whether that is too little.
_Outcome = tuple[Sequence[Share], bool]


def _together(
    pool: Pool, window: Window, requests: Sequence[ReservationRequest]
) -> list[_Outcome] | None:
    """Give all reservations what they need, or none of them."""
    try:
        return [(granted.shares, False) for granted in planner.plan(pool, window, requests)]
    except (DoesNotFit, NotChangeable, core_errors.Invalid):
        return None


def _one_by_one(
    pool: Pool, window: Window, requests: Sequence[ReservationRequest]
) -> list[_Outcome]:
    """Give each reservation as much as there is, beside what the others hold."""
    holding = {request.spec.reservation_id: request.spec.held for request in requests}
    outcomes = []
    for request in requests:
        others = [share for id_, shares in holding.items()
                  if id_ != request.spec.reservation_id for share in shares]
        shares, missing = _as_much_as_fits(
            pool.beside(others, window.start, window.end), window, request)
        holding[request.spec.reservation_id] = shares
        outcomes.append((shares, missing))
    return outcomes


def _as_much_as_fits(pool: Pool, window: Window, request: ReservationRequest) -> _Outcome:
    held = sum(share.slots for share in request.spec.held)
    try:
        [demand] = planner.needs(pool, [request])
        if isinstance(demand, Amounts):
            return request.spec.held, False
        target = amount = planner.required_count(demand)
        while amount > held:
            try:
                [granted] = planner.plan(pool, window, [request], [_less(demand, amount)])
            except DoesNotFit as refusal:
                amount -= refusal.missing.get("slots") or refusal.missing["hosts"]
            else:
                return granted.shares, amount < target
    except (NotChangeable, core_errors.Invalid) as error:
        LOG.debug("reservation %s: %s", request.spec.reservation_id, error)
        return request.spec.held, True
    return request.spec.held, held < target


def _less(demand: WholeHosts | Slots, amount: int) -> Demand:
    """Return a demand of so many slots, or of at least so many hosts."""
    if isinstance(demand, Slots):
        return dataclasses.replace(demand, amount=amount)
    return dataclasses.replace(demand, minimum=amount)


# What is lost ------------------------------------------------------------------------


def _without_lost(
    session: Session, window: Window, shares: Mapping[str, Sequence[Share]]
) -> dict[str, list[Share]]:
    """Return the shares of a lease's reservations without those that are lost."""
    on_hosts: defaultdict[int, list[Share]] = defaultdict(list)
    for of_reservation in shares.values():
        for share in of_reservation:
            on_hosts[share.host_id].append(share)
    pool = _read_pool(session, window, without=shares)
    free = pool.free(window.start, window.end)
    lost = {
        host_id for host_id, row in zip(on_hosts, pool.rows(on_hosts), strict=True)
        if row < 0 or not pool.hosts.reservable[row]
        or not _has_room(free, row, on_hosts[host_id])}
    return {id_: [share for share in of_reservation if share.host_id not in lost]
            for id_, of_reservation in shares.items()}


def _has_room(free: FreeCapacity, row: int, shares: Iterable[Share]) -> bool:
    """Say whether a host has room for shares beside what others hold of it."""
    if any(share.whole for share in shares):
        return bool(free.untouched[row])
    needed = sum(share.slots * np.array(share.size.amounts()) for share in shares)
    return bool(free.shareable[row] and (needed <= free.amounts[row]).all())


def _overfull(session: Session, window: Window) -> list[int]:
    """Return the hosts of which more is promised at some moment than they have."""
    pool = _read_pool(session, window)
    steps = pool.timelines.steps(window.start, window.end)
    free = pool.free_in_steps(steps.things, steps.amounts)
    # Of a whole host nothing else is promised; how large it is does not matter.
    full = steps.things[free.shareable & (free.amounts < 0).any(axis=1)]
    host_ids: list[int] = pool.hosts.ids[np.unique(full)].tolist()
    return host_ids


def _read_pool(
    session: Session, window: Window, *, without: Collection[str] = ()
) -> Pool:
    """Return what is promised of the pool.

    Without the time for cleaning: what was promised when the option was another one has
    not lost anything.
    """
    return pool_queries.read(session, (), window, cleaning_seconds=0, without=without)


# Writing -----------------------------------------------------------------------------


def _healed(lease: Lease, repairs: Iterable[_Repair], now: datetime.datetime) -> Lease:
    """Return a lease as it is then."""
    others = {repair.was.id: repair.is_ for repair in repairs}
    reservations = [
        dataclasses.replace(others[reservation.id], updated_at=now)
        if reservation.id in others else reservation
        for reservation in lease.reservations]
    return dataclasses.replace(
        lease, reservations=reservations, updated_at=now,
        degraded=any(reservation.missing_resources for reservation in reservations))


def _write(session: Session, lease: Lease, repair: _Repair, now: datetime.datetime) -> None:
    """Write down what becomes of a reservation; the pool's row and the lease's are taken."""
    granted = Grant(repair.after)
    if repair.was.status == R_ACTIVE:
        left = Window(max(now, lease.start_at), lease.end_at)
        gone = _slots(repair.before).keys() - _slots(repair.after).keys()
        bookings.release(session, repair.was, gone, left)
        bookings.extend(session, [(repair.was, repair.before, granted)], left)
    elif repair.moves:
        bookings.replace(session, [(repair.was, granted)], lease.window)
    session.execute(_MARK_BOOKED, {"host_ids": sorted(_slots(repair.after))})
    lease_rows.set_health(session, repair.is_, now)


def _slots(shares: Iterable[Share]) -> dict[int, int]:
    """Return how many slots shares have, by the ids of their hosts."""
    return {share.host_id: share.slots for share in shares}


def _describe(repairs: Iterable[_Repair]) -> str:
    """Return what became of reservations, for the log."""
    return "; ".join(
        f"{repair.was.id}: hosts {sorted(_slots(repair.before))} became "
        f"{sorted(_slots(repair.after))}"
        + (", and some are missing" if repair.is_.missing_resources else "")
        for repair in repairs)
