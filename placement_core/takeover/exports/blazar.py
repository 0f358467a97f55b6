"""Our hosts and leases as rows of Blazar's tables, schema ``blazar_tables.SCHEMA``.

Ids stay. Rows that have no counterpart here get ids that are made of what they are about, the
same each time. What Blazar cannot store is left out: leases that were deleted, and those with
reservations of types for which it has no tables here.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from placement_core import db
from placement_core.context import Context
from placement_core.reservations import records as leases
from placement_core.reservations.hosts import host_properties, host_queries
from placement_core.reservations.records import Event, Host, HostProperty, Lease, Reservation
from placement_core.reservations.store import lease_copies, lease_rows
from placement_core.reservations.store.lease_copies import StoredLease
from placement_core.takeover import host_ids
from placement_core.takeover.blazar_tables import INSTANCE, SCHEMA, SOURCE, WHOLE_HOST
from placement_core.takeover.exports import Exporter, LeftOut, Row
from placement_core.takeover.records import LEASE

#: Makes ids of rows of what they are about.
_NAMESPACE = uuid.UUID("0c0a1a8c-0a39-4f0b-8a52-6f5a2f2c1d7e")
#: The longest name of a lease there.
_LONGEST_NAME = 80

#: In an order in which each row comes behind those that it refers to.
_TABLES = (
    "computehosts", "resource_properties", "computehost_extra_capabilities", "leases",
    "reservations", "computehost_reservations", "instance_reservations",
    "computehost_allocations", "events")


def make_exporter() -> Exporter:
    """Return what exports to Blazar."""
    return Exporter(SOURCE, SCHEMA, _TABLES, list_rows, list_left_out)


def list_left_out(ctx: Context) -> Iterator[LeftOut]:
    """Yield the leases that Blazar cannot have as they are."""
    for stored in _read_leases(ctx):
        lease = stored.lease
        if stored.deleted:
            continue
        types = sorted({reservation.resource_type for reservation in lease.reservations
                        if reservation.resource_type not in (INSTANCE, WHOLE_HOST)})
        if types:
            yield LeftOut(LEASE, lease.id, lease.name,
                          f"there are no tables for reservations of {', '.join(types)}")
        elif len(lease.name) > _LONGEST_NAME:
            yield LeftOut(LEASE, lease.id, lease.name,
                          f"its name is cut: it may have {_LONGEST_NAME} characters there")


def list_rows(ctx: Context) -> Iterator[Row]:
    """Yield rows, each with the name of its table, in an order that its foreign keys allow."""
    hosts, properties = host_queries.page(ctx), host_properties.list_(ctx, private=True)
    spell = host_ids.read_spelling(ctx)
    ids = {host.id: spell(host.id, host.provider_uuid) for host in hosts}
    for host in hosts:
        yield "computehosts", _build_host(host, ids[host.id])
    for host_property in properties:
        yield "resource_properties", _build_property(host_property)
    property_ids = {host_property.name: host_property.id for host_property in properties}
    for host in hosts:
        yield from _list_capabilities(host, ids[host.id], property_ids)
    for stored in _read_leases(ctx):
        if not stored.deleted and _has_tables(stored.lease):
            yield from _list_lease_rows(stored, ids)


@db.retry_writes
def _read_leases(ctx: Context) -> list[StoredLease]:
    with db.read(ctx) as session:
        return lease_copies.read_all(session)


def _has_tables(lease: Lease) -> bool:
    return all(reservation.resource_type in (INSTANCE, WHOLE_HOST)
               for reservation in lease.reservations)


def _build_host(host: Host, id_: str) -> dict[str, Any]:
    # Blazar's columns must not be null.
    return {
        "id": id_, "hypervisor_hostname": host.name, "vcpus": host.vcpus,
        "memory_mb": host.memory_mb, "local_gb": host.disk_gb,
        "cpu_info": host.cpu_info or "", "hypervisor_type": host.hypervisor_type or "",
        "hypervisor_version": host.hypervisor_version or 0,
        "service_name": host.service_name, "status": None,
        "availability_zone": host.availability_zone or "", "trust_id": host.trust_id or "",
        "reservable": host.reservable, **_build_times(host)}


def _build_property(host_property: HostProperty) -> dict[str, Any]:
    return {
        "id": host_property.id, "resource_type": host_property.resource_type,
        "property_name": host_property.name, "private": host_property.private,
        **_build_times(host_property)}


def _list_capabilities(
    host: Host, id_: str, property_ids: Mapping[str, str]
) -> Iterator[Row]:
    for name, value in host.capabilities.items():
        yield "computehost_extra_capabilities", {
            "id": _make_id("capability", id_, name), "computehost_id": id_,
            "property_id": property_ids[name], "capability_value": value, **_build_times(host)}


def _list_lease_rows(stored: StoredLease, host_ids_: Mapping[int, str]) -> Iterator[Row]:
    lease = stored.lease
    yield "leases", {
        "id": lease.id, "name": lease.name[:_LONGEST_NAME], "user_id": lease.user_id,
        "project_id": lease.project_id, "start_date": lease_rows.naive(lease.start_at),
        "end_date": lease_rows.naive(lease.end_at), "trust_id": lease.trust_id,
        "status": lease.status, "degraded": bool(lease.degraded), **_build_times(lease)}
    for reservation in lease.reservations:
        yield "reservations", {
            "id": reservation.id, "lease_id": lease.id, "resource_id": reservation.resource_id,
            "resource_type": reservation.resource_type, "status": reservation.status,
            "missing_resources": bool(reservation.missing_resources),
            "resources_changed": bool(reservation.resources_changed),
            **_build_times(reservation)}
        yield _build_fields(reservation)
        if reservation.status != leases.R_DELETED:
            yield from _list_allocations(
                reservation, stored.slots.get(reservation.id, {}), host_ids_)
    for event in lease.events:
        yield "events", _build_event(event)


def _build_fields(reservation: Reservation) -> Row:
    fields = dict(reservation.fields)
    if reservation.resource_type == WHOLE_HOST:
        return "computehost_reservations", {
            "id": reservation.resource_id, "reservation_id": reservation.id,
            "aggregate_id": reservation.compute_ids["aggregate_id"],
            "count_range": f"{fields['min']}-{fields['max']}",
            "hypervisor_properties": fields["hypervisor_properties"],
            "resource_properties": fields["resource_properties"],
            "before_end": fields["before_end"], **_build_times(reservation)}
    return "instance_reservations", {
        "id": reservation.resource_id, "reservation_id": reservation.id, **fields,
        **reservation.compute_ids, **_build_times(reservation)}


def _list_allocations(
    reservation: Reservation, slots: Mapping[int, int], host_ids_: Mapping[int, str]
) -> Iterator[Row]:
    """Yield a row for each slot: that is how Blazar counts them."""
    for host_id, count in slots.items():
        for number in range(count):
            yield "computehost_allocations", {
                "id": _make_id("allocation", reservation.id, str(host_id), str(number)),
                "compute_host_id": host_ids_[host_id], "reservation_id": reservation.id,
                **_build_times(reservation)}


def _build_event(event: Event) -> dict[str, Any]:
    # Nothing there ever finishes what somebody else has begun.
    status = leases.UNDONE if event.status == leases.IN_PROGRESS else event.status
    return {
        "id": event.id, "lease_id": event.lease_id, "event_type": event.event_type,
        "time": lease_rows.naive(event.due_at), "status": status, **_build_times(event)}


def _build_times(
    record: Host | HostProperty | Lease | Reservation | Event
) -> dict[str, datetime.datetime | None]:
    return {
        "created_at": lease_rows.naive(record.created_at),
        "updated_at": None if record.updated_at is None else lease_rows.naive(record.updated_at)}


def _make_id(*parts: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, " ".join(parts)))
