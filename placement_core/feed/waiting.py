"""Lets readers wait for a commit.

A process has one thread that asks the database whether anything was committed, and only while
somebody waits. It asks for the two sums of ``vector.read_digest``, so it costs the same however
many wait.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from placement_core import errors, forks
from placement_core.changes import vector
from placement_core.context import Context
from placement_core.feed import reading
from placement_core.feed.records import Answer, Filters
from placement_core.feed.tokens import Token

LOG = logging.getLogger(__name__)

#: How often the database is asked. A commit is noticed after half of it, on average.
_EVERY_SECONDS = 0.06
#: For how long the thread stays although nobody waits: most readers come back at once.
_STAYS_SECONDS = 1.0


class Waited(NamedTuple):
    """What a reader got.

    :ivar busy: it could not wait, because as many as may wait did, or no thread can be started.
    """

    answer: Answer
    busy: bool


class ChangeWatch:
    """Wakes those who wait when something was committed. Thread-safe.

    :param context: makes a context for the thread that asks the database.
    :param most: how many may wait at a time.
    """

    def __init__(self, context: Callable[[], Context], most: int) -> None:
        self._context = context
        self._most = most
        self._stopped = False
        self._renew()
        forks.call_in_child(self, ChangeWatch._renew)

    def _renew(self) -> None:
        self._condition = threading.Condition()
        self._waiting = 0
        self._digest: tuple[int, int] | None = None
        self._error: errors.Unavailable | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether the process is about to end."""
        return self._stopped

    @property
    def waiting(self) -> int:
        """How many wait now."""
        return self._waiting

    @property
    def most(self) -> int:
        """How many may wait at a time."""
        return self._most

    def stop(self) -> None:
        """Let nobody wait any more, because the process is about to end."""
        self._stopped = True
        with self._condition:
            self._condition.notify_all()

    @contextlib.contextmanager
    def enter(self) -> Iterator[bool]:
        """Take one of the places of those who wait; yield whether there was one."""
        with self._condition:
            entered = self._waiting < self._most and not self._stopped and self._start()
            if entered:
                self._waiting += 1
        try:
            yield entered
        finally:
            if entered:
                with self._condition:
                    self._waiting -= 1

    def wait(self, digest: tuple[int, int], seconds: float) -> bool:
        """Wait until the database has another digest than ``digest``.

        :param digest: what the caller has read, so what was committed since then is noticed.
        :returns: whether it has; False: the time is over, or the process is about to end.
        :raises errors.Unavailable: the database does not answer.
        """
        deadline = time.monotonic() + seconds
        with self._condition:
            while not self._stopped:
                if self._error is not None:
                    raise errors.Unavailable(str(self._error))
                # First, because beside busy writers there is always something new.
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                if self._digest is not None and self._digest != digest:
                    return True
                self._condition.wait(left)
        return False

    def pause(self) -> None:
        """Pause a reader that was woken by changes that it does not want.

        Beside busy writers its answer is newer than what the thread has seen, so it would be
        woken at once, again and again.
        """
        time.sleep(_EVERY_SECONDS)

    def _start(self) -> bool:
        """Start the thread unless it runs; return whether it does."""
        if self._thread is None:
            # What an earlier thread found out may be old.
            self._digest = self._error = None
            thread = threading.Thread(target=self._follow, name="watch-changes", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                LOG.warning("nobody can wait for changes: %s", error)
                return False
            self._thread = thread
        return True

    def _follow(self) -> None:
        ctx = self._context()
        idle_since: float | None = None
        while True:
            digest = error = None
            try:
                digest = vector.read_digest(ctx)
            except errors.Unavailable as unavailable:
                error = unavailable
            except Exception as unexpected:
                LOG.exception("the changes cannot be followed")
                error = errors.Unavailable(str(unexpected))
            with self._condition:
                if (digest, error) != (self._digest, self._error):
                    self._digest, self._error = digest, error
                    self._condition.notify_all()
                now = time.monotonic()
                idle_since = None if self._waiting else idle_since or now
                if idle_since is not None and now - idle_since >= _STAYS_SECONDS:
                    self._thread = None
                    return
            time.sleep(_EVERY_SECONDS)


def read(
    ctx: Context, watch: ChangeWatch, token: Token | None, filters: Filters, *, most: int,
    seconds: float, idle: Callable[[], AbstractContextManager[object]],
) -> Waited:
    """Return what follows a token; wait for it for a while if there is nothing.

    :param token: as ``reading.read``, whose errors this raises, takes it; ``most``, too.
    :param idle: is entered while the caller does nothing but wait.
    :raises errors.Unavailable: the database stopped answering meanwhile.
    """
    answer = reading.read(ctx, token, filters, most=most)
    if seconds <= 0 or answer.changes or answer.more:
        return Waited(answer, busy=False)
    deadline = time.monotonic() + seconds
    with watch.enter() as entered:
        if not entered:
            return Waited(answer, busy=True)
        while not answer.changes and not answer.more:
            with idle():
                moved = watch.wait(answer.digest, deadline - time.monotonic())
            if not moved:
                break
            answer = reading.read(ctx, answer.token, filters, most=most)
            if not answer.changes:
                with idle():
                    watch.pause()
    return Waited(answer, busy=False)


def follow(
    ctx: Context, watch: ChangeWatch, answer: Answer, filters: Filters, *, most: int,
    seconds: float, pulse_seconds: float,
) -> Iterator[Answer]:
    """Yield an answer and those that follow it, until the time is over or the process ends.

    When nothing happened for ``pulse_seconds``, an answer without changes comes: its token may
    be another one, because there may have been changes that the reader does not want. The caller
    has a place among those who wait.

    :raises errors.Unavailable, errors.PositionLost: as ``read``.
    """
    deadline = time.monotonic() + seconds
    yield answer
    pulse_at = time.monotonic() + pulse_seconds
    while not watch.is_stopped and time.monotonic() < deadline:
        if not answer.more and not watch.wait(
                answer.digest, min(pulse_at, deadline) - time.monotonic()):
            if not watch.is_stopped:
                yield answer
            pulse_at = time.monotonic() + pulse_seconds
            continue
        answer = reading.read(ctx, answer.token, filters, most=most)
        if answer.changes:
            yield answer
            pulse_at = time.monotonic() + pulse_seconds
        elif not answer.more:
            watch.pause()
