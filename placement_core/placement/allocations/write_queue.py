"""Groups the writes of allocations that wait in one process at the same moment.

While one write is being written, others wait; then the first of them leads: it writes itself and
those behind it in one transaction (``grouped_writes``), in its own thread. So a write that nobody
writes beside is not delayed, and under load several share the statements and the COMMIT. This is
how PostgreSQL groups commits. Source: design §4.

Clients that a group has answered write again at about the same moment, if they are many. The first
that comes then does not begin alone, with all others waiting for it, but waits until as many have
come as the group had, or until it has waited as long as the group took: the statements and the
COMMIT that they share then take less than the waiting.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Sequence

from placement_core import errors, metrics, tracing
from placement_core.context import Context
from placement_core.db import TransactionConflict
from placement_core.db.failures import translated_errors
from placement_core.placement.allocations import consumers
from placement_core.placement.allocations.gates import Check, Gate, WriteRequest
from placement_core.placement.allocations.grouped_writes import (
    GroupedWrite,
    Outcome,
    Shortages,
    apply_together,
)
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.allocations.unit_of_work import Attempt

#: How long a write waits for its turn before it leads beside whoever leads: what is being written
#: may wait for a lock that has nothing to do with it.
_PATIENCE_SECONDS = 0.1
#: From this size on, a group is taken for a crowd that comes back together. Of two writes that met
#: by chance, the next one would wait in vain.
_CROWD = 3
#: How long a leader waits for others at most: a group that took longer has waited for locks.
_LONGEST_GATHERING_SECONDS = 0.01


class _Waiting:
    """A write that waits for its turn. It is woken once, when ``leads`` or ``outcome`` is set."""

    __slots__ = ("_asleep", "leads", "link", "outcome", "write")

    def __init__(self, write: GroupedWrite) -> None:
        self.write = write
        self.leads = False
        self.outcome: Outcome | None = None
        self.link = tracing.get_link()
        # A lock that its waiter finds taken: an Event is made of three objects.
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def wake(self) -> None:
        self._asleep.release()

    def wait(self, seconds: float = -1) -> bool:
        """Wait until it is woken; return whether it was in time."""
        return self._asleep.acquire(timeout=seconds)


class WriteQueue:
    """The writes of allocations of one process. Thread-safe.

    All of them pass the same gates, and share the same cache of owners.
    """

    def __init__(self, most: int) -> None:
        """Initialize the queue.

        :param most: the largest number of consumers in a group; 1: no writes are grouped.
        """
        self._most = most
        self._lock = threading.Lock()
        self._waiting: collections.deque[_Waiting] = collections.deque()
        self._has_come = threading.Condition(self._lock)
        self._leaders = 0
        #: How many writes the last leader took, with its own, and how long a group took last.
        #: The size is read without the lock: a stale one costs a write its company, or a second
        #: preparation.
        self._last_size = 1
        self._last_seconds = 0.0
        self._shortages = Shortages()

    def run(
        self, attempt: Attempt, ctx: Context, request: WriteRequest, gates: Sequence[Gate],
        owners: Owners,
    ) -> Sequence[Check]:
        """Write a request: alone if nobody else is writing, or else in a group.

        :param attempt: writes it alone; of one that shares a transaction, it is the fallback.
        :returns: the checks of the attempt that was committed.
        :raises errors.Error: as ``attempt``.
        """
        if ctx.session is not None or not self._may_share(request):
            return attempt(ctx, request, gates, owners)
        if self._last_size < _CROWD and self._begin_alone():
            try:
                return attempt(ctx, request, gates, owners)
            finally:
                self._hand_over()
        waiting = self._enqueue(ctx, request, gates, owners)
        if waiting is None:
            return attempt(ctx, request, gates, owners)
        if not waiting.leads:
            self._wait(waiting)
        if waiting.leads:
            self._gather()
            group = self._take(waiting)
            try:
                if len(group) == 1:
                    return attempt(ctx, request, gates, owners)
                self._apply(ctx, group, gates, owners)
            finally:
                self._hand_over()
        match waiting.outcome:
            case "applied":
                return waiting.write.checks
            case Exception() as error:
                raise error
            case _:
                return attempt(ctx, request, gates, owners)

    def _may_share(self, request: WriteRequest) -> bool:
        return (len(request.writes) < self._most and request.inventories is None
                and all(consumers.is_consumer_uuid(write.consumer_uuid)
                        for write in request.writes))

    def _begin_alone(self) -> bool:
        with self._lock:
            if self._leaders:
                return False
            self._leaders = 1
            return True

    def _hand_over(self) -> None:
        with self._lock:
            self._leaders -= 1
            if self._waiting and not self._leaders:
                self._leaders = 1
                self._waiting[0].leads = True
                self._waiting[0].wake()

    def _enqueue(
        self, ctx: Context, request: WriteRequest, gates: Sequence[Gate], owners: Owners
    ) -> _Waiting | None:
        """Prepare a write and add it to those that wait; None: it is to be attempted alone."""
        try:
            with translated_errors():
                owners.ensure(ctx, request.writes)
                checks = [gate.prepare(ctx, request) for gate in gates]
        except TransactionConflict:
            return None
        waiting = _Waiting(GroupedWrite(request, checks, ctx))
        with self._lock:
            self._waiting.append(waiting)
            if len(self._waiting) >= self._last_size:
                self._has_come.notify_all()
            if not self._leaders:
                self._leaders = 1
                waiting.leads = True
        return waiting

    def _wait(self, waiting: _Waiting) -> None:
        """Wait until a write leads, or has an outcome."""
        if waiting.wait(_PATIENCE_SECONDS):
            return
        with self._lock:
            if waiting in self._waiting and not waiting.leads:
                self._leaders += 1
                waiting.leads = True
        if not waiting.leads:
            waiting.wait()

    def _gather(self) -> None:
        """Wait until as many writes have come as the last group had, or for as long as it took."""
        if self._last_size < _CROWD:
            return
        with self._lock:
            self._has_come.wait_for(
                lambda: len(self._waiting) >= self._last_size,
                min(self._last_seconds, _LONGEST_GATHERING_SECONDS))

    def _take(self, leader: _Waiting) -> list[_Waiting]:
        """Take a write and those behind it out of the queue, as many as may share a group."""
        with self._lock:
            self._waiting.remove(leader)
            group, left = [leader], []
            uuids = _list_uuids(leader)
            while self._waiting and len(uuids) < self._most:
                waiting = self._waiting.popleft()
                more = _list_uuids(waiting)
                if waiting.leads or len(uuids) + len(more) > self._most or uuids & more:
                    left.append(waiting)
                else:
                    group.append(waiting)
                    uuids |= more
            self._waiting.extendleft(reversed(left))
            self._last_size = len(group)
        return group

    def _apply(
        self, ctx: Context, group: Sequence[_Waiting], gates: Sequence[Gate], owners: Owners
    ) -> None:
        started = time.perf_counter()
        outcomes: Sequence[Outcome] = [errors.Unavailable(
            "The write was interrupted; whether it was made is not known.")] * len(group)
        try:
            with tracing.span("write group", links=[waiting.link for waiting in group]):
                outcomes = apply_together(
                    ctx, [waiting.write for waiting in group], gates, owners, self._shortages)
            metrics.observe_write_group(
                len(group), sum(outcome != "applied" for outcome in outcomes))
        finally:
            self._last_seconds = time.perf_counter() - started
            for waiting, outcome in zip(group, outcomes, strict=True):
                waiting.outcome = outcome
                if not waiting.leads:
                    waiting.wake()


def _list_uuids(waiting: _Waiting) -> set[str]:
    # An adopted MySQL table compares without regard to case.
    return {write.consumer_uuid.casefold() for write in waiting.write.request.writes}
