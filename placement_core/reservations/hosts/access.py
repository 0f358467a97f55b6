"""The fence: refuses claims on hosts of the freepool that no reservation admits.

A claim is let onto a host by

- a reservation of the whole host, in force there, of the consumer's project;
- slots of a reservation, in force there, whose resource class the consumer takes: what it
  has of the host is within its slots, and what all have who take that class is within all
  slots there are;
- slots without a resource class (they are a matter of the compute service), of the
  consumer's project: what the project has of the host is within all of these.

Of the host's resources VCPU and PCPU together, MEMORY_MB and DISK_GB are counted: what
slots consist of. Source: design §6.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.context import Context
from placement_core.db import clock
from placement_core.placement import tables as placed
from placement_core.placement.allocations import reserved_trees
from placement_core.placement.allocations.gates import Check, Gate, PlannedWrite, WriteRequest
from placement_core.placement.allocations.reserved_trees import PASSES, Held
from placement_core.placement.errors import Fenced
from placement_core.plugin_api.reservations import Size
from placement_core.reservations import tables
from placement_core.reservations.records import R_ACTIVE

_hosts, _shares, _reservations, _leases = (
    tables.computehosts, tables.computehost_allocations, tables.lease_reservations,
    tables.leases)
_inventories, _classes = placed.inventories, placed.resource_classes

#: What slots consist of, by resource class: places in a ``Size``.
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
# A share that was given up before its reservation ends has an end of its own.
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
    """Lets consumers onto hosts of the freepool."""

    def prepare(self, ctx: Context, request: WriteRequest) -> Check:
        """Return who decides about an attempt."""
        return _HostAccessCheck()


class _HostAccessCheck(Check):
    judges_reserved_trees = True

    def decide(self, ctx: Context, write: PlannedWrite) -> None:
        """Refuse who has no reservation of a host, or too small a one.

        What is read is of now: nobody starts or ends a lease of a host, or lets one in or
        out of the freepool, while the root of its tree is held.

        :raises Fenced: naming the first who is not let in.
        """
        trees = reserved_trees.entered(write)
        if not trees:
            return
        by_root: dict[int, list[sa.Row[Any]]] = collections.defaultdict(list)
        for row in write.session.execute(
                _OF_HOSTS, {"roots": [tree.root_id for tree in trees]}):
            by_root[row.provider_id].append(row)
        for tree in trees:
            # Without a row, the host has left the freepool since the claim asked.
            if tree.root_id in by_root:
                rows = by_root[tree.root_id]
                _Host(rows[0], [row for row in rows if row.id], tree.held).check(tree.entrants)


class _Host:
    """A host, the reservations in force there, and what consumers would have of it."""

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
        """Refuse the first of some consumers, {uuid: project}, that is not let in."""
        for consumer, project in sorted(entrants.items()):
            of_project = [row for row in self._reservations if row.project_id == project]
            if any(row.whole for row in of_project):
                continue
            taken = [row for row in self._reservations
                     if consumer in self._slots.get(row.class_name, ())]
            if taken:
                self._check_slots(consumer, taken)
                continue
            unnamed = [row for row in of_project if not row.has_class]
            if not unnamed:
                raise Fenced(self._refusal(consumer, project, of_project))
            used = self._sum_used(
                allocation for allocation in self._held if allocation.project_id == project)
            self._check_within(
                f"project {project} would have", used, unnamed, [row.slots for row in unnamed])

    def _check_slots(self, consumer: str, taken: Sequence[sa.Row[Any]]) -> None:
        own = self._sum_used(allocation for allocation in self._held
                             if allocation.consumer_uuid == consumer)
        self._check_within(f"consumer {consumer} would have", own, taken,
                      [self._slots[row.class_name][consumer] for row in taken])
        sharing: Collection[str] = {
            uuid for row in taken for uuid in self._slots[row.class_name]}
        of_all = self._sum_used(allocation for allocation in self._held
                               if allocation.consumer_uuid in sharing)
        self._check_within("the consumers of these slots would have", of_all, taken,
                      [row.slots for row in taken])

    def _check_within(
        self, who: str, used: Size, reservations: Sequence[sa.Row[Any]], slots: Sequence[int]
    ) -> None:
        size = Size(*(
            sum(count * amount for count, amount in zip(slots, amounts, strict=True))
            for amounts in zip(*(
                (row.vcpus, row.memory_mb, row.disk_gb) for row in reservations), strict=True)))
        if any(amount > limit for amount, limit in
               zip(used.amounts(), size.amounts(), strict=True)):
            named = ", ".join(row.id for row in reservations)
            raise Fenced(
                f"Host {self._name} is kept for reservations: {who} {used} there, and "
                f"{sum(slots)} of the slots of reservation {named} are {size}.")

    def _refusal(
        self, consumer: str, project: str, of_project: Sequence[sa.Row[Any]]
    ) -> str:
        refusal = (f"Host {self._name} is kept for reservations: project {project} of "
                   f"consumer {consumer} has none ")
        if not of_project:
            return f"{refusal}in force there."
        classes = " or ".join(row.class_name for row in of_project)
        return (f"{refusal}there that lets in whoever does not take its resource class: "
                f"{classes}.")

    @staticmethod
    def _sum_used(held: Iterable[Held]) -> Size:
        amounts = [0, 0, 0]
        for allocation in held:
            if allocation.resource_class in _COUNTED:
                amounts[_COUNTED[allocation.resource_class]] += allocation.used
        return Size(*amounts)
