"""``read`` and its kin, ``write`` and ``retry_writes``: how a domain function works.

One request is one transaction. A public domain function opens it; functions
it calls join it. Nothing commits in the middle, nothing is undone by hand.
Source: design §4.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import random
import time
from collections.abc import Callable, Iterator
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import errors, metrics, tracing
from placement_core.db.availability import Away
from placement_core.db.database import Database
from placement_core.db.failures import (
    ConnectionLost,
    TransactionConflict,
    describe_error,
    translate,
    translated_errors,
)
from placement_core.db.session import OneStatement, Session

LOG = logging.getLogger(__name__)


class TransactionContext(Protocol):
    """What transactions need of the one who asks (``context.Context`` is one).

    :ivar database: the one to work on.
    :ivar session: the open transaction, which inner calls join; None: there is none.
    """

    database: Database
    session: Session | None


C = TypeVar("C", bound=TransactionContext)
P = ParamSpec("P")
T = TypeVar("T")

#: Pause before the second attempt; doubled for each further one, at random.
_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.25


#: How long a lost COMMIT is looked for while the database does not answer; where it answers
#: late, for as long as a transaction is repeated.
_LOOK_UP_PAUSES_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0)
_SHORTEST_LOOK_UP_SECONDS = 1.0


@contextlib.contextmanager
def read(ctx: TransactionContext) -> Iterator[Session]:
    """Open a transaction that sees one snapshot, or join the open one."""
    if ctx.session is not None:
        yield ctx.session
        return
    with (tracing.database_span("read", ctx.database.dialect),
          ctx.database.connection(ctx.database.snapshot) as connection,
          _undone_on_error(connection), connection.begin()):
        ctx.session = Session(connection, ctx.database.compiled, writing=False)
        try:
            yield ctx.session
        finally:
            ctx.session = None


@contextlib.contextmanager
def read_once(ctx: TransactionContext) -> Iterator[Session]:
    """Open a session for one statement, or join the open transaction.

    One statement sees one snapshot by itself: there is no BEGIN and no COMMIT
    to wait for.
    """
    if ctx.session is not None:
        yield ctx.session
        return
    with (tracing.database_span("read", ctx.database.dialect),
          ctx.database.connection(ctx.database.autocommit) as connection):
        yield OneStatement(connection, ctx.database.compiled)


@contextlib.contextmanager
def read_each(ctx: TransactionContext) -> Iterator[Session]:
    """Open a session in which each statement sees a moment of its own.

    Never the caller's transaction. For readers that can live with later rows beside
    earlier ones.
    """
    with (tracing.database_span("read", ctx.database.dialect),
          ctx.database.connection(ctx.database.autocommit) as connection):
        yield Session(connection, ctx.database.compiled, writing=False)


@contextlib.contextmanager
def write(ctx: TransactionContext) -> Iterator[Session]:
    """Open a transaction that may write, or join the open one.

    The outermost one appends what was recorded to the change log and commits.

    :raises errors.Unavailable: the answer to COMMIT was lost and the database
        cannot say whether it happened; or it cannot do it now.
    :raises TransactionConflict: it did not happen, and may be tried again.
    :raises errors.Invalid: it holds a value that no row can hold.
    """
    if ctx.session is not None:
        if not ctx.session.writing:
            raise RuntimeError("a write was asked for inside a read")
        with _flushed(ctx.session):
            yield ctx.session
        return
    database = ctx.database
    with (tracing.database_span("write", database.dialect),
          database.connection(database.writer) as connection):
        with _undone_on_error(connection):
            started = time.perf_counter()
            transaction = connection.begin()
            session = ctx.session = Session(connection, database.compiled, writing=True)
            session.caller = ctx
            # SQLite waits here for whoever writes.
            session.slowest_write_seconds = time.perf_counter() - started
            try:
                yield session
                if session.recorded_changes:
                    database.journal.append(session)
                session.flush()
            finally:
                ctx.session = None
                metrics.observe_lock_wait(session.slowest_write_seconds)
        session.commit_sent = True
        started = time.perf_counter()
        failure = _commit(database, connection, transaction)
        metrics.observe_commit(time.perf_counter() - started)
    if failure is not None:
        # With the connection closed, so that a transaction that still is open
        # ends and does not make the look-up wait.
        _resolve_lost_commit(database, session, failure)
    _prune_change_log(database, session)


@contextlib.contextmanager
def _flushed(session: Session) -> Iterator[None]:
    """Leave nothing deferred behind: who called may handle the errors of its own statements."""
    session.flush()
    try:
        yield
    except BaseException:
        session.discard_deferred()
        raise
    session.flush()


@contextlib.contextmanager
def _undone_on_error(connection: sa.Connection) -> Iterator[None]:
    """Leave no open transaction behind on a connection that goes back to the pool."""
    try:
        yield
    except BaseException:
        transaction = connection.get_transaction()
        try:
            if transaction is not None and transaction.is_active:
                transaction.rollback()
        except Exception:
            LOG.debug("a transaction could not be rolled back", exc_info=True)
            connection.invalidate()
        raise


def _commit(
    database: Database, connection: sa.Connection, transaction: sa.RootTransaction
) -> Exception | None:
    """Commit; return the error if it is not certain what became of it."""
    try:
        with database.bounded(connection, database.settings.statement_timeout_seconds):
            transaction.commit()
    except Exception as error:
        connection.invalidate()
        meaning = translate(error)
        if isinstance(meaning, TransactionConflict) and not isinstance(meaning, ConnectionLost):
            raise
        return error
    return None


def _resolve_lost_commit(database: Database, session: Session, error: Exception) -> None:
    """Find out what became of a COMMIT whose answer was lost."""
    if not session.recorded_changes:
        # Nothing that anybody could look up, and nothing that a repetition
        # would do twice: transactions that record nothing only get-or-create.
        raise ConnectionLost from error
    LOG.warning("a COMMIT was not confirmed (%s); looking for transaction %x",
                describe_error(error), session.txn)
    until = time.monotonic() + max(database.retry_seconds, sum(_LOOK_UP_PAUSES_SECONDS))
    for pause in (*_LOOK_UP_PAUSES_SECONDS, None):
        try:
            with translated_errors():
                committed = database.journal.was_committed(
                    database, session, max(until - time.monotonic(), _SHORTEST_LOOK_UP_SECONDS))
        except (TransactionConflict, Away):
            if pause is None or time.monotonic() + pause > until:
                break
            time.sleep(pause)
        except errors.Unavailable:
            break
        else:
            if committed:
                return
            raise _make_not_committed(error) from error
    raise errors.Unavailable(
        "The database stopped answering while the change was being committed; "
        "whether it was made is not known yet."
    ) from error


def _make_not_committed(error: Exception) -> Exception:
    """Return what it means that a transaction did not happen that ``error`` ended."""
    meaning = translate(error)
    if isinstance(meaning, errors.Error) or isinstance(
            error, (db_exception.DBDuplicateEntry, db_exception.DBReferenceError)):
        return meaning
    return TransactionConflict()


def _prune_change_log(database: Database, session: Session) -> None:
    """Let the journal tidy up; what was committed does not depend on it."""
    try:
        with translated_errors():
            database.journal.notice_commit(database, session)
    except errors.Unavailable as error:
        LOG.warning("the change log could not be pruned: %s", describe_error(error))
    except Exception:
        LOG.warning("the change log could not be pruned", exc_info=True)


def retry_writes(
    function: Callable[Concatenate[C, P], T],
) -> Callable[Concatenate[C, P], T]:
    """Repeat the whole transaction of ``function`` when it lost a race.

    Only the outermost transaction is repeated: inside another one the
    decorated function runs once and its error travels outwards. Arguments
    must therefore survive being used twice (no iterators). Functions that only
    read take it too: their connection may be gone. Decorated functions that call
    each other share one patience.

    :raises errors.Unavailable: the database went away and stayed away.
    """

    @functools.wraps(function)
    def attempt_until_done(ctx: C, *args: P.args, **kwargs: P.kwargs) -> T:
        if ctx.session is not None:
            return function(ctx, *args, **kwargs)
        with _share_patience(ctx.database) as patience:
            while True:
                try:
                    with translated_errors():
                        return function(ctx, *args, **kwargs)
                except TransactionConflict as error:
                    patience.wait(error)

    # Callers hand the context on by position, as ``Concatenate`` wants it.
    return cast("Callable[Concatenate[C, P], T]", attempt_until_done)


class _Patience:
    """How long one request goes on after its transactions were lost.

    Races are bounded in number and in time, lost connections in time alone.
    """

    def __init__(self, database: Database) -> None:
        self._races_left = database.retries
        self._seconds = database.retry_seconds
        self._until: float | None = None
        self._pause = _FIRST_PAUSE_SECONDS

    def wait(self, error: TransactionConflict) -> None:
        """Wait before the next attempt.

        :raises TransactionConflict: ``error``: there is no next attempt.
        """
        now = time.monotonic()
        is_first, is_race = self._until is None, not isinstance(error, ConnectionLost)
        if self._until is None:
            self._until = now + self._seconds
        if is_race:
            self._races_left -= 1
        # Who has no time for lost connections still repeats a race once.
        if self._races_left < 0 or (now >= self._until and not (is_first and is_race)):
            raise error
        metrics.count_retry(error.cause)
        LOG.debug("transaction is repeated: %s", error)
        time.sleep(random.uniform(self._pause / 2, self._pause))  # noqa: S311
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_SECONDS)


@contextlib.contextmanager
def _share_patience(database: Database) -> Iterator[_Patience]:
    """Return the patience of what this thread is doing; the outermost brings it."""
    patience: _Patience | None = getattr(database.patience, "present", None)
    if patience is not None:
        yield patience
        return
    patience = database.patience.present = _Patience(database)
    try:
        yield patience
    finally:
        database.patience.present = None
