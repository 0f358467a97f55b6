"""The sources of usage: this service's own allocations, or a remote placement."""

from __future__ import annotations

import concurrent.futures
import contextvars
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from placement_core.context import Context
from placement_core.placement.usage import project_usage
from placement_core.plugin_api.counting import CONSUMERS, UsageReader
from placement_plugins.counting.remote import ConsumerUsage, RemotePlacement

#: {project: {resource class or CONSUMERS: amount}}
Usages = Mapping[str, Mapping[str, int]]

#: How many projects are queried concurrently from a remote placement.
_AT_ONCE = 8


class UsageSource(Protocol):
    """Reads the usage of projects.

    :ivar knows_projects: whether ``of_projects`` takes None for all projects.
    """

    knows_projects: bool

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


class LocalUsages:
    """The usage counters in the service's own database; each answer is consistent."""

    knows_projects = True

    def __init__(self, *, moves_once: bool) -> None:
        self._moves_once = moves_once
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
                ctx, project_ids, without=without, moves_once=self._moves_once)
        return self._index.by_project(ctx, project_ids, moves_once=self._moves_once)

    def of_user(
        self, ctx: Context, project_id: str, user_id: str, units: Collection[str],
        without: Collection[str],
    ) -> Mapping[str, int]:
        """Return a user's share of what a project uses."""
        return project_usage.read(
            ctx, [project_id], user_id=user_id, without=without, moves_once=self._moves_once,
        ).get(project_id, {})


class RemoteUsages:
    """A remote placement, with one request for each project."""

    knows_projects = False

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
        asked = list(project_ids)
        if len(asked) == 1:
            return {asked[0]: self._get_usages(asked[0], None, units, without)}
        # Each thread knows which trace the request belongs to.
        contexts = [contextvars.copy_context() for _ in asked]
        with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as threads:
            found = threads.map(
                lambda project_id, context: context.run(
                    self._get_usages, project_id, None, units, without), asked, contexts)
            return dict(zip(asked, found, strict=True))

    def of_user(
        self, ctx: Context, project_id: str, user_id: str, units: Collection[str],
        without: Collection[str],
    ) -> Mapping[str, int]:
        """Return a user's share of what a project uses."""
        return self._get_usages(project_id, user_id, units, without)

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
