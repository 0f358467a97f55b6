"""The driver ``placement``: counts instances by their mappings, all else by allocations."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from oslo_config import cfg

from placement_core import errors
from placement_core.caches import BoundedCache
from placement_core.cells import counts
from placement_core.cells.databases import CellDatabases
from placement_core.context import Context
from placement_core.plugin_api.counting import (
    INSTANCES,
    Count,
    CountingDriver,
    MemberCount,
    Owner,
    UsageReader,
    UserCount,
)
from placement_plugins.counting import legacy_cell, members, remote, usages
from placement_plugins.counting.timing import Seconds

LOG = logging.getLogger(__name__)

NAME = "placement"

_Projects: TypeAlias = dict[str, dict[str, int]]

#: The number of migrated projects that are cached.
_MOST_MIGRATED = 100_000
#: A copy from another nova, or a restored database, may bring mappings that are not migrated.
_MIGRATED_SECONDS = 10.0


class PlacementCounting(CountingDriver):
    """Queries nova's API database and placement, so it works while a cell is down.

    A count of one project queries placement at most twice: for the usage of the project and, if
    one is given, of the user. A project with mappings that are not migrated is counted in the
    cells instead, as far as cells can count. Once all mappings of a project are migrated, the
    driver does not check it again for ten seconds, or until ``forget``.

    :ivar transactional: whether placement is this service, not a remote one.
    Source: seed 000, spec nova_quota §1. Differs: mappings that are not migrated send only
    their own project to the cells.
    """

    api_version = 1

    def __init__(
        self, conf: cfg.ConfigOpts, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cells = CellDatabases(conf)
        self._legacy = legacy_cell.LegacyCellCounting(conf)
        self.transactional = not remote.is_configured(conf)
        self._usages = _make_source(conf, local=self.transactional)
        self.moves_once = self._usages.moves_once
        self._clock = clock
        #: {project: until when it counts as migrated}.
        self._migrated = BoundedCache[str, float](_MOST_MIGRATED)
        self._warned: set[str] = set()

    def use_index(self, index: UsageReader) -> None:
        """Count many projects with the service's usage index."""
        self._usages.use_index(index)

    def count(
        self, ctx: Context, project_ids: Collection[str], *, units: Collection[str],
        user_id: str | None = None, without: Collection[str] = (),
    ) -> Count:
        """Count the usage of some projects."""
        if user_id is not None and len(project_ids) != 1:
            raise ValueError("a user's share is counted in one project")
        return self._count(ctx, set(project_ids), units, user_id, without)

    def count_all(self, ctx: Context, *, units: Collection[str]) -> Count:
        """Count the usage of all projects.

        With a remote placement, these are the projects that have instances.
        """
        counted = self._count(ctx, None, units, None, ())
        return dataclasses.replace(counted, projects={
            project_id: amounts for project_id, amounts in counted.projects.items()
            if any(amounts.values())})

    def count_users(
        self, ctx: Context, owners: Collection[Owner], *, units: Collection[str]
    ) -> UserCount:
        """Count what some users use, together; those in projects that cells count, one by one."""
        seconds = Seconds()
        with seconds.of("api_database"):
            unmigrated = self._find_unmigrated(ctx, {project_id for project_id, _ in owners})
        in_cells = super().count_users(
            ctx, [owner for owner in owners if owner[0] in unmigrated], units=units)
        users: dict[Owner, dict[str, int]] = {
            owner: {} for owner in owners if owner[0] not in unmigrated}
        classes = set(units) - {INSTANCES}
        if INSTANCES in units:
            with seconds.of("api_database"):
                mapped = counts.count_mapped_of_users(
                    self._cells.api(ctx), {user_id for _, user_id in users})
            for owner, of_user in users.items():
                of_user[INSTANCES] = mapped.get(owner, 0)
        if classes:
            with seconds.of("placement"):
                used = self._usages.of_users(ctx, users, classes)
            for owner, of_user in users.items():
                of_user.update(_select(used.get(owner, {}), classes))
        return UserCount({**in_cells.users, **users}, NAME, missing_cells=in_cells.missing_cells,
                         seconds=seconds)

    def server_group_members(
        self, ctx: Context, instance_uuids: Collection[str], user_id: str
    ) -> MemberCount:
        """Count members by the instance mappings, or in the cell if a mapping lacks the user."""
        return members.count(self._cells, ctx, instance_uuids, user_id, NAME)

    def forget(self) -> None:
        """Check again for each project whether it is migrated."""
        self._migrated.clear()
        self._warned = set()
        self._legacy.forget()

    def _count(
        self, ctx: Context, project_ids: set[str] | None, units: Collection[str],
        user_id: str | None, without: Collection[str],
    ) -> Count:
        seconds = Seconds()
        with seconds.of("api_database"):
            unmigrated = self._find_unmigrated(ctx, project_ids)
        if not unmigrated:
            projects, user = self._count_by_mappings(
                ctx, project_ids, units, user_id, without, seconds)
            LOG.debug("counted by placement: %s", seconds)
            return Count(projects, NAME, user=user, seconds=seconds)
        self._warn(unmigrated)
        # Placement counts the units that cells cannot count, for these projects, too.
        remaining_units = set(units)
        if project_ids == unmigrated:
            remaining_units -= self._legacy.units
        if "VCPU" in units:
            remaining_units.add("PCPU")  # The cells' VCPU includes it.
        projects, user = self._count_by_mappings(
            ctx, project_ids, remaining_units, user_id, without, seconds)
        in_cells = self._legacy.count(
            ctx, unmigrated, units=self._legacy.units, user_id=user_id, without=without)
        nothing = dict.fromkeys(self._legacy.units, 0)
        for project_id in projects.keys() - unmigrated:
            projects[project_id] = _select(projects[project_id], units)
        for project_id in unmigrated:
            projects[project_id] = _merge(
                in_cells.projects.get(project_id, nothing), projects.get(project_id, {}), units)
        if user is not None and in_cells.user is not None:
            user = _merge(in_cells.user, user, units)
        LOG.debug("counted by placement: %s; %d projects in the cells", seconds, len(unmigrated))
        source = legacy_cell.NAME if project_ids == unmigrated else f"{NAME}+{legacy_cell.NAME}"
        return Count(
            projects, source, user=user, missing_cells=in_cells.missing_cells,
            seconds=_add(seconds, in_cells.seconds))

    def _count_by_mappings(
        self, ctx: Context, project_ids: set[str] | None, units: Collection[str],
        user_id: str | None, without: Collection[str], seconds: Seconds,
    ) -> tuple[_Projects, dict[str, int] | None]:
        """Count projects, and the user if one is given, by mappings and placement."""
        projects: _Projects = {}
        user: dict[str, int] | None = None if user_id is None else {}
        if INSTANCES in units:
            with seconds.of("api_database"):
                mapped = counts.count_mapped(
                    self._cells.api(ctx), project_ids, user_id=user_id, without=without)
            for project_id, number in mapped.projects.items():
                projects[project_id] = {INSTANCES: number}
            if user is not None:
                user[INSTANCES] = mapped.user
        classes = set(units) - {INSTANCES}
        if not classes:
            return projects, user
        if project_ids is None and not self._usages.knows_projects:
            with seconds.of("api_database"):
                project_ids = counts.find_projects(self._cells.api(ctx))
        with seconds.of("placement"):
            used = self._usages.of_projects(ctx, project_ids, classes, without)
            if user is not None and project_ids:
                (project_id,) = project_ids
                assert user_id is not None
                user.update(_select(self._usages.of_user(
                    ctx, project_id, user_id, classes, without), classes))
        for project_id, amounts in used.items():
            if counted := _select(amounts, classes):
                projects.setdefault(project_id, {}).update(counted)
        return projects, user

    def _find_unmigrated(self, ctx: Context, project_ids: set[str] | None) -> set[str]:
        """Return the projects that have mappings which are not migrated."""
        if project_ids is None:
            return counts.find_unmigrated(self._cells.api(ctx))
        now = self._clock()
        unknown = project_ids - {
            project_id for project_id, until in self._migrated.get_many(project_ids).items()
            if now < until}
        if not unknown:
            return set()
        unmigrated = counts.find_unmigrated(self._cells.api(ctx), unknown)
        for project_id in unknown - unmigrated:
            self._migrated.put(project_id, now + _MIGRATED_SECONDS)
        return unmigrated

    def _warn(self, project_ids: set[str]) -> None:
        new_ids = project_ids - self._warned
        if new_ids:
            self._warned.update(new_ids)
            LOG.warning(
                "%d projects with instance mappings that were not migrated are counted in the "
                "cells until placement-core db online_data_migrations is done with them, such "
                "as %s", len(new_ids), min(new_ids))


def _make_source(conf: cfg.ConfigOpts, *, local: bool) -> usages.UsageSource:
    moves_once = conf.quota.count_moves == "once"
    if local:
        return usages.LocalUsages(moves_once=moves_once or conf.quota.guard != "off")
    if moves_once:
        raise errors.ConfigurationError(
            "[quota] count_moves = once: a remote placement ([placement_client]) does not say "
            "what moves; expected twice")
    return usages.RemoteUsages(remote.RemotePlacement(conf))


def _select(amounts: Mapping[str, int], units: Collection[str]) -> dict[str, int]:
    return {unit: amount for unit, amount in amounts.items() if unit in units}


def _merge(
    in_cells: Mapping[str, int], in_placement: Mapping[str, int], units: Collection[str]
) -> dict[str, int]:
    """Merge the count of cells with placement's count of the units that cells cannot count.

    Cells do not distinguish dedicated processors, so their VCPU includes PCPU.
    """
    merged = {**in_placement, **in_cells}
    if "PCPU" in in_placement:
        merged["VCPU"] = max(0, merged.get("VCPU", 0) - in_placement["PCPU"])
    return _select(merged, units)


def _add(these: Mapping[str, float], those: Mapping[str, float]) -> dict[str, float]:
    return {name: these.get(name, 0.0) + those.get(name, 0.0)
            for name in these.keys() | those.keys()}
