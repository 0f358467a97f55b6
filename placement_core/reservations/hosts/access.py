"""Host access: refuses claims on hosts of the freepool that no reservation admits.

A claim on a host is admitted by one of these, in force there:

- a reservation of the whole host, of the consumer's project;
- slots of a reservation whose resource class the consumer claims: the consumer's usage of the
  host must be within its slots, and the usage of all consumers of that class within all slots
  of the reservation there;
- slots without a resource class (the compute service enforces them), of the consumer's project:
  the project's usage of the host must be within all of these.

The resources that slots consist of are counted: VCPU and PCPU together, MEMORY_MB and DISK_GB.
Source: design §6.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.context import Context
from placement_core.db import clock
from placement_core.placement import tables as placement_tables
from placement_core.placement.allocations import reserved_trees
from placement_core.placement.allocations.gates import (
    Check,
    Gate,
    PlannedWrite,
    Refusals,
    Undecided,
    WriteRequest,
)
from placement_core.placement.allocations.reserved_trees import PASSES, Held
from placement_core.placement.errors import ProviderReserved
from placement_core.plugin_api.reservations import Size
from placement_core.reservations import tables
from placement_core.reservations.records import R_ACTIVE

_hosts, _shares, _reservations, _leases = (
    tables.computehosts, tables.computehost_allocations, tables.lease_reservations,
    tables.leases)
_inventories, _classes = placement_tables.inventories, placement_tables.resource_classes

#: The resources that slots consist of: {resource class: its index in ``Size.amounts``}.
_COUNTED = {"VCPU": 0, "PCPU": 0, "MEMORY_MB": 1, "DISK_GB": 2}

_class_name = sa.literal(PASSES, sa.String).concat(
    sa.func.upper(sa.func.replace(_reservations.c.id, "-", "_")))
_has_class = (
    sa.exists(sa.select(_inventories.c.id).join(
        _classes, _classes.c.id == _inventories.c.resource_class_id))
    .where(_inventories.c.resource_provider_id == _hosts.c.reservation_provider_id,
           _classes.c.name == _class_name))
_in_force = (
    sa.join(_shares, _reservations, sa.and_(
        _reservations.c.id == _shares.c.reservation_id, _reservations.c.status == R_ACTIVE))
    .join(_leases, _leases.c.id == _reservations.c.lease_id))
# A share that was released before its reservation ends has an end of its own.
_OF_HOSTS = (
    sa.select(
        _hosts.c.provider_id, _hosts.c.name, _hosts.c.reservation_provider_id,
        _reservations.c.id, _leases.c.project_id, _shares.c.slots, _shares.c.vcpus,
        _shares.c.memory_mb, _shares.c.disk_gb, _shares.c.whole,
        _class_name.label("class_name"), _has_class.label("has_class"))
    .select_from(_hosts.outerjoin(_in_force, sa.and_(
        _shares.c.computehost_id == _hosts.c.id, _shares.c.end_second > clock.second())))
    .where(_hosts.c.provider_id.in_(sa.bindparam("roots", expanding=True)))
    .order_by(_hosts.c.provider_id, _reservations.c.id))


class HostAccessGate(Gate):
    """Checks claims on hosts of the freepool."""

    def prepare(self, ctx: Context, request: WriteRequest) -> Check:
        """Return the check of one attempt."""
        return _HostAccessCheck()

    def decide(
        self, ctx: Context, checks: Sequence[Check], writes: Sequence[PlannedWrite]
    ) -> Refusals:
        """Refuse consumers without a reservation of a host, or with too small a one.

        The error, ``ProviderReserved``, names the first such consumer of a write. A claim from
        a reserved tree is decided outside of groups, because the decision reads its allocations.
        """
        refusals: dict[int, ProviderReserved | Undecided] = {}
        for position, write in enumerate(writes):
            if write.in_group:
                if not write.rows.reserved_roots.keys().isdisjoint(write.plan.steps):
                    refusals[position] = Undecided()
                continue
            try:
                _check_access(write)
            except ProviderReserved as refusal:
                refusals[position] = refusal
        return refusals


class _HostAccessCheck(Check):
    judges_reserved_trees = True


def _check_access(write: PlannedWrite) -> None:
    """Refuse a write from whose reserved trees a consumer may not claim.

    The reservations that this reads are current: while the claim holds the lock on the root
    of a host's tree, no lease of the host starts or ends, and it does not enter or leave the
    freepool.

    :raises ProviderReserved: naming the first consumer that is refused.
    """
    trees = reserved_trees.find_entered(write)
    if not trees:
        return
    by_root: dict[int, list[sa.Row[Any]]] = collections.defaultdict(list)
    for row in write.session.execute(_OF_HOSTS, {"roots": [tree.root_id for tree in trees]}):
        by_root[row.provider_id].append(row)
    for tree in trees:
        # Without a row, the host has left the freepool since the claim read the trees.
        if tree.root_id in by_root:
            rows = by_root[tree.root_id]
            access = _HostAccess(rows[0], [row for row in rows if row.id], tree.held)
            access.check(tree.entrants)


class _HostAccess:
    """A host, the reservations in force there, and what consumers would use of it."""

    def __init__(
        self, host: sa.Row[Any], reservations: Sequence[sa.Row[Any]], held: Sequence[Held]
    ) -> None:
        self._name = host.name
        self._reservations = reservations
        self._held = held
        #: {class name: {consumer: slots}}
        self._slots: dict[str, dict[str, int]] = collections.defaultdict(dict)
        for allocation in held:
            if allocation.provider_id == host.reservation_provider_id:
                self._slots[allocation.resource_class][allocation.consumer_uuid] = (
                    allocation.used)

    def check(self, entrants: Mapping[str, str]) -> None:
        """Refuse the first of some consumers, {uuid: project}, that no reservation admits."""
        for consumer, project in sorted(entrants.items()):
            own_reservations = [
                row for row in self._reservations if row.project_id == project]
            if any(row.whole for row in own_reservations):
                continue
            reservations = [row for row in self._reservations
                            if consumer in self._slots.get(row.class_name, ())]
            if reservations:
                self._check_slots(consumer, reservations)
                continue
            without_class = [row for row in own_reservations if not row.has_class]
            if not without_class:
                raise ProviderReserved(self._build_refusal(consumer, project, own_reservations))
            used = self._sum_used(
                allocation for allocation in self._held if allocation.project_id == project)
            self._check_within(f"project {project} would have", used, without_class,
                               [row.slots for row in without_class])

    def _check_slots(self, consumer: str, reservations: Sequence[sa.Row[Any]]) -> None:
        used = self._sum_used(allocation for allocation in self._held
                              if allocation.consumer_uuid == consumer)
        self._check_within(f"consumer {consumer} would have", used, reservations,
                           [self._slots[row.class_name][consumer] for row in reservations])
        sharing: Collection[str] = {
            uuid for row in reservations for uuid in self._slots[row.class_name]}
        used_by_all = self._sum_used(allocation for allocation in self._held
                                     if allocation.consumer_uuid in sharing)
        self._check_within("the consumers of these slots would have", used_by_all, reservations,
                           [row.slots for row in reservations])

    def _check_within(
        self, who: str, used: Size, reservations: Sequence[sa.Row[Any]], slots: Sequence[int]
    ) -> None:
        size = Size(*(
            sum(count * amount for count, amount in zip(slots, amounts, strict=True))
            for amounts in zip(*(
                (row.vcpus, row.memory_mb, row.disk_gb) for row in reservations), strict=True)))
        if any(amount > limit for amount, limit in
               zip(used.amounts(), size.amounts(), strict=True)):
            ids = ", ".join(row.id for row in reservations)
            raise ProviderReserved(
                f"Host {self._name} is kept for reservations: {who} {used} there, and "
                f"{sum(slots)} of the slots of reservation {ids} are {size}.")

    def _build_refusal(
        self, consumer: str, project: str, own_reservations: Sequence[sa.Row[Any]]
    ) -> str:
        refusal = (f"Host {self._name} is kept for reservations: project {project} of "
                   f"consumer {consumer} has none ")
        if not own_reservations:
            return f"{refusal}in force there."
        classes = " or ".join(row.class_name for row in own_reservations)
        return (f"{refusal}there that lets in whoever does not take its resource class: "
                f"{classes}.")

    @staticmethod
    def _sum_used(held: Iterable[Held]) -> Size:
        amounts = [0, 0, 0]
        for allocation in held:
            if allocation.resource_class in _COUNTED:
                amounts[_COUNTED[allocation.resource_class]] += allocation.used
        return Size(*amounts)
