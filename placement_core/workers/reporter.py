"""Reports about this process, from a thread of its own.

A request appends to a deque, and counts. All else is done by the thread every few seconds: it
merges equal refusals, and writes what has changed. So a flood of refusals costs the database what
a few refusals cost: a transaction every two seconds, of a bounded number of rows.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import importlib.metadata
import logging
import multiprocessing.util
import os
import socket
import threading
import time
import uuid
import weakref
from collections.abc import Callable

from placement_core import errors, forks
from placement_core.context import Context
from placement_core.db import failures
from placement_core.placement.index import CapacityIndex
from placement_core.workers import store
from placement_core.workers.records import Cause, RefusalReport, WorkerReport

LOG = logging.getLogger(__name__)

#: How often the thread looks whether there is something to report.
_PAUSE_SECONDS = 2.0
#: How often it reports if there is nothing new.
EVERY_SECONDS = 10.0
#: For how long the end of the process waits for the last report.
_FAREWELL_SECONDS = 2.0
#: How often it removes workers that are gone.
_FORGET_EVERY_SECONDS = 600.0
#: How many refusals wait for the thread; the oldest are counted only, if there are more.
_MOST_WAITING = 1000
#: How many refusals of a worker are in the database, and how many it writes at a time.
MOST_REFUSALS = 50
MOST_WRITTEN = 20
#: How many codes are counted, and how many of them are reported: the most frequent ones.
_MOST_CODES, _MOST_REPORTED_CODES = 200, 20
_OTHER = "other"
#: The longest text of a column.
_LONGEST, _LONGEST_VERSION = 255, 64


@dataclasses.dataclass(frozen=True, slots=True)
class RefusedRequest:
    """A request that was refused just now.

    :ivar at: when, as ``time.monotonic`` has it.
    :ivar detail: what its caller was told, without secrets; None: not known.
    """

    cause: Cause
    at: float
    request_id: str | None
    detail: str | None


@dataclasses.dataclass(slots=True)
class _MergedRefusals:
    """Equal refusals, and the slot that they have in the database."""

    slot: int
    first_at: float
    last: RefusedRequest
    times: int = 0


class WorkerReporter:
    """Reports about this process, from its first request on. Thread-safe.

    :param make_context: creates the context of one report.
    """

    def __init__(self, make_context: Callable[[], Context], index: CapacityIndex) -> None:
        self._make_context = make_context
        self._index = index
        self.renew()
        forks.call_in_child(self, WorkerReporter.renew)

    def renew(self) -> None:
        """Begin anew, as another worker. Not thread-safe, because it replaces the lock."""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._is_running = False
        self._in_flight = self._requests = self._refusals = 0
        self._waiting: collections.deque[RefusedRequest] = collections.deque(
            maxlen=_MOST_WAITING)
        self._codes: collections.Counter[str] = collections.Counter()
        # From here on only the thread uses them.
        self._uuid = str(uuid.uuid4())
        self._started_at = time.monotonic()
        self._reported_at = self._forgot_at = float("-inf")
        self._works = self._can_start = True
        # The oldest first.
        self._merged: collections.OrderedDict[Cause, _MergedRefusals] = collections.OrderedDict()
        self._changed: collections.OrderedDict[Cause, None] = collections.OrderedDict()
        self._emptied: set[int] = set()
        self._history = collections.deque([(self._started_at, 0)])

    # Of a request ------------------------------------------------------------

    def begin_request(self) -> None:
        """Count a request that begins."""
        with self._lock:
            self._in_flight += 1
            self._requests += 1
            self._is_running = self._is_running or self._start()

    def end_request(self, refused: RefusedRequest | None) -> None:
        """Count a request that ends.

        :param refused: None: it was not.
        """
        with self._lock:
            self._in_flight -= 1
            if refused is not None:
                self._refusals += 1
                code = refused.cause.code
                is_counted = code in self._codes or len(self._codes) < _MOST_CODES
                self._codes[code if is_counted else _OTHER] += 1
                self._waiting.append(refused)

    def stop(self) -> None:
        """Let the thread report for the last time, and end; the process waits for it."""
        self._ended.set()

    def _start(self) -> bool:
        """Start the thread; return whether there could be one more."""
        thread = threading.Thread(
            target=_run, args=(weakref.ref(self), self._ended), name="reports of a worker",
            daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # The next request tries it again.
            if self._can_start:
                LOG.warning("worker %d cannot report: %s", os.getpid(), error)
            self._can_start = False
            return False
        self._can_start = True
        # Processes of multiprocessing end without ``atexit``, but not without this.
        multiprocessing.util.Finalize(self, _end, args=(thread, self._ended), exitpriority=0)
        return True

    # Of the thread -----------------------------------------------------------

    def report(self) -> bool:
        """Report if something is new, or it is time; return whether it did.

        An error is logged once, until it works again. All is reported then.
        """
        now = time.monotonic()
        self._merge(now)
        if not (self._changed or now - self._reported_at >= EVERY_SECONDS):
            return False
        try:
            self._write(now)
        except Exception as error:
            if self._works:
                is_outage = isinstance(failures.translate(error), errors.Unavailable)
                LOG.warning("worker %d cannot report: %s", os.getpid(),
                            failures.describe_error(error), exc_info=not is_outage)
            self._works = False
            return False
        self._works = True
        return True

    def leave(self) -> None:
        """Report for the last time, and take this worker out of the list: it ends in order.

        If that fails, it counts as gone after a time, like one that was killed.
        """
        self.report()
        if self._reported_at == float("-inf"):
            return
        try:
            store.remove(self._make_context(), self._uuid)
        except Exception as error:  # noqa: BLE001 (the process ends)
            LOG.info("worker %d ends without a farewell: %s", os.getpid(),
                     failures.describe_error(error))

    def _merge(self, now: float) -> None:
        """Merge what was refused since, and forget what was long ago."""
        while self._waiting:
            refused = self._waiting.popleft()
            refusals = self._merged.get(refused.cause)
            if refusals is None:
                refusals = self._merged[refused.cause] = _MergedRefusals(
                    self._take_slot(), refused.at, refused)
            refusals.times += 1
            refusals.last = refused
            self._merged.move_to_end(refused.cause)
            self._changed[refused.cause] = None
            self._changed.move_to_end(refused.cause)
        while self._merged:
            cause, oldest = next(iter(self._merged.items()))
            if now - oldest.last.at < store.KEEP_SECONDS:
                break
            del self._merged[cause]
            self._changed.pop(cause, None)
            self._emptied.add(oldest.slot)

    def _take_slot(self) -> int:
        """Return a slot that nothing has, or else that of the oldest refusal."""
        if len(self._merged) < MOST_REFUSALS:
            slot = min(set(range(MOST_REFUSALS)).difference(
                refusals.slot for refusals in self._merged.values()))
        else:
            cause, oldest = self._merged.popitem(last=False)
            self._changed.pop(cause, None)
            slot = oldest.slot
        self._emptied.discard(slot)
        return slot

    def _write(self, now: float) -> None:
        # The newest: they are what somebody waits for.
        written = list(self._changed)[-MOST_WRITTEN:]
        refusals = {self._merged[cause].slot: self._describe(self._merged[cause], now)
                    for cause in written}
        ctx = self._make_context()
        store.write(ctx, self._describe_worker(now), refusals, self._emptied)
        self._emptied.clear()
        for cause in written:
            del self._changed[cause]
        self._reported_at = now
        if now - self._forgot_at >= _FORGET_EVERY_SECONDS:
            self._forgot_at = now
            store.forget(ctx)

    def _describe(self, refusals: _MergedRefusals, now: float) -> RefusalReport:
        last = refusals.last
        return RefusalReport(
            last.cause, int(now - last.at), int(now - refusals.first_at), refusals.times,
            last.request_id, last.detail)

    def _describe_worker(self, now: float) -> WorkerReport:
        with self._lock:
            in_flight, requests, total = self._in_flight, self._requests, self._refusals
            codes = self._codes.most_common(_MOST_REPORTED_CODES)
        self._history.append((now, total))
        while len(self._history) > 1 and now - self._history[1][0] >= 60:
            self._history.popleft()
        read_seconds, providers = _describe_index(self._index)
        return WorkerReport(
            self._uuid, socket.gethostname()[:_LONGEST], os.getpid(),
            _get_version()[:_LONGEST_VERSION],
            int(now - self._started_at), read_seconds, providers, in_flight, requests, total,
            total - self._history[0][1], dict(codes))


@functools.cache
def _get_version() -> str:
    try:
        return importlib.metadata.version("placement-core")
    except importlib.metadata.PackageNotFoundError:
        return "0 (not installed)"


def _describe_index(index: CapacityIndex) -> tuple[int | None, int | None]:
    """Return how long ago an index read changes, and its number of providers, if it is loaded.

    It is not brought up to date: that would cost an idle worker as much as a busy one.
    """
    newest = index.newest
    if newest is None:
        return None, None
    age = time.time() - newest.made_at.timestamp()
    return max(0, int(age)), len(newest.value.layout.row_of_id)


def _run(reference: weakref.ref[WorkerReporter], ended: threading.Event) -> None:
    """Report until the process ends, or nobody has the reporter any more."""
    while not ended.wait(_PAUSE_SECONDS):
        reporter = reference()
        if reporter is None:
            return
        reporter.report()
        del reporter
    reporter = reference()
    if reporter is not None:
        reporter.leave()


def _end(thread: threading.Thread, ended: threading.Event) -> None:
    """Let a thread end, and wait for it: the process ends, or nobody has the reporter."""
    ended.set()
    if thread is not threading.current_thread():
        # Not for ever: the database may be away.
        thread.join(_FAREWELL_SECONDS)
