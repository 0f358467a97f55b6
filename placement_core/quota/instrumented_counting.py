"""Metrics of counting, recorded around any counting driver."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from placement_core import metrics
from placement_core.context import Context
from placement_core.plugin_api.counting import (
    Count,
    CountingDriver,
    MemberCount,
    Owner,
    UsageReader,
    UserCount,
)

_AnyCount = TypeVar("_AnyCount", Count, UserCount, MemberCount)


class InstrumentedCounting(CountingDriver):
    """Wraps a counting driver and records durations and failures (``metrics``)."""

    def __init__(self, driver: CountingDriver, name: str) -> None:
        """Wrap a driver.

        :param name: the driver's name, for counts that failed.
        """
        self._driver = driver
        self._name = name
        self.units = driver.units
        self.folded = driver.folded
        self.transactional = driver.transactional
        self.moves_once = driver.moves_once
        self.counts_members = driver.counts_members

    def use_index(self, index: UsageReader) -> None:
        """Pass the index to the driver."""
        self._driver.use_index(index)

    def count(
        self, ctx: Context, project_ids: Collection[str], *, units: Collection[str],
        user_id: str | None = None, without: Collection[str] = (),
    ) -> Count:
        """Count what some projects use."""
        return self._measure("projects", lambda: self._driver.count(
            ctx, project_ids, units=units, user_id=user_id, without=without))

    def count_all(self, ctx: Context, *, units: Collection[str]) -> Count:
        """Count what every project uses."""
        return self._measure(
            "all_projects", lambda: self._driver.count_all(ctx, units=units))

    def count_users(
        self, ctx: Context, owners: Collection[Owner], *, units: Collection[str]
    ) -> UserCount:
        """Count what some users use."""
        return self._measure("projects", lambda: self._driver.count_users(
            ctx, owners, units=units))

    def server_group_members(
        self, ctx: Context, instance_uuids: Collection[str], user_id: str
    ) -> MemberCount:
        """Count the living instances of a user among the members of a server group."""
        return self._measure(
            "server_group_members",
            lambda: self._driver.server_group_members(ctx, instance_uuids, user_id))

    def forget(self) -> None:
        """Drop the driver's cached answers."""
        self._driver.forget()

    def _measure(self, question: str, count: Callable[[], _AnyCount]) -> _AnyCount:
        try:
            answer = count()
        except Exception:
            metrics.count_failed_counting(self._name, question)
            raise
        metrics.count_counting(
            answer.source, question, [cell.name for cell in answer.missing_cells],
            answer.seconds)
        return answer
