"""The driver ``legacy_cell``: adds up the usage in the databases of all cells."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from oslo_config import cfg

from placement_core import errors
from placement_core.cells import counts
from placement_core.cells.counts import CellCount, InstanceTotals
from placement_core.cells.databases import CellAnswers, CellDatabases
from placement_core.cells.records import Cell
from placement_core.context import Context
from placement_core.plugin_api.counting import (
    CONSUMERS,
    INSTANCES,
    Count,
    CountingDriver,
    MemberCount,
    MissingCell,
    Owner,
    UserCount,
)
from placement_plugins.counting import members
from placement_plugins.counting.last_known import LastKnown
from placement_plugins.counting.timing import Seconds

LOG = logging.getLogger(__name__)

NAME = "legacy_cell"

T = TypeVar("T")


class NoCells(errors.Unavailable):
    """No cell is mapped."""

    code = "quota.cells.none"

    def __init__(self) -> None:
        super().__init__(
            "No cell is mapped, so there is nobody who could say what is used: add the cells, "
            "or set [quota] count_usage_from_placement = true.")


class LegacyCellCounting(CountingDriver):
    """Queries all cells concurrently, with one statement each, including disabled ones and cell0.

    The answer names the cells that did not answer. With ``[quota] on_missing_cell = last_known``
    it includes their last answers in this process, if any, and the age of these. The caller
    decides whether an answer that lacks a cell is sufficient. The ``vcpus`` of an instance,
    including its dedicated processors, count as VCPU. Source: spec nova_quota §1.
    """

    api_version = 1
    units = frozenset((CONSUMERS, INSTANCES, "VCPU", "MEMORY_MB"))
    folded = MappingProxyType({"PCPU": "VCPU"})
    moves_once = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._cells = CellDatabases(conf)
        self._keeps = conf.quota.on_missing_cell == "last_known"
        self._last = LastKnown()

    def count(
        self, ctx: Context, project_ids: Collection[str], *, units: Collection[str],
        user_id: str | None = None, without: Collection[str] = (),
    ) -> Count:
        """Count the usage of some projects.

        The last answer of a missing cell includes the instances of ``without``.
        """
        if user_id is not None and len(project_ids) != 1:
            raise ValueError("a user's share is counted in one project")
        return self._count(ctx, project_ids, units, user_id, without)

    def count_all(self, ctx: Context, *, units: Collection[str]) -> Count:
        """Count the usage of all projects."""
        return self._count(ctx, None, units, None, ())

    def count_users(
        self, ctx: Context, owners: Collection[Owner], *, units: Collection[str]
    ) -> UserCount:
        """Count what some users use, with one statement for each cell.

        The last answers of missing cells are not included.
        """
        user_ids = {user_id for _, user_id in owners}
        seconds = Seconds()
        gathered = self._ask_cells(
            ctx, lambda cell_ctx, _: counts.count_users_in_cell(cell_ctx, user_ids), seconds)
        totals = dict.fromkeys(owners, InstanceTotals())
        for answer in gathered.answers.values():
            for owner in answer.keys() & totals.keys():
                totals[owner] += answer[owner]
        return UserCount(
            {owner: _convert_to_units(amounts, units) for owner, amounts in totals.items()},
            NAME, missing_cells=gathered.missing, seconds=seconds)

    def server_group_members(
        self, ctx: Context, instance_uuids: Collection[str], user_id: str
    ) -> MemberCount:
        """Count members by the instance mappings, or in the cell if a mapping lacks the user."""
        return members.count(self._cells, ctx, instance_uuids, user_id, NAME)

    def forget(self) -> None:
        """Clear the cache of last answers."""
        self._last = LastKnown()

    def _count(
        self, ctx: Context, project_ids: Collection[str] | None, units: Collection[str],
        user_id: str | None, without: Collection[str],
    ) -> Count:

        def ask(cell_ctx: Context, _cell: Cell) -> CellCount:
            return counts.count_in_cell(cell_ctx, project_ids, user_id=user_id, without=without)

        seconds = Seconds()
        gathered = self._ask_cells(ctx, ask, seconds)
        answers = list(gathered.answers.values())
        missing = list(gathered.missing)
        if self._keeps:
            if not without:
                for uuid, answer in gathered.answers.items():
                    self._last.note(uuid, answer, project_ids, user_id)
            missing = [self._substitute(cell, answers, project_ids, user_id) for cell in missing]
        projects: dict[str, InstanceTotals] = {}
        for answer in answers:
            for project_id, amounts in answer.projects.items():
                projects[project_id] = projects.get(project_id, InstanceTotals()) + amounts
        of_user = sum((answer.user for answer in answers), InstanceTotals())
        LOG.debug("counted in %d cells, %d missing: %s",
                  len(gathered.answers) + len(gathered.missing), len(missing), seconds)
        return Count(
            {project_id: _convert_to_units(amounts, units)
             for project_id, amounts in projects.items()},
            NAME, user=_convert_to_units(of_user, units) if user_id is not None else None,
            missing_cells=missing, seconds=seconds)

    def _ask_cells(
        self, ctx: Context, ask: Callable[[Context, Cell], T], seconds: Seconds
    ) -> CellAnswers[T]:
        """Ask every cell; add how long that took.

        :raises NoCells: there is none.
        """
        with seconds.of("api_database"):
            cells = self._cells.cells(ctx)
        if not cells:
            raise NoCells
        gathered = self._cells.scatter_gather(ctx, ask, cells)
        seconds.update(gathered.seconds)
        return gathered

    def _substitute(
        self, missing: MissingCell, answers: list[CellCount], project_ids: Collection[str] | None,
        user_id: str | None,
    ) -> MissingCell:
        """Append the last answer of a missing cell; return the cell with the answer's age."""
        recalled = self._last.recall(missing.uuid, project_ids, user_id)
        if recalled is None:
            return missing
        answers.append(recalled.counted)
        return replace(missing, known_since_seconds=recalled.seconds)


def _convert_to_units(amounts: InstanceTotals, units: Collection[str]) -> Mapping[str, int]:
    counted = {
        CONSUMERS: amounts.instances, INSTANCES: amounts.instances, "VCPU": amounts.vcpus,
        "MEMORY_MB": amounts.memory_mb}
    return {unit: counted[unit] for unit in units if unit in counted}
