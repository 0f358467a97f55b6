"""Numbers of this process, which it notes every few seconds, so that a request costs little.

Whichever worker is scraped, it answers for all: each of them notes its own where it counts.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from placement_core import forks, metrics
from placement_core.db.database import Database

LOG = logging.getLogger(__name__)

_PAUSE_SECONDS = 2.0


class ProcessNotes:
    """Notes the numbers of a process, from its first request on. Thread-safe.

    :param most_requests: how many the process works on at a time; 0: as many as come.
    :param count_waiting: returns how many others have begun, and wait.
    """

    def __init__(
        self, database: Database, most_requests: int, count_waiting: Callable[[], int],
    ) -> None:
        self._database = database
        self._most_requests = most_requests
        self._count_waiting = count_waiting
        self._renew()
        forks.call_in_child(self, ProcessNotes._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._in_flight = 0
        self._is_noting = False
        self._can_start = True

    def begin_request(self) -> None:
        """Count a request that begins."""
        with self._lock:
            self._in_flight += 1
            self._is_noting = self._is_noting or self._start()

    def end_request(self) -> None:
        """Count a request that ends."""
        with self._lock:
            self._in_flight -= 1

    def note(self) -> None:
        """Note the numbers of this moment."""
        waiting = self._count_waiting()
        metrics.set_process(
            in_flight=self._in_flight - waiting, waiting=waiting,
            most_requests=self._most_requests,
            connections=self._database.count_connections(), threads=threading.active_count())

    def _start(self) -> bool:
        """Start the thread; return whether there could be one more."""
        try:
            threading.Thread(target=self._run, name="notes for metrics", daemon=True).start()
        except RuntimeError as error:  # The next request tries it again.
            if self._can_start:
                LOG.warning("the numbers of this process cannot be noted: %s", error)
            self._can_start = False
        else:
            self._can_start = True
        return self._can_start

    def _run(self) -> None:
        present = metrics.get_present()
        works = True
        while metrics.get_present() is present:
            try:
                self.note()
            except Exception:  # Whatever it is, the next time may succeed.
                if works:
                    LOG.exception("the numbers of this process cannot be noted")
                works = False
            else:
                works = True
            time.sleep(_PAUSE_SECONDS)
