"""What can be reserved: what a reservation plugin implements.

A plugin is chosen by the resource type that clients name (``physical:host``). It
says what a reservation of its type needs: whole hosts, slots on hosts, or amounts of
something that is on no host. The room ``reservations`` finds out whether all that a
lease needs can be had at once, next to what is promised to others: because needs are
told and not taken, reservations of different plugins in one lease cannot stand in
each other's way as long as any arrangement of them fits. Windows are half open: what
ends at noon is free at noon.
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

#: The largest number that a reservation may ask for of anything.
LARGEST = 2**31 - 1

#: A host that has more is as good as one that has this: sums stay within 64 bits.
_PLENTY = 2**40


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """A time from ``start_at`` up to, and without, ``end_at``; aware, in whole seconds."""

    start_at: datetime.datetime
    end_at: datetime.datetime

    def __post_init__(self) -> None:
        if self.start_at.microsecond or self.end_at.microsecond:
            raise ValueError("a window begins and ends at whole seconds")
        if not self.start_at < self.end_at:
            raise ValueError("a window ends after it begins")

    @classmethod
    def of(cls, start: int, end: int) -> Window:
        """Make a window of seconds since the epoch."""
        return cls(*(datetime.datetime.fromtimestamp(at, datetime.UTC) for at in (start, end)))

    @property
    def start(self) -> int:
        """When it begins, in seconds since the epoch."""
        return int(self.start_at.timestamp())

    @property
    def end(self) -> int:
        """When it has ended, in seconds since the epoch."""
        return int(self.end_at.timestamp())

    def __str__(self) -> str:
        return f"between {_text(self.start_at)} and {_text(self.end_at)}"


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """An amount of what a host has. ``memory_mb`` in MiB, ``disk_gb`` in GiB."""

    vcpus: int
    memory_mb: int
    disk_gb: int

    def amounts(self) -> tuple[int, int, int]:
        """Return it in the order of the columns of ``Hosts.sizes``."""
        return self.vcpus, self.memory_mb, self.disk_gb

    def __str__(self) -> str:
        return (f"{self.vcpus} VCPU, {self.memory_mb} MiB of memory and "
                f"{self.disk_gb} GiB of disk")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Hosts:
    """The freepool, as columns: row ``i`` of each is about the same host.

    :ivar ids: int64, ascending.
    :ivar sizes: int64, three columns as ``Size.amounts``: what can be promised.
    :ivar reservable: bool; False for one that is down: no new promises.
    :ivar promised: bool; somebody has, or had, a promise of it at some time.
    :ivar properties: {name: the value of each host, None where it has none}, all that
        requirements may ask for; numbers are numbers, everything else is text. Only
        those are there that ``ReservationPlugin.properties`` names.
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
        """Make the columns of rows ``(id, vcpus, memory_mb, disk_gb, reservable, promised)``.

        :param rows: in the order of ids; sizes may be of any magnitude.
        """
        columns = [_integers(column) for column in
                   (zip(*rows, strict=True) if rows else [()] * 6)]
        return cls(columns[0], np.minimum(np.stack(columns[1:4], axis=1), _PLENTY),
                   columns[4] != 0, columns[5] != 0, properties or {})

    def __len__(self) -> int:
        return len(self.ids)


@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """What a reservation holds of a host.

    :ivar slots: how many instances it is good for; 1 for a whole host.
    :ivar size: of one slot; of the host, for a whole one.
    :ivar whole: nobody else may hold anything of the host at the same time.
    """

    host_id: int
    slots: int
    size: Size
    whole: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ReservationSpec:
    """A reservation that shall be planned, or is carried out.

    :ivar values: the plugin's fields, as its ``values`` returned them.
    :ivar held: its shares up to now, for a change.
    :ivar started: it is in force: shares may be added, none given up.
    """

    reservation_id: str
    project_id: str
    values: Mapping[str, Any]
    held: Sequence[Share] = ()
    started: bool = False


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class WholeHosts:
    """A need of hosts that nobody else has anything of.

    :ivar maximum: as many are taken, if there are so many; at least ``minimum``.
    :ivar hosts: bool for each row of ``Hosts``: it meets the requirements.
    """

    minimum: int
    maximum: int
    hosts: np.ndarray

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.maximum:
            raise ValueError("at least one host is needed, at most the maximum")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """A need of some slots of one size, on hosts that may be shared.

    :ivar affinity: True: all on one host; False: each on another; None: anywhere.
    :ivar hosts: bool for each row of ``Hosts``: it meets the requirements.
    """

    size: Size
    amount: int
    affinity: bool | None
    hosts: np.ndarray

    def __post_init__(self) -> None:
        if self.amount < 1 or min(self.size.amounts()) < 0 or not any(self.size.amounts()):
            raise ValueError("a slot has a size, and at least one is needed")


@dataclasses.dataclass(frozen=True, slots=True)
class Amounts:
    """A need of amounts of what is on no host: {what: how much, from 1 on}.

    How much there is says ``ReservationPlugin.capacities``.
    """

    amounts: Mapping[str, int]

    def __post_init__(self) -> None:
        if min(self.amounts.values(), default=0) < 1:
            raise ValueError("some amount of something is needed")


Demand = WholeHosts | Slots | Amounts


class DoesNotFit(errors.Conflict):
    """A lease cannot be had over its window.

    :ivar missing: {what: how much of it fell short}: ``slots``, ``hosts``, ``VCPU``,
        ``MEMORY_MB``, ``DISK_GB``, or what a plugin calls its own.
    :ivar during: the first part of the window in which least is free; None where
        there is room at any moment, but not in one place throughout.
    """

    code = "reservations.no_room"

    def __init__(
        self, message: str, missing: Mapping[str, int], during: Window | None = None
    ) -> None:
        super().__init__(message)
        self.missing = missing
        self.during = during


class NotChangeable(errors.Conflict):
    """A field of a reservation that is in force cannot become what was asked for."""

    code = "reservations.not_changeable"


class InvalidReservation(errors.Invalid):
    """The fields of a reservation make no sense together.

    :ivar field: which one is wrong.
    """

    code = "reservations.invalid"

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class ReservationPlugin(abc.ABC):
    """Says what reservations of one resource type need, and carries them out.

    Used from any thread; holds no state but its options. All but the hooks is pure:
    no clock, no database, the same answer each time.

    :cvar api_version: the version of this class that a plugin was written for.
    :cvar resource_type: what clients call it.
    :cvar create_schema: JSON schema of its fields of a reservation that is made
        (``resource_type`` and ``id`` are not among them); it refuses unknown fields.
    :cvar update_schema: the same of one that is changed; none is required.
    """

    api_version = 1
    resource_type: str
    create_schema: Mapping[str, Any]
    update_schema: Mapping[str, Any]

    def __init__(self, conf: cfg.ConfigOpts) -> None:  # noqa: B027
        """Take the service's options; a plugin with some of its own registers them here.

        :raises errors.ConfigurationError: one of them makes no sense.
        """

    @abc.abstractmethod
    def values(
        self, raw_fields: Mapping[str, Any], before: Mapping[str, Any] | None = None, *,
        started: bool = False,
    ) -> Mapping[str, Any]:
        """Return the fields of a reservation as they are kept and shown.

        All of them, each in one spelling, of types that JSON has; given to it again,
        they come out the same.

        :param raw_fields: fields as the client sent them; a schema of the plugin accepted them.
        :param before: the fields of the reservation that is changed.
        :param started: it is in force.
        :raises InvalidReservation: they make no sense, or not together.
        :raises NotChangeable: not while it is in force.
        """

    def properties(self, values: Mapping[str, Any]) -> frozenset[str]:
        """Return the names of the properties of hosts that ``need`` looks at.

        :param values: the fields, as ``values`` returned them.
        """
        return frozenset()

    @abc.abstractmethod
    def need(self, spec: ReservationSpec, hosts: Hosts) -> Demand:
        """Return what a reservation needs.

        :param hosts: with the properties that ``properties`` named, if any host has them.

        :raises InvalidReservation: it asks for what no host can have.
        """

    def capacities(self) -> Mapping[str, int]:
        """Return how much there is of what is on no host, by the names in ``Amounts``."""
        return {}

    def started(self, ctx: Context, spec: ReservationSpec, window: Window) -> None:  # noqa: B027
        """Put a reservation into force, in the transaction that says so."""

    def before_end(self, ctx: Context, spec: ReservationSpec, window: Window) -> None:  # noqa: B027
        """Prepare for the end, in the transaction that says so."""

    def ended(self, ctx: Context, spec: ReservationSpec, window: Window) -> None:  # noqa: B027
        """Take a reservation out of force, in the transaction that says so."""


def _integers(column: Sequence[int]) -> np.ndarray:
    """Return a column of numbers of any magnitude; what is plenty is cut, if need be."""
    try:
        return np.fromiter(column, dtype=np.int64, count=len(column))
    except OverflowError:
        return np.fromiter((min(number, _PLENTY) for number in column), dtype=np.int64)


def _text(at: datetime.datetime) -> str:
    utc = at.astimezone(datetime.UTC)
    return utc.strftime("%Y-%m-%d %H:%M:%S" if utc.second else "%Y-%m-%d %H:%M")
