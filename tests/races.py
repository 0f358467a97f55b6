"""Running two or more real transactions against each other."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import sqlalchemy as sa

from placement_core.db.database import Database

#: How long a thread may take before a test calls it stuck.
_PATIENCE_SECONDS = 60

#: How many transactions of our database wait for a lock. SQLite cannot say; its
#: writers wait in BEGIN, before they read anything.
_WAITING = {
    "postgresql": "SELECT COUNT(*) FROM pg_stat_activity "
                  "WHERE datname = current_database() AND wait_event_type = 'Lock'",
    "mysql": "SELECT COUNT(*) FROM information_schema.innodb_trx t "
             "JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id "
             "WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()",
}


def run(*functions: Callable[[], Any]) -> list[Any]:
    """Start every function at the same moment, each in a thread of its own.

    :returns: what each returned, or the exception it raised, in order.
    """
    barrier = threading.Barrier(len(functions))
    outcomes: list[Any] = [None] * len(functions)

    def play(position: int, function: Callable[[], Any]) -> None:
        barrier.wait(_PATIENCE_SECONDS)
        try:
            outcomes[position] = function()
        except Exception as error:  # the test looks at what it was
            outcomes[position] = error

    threads = [threading.Thread(target=play, args=item, daemon=True)
               for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_PATIENCE_SECONDS)
        if thread.is_alive():
            raise AssertionError("a racing thread is stuck")
    return outcomes


class Paused:
    """A function that runs in a thread and waits in the middle of its transaction.

    ``with Paused(function) as paused:`` returns once the function called
    ``paused.here()`` (or ended); leaving the block lets it go on and waits for
    its end. ``outcome`` is what it returned or raised.
    """

    def __init__(self, function: Callable[[Paused], Any]) -> None:
        self.outcome: Any = None
        self._function = function
        self._arrived = threading.Event()
        self._go_on = threading.Event()
        self._thread = threading.Thread(target=self._play, daemon=True)

    def here(self) -> None:
        """Wait until the test lets this thread go on; only the first call waits."""
        if not self._arrived.is_set():
            self._arrived.set()
            self._go_on.wait(_PATIENCE_SECONDS)

    def against(self, database: Database, function: Callable[[], Any]) -> Any:
        """Run ``function`` until it waits for the paused transaction, which then goes on.

        :returns: what the function returned, or the exception it raised.
        """
        def play() -> Any:
            try:
                return function()
            finally:
                ended.set()

        def release() -> None:
            try:
                _until_somebody_waits(database, ended)
            finally:
                self._go_on.set()

        ended = threading.Event()
        outcome, trouble = run(play, release)
        if trouble is not None:
            raise trouble
        self._join()
        return outcome

    def _play(self) -> None:
        try:
            self.outcome = self._function(self)
        except Exception as error:  # the test looks at what it was
            self.outcome = error
        finally:
            self._arrived.set()

    def _join(self) -> None:
        self._go_on.set()
        self._thread.join(_PATIENCE_SECONDS)
        if self._thread.is_alive():
            raise AssertionError("a paused thread is stuck")

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._arrived.wait(_PATIENCE_SECONDS):
            raise AssertionError("a thread did not come to its pause")
        return self

    def __exit__(self, *_exception: object) -> None:
        self._join()


class Interruption:
    """Runs a function before one of the statements that this thread sends through an engine.

    A test that counts ``number`` up until ``happened`` is False has tried all places.

    :ivar happened: whether there were as many statements.
    """

    def __init__(self, engine: sa.Engine, number: int, function: Callable[[], Any]) -> None:
        self.happened = False
        self._engine = engine
        self._left = number
        self._function = function
        self._thread = threading.get_ident()

    def _notice(self, *_anything: object) -> None:
        if self.happened or threading.get_ident() != self._thread:
            return
        self._left -= 1
        if not self._left:
            self.happened = True  # what the function itself sends does not count
            self._function()

    def __enter__(self) -> Self:
        sa.event.listen(self._engine, "before_cursor_execute", self._notice)
        return self

    def __exit__(self, *_exception: object) -> None:
        sa.event.remove(self._engine, "before_cursor_execute", self._notice)


def _until_somebody_waits(database: Database, ended: threading.Event) -> None:
    """Return when a transaction waits for a lock, or ``ended`` is set."""
    if database.dialect not in _WAITING:
        return
    deadline = time.monotonic() + _PATIENCE_SECONDS / 3
    with database.autocommit.connect() as connection:
        while not ended.is_set() and not connection.scalar(sa.text(_WAITING[database.dialect])):
            if time.monotonic() > deadline:
                raise AssertionError("nobody came to wait for the paused transaction")
            # InnoDB does not look again for who asks within a tenth of a second after anybody
            # asked, and other tests ask, too.
            time.sleep(random.uniform(0.15, 0.6))
