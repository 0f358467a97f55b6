"""Hosts of the freepool and leases in force, written down as they are kept.

Not by those who register hosts and carry out leases: what the fence decides is decided
by these rows alone, however they came about.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db.metadata import utcnow
from placement_core.placement import inventories, locks, resource_classes, tables as placed
from placement_core.placement.allocations import reserved_trees
from placement_core.placement.records import InventoryValues, Provider
from placement_core.reservations import tables
from placement_core.reservations.records import ACTIVE, PENDING, R_ACTIVE
from placement_core.testing import factories

_HOUR = 3600
_USED = sa.select(placed.allocations.c.id).where(
    placed.allocations.c.resource_provider_id.in_(sa.bindparam("tree", expanding=True)))


class InUse(Exception):
    """A host that shall be registered carries allocations."""


def child(ctx: Context, root: Provider) -> Provider:
    """Make the child that a host has for its reservations."""
    return factories.provider(ctx, f"reservations of {root.name}", parent=root)


@db.retry_writes
def register(ctx: Context, root: Provider, below: Provider) -> None:
    """Let a host into the freepool as it has to be done: its tree held, and empty."""
    with db.write(ctx) as session:
        tree = _hold(session, root)
        if session.execute(_USED, {"tree": tree}).first():
            raise InUse
        session.execute(sa.insert(tables.computehosts).values(
            name=root.name, provider_id=root.id, provider_uuid=root.uuid,
            reservation_provider_id=below.id, vcpus=16, memory_mb=32768, disk_gb=100,
            reservable=True, promised=False))
        reserved_trees.mark(session, root.id, below.id)


@db.retry_writes
def remove(ctx: Context, root: Provider) -> None:
    """Let a host out of the freepool."""
    with db.write(ctx) as session:
        tree = _hold(session, root)
        session.execute(sa.delete(tables.computehosts).where(
            tables.computehosts.c.provider_id == root.id))
        reserved_trees.unmark(session, root.id, *tree)


def _hold(session: db.Session, root: Provider) -> list[int]:
    tree = list(session.execute(sa.select(placed.resource_providers.c.id).where(
        placed.resource_providers.c.root_provider_id == root.id)).scalars())
    locks.lock_providers(session, dict.fromkeys(tree, 0))
    return tree


class Leases:
    """Writes leases of one host."""

    def __init__(self, ctx: Context, root: Provider, below: Provider) -> None:
        self.ctx, self.root, self.below = ctx, root, below

    def lease(
        self, project: str, *, whole: bool = False, slots: int = 1,
        size: tuple[int, int, int] = (4, 4096, 10), status: str = R_ACTIVE,
        named: bool = True, end: int = _HOUR,
    ) -> str:
        """Have a lease of the host; return the id of its reservation.

        :param named: its slots have a resource class.
        :param end: in how many seconds it ends.
        """
        lease_id, id_ = factories.new_uuid(), factories.new_uuid()
        now = int(time.time())
        stamp = {"created_at": utcnow()}
        moments = [datetime.datetime.fromtimestamp(at, datetime.UTC).replace(tzinfo=None)
                   for at in (now - _HOUR, now + end)]
        with db.write(self.ctx) as session:
            session.execute(sa.insert(tables.leases).values(
                id=lease_id, name=lease_id, user_id="user", project_id=project,
                start_at=moments[0], end_at=moments[1], degraded=False, version=0,
                status=ACTIVE if status == R_ACTIVE else PENDING, **stamp))
            session.execute(sa.insert(tables.lease_reservations).values(
                id=id_, lease_id=lease_id, position=0, status=status, missing_resources=False,
                resources_changed=False, resource_id=factories.new_uuid(),
                resource_type="physical:host" if whole else "virtual:instance", **stamp))
        self.hold(id_, whole=whole, slots=slots, size=size, end=end,
                  named=named and not whole and status == R_ACTIVE)
        return id_

    def hold(
        self, reservation: str, *, whole: bool = False, slots: int = 1,
        size: tuple[int, int, int] = (4, 4096, 10), named: bool = True, end: int = _HOUR,
    ) -> None:
        """Let a reservation have something of the host."""
        now = int(time.time())
        with db.write(self.ctx) as session:
            host = session.execute(sa.select(tables.computehosts.c.id).where(
                tables.computehosts.c.provider_id == self.root.id)).scalar_one()
            session.execute(sa.insert(tables.computehost_allocations).values(
                reservation_id=reservation, computehost_id=host, slots=slots, whole=whole,
                start_second=now - _HOUR, end_second=now + end,
                **dict(zip(("vcpus", "memory_mb", "disk_gb"), size, strict=True))))
        if named:
            name = class_of(reservation)
            resource_classes.ensure(self.ctx, name)
            inventories.create(
                self.ctx, self.below.uuid, name, InventoryValues(slots, max_unit=1),
                allow_fully_reserved=True)

    def end(self, reservation: str, ctx: Context | None = None) -> bool:
        """Take a reservation out of force; say whether anything of the host is used then.

        Its resource class stays.
        """
        with db.write(ctx or self.ctx) as session:
            session.execute(sa.update(tables.lease_reservations).where(
                tables.lease_reservations.c.id == reservation).values(status="deleted"))
            tree = _hold(session, self.root)
            return session.execute(_USED, {"tree": tree}).first() is not None

    def slot(self, reservation: str, **resources: int) -> Mapping[str, Mapping[str, int]]:
        """Return what a consumer asks for that takes a slot."""
        return {self.root.uuid: resources, self.below.uuid: {class_of(reservation): 1}}


def class_of(reservation: str) -> str:
    return f"CUSTOM_RESERVATION_{reservation.replace('-', '_').upper()}"
