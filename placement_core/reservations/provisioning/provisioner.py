"""What leases do outside of their own tables: in placement, and in the compute service.

Every function is called inside the transaction that writes down what it is about, so
what it writes is there if and only if that is. Calls to a compute service are written
to the outbox and made later.
Source: design §6, requirement R4.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session, TransactionConflict
from placement_core.placement import allocations, locks, tables as placed
from placement_core.placement.records import AllocationWrite
from placement_core.plugin_api.reservations import Share
from placement_core.reservations import errors, tables
from placement_core.reservations.provisioning import compute_calls, outbox, slots
from placement_core.reservations.records import R_ACTIVE, Host, Lease, PoolHost, Reservation

LOG = logging.getLogger(__name__)

INSTANCE, HOST = "virtual:instance", "physical:host"
#: How many leftovers a message names.
_SHOWN = 5

_hosts, _allocations, _providers, _consumers, _projects = (
    tables.computehosts, placed.allocations, placed.resource_providers, placed.consumers,
    placed.projects)

_POOL_HOSTS = sa.select(
    _hosts.c.id, _hosts.c.name, _hosts.c.provider_id, _hosts.c.reservation_provider_id,
).where(_hosts.c.id.in_(sa.bindparam("ids", expanding=True))).order_by(_hosts.c.id)
_IN_TREES = _providers.c.root_provider_id.in_(sa.bindparam("roots", expanding=True))
_TREES = sa.select(_providers.c.id).where(_IN_TREES)
#: What others have there is none of a reservation's business: it may be of one before.
_OWN_ON_TREES = (
    sa.select(_allocations.c.consumer_id)
    .join(_providers, _providers.c.id == _allocations.c.resource_provider_id)
    .join(_consumers, _consumers.c.uuid == _allocations.c.consumer_id)
    .join(_projects, _projects.c.id == _consumers.c.project_id)
    .where(_IN_TREES, _projects.c.external_id == sa.bindparam("of_project"))
    .distinct().order_by(_allocations.c.consumer_id))


class Provisioner:
    """What the design of the options makes of hosts and reservations.

    Used from any thread.

    :param design: ``placement``: an instance reservation is slots in placement;
        ``aggregate``: and an aggregate of their hosts in the compute service, as well as one
        of all hosts that can be reserved.
    :param leftovers: what becomes of allocations that outlive their reservation:
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
        """A host is in the freepool from now on."""
        if self._in_aggregate:
            with db.write(ctx) as session:
                outbox.put(session, f"host:{host.id}", None,
                           compute_calls.host_enters(host.id, host.name))

    def remove_host(self, ctx: Context, host: Host) -> None:
        """A host is in the freepool no longer."""
        # Also of a freepool that is there from another design.
        if self._acts:
            with db.write(ctx) as session:
                outbox.cancel(session, f"host:{host.id}")
                outbox.put(session, f"host:{host.id}", None,
                           compute_calls.host_leaves(host.id, host.name))

    def create(self, ctx: Context, lease: Lease, reservation: Reservation) -> None:
        """A reservation was admitted."""
        if self._acts:
            with db.write(ctx) as session:
                outbox.put(session, reservation.id, lease.id,
                           self._creation_calls(lease, reservation))

    def change(
        self, ctx: Context, lease: Lease, reservation: Reservation,
        before: Sequence[Share], after: Sequence[Share],
    ) -> None:
        """The fields of a reservation, or what it holds of hosts, are others now.

        Its status tells whether it is in force; then ``after`` is in force at once.
        """
        with db.write(ctx) as session:
            if reservation.status == R_ACTIVE:
                self._move(session, lease, reservation, before, after)
            elif self._acts:
                outbox.cancel(session, reservation.id)
                outbox.put(session, reservation.id, lease.id,
                           self._creation_calls(lease, reservation))

    def start(
        self, ctx: Context, lease: Lease, reservation: Reservation, shares: Sequence[Share]
    ) -> None:
        """A reservation comes into force."""
        with db.write(ctx) as session:
            if self._acts and reservation.resource_type == INSTANCE:
                # It may have been made under another design.
                outbox.put(session, reservation.id, lease.id,
                           self._creation_calls(lease, reservation))
            self._take(session, lease, reservation, shares, _read_pool_hosts(session, shares),
                       in_aggregate=self._in_aggregate)
            if self._acts and reservation.resource_type == INSTANCE:
                outbox.put(session, reservation.id, lease.id,
                           compute_calls.grant_slots(reservation.id, lease.project_id))

    def prepare_end(
        self, ctx: Context, lease: Lease, reservation: Reservation, shares: Sequence[Share]
    ) -> None:
        """A reservation will end soon."""
        if (self._acts and reservation.resource_type == HOST
                and reservation.fields["before_end"] == "snapshot"):
            with db.write(ctx) as session:
                hosts = _read_pool_hosts(session, shares)
                outbox.put(session, reservation.id, lease.id,
                           compute_calls.snapshot_hosts(reservation.id, hosts))

    def end(
        self, ctx: Context, lease: Lease, reservation: Reservation, shares: Sequence[Share], *,
        was_in_force: bool,
    ) -> None:
        """A reservation is over, or was given up before it began: nothing of it stays.

        :raises WrongStatus: allocations use it still, and ``[reservations] leftovers``
            refuses that.
        """
        with db.write(ctx) as session:
            hosts = _read_pool_hosts(session, shares) if was_in_force else []
            if was_in_force and reservation.resource_type == INSTANCE:
                # Also of one that began when the design was another.
                self._end_slots(ctx, session, reservation, hosts)
            elif hosts and reservation.resource_type == HOST:
                self._end_hosts(ctx, session, lease, reservation, hosts)
            else:
                _lock_roots(session, hosts)
            if self._acts:
                outbox.cancel_but_images(session, reservation.id, self._patience_seconds)
                outbox.put(session, reservation.id, lease.id, self._end_calls(
                    lease, reservation, hosts, was_in_force=was_in_force))

    # What belongs to which resource type -----------------------------------------

    def _creation_calls(
        self, lease: Lease, reservation: Reservation
    ) -> list[compute_calls.ComputeCall]:
        if reservation.resource_type == INSTANCE:
            return compute_calls.make_slots(
                reservation.id, lease.project_id, reservation.fields,
                slots.resource_class(reservation.id), in_aggregate=self._in_aggregate,
                had_group=reservation.made.get("server_group_id") is not None)
        if reservation.resource_type == HOST:
            return compute_calls.make_hosts(reservation.id, lease.project_id)
        return []

    def _take(
        self, session: Session, lease: Lease, reservation: Reservation,
        shares: Sequence[Share], hosts: Sequence[PoolHost], *, in_aggregate: bool,
        counted: bool = True,
    ) -> None:
        """Bring shares into force: of a reservation that starts, or that gets more.

        :param in_aggregate: it has an aggregate, or shall have one.
        :param counted: its slots are inventories; False: it began in an earlier release.
        """
        id_ = reservation.id
        if reservation.resource_type == INSTANCE and counted and hosts:
            counts = {share.host_id: share.slots for share in shares}
            slots.put(session, id_, {host: counts[host.id] for host in hosts})
        else:
            _lock_roots(session, hosts)
        if in_aggregate and reservation.resource_type == INSTANCE:
            outbox.put(session, id_, lease.id, compute_calls.add_hosts(id_, hosts))
        elif self._acts and reservation.resource_type == HOST:
            outbox.put(session, id_, lease.id, compute_calls.take_hosts(
                id_, hosts, freepool=self._in_aggregate))

    def _move(
        self, session: Session, lease: Lease, reservation: Reservation,
        before: Sequence[Share], after: Sequence[Share],
    ) -> None:
        """Put what changed of a reservation in force into force, what it gets first."""
        slots_before, slots_after = ({share.host_id: share.slots for share in shares}
                      for shares in (before, after))
        grown = [share for share in after if slots_before.get(share.host_id) != share.slots]
        lost = [share for share in before if share.host_id not in slots_after]
        id_ = reservation.id
        # It may have begun under another design, whose flavor its users have still.
        in_aggregate = self._in_aggregate or (
            self._acts and reservation.made.get("aggregate_id") is not None)
        if in_aggregate and grown and reservation.resource_type == INSTANCE:
            outbox.put(session, id_, lease.id,
                       compute_calls.make_slot_aggregate(
                           id_, lease.project_id if self._in_aggregate else None))
        self._take(session, lease, reservation, grown, _read_pool_hosts(session, grown),
                   in_aggregate=in_aggregate,
                   counted=not before or slots.are_there(session, id_))
        hosts = _read_pool_hosts(session, lost)
        if reservation.resource_type == INSTANCE and hosts:
            slots.withdraw(session, id_, hosts)
        else:
            _lock_roots(session, hosts)
        if in_aggregate and reservation.resource_type == INSTANCE:
            self._leave(session, lease, id_, hosts, compute_calls.remove_hosts(id_, hosts))
        elif self._acts and reservation.resource_type == HOST:
            self._leave(session, lease, id_, hosts, compute_calls.give_up_hosts(
                id_, hosts, freepool=self._in_aggregate))

    @staticmethod
    def _leave(
        session: Session, lease: Lease, id_: str, hosts: Sequence[PoolHost],
        calls: Iterable[compute_calls.ComputeCall],
    ) -> None:
        if hosts:
            outbox.cancel(session, id_, [host.id for host in hosts])
            outbox.put(session, id_, lease.id, calls)

    def _end_calls(
        self, lease: Lease, reservation: Reservation, hosts: Sequence[PoolHost], *,
        was_in_force: bool,
    ) -> list[compute_calls.ComputeCall]:
        if reservation.resource_type == INSTANCE:
            return compute_calls.end_slots(
                reservation.id, lease.project_id, was_in_force=was_in_force)
        if reservation.resource_type == HOST:
            return compute_calls.end_hosts(reservation.id, hosts, freepool=self._in_aggregate)
        return []

    # What outlives its reservation ---------------------------------------------

    def _end_slots(
        self, ctx: Context, session: Session, reservation: Reservation,
        hosts: Sequence[PoolHost],
    ) -> None:
        if self._leftovers == "delete":
            _delete(ctx, slots.consumers(session, reservation.id))
        self._handle_leftovers(reservation, slots.remove(ctx, session, reservation.id, hosts))

    def _end_hosts(
        self, ctx: Context, session: Session, lease: Lease, reservation: Reservation,
        hosts: Sequence[PoolHost],
    ) -> None:
        roots = {"roots": [host.root_id for host in hosts]}
        own = {**roots, "of_project": lease.project_id}
        if self._leftovers == "delete":
            _delete(ctx, session.execute(_OWN_ON_TREES, own).scalars().all())
        # Who claims of these hosts at this moment is seen, or sees that the lease has ended.
        locks.lock_providers(session, dict.fromkeys(session.execute(_TREES, roots).scalars(), 0))
        self._handle_leftovers(reservation, session.execute(_OWN_ON_TREES, own).scalars().all())

    def _handle_leftovers(self, reservation: Reservation, consumers: Sequence[str]) -> None:
        """Do what the options say about those who hold something still.

        :raises WrongStatus: they say that the reservation does not end.
        """
        if not consumers:
            return
        if self._leftovers == "delete":
            raise TransactionConflict  # They came after the others were deleted.
        named = ", ".join(consumers[:_SHOWN]) + (
            f" and {len(consumers) - _SHOWN} more" if len(consumers) > _SHOWN else "")
        if self._leftovers == "refuse":
            raise errors.WrongStatus(
                f"The reservation {reservation.id} cannot end: allocations use it still, "
                f"of {named}.")
        # Where there is a compute service, it has yet to be told that servers have to go.
        LOG.log(logging.INFO if self._acts else logging.WARNING,
                "the reservation %s has ended, and allocations stay, of %s",
                reservation.id, named)


def _lock_roots(session: Session, hosts: Iterable[PoolHost]) -> None:
    """Lock the roots of hosts: a claim on them comes before, or after."""
    locks.lock_providers(session, {host.root_id: 0 for host in hosts})


def _delete(ctx: Context, consumers: Collection[str]) -> None:
    """Take everything away from consumers, in one go."""
    if consumers:
        allocations.replace(ctx, [
            AllocationWrite(uuid, {}, project_id="", user_id="") for uuid in consumers])


def _read_pool_hosts(session: Session, shares: Sequence[Share]) -> list[PoolHost]:
    """Return the hosts of shares, in the order of ids."""
    if not shares:
        return []
    rows = session.execute(_POOL_HOSTS, {"ids": sorted(share.host_id for share in shares)})
    return [PoolHost(row.id, row.name, row.provider_id, row.reservation_provider_id)
            for row in rows]
