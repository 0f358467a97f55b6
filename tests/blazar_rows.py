"""Rows of Blazar's tables, as Blazar writes them: hosts, and leases in any state."""

from __future__ import annotations

import datetime
import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Row = tuple[str, dict[str, Any]]

#: When a lease of these rows begins, if nothing else is said.
START = datetime.datetime(2031, 3, 1, 12)
DAY = datetime.timedelta(days=1)
CREATED = datetime.datetime(2030, 1, 2, 3, 4, 5)

_UU, _DU, _DD = ("UNDONE", "UNDONE"), ("DONE", "UNDONE"), ("DONE", "DONE")
#: {status of a lease: ((status of its start, of its end), status of its reservations)}.
_STATES = {
    "PENDING": (_UU, "pending"), "CREATING": (_UU, "pending"),
    "STARTING": (("IN_PROGRESS", "UNDONE"), "pending"), "ACTIVE": (_DU, "active"),
    "UPDATING": (_DU, "active"), "TERMINATING": (("DONE", "IN_PROGRESS"), "active"),
    "TERMINATED": (_DD, "deleted"), "DELETING": (_DU, "active"),
    "ERROR": (("ERROR", "UNDONE"), "error")}

_numbers = itertools.count(1)


def new_id() -> str:
    """Return a new uuid."""
    return str(uuid.uuid4())


def host(id_: str, name: str, **values: object) -> Row:
    """Return the row of a host."""
    return "computehosts", {
        "id": id_, "hypervisor_hostname": name, "vcpus": 8, "memory_mb": 8192, "local_gb": 100,
        "cpu_info": "", "hypervisor_type": "QEMU", "hypervisor_version": 2_010_001,
        "service_name": name, "availability_zone": "", "trust_id": "", "reservable": True,
        "created_at": CREATED, **values}


def capability(host_id: str, property_id: str, value: str) -> Row:
    """Return the row of a capability of a host."""
    return "computehost_extra_capabilities", {
        "id": new_id(), "computehost_id": host_id, "property_id": property_id,
        "capability_value": value, "created_at": CREATED}


def host_property(id_: str, name: str, *, private: bool = False,
                  resource_type: str = "physical:host") -> Row:
    """Return the row of a property."""
    return "resource_properties", {
        "id": id_, "resource_type": resource_type, "property_name": name, "private": private,
        "created_at": CREATED}


class LeaseRows:
    """The rows of a lease, in the order in which they can be inserted.

    :ivar rows: of all its tables; a test may change them before they are inserted.
    :ivar id: its id; ``start_id``, ``before_id`` and ``end_id`` those of its events.
    :ivar reservation_ids: in the order in which they were added.
    """

    def __init__(
        self, status: str = "PENDING", *, name: str | None = None,
        start: datetime.datetime = START, days: float = 1, **values: object,
    ) -> None:
        self.id = str(values.get("id") or new_id())
        self.name = name or f"lease-{next(_numbers)}"
        (self._start_status, self._end_status), self._status = _STATES[status]
        end = start + days * DAY
        self.rows: list[Row] = [("leases", {
            "id": self.id, "name": self.name, "user_id": "jane", "project_id": "demo",
            "start_date": start, "end_date": end, "trust_id": "trust", "status": status,
            "degraded": False, "created_at": CREATED, **values})]
        self.start_id, self.before_id, self.end_id = (new_id() for _ in range(3))
        self.reservation_ids: list[str] = []
        before = "DONE" if self._end_status == "DONE" else "UNDONE"
        for id_, event_type, at, event_status in (
            (self.start_id, "start_lease", start, self._start_status),
            (self.before_id, "before_end_lease", end - DAY / 24, before),
            (self.end_id, "end_lease", end, self._end_status),
        ):
            self.event(id_, event_type, at, event_status)

    def event(
        self, id_: str, event_type: str, at: datetime.datetime | None, status: str
    ) -> LeaseRows:
        """Add an event."""
        self.rows.append(("events", {
            "id": id_, "lease_id": self.id, "event_type": event_type, "time": at,
            "status": status, "created_at": CREATED}))
        return self

    def instances(self, slots: Mapping[str, int] = {}, **values: object) -> LeaseRows:
        """Add a ``virtual:instance`` reservation with a row of allocations for each slot."""
        id_, fields_id = self._reservation("virtual:instance")
        self.rows.append(("instance_reservations", {
            "id": fields_id, "reservation_id": id_, "vcpus": 2, "memory_mb": 1024,
            "disk_gb": 10, "amount": sum(slots.values()) or 1, "affinity": False,
            "resource_properties": "", "flavor_id": id_, "aggregate_id": 70 + next(_numbers),
            "server_group_id": None, "created_at": CREATED, **values}))
        return self._allocate(id_, slots)

    def hosts(self, ids: Sequence[str] = (), **values: object) -> LeaseRows:
        """Add a ``physical:host`` reservation of some hosts."""
        id_, fields_id = self._reservation("physical:host")
        self.rows.append(("computehost_reservations", {
            "id": fields_id, "reservation_id": id_, "aggregate_id": 70 + next(_numbers),
            "resource_properties": "", "count_range": f"1-{len(ids) or 1}",
            "hypervisor_properties": "", "before_end": "default", "created_at": CREATED,
            **values}))
        return self._allocate(id_, dict.fromkeys(ids, 1))

    def other(self, resource_type: str) -> LeaseRows:
        """Add a reservation of another type, without rows of its own."""
        self._reservation(resource_type)
        return self

    def change(self, table: str, **values: object) -> LeaseRows:
        """Change all rows of a table."""
        for name, row in self.rows:
            if name == table:
                row.update(values)
        return self

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def _reservation(self, resource_type: str) -> tuple[str, str]:
        id_, fields_id = new_id(), new_id()
        self.reservation_ids.append(id_)
        self.rows.append(("reservations", {
            "id": id_, "lease_id": self.id, "resource_id": fields_id,
            "resource_type": resource_type, "status": self._status,
            "missing_resources": False, "resources_changed": False,
            "created_at": CREATED + datetime.timedelta(seconds=len(self.reservation_ids))}))
        return id_, fields_id

    def _allocate(self, reservation_id: str, slots: Mapping[str, int]) -> LeaseRows:
        if self._status != "deleted":
            self.rows += [
                ("computehost_allocations", {
                    "id": new_id(), "compute_host_id": host_id,
                    "reservation_id": reservation_id, "created_at": CREATED})
                for host_id, count in slots.items() for _ in range(count)]
        return self
