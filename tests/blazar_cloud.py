"""Hosts and leases that Blazar's own code writes.

``python -m tests.blazar_cloud --config-file BLAZAR_CONF STEP`` writes into the database of that
configuration, and prints the ids of all leases as JSON: {name: id}. STEP is ``create``, or
``go-on`` for what happens to them later. It is a process of its own, for Blazar has one
configuration in each; ``blazar_databases.write_cloud`` starts it.

Each row is written by the function of ``blazar.db.api`` with which Blazar's manager and plugins
write it, and in their order; Blazar's own decorator moves leases from status to status. Only what
they would ask of nova, Placement and Keystone is left out.
Source: Blazar 18, ``manager/service.py``, ``plugins/oshosts/host_plugin.py`` and
``plugins/instances/instance_plugin.py``.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from blazar import status
from blazar.db import api
from oslo_config import cfg

_DAY, _HOUR = datetime.timedelta(days=1), datetime.timedelta(hours=1)
_START = datetime.datetime(2031, 3, 1, 12)
_NOW = datetime.datetime.now(datetime.UTC).replace(tzinfo=None, second=0, microsecond=0)

_events, _of_lease, _of_reservation = status.event, status.lease, status.reservation


def create() -> None:
    """Write two hosts, and leases in each state in which they stay."""
    _create_host("1", "one", gpu="yes")
    _create_host("2", "two", gpu="no", rack="r2")
    api.resource_property_update("physical:host", "rack", {"private": True})

    _reserve_instances(_create_lease("slots", _START), ["1", "1", "2"])
    _reserve_instances(_create_lease("apart", _START), ["1", "2"], affinity=False)
    _reserve_instances(_create_lease("together", _START + 2 * _DAY), ["2", "2"], affinity=True)
    _reserve_hosts(_create_lease("whole", _START + 4 * _DAY), ["1"], {
        "count_range": "1-2", "resource_properties": '["==", "$gpu", "yes"]'})
    both = _create_lease("both", _NOW - 2 * _HOUR)
    _reserve_instances(both, ["1"])
    _reserve_hosts(both, ["2"])
    ended = _create_lease("ended", _NOW - 9 * _DAY)
    _reserve_hosts(ended, ["1", "2"])
    failed = _create_lease("failed", _NOW - 19 * _DAY)
    _reserve_instances(failed, ["2"])
    for lease in api.lease_list():
        _finish_lease(lease["id"])

    _run_event(both, "start_lease", _start)
    _run_event(ended, "start_lease", _start)
    _run_event(ended, "before_end_lease")
    _run_event(ended, "end_lease", _end)
    _run_event(failed, "start_lease", _fail_to_start)


def go_on() -> None:
    """Write what becomes of them: leases start, end, change, move to other hosts and go."""
    ids = _find_leases()
    _run_event(ids["slots"], "start_lease", _start)
    _run_event(ids["both"], "before_end_lease")
    _run_event(ids["both"], "end_lease", _end)
    _prolong(lease_id=ids["whole"])
    # It is healed.
    for allocation in _list_allocations(ids["together"]):
        api.host_allocation_update(allocation["id"], {"compute_host_id": "1"})
    _delete(lease_id=ids["apart"])
    api.host_update("2", {"reservable": False})
    [(capability, _)] = api.host_extra_capability_get_all_per_name("2", "rack")
    api.host_extra_capability_update(capability["id"], {"capability_value": "r3"})


def _find_leases() -> dict[str, str]:
    return {lease["name"]: lease["id"] for lease in api.lease_list()}


def _create_host(id_: str, name: str, **capabilities: str) -> None:
    api.host_create({
        "id": id_, "availability_zone": "", "hypervisor_hostname": name, "service_name": name,
        "vcpus": 8, "cpu_info": "{'arch': 'x86_64'}", "hypervisor_type": "QEMU",
        "hypervisor_version": 2_010_001, "memory_mb": 8192, "local_gb": 100,
        "trust_id": "trust"})
    for property_name, value in capabilities.items():
        api.host_extra_capability_create({
            "computehost_id": id_, "property_name": property_name, "capability_value": value})
    api.host_resource_inventory_create({
        "computehost_id": id_, "resource_class": "VCPU", "total": 8, "reserved": 0,
        "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 1.0})
    api.host_trait_create({"computehost_id": id_, "trait": "HW_CPU_X86_AVX2"})


def _create_lease(name: str, start: datetime.datetime) -> str:
    """Write a lease of four hours, as it is before its reservations and events; return its id."""
    lease = api.lease_create({
        "name": name, "user_id": "jane", "project_id": "demo", "start_date": start,
        "end_date": start + 4 * _HOUR, "trust_id": "trust", "status": _of_lease.CREATING})
    return str(lease["id"])


def _finish_lease(id_: str) -> None:
    """Write the events of a lease that has its reservations, and that it is complete."""
    lease = api.lease_get(id_)
    for event_type, at in (
            ("start_lease", lease["start_date"]), ("end_lease", lease["end_date"]),
            ("before_end_lease", lease["end_date"] - _HOUR)):
        api.event_create({
            "event_type": event_type, "time": at, "status": _events.UNDONE, "lease_id": id_})
    api.lease_update(id_, {"status": _of_lease.PENDING})


def _create_reservation(lease_id: str, resource_type: str) -> str:
    reservation = api.reservation_create({
        "lease_id": lease_id, "resource_type": resource_type,
        "status": _of_reservation.PENDING})
    return str(reservation["id"])


def _allocate(reservation_id: str, host_ids: Sequence[str]) -> None:
    for host_id in host_ids:
        api.host_allocation_create({
            "compute_host_id": host_id, "reservation_id": reservation_id})


def _reserve_instances(
    lease_id: str, host_ids: Sequence[str], affinity: bool | None = None
) -> None:
    """Write a ``virtual:instance`` reservation.

    :param host_ids: of the host of each slot.
    """
    id_ = _create_reservation(lease_id, "virtual:instance")
    fields = api.instance_reservation_create({
        "reservation_id": id_, "vcpus": 2, "memory_mb": 1024, "disk_gb": 10,
        "amount": len(host_ids), "affinity": affinity, "resource_properties": ""})
    _allocate(id_, host_ids)
    api.instance_reservation_update(fields["id"], {
        "flavor_id": id_, "aggregate_id": 71,
        "server_group_id": None if affinity is None else "group"})
    api.reservation_update(id_, {"resource_id": fields["id"]})


def _reserve_hosts(
    lease_id: str, host_ids: Sequence[str], values: Mapping[str, Any] | None = None
) -> None:
    """Write a ``physical:host`` reservation."""
    id_ = _create_reservation(lease_id, "physical:host")
    fields = api.host_reservation_create({
        "reservation_id": id_, "aggregate_id": 72, "resource_properties": "",
        "hypervisor_properties": "", "count_range": f"{len(host_ids)}-{len(host_ids)}",
        "status": "pending", "before_end": "default", **(values or {})})
    _allocate(id_, host_ids)
    api.reservation_update(id_, {"resource_id": fields["id"]})


def _find_event(lease_id: str, event_type: str) -> Any:
    return api.event_get_first_sorted_by_filters(
        "lease_id", "asc", {"lease_id": lease_id, "event_type": event_type})


def _run_event(
    lease_id: str, event_type: str, action: Callable[..., None] | None = None
) -> None:
    """Let an event of a lease happen.

    :param action: also marks it as done, or not; None: nothing is to be done.
    """
    event_id = _find_event(lease_id, event_type)["id"]
    api.event_update(event_id, {"status": _events.IN_PROGRESS})
    if action is None:
        api.event_update(event_id, {"status": _events.DONE})
    else:
        action(lease_id=lease_id, event_id=event_id)


@_of_lease.lease_status(
    transition=_of_lease.STARTING, result_in=(_of_lease.ACTIVE, _of_lease.ERROR))
def _start(lease_id: str, event_id: str) -> None:
    _set_reservations(lease_id, _of_reservation.ACTIVE)
    api.event_update(event_id, {"status": _events.DONE})


@_of_lease.lease_status(
    transition=_of_lease.STARTING, result_in=(_of_lease.ACTIVE, _of_lease.ERROR))
def _fail_to_start(lease_id: str, event_id: str) -> None:
    _set_reservations(lease_id, _of_reservation.ERROR)
    api.event_update(event_id, {"status": _events.ERROR})


@_of_lease.lease_status(
    transition=_of_lease.TERMINATING, result_in=(_of_lease.TERMINATED, _of_lease.ERROR))
def _end(lease_id: str, event_id: str) -> None:
    for allocation in _list_allocations(lease_id):
        api.host_allocation_destroy(allocation["id"])
    _set_reservations(lease_id, _of_reservation.DELETED)
    api.event_update(event_id, {"status": _events.DONE})


@_of_lease.lease_status(transition=_of_lease.UPDATING, result_in=_of_lease.STABLE)
def _prolong(lease_id: str) -> None:
    end = api.lease_get(lease_id)["end_date"] + 2 * _HOUR
    for event_type, at in (("end_lease", end), ("before_end_lease", end - _HOUR)):
        api.event_update(_find_event(lease_id, event_type)["id"], {"time": at})
    api.lease_update(lease_id, {"end_date": end})


@_of_lease.lease_status(transition=_of_lease.DELETING, result_in=(_of_lease.ERROR,))
def _delete(lease_id: str) -> None:
    for allocation in _list_allocations(lease_id):
        api.host_allocation_destroy(allocation["id"])
    api.lease_destroy(lease_id)


def _set_reservations(lease_id: str, reservation_status: str) -> None:
    for reservation in api.reservation_get_all_by_lease_id(lease_id):
        api.reservation_update(reservation["id"], {"status": reservation_status})


def _list_allocations(lease_id: str) -> list[Any]:
    return [
        allocation for reservation in api.reservation_get_all_by_lease_id(lease_id)
        for allocation in api.host_allocation_get_all_by_values(
            reservation_id=reservation["id"])]


if __name__ == "__main__":
    *options, step = sys.argv[1:]
    cfg.CONF(options, project="blazar")
    {"create": create, "go-on": go_on}[step]()
    print(json.dumps(_find_leases()))
