"""The interface of counting drivers: how much projects use.

Usage is counted in *units*: a resource class, ``CONSUMERS`` or ``INSTANCES``. ``[quota]
resource_map`` maps the names of limits to units.
Source: seed 000, requirements Q1 to Q8.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeAlias

from oslo_config import cfg

from placement_core.context import Context

#: (project id, user id)
Owner: TypeAlias = tuple[str, str]

#: The unit of consumers in placement.
CONSUMERS = "consumers"
#: The unit of instances, as nova's databases have them.
INSTANCES = "instances"


@dataclasses.dataclass(frozen=True, slots=True)
class MissingCell:
    """A cell whose usage could not be read for a count.

    :ivar reason: why it could not, in a few words without secrets.
    :ivar known_since_seconds: the age of the earlier answer that was counted instead; None:
        the count contains nothing of this cell.
    """

    uuid: str
    name: str
    reason: str
    known_since_seconds: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """The usage of some projects.

    :ivar projects: {project id: {unit: amount}}; units and projects without usage may be
        left out.
    :ivar user: {unit: amount} of the user in the project; None if no user was given.
    :ivar source: the name of the driver that counted.
    :ivar missing_cells: the amounts lack the usage in these cells. They must be reported.
    :ivar seconds: how long each source took to answer: {``api_database``, ``placement`` or
        the name of a cell: seconds}.
    """

    projects: Mapping[str, Mapping[str, int]]
    source: str
    user: Mapping[str, int] | None = None
    missing_cells: Sequence[MissingCell] = ()
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class UserCount:
    """The usage of some users in projects; the other fields are as those of ``Count``.

    :ivar users: {(project id, user id): {unit: amount}}; units and users without usage may be
        left out.
    """

    users: Mapping[Owner, Mapping[str, int]]
    source: str
    missing_cells: Sequence[MissingCell] = ()
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class MemberCount:
    """The number of members of a server group that belong to a user."""

    members: int
    source: str
    missing_cells: Sequence[MissingCell] = ()
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)


class UsageReader(Protocol):
    """The usage index: the usage of every project in the service's own allocations."""

    def by_project(
        self, ctx: Context, project_ids: Collection[str] | None = None, *, moves_once: bool
    ) -> Mapping[str, Mapping[str, int]]:
        """Return the committed usage: {project: {resource class or CONSUMERS: used}}.

        :param project_ids: None: all projects, without those that never used anything.
        :param moves_once: whether an instance that is being moved counts once instead of twice.
        :raises errors.Unavailable: the database does not answer.
        """


class CountingDriver(abc.ABC):
    """Counts usage.

    Called from any thread, outside of transactions unless the driver is ``transactional``. A
    call may take as long as the driver's options allow; then the driver answers without the
    sources that have not answered, and names them.

    :cvar api_version: the version of this class that a driver was written for.
    :cvar units: the units that the driver can count; None: all resource classes, consumers
        and instances.
    :cvar folded: {unit: the unit whose count includes it}, for units that the driver cannot
        tell apart: a limit on both together can be checked, a limit on one of them cannot.
    :cvar transactional: whether the driver counts only the allocations in the service's own
        database, so that a claim can be checked in its own transaction (``[quota] guard``).
    :cvar moves_once: whether an instance that holds two sets of allocations while it is moved
        counts once, with the larger amounts; otherwise both sets count.
    :cvar counts_members: whether the driver counts members of server groups; otherwise
        ``server_group_members`` is not called, and checks of that limit are refused.
    """

    api_version = 1
    units: Collection[str] | None = None
    folded: Mapping[str, str] = MappingProxyType({})
    transactional = False
    moves_once = False
    counts_members = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:  # noqa: B027
        """Take the service's options; a driver registers its own options here.

        :raises errors.ConfigurationError: an option of the driver is not valid.
        """

    def use_index(self, index: UsageReader) -> None:  # noqa: B027
        """Take the usage index; called once, before the first count.

        For drivers that count the service's own allocations: the index adds up the usage of
        many projects faster than the database.
        """

    @abc.abstractmethod
    def count(
        self, ctx: Context, project_ids: Collection[str], *, units: Collection[str],
        user_id: str | None = None, without: Collection[str] = (),
    ) -> Count:
        """Count the usage of some projects.

        :param units: the units to count; the answer lacks those that are not in ``self.units``.
        :param user_id: also count the usage of this user; only with a single project.
        :param without: uuids of consumers (instances) that are not counted.
        :raises errors.Unavailable: no source could be asked.
        """

    @abc.abstractmethod
    def count_all(self, ctx: Context, *, units: Collection[str]) -> Count:
        """Count the usage of all projects, without those that use nothing."""

    def count_users(
        self, ctx: Context, owners: Collection[Owner], *, units: Collection[str]
    ) -> UserCount:
        """Count the usage of thousands of users, each in a project.

        Override it if counting them together costs less than counting each.
        """
        users: dict[Owner, Mapping[str, int]] = {}
        missing: dict[str, MissingCell] = {}
        sources: set[str] = set()
        for project_id, user_id in sorted(owners):
            count = self.count(ctx, [project_id], units=units, user_id=user_id)
            users[project_id, user_id] = count.user or {}
            missing |= {cell.uuid: cell for cell in count.missing_cells}
            sources.add(count.source)
        return UserCount(users, "+".join(sorted(sources)), list(missing.values()))

    @abc.abstractmethod
    def server_group_members(
        self, ctx: Context, instance_uuids: Collection[str], user_id: str
    ) -> MemberCount:
        """Count the living instances of a user among the members of a server group."""

    def forget(self) -> None:  # noqa: B027
        """Clear the caches of the driver, such as which projects are migrated."""
