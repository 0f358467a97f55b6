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
from typing import Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import errors
from placement_core.context import Context
from placement_core.db.database import Database
from placement_core.db.failures import TransactionLost, judged, verdict
from placement_core.db.session import OneStatement, Session

LOG = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

#: Pause before the second attempt; doubled for each further one, at random.
_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.25


#: How long a lost COMMIT is looked for while the database does not answer.
_LOOK_UP_PAUSES_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0)


@contextlib.contextmanager
def read(ctx: Context) -> Iterator[Session]:
    """Open a transaction that sees one snapshot, or join the open one."""
    if ctx.session is not None:
        yield ctx.session
        return
    with (judged(), ctx.database.snapshot.connect() as connection,
          _undone_on_error(connection), connection.begin()):
        ctx.session = Session(connection, writing=False)
        try:
            yield ctx.session
        finally:
            ctx.session = None


@contextlib.contextmanager
def read_once(ctx: Context) -> Iterator[Session]:
    """Open a session for one statement, or join the open transaction.

    One statement sees one snapshot by itself: there is no BEGIN and no COMMIT
    to wait for.
    """
    if ctx.session is not None:
        yield ctx.session
        return
    with judged(), ctx.database.autocommit.connect() as connection:
        yield OneStatement(connection)


@contextlib.contextmanager
def read_each(ctx: Context) -> Iterator[Session]:
    """Open a session in which each statement sees a moment of its own.

    Never the caller's transaction. For readers that can live with later rows beside
    earlier ones.
    """
    with judged(), ctx.database.autocommit.connect() as connection:
        yield Session(connection, writing=False)


@contextlib.contextmanager
def write(ctx: Context) -> Iterator[Session]:
    """Open a transaction that may write, or join the open one.

    The outermost one appends what was touched to the change log and commits.

    :raises errors.Unavailable: the answer to COMMIT was lost and the database
        cannot say whether it happened; or it cannot do it now.
    :raises TransactionLost: it did not happen, and may be tried again.
    :raises errors.Invalid: it holds a value that no row can hold.
    """
    if ctx.session is not None:
        if not ctx.session.writing:
            raise RuntimeError("a write was asked for inside a read")
        yield ctx.session
        return
    database = ctx.database
    with judged(), database.writer.connect() as connection:
        with _undone_on_error(connection):
            transaction = connection.begin()
            session = ctx.session = Session(connection, writing=True)
            try:
                yield session
                if session.touched:
                    database.journal.append(session)
            finally:
                ctx.session = None
        failure = _commit(connection, transaction)
    if failure is not None:
        # With the connection closed, so that a transaction that still is open
        # ends and does not make the look-up wait.
        _settle(database, session, failure)
    _housekeeping(database, session)


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


def _commit(connection: sa.Connection, transaction: sa.RootTransaction) -> Exception | None:
    """Commit; return the error if it is not certain what became of it."""
    try:
        transaction.commit()
    except Exception as error:
        connection.invalidate()
        meaning = verdict(error)
        certainly_not = isinstance(meaning, TransactionLost) and not isinstance(
            error, db_exception.DBConnectionError)
        if certainly_not:
            raise
        return error
    return None


def _settle(database: Database, session: Session, error: Exception) -> None:
    """Find out what became of a COMMIT whose answer was lost."""
    if not session.touched:
        # Nothing that anybody could look up, and nothing that a repetition
        # would do twice: transactions that touch nothing only get-or-create.
        raise TransactionLost from error
    LOG.warning("the answer to a COMMIT was lost; looking for transaction %x", session.txn)
    for pause in (*_LOOK_UP_PAUSES_SECONDS, None):
        try:
            with judged():
                landed = database.journal.landed(database, session)
        except TransactionLost:
            if pause is None:
                break
            time.sleep(pause)
        except errors.Unavailable:
            break
        else:
            if landed:
                return
            meaning = verdict(error)
            raise meaning if isinstance(meaning, errors.Error) else error
    raise errors.Unavailable(
        "The database stopped answering while the change was being committed; "
        "whether it was made is not known yet."
    ) from error


def _housekeeping(database: Database, session: Session) -> None:
    """Let the journal tidy up; what was committed does not depend on it."""
    try:
        database.journal.committed(database, session)
    except Exception:
        LOG.warning("the change log could not be pruned", exc_info=True)


def retry_writes(
    function: Callable[Concatenate[Context, P], T],
) -> Callable[Concatenate[Context, P], T]:
    """Repeat the whole transaction of ``function`` when it lost a race.

    Only the outermost transaction is repeated: inside another one the
    decorated function runs once and its error travels outwards. Arguments
    must therefore survive being used twice (no iterators). Functions that only
    read take it too: their connection may be gone.

    :raises errors.Unavailable: the database went away and stayed away.
    """

    @functools.wraps(function)
    def attempt_until_done(ctx: Context, *args: P.args, **kwargs: P.kwargs) -> T:
        if ctx.session is not None:
            return function(ctx, *args, **kwargs)
        pause = _FIRST_PAUSE_SECONDS
        for attempts_left in range(ctx.database.retries, -1, -1):
            try:
                with judged():
                    return function(ctx, *args, **kwargs)
            except TransactionLost as error:
                if not attempts_left:
                    raise
                LOG.debug("transaction is repeated: %s", error)
                time.sleep(random.uniform(pause / 2, pause))  # noqa: S311
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        raise AssertionError("unreachable")

    return attempt_until_done
