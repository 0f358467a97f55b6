"""What answers look like. Source: spec blazar §2.

Functions take records and return what JSON can hold.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from placement_core.http.leases_api import dates
from placement_core.reservations.leases.rendered_texts import LeaseRenderer
from placement_core.reservations.records import Host, HostAllocation, HostProperty, Lease

Document = dict[str, Any]


def render_versions(address: str) -> Document:
    """Return the document that clients discover the API with.

    :param address: the URL of ``/v1``.
    """
    return {"versions": [{
        "id": "v1.0", "status": "CURRENT", "min_version": "1.0", "max_version": "1.0",
        "links": [{"href": address, "rel": "self"}]}]}


def render_lease(item: Lease) -> Document:
    """Return a lease with its reservations and events."""
    # Writing dates is what takes longest in long lists, and most of them are the same.
    start, end = dates.format_lease_date(item.start_at), dates.format_lease_date(item.end_at)
    created = dates.format_record_date(item.created_at)

    def time(at: datetime.datetime) -> str:
        if at == item.start_at:
            return start
        return end if at == item.end_at else dates.format_lease_date(at)

    def record(at: datetime.datetime | None) -> str | None:
        return created if at == item.created_at else dates.format_record_date(at)

    return {
        "id": item.id,
        "name": item.name,
        "user_id": item.user_id,
        "project_id": item.project_id,
        "start_date": start,
        "end_date": end,
        "trust_id": item.trust_id,
        "status": item.status,
        "degraded": item.degraded,
        "created_at": created,
        "updated_at": record(item.updated_at),
        "reservations": [{
            **each.fields,
            **each.made,
            "id": each.id,
            "lease_id": each.lease_id,
            "resource_id": each.resource_id,
            "resource_type": each.resource_type,
            "status": each.status,
            "missing_resources": each.missing_resources,
            "resources_changed": each.resources_changed,
            "created_at": record(each.created_at),
            "updated_at": record(each.updated_at),
        } for each in item.reservations],
        "events": [{
            "id": each.id,
            "lease_id": each.lease_id,
            "event_type": each.event_type,
            "time": time(each.due_at),
            "status": each.status,
            "created_at": record(each.created_at),
            "updated_at": record(each.updated_at),
        } for each in item.events],
    }


def render_lease_text(item: Lease) -> bytes:
    """Return what ``render_lease`` does, as JSON."""
    return orjson.dumps(render_lease(item))


#: Texts are stored in the database: a change of what ``render_lease_text`` makes of a lease
#: has to raise the format.
LEASE = LeaseRenderer(1, render_lease_text)


def render_host(item: Host) -> Document:
    """Return a host; its capabilities stand beside its fields. Ids of hosts are text."""
    return {
        # Blazar has the field, and never a value for it.
        "status": None,
        **item.capabilities,
        "id": str(item.id),
        "hypervisor_hostname": item.name,
        "hypervisor_type": item.hypervisor_type,
        "hypervisor_version": item.hypervisor_version,
        "service_name": item.service_name,
        "availability_zone": item.availability_zone,
        "vcpus": item.vcpus,
        "memory_mb": item.memory_mb,
        "local_gb": item.disk_gb,
        "cpu_info": item.cpu_info,
        "trust_id": item.trust_id,
        "reservable": item.reservable,
        "down_reason": item.down_reason,
        "created_at": dates.format_record_date(item.created_at),
        "updated_at": dates.format_record_date(item.updated_at),
    }


def render_allocations(hosts: Iterable[Host], held: Iterable[HostAllocation]) -> list[Document]:
    """Return what is held of each host: an entry for each slot.

    Hosts that have left the freepool come last.
    """
    by_host: dict[int, list[Document]] = {each.id: [] for each in hosts}
    for each in held:
        by_host.setdefault(each.host_id, []).extend([{
            "id": each.reservation_id,
            "lease_id": each.lease_id,
            "start_date": dates.format_lease_date(each.window.start_at),
            "end_date": dates.format_lease_date(each.window.end_at),
        }] * each.slots)
    return [{"resource_id": str(id_), "reservations": found} for id_, found in by_host.items()]


def render_properties(items: Sequence[HostProperty]) -> list[Document]:
    """Return the names of properties; with their values, where these are known."""
    return [
        {"property": each.name} if each.values is None else
        {"property": each.name, "private": each.private, "values": list(each.values)}
        for each in items]


def render_changed_property(item: HostProperty) -> Document:
    """Return a property."""
    return {
        "id": item.id,
        "resource_type": item.resource_type,
        "property_name": item.name,
        "private": item.private,
        "created_at": dates.format_record_date(item.created_at),
        "updated_at": dates.format_record_date(item.updated_at),
    }
