"""The manager: events of leases on time, and what else is due again and again.

One thread asks for events and sleeps until the next is due; some more carry them out, a
transaction each. Any number of managers may run, on any number of machines: they share
nothing but the database, which says who has an event. One that dies is missed for as long
as it had the events it had taken; one that cannot reach the database waits for it.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence

from placement_core import errors, metrics
from placement_core.context import Context
from placement_core.reservations.leases.transitions import EventAttempt, Transitions
from placement_core.reservations.manager import event_queue

LOG = logging.getLogger(__name__)

#: So many events are taken ahead for each thread, so that none waits for the next.
_AHEAD = 8
#: How long after it failed an event is tried again.
_AGAIN_SECONDS = 10
#: How often a line in the log says that the manager is alive.
_HEARTBEAT_SECONDS = 60
#: How long what was begun may take to end.
_STOP_SECONDS = 30


@dataclasses.dataclass(frozen=True, slots=True)
class PeriodicTask:
    """Something that is done again and again, beside the events.

    :ivar seconds: between the end of one time and the begin of the next.
    :ivar do: any number of managers may do it at the same time; its context is its own.
    """

    name: str
    seconds: float
    do: Callable[[Context], object]


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """How a manager works: ``[reservations] manager_threads`` and the options beside it."""

    threads: int
    poll_seconds: float
    event_timeout_seconds: int
    event_max_retries: int
    #: How long hosts are cleaned after a lease: ``[reservations] cleaning_time``.
    cleaning_seconds: int = 0


@dataclasses.dataclass(slots=True)
class _Trouble:
    """Something that does not work for a time: said when it begins, and when it is over."""

    what: str
    there: bool = False

    def report(self, error: Exception) -> None:
        """Say what is wrong, unless that was said."""
        if not self.there:
            self.there = True
            is_expected = isinstance(error, errors.Error)
            LOG.warning("%s does not work, and is tried again: %s", self.what,
                        error if is_expected else type(error).__name__, exc_info=not is_expected)

    def clear(self) -> None:
        """Say that it works, if that is new."""
        if self.there:
            self.there = False
            LOG.warning("%s works again", self.what)


def new_owner() -> str:
    """Return a name that no other manager has; short enough to add to it."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{secrets.token_hex(3)}"


class Manager:
    """Carries out what is due until it is stopped.

    :param make_context: makes the context of one piece of work.
    :param tasks: what is done beside events, each in a thread of its own.
    :ivar owner: the name of this manager in the rows of the events that it has.
    """

    def __init__(
        self, owner: str, make_context: Callable[[], Context], transitions: Transitions,
        pace: Pace, tasks: Sequence[PeriodicTask] = (),
    ) -> None:
        self.owner = owner
        self.pace = pace
        self._make_context = make_context
        self._transitions = transitions
        self._tasks = tasks
        self._most = _AHEAD * pace.threads
        self._taken: queue.SimpleQueue[tuple[EventAttempt, float] | None] = queue.SimpleQueue()
        #: How many events this manager has; who changes it holds the lock.
        self._pending = 0
        self._lock = threading.Lock()
        self._done = self._failed = 0
        self._stopping = False
        #: Wakes up the thread that asks for events. A signal's handler can put something
        #: into it, which it could not do with an Event.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._over = threading.Event()

    def stop(self) -> None:
        """Let ``run`` return once what was begun is done; for handlers of signals too."""
        self._stopping = True
        self._wake.put(None)

    def run(self) -> None:
        """Carry out what is due until ``stop``."""
        workers = [threading.Thread(target=self._work, name=f"events-{number}", daemon=True)
                   for number in range(self.pace.threads)]
        repeaters = [threading.Thread(target=self._repeat, args=(task,), name=task.name,
                                      daemon=True) for task in self._tasks]
        for thread in (*workers, *repeaters):
            thread.start()
        try:
            self._watch()
        finally:
            self._over.set()
            for _ in workers:
                self._taken.put(None)
            until = time.monotonic() + _STOP_SECONDS
            for thread in (*workers, *repeaters):
                thread.join(max(0.0, until - time.monotonic()))

    def _watch(self) -> None:
        """Take events when they are due."""
        trouble = _Trouble("the manager's question for events")
        alive = time.monotonic()
        while not self._stopping:
            try:
                pause = self._take()
            except Exception as error:  # noqa: BLE001  whatever it is, the next one may be answered.
                trouble.report(error)
                pause = self.pace.poll_seconds
            else:
                trouble.clear()
            if time.monotonic() - alive >= _HEARTBEAT_SECONDS:
                alive = time.monotonic()
                LOG.info("manager %s is alive: %d events done, %d failed, %d begun", self.owner,
                         self._done, self._failed, self._pending)
            self._sleep(pause)

    def _take(self) -> float:
        """Take what is due, as much as there is room for; return for how long to sleep."""
        room = self._most - self._pending
        if room < self._most // 2:
            return self.pace.poll_seconds  # or until there is room
        ctx = self._make_context()
        # Asked for first: what becomes due meanwhile is taken now.
        following = event_queue.next_due(ctx)
        began = time.monotonic()
        taken = event_queue.dequeue(
            ctx, self.owner, most=room, seconds=self.pace.event_timeout_seconds,
            cleaning_seconds=self.pace.cleaning_seconds)
        with self._lock:
            self._pending += len(taken)
        for attempt in taken:
            self._taken.put((attempt, began))
        if len(taken) == room:
            return 0.0
        pause = self.pace.poll_seconds
        return pause if following is None else min(pause, following)

    def _sleep(self, seconds: float) -> None:
        """Wait until somebody wakes up this thread."""
        try:
            self._wake.get(timeout=seconds)
            while True:
                self._wake.get_nowait()
        except queue.Empty:
            pass

    def _work(self) -> None:
        """Carry out events, one after the other."""
        while (entry := self._taken.get()) is not None:
            attempt, began = entry
            try:
                self._execute(attempt, began)
            except Exception:  # Its time will be over, and somebody tries it again.
                LOG.exception("%s of lease %s: neither done nor given back", attempt.event_type,
                              attempt.lease_id)
            with self._lock:
                self._pending -= 1
                has_room = self._pending <= self._most // 2
            if has_room:
                self._wake.put(None)

    def _execute(self, attempt: EventAttempt, began: float) -> None:
        """Do what an event says, or write down that it failed.

        :param began: the monotonic time at which it was taken, or somewhat before.
        """
        ctx = self._make_context()
        try:
            done = self._until_it_answers(ctx, attempt, began)
        except errors.Unavailable as error:
            LOG.warning("%s of lease %s could not be carried out, and will be taken again: %s",
                        attempt.event_type, attempt.lease_id, error)
        except errors.Error as error:
            self._fail(ctx, attempt, str(error))
        except Exception as error:  # A defect of ours, or of a plugin: this event's alone.
            LOG.exception("%s of lease %s", attempt.event_type, attempt.lease_id)
            self._fail(ctx, attempt, f"{type(error).__name__}: {error}")
        else:
            if done:
                with self._lock:
                    self._done += 1
                metrics.count_lease_event(
                    attempt.event_type, attempt.late_seconds + time.monotonic() - began)
                LOG.info("%s of lease %s is done", attempt.event_type, attempt.lease_id)

    def _until_it_answers(self, ctx: Context, attempt: EventAttempt, began: float) -> bool:
        """Carry out an event; again, if the database does not answer, while it is ours.

        :raises errors.Unavailable: it did not answer in time.
        """
        while True:
            try:
                return self._transitions.execute(ctx, attempt)
            except errors.Unavailable:
                left = began + self.pace.event_timeout_seconds - time.monotonic()
                if left <= 0 or self._over.wait(min(left, self.pace.poll_seconds)):
                    raise

    def _fail(self, ctx: Context, attempt: EventAttempt, problem: str) -> None:
        """Give back an event that failed, or give it up."""
        again = event_queue.release(
            ctx, attempt, problem, again_in_seconds=_AGAIN_SECONDS,
            retries=self.pace.event_max_retries)
        if not again and not self._transitions.fail(ctx, attempt, problem):
            return
        with self._lock:
            self._failed += 1
        metrics.count_failed_lease_event(attempt.event_type, "failed" if again else "given_up")
        LOG.log(logging.WARNING if again else logging.ERROR, "%s of lease %s failed%s: %s",
                attempt.event_type, attempt.lease_id,
                f"; it is tried again in {_AGAIN_SECONDS} s" if again else
                " for the last time; see `placement-core events retry "
                f"{attempt.event_id}`", problem)

    def _repeat(self, task: PeriodicTask) -> None:
        """Do a task again and again."""
        trouble = _Trouble(f"the manager's {task.name}")
        while True:
            try:
                task.do(self._make_context())
            except Exception as error:  # noqa: BLE001  whatever it is, the next time may go better.
                trouble.report(error)
            else:
                trouble.clear()
            if self._over.wait(task.seconds):
                return
