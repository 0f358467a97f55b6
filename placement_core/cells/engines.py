"""The engines of databases other than the service's own, shared by the whole process.

Drivers are created from the options alone, so each creates a ``CellDatabases`` of its own
beside the service's. All of them take their engines from ``SHARED``: the same database with
the same settings has one set of pools, and the unanswered reads of a slow cell are counted
together.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection, Iterator

from placement_core import errors, forks
from placement_core.db import Session
from placement_core.db.availability import GRACE_SECONDS
from placement_core.db.database import Database, Settings


class _NullChangeRecorder:
    """The change log of a database that has none: no change may be recorded there."""

    def slot(self) -> int:
        """Return the same slot for every thread, because nothing is appended."""
        return 0

    def append(self, session: Session) -> None:
        """Refuse: a change recorded here was meant for the service's own database."""
        raise RuntimeError("a database without a change log cannot say what was touched")

    def notice_commit(self, database: Database, session: Session) -> None:
        """Do nothing: there is nothing to clean up."""

    def was_committed(self, database: Database, session: Session, seconds: float) -> bool:
        """Refuse: this database does not record which transactions were committed."""
        raise errors.Unavailable("This database does not keep which transactions it has seen.")


class EngineRegistry:
    """The databases that this process has engines for, and the reads in progress.

    A forked process begins with none, because connections cannot be shared with the parent.
    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._databases: dict[Settings, Database] = {}
        self._reads_started: dict[Database, list[float]] = {}
        #: The parents' databases: referenced, so that their connections are not closed here.
        self._inherited: list[dict[Settings, Database]] = []
        forks.call_in_child(self, EngineRegistry._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._inherited.append(self._databases)
        self._databases = {}
        self._reads_started = {}

    def __len__(self) -> int:
        return len(self._databases)

    def database(self, settings: Settings, *, of_cell: bool) -> Database:
        """Return the process's database with these settings, without connecting to it.

        :param of_cell: its readers have a deadline and repeat reads themselves. So a cell that
            is down is not waited for, and a cell that is back is noticed at once.
        :raises errors.ConfigurationError: the URL is not valid.
        """
        with self._lock:
            database = self._databases.get(settings)
            if database is None:
                database = self._databases[settings] = Database(
                    settings, _NullChangeRecorder(), retries=1,
                    grace_seconds=None if of_cell else GRACE_SECONDS)
            return database

    def retain(self, connections: Collection[str]) -> None:
        """Close and remove the databases whose URL is not given: their cells were removed."""
        with self._lock:
            obsolete = [settings for settings in self._databases
                        if settings.connection not in connections]
            databases = [self._databases.pop(settings) for settings in obsolete]
        for database in databases:
            database.dispose()

    def dispose(self) -> None:
        """Close all pooled connections and remove all databases."""
        self.retain(())

    def count_late(self, database: Database, seconds: float) -> int:
        """Return how many reads from a database have been unanswered for over ``seconds``."""
        before = time.monotonic() - seconds
        with self._lock:
            return sum(started < before for started in self._reads_started.get(database, ()))

    @contextlib.contextmanager
    def query_under_way(self, database: Database) -> Iterator[None]:
        """Register a read from a database as in progress."""
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


#: The registry of this process; a command disposes of it at its end, a server never does.
SHARED = EngineRegistry()
