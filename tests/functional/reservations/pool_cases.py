"""A freepool beside cells, whose effects are only written down."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.changes import revisions
from placement_core.placement import (
    allocations,
    inventories,
    providers,
    tables as placement_tables,
)
from placement_core.placement.allocations import Gate
from placement_core.placement.records import AllocationWrite, InventoryValues, Provider
from placement_core.reservations import tables
from placement_core.reservations.hosts.healing import Healing
from placement_core.reservations.hosts.registry import HostRegistry
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.leases.service import Leases
from placement_core.reservations.records import Host, Lease, NewLease, NewReservation, Reservation
from placement_core.reservations.scheduling.booking_index import BookingIndex
from placement_core.testing import factories
from tests.functional.compute.cases import CellsTestCase
from tests.functional.reservations import lease_cases

#: A host of 8 processors, 8 GiB of memory and 100 GiB of disk.
SIZES: Mapping[str, int] = {"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 100}


class Recorder(lease_cases.NotedProvisioner):
    """Writes down what happens to hosts, too.

    :ivar told: (what, the host's name), or what healing changed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[Any, ...]] = []

    def add_host(self, ctx, host):
        self.told.append(("entered", host.name))

    def remove_host(self, ctx, host):
        self.told.append(("left", host.name))

    def change(self, ctx, lease, reservation, before, after):
        self.told.append(("changed", reservation.id, _slots(before), _slots(after)))


class NoRules(lease_cases.NotedRules):
    """Rules that everything keeps."""


class PoolTestCase(CellsTestCase):
    """A test with short ways to have hosts and leases."""

    interval_seconds = 3600

    def setUp(self) -> None:
        super().setUp()
        # Operators are told of hosts that change, and of leases that are healed.
        log = logging.getLogger("placement_core.reservations")
        log.setLevel(logging.ERROR)
        self.addCleanup(log.setLevel, logging.NOTSET)
        #: Leases of one test count from one minute, also where the next one begins meanwhile.
        self.minute = datetime.datetime.now(datetime.UTC).replace(microsecond=0, second=0)
        self.provisioner = Recorder()
        plugins = self.parts.reservation_plugins
        self.healing = Healing(
            plugins, self.provisioner, cleaning_seconds=0, interval_seconds=self.interval_seconds)
        self.pool = HostRegistry(self.provisioner, self.nodes, self.healing)
        self.leases = Leases(
            plugins, self.provisioner, NoRules(), BookingIndex(self.database),
            cleaning_seconds=0, minutes_before_end=0, max_reservations=10)

    def provider(self, name: str | None = None, **inventory: int | InventoryValues) -> Provider:
        return factories.provider(self.ctx, name, inventory=inventory or SIZES)

    def host(self, name: str, capabilities: Mapping[str, object] | None = None,
             **inventory: int | InventoryValues) -> Host:
        self.provider(name, **{**SIZES, **inventory})
        return self.pool.register(self.context(), name, capabilities or {})

    def resize(self, name: str, **amounts: int) -> None:
        """Change the inventories of the provider of a host."""
        uuid = self.parts_uuid(name)
        for resource_class, total in amounts.items():
            _, generation = inventories.get(self.ctx, uuid, resource_class)
            inventories.update(
                self.ctx, uuid, resource_class, InventoryValues(total=total),
                generation=generation, allow_fully_reserved=True)

    def parts_uuid(self, name: str) -> str:
        found = sa.select(tables.computehosts.c.provider_uuid).where(
            tables.computehosts.c.name == name)
        with db.read_once(self.ctx) as session:
            return session.execute(found).scalar_one()

    def claim(
        self, provider: Provider | str, consumer: str | None = None, *,
        fence: Gate | None = None,
    ) -> None:
        """Allocate a processor, as anybody may; with a fence, as it lets in."""
        uuid = provider if isinstance(provider, str) else provider.uuid
        allocations.replace(self.context(), [AllocationWrite(
            consumer or factories.new_uuid(), {uuid: {"VCPU": 1}}, "project", "user",
            "INSTANCE", None)], [] if fence is None else [fence])

    def lease(
        self, *asked: Mapping[str, Any], hours: tuple[int, int] = (0, 10), name: str = "lease",
    ) -> Lease:
        """Make a lease of reservations, from so many hours after the test began; 0: now."""
        first, last = hours
        start = self.minute + datetime.timedelta(hours=first) if first else None
        return self.leases.create(self.context(), NewLease(
            name, "project", "user", start, self.minute + datetime.timedelta(hours=last),
            [NewReservation(*_parted(each)) for each in asked]))

    def activate(self, lease: Lease) -> None:
        """Put a lease into force, as of an hour ago."""
        ids = [each.id for each in lease.reservations]
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.leases).where(tables.leases.c.id == lease.id).values(
                status="ACTIVE",
                start_at=(lease.start_at - datetime.timedelta(hours=1)).replace(tzinfo=None)))
            session.execute(
                sa.update(tables.lease_reservations)
                .where(tables.lease_reservations.c.lease_id == lease.id).values(status="active"))
            held = tables.computehost_allocations
            session.execute(sa.update(held).where(held.c.reservation_id.in_(ids)).values(
                start_second=held.c.start_second - 3600))

    def found(self, lease: Lease) -> Lease:
        return lease_queries.get(self.context(), lease.id)

    def reservation(self, lease: Lease, position: int = 0) -> Reservation:
        return self.found(lease).reservations[position]

    def held(self, lease: Lease, position: int = 0) -> dict[str, int]:
        """Return {host name: slots} of what a reservation holds up to its lease's end."""
        held, hosts = tables.computehost_allocations, tables.computehosts
        end = int(self.found(lease).end_at.timestamp())
        with db.read_once(self.ctx) as session:
            return dict(session.execute(
                sa.select(hosts.c.name, held.c.slots)
                .join(hosts, hosts.c.id == held.c.computehost_id)
                .where(held.c.reservation_id == lease.reservations[position].id,
                       held.c.end_second == end)).all())

    def out_of_service(self, host: Host) -> None:
        self.pool.change(self.context(), str(host.id), {}, reservable=False)

    def child(self, host: Host) -> str | None:
        """Return the uuid of the provider of a host's slots; None: there is none."""
        rows, hosts = placement_tables.resource_providers, tables.computehosts
        with db.read_once(self.ctx) as session:
            return session.execute(
                sa.select(rows.c.uuid)
                .join(hosts, hosts.c.reservation_provider_id == rows.c.id)
                .where(hosts.c.id == host.id)).scalar()

    def unprotect_child(self, host: Host) -> None:
        """Make the provider of a host's slots one of a version that did not protect it."""
        pooled, hosts = placement_tables.pooled_trees, tables.computehosts
        with db.write(self.ctx) as session:
            session.execute(sa.delete(pooled).where(pooled.c.root_provider_id.in_(
                sa.select(hosts.c.reservation_provider_id).where(hosts.c.id == host.id))))

    def lose_child(self, host: Host) -> None:
        """Delete the provider of a host's slots, as anybody could in such a version."""
        self.unprotect_child(host)
        providers.delete(self.context(), self.child(host))

    def count(self, table: sa.Table) -> int:
        with db.read_once(self.ctx) as session:
            return session.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()

    def revisions(self) -> tuple[str, str]:
        return (revisions.read(self.ctx, revisions.POOL),
                revisions.read(self.ctx, revisions.POOL_HOSTS))

    def providers_of_tree(self, root: str) -> set[str]:
        rows = providers.tables.resource_providers
        top = rows.alias("top")
        with db.read_once(self.ctx) as session:
            return set(session.execute(
                sa.select(rows.c.name).join(top, top.c.id == rows.c.root_provider_id)
                .where(top.c.uuid == root)).scalars())


def slots(
    amount: int = 1, *, vcpus: int = 4, affinity: bool | None = None, **more: Any
) -> Mapping[str, Any]:
    """Ask for slots of 4 processors: two to a host."""
    return {"resource_type": "virtual:instance", "vcpus": vcpus, "memory_mb": 1, "disk_gb": 1,
            "amount": amount, "affinity": affinity, **more}


def whole(minimum: int = 1, maximum: int | None = None, **more: Any) -> Mapping[str, Any]:
    """Ask for whole hosts."""
    return {"resource_type": "physical:host", "min": minimum, "max": maximum or minimum, **more}


def _parted(asked: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    return asked["resource_type"], {
        key: value for key, value in asked.items() if key != "resource_type"}


def _slots(shares: Sequence[Any]) -> dict[int, int]:
    return {share.host_id: share.slots for share in shares}
