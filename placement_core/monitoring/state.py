"""Numbers of the whole service, which any worker reads from the database when it is scraped.

A scrape gets the numbers that are there, and starts a thread that reads newer ones: it waits for
a database only if there are none, and not for long. Numbers that are too old are left out rather
than shown: a backlog of 0 must not be what was true before the database went away.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from placement_core import errors, forks
from placement_core.context import Context
from placement_core.db import failures
from placement_core.placement.index import CapacityIndex
from placement_core.reservations.manager import backlog

LOG = logging.getLogger(__name__)

#: Numbers are not read more often.
_PAUSE_SECONDS = 5.0
#: Older numbers are not shown.
_FRESH_SECONDS = 60.0
#: How long a scrape waits if there are none.
_PATIENCE_SECONDS = 5.0

#: The service's state, as a worker reads it: {metric (see ``STATE``): {values of its labels:
#: number}}. Metrics that are not known are left out.
State: TypeAlias = Mapping[str, Mapping[tuple[str, ...], float]]

#: {metric: (what it is, its labels)}.
STATE: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "database_answers": (
        "1: the state, which the worker that is scraped reads from the database, is of the last "
        "minute. 0: it is not known, and left out.", ()),
    "index_age_seconds": (
        "For how long attempts to refresh the capacity index of the worker that is scraped have "
        "failed; 0: it is current.", ()),
    "index_providers": ("How many resource providers its capacity index has.", ()),
    "leases": ("How many leases there are, by status; deleted ones are not counted.",
               ("status",)),
    "lease_events_due": ("How many events of leases are due, and not done.", ()),
    "lease_event_longest_due_seconds": (
        "For how long the oldest event of a lease has been due that is not done; 0: none is.",
        ()),
    "lease_events_given_up": ("How many events of leases failed, and are not tried again.", ()),
    "outbox_calls": ("How many calls to the compute service wait or are being made.", ()),
    "outbox_oldest_call_seconds": ("The age of the oldest of them; 0: there is none.", ()),
    "managers": ("How many managers have told within a minute that they live.", ()),
    "manager_heartbeat_age_seconds": (
        "How long ago the last manager told that it lives.", ()),
}


class StateReader:
    """Returns the numbers of the service's state; see ``State``. Thread-safe.

    :param make_context: creates the context of one read.
    """

    def __init__(self, make_context: Callable[[], Context], index: CapacityIndex) -> None:
        self._make_context = make_context
        self._index = index
        self._works = True
        self._renew()
        forks.call_in_child(self, StateReader._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._read_done: threading.Event | None = None
        self._state: State = {}
        # In the past: nothing was read yet.
        self._read_at = float("-inf")

    def get(self) -> State:
        """Return the numbers; those that are not known now are left out."""
        done = self._start_or_join()
        if self._get_age() > _FRESH_SECONDS:
            done.wait(_PATIENCE_SECONDS)
        is_fresh = self._get_age() <= _FRESH_SECONDS
        # Not when it was read last: a worker may be scraped rarely, and requests refresh it.
        failing_since = self._index.failing_since
        index_age = 0.0 if failing_since is None else time.monotonic() - failing_since
        return {**(self._state if is_fresh else {}), "database_answers": {(): float(is_fresh)},
                "index_age_seconds": {(): index_age}}

    def _get_age(self) -> float:
        return time.monotonic() - self._read_at

    def _start_or_join(self) -> threading.Event:
        """Return what is set when the newest read is done; start one if it is time."""
        with self._lock:
            done = self._read_done
            if done is not None and (
                    not done.is_set() or self._get_age() < _PAUSE_SECONDS):
                return done
            done = self._read_done = threading.Event()
        try:
            threading.Thread(
                target=self._read, args=(done,), name="state for metrics", daemon=True).start()
        except RuntimeError as error:  # There are too many threads now.
            self._note_failure(error)
            done.set()
        return done

    def _read(self, done: threading.Event) -> None:
        try:
            ctx = self._make_context()
            size = len(self._index.snapshot(ctx).layout.row_of_id)
            self._state = _describe(backlog.measure(ctx), backlog.count_leases(ctx), size)
            self._read_at = time.monotonic()
        except Exception as error:  # noqa: BLE001  whatever it is, the next read may succeed
            self._note_failure(error)
        else:
            self._works = True
        finally:
            done.set()

    def _note_failure(self, error: Exception) -> None:
        """Log why nothing can be read, unless that was logged before."""
        if self._works:
            is_outage = isinstance(failures.translate(error), errors.Unavailable)
            LOG.warning("the state for metrics cannot be read: %s",
                        failures.describe_error(error), exc_info=not is_outage)
        self._works = False


def _describe(
    work: backlog.Backlog, leases: Mapping[str, int], index_size: int
) -> State:
    state: dict[str, Mapping[tuple[str, ...], float]] = {
        "leases": {(status,): count for status, count in leases.items()},
        "lease_events_due": {(): work.due_events},
        "lease_event_longest_due_seconds": {(): work.longest_due_seconds},
        "lease_events_given_up": {(): work.failed_events},
        "outbox_calls": {(): work.calls},
        "outbox_oldest_call_seconds": {(): work.oldest_call_seconds},
        "managers": {(): work.managers},
        "index_providers": {(): index_size},
    }
    if work.heartbeat_seconds is not None:
        state["manager_heartbeat_age_seconds"] = {(): work.heartbeat_seconds}
    return state
