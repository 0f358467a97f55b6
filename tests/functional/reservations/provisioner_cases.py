"""The base of tests of provisioning: hosts of the freepool, and reservations, written as rows."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.placement.records import Provider
from placement_core.plugin_api.reservations import Share, Size
from placement_core.reservations import records, tables
from placement_core.reservations.provisioning import outbox
from placement_core.reservations.provisioning.provisioner import HOST, INSTANCE, Provisioner
from placement_core.testing import factories
from tests.functional.placement.claims import ClaimsTestCase

PROJECT = "b0" * 16
_START = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)
_SIZE = Size(2, 1024, 10)
_SLOTS = {"vcpus": 2, "memory_mb": 1024, "disk_gb": 10, "amount": 2, "affinity": None,
          "resource_properties": ""}
_WHOLE = {"min": 1, "max": 2, "hypervisor_properties": "", "resource_properties": "",
          "before_end": ""}


@dataclasses.dataclass(frozen=True, eq=False)
class World:
    """A host of the freepool, and its providers."""

    host: records.Host
    root: Provider
    child: Provider


class ProvisionerTestCase(ClaimsTestCase):
    """A test with hosts and reservations, and short ways to what happens to these.

    :ivar design: ``leftovers`` and ``acts`` too: what ``provisioner`` is made of.
    """

    design = "placement"
    leftovers = "report"
    acts = False

    def setUp(self) -> None:
        super().setUp()
        self.provisioner = self.make_provisioner()

    def make_provisioner(self, **changes: Any) -> Provisioner:
        return Provisioner(**{
            "design": self.design, "leftovers": self.leftovers, "acts": self.acts,
            "patience_seconds": 600, **changes})

    def host(self, name: str) -> World:
        root = factories.provider(
            self.ctx, name, inventory={"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 100})
        child = factories.provider(self.ctx, f"{name}-reservations", parent=root)
        with db.write(self.ctx) as session:
            key = session.execute(sa.insert(tables.computehosts), {
                "name": name, "provider_id": root.id, "provider_uuid": root.uuid,
                "reservation_provider_id": child.id, "vcpus": 8, "memory_mb": 8192,
                "disk_gb": 100, "reservable": True, "promised": True}).inserted_primary_key[0]
        host = records.Host(
            key, name, root.uuid, 8, 8192, 100, None, None, None, None, None, None, True, None,
            {}, _START, None)
        return World(host, root, child)

    def lease(
        self, resource_type: str = INSTANCE, fields: Mapping[str, Any] | None = None
    ) -> tuple[records.Lease, records.Reservation]:
        """Write a lease with one reservation, which is pending."""
        lease_id, reservation_id = factories.new_uuid(), factories.new_uuid()
        reservation = records.Reservation(
            reservation_id, lease_id, resource_type, factories.new_uuid(), records.R_PENDING,
            False, False, {**(_SLOTS if resource_type == INSTANCE else _WHOLE),
                           **(fields or {})}, {}, _START, None)
        lease = records.Lease(
            1, lease_id, "lease", "user", PROJECT, _START, _START + datetime.timedelta(1),
            records.PENDING, False, None, [reservation], [], _START, None)
        own = {INSTANCE: tables.instance_reservations, HOST: tables.computehost_reservations}
        with db.write(self.ctx) as session:
            session.execute(sa.insert(tables.leases), {
                "id": lease_id, "name": "lease", "user_id": "user", "project_id": PROJECT,
                "start_at": _naive(lease.start_at), "end_at": _naive(lease.end_at),
                "status": lease.status, "degraded": False, "version": 1})
            session.execute(sa.insert(tables.lease_reservations), {
                "id": reservation_id, "lease_id": lease_id, "position": 0,
                "resource_type": resource_type, "resource_id": reservation.resource_id,
                "status": reservation.status, "missing_resources": False,
                "resources_changed": False})
            if resource_type in own:
                session.execute(sa.insert(own[resource_type]), {
                    "id": reservation.resource_id, "reservation_id": reservation_id,
                    **reservation.fields})
        return lease, reservation

    @staticmethod
    def shares(lease: records.Lease, slots: Mapping[World, int]) -> list[Share]:
        """Return shares of hosts: slots of an instance reservation, whole hosts of others."""
        is_whole = lease.reservations[0].resource_type != INSTANCE
        return [Share(world.host.id, count, _SIZE, is_whole) for world, count in slots.items()]

    def make(self, lease: records.Lease) -> None:
        self._do("create", lease, records.R_PENDING)

    def start(self, lease: records.Lease, slots: Mapping[World, int]) -> None:
        self._do("start", lease, records.R_ACTIVE, self.shares(lease, slots))

    def prepare_end(
        self, lease: records.Lease, slots: Mapping[World, int], *due_at: datetime.datetime
    ) -> None:
        self._do("prepare_end", lease, records.R_ACTIVE, self.shares(lease, slots), *due_at)

    def end(
        self, lease: records.Lease, slots: Mapping[World, int] | None = None, *,
        was_in_force: bool = True,
    ) -> None:
        self._do("end", lease, records.R_DELETED, self.shares(lease, slots or {}),
                 was_in_force=was_in_force)

    def change(
        self, lease: records.Lease, before: Mapping[World, int], after: Mapping[World, int], *,
        status: str = records.R_ACTIVE, fields: Mapping[str, Any] | None = None,
    ) -> None:
        (reservation,) = lease.reservations
        changed = dataclasses.replace(lease, reservations=[dataclasses.replace(
            reservation, fields={**reservation.fields, **(fields or {})})])
        self._do("change", changed, status, self.shares(lease, before),
                 self.shares(lease, after))

    def _do(self, what: str, lease: records.Lease, status: str, *values: Any,
            **named: Any) -> None:
        """Do what whoever changes leases does: the status and its effects at once."""
        (reservation,) = lease.reservations

        @db.retry_writes
        def happen(ctx: Any) -> None:
            with db.write(ctx) as session:
                session.execute(
                    sa.update(tables.lease_reservations)
                    .where(tables.lease_reservations.c.id == reservation.id)
                    .values(status=status))
                getattr(self.provisioner, what)(
                    ctx, lease, dataclasses.replace(reservation, status=status), *values,
                    **named)

        happen(self.ctx)

    def status(self, reservation: records.Reservation) -> str:
        with self.database.autocommit.connect() as connection:
            return connection.scalar(
                sa.select(tables.lease_reservations.c.status)
                .where(tables.lease_reservations.c.id == reservation.id))

    def kept(self, reservation: records.Reservation) -> dict[str, Any]:
        """Return what is kept of the compute service's answers."""
        table = {INSTANCE: tables.instance_reservations, HOST: tables.computehost_reservations}[
            reservation.resource_type]
        names = [name for name in ("flavor_id", "server_group_id", "aggregate_id")
                 if name in table.c]
        with self.database.autocommit.connect() as connection:
            row = connection.execute(
                sa.select(*(table.c[name] for name in names))
                .where(table.c.reservation_id == reservation.id)).one()
        return dict(zip(names, row, strict=True))

    def waiting(self) -> list[str]:
        """Return the names of the calls in the outbox."""
        return [each.name for each in outbox.list_(self.ctx)]


def _naive(moment: datetime.datetime) -> datetime.datetime:
    return moment.replace(tzinfo=None)
