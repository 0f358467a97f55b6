"""The engines of other databases than the service's own, shared by the whole process.

Drivers are built of the options alone, as those of other authors are, so each makes a
``CellDatabases`` of its own beside the service's. All of them take their engines from
``SHARED``: who names the same database with the same settings gets the same pools, and
reads that a slow cell owes are counted together.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Collection, Iterator

from placement_core import errors
from placement_core.db import Session
from placement_core.db.availability import GRACE_SECONDS
from placement_core.db.database import Database, Settings


class _NullChangeRecorder:
    """The change log of a database that has none: no change may be recorded there."""

    def slot(self) -> int:
        """Return a number, as every thread has one."""
        return 0

    def append(self, session: Session) -> None:
        """Refuse: a caller that records a change here mistakes the database for ours."""
        raise RuntimeError("a database without a change log cannot say what was touched")

    def notice_commit(self, database: Database, session: Session) -> None:
        """Do nothing: there is nothing to tidy up."""

    def was_committed(self, database: Database, session: Session) -> bool:
        """Refuse: this database does not keep which transactions it has seen."""
        raise errors.Unavailable("This database does not keep which transactions it has seen.")


class EngineRegistry:
    """The databases that this process has engines for, and the reads that are under way.

    A process that was forked begins with none: connections cannot be shared with the parent.
    For any number of threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._databases: dict[Settings, Database] = {}
        self._reads_started: dict[Database, list[float]] = {}
        #: Those of the parents stay referenced, because their connections are not ours to close.
        self._inherited: list[dict[Settings, Database]] = []
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._inherited.append(self._databases)
        self._databases = {}
        self._reads_started = {}

    def __len__(self) -> int:
        return len(self._databases)

    def database(self, settings: Settings, *, of_cell: bool) -> Database:
        """Return the process's database of these settings; nothing is connected to.

        :param of_cell: its readers have a deadline and repeat a read by themselves. So a cell
            that is gone is not waited for, and one that is back is noticed at once.
        :raises errors.ConfigurationError: the URL makes no sense.
        """
        with self._lock:
            database = self._databases.get(settings)
            if database is None:
                database = self._databases[settings] = Database(
                    settings, _NullChangeRecorder(), retries=1,
                    grace_seconds=None if of_cell else GRACE_SECONDS)
            return database

    def retain(self, connections: Collection[str]) -> None:
        """Close and forget the databases whose URL is none of these: their cells are gone."""
        with self._lock:
            obsolete = [settings for settings in self._databases
                        if settings.connection not in connections]
            databases = [self._databases.pop(settings) for settings in obsolete]
        for database in databases:
            database.dispose()

    def dispose(self) -> None:
        """Close every pooled connection, and forget the databases."""
        self.retain(())

    def count_late(self, database: Database, seconds: float) -> int:
        """Return how many reads from a database have been unanswered for so long."""
        before = time.monotonic() - seconds
        with self._lock:
            return sum(started < before for started in self._reads_started.get(database, ()))

    @contextlib.contextmanager
    def query_under_way(self, database: Database) -> Iterator[None]:
        """Note that a read from a database is under way."""
        started = time.monotonic()
        with self._lock:
            self._reads_started.setdefault(database, []).append(started)
        try:
            yield
        finally:
            with self._lock:
                self._reads_started[database].remove(started)
                if not self._reads_started[database]:
                    del self._reads_started[database]


#: Of this process, which owns it: a command disposes of it at its end, a server never does.
SHARED = EngineRegistry()
