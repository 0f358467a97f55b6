"""Numbers of this process, which it notes every few seconds, so that a request costs little.

Whichever worker is scraped, it answers for all: each of them notes its own where it counts.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from placement_core import metrics
from placement_core.db.database import Database

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
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._in_flight = 0
        self._is_noting = False

    def begin_request(self) -> None:
        """Count a request that begins."""
        with self._lock:
            self._in_flight += 1
            if self._is_noting:
                return
            self._is_noting = True
        threading.Thread(target=self._run, name="notes for metrics", daemon=True).start()

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

    def _run(self) -> None:
        present = metrics.get_present()
        while metrics.get_present() is present:
            self.note()
            time.sleep(_PAUSE_SECONDS)
