"""A cache of the last answers of cells, used while a cell does not answer."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Collection

import cachetools

from placement_core.cells.counts import CellCount, InstanceTotals

#: The number of projects, and users in them, that are cached for each cell, in addition to the
#: last answer about all projects.
_MOST_KEPT = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class Recalled:
    """The last answer of a cell, and the age of its oldest part."""

    counted: CellCount
    seconds: float


class LastKnown:
    """Caches the last answers of cells in this process. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._cells: dict[str, _OfCell] = {}

    def note(
        self, cell_uuid: str, counted: CellCount, project_ids: Collection[str] | None,
        user_id: str | None,
    ) -> None:
        """Cache an answer.

        :param project_ids: the projects of the query; None: all.
        """
        now = self._clock()
        with self._lock:
            of_cell = self._cells.setdefault(cell_uuid, _OfCell())
            if project_ids is None:
                of_cell.all = _All(now, dict(counted.projects))
                return
            for project_id in project_ids:
                of_cell.put((project_id, None), now,
                            counted.projects.get(project_id, InstanceTotals()))
                if user_id is not None:
                    of_cell.put((project_id, user_id), now, counted.user)

    def recall(
        self, cell_uuid: str, project_ids: Collection[str] | None, user_id: str | None
    ) -> Recalled | None:
        """Return a cell's last answer about some projects, or None if it lacks one of them."""
        with self._lock:
            of_cell = self._cells.get(cell_uuid, _OfCell())
            if project_ids is None:
                if of_cell.all is None:
                    return None
                project_ids = {*of_cell.all.projects, *(
                    project for project, user in of_cell.single if user is None)}
            of_projects = {
                project_id: of_cell.get((project_id, None)) for project_id in project_ids}
            of_user = [of_cell.get((project_id, user_id))
                       for project_id in project_ids if user_id is not None]
            parts = [*of_projects.values(), *of_user]
            if None in parts:
                return None
            entries = [part for part in parts if part is not None]
            oldest = min((at for at, _ in entries), default=self._clock())
            return Recalled(
                CellCount({project_id: part[1] for project_id, part in of_projects.items()
                           if part is not None},
                          sum((part[1] for part in of_user if part is not None),
                              InstanceTotals())),
                self._clock() - oldest)


@dataclasses.dataclass(frozen=True, slots=True)
class _All:
    at: float
    projects: dict[str, InstanceTotals]


class _OfCell:
    """The last answers of one cell, about all projects and about single ones."""

    def __init__(self) -> None:
        self.all: _All | None = None
        #: {(project, user or None for the project's own): (when, what)}.
        self.single: cachetools.LRUCache[
            tuple[str, str | None], tuple[float, InstanceTotals]] = cachetools.LRUCache(_MOST_KEPT)

    def put(self, key: tuple[str, str | None], at: float, amounts: InstanceTotals) -> None:
        self.single[key] = at, amounts

    def get(self, key: tuple[str, str | None]) -> tuple[float, InstanceTotals] | None:
        single = self.single.get(key)
        if key[1] is not None or self.all is None:
            return single
        if single is not None and single[0] >= self.all.at:
            return single
        return self.all.at, self.all.projects.get(key[0], InstanceTotals())
