"""How much is used: what a counting driver answers.

What is counted goes by *units*: the name of a resource class, ``CONSUMERS`` or
``INSTANCES``. Which units a limit is about, ``[quota] resource_map`` says.
Source: seed 000, requirements Q1 to Q8.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from oslo_config import cfg

from placement_core.context import Context

#: The unit of consumers in placement.
CONSUMERS = "consumers"
#: The unit of instances, as nova's databases have them.
INSTANCES = "instances"


@dataclasses.dataclass(frozen=True, slots=True)
class MissingCell:
    """A cell that a count lacks.

    :ivar reason: why, in a few words without secrets.
    :ivar known_since_seconds: how old the numbers are that were counted in its
        place; None: nothing was counted.
    """

    uuid: str
    name: str
    reason: str
    known_since_seconds: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """What projects use.

    :ivar projects: {project id: {unit: amount}}; a unit of which nothing is
        used may be missing, and so may a project.
    :ivar user: the same of one user in the project that was asked about; None
        where no user was.
    :ivar source: who counted: ``placement``, ``legacy_cell``, or a driver's name.
    :ivar missing_cells: the numbers are too low by what these hold. Never hidden.
    :ivar seconds: {what was asked (``api_database``, ``placement``, a cell's
        name): how long it took}.
    """

    projects: Mapping[str, Mapping[str, int]]
    source: str
    user: Mapping[str, int] | None = None
    missing_cells: Sequence[MissingCell] = ()
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class MemberCount:
    """How many members of a server group a user has."""

    members: int
    source: str
    missing_cells: Sequence[MissingCell] = ()
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)


class UsageReader(Protocol):
    """What every project uses, as the service keeps it of its own allocations."""

    def by_project(
        self, ctx: Context, project_ids: Collection[str] | None = None, *, moves_once: bool
    ) -> Mapping[str, Mapping[str, int]]:
        """Return what is committed: {project: {resource class or CONSUMERS: used}}.

        :param project_ids: None: of all; those that never used anything are left out.
        :param moves_once: what is being moved counts once.
        :raises errors.Unavailable: the database does not answer.
        """


class CountingDriver(abc.ABC):
    """Counts usage.

    Called from any thread of the server, outside of transactions unless it is
    ``transactional``. It may take as long as its own options say; then it answers
    without what it could not ask, and names it.

    :cvar api_version: the version of this class that a driver was written for.
    :cvar units: what it can count; None: any resource class, consumers, instances.
    :cvar folded: {unit: the one that it is counted in}, of units that it cannot tell
        apart: what stands for both can be counted, what stands for one cannot.
    :cvar transactional: it counts nothing but what the allocations in the
        service's own database add up to, so that a claim can be held to limits
        inside its own transaction (``[quota] guard``).
    """

    api_version = 1
    units: Collection[str] | None = None
    folded: Mapping[str, str] = MappingProxyType({})
    transactional = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:  # noqa: B027
        """Take the service's options; a driver with some of its own registers them here.

        :raises errors.ConfigurationError: one of them makes no sense.
        """

    def use_index(self, index: UsageReader) -> None:  # noqa: B027
        """Take what the service keeps of usage; called once, before anything is counted.

        For drivers that count the service's own allocations: sums over many projects cost
        less there than in the database.
        """

    @abc.abstractmethod
    def count(
        self, ctx: Context, project_ids: Collection[str], *, units: Collection[str],
        user_id: str | None = None, without: Collection[str] = (),
    ) -> Count:
        """Count what some projects use.

        :param units: what to count; those that are not in ``self.units`` are not told.
        :param user_id: count this user's share too; only with one project.
        :param without: uuids of consumers (instances) that shall not count.
        :raises errors.Unavailable: nothing could be counted at all.
        """

    @abc.abstractmethod
    def count_all(self, ctx: Context, *, units: Collection[str]) -> Count:
        """Count what every project uses, those that use nothing left out."""

    @abc.abstractmethod
    def server_group_members(
        self, ctx: Context, instance_uuids: Collection[str], user_id: str
    ) -> MemberCount:
        """Count the living instances of a user among the members of a server group."""

    def forget(self) -> None:  # noqa: B027
        """Drop what was kept of earlier answers, such as which projects are migrated."""
