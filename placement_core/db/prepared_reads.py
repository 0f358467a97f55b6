"""Prepared reads: small ones that every request needs, straight from the driver.

Executing a statement through SQLAlchemy takes several times the processor time of
the driver that sends it. A search, or an answer that has not changed, consists of
little else. Where a connection turns out to be dead, the read is repeated on another
connection; other errors mean what ``failures`` says.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import tracing
from placement_core.db.compiled import CompiledRead, Read
from placement_core.db.failures import ConnectionLost, translate
from placement_core.db.session import Session
from placement_core.db.transactions import TransactionContext, read_once, retry_writes

#: What fails later than this was no connection that had died while it was idle.
_QUICKLY_SECONDS = 1.0

#: Makes rows of what a driver returned.
_Rows = Callable[[Sequence[Any]], list[Any]]


class PreparedRead:
    """A statement that reads, and is executed all the time.

    It takes numbers, texts, times and lists of them (``lists``), and returns numbers, texts and
    times. One statement sees one snapshot by itself: no transaction is begun, but an open one
    is joined.
    """

    __slots__ = ("_compiled", "_statement")

    def __init__(self, statement: Read) -> None:
        self._statement = statement
        #: For each dialect the compiled statement, and how rows are made.
        self._compiled: dict[str, tuple[CompiledRead, _Rows]] = {}

    def fetch(
        self, ctx: TransactionContext, parameters: Mapping[str, Any] | None = None
    ) -> Sequence[Any]:
        """Return the rows, as named tuples.

        :raises errors.Unavailable: the database does not answer; and what else
            ``failures`` makes of errors.
        """
        if ctx.session is not None:
            return self.fetch_in(ctx.session, parameters)
        with tracing.database_span("read", ctx.database.dialect):
            return self._fetch_alone(ctx, parameters or {})

    def _fetch_alone(
        self, ctx: TransactionContext, parameters: Mapping[str, Any]
    ) -> Sequence[Any]:
        database = ctx.database
        dialect = database.autocommit.dialect
        read, rows = self._compile(dialect)
        compiled = read.for_parameters(parameters)
        database.availability.require()
        began = time.monotonic()
        try:
            connection = database.read_connections.check_out()
            try:
                compiled.execute(connection.cursor, parameters)
                fetched = rows(connection.cursor.fetchall())
            except BaseException:
                database.read_connections.discard(connection)
                raise
        except Exception as error:
            meaning = translate(error)
            if isinstance(meaning, ConnectionLost):
                # Most likely those of the others, too.
                database.read_connections.close()
            elif meaning is not error:
                raise meaning from error
            elif not isinstance(error, dialect.loaded_dbapi.Error):
                raise
            if time.monotonic() - began > _QUICKLY_SECONDS:
                raise meaning from error
            return _fetch_again(ctx, self._statement, parameters)
        database.read_connections.check_in(connection)
        return fetched

    def fetch_in(
        self, session: Session, parameters: Mapping[str, Any] | None = None
    ) -> Sequence[Any]:
        """Return the rows, as named tuples, in an open transaction."""
        if session.is_listened_to:
            return session.execute(self._statement, parameters).all()
        read, rows = self._compile(session.compiled.dialect)
        return rows(session.fetch(read, parameters or {}))

    def fetch_later(
        self, session: Session, parameters: Mapping[str, Any]
    ) -> Callable[[], Sequence[Any]]:
        """Read in an open transaction, together with its next statement (``Session``).

        :returns: what returns the rows, as named tuples.
        """
        if session.is_listened_to:
            fetched = session.execute(self._statement, parameters).all()
            return lambda: fetched
        read, rows = self._compile(session.compiled.dialect)
        get = session.fetch_later(read, parameters)
        return lambda: rows(get())

    def fetch_behind(
        self, session: Session, parameters: Mapping[str, Any]
    ) -> Callable[[], Sequence[Any] | None]:
        """Read in an open transaction, together with its next statement, behind it (``Session``).

        :returns: what returns the rows, as named tuples; None: it was not read.
        """
        if session.is_listened_to:
            return lambda: None
        read, rows = self._compile(session.compiled.dialect)
        get = session.fetch_behind(read, parameters)
        return lambda: None if (fetched := get()) is None else rows(fetched)

    def _compile(self, dialect: sa.Dialect) -> tuple[CompiledRead, _Rows]:
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = (
                CompiledRead(self._statement, dialect), _rows(self._statement, dialect))
        return compiled


@retry_writes
def _fetch_again(
    ctx: TransactionContext, statement: Read, parameters: Mapping[str, Any]
) -> Sequence[Any]:
    with read_once(ctx) as session:
        return session.execute(statement, parameters).all()


def _rows(statement: Read, dialect: sa.Dialect) -> _Rows:
    """Return what names the columns, and converts times where a driver does not (SQLite)."""
    names = [column.key or "" for column in statement.selected_columns]
    named: Any = collections.namedtuple  # mypy wants to read the names here.
    make = named("Row", names, rename=True)._make
    converters = [
        column.type.dialect_impl(dialect).result_processor(dialect, None)
        if isinstance(column.type, sa.DateTime) else None
        for column in statement.selected_columns]
    if not any(converters):
        return lambda fetched: [make(row) for row in fetched]
    return lambda fetched: [
        make([value if convert is None else convert(value)
              for convert, value in zip(converters, row, strict=True)])
        for row in fetched]
