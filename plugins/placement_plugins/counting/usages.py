"""The sources of usage: this service's own allocations, or a remote placement."""

from __future__ import annotations

import concurrent.futures
import contextvars
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from placement_core.context import Context
from placement_core.placement.usage import project_usage
from placement_core.plugin_api.counting import CONSUMERS, Owner, UsageReader
from placement_plugins.counting.remote import ConsumerUsage, RemotePlacement

#: {project: {resource class or CONSUMERS: amount}}
Usages = Mapping[str, Mapping[str, int]]

_AnyOwner = TypeVar("_AnyOwner", Owner, tuple[str, None])

#: How many projects are queried concurrently from a remote placement.
_AT_ONCE = 8


class UsageSource(Protocol):
    """Reads the usage of projects.

    :ivar knows_projects: whether ``of_projects`` takes None for all projects.
    :ivar moves_once: as in ``CountingDriver``.
    """

    knows_projects: bool
    moves_once: bool

    def use_index(self, index: UsageReader) -> None:
        """Take the usage index of the service's own database."""

    def of_projects(
        self, ctx: Context, project_ids: Collection[str] | None, units: Collection[str],
        without: Collection[str],
    ) -> Usages:
        """Return the usage of projects, perhaps with units that were not requested."""

    def of_user(
        self, ctx: Context, project_id: str, user_id: str, units: Collection[str],
        without: Collection[str],
    ) -> Mapping[str, int]:
        """Return a user's share of what a project uses."""

    def of_users(
        self, ctx: Context, owners: Collection[Owner], units: Collection[str]
    ) -> Mapping[Owner, Mapping[str, int]]:
        """Return the shares of users in what projects use, perhaps with other units."""


class LocalUsages:
    """The usage counters in the service's own database; each answer is consistent."""

    knows_projects = True

    def __init__(self, *, moves_once: bool) -> None:
        self.moves_once = moves_once
        self._index: UsageReader | None = None

    def use_index(self, index: UsageReader) -> None:
        """Read the usage of many projects from the index from now on."""
        self._index = index

    def of_projects(
        self, ctx: Context, project_ids: Collection[str] | None, units: Collection[str],
        without: Collection[str],
    ) -> Usages:
        """Return the usage of projects, from the usage index or from the database.

        The index is read, if there is one, for several or all projects, outside of a transaction
        and with an empty ``without``.
        """
        is_one = project_ids is not None and len(project_ids) == 1
        if is_one or without or ctx.session is not None or self._index is None:
            return project_usage.read(
                ctx, project_ids, without=without, moves_once=self.moves_once)
        return self._index.by_project(ctx, project_ids, moves_once=self.moves_once)

    def of_user(
        self, ctx: Context, project_id: str, user_id: str, units: Collection[str],
        without: Collection[str],
    ) -> Mapping[str, int]:
        """Return a user's share of what a project uses."""
        return project_usage.read(
            ctx, [project_id], user_id=user_id, without=without, moves_once=self.moves_once,
        ).get(project_id, {})

    def of_users(
        self, ctx: Context, owners: Collection[Owner], units: Collection[str]
    ) -> Mapping[Owner, Mapping[str, int]]:
        """Return the shares of users in what projects use, with one statement."""
        return project_usage.read_users(ctx, owners, moves_once=self.moves_once)


class RemoteUsages:
    """A remote placement, with one request for each project."""

    knows_projects = False
    moves_once = False

    def __init__(self, placement: RemotePlacement) -> None:
        self._placement = placement

    def use_index(self, index: UsageReader) -> None:
        """Ignore the index: it covers another database."""

    def of_projects(
        self, ctx: Context, project_ids: Collection[str] | None, units: Collection[str],
        without: Collection[str],
    ) -> Usages:
        """Return what projects use."""
        assert project_ids is not None
        usages = self._ask_for_each(
            [(project_id, None) for project_id in project_ids], units, without)
        return {project_id: used for (project_id, _), used in usages.items()}

    def of_user(
        self, ctx: Context, project_id: str, user_id: str, units: Collection[str],
        without: Collection[str],
    ) -> Mapping[str, int]:
        """Return a user's share of what a project uses."""
        return self._get_usages(project_id, user_id, units, without)

    def of_users(
        self, ctx: Context, owners: Collection[Owner], units: Collection[str]
    ) -> Mapping[Owner, Mapping[str, int]]:
        """Return the shares of users in what projects use."""
        return self._ask_for_each(list(owners), units, ())

    def _ask_for_each(
        self, owners: Sequence[_AnyOwner], units: Collection[str], without: Collection[str]
    ) -> dict[_AnyOwner, Mapping[str, int]]:
        """Return what projects, or users in them, use, with one request for each."""
        if len(owners) == 1:
            return {owners[0]: self._get_usages(*owners[0], units, without)}
        # Each thread knows which trace the request belongs to.
        contexts = [contextvars.copy_context() for _ in owners]
        with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as threads:
            usages = threads.map(
                lambda owner, context: context.run(self._get_usages, *owner, units, without),
                owners, contexts)
            return dict(zip(owners, usages, strict=True))

    def _get_usages(
        self, project_id: str, user_id: str | None, units: Collection[str],
        without: Collection[str],
    ) -> Mapping[str, int]:
        consumers = CONSUMERS in units
        before = [self._placement.held(each, consumers=consumers) for each in without]
        used = self._placement.usages(project_id, user_id, consumers=consumers)
        # Allocations that were deleted before, or created after, the usages were read are not
        # in them. Only those that existed both times are certain to be.
        after = [self._placement.held(each, consumers=consumers) for each in without]
        for name, amount in _list_held(project_id, user_id, zip(before, after, strict=True)):
            used[name] = max(0, used.get(name, 0) - amount)
        return used


def _list_held(
    project_id: str, user_id: str | None, held: Iterable[tuple[ConsumerUsage, ConsumerUsage]]
) -> Iterable[tuple[str, int]]:
    """Yield the allocations of a project, or of a user in it, that existed both times."""
    for before, after in held:
        if all(each.project_id == project_id and user_id in (None, each.user_id)
               for each in (before, after)):
            for name, amount in before.amounts.items():
                yield name, min(amount, after.amounts.get(name, 0))
