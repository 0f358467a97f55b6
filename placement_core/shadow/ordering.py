"""A queue whose items run side by side, but in order where they touch the same objects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from placement_core.shadow.touched import Key, Touched

LOG = logging.getLogger(__name__)

#: How many items run at a time.
_MOST_RUNNING = 16

Work = Callable[[], Awaitable[None]]


class OrderedQueue:
    """Runs what is submitted to it.

    An item runs once all those that were submitted before it and that it overlaps are done.

    :param most_waiting: how many items it takes before it is full.
    """

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._running = asyncio.Semaphore(_MOST_RUNNING)
        self._tasks: set[asyncio.Task[None]] = set()
        self._last: dict[Key, asyncio.Task[None]] = {}
        self._alone: asyncio.Task[None] | None = None
        self._since_alone: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return how many items are not done."""
        return len(self._tasks)

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be submitted."""
        return len(self._tasks) >= self._most_waiting

    def submit(self, touched: Touched, work: Work) -> asyncio.Task[None]:
        """Run something, after everything before it that it overlaps; return its task."""
        task = asyncio.get_running_loop().create_task(
            self._run(self._list_before(touched), work))
        self._tasks.add(task)
        if touched.alone:
            # Whatever comes later waits for it, and it waits for whatever came before.
            self._alone = task
            self._last.clear()
            self._since_alone.clear()
        else:
            self._last.update(dict.fromkeys(touched.objects, task))
        self._since_alone.add(task)
        task.add_done_callback(lambda done: self._forget(done, touched))
        return task

    async def drain(self) -> None:
        """Wait until everything is done."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _list_before(self, touched: Touched) -> set[asyncio.Task[None]]:
        if touched.alone:
            return set(self._since_alone)
        before = {self._last[key] for key in touched.objects if key in self._last}
        return before | {self._alone} if self._alone else before

    async def _run(self, before: set[asyncio.Task[None]], work: Work) -> None:
        if before:
            await asyncio.wait(before)
        async with self._running:
            try:
                await work()
            except Exception:
                # The others go on.
                LOG.exception("A request of the shadow failed")

    def _forget(self, task: asyncio.Task[None], touched: Touched) -> None:
        self._tasks.discard(task)
        self._since_alone.discard(task)
        if self._alone is task:
            self._alone = None
        for key in touched.objects:
            if self._last.get(key) is task:
                del self._last[key]
