"""``read``, ``write`` and ``retry_writes``: how a domain function works.

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
from typing import Any, Concatenate, ParamSpec, TypeVar

from oslo_db import exception as db_exception

from placement_core import errors
from placement_core.context import Context
from placement_core.db.session import Session

LOG = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

#: Pause before the second attempt; doubled for each further one, at random.
_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.25


class TransactionLost(Exception):
    """The transaction certainly did not happen; it may be tried again."""


#: What the database says when a transaction lost a race or its connection and
#: certainly left nothing behind (a doubtful COMMIT never surfaces as these).
_RETRIABLE = (
    TransactionLost,
    db_exception.DBDeadlock,
    db_exception.DBConnectionError,
)


@contextlib.contextmanager
def read(ctx: Context) -> Iterator[Session]:
    """Open a transaction that sees one snapshot, or join the open one."""
    if ctx.session is not None:
        yield ctx.session
        return
    with ctx.database.snapshot.connect() as connection, connection.begin():
        ctx.session = Session(connection, writing=False)
        try:
            yield ctx.session
        finally:
            ctx.session = None


@contextlib.contextmanager
def write(ctx: Context) -> Iterator[Session]:
    """Open a transaction that may write, or join the open one.

    The outermost one appends what was touched to the change log and commits.

    :raises errors.Unavailable: the answer to COMMIT was lost and the database
        cannot say whether it happened.
    :raises TransactionLost: the answer to COMMIT was lost and it did not.
    """
    if ctx.session is not None:
        if not ctx.session.writing:
            raise RuntimeError("a write was asked for inside a read")
        yield ctx.session
        return
    database = ctx.database
    with database.writer.connect() as connection:
        transaction = connection.begin()
        session = ctx.session = Session(connection, writing=True)
        try:
            yield session
            if session.touched:
                database.journal.append(session)
        except BaseException:
            transaction.rollback()
            raise
        finally:
            ctx.session = None
        try:
            transaction.commit()
        except db_exception.DBConnectionError as error:
            _settle(database, session, error)
        database.journal.committed(database, session)


def _settle(database: Any, session: Session, error: Exception) -> None:
    """Find out what became of a COMMIT whose answer was lost."""
    if not session.touched:
        # Nothing that anybody could look up, and nothing that a repetition
        # would do twice: transactions that touch nothing only get-or-create.
        raise TransactionLost from error
    LOG.warning("the answer to a COMMIT was lost; looking for transaction %x", session.txn)
    try:
        landed = database.journal.landed(database, session)
    except db_exception.DBError as lookup_error:
        raise errors.Unavailable(
            "The database stopped answering while the change was being committed; "
            "whether it was made is not known yet."
        ) from lookup_error
    if not landed:
        raise TransactionLost from error


def retry_writes(
    function: Callable[Concatenate[Context, P], T],
) -> Callable[Concatenate[Context, P], T]:
    """Repeat the whole transaction of ``function`` when it lost a race.

    Only the outermost transaction is repeated: inside another one the
    decorated function runs once and its error travels outwards. Arguments
    must therefore survive being used twice (no iterators).

    :raises errors.Unavailable: the database went away and stayed away.
    """

    @functools.wraps(function)
    def attempt_until_done(ctx: Context, *args: P.args, **kwargs: P.kwargs) -> T:
        if ctx.session is not None:
            return function(ctx, *args, **kwargs)
        pause = _FIRST_PAUSE_SECONDS
        for attempts_left in range(ctx.database.retries, -1, -1):
            try:
                return function(ctx, *args, **kwargs)
            except _RETRIABLE as error:
                if not attempts_left:
                    raise errors.Unavailable(
                        "The database could not complete the change; please try again."
                    ) from error
                LOG.debug("transaction is repeated: %s", error)
                time.sleep(random.uniform(pause / 2, pause))  # noqa: S311
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        raise AssertionError("unreachable")

    return attempt_until_done
