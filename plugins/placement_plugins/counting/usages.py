"""Where usages come from: our own placement, or a remote one."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from placement_core.context import Context
from placement_core.placement.usage import project_usage
from placement_core.plugin_api.counting import CONSUMERS, UsageReader
from placement_plugins.counting.remote import ConsumerUsage, RemotePlacement

#: {project: {resource class or CONSUMERS: amount}}
Usages = Mapping[str, Mapping[str, int]]

#: How many projects a remote placement is asked about at once.
_AT_ONCE = 8


class UsageSource(Protocol):
    """Answers what projects use.

    :ivar knows_projects: it can be asked about all projects at once, and is for all
        of them (None) in ``of_projects``.
    """

    knows_projects: bool

    def use_index(self, index: UsageReader) -> None:
        """Take the usage index of our own database."""

    def of_projects(
        self, ctx: Context, project_ids: Collection[str] | None, units: Collection[str],
        without: Collection[str],
    ) -> Usages:
        """Return what projects use; units that were not asked for may be there."""

    def of_user(
        self, ctx: Context, project_id: str, user_id: str, units: Collection[str],
        without: Collection[str],
    ) -> Mapping[str, int]:
        """Return a user's share of what a project uses."""


class LocalUsages:
    """The usage counters of our own database; each answer is of one moment."""

    knows_projects = True

    def __init__(self, *, moves_once: bool) -> None:
        self._moves_once = moves_once
        self._index: UsageReader | None = None

    def use_index(self, index: UsageReader) -> None:
        """Ask the index about many projects from now on."""
        self._index = index

    def of_projects(
        self, ctx: Context, project_ids: Collection[str] | None, units: Collection[str],
        without: Collection[str],
    ) -> Usages:
        """Return what projects use: of one by a statement, of many by the usage index."""
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
    """A remote placement, asked anew each time: one question for each project."""

    knows_projects = False

    def __init__(self, placement: RemotePlacement) -> None:
        self._placement = placement

    def use_index(self, index: UsageReader) -> None:
        """Do without it: it is about another database."""

    def of_projects(
        self, ctx: Context, project_ids: Collection[str] | None, units: Collection[str],
        without: Collection[str],
    ) -> Usages:
        """Return what projects use."""
        assert project_ids is not None
        asked = list(project_ids)
        if len(asked) == 1:
            return {asked[0]: self._get_usages(asked[0], None, units, without)}
        with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as threads:
            found = threads.map(
                lambda project_id: self._get_usages(project_id, None, units, without), asked)
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
        # What was given back before, or taken after the usages were read, is not in them:
        # only what was held both times is certain to be.
        after = [self._placement.held(each, consumers=consumers) for each in without]
        for name, amount in _list_held(project_id, user_id, zip(before, after, strict=True)):
            used[name] = max(0, used.get(name, 0) - amount)
        return used


def _list_held(
    project_id: str, user_id: str | None, held: Iterable[tuple[ConsumerUsage, ConsumerUsage]]
) -> Iterable[tuple[str, int]]:
    """Yield what of the holdings is a project's, or a user's in it, both times."""
    for before, after in held:
        if all(each.project_id == project_id and user_id in (None, each.user_id)
               for each in (before, after)):
            for name, amount in before.amounts.items():
                yield name, min(amount, after.amounts.get(name, 0))
