"""Records of leases and hosts. Times are aware UTC."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from placement_core.plugin_api.reservations import Size, Window

# Statuses of leases (spec blazar §3). Every change is one transaction, so the transitional
# statuses of the reference are never visible.
PENDING, ACTIVE, TERMINATED, ERROR = "PENDING", "ACTIVE", "TERMINATED", "ERROR"

# Statuses of reservations.
R_PENDING, R_ACTIVE, R_DELETED, R_ERROR = "pending", "active", "deleted", "error"

# Types of events, and their statuses.
START, BEFORE_END, END = "start_lease", "before_end_lease", "end_lease"
UNDONE, IN_PROGRESS, DONE, E_ERROR = "UNDONE", "IN_PROGRESS", "DONE", "ERROR"

#: How many characters are stored of why an event or a call failed, which anything may have said.
LONGEST_PROBLEM = 2000


@dataclasses.dataclass(frozen=True, slots=True)
class Reservation:
    """A part of a lease.

    :ivar fields: its plugin's fields, as ``ReservationPlugin.values`` returned them.
    :ivar compute_ids: ids of its objects in the compute service: ``flavor_id``,
        ``server_group_id``, ``aggregate_id``; None where there is none.
    """

    id: str
    lease_id: str
    resource_type: str
    resource_id: str
    status: str
    missing_resources: bool
    resources_changed: bool
    fields: Mapping[str, Any]
    compute_ids: Mapping[str, str | int | None]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """An event of a lease: a start, the time before the end, or an end.

    :ivar problem: why it failed, if the status is ERROR.
    """

    id: str
    lease_id: str
    event_type: str
    due_at: datetime.datetime
    status: str
    problem: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


@dataclasses.dataclass(frozen=True, slots=True)
class EventWork:
    """An event, as managers see it.

    :ivar owner: the manager that owns it, or owned it last.
    :ivar attempts: how often it was dequeued; ``failures``: how often it failed since it was
        created or retried.
    :ivar deadline_at: until when its owner owns it; after a failure, the earliest time of the
        next attempt.
    :ivar problem: why it failed, or what it waits for.
    """

    id: str
    lease_id: str
    event_type: str
    due_at: datetime.datetime
    status: str
    owner: str | None
    attempts: int
    failures: int
    deadline_at: datetime.datetime | None
    problem: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Lease:
    """A lease.

    :ivar number: ascending in the order of creation; pages are ordered by it.
    """

    number: int
    id: str
    name: str
    user_id: str
    project_id: str
    start_at: datetime.datetime
    end_at: datetime.datetime
    status: str
    degraded: bool
    trust_id: str | None
    reservations: Sequence[Reservation]
    events: Sequence[Event]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None

    @property
    def window(self) -> Window:
        """Return the time from its start to its end."""
        return Window(self.start_at, self.end_at)


@dataclasses.dataclass(frozen=True, slots=True)
class NewReservation:
    """A reservation of a new lease.

    :ivar raw_fields: its plugin's fields as the client sent them, not yet checked.
    """

    resource_type: str
    raw_fields: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class NewLease:
    """A new lease, as the client requests it.

    :ivar start_at: None: now.
    :ivar before_end_at: None: ``[reservations] minutes_before_end_lease`` before the end.
    """

    name: str
    project_id: str
    user_id: str
    start_at: datetime.datetime | None
    end_at: datetime.datetime
    reservations: Sequence[NewReservation]
    before_end_at: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ChangedReservation:
    """Requested changes of a reservation.

    :ivar resource_type: None: not sent; otherwise it must be the present one.
    :ivar raw_fields: the fields to change as the client sent them, not yet checked.
    """

    id: str
    resource_type: str | None
    raw_fields: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseChange:
    """Requested changes of a lease; a field that is None does not change.

    :ivar start_now: start it at once; ``end_now``: end it at once.
    """

    name: str | None = None
    start_at: datetime.datetime | None = None
    end_at: datetime.datetime | None = None
    before_end_at: datetime.datetime | None = None
    start_now: bool = False
    end_now: bool = False
    reservations: Sequence[ChangedReservation] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """A host of the freepool.

    :ivar capabilities: {property: value}, in addition to the fields.
    :ivar down_reason: why it is not reservable.
    """

    id: int
    name: str
    provider_uuid: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    hypervisor_type: str | None
    hypervisor_version: int | None
    cpu_info: str | None
    service_name: str | None
    availability_zone: str | None
    trust_id: str | None
    reservable: bool
    down_reason: str | None
    capabilities: Mapping[str, str]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


@dataclasses.dataclass(frozen=True, slots=True)
class PoolHost:
    """A host of the freepool, as the compute service and placement know it.

    :ivar root_id: the id of its resource provider, the root of its tree.
    """

    id: int
    name: str
    root_id: int


@dataclasses.dataclass(frozen=True, slots=True)
class HostProperty:
    """A property that hosts can have a value of.

    :ivar values: the distinct values of all hosts; None: not requested.
    """

    id: str
    resource_type: str
    name: str
    private: bool
    values: Sequence[str] | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


@dataclasses.dataclass(frozen=True, slots=True)
class HostAllocation:
    """A share of a host that a reservation holds, or held.

    :ivar ended: the reservation has ended; ``window`` is the time in which it really held it.
    """

    host_id: int
    host_name: str
    lease_id: str
    reservation_id: str
    project_id: str
    slots: int
    whole: bool
    window: Window
    ended: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Notification:
    """A notification: one change of a lease.

    :ivar position: ascending in the order of reading; the next page begins after it.
    :ivar event: one of the constants of ``notifications``.
    :ivar lease: the lease after the change, {field of ``Lease``: value}; times are ISO texts.
    """

    position: int
    lease_id: str
    project_id: str
    event: str
    at: datetime.datetime
    lease: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class HostHistoryEntry:
    """A share of a host that a reservation held during a window.

    :ivar size: the size of one slot; for a whole host, of the host.
    :ivar ended: the reservation has ended; if not, ``window`` ends at the planned time.
    :ivar deleted: the lease was deleted.
    :ivar marker: the next page begins after this entry, if it is asked for with this marker.
    """

    host_id: int
    host_name: str
    lease_id: str
    lease_name: str
    project_id: str
    user_id: str
    reservation_id: str
    resource_type: str
    slots: int
    size: Size
    whole: bool
    window: Window
    ended: bool
    deleted: bool
    marker: str
