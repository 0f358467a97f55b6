"""What counting costs: measured around a driver, so that every driver is."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from placement_core import metrics
from placement_core.context import Context
from placement_core.plugin_api.counting import Count, CountingDriver, MemberCount

_Answer = TypeVar("_Answer", Count, MemberCount)


class InstrumentedCounting(CountingDriver):
    """Counts as a driver does, and notes how that went (``metrics``)."""

    def __init__(self, driver: CountingDriver, name: str) -> None:
        """Put it around a driver.

        :param name: stands for who counted where nobody could.
        """
        self._driver = driver
        self._name = name
        self.units = driver.units
        self.folded = driver.folded
        self.transactional = driver.transactional

    def count(
        self, ctx: Context, project_ids: Collection[str], *, units: Collection[str],
        user_id: str | None = None, without: Collection[str] = (),
    ) -> Count:
        """Count what some projects use."""
        return self._measured("projects", lambda: self._driver.count(
            ctx, project_ids, units=units, user_id=user_id, without=without))

    def count_all(self, ctx: Context, *, units: Collection[str]) -> Count:
        """Count what every project uses."""
        return self._measured(
            "all_projects", lambda: self._driver.count_all(ctx, units=units))

    def server_group_members(
        self, ctx: Context, instance_uuids: Collection[str], user_id: str
    ) -> MemberCount:
        """Count the living instances of a user among the members of a server group."""
        return self._measured(
            "server_group_members",
            lambda: self._driver.server_group_members(ctx, instance_uuids, user_id))

    def forget(self) -> None:
        """Drop what was kept of earlier answers."""
        self._driver.forget()

    def _measured(self, question: str, ask: Callable[[], _Answer]) -> _Answer:
        try:
            answer = ask()
        except Exception:
            metrics.not_counted(self._name, question)
            raise
        metrics.counted(
            answer.source, question, [cell.name for cell in answer.missing_cells],
            answer.seconds)
        return answer
