"""The manager: executes lease events when they are due, and runs periodic tasks.

One thread dequeues events and sleeps until the next one is due; others execute them, each in one
transaction. Any number of managers may run, on any number of machines: they share nothing but the
database, which says which manager owns an event. If a manager dies, its events wait for their
deadlines; if it cannot reach the database, it waits.
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

from placement_core import errors, metrics, tracing
from placement_core.context import Context
from placement_core.db import texts
from placement_core.reservations import records
from placement_core.reservations.leases.transitions import EventAttempt, Transitions
from placement_core.reservations.manager import event_queue

LOG = logging.getLogger(__name__)

#: How many events the manager owns for each thread, so that no thread waits for the next one.
_EVENTS_PER_THREAD = 8
#: How long after a failure an event is executed again.
_RETRY_SECONDS = 10
#: How often the log says that the manager is alive.
_HEARTBEAT_SECONDS = 60
#: How often the log says that something still does not work.
_REMINDER_SECONDS = 3600
#: How long ``run`` waits for its threads at the end.
_STOP_SECONDS = 30


@dataclasses.dataclass(frozen=True, slots=True)
class PeriodicTask:
    """A task that is repeated in a thread of its own.

    :ivar seconds: from the end of one run to the beginning of the next.
    :ivar do: the task. Each run gets a context of its own; several managers may run it at once.
        A manager that stops waits for the run that has begun.
    :ivar is_drain: a run does one thing of many, and returns whether there may be more: then the
        next run follows without a pause.
    """

    name: str
    seconds: float
    do: Callable[[Context], object]
    is_drain: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ManagerSettings:
    """Settings of a manager: ``[reservations] manager_threads`` and the options next to it."""

    threads: int
    poll_seconds: float
    event_timeout_seconds: int
    event_max_retries: int
    #: How long hosts are cleaned after a lease: ``[reservations] cleaning_time``.
    cleaning_seconds: int = 0


@dataclasses.dataclass(slots=True)
class _ManagerOutage:
    """Logs when something stops working, when it fails in another way, and when it works again.

    :ivar reminders: {class of error: monotonic time before which it is not logged again}.
    """

    what: str
    reminders: dict[type[Exception], float] = dataclasses.field(default_factory=dict)

    def report(self, error: Exception) -> None:
        """Log an error, unless one of its class was logged lately in this outage."""
        now = time.monotonic()
        if now < self.reminders.get(type(error), now):
            return
        is_expected = isinstance(error, errors.Error)
        LOG.warning("%s %s, and is tried again: %s", self.what,
                    "still does not work" if self.reminders else "does not work",
                    error if is_expected else type(error).__name__, exc_info=not is_expected)
        self.reminders[type(error)] = now + _REMINDER_SECONDS

    def clear(self) -> None:
        """Log the end of the outage, if there was one."""
        if self.reminders:
            self.reminders.clear()
            LOG.warning("%s works again", self.what)


def new_owner() -> str:
    """Return a name that no other manager has; short enough to append a thread's number."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{secrets.token_hex(3)}"


class Manager:
    """Executes lease events and periodic tasks until it is stopped.

    :param make_context: creates the context of one event, or of one run of a task.
    :param tasks: the periodic tasks, each in a thread of its own.
    :ivar owner: the name of this manager in the rows of its events.
    """

    def __init__(
        self, owner: str, make_context: Callable[[], Context], transitions: Transitions,
        settings: ManagerSettings, tasks: Sequence[PeriodicTask] = (),
    ) -> None:
        self.owner = owner
        self.settings = settings
        self._make_context = make_context
        self._transitions = transitions
        self._tasks = tasks
        self._most_pending = _EVENTS_PER_THREAD * settings.threads
        #: What the workers take; None ends one of them.
        self._attempts: queue.SimpleQueue[
            tuple[EventAttempt, float] | None] = queue.SimpleQueue()
        #: How many events this manager owns; changed under the lock only.
        self._pending = 0
        self._lock = threading.Lock()
        self._done = self._failed = 0
        self._stopping = False
        #: Wakes up the thread that dequeues events. A signal handler can put something into
        #: it; it could not set an Event.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Make ``run`` return when begun events are done; may be called by signal handlers."""
        self._stopping = True
        self._wake.put(None)

    def run(self) -> None:
        """Execute events and tasks until ``stop``."""
        workers = [
            threading.Thread(target=self._run_worker, name=f"events-{number}", daemon=True)
            for number in range(self.settings.threads)]
        task_threads = [
            threading.Thread(target=self._run_task, args=(task,), name=task.name, daemon=True)
            for task in self._tasks]
        for thread in (*workers, *task_threads):
            thread.start()
        try:
            self._poll()
        finally:
            self._stopped.set()
            for _ in workers:
                self._attempts.put(None)
            until = time.monotonic() + _STOP_SECONDS
            for thread in (*workers, *task_threads):
                thread.join(max(0.0, until - time.monotonic()))

    def _poll(self) -> None:
        """Dequeue events when they are due."""
        outage = _ManagerOutage("the manager's question for events")
        alive = time.monotonic()
        while not self._stopping:
            try:
                pause = self._dequeue()
            except Exception as error:  # noqa: BLE001  whatever it is, the next query may succeed
                outage.report(error)
                pause = self.settings.poll_seconds
            else:
                outage.clear()
            if time.monotonic() - alive >= _HEARTBEAT_SECONDS:
                alive = time.monotonic()
                LOG.info("manager %s is alive: %d events done, %d failed, %d begun", self.owner,
                         self._done, self._failed, self._pending)
            self._sleep(pause)

    def _dequeue(self) -> float:
        """Dequeue as many due events as there is room for; return how long to sleep."""
        room = self._most_pending - self._pending
        if room < self._most_pending // 2:
            return self.settings.poll_seconds  # or until there is room
        ctx = self._make_context()
        # Read first: events that become due in between are dequeued now.
        next_due = event_queue.next_due(ctx)
        began = time.monotonic()
        attempts = event_queue.dequeue(
            ctx, self.owner, most=room, seconds=self.settings.event_timeout_seconds,
            cleaning_seconds=self.settings.cleaning_seconds)
        with self._lock:
            self._pending += len(attempts)
        for attempt in attempts:
            self._attempts.put((attempt, began))
        if len(attempts) == room:
            return 0.0
        pause = self.settings.poll_seconds
        return pause if next_due is None else min(pause, next_due)

    def _sleep(self, seconds: float) -> None:
        """Sleep until the time is over, or another thread wakes up this one."""
        try:
            self._wake.get(timeout=seconds)
            while True:
                self._wake.get_nowait()
        except queue.Empty:
            pass

    def _run_worker(self) -> None:
        """Execute events, one after the other."""
        while (entry := self._attempts.get()) is not None:
            attempt, began = entry
            try:
                self._execute(attempt, began)
            except Exception:  # After the deadline, a manager executes it again.
                LOG.exception("%s of lease %s: neither done nor given back", attempt.event_type,
                              attempt.lease_id)
            with self._lock:
                self._pending -= 1
                has_room = self._pending <= self._most_pending // 2
            if has_room:
                self._wake.put(None)

    def _execute(self, attempt: EventAttempt, began: float) -> None:
        """Execute an event, or record that it failed.

        :param began: the monotonic time at which it was dequeued, or somewhat before.
        """
        ctx = self._make_context()
        ctx.operation = f"manager: {attempt.event_type}"
        try:
            with tracing.span(attempt.event_type, attributes={
                    "placement_core.lease_id": attempt.lease_id}):
                done = self._execute_until_answered(ctx, attempt, began)
        except errors.Unavailable as error:
            LOG.warning("%s of lease %s could not be carried out, and will be taken again: %s",
                        attempt.event_type, attempt.lease_id, error)
        except errors.Error as error:
            self._fail(ctx, attempt, str(error))
        except Exception as error:  # A defect here or in a plugin: it concerns this event only.
            LOG.exception("%s of lease %s", attempt.event_type, attempt.lease_id)
            self._fail(ctx, attempt, f"{type(error).__name__}: {error}")
        else:
            if done:
                with self._lock:
                    self._done += 1
                metrics.count_lease_event(
                    attempt.event_type, attempt.late_seconds + time.monotonic() - began)
                LOG.info("%s of lease %s is done", attempt.event_type, attempt.lease_id)

    def _execute_until_answered(self, ctx: Context, attempt: EventAttempt, began: float) -> bool:
        """Execute an event; retry while the database does not answer and the event is owned.

        :raises errors.Unavailable: the database did not answer before the deadline.
        """
        while True:
            try:
                return self._transitions.execute(ctx, attempt)
            except errors.Unavailable:
                left = began + self.settings.event_timeout_seconds - time.monotonic()
                if left <= 0 or self._stopped.wait(min(left, self.settings.poll_seconds)):
                    raise

    def _fail(self, ctx: Context, attempt: EventAttempt, problem: str) -> None:
        """Release an event that failed; without retries left, mark it as failed for good."""
        problem = texts.make_storable(problem, records.LONGEST_PROBLEM)
        again = event_queue.release(
            ctx, attempt, problem, again_in_seconds=_RETRY_SECONDS,
            retries=self.settings.event_max_retries)
        if not again and not self._transitions.fail(ctx, attempt, problem):
            return
        with self._lock:
            self._failed += 1
        metrics.count_failed_lease_event(attempt.event_type, "failed" if again else "given_up")
        LOG.log(logging.WARNING if again else logging.ERROR, "%s of lease %s failed%s: %s",
                attempt.event_type, attempt.lease_id,
                f"; it is tried again in {_RETRY_SECONDS} s" if again else
                " for the last time; see `placement-core events retry "
                f"{attempt.event_id}`", problem)

    def _run_task(self, task: PeriodicTask) -> None:
        """Run a task periodically."""
        outage = _ManagerOutage(f"the manager's {task.name}")
        while True:
            has_more = False
            try:
                ctx = self._make_context()
                ctx.operation = f"manager: {task.name}"
                result = task.do(ctx)
                has_more = task.is_drain and bool(result)
            except Exception as error:  # noqa: BLE001  whatever it is, the next run may succeed
                outage.report(error)
            else:
                outage.clear()
            if self._stopped.wait(0.0 if has_more else task.seconds):
                return
