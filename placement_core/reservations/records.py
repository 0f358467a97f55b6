"""What this room tells about leases and hosts. Times are aware UTC."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from placement_core.plugin_api.reservations import Size, Window

# Statuses of leases (spec blazar §3). Every change is one transaction, so nobody ever
# sees the transitional ones of the reference.
PENDING, ACTIVE, TERMINATED, ERROR = "PENDING", "ACTIVE", "TERMINATED", "ERROR"

# Statuses of reservations.
R_PENDING, R_ACTIVE, R_DELETED, R_ERROR = "pending", "active", "deleted", "error"

# Types of events, and their statuses.
START, BEFORE_END, END = "start_lease", "before_end_lease", "end_lease"
UNDONE, IN_PROGRESS, DONE, E_ERROR = "UNDONE", "IN_PROGRESS", "DONE", "ERROR"


@dataclasses.dataclass(frozen=True, slots=True)
class Reservation:
    """A part of a lease.

    :ivar fields: those of its plugin, as ``ReservationPlugin.values`` returned them.
    :ivar made: what was made for it in the compute service: ``flavor_id``,
        ``server_group_id``, ``aggregate_id``; None where nothing is.
    """

    id: str
    lease_id: str
    resource_type: str
    resource_id: str
    status: str
    missing_resources: bool
    resources_changed: bool
    fields: Mapping[str, Any]
    made: Mapping[str, str | int | None]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """What shall happen, or has happened, to a lease.

    :ivar problem: why it failed, for one whose status is ERROR.
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
    """An event, as those see it who carry events out.

    :ivar owner: who has it, or had it last.
    :ivar attempts: how often somebody took it; ``failures``: how often it failed since it
        was made or retried.
    :ivar deadline_at: until when its owner has it; of one that failed, when it is tried
        again.
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
    """A claim in time.

    :ivar number: the order in which leases were made; a page ends with one.
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
        """Return when it is."""
        return Window(self.start_at, self.end_at)


@dataclasses.dataclass(frozen=True, slots=True)
class NewReservation:
    """A reservation that is asked for.

    :ivar given: the fields of its plugin as the client sent them, not yet checked.
    """

    resource_type: str
    given: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class NewLease:
    """A lease that is asked for.

    :ivar start_at: None: now.
    :ivar before_end_at: None: as ``[reservations] minutes_before_end_lease`` says.
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
    """What shall change of a reservation of a lease.

    :ivar resource_type: None: not said; else it must be what it is.
    """

    id: str
    resource_type: str | None
    given: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseChange:
    """What shall change of a lease; None: nothing.

    :ivar start_now: it shall start at once; ``end_now``: it shall end at once.
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

    :ivar capabilities: {property: value}, beside what the fields say.
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

    :ivar root_id: the key of its resource provider; ``child_id`` that of the child which
        is kept for reservations.
    """

    id: int
    name: str
    root_id: int
    child_id: int


@dataclasses.dataclass(frozen=True, slots=True)
class HostProperty:
    """A name that hosts can have a value of.

    :ivar values: those that hosts have, each once; None: not asked for.
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
    """What one reservation holds, or held, of a host.

    :ivar ended: its reservation has ended; ``window`` is when it really held it.
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
    """What was done to a lease.

    :ivar position: in the order of reading; the next page begins after it.
    :ivar event: one of those of ``notifications``.
    :ivar lease: as it was afterwards, by the names of ``Lease``; times are ISO texts.
    """

    position: int
    lease_id: str
    project_id: str
    event: str
    at: datetime.datetime
    lease: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class HostHistoryEntry:
    """What a reservation held of a host, from when to when.

    :ivar size: of one slot; of the host, for a whole one.
    :ivar ended: it is over; until then ``window`` ends when it is planned to.
    :ivar deleted: the lease was deleted.
    :ivar marker: the next page begins after it.
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
