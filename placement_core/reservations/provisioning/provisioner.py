"""Applies changes of hosts and reservations to placement and to the compute service.

Every method is called inside the transaction that records the change, so both are committed
or neither is. Calls to a compute service are inserted into the outbox and made later.
Source: design §6, requirement R4.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Collection, Iterable, Sequence

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session, TransactionConflict
from placement_core.placement import allocations, locks, tables as placement_tables
from placement_core.placement.records import AllocationWrite
from placement_core.plugin_api.reservations import Share
from placement_core.reservations import errors, tables
from placement_core.reservations.provisioning import compute_calls, outbox, slots
from placement_core.reservations.records import R_ACTIVE, Host, Lease, PoolHost, Reservation

LOG = logging.getLogger(__name__)

INSTANCE, HOST = "virtual:instance", "physical:host"
#: How many consumers a message names.
_MOST_NAMED = 5

_hosts, _allocations, _providers, _consumers, _projects = (
    tables.computehosts, placement_tables.allocations, placement_tables.resource_providers,
    placement_tables.consumers, placement_tables.projects)

_POOL_HOSTS = sa.select(
    _hosts.c.id, _hosts.c.name, _hosts.c.provider_id,
).where(_hosts.c.id.in_(sa.bindparam("ids", expanding=True))).order_by(_hosts.c.id)
_IN_TREES = _providers.c.root_provider_id.in_(sa.bindparam("roots", expanding=True))
_TREES = sa.select(_providers.c.id).where(_IN_TREES)
#: Only those of the reservation's project: others may belong to an earlier reservation.
_PROJECT_CONSUMERS = (
    sa.select(_allocations.c.consumer_id)
    .join(_providers, _providers.c.id == _allocations.c.resource_provider_id)
    .join(_consumers, _consumers.c.uuid == _allocations.c.consumer_id)
    .join(_projects, _projects.c.id == _consumers.c.project_id)
    .where(_IN_TREES, _projects.c.external_id == sa.bindparam("of_project"))
    .distinct().order_by(_allocations.c.consumer_id))


class Provisioner:
    """Applies changes of hosts and reservations as ``[reservations] instance_design`` asks.

    Used from any thread.

    :param design: ``placement``: an instance reservation is slots in placement;
        ``aggregate``: it has an aggregate of their hosts in the compute service as well, where
        another aggregate has all hosts that can be reserved (the freepool).
    :param leftovers: how allocations that outlive their reservation are treated:
        ``report``, ``delete`` or ``refuse``.
    :param acts: there is a compute service.
    :param patience_seconds: how long images of servers may take at the end.
    """

    def __init__(
        self, *, design: str, leftovers: str, acts: bool, patience_seconds: int
    ) -> None:
        self._leftovers = leftovers
        self._acts = acts
        self._patience_seconds = patience_seconds
        self._in_aggregate = acts and design == "aggregate"

    def add_host(self, ctx: Context, host: Host) -> None:
        """Apply that a host enters the freepool."""
        if self._acts:
            with db.write(ctx) as session:
                outbox.adopt_calls(session, host.id, host.name)
                if self._in_aggregate:
                    outbox.put(session, f"host:{host.id}", None,
                               compute_calls.add_to_freepool(host.id, host.name))

    def remove_host(self, ctx: Context, host: Host) -> None:
        """Apply that a host leaves the freepool."""
        # Also where the design is another now: the compute service may still have a freepool.
        if self._acts:
            with db.write(ctx) as session:
                # Also those that the compute service refuses because the host is gone there.
                outbox.cancel_in_freepool(session, host.id)
                outbox.put(session, f"host:{host.id}", None,
                           compute_calls.remove_from_freepool(host.id, host.name))

    def create(self, ctx: Context, lease: Lease, reservation: Reservation) -> None:
        """Apply that a reservation was created."""
        if self._acts:
            with db.write(ctx) as session:
                outbox.put(session, reservation.id, lease.id,
                           self._creation_calls(lease, reservation))

    def change(
        self, ctx: Context, lease: Lease, reservation: Reservation,
        before: Sequence[Share], after: Sequence[Share],
    ) -> None:
        """Apply that the fields of a reservation, or its shares of hosts, have changed.

        If its status says that it is in force, ``after`` comes into force at once.
        """
        with db.write(ctx) as session:
            if reservation.status == R_ACTIVE:
                self._update_active(ctx, session, lease, reservation, before, after)
            elif self._acts:
                outbox.cancel(session, reservation.id)
                outbox.put(session, reservation.id, lease.id,
                           self._creation_calls(lease, reservation))

    def start(
        self, ctx: Context, lease: Lease, reservation: Reservation, shares: Sequence[Share]
    ) -> None:
        """Apply that a reservation comes into force."""
        with db.write(ctx) as session:
            if self._acts:
                # It may have been created under another design, or without a compute service.
                outbox.put(session, reservation.id, lease.id,
                           self._creation_calls(lease, reservation))
            self._assign_hosts(
                ctx, session, lease, reservation, shares, _read_pool_hosts(session, shares),
                in_aggregate=self._in_aggregate)
            if self._acts and reservation.resource_type == INSTANCE:
                outbox.put(session, reservation.id, lease.id,
                           compute_calls.grant_slots(reservation.id, lease.project_id))

    def prepare_end(
        self, ctx: Context, lease: Lease, reservation: Reservation, shares: Sequence[Share],
        due_at: datetime.datetime | None = None,
    ) -> None:
        """Apply that a reservation will end soon: images are made, if its fields say so.

        :param due_at: when this was due; another time if the end was put off since the last one.
        """
        if (self._acts and _are_whole(shares)
                and reservation.fields.get("before_end") == "snapshot"):
            with db.write(ctx) as session:
                hosts = _read_pool_hosts(session, shares)
                outbox.put(session, reservation.id, lease.id,
                           compute_calls.snapshot_hosts(reservation.id, hosts, due_at))

    def end(
        self, ctx: Context, lease: Lease, reservation: Reservation, shares: Sequence[Share], *,
        was_in_force: bool,
    ) -> None:
        """Apply that a reservation has ended, or was deleted before it began: all of it goes.

        :raises WrongStatus: allocations still use it, and ``[reservations] leftovers``
            is ``refuse``.
        """
        with db.write(ctx) as session:
            hosts = _read_pool_hosts(session, shares) if was_in_force else []
            whole = hosts if _are_whole(shares) else []
            if was_in_force and reservation.resource_type == INSTANCE:
                # Also if it began under another design.
                self._end_slots(ctx, session, reservation, hosts)
            elif whole:
                self._end_hosts(ctx, session, lease, reservation, whole)
            else:
                _lock_roots(session, hosts)
            if self._acts:
                outbox.cancel_but_images(session, reservation.id, self._patience_seconds)
                outbox.put(session, reservation.id, lease.id, self._end_calls(
                    lease, reservation,
                    hosts if reservation.resource_type == INSTANCE else whole,
                    was_in_force=was_in_force))

    # By resource type, and by what shares are ------------------------------------

    def _creation_calls(
        self, lease: Lease, reservation: Reservation
    ) -> list[compute_calls.ComputeCall]:
        if reservation.resource_type == INSTANCE:
            return compute_calls.create_slots(
                reservation.id, lease.project_id, reservation.fields,
                slots.resource_class(reservation.id), in_aggregate=self._in_aggregate,
                had_group=reservation.compute_ids.get("server_group_id") is not None)
        if reservation.resource_type == HOST:
            return compute_calls.put_host_aggregate(reservation.id, lease.project_id)
        return []

    def _assign_hosts(
        self, ctx: Context, session: Session, lease: Lease, reservation: Reservation,
        shares: Sequence[Share], hosts: Sequence[PoolHost], *, in_aggregate: bool,
        has_inventories: bool = True,
    ) -> None:
        """Bring shares into force: those of a reservation that starts, or additional ones.

        :param in_aggregate: it has an aggregate, or will have one.
        :param has_inventories: its slots are inventories; False: it began in an earlier release.
        """
        id_ = reservation.id
        if reservation.resource_type == INSTANCE and has_inventories and hosts:
            counts = {share.host_id: share.slots for share in shares}
            slots.put(ctx, session, id_, {host: counts[host.id] for host in hosts})
        else:
            _lock_roots(session, hosts)
        if in_aggregate and reservation.resource_type == INSTANCE:
            outbox.put(session, id_, lease.id, compute_calls.add_hosts(id_, hosts))
        elif self._acts and _are_whole(shares):
            if reservation.resource_type != HOST:
                # Only this type says at its creation that it will have whole hosts.
                outbox.put(session, id_, lease.id,
                           compute_calls.put_host_aggregate(id_, lease.project_id))
            outbox.put(session, id_, lease.id, compute_calls.assign_hosts(
                id_, hosts, freepool=self._in_aggregate))

    def _update_active(
        self, ctx: Context, session: Session, lease: Lease, reservation: Reservation,
        before: Sequence[Share], after: Sequence[Share],
    ) -> None:
        """Apply new shares to a reservation in force: first what it gets, then what it loses."""
        slots_before, slots_after = (
            {(share.host_id, share.whole): share.slots for share in shares}
            for shares in (before, after))
        changed = [share for share in after
                   if slots_before.get((share.host_id, share.whole)) != share.slots]
        removed = [share for share in before
                   if (share.host_id, share.whole) not in slots_after]
        id_ = reservation.id
        # If it began under another design, its users still have the flavor of that one.
        in_aggregate = self._in_aggregate or (
            self._acts and reservation.compute_ids.get("aggregate_id") is not None)
        if in_aggregate and changed and reservation.resource_type == INSTANCE:
            outbox.put(session, id_, lease.id,
                       compute_calls.put_slot_aggregate(
                           id_, lease.project_id if self._in_aggregate else None))
        self._assign_hosts(
            ctx, session, lease, reservation, changed, _read_pool_hosts(session, changed),
            in_aggregate=in_aggregate,
            has_inventories=not before or slots.exist(session, id_))
        hosts = _read_pool_hosts(session, removed)
        if reservation.resource_type == INSTANCE and hosts:
            slots.withdraw(session, id_, hosts)
        else:
            _lock_roots(session, hosts)
        whole = hosts if _are_whole(removed) else []
        if self._in_aggregate:
            for host in whole:
                # Not a call about the reservation, whose end discards those.
                outbox.put(session, f"host:{host.id}", None,
                           compute_calls.add_to_freepool(host.id, host.name))
        leaving = hosts if reservation.resource_type == INSTANCE and in_aggregate else whole
        if leaving and self._acts:
            outbox.cancel(session, id_, [host.id for host in leaving])
            outbox.put(session, id_, lease.id, compute_calls.remove_hosts(id_, leaving))

    def _end_calls(
        self, lease: Lease, reservation: Reservation, hosts: Sequence[PoolHost], *,
        was_in_force: bool,
    ) -> list[compute_calls.ComputeCall]:
        if reservation.resource_type == INSTANCE:
            return compute_calls.end_slots(
                reservation.id, lease.project_id, hosts, was_in_force=was_in_force)
        if reservation.resource_type == HOST or was_in_force:
            # Whatever the other types have now, they may have had whole hosts.
            return compute_calls.end_hosts(reservation.id, hosts, freepool=self._in_aggregate)
        return []

    # Allocations that outlive their reservation ----------------------------------

    def _end_slots(
        self, ctx: Context, session: Session, reservation: Reservation,
        hosts: Sequence[PoolHost],
    ) -> None:
        if self._leftovers == "delete":
            _delete_allocations(ctx, slots.find_consumers(session, reservation.id))
        self._handle_leftovers(reservation, slots.remove(ctx, session, reservation.id, hosts))

    def _end_hosts(
        self, ctx: Context, session: Session, lease: Lease, reservation: Reservation,
        hosts: Sequence[PoolHost],
    ) -> None:
        roots = {"roots": [host.root_id for host in hosts]}
        parameters = {**roots, "of_project": lease.project_id}
        if self._leftovers == "delete":
            _delete_allocations(
                ctx, session.execute(_PROJECT_CONSUMERS, parameters).scalars().all())
        # A claim on these hosts either commits first and is read below, or waits and then sees
        # that the lease has ended.
        locks.lock_providers(session, dict.fromkeys(session.execute(_TREES, roots).scalars(), 0))
        self._handle_leftovers(
            reservation, session.execute(_PROJECT_CONSUMERS, parameters).scalars().all())

    def _handle_leftovers(self, reservation: Reservation, consumers: Sequence[str]) -> None:
        """Treat consumers that still have allocations as ``[reservations] leftovers`` says.

        :raises WrongStatus: it is ``refuse``: the reservation does not end.
        """
        if not consumers:
            return
        if self._leftovers == "delete":
            raise TransactionConflict  # They claimed after the others were deleted.
        names = ", ".join(consumers[:_MOST_NAMED]) + (
            f" and {len(consumers) - _MOST_NAMED} more" if len(consumers) > _MOST_NAMED else "")
        if self._leftovers == "refuse":
            raise errors.WrongStatus(
                f"The reservation {reservation.id} cannot end: allocations use it still, "
                f"of {names}.")
        # With a compute service this is normal: the calls that delete the servers come later.
        LOG.log(logging.INFO if self._acts else logging.WARNING,
                "the reservation %s has ended, and allocations stay, of %s",
                reservation.id, names)


def _are_whole(shares: Iterable[Share]) -> bool:
    """Return whether shares are of whole hosts; all shares of a reservation are of one kind."""
    return any(share.whole for share in shares)


def _lock_roots(session: Session, hosts: Iterable[PoolHost]) -> None:
    """Lock the roots of hosts: each claim on them comes before this transaction, or after it."""
    locks.lock_providers(session, {host.root_id: 0 for host in hosts})


def _delete_allocations(ctx: Context, consumers: Collection[str]) -> None:
    """Delete all allocations of consumers, in one write."""
    if consumers:
        allocations.replace(ctx, [
            AllocationWrite(uuid, {}, project_id="", user_id="") for uuid in consumers])


def _read_pool_hosts(session: Session, shares: Sequence[Share]) -> list[PoolHost]:
    """Return the hosts of shares, in the order of their ids."""
    if not shares:
        return []
    rows = session.execute(_POOL_HOSTS, {"ids": sorted(share.host_id for share in shares)})
    return [PoolHost(row.id, row.name, row.provider_id) for row in rows]
