"""What cells said last, for the time when they say nothing."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Collection

import cachetools

from placement_core.cells.counts import Amounts, InCell

#: Of each cell so many projects (and users in them) are kept, beside those that came
#: with an answer about all projects.
_MOST_KEPT = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class Recalled:
    """What a cell said, and the age of the oldest part of it."""

    counted: InCell
    seconds: float


class LastKnown:
    """Keeps the last answers of cells in this process; for any number of threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._cells: dict[str, _OfCell] = {}

    def note(
        self, cell_uuid: str, counted: InCell, project_ids: Collection[str] | None,
        user_id: str | None,
    ) -> None:
        """Keep an answer.

        :param project_ids: what was asked about; None: all.
        """
        now = self._clock()
        with self._lock:
            kept = self._cells.setdefault(cell_uuid, _OfCell())
            if project_ids is None:
                kept.all = _All(now, dict(counted.projects))
                return
            for project_id in project_ids:
                kept.put((project_id, None), now, counted.projects.get(project_id, Amounts()))
                if user_id is not None:
                    kept.put((project_id, user_id), now, counted.user)

    def recall(
        self, cell_uuid: str, project_ids: Collection[str] | None, user_id: str | None
    ) -> Recalled | None:
        """Return what a cell said last about all that is asked; None: not all is known."""
        with self._lock:
            kept = self._cells.get(cell_uuid, _OfCell())
            if project_ids is None:
                if kept.all is None:
                    return None
                project_ids = {*kept.all.projects, *(
                    project for project, user in kept.single if user is None)}
            found = {each: kept.get((each, None)) for each in project_ids}
            of_user = [kept.get((each, user_id)) for each in project_ids if user_id is not None]
            parts = [*found.values(), *of_user]
            if None in parts:
                return None
            known = [part for part in parts if part is not None]
            oldest = min((at for at, _ in known), default=self._clock())
            return Recalled(
                InCell({each: part[1] for each, part in found.items() if part is not None},
                       sum((part[1] for part in of_user if part is not None), Amounts())),
                self._clock() - oldest)


@dataclasses.dataclass(frozen=True, slots=True)
class _All:
    at: float
    projects: dict[str, Amounts]


class _OfCell:
    """What one cell said: about all projects at once, and about single ones."""

    def __init__(self) -> None:
        self.all: _All | None = None
        #: {(project, user or None for the project's own): (when, what)}.
        self.single: cachetools.LRUCache[
            tuple[str, str | None], tuple[float, Amounts]] = cachetools.LRUCache(_MOST_KEPT)

    def put(self, key: tuple[str, str | None], at: float, amounts: Amounts) -> None:
        self.single[key] = at, amounts

    def get(self, key: tuple[str, str | None]) -> tuple[float, Amounts] | None:
        single = self.single.get(key)
        if key[1] is not None or self.all is None:
            return single
        if single is not None and single[0] >= self.all.at:
            return single
        return self.all.at, self.all.projects.get(key[0], Amounts())
