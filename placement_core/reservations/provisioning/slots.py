"""Slots in placement: a resource class for each instance reservation, while it is in force.

Each host of the freepool has a child provider for them (``slot_providers``). A reservation in
force has an inventory of its class there, whose total is the number of its slots on the host.
Where allocations outlive their reservation, or its host was replaced, the inventory stays as long
as they do, with no capacity ("closed"): nobody can claim of it any more. ``tidy`` then removes it.

Locks: those of ``placement.locks``: providers, then classes.
Source: requirement R4, spec blazar §4 (``CUSTOM_RESERVATION_…``).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session
from placement_core.placement import (
    inventories,
    locks,
    resource_classes,
    tables as placement_tables,
)
from placement_core.placement.allocations import reserved_trees
from placement_core.placement.records import InventoryValues
from placement_core.reservations import tables
from placement_core.reservations.provisioning import slot_providers
from placement_core.reservations.records import R_DELETED, PoolHost

#: How many ids one statement has at most.
_MOST_IDS = 500

_inventories, _allocations, _classes = (
    placement_tables.inventories, placement_tables.allocations,
    placement_tables.resource_classes)
_hosts, _reservations = tables.computehosts, tables.lease_reservations

_of_class = _inventories.c.resource_class_id == sa.bindparam("of_class")
_on_providers = _inventories.c.resource_provider_id.in_(
    sa.bindparam("providers", expanding=True))
_PROVIDERS = sa.select(_inventories.c.resource_provider_id).where(_of_class)
_USED_ON = sa.select(_allocations.c.resource_provider_id).where(
    _allocations.c.resource_class_id == sa.bindparam("of_class")).distinct()
_CONSUMERS = sa.select(_allocations.c.consumer_id).where(
    _allocations.c.resource_class_id == sa.bindparam("of_class")).distinct()
_REMOVE = sa.delete(_inventories).where(_of_class, _on_providers)
_CLOSE = sa.update(_inventories).where(_of_class, _on_providers).values(
    reserved=_inventories.c.total, capacity=0)

_REMOVE_CLOSED = _REMOVE.where(_inventories.c.capacity == 0)

_is_used = sa.exists().where(_allocations.c.resource_class_id == _classes.c.id)
_is_slots = _classes.c.name.startswith(reserved_trees.PASSES, autoescape=True)
_UNUSED_NAMES = sa.select(_classes.c.name).where(_is_slots, ~_is_used)
_ENDED = sa.select(_reservations.c.id).where(
    _reservations.c.id.in_(sa.bindparam("ids", expanding=True)),
    _reservations.c.status == R_DELETED)
_PRESENT = sa.select(_reservations.c.id).where(
    _reservations.c.id == sa.bindparam("of_reservation"), _reservations.c.status != R_DELETED)
_CLOSED = (
    sa.select(_inventories.c.resource_provider_id, _inventories.c.resource_class_id,
              _classes.c.name)
    .join(_hosts, _hosts.c.reservation_provider_id == _inventories.c.resource_provider_id)
    .join(_classes, _classes.c.id == _inventories.c.resource_class_id)
    .where(_is_slots, _inventories.c.capacity == 0,
           ~sa.exists().where(
               _allocations.c.resource_provider_id == _inventories.c.resource_provider_id,
               _allocations.c.resource_class_id == _inventories.c.resource_class_id)))


def resource_class(reservation_id: str) -> str:
    """Return the name of the class whose amounts are a reservation's slots."""
    return reserved_trees.PASSES + reservation_id.upper().replace("-", "_")


def put(
    ctx: Context, session: Session, reservation_id: str, slots: Mapping[PoolHost, int]
) -> None:
    """Write the slots of a reservation on hosts; those on other hosts stay as they are.

    :raises DuplicateProvider: a host's provider of slots was deleted, and cannot be made anew.
    """
    children = slot_providers.find(session, slots)
    _lock(session, slots, children.values())
    for host in slots:
        if host.id not in children:
            children[host.id] = slot_providers.replace(ctx, session, host)
    class_id, is_new = resource_classes.find_or_insert(session, resource_class(reservation_id))
    inventories.put_class(session, class_id, {
        children[host.id]: InventoryValues(total=count, max_unit=1)
        for host, count in slots.items()}, is_new=is_new)


def exist(session: Session, reservation_id: str) -> bool:
    """Return whether placement has the slots of a reservation in force as inventories."""
    return _find_class(session, reservation_id) is not None


def withdraw(session: Session, reservation_id: str, hosts: Collection[PoolHost]) -> None:
    """Remove the slots of a reservation on some hosts; close those that are allocated."""
    class_id = _find_class(session, reservation_id)
    children = [] if class_id is None else list(slot_providers.find(session, hosts).values())
    _lock(session, hosts, children)
    if class_id is not None:
        _remove_or_close(session, class_id, children, _find_used_providers(session, class_id))


def find_consumers(session: Session, reservation_id: str) -> list[str]:
    """Return the uuids of the consumers that hold slots of a reservation."""
    class_id = _find_class(session, reservation_id)
    return [] if class_id is None else sorted(
        session.execute(_CONSUMERS, {"of_class": class_id}).scalars())


def remove(
    ctx: Context, session: Session, reservation_id: str, hosts: Collection[PoolHost]
) -> list[str]:
    """Remove all slots of a reservation, and its class; close the slots that are allocated.

    :param hosts: its hosts; it may also have closed slots on hosts that were replaced.
    :returns: the uuids of the consumers that still hold slots.
    """
    class_id = _find_class(session, reservation_id)
    providers = set() if class_id is None else set(
        session.execute(_PROVIDERS, {"of_class": class_id}).scalars())
    _lock(session, hosts, providers)
    if class_id is None:
        return []
    used = _find_used_providers(session, class_id)
    _remove_or_close(session, class_id, providers, used)
    if used:
        return sorted(session.execute(_CONSUMERS, {"of_class": class_id}).scalars())
    resource_classes.delete(ctx, resource_class(reservation_id))
    return []


def tidy(ctx: Context) -> int:
    """Remove closed inventories and classes whose allocations are gone; return how many.

    To be called periodically; any number of managers may do so at the same time.
    """
    closed = _find_closed(ctx)
    for row in closed:
        _remove_closed(ctx, row.resource_provider_id, row.resource_class_id, row.name)
    ended = _find_ended(ctx)
    for reservation_id in ended:
        _remove_unused(ctx, reservation_id)
    return len(closed) + len(ended)


@db.retry_writes
def _find_closed(ctx: Context) -> Sequence[sa.Row[Any]]:
    """Return providers and classes of closed inventories without allocations."""
    with db.read_once(ctx) as session:
        return session.execute(_CLOSED).all()


@db.retry_writes
def _remove_closed(ctx: Context, provider: int, class_id: int, name: str) -> None:
    """Remove a closed inventory, and with the last one of a reservation that is over its class.

    Later nobody could tell whose class it is: the history may have removed the lease by then.
    """
    with db.write(ctx) as session:
        locks.lock_providers(session, {provider: 1})
        used = _find_used_providers(session, class_id)
        # The statement skips an inventory that has capacity again by now.
        if provider in used or not session.execute(
                _REMOVE_CLOSED, {"of_class": class_id, "providers": [provider]}).rowcount:
            return
        # Whoever removes another inventory of the class at this moment waits, and then sees this.
        resource_classes.lock_classes(session, [class_id])
        if (not used and not session.execute(_PROVIDERS, {"of_class": class_id}).first()
                and _is_over(session, name)):
            resource_classes.delete(ctx, name)


def _is_over(session: Session, name: str) -> bool:
    """Return whether a class is that of a reservation that has ended, or is unknown by now."""
    reservation_id = _parse_reservation_id(name)
    return reservation_id is not None and not session.execute(
        _PRESENT, {"of_reservation": reservation_id}).first()


@db.retry_writes
def _find_ended(ctx: Context) -> list[str]:
    """Return the ended reservations whose class still exists, without allocations."""
    with db.read_once(ctx) as session:
        names = session.execute(_UNUSED_NAMES).scalars()
        ids = sorted(filter(None, map(_parse_reservation_id, names)))
    ended: list[str] = []
    for start in range(0, len(ids), _MOST_IDS):
        with db.read_once(ctx) as session:
            ended += session.execute(_ENDED, {"ids": ids[start:start + _MOST_IDS]}).scalars()
    return ended


@db.retry_writes
def _remove_unused(ctx: Context, reservation_id: str) -> None:
    with db.write(ctx) as session:
        remove(ctx, session, reservation_id, ())


def _lock(session: Session, hosts: Iterable[PoolHost], providers: Iterable[int]) -> None:
    """Lock providers whose inventories change, and the roots of hosts.

    A claim on a host of the freepool locks its root, too: what admits it does not change
    meanwhile.
    """
    locks.lock_providers(session, {
        **dict.fromkeys((host.root_id for host in hosts), 0), **dict.fromkeys(providers, 1)})


def _find_class(session: Session, reservation_id: str) -> int | None:
    name = resource_class(reservation_id)
    return resource_classes.ids(session, [name]).get(name)


def _find_used_providers(session: Session, class_id: int) -> set[int]:
    """Return the providers with allocations of a class."""
    return set(session.execute(_USED_ON, {"of_class": class_id}).scalars())


def _remove_or_close(
    session: Session, class_id: int, providers: Iterable[int], used: Collection[int]
) -> None:
    """Remove the inventories of locked providers, and close those that are used."""
    closed = sorted(set(providers) & set(used))
    gone = sorted(set(providers) - set(used))
    if closed:
        session.execute(_CLOSE, {"of_class": class_id, "providers": closed})
    if gone:
        session.execute(_REMOVE, {"of_class": class_id, "providers": gone})


def _parse_reservation_id(name: str) -> str | None:
    """Return the id of the reservation that a class belongs to; None: it is another class."""
    try:
        reservation_id = str(uuid.UUID(name.removeprefix(reserved_trees.PASSES).replace("_", "-")))
    except ValueError:
        return None
    return reservation_id if resource_class(reservation_id) == name else None
