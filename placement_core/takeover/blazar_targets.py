"""Where Blazar's records go: the freepool, its properties, and leases."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.db import Session, lists
from placement_core.placement import inventories, tables as placement_tables
from placement_core.plugin_api.reservations import Share, Size
from placement_core.reservations import records as leases, tables
from placement_core.reservations.hosts import host_capabilities, host_copies, host_queries, sizes
from placement_core.reservations.provisioning import slots
from placement_core.reservations.records import Event, Host, Lease, PoolHost, Reservation
from placement_core.reservations.store import lease_copies
from placement_core.reservations.store.lease_copies import CopiedLease, StoredLease
from placement_core.takeover import host_ids
from placement_core.takeover.blazar_tables import INSTANCE, WHOLE_HOST
from placement_core.takeover.errors import ChangedHere, ImmutableField, NotHere, StillUsed
from placement_core.takeover.records import (
    HOST,
    HOST_PROPERTY,
    LEASE,
    Fields,
    Record,
    RootProvider,
)
from placement_core.takeover.targets import Target

_properties, _values, _hosts = (
    tables.resource_properties, tables.computehost_extra_capabilities, tables.computehosts)
_providers, _inventories, _classes = (
    placement_tables.resource_providers, placement_tables.inventories,
    placement_tables.resource_classes)

_NUMBER = re.compile("[0-9]+")

_PROPERTIES = sa.select(
    _properties.c.id, _properties.c.property_name, _properties.c.private).where(
    _properties.c.resource_type == host_capabilities.RESOURCE_TYPE)
_SET_PRIVATE = sa.update(_properties).where(
    _properties.c.id == sa.bindparam("of_id")).values(private=sa.bindparam("is_private"))
_HAS_VALUES = sa.select(_values.c.id).where(
    _values.c.property_id == sa.bindparam("of_id")).limit(1)
_DELETE_PROPERTY = sa.delete(_properties).where(_properties.c.id == sa.bindparam("of_id"))
_ROOTS = sa.select(_providers.c.id, _providers.c.uuid, _providers.c.name).where(
    _providers.c.parent_provider_id.is_(None))
_CAPACITIES = (
    sa.select(sa.func.coalesce(_providers.c.root_provider_id, _providers.c.id).label("root_id"),
              _classes.c.name, sa.func.sum(_inventories.c.capacity).label("capacity"))
    .select_from(_providers)
    .join(_inventories, _inventories.c.resource_provider_id == _providers.c.id)
    .join(_classes, _classes.c.id == _inventories.c.resource_class_id)
    .where(_classes.c.name.in_(tuple(sizes.COLUMNS)))
    .group_by(sa.func.coalesce(_providers.c.root_provider_id, _providers.c.id),
              _classes.c.name))
_HOST_ROWS = sa.select(
    _hosts.c.id, _hosts.c.name, _hosts.c.provider_id, _hosts.c.provider_uuid,
    _hosts.c.vcpus, _hosts.c.memory_mb, _hosts.c.disk_gb)


def list_targets() -> list[Target]:
    """Return where Blazar's records can go, in the order in which they are copied."""
    return [_Properties(), _Hosts(), _Leases()]


@db.retry_writes
def read_providers(ctx: Context) -> dict[str, RootProvider]:
    """Return the roots of the trees of resource providers, by name."""
    with db.read(ctx) as session:
        capacities: dict[int, dict[str, int]] = {}
        for row in session.execute(_CAPACITIES):
            capacities.setdefault(row.root_id, {})[row.name] = int(row.capacity)
        return {
            row.name: RootProvider(row.uuid, Size(*(
                capacities.get(row.id, {}).get(name, 0) for name in sizes.COLUMNS)))
            for row in session.execute(_ROOTS)}


def find_roots(providers: Mapping[str, Fields]) -> dict[str, RootProvider]:
    """Return the roots of trees that are to be copied before Blazar is, by name.

    :param providers: {uuid: fields}, of records of providers, those above others first.
    """
    roots: dict[str, str] = {}
    capacities: dict[str, dict[str, int]] = {}
    for uuid, fields in providers.items():
        if fields["parent"] is not None and fields["parent"] not in roots:
            continue  # Its tree is here.
        root = roots[uuid] = roots.get(fields["parent"], uuid)
        of_root = capacities.setdefault(root, {})
        for name, values in fields["inventories"].items():
            of_root[name] = of_root.get(name, 0) + inventories.capacity(values)
    return {
        providers[root]["name"]: RootProvider(
            root, Size(*(of_root.get(name, 0) for name in sizes.COLUMNS)))
        for root, of_root in capacities.items()}


# Properties --------------------------------------------------------------------------


class _Properties(Target):
    kind = HOST_PROPERTY

    def read(self, ctx: Context) -> Mapping[str, Fields]:
        return _read_properties(ctx)

    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        with db.write(ctx) as session:
            revisions.increment(session, revisions.POOL)
            session.execute(sa.insert(_properties), [
                {"id": record.id, "resource_type": host_capabilities.RESOURCE_TYPE,
                 "property_name": record.fields["name"], "private": record.fields["private"]}
                for record in new])

    def find_change_obstacle(self, ours: Fields, changes: Fields) -> str:
        return "here, it has another name" if "name" in changes else ""

    def update(self, ctx: Context, id_: str, changes: Fields) -> None:
        if "name" in changes:
            raise ImmutableField(self.kind, id_, "name")
        with db.write(ctx) as session:
            session.execute(_SET_PRIVATE, {"of_id": id_, "is_private": changes["private"]})

    def delete(self, ctx: Context, id_: str) -> None:
        with db.write(ctx) as session:
            revisions.increment(session, revisions.POOL)
            if session.execute(_HAS_VALUES, {"of_id": id_}).first():
                raise StillUsed(self.kind, id_, "hosts have values of")
            session.execute(_DELETE_PROPERTY, {"of_id": id_})


@db.retry_writes
def _read_properties(ctx: Context) -> dict[str, Fields]:
    with db.read_once(ctx) as session:
        return {row.id: {"name": row.property_name, "private": bool(row.private)}
                for row in session.execute(_PROPERTIES)}


# Hosts -------------------------------------------------------------------------------

_HOST_COLUMNS = (
    "hypervisor_type", "hypervisor_version", "cpu_info", "service_name", "availability_zone",
    "trust_id", "reservable")
_FIXED_HOST_FIELDS = ("name", "provider_uuid", "created_at")


class _Hosts(Target):
    kind = HOST

    def read(self, ctx: Context) -> Mapping[str, Fields]:
        spell = host_ids.read_spelling(ctx)
        return {spell(host.id, host.provider_uuid): _read_host(host)
                for host in host_queries.page(ctx)}

    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        for record in new:
            fields = record.fields
            host_copies.insert(ctx, host_copies.CopiedHost(
                int(record.id) if _NUMBER.fullmatch(record.id) else None, fields["name"],
                fields["provider_uuid"], {
                    **{name: fields[name] for name in _HOST_COLUMNS},
                    "created_at": _parse(fields["created_at"]).replace(tzinfo=None)},
                fields["capabilities"]))

    def find_change_obstacle(self, ours: Fields, changes: Fields) -> str:
        name = next((name for name in _FIXED_HOST_FIELDS if name in changes), None)
        return "" if name is None else f"here, it has another {name}: {ours[name]}"

    def update(self, ctx: Context, id_: str, changes: Fields) -> None:
        for name in _FIXED_HOST_FIELDS:
            if name in changes:
                raise ImmutableField(self.kind, id_, name)
        host = host_queries.get(ctx, id_)
        capabilities: dict[str, str | None] = {}
        if "capabilities" in changes:
            capabilities = {**dict.fromkeys(host.capabilities), **changes["capabilities"]}
        columns = {name: changes[name] for name in _HOST_COLUMNS if name in changes}
        host_copies.change(ctx, host.id, columns, capabilities)

    def delete(self, ctx: Context, id_: str) -> None:
        host_copies.remove(ctx, host_queries.get(ctx, id_).id)


def _read_host(host: Host) -> Fields:
    return {
        "name": host.name, "provider_uuid": host.provider_uuid,
        **{name: getattr(host, name) for name in _HOST_COLUMNS},
        "capabilities": dict(host.capabilities), "created_at": _write(host.created_at)}


# Leases ------------------------------------------------------------------------------


class _Leases(Target):
    kind = LEASE

    def read(self, ctx: Context) -> Mapping[str, Fields]:
        return _read_leases(ctx, host_ids.read_spelling(ctx))

    def create(self, ctx: Context, new: Sequence[Record]) -> None:
        with db.write(ctx) as session:
            revisions.increment(session, revisions.POOL)
            hosts = _find_hosts(session, new)
            copies = [_build_copy(record.id, record.fields, hosts) for record in new]
            lease_copies.insert(session, copies)
            for copy in copies:
                _put_slots(ctx, session, copy, hosts)

    def find_change_obstacle(self, ours: Fields, changes: Fields) -> str:
        if ours["deleted"]:
            return "it was deleted here"
        return "it was changed here since it was copied" if ours["changed"] else ""

    def update(self, ctx: Context, id_: str, changes: Fields) -> None:
        spell = host_ids.read_spelling(ctx)
        with db.write(ctx) as session:
            revisions.increment(session, revisions.POOL)
            stored, fields = _lock_unchanged(session, id_, spell)
            fields = {**fields, **changes}
            hosts = _find_hosts(session, [Record(LEASE, id_, "", fields)])
            copy = _build_copy(id_, fields, hosts)
            lease_copies.replace(session, copy)
            _remove_slots(ctx, session, stored, keep=copy)
            _put_slots(ctx, session, copy, hosts)

    def delete(self, ctx: Context, id_: str) -> None:
        spell = host_ids.read_spelling(ctx)
        with db.write(ctx) as session:
            revisions.increment(session, revisions.POOL)
            stored, _ = _lock_unchanged(session, id_, spell)
            _remove_slots(ctx, session, stored)
            lease_copies.remove(session, id_)


@db.retry_writes
def _read_leases(ctx: Context, spell: host_ids.Spell) -> dict[str, Fields]:
    with db.read(ctx) as session:
        spelled_ids = {row.id: spell(row.id, row.provider_uuid)
                       for row in session.execute(_HOST_ROWS)}
        return {stored.lease.id: _read_lease(stored, spelled_ids)
                for stored in lease_copies.read_all(session)}


def _lock_unchanged(
    session: Session, id_: str, spell: host_ids.Spell
) -> tuple[StoredLease, Fields]:
    """Lock the row of a lease; return the lease.

    :raises ChangedHere: nobody but a copy is to change it now.
    """
    lease_copies.lock(session, id_)
    stored = next(iter(lease_copies.read_all(session, [id_])), None)
    if stored is None or stored.deleted:
        raise ChangedHere(LEASE, id_, "it was deleted here")
    if stored.changed:
        raise ChangedHere(LEASE, id_, "it was changed here since it was copied")
    spelled_ids = {
        row.id: spell(row.id, row.provider_uuid) for row in session.execute(_HOST_ROWS)}
    return stored, _read_lease(stored, spelled_ids)


def _read_lease(stored: StoredLease, spelled_ids: Mapping[int, str]) -> Fields:
    lease = stored.lease
    return {
        "name": lease.name, "user_id": lease.user_id, "project_id": lease.project_id,
        "start_at": _write(lease.start_at), "end_at": _write(lease.end_at),
        "status": lease.status, "degraded": bool(lease.degraded), "trust_id": lease.trust_id,
        "reservations": {
            reservation.id: {
                "resource_type": reservation.resource_type,
                "resource_id": reservation.resource_id, "status": reservation.status,
                "missing_resources": bool(reservation.missing_resources),
                "resources_changed": bool(reservation.resources_changed),
                "fields": dict(reservation.fields),
                "compute_ids": dict(reservation.compute_ids),
                "hosts": {
                    spelled_ids.get(host_id, str(host_id)): count
                    for host_id, count in stored.slots.get(reservation.id, {}).items()}
                # Shares of what has ended are history, which the other service does not have.
                if reservation.status != leases.R_DELETED else {},
                "created_at": _write(reservation.created_at),
                "updated_at": _write(reservation.updated_at)}
            for reservation in lease.reservations},
        "events": {
            event.id: {
                "event_type": event.event_type, "due_at": _write(event.due_at),
                "status": event.status, "created_at": _write(event.created_at),
                "updated_at": _write(event.updated_at)}
            for event in lease.events},
        "created_at": _write(lease.created_at), "updated_at": _write(lease.updated_at),
        "deleted": stored.deleted, "changed": stored.changed}


def _build_copy(id_: str, fields: Fields, hosts: Mapping[str, Any]) -> CopiedLease:
    reservations = [
        Reservation(
            reservation_id, id_, values["resource_type"], values["resource_id"],
            values["status"], values["missing_resources"], values["resources_changed"],
            values["fields"], values["compute_ids"], _parse(values["created_at"]),
            _parse_optional(values["updated_at"]))
        for reservation_id, values in fields["reservations"].items()]
    events = [
        Event(event_id, id_, values["event_type"], _parse(values["due_at"]), values["status"],
              None, _parse(values["created_at"]), _parse_optional(values["updated_at"]))
        for event_id, values in fields["events"].items()]
    shares = {
        reservation_id: [_build_share(values, hosts[host_id], count)
                         for host_id, count in values["hosts"].items()]
        for reservation_id, values in fields["reservations"].items()}
    return CopiedLease(Lease(
        0, id_, fields["name"], fields["user_id"], fields["project_id"],
        _parse(fields["start_at"]), _parse(fields["end_at"]), fields["status"],
        fields["degraded"], fields["trust_id"], reservations, events,
        _parse(fields["created_at"]), _parse_optional(fields["updated_at"])), shares)


def _build_share(reservation: Fields, host: Any, count: int) -> Share:
    if reservation["resource_type"] == WHOLE_HOST:
        return Share(host.id, 1, Size(host.vcpus, host.memory_mb, host.disk_gb), True)
    fields = reservation["fields"]
    return Share(
        host.id, count, Size(fields["vcpus"], fields["memory_mb"], fields["disk_gb"]))


def _find_hosts(session: Session, new: Iterable[Record]) -> dict[str, Any]:
    """Return the rows of the hosts of leases, by the ids that the source has.

    :raises NotHere: one was not copied.
    """
    needed = {
        host_id: record.id for record in new
        for reservation in record.fields["reservations"].values()
        for host_id in reservation["hosts"]}
    numbers = sorted(int(id_) for id_ in needed if _NUMBER.fullmatch(id_))
    uuids = sorted(id_ for id_ in needed if not _NUMBER.fullmatch(id_))
    rows: dict[str, Any] = {}
    if numbers:
        rows |= {str(row.id): row for row in session.execute(_HOST_ROWS.where(
            lists.among_many(_hosts.c.id, "ids")), {"ids": numbers})}
    if uuids:
        rows |= {row.provider_uuid: row for row in session.execute(_HOST_ROWS.where(
            lists.among_many(_hosts.c.provider_uuid, "uuids")), {"uuids": uuids})}
    for host_id, lease_id in needed.items():
        if host_id not in rows:
            raise NotHere(LEASE, lease_id, f"its host {host_id}")
    return rows


# Slots in placement ------------------------------------------------------------------


def _put_slots(
    ctx: Context, session: Session, copy: CopiedLease, hosts: Mapping[str, Any]
) -> None:
    """Write the slots of reservations in force; Blazar's are left as they are."""
    pool_hosts = {row.id: PoolHost(row.id, row.name, row.provider_id) for row in hosts.values()}
    for reservation in copy.lease.reservations:
        shares = copy.shares[reservation.id]
        if _has_slots(reservation) and shares:
            slots.put(ctx, session, reservation.id, {
                pool_hosts[share.host_id]: share.slots for share in shares})


def _remove_slots(
    ctx: Context, session: Session, stored: StoredLease, keep: CopiedLease | None = None
) -> None:
    """Remove the slots of reservations that were in force.

    :param keep: the lease after a change: those that are in force in it stay.
    """
    remaining = {} if keep is None else {
        reservation.id: {share.host_id for share in keep.shares[reservation.id]}
        for reservation in keep.lease.reservations if _has_slots(reservation)}
    for reservation in filter(_has_slots, stored.lease.reservations):
        before = stored.slots.get(reservation.id, {})
        hosts = [PoolHost(row.id, row.name, row.provider_id)
                 for row in session.execute(_HOST_ROWS.where(
                     _hosts.c.id.in_(sorted(before))))] if before else []
        if reservation.id not in remaining:
            slots.remove(ctx, session, reservation.id, hosts)
        else:
            lost = [host for host in hosts if host.id not in remaining[reservation.id]]
            if lost:
                slots.withdraw(session, reservation.id, lost)


def _has_slots(reservation: Reservation) -> bool:
    return reservation.resource_type == INSTANCE and reservation.status == leases.R_ACTIVE


# Times -------------------------------------------------------------------------------


def _write(at: datetime.datetime | None) -> str | None:
    return None if at is None else at.replace(microsecond=0, tzinfo=None).isoformat()


def _parse(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


def _parse_optional(text: str | None) -> datetime.datetime | None:
    return None if text is None else _parse(text)
