"""What checks work with: a database opened as the service opens it, and tables of their own."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import os
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import sqlalchemy as sa

from placement_core import db
from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db import Session
from placement_core.db.database import Database, Settings, resolve_url
from placement_core.engine_checks import tables
from placement_core.engine_checks.results import Broken

T = TypeVar("T")

#: How long a check waits for a lock before it takes the other for stuck.
PATIENCE_SECONDS = 5
#: How long it is watched what is to wait for somebody, and what is to wait for nobody. The first
#: begins when the statement must have been sent.
_PAUSE_SECONDS = 0.2
_DONE_SECONDS = 3.0
#: The bounds where a check is about a bound.
_SHORT_SECONDS = 1


class Trial:
    """One run of the checks.

    :ivar database: the database under check, opened as the service opens it.
    :ivar tables: the tables of the run.
    :ivar pause_seconds: how long it is watched what is to wait for somebody.
    """

    def __init__(self, settings: Settings) -> None:
        self._suffix = secrets.token_hex(3)
        self._settings = dataclasses.replace(
            settings, lock_timeout_seconds=PATIENCE_SECONDS, retry_timeout_seconds=0)
        self._file: str | None = None
        url = resolve_url(settings)
        if url.get_backend_name() == "sqlite":
            # Beside the service's file, which others may be writing to.
            path = (url.database or "").removeprefix("file:").partition("?")[0]
            self._file = f"{path}-{tables.PREFIX}-{self._suffix}"
            self._settings = dataclasses.replace(
                self._settings, sqlite_create=True,
                connection=f"sqlite:///{self._file}", connection_parameters="")
        self.tables = tables.build(self._suffix)
        self.database = self._open(self._settings)
        self.pause_seconds = _PAUSE_SECONDS

    @staticmethod
    def _open(settings: Settings) -> Database:
        # Nobody looks after it, and nothing is repeated: a check is to see each error.
        return Database(settings, Journal(), retries=0, grace_seconds=None)

    @property
    def dialect(self) -> str:
        """Return sqlite, postgresql or mysql."""
        return self.database.dialect

    @property
    def fence_name(self) -> str:
        """Return what the triggers of the run are called, and PostgreSQL's function."""
        # MySQL makes longer names of it, of which it takes 64 characters.
        return (f"{tables.PREFIX}_{self._suffix}_fence" if self.dialect == "postgresql"
                else "placement_core")

    def create(self) -> None:
        """Create the tables, and find out how slow the link is."""
        with self.database.writer.connect() as connection, connection.begin():
            self.tables.metadata.create_all(connection)
        self.pause_seconds = _PAUSE_SECONDS + 2 * self._measure_transaction()

    def _measure_transaction(self) -> float:
        """Return how many seconds an UPDATE takes, with a login and the other statements."""
        database = self._open(self._settings)
        began = time.monotonic()
        try:
            with db.write(Context(database)) as session:
                self.add(session, 0)
            return time.monotonic() - began
        finally:
            database.dispose()

    def clear(self) -> None:
        """Delete the rows that a check left."""
        with db.write(self.context()) as session:
            for table in reversed(self.tables.metadata.sorted_tables):
                session.execute(sa.delete(table))

    def remove(self) -> None:
        """Drop all that the run made, and disconnect."""
        try:
            with self.database.writer.connect() as connection, connection.begin():
                self.tables.ddl.drop(connection, checkfirst=True)
                self.tables.metadata.drop_all(connection)
                if self.dialect == "postgresql":
                    connection.exec_driver_sql(f"DROP FUNCTION IF EXISTS {self.fence_name}()")
        finally:
            self.database.dispose()
            if self._file is not None:
                for suffix in ("", "-wal", "-shm", "-journal"):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(f"{self._file}{suffix}")

    def context(self) -> Context:
        """Return a context of its own: transactions in it have a connection of their own."""
        return Context(self.database)

    @contextlib.contextmanager
    def impatient(self) -> Iterator[Context]:
        """Open the database once more, with bounds of a second; lend a context on it."""
        database = self._open(dataclasses.replace(
            self._settings, lock_timeout_seconds=_SHORT_SECONDS,
            statement_timeout_seconds=_SHORT_SECONDS,
            idle_in_transaction_timeout_seconds=_SHORT_SECONDS))
        try:
            yield Context(database)
        finally:
            database.dispose()

    @contextlib.contextmanager
    def stranger(self) -> Iterator[sa.Connection]:
        """Connect as another program would, without the service's marks and settings."""
        engine = sa.create_engine(
            self.database.url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            yield connection

    # What most checks do with rows.

    def insert(self, name: str, amount: int = 0) -> int:
        """Insert a row and commit; return its id."""
        with db.write(self.context()) as session:
            return insert_row(session, self.tables, name, amount)

    def add(self, session: Session, row_id: int) -> int:
        """Add 1 to the amount of a row, which locks it; return how many rows that met."""
        return session.execute_write(_build_add(self.tables.rows), {"of_id": row_id})

    def add_and_commit(self, row_id: int) -> int:
        """Do the same in a transaction of its own."""
        with db.write(self.context()) as session:
            return self.add(session, row_id)

    def read_amount(self, row_id: int) -> int | None:
        """Return the amount of a row as committed; None: there is no row."""
        with db.read_once(self.context()) as session:
            return read_amount(session, self.tables, row_id)


def _build_add(rows: sa.Table) -> sa.Update:
    return (sa.update(rows).where(rows.c.id == sa.bindparam("of_id"))
            .values(amount=rows.c.amount + 1))


def insert_row(session: Session, made: tables.Tables, name: str, amount: int = 0) -> int:
    """Insert a row in a transaction; return its id."""
    key = session.execute(
        sa.insert(made.rows), {"name": name, "amount": amount}).inserted_primary_key
    assert key is not None
    row_id: int = key[0]
    return row_id


def read_amount(session: Session, made: tables.Tables, row_id: int) -> int | None:
    """Return the amount of a row that a transaction sees; None: it sees none."""
    return session.execute(
        sa.select(made.rows.c.amount).where(made.rows.c.id == row_id)).scalar()


def beside() -> ThreadPoolExecutor:
    """Return what runs functions in other threads, while it is entered."""
    return ThreadPoolExecutor(max_workers=2)


class Undo(Exception):
    """Rolls a transaction of a check back."""


def hold_up(
    trial: Trial, hold: Callable[[Session], Any], wait: Callable[[], T], what: str, *,
    commit: bool = True,
) -> T:
    """Let one transaction wait for the end of another.

    :param hold: is called with a session, whose transaction stays open until ``wait`` was seen
        to wait for it.
    :param wait: has a transaction of its own.
    :param what: what is to wait.
    :param commit: whether the first transaction is committed, or rolled back.
    :returns: what ``wait`` returned when it could go on.
    :raises Broken: it did not wait.
    """
    waiting: list[Future[T]] = []
    with beside() as other:
        with contextlib.suppress(Undo), db.write(trial.context()) as session:
            hold(session)
            waiting.append(other.submit(wait))
            require_waiting(trial, waiting[0], what)
            if not commit:
                raise Undo
        return waiting[0].result()


def require_waiting(trial: Trial, future: Future[Any], what: str) -> None:
    """Check that what runs beside waits for somebody.

    :param what: who is to wait.
    :raises Broken: it does not.
    """
    if not _is_waiting(future, trial.pause_seconds):
        raise Broken(f"{what} waits", _describe_end(future))


def require_done(future: Future[Any], what: str) -> Any:
    """Check that what runs beside comes to an end without waiting; return its result.

    :raises Broken: it waits.
    """
    if _is_waiting(future, _DONE_SECONDS):
        raise Broken(f"{what} waits for nobody", "it waits")
    return future.result()


def _is_waiting(future: Future[Any], seconds: float) -> bool:
    """Say whether what runs beside has not come to an end after some seconds."""
    return not concurrent.futures.wait([future], timeout=seconds).done


def _describe_end(future: Future[Any]) -> str:
    error = future.exception()
    return f"it went on with {future.result()!r}" if error is None else f"it failed: {error}"
