"""Limits concurrent requests, and refuses early what a process cannot answer in time.

Requests beyond the limit wait in a queue, first come, first served. It is bounded twice: in
number, and in time. A burst is served completely if it fits in both bounds. Once a process has
been working at its limit for as long as a request may wait, more is asked of it than it can do:
waiting would only make all answers late, so requests wait for a part of that time then, and only
as many as will get a slot within it. The others are refused before they wait.

A WSGI server occupies a thread for each request, one that waits too. It needs more threads than
requests may be processed and wait together (``placement-core serve`` has them): the others
answer health checks, and refuse what the queue has no room for.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import forks, metrics
from placement_core.http.apis import ApisByPath
from placement_core.http.errors import HTTPError
from placement_core.http.operations import IDLE_KEY

LOG = logging.getLogger(__name__)

_RETRY_AFTER_SECONDS = 2
#: Refusals cost little in overload: each is in the access log, and one line tells of many.
_LOG_EVERY_SECONDS = 10.0
#: Which part of the longest wait is left in overload.
_SHARE_IN_OVERLOAD = 0.2
#: Requests that wait for a database in trouble are refused when no request got done for so long.
_PATIENCE_SECONDS = 1.0


class Overloaded(HTTPError):
    """A request that would wait for too long."""

    code = "placement.overloaded"

    def __init__(self) -> None:
        super().__init__(
            503, "The service has more requests than it can answer in time; please try again.",
            headers=[("Retry-After", str(_RETRY_AFTER_SECONDS))])


class RequestSlots:
    """Slots of requests that are processed, and the queue of those that wait. Thread-safe.

    :param most: how many slots there are.
    :param most_waiting: how many requests may wait.
    :param wait_seconds: for how long.
    :param is_troubled: says whether what requests wait for may not end soon.
    """

    def __init__(
        self, most: int, most_waiting: int, wait_seconds: float, is_troubled: Callable[[], bool],
    ) -> None:
        self._most = most
        self._most_waiting = most_waiting
        self._wait_seconds = wait_seconds
        self._is_troubled = is_troubled
        self._renew()
        forks.call_in_child(self, RequestSlots._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._free = self._most
        # One locked lock for each request, which is unlocked when a slot is handed to it.
        self._waiting: collections.deque[threading.Lock] = collections.deque()
        # When the last free slot was taken, and how many requests were done since.
        self._full_since = self._last_done_at = time.monotonic()
        self._done_since = 0

    def count_waiting(self) -> int:
        """Return how many requests wait now."""
        return len(self._waiting)

    def acquire(self) -> bool:
        """Take a slot, wait for one if need be; return whether there was one in time."""
        with self._lock:
            if self._free:
                self._free -= 1
                if not self._free:
                    self._full_since = time.monotonic()
                    self._done_since = 0
                return True
            if len(self._waiting) >= self.compute_room(time.monotonic()):
                return False
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        started = time.monotonic()
        got_slot = self._wait(turn, started) or not self._leave(turn)
        metrics.observe_request_wait(time.monotonic() - started)
        return got_slot

    def release(self) -> None:
        """Give a slot back, to the request that has waited longest."""
        with self._lock:
            self._last_done_at = time.monotonic()
            self._done_since += 1
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1

    def compute_patience(self, now: float) -> float:
        """Return for how many seconds a request waits that comes now and finds no free slot."""
        return self._wait_seconds * (_SHARE_IN_OVERLOAD if self._is_overloaded(now) else 1)

    def compute_room(self, now: float) -> int:
        """Return how many requests may wait now.

        In overload, as many as get a slot while they wait, if requests are done as fast as they
        were since it began; at least one for each slot, so that no slot is idle.
        """
        if not self._is_overloaded(now):
            return self._most_waiting
        done_in_time = self._done_since / (now - self._full_since) * self.compute_patience(now)
        return min(self._most_waiting, max(self._most, int(done_in_time)))

    def _is_overloaded(self, now: float) -> bool:
        return now - self._full_since > self._wait_seconds

    def _wait(self, turn: threading.Lock, started: float) -> bool:
        deadline = started + self.compute_patience(started)
        now = started
        while now < deadline and not self._is_stuck(now):
            # Hundreds wait in overload, and each that wakes needs the interpreter.
            stuck_at = self._last_done_at + _PATIENCE_SECONDS
            if turn.acquire(timeout=min(
                    deadline - now, max(stuck_at - now, _PATIENCE_SECONDS / 2))):
                return True
            now = time.monotonic()
        return False

    def _is_stuck(self, now: float) -> bool:
        return now - self._last_done_at > _PATIENCE_SECONDS and self._is_troubled()

    def _leave(self, turn: threading.Lock) -> bool:
        """Leave the queue; return False if a slot was handed over at this moment."""
        with self._lock:
            try:
                self._waiting.remove(turn)
            except ValueError:
                return False
            return True


class _Turn:
    """The slot of one request, which it may leave to others while it only waits."""

    def __init__(self, slots: RequestSlots) -> None:
        self._slots = slots
        self._has_slot = False

    def begin(self) -> bool:
        """Take a slot; return whether there was one in time."""
        self._has_slot = self._slots.acquire()
        return self._has_slot

    def end(self) -> None:
        """Give the slot back, if there is one."""
        if self._has_slot:
            self._has_slot = False
            self._slots.release()

    @contextlib.contextmanager
    def idle(self) -> Iterator[None]:
        """Leave the slot to others.

        :raises Overloaded: afterwards there was none in time.
        """
        self.end()
        try:
            yield
        finally:
            if not self.begin():
                raise Overloaded


class ConcurrencyLimit:
    """WSGI middleware that processes a number of requests at a time.

    :param apis: have the renderer of a refusal.
    """

    def __init__(self, app: WSGIApplication, slots: RequestSlots, apis: ApisByPath) -> None:
        self._app = app
        self._slots = slots
        self._apis = apis
        self._logged_at = -_LOG_EVERY_SECONDS

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        turn = _Turn(self._slots)
        if not turn.begin():
            return self._refuse(environ, start_response)
        environ[IDLE_KEY] = turn.idle
        try:
            return self._app(environ, start_response)
        finally:
            turn.end()

    def _refuse(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        now = time.monotonic()
        if now - self._logged_at >= _LOG_EVERY_SECONDS:
            self._logged_at = now
            LOG.warning(
                "more requests than this worker can answer in time: some are answered 503")
        api = self._apis.find(environ.get("PATH_INFO", ""))
        response: WSGIApplication = api.render_refusal(Overloaded(), environ)
        return response(environ, start_response)
