"""The engines of other databases than the service's own, shared by the whole process.

Whoever asks for the same database with the same settings gets the same pools,
however many ``CellDatabases`` a process has. A fork starts with none.
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


class _NoJournal:
    """The change log of a database that has none: no change may be recorded there."""

    def slot(self) -> int:
        """Return a number, as every thread has one."""
        return 0

    def append(self, session: Session) -> None:
        """Refuse: who records something here mistakes the database for ours."""
        raise RuntimeError("a database without a change log cannot say what was touched")

    def notice_commit(self, database: Database, session: Session) -> None:
        """Have nothing to tidy up."""

    def was_committed(self, database: Database, session: Session) -> bool:
        """Know nothing about any transaction."""
        raise errors.Unavailable("This database does not keep which transactions it has seen.")


class _Engines:
    """The databases that one process has engines for, and the reads that are under way."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made: dict[Settings, Database] = {}
        self.reading_since: dict[Database, list[float]] = {}


#: The last one is this process's; those of the processes that it was forked from stay
#: referenced, because closing their connections is not for us.
_processes = [_Engines()]
os.register_at_fork(after_in_child=lambda: _processes.append(_Engines()))


def database(settings: Settings, *, of_cell: bool) -> Database:
    """Return the process's database of these settings; nothing is connected to.

    :param of_cell: who reads has a deadline and repeats a read by itself. So a cell that
        is gone is not waited for, and one that is back is noticed at once.
    :raises errors.ConfigurationError: the URL makes no sense.
    """
    engines = _processes[-1]
    with engines.lock:
        made = engines.made.get(settings)
        if made is None:
            made = engines.made[settings] = Database(
                settings, _NoJournal(), retries=1,
                grace_seconds=None if of_cell else GRACE_SECONDS)
        return made


def retain(connections: Collection[str]) -> None:
    """Close and forget the databases whose URL is none of these: their cells are gone."""
    engines = _processes[-1]
    with engines.lock:
        gone = [settings for settings in engines.made if settings.connection not in connections]
        databases = [engines.made.pop(settings) for settings in gone]
    for each in databases:
        each.dispose()


def dispose() -> None:
    """Close every pooled connection, and forget the databases."""
    engines = _processes[-1]
    with engines.lock:
        made = list(engines.made.values())
        engines.made.clear()
    for each in made:
        each.dispose()


def count_late(database: Database, seconds: float) -> int:
    """Return how many reads from a database have been unanswered for so long."""
    engines = _processes[-1]
    before = time.monotonic() - seconds
    with engines.lock:
        return sum(started < before for started in engines.reading_since.get(database, ()))


@contextlib.contextmanager
def query_under_way(database: Database) -> Iterator[None]:
    """Note that a read from a database is under way."""
    engines = _processes[-1]
    started = time.monotonic()
    with engines.lock:
        engines.reading_since.setdefault(database, []).append(started)
    try:
        yield
    finally:
        with engines.lock:
            engines.reading_since[database].remove(started)
            if not engines.reading_since[database]:
                del engines.reading_since[database]
