"""Writes of allocations of one process that come at the same moment, for certain."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import fixtures
import sqlalchemy as sa

from placement_core.context import Context
from placement_core.db.database import Database
from placement_core.placement import tables
from placement_core.placement.allocations import Gate, WriteQueue, grouped_writes
from placement_core.placement.allocations.grouped_writes import (
    GroupedWrite,
    Outcome,
    Shortages,
)
from placement_core.placement.allocations.owners import Owners
from tests import races

_PATIENCE_SECONDS = 30
_QUEUE = "placement_core.placement.allocations.write_queue"


class Groups(fixtures.Fixture):
    """Notes which writes are grouped, while none leads because it has waited for long.

    :ivar consumers: the consumers of each group, in the order of the groups.
    """

    consumers: list[set[str]]

    def _setUp(self) -> None:
        self.consumers = []
        self.useFixture(fixtures.MonkeyPatch(f"{_QUEUE}.apply_together", self._apply_together))
        self.useFixture(fixtures.MonkeyPatch(f"{_QUEUE}._PATIENCE_SECONDS", _PATIENCE_SECONDS))

    def _apply_together(
        self, ctx: Context, writes: Sequence[GroupedWrite], gates: Sequence[Gate],
        owners: Owners, shortages: Shortages,
    ) -> list[Outcome]:
        self.consumers.append({
            write.consumer_uuid for grouped in writes for write in grouped.request.writes})
        return grouped_writes.apply_together(ctx, writes, gates, owners, shortages)

    @property
    def sizes(self) -> list[int]:
        """Return how many consumers each group had."""
        return list(map(len, self.consumers))


def run(queue: WriteQueue, *functions: Callable[[], Any]) -> list[Any]:
    """Run functions that write through a queue beside a write that ends when all of them wait.

    Those that need not wait have ended by then. Use it with ``Groups``.

    :returns: as ``races.run``.
    """
    ended: list[Callable[[], Any]] = []

    def play(function: Callable[[], Any]) -> Any:
        try:
            return function()
        finally:
            ended.append(function)

    def end() -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS / 2
        while (len(queue._waiting) + len(ended) < len(functions)
               and time.monotonic() < deadline):
            time.sleep(0.01)
        queue._hand_over()

    if not queue._begin_alone():
        raise AssertionError("somebody writes already")
    return races.run(*(functools.partial(play, function) for function in functions), end)[:-1]


def count_transactions(database: Database, consumers: Sequence[str]) -> int:
    """Return how many transactions wrote the allocations that consumers have."""
    held = tables.allocations.c
    with database.autocommit.connect() as connection:
        count: int = connection.execute(sa.select(sa.func.count(sa.distinct(held.txn))).where(
            held.consumer_id.in_(consumers))).scalar_one()
    return count
