"""The interface of reservation plugins.

The resource type that a client names, such as ``physical:host``, selects the plugin. The plugin
says what a reservation needs: whole hosts, slots on hosts, or amounts of something that is on no
host. The package ``reservations`` decides whether everything that a lease needs fits next to the
bookings of other leases. Plugins allocate nothing themselves, so reservations of different
plugins in one lease do not compete: a lease is refused only if no arrangement of them fits.
Windows are half-open: a host whose lease ends at noon is free at noon.
Source: design §6, requirements R1 to R4; spec blazar §4.
"""

from __future__ import annotations

import abc
import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from oslo_config import cfg

from placement_core import errors
from placement_core.context import Context

#: The largest amount that a reservation may request.
LARGEST = 2**31 - 1

#: How many characters a resource type has at most.
LONGEST_TYPE = 66

#: Larger amounts of a host are cut to this, so that sums stay within 64 bits.
_PLENTY = 2**40


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """The time from ``start_at`` until ``end_at``, which is not included.

    Both are timezone-aware, in whole seconds.
    """

    start_at: datetime.datetime
    end_at: datetime.datetime

    def __post_init__(self) -> None:
        if self.start_at.microsecond or self.end_at.microsecond:
            raise ValueError("a window begins and ends at whole seconds")
        if not self.start_at < self.end_at:
            raise ValueError("a window ends after it begins")

    @classmethod
    def of(cls, start: int, end: int) -> Window:
        """Return the window between two times in seconds since the epoch."""
        return cls(*(datetime.datetime.fromtimestamp(at, datetime.UTC) for at in (start, end)))

    @property
    def start(self) -> int:
        """The start of the window, in seconds since the epoch."""
        return int(self.start_at.timestamp())

    @property
    def end(self) -> int:
        """The end of the window, in seconds since the epoch."""
        return int(self.end_at.timestamp())

    def __str__(self) -> str:
        return f"between {_text(self.start_at)} and {_text(self.end_at)}"


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """The size of a host or a slot; ``memory_mb`` in MiB, ``disk_gb`` in GiB."""

    vcpus: int
    memory_mb: int
    disk_gb: int

    def amounts(self) -> tuple[int, int, int]:
        """Return the amounts in the order of the columns of ``Hosts.sizes``."""
        return self.vcpus, self.memory_mb, self.disk_gb

    def __str__(self) -> str:
        return (f"{self.vcpus} VCPU, {self.memory_mb} MiB of memory and "
                f"{self.disk_gb} GiB of disk")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Hosts:
    """The hosts of the freepool, as columns: row ``i`` of each describes the same host.

    :ivar ids: int64, ascending.
    :ivar sizes: int64, three columns as in ``Size.amounts``: the amounts that can be booked.
    :ivar reservable: bool; False: the host is down and gets no new bookings.
    :ivar promised: bool; whether the host has, or had, a booking at any time.
    :ivar properties: {name: the value of each host, None where a host lacks it}, of the
        properties that ``ReservationPlugin.properties`` names. Numbers are integers, all other
        values are strings.
    """

    ids: np.ndarray
    sizes: np.ndarray
    reservable: np.ndarray
    promised: np.ndarray
    properties: Mapping[str, Sequence[int | str | None]]

    @classmethod
    def of(
        cls, rows: Sequence[tuple[int, int, int, int, bool, bool]],
        properties: Mapping[str, Sequence[int | str | None]] | None = None,
    ) -> Hosts:
        """Return the columns of rows ``(id, vcpus, memory_mb, disk_gb, reservable, promised)``.

        :param rows: in ascending order of ids; sizes may have any magnitude.
        """
        columns = [_integers(column) for column in
                   (zip(*rows, strict=True) if rows else [()] * 6)]
        return cls(columns[0], np.minimum(np.stack(columns[1:4], axis=1), _PLENTY),
                   columns[4] != 0, columns[5] != 0, properties or {})

    def __len__(self) -> int:
        return len(self.ids)


@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """The part of a host that a reservation has.

    :ivar slots: the number of instances that fit in it; 1 for a whole host.
    :ivar size: the size of one slot; for a whole host, that of the host.
    :ivar whole: whether no other reservation may have a share of the host at the same time.
    """

    host_id: int
    slots: int
    size: Size
    whole: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ReservationSpec:
    """A reservation that is planned, or that starts or ends.

    :ivar values: the plugin's fields, as ``ReservationPlugin.values`` returned them.
    :ivar held: for an update, the shares that the reservation has so far.
    :ivar started: whether it is in force: then it can get more shares, and keeps those it has.
    """

    reservation_id: str
    project_id: str
    values: Mapping[str, Any]
    held: Sequence[Share] = ()
    started: bool = False


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LevelDomains:
    """Which hosts are near each other at a level of topology, such as racks.

    :ivar level: how clients name the level.
    :ivar numbers: int64 for each row of ``Hosts``: the number of its domain; -1: it is in none.
    :ivar names: of the domains, by number.
    """

    level: str
    numbers: np.ndarray
    names: Sequence[str]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HostTopology:
    """How what a demand gets is to lie. A demand's ``hosts`` are in a domain of every level.

    :ivar within: all of it lies in one domain of this level.
    :ivar pack_by: it lies in as few domains of this level as possible, on as few hosts.
    :ivar spread_by: it is divided among the domains of this level as evenly as possible.
    """

    within: LevelDomains | None = None
    pack_by: LevelDomains | None = None
    spread_by: LevelDomains | None = None

    def __post_init__(self) -> None:
        if self.pack_by is not None and self.spread_by is not None:
            raise ValueError("what is packed is not spread")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class WholeHosts:
    """A demand for whole hosts, which no other reservation shares.

    :ivar minimum: the number of hosts without which the lease is refused.
    :ivar maximum: the number of hosts that are booked if so many are free.
    :ivar hosts: bool for each row of ``Hosts``: whether it meets the requirements.
    """

    minimum: int
    maximum: int
    hosts: np.ndarray
    topology: HostTopology = HostTopology()

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.maximum:
            raise ValueError("at least one host is needed, at most the maximum")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """A demand for slots of one size, on hosts that may be shared.

    :ivar affinity: True: all slots on one host; False: each on a different host; None: any.
    :ivar hosts: bool for each row of ``Hosts``: whether it meets the requirements.
    """

    size: Size
    amount: int
    affinity: bool | None
    hosts: np.ndarray
    topology: HostTopology = HostTopology()

    def __post_init__(self) -> None:
        if self.amount < 1 or min(self.size.amounts()) < 0 or not any(self.size.amounts()):
            raise ValueError("a slot has a size, and at least one is needed")


@dataclasses.dataclass(frozen=True, slots=True)
class Amounts:
    """A demand for things that are on no host: {name: amount, from 1 on}.

    ``ReservationPlugin.capacities`` returns how much of each exists.
    """

    amounts: Mapping[str, int]

    def __post_init__(self) -> None:
        if min(self.amounts.values(), default=0) < 1:
            raise ValueError("some amount of something is needed")


Demand = WholeHosts | Slots | Amounts


class DoesNotFit(errors.Conflict):
    """A lease does not fit in its window.

    :ivar missing: {name: missing amount}; names are ``slots``, ``hosts``, ``VCPU``,
        ``MEMORY_MB``, ``DISK_GB``, and those of ``ReservationPlugin.capacities``.
    :ivar during: the first part of the window in which the least is free; None if there is
        room at every moment, but not on the same hosts throughout.
    """

    code = "reservations.no_room"

    def __init__(
        self, message: str, missing: Mapping[str, int], during: Window | None = None
    ) -> None:
        super().__init__(message)
        self.missing = missing
        self.during = during


class NotChangeable(errors.Conflict):
    """A field cannot have the requested value while the reservation is in force."""

    code = "reservations.not_changeable"


class InvalidReservation(errors.Invalid):
    """The fields of a reservation are not valid, alone or together.

    :ivar field: the name of the field that is wrong.
    """

    code = "reservations.invalid"

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class ReservationPlugin(abc.ABC):
    """Says what reservations of one resource type need, and reacts when they start and end.

    Used from any thread; has no state but its options. All methods except the hooks
    ``started``, ``before_end`` and ``ended`` are pure: they use neither clock nor database.

    :cvar api_version: the version of this class that a plugin was written for.
    :cvar resource_type: the resource type that clients name, which is the name of the entry
        point; at most ``LONGEST_TYPE`` characters.
    :cvar create_schema: the JSON schema of the plugin's fields in a new reservation, without
        ``resource_type`` and ``id``; it refuses unknown fields.
    :cvar update_schema: the same for an update, where no field is required.
    """

    api_version = 1
    resource_type: str
    create_schema: Mapping[str, Any]
    update_schema: Mapping[str, Any]

    def __init__(self, conf: cfg.ConfigOpts) -> None:  # noqa: B027
        """Take the service's options; a plugin registers its own options here.

        :raises errors.ConfigurationError: an option of the plugin is not valid.
        """

    @classmethod
    def find_misnaming(cls, name: str) -> str | None:
        """Return why the entry point of a plugin cannot have this name; None: it can.

        Leases store ``resource_type``, and find their plugin by it.
        """
        resource_type = getattr(cls, "resource_type", None)
        if resource_type != name:
            return (f"has the resource_type {resource_type!r}; expected {name!r}, the name of "
                    "its entry point")
        if len(name) > LONGEST_TYPE:
            return (f"has a resource_type of {len(name)} characters; expected at most "
                    f"{LONGEST_TYPE}")
        return None

    @abc.abstractmethod
    def values(
        self, raw_fields: Mapping[str, Any], before: Mapping[str, Any] | None = None, *,
        started: bool = False,
    ) -> Mapping[str, Any]:
        """Return all fields of a reservation, normalized, as they are stored and shown.

        Values have types of JSON. Normalizing the result again does not change it.

        :param raw_fields: the fields that the client sent and the plugin's schema accepted.
        :param before: for an update, the present fields of the reservation.
        :param started: whether the reservation is in force.
        :raises InvalidReservation: the fields are not valid, alone or together.
        :raises NotChangeable: a field cannot be changed while the reservation is in force.
        """

    def properties(self, values: Mapping[str, Any]) -> frozenset[str]:
        """Return the names of the host properties that ``need`` reads.

        :param values: the fields, as ``values`` returned them.
        """
        return frozenset()

    @abc.abstractmethod
    def need(self, spec: ReservationSpec, hosts: Hosts) -> Demand:
        """Return the demand of a reservation.

        :param hosts: the freepool, with the properties that ``properties`` named and that at
            least one host has.
        :raises InvalidReservation: the reservation requests what no host can have.
        """

    def capacities(self) -> Mapping[str, int]:
        """Return how much exists of each thing that is on no host, by its name in ``Amounts``."""
        return {}

    def started(self, ctx: Context, spec: ReservationSpec, window: Window) -> None:  # noqa: B027
        """React to the start of a reservation, in the transaction that starts it."""

    def before_end(self, ctx: Context, spec: ReservationSpec, window: Window) -> None:  # noqa: B027
        """React to the event ``before_end``, in the transaction of the event."""

    def ended(self, ctx: Context, spec: ReservationSpec, window: Window) -> None:  # noqa: B027
        """React to the end of a reservation, in the transaction that ends it."""


def _integers(column: Sequence[int]) -> np.ndarray:
    """Return a column of numbers, cut to ``_PLENTY`` if they exceed 64 bits."""
    try:
        return np.fromiter(column, dtype=np.int64, count=len(column))
    except OverflowError:
        return np.fromiter((min(number, _PLENTY) for number in column), dtype=np.int64)


def _text(at: datetime.datetime) -> str:
    utc = at.astimezone(datetime.UTC)
    return utc.strftime("%Y-%m-%d %H:%M:%S" if utc.second else "%Y-%m-%d %H:%M")
