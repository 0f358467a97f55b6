"""An open transaction, as the domain functions see it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from placement_core.db.compiled import (
    CompiledRead,
    CompiledStatement,
    CompiledStatements,
    Parameters,
    Write,
)

#: A transaction's name: random, and small enough that 256 of them can be
#: summed in a signed 64-bit integer (``changes`` sums them).
_TXN_BITS = 48

T = TypeVar("T")


class Session:
    """A transaction on one connection.

    :param compiled: the statements that write, as the driver of this database takes them.
    :ivar connection: the SQLAlchemy connection, for what ``execute`` lacks.
    :ivar writing: whether the transaction may write.
    :ivar txn: a random integer that names the transaction in the change log.
    :ivar recorded_changes: what the change log will say, {(kind, id), …}.
    :ivar limits_serial: that of the limits by which the transaction was decided, which must
        still be in force when it commits; None: it does not depend on limits.
    :ivar changes_limits: whether transactions that depend on limits must not commit after it.
    """

    __slots__ = ("_compiled", "changes_limits", "connection", "dialect", "limits_serial",
                 "recorded_changes", "txn", "writing")

    def __init__(
        self, connection: sa.Connection, compiled: CompiledStatements, *, writing: bool
    ) -> None:
        self.connection = connection
        self._compiled = compiled
        self.dialect = connection.dialect.name
        self.writing = writing
        self.txn = secrets.randbits(_TXN_BITS)
        self.recorded_changes: set[tuple[str, int]] = set()
        self.limits_serial: int | None = None
        self.changes_limits = False

    def execute(
        self, statement: sa.Executable, parameters: Parameters | None = None
    ) -> sa.CursorResult[Any]:
        """Execute a statement; parameters as SQLAlchemy takes them."""
        return self.connection.execute(statement, parameters)

    def execute_write(self, statement: Write, parameters: Parameters) -> int:
        """Execute a statement that writes; return how many rows it met.

        Straight from the driver, where it can be: SQLAlchemy takes as long as the driver
        does. Its errors are those of ``execute``.
        """
        compiled = self._compile(statement, parameters)
        if compiled is None:
            return self.connection.execute(statement, parameters).rowcount
        return self._send(compiled, parameters, _count)

    def fetch_written(self, statement: Write, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Execute a statement that writes and returns something; return its rows.

        Straight from the driver as ``execute_write``; numbers and texts only.
        """
        compiled = self._compile(statement, parameters)
        if compiled is None:
            return self.connection.execute(statement, parameters).all()
        return self._send(compiled, parameters, _fetch_all)

    def _compile(self, statement: Write, parameters: Parameters) -> CompiledStatement | None:
        """Return the statement for the driver; None: SQLAlchemy is to execute it."""
        if self.is_listened_to:
            return None
        first = parameters if isinstance(parameters, Mapping) else parameters[0]
        return self._compiled.get(statement, first)

    def fetch(self, compiled: CompiledRead, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Return the rows of a prepared read, as the driver returns them.

        Its errors are those of ``execute``.
        """
        return self._send(compiled.for_parameters(parameters), parameters, _fetch_all)

    @property
    def is_listened_to(self) -> bool:
        """Whether somebody listens to what is executed, who hears SQLAlchemy only."""
        return bool(self.connection.engine.dispatch.before_cursor_execute)

    def _send(
        self, compiled: CompiledStatement, parameters: Parameters, result: Callable[[Any], T]
    ) -> T:
        try:
            cursor = self.connection.connection.cursor()
            compiled.execute(cursor, parameters)
            returned = result(cursor)
            cursor.close()
        except BaseException as error:  # noqa: BLE001  (it is raised again, translated)
            compiled.raise_as_executed(self.connection, error)
        return returned

    def record_change(self, kind: str, ref: int) -> None:
        """Note that ``ref`` of ``kind`` changed, for the change log.

        :param kind: one of the kinds that ``changes`` names.
        :param ref: the database key of the row that readers must load again.
        """
        self.recorded_changes.add((kind, ref))


def _count(cursor: Any) -> int:
    rows: int = cursor.rowcount
    return rows


def _fetch_all(cursor: Any) -> Sequence[Any]:
    rows: Sequence[Any] = cursor.fetchall()
    return rows


class OneStatement(Session):
    """A connection outside of any transaction, for one statement that reads."""

    __slots__ = ("_used",)

    def __init__(self, connection: sa.Connection, compiled: CompiledStatements) -> None:
        super().__init__(connection, compiled, writing=False)
        self._used = False

    def execute(
        self, statement: sa.Executable, parameters: Parameters | None = None
    ) -> sa.CursorResult[Any]:
        """Execute the statement.

        :raises RuntimeError: there was one already, so that the two would not
            see the same moment.
        """
        if self._used:
            raise RuntimeError("a second statement was asked for without a transaction")
        self._used = True
        return super().execute(statement, parameters)
