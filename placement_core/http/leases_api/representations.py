"""Renders records as the JSON documents of responses. Source: spec blazar §2."""

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
    # Formatting dates takes longest in long lists, and most of them are equal.
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
            **each.compute_ids,
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
    """Return the document of ``render_lease`` as JSON."""
    return orjson.dumps(render_lease(item))


#: Texts are stored in the database: any change of the output of ``render_lease_text`` must
#: increment the format.
LEASE = LeaseRenderer(1, render_lease_text)


def render_host(item: Host) -> Document:
    """Return a host; its capabilities are next to its fields. Ids of hosts are text."""
    return {
        # Blazar has this field, and never sets it.
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


def render_allocations(
    hosts: Iterable[Host], allocations: Iterable[HostAllocation]
) -> list[Document]:
    """Return the allocations of each host, with an entry for each slot.

    Hosts that have left the freepool come last.
    """
    by_host: dict[int, list[Document]] = {host.id: [] for host in hosts}
    for allocation in allocations:
        by_host.setdefault(allocation.host_id, []).extend([{
            "id": allocation.reservation_id,
            "lease_id": allocation.lease_id,
            "start_date": dates.format_lease_date(allocation.window.start_at),
            "end_date": dates.format_lease_date(allocation.window.end_at),
        }] * allocation.slots)
    return [{"resource_id": str(host_id), "reservations": documents}
            for host_id, documents in by_host.items()]


def render_properties(items: Sequence[HostProperty]) -> list[Document]:
    """Return the names of properties, with their values if these were read."""
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
