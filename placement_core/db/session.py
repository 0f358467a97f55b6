"""An open transaction, as the domain functions see it."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from placement_core.db.compiled import (
    CompiledRead,
    CompiledStatement,
    CompiledStatements,
    Parameters,
    Write,
)

#: A transaction's name begins with the time and ends at random, so that names of the same time
#: are neighbours in an index. It is small enough that 256 of them can be summed in a signed 64-bit
#: integer (``changes`` sums them).
_TXN_MASK = 2**55 - 1
_RANDOM_BITS = 24
#: The time's unit is 4 ms, so its part begins anew after 104 days.
_NANOSECONDS_BITS = 22

T = TypeVar("T")


class RecordedChange(NamedTuple):
    """What the change log will say of one object; what a change does not have is 0 or empty."""

    kind: str
    ref: int = 0
    uuid: str = ""
    name: str = ""
    project: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class _Deferred:
    """A statement that is not sent yet.

    :ivar take: is called with the driver's result once all deferred statements were executed.
    """

    statement: CompiledStatement
    parameters: Parameters
    take: Callable[[Any], None]


class Session:
    """A transaction on one connection.

    Statements whose results nobody needs yet may be deferred (``write_later``). They are sent
    before the next other statement, together with it, so that one round trip serves them all,
    where the driver can do that (psycopg, PyMySQL); elsewhere they are sent at once. The order
    of statements stays, and each sees what the database holds when its turn has come. What uses
    another connection under locks that were deferred calls ``flush`` first.

    :param compiled: the statements that write, as the driver of this database takes them.
    :ivar compiled: the same.
    :ivar writing: whether the transaction may write.
    :ivar commit_sent: whether COMMIT was sent, so that an error need not mean a rollback.
    :ivar caller: the context that opened the transaction, for the audit.
    :ivar attributions: which changes each of several callers made that share the transaction, as
        ``attribute`` got them; none: all of them are the caller's.
    :ivar txn: an integer that names the transaction in the change log.
    :ivar recorded_changes: what the change log will say.
    :ivar implied_changes: those of the recorded changes that follow from others, such as the usage
        of a provider from its consumers; the audit leaves them out.
    :ivar limits_serial: that of the limits by which the transaction was decided, which must
        still be in force when it commits; None: it does not depend on limits.
    :ivar forget_limits: is called if they are not.
    :ivar changes_limits: whether transactions that depend on limits must not commit after it.
    :ivar slowest_write_seconds: how long the slowest round trip took that wrote something, which
        is short unless it waited for a lock.
    """

    __slots__ = ("_behind", "_connection", "_deferred", "attributions", "caller", "changes_limits",
                 "commit_sent", "compiled", "dialect", "forget_limits", "implied_changes",
                 "limits_serial", "recorded_changes", "slowest_write_seconds", "txn", "writing")

    def __init__(
        self, connection: sa.Connection, compiled: CompiledStatements, *, writing: bool
    ) -> None:
        self._connection = connection
        self._deferred: list[_Deferred] = []
        self._behind: list[_Deferred] = []
        self.compiled = compiled
        self.dialect = connection.dialect.name
        self.writing = writing
        self.commit_sent = False
        self.caller: Any = None
        self.attributions: list[tuple[Any, Collection[RecordedChange]]] = []
        self.txn = make_txn(time.time_ns())
        self.recorded_changes: set[RecordedChange] = set()
        self.implied_changes: Collection[RecordedChange] = ()
        self.limits_serial: int | None = None
        self.forget_limits: Callable[[], None] | None = None
        self.changes_limits = False
        self.slowest_write_seconds = 0.0

    @property
    def connection(self) -> sa.Connection:
        """Return the SQLAlchemy connection, for what ``execute`` lacks, with nothing deferred."""
        self.flush()
        self._behind = []
        return self._connection

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
        return self._send_write(compiled, parameters, _count)

    def fetch_written(self, statement: Write, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Execute a statement that writes and returns something; return its rows.

        Straight from the driver as ``execute_write``; numbers and texts only.
        """
        compiled = self._compile(statement, parameters)
        if compiled is None:
            return self.connection.execute(statement, parameters).all()
        return self._send_write(compiled, parameters, _fetch_all)

    def _compile(self, statement: Write, parameters: Parameters) -> CompiledStatement | None:
        """Return the statement for the driver; None: SQLAlchemy is to execute it."""
        if self.is_listened_to:
            return None
        first = parameters if isinstance(parameters, Mapping) else parameters[0]
        return self.compiled.get(statement, first)

    def fetch(self, compiled: CompiledRead, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Return the rows of a prepared read, as the driver returns them.

        Its errors are those of ``execute``.
        """
        return self._send(compiled.for_parameters(parameters), parameters, _fetch_all)

    def write_later(
        self, statement: Write, parameters: Parameters,
        check: Callable[[int], None] | None = None,
    ) -> None:
        """Execute a statement that writes, before any other that is not deferred.

        :param check: is called with how many rows it met, and may raise an error, which whoever
            executes the next statement gets, as those of this one.
        """
        compiled = None
        rows = 1 if isinstance(parameters, Mapping) else len(parameters)
        if rows <= self.compiled.rows_together:
            compiled = self._compile(statement, parameters)
        if compiled is None:
            met = self.execute_write(statement, parameters)
            if check is not None:
                check(met)
            return
        self._deferred.append(_Deferred(
            compiled, parameters,
            lambda cursor: None if check is None else check(_count(cursor))))

    def fetch_later(
        self, compiled: CompiledRead, parameters: Mapping[str, Any]
    ) -> Callable[[], Sequence[Any]]:
        """Execute a prepared read, before any statement that is not deferred.

        :returns: what returns its rows, as ``fetch``.
        """
        if not self.compiled.rows_together:
            rows = self.fetch(compiled, parameters)
            return lambda: rows
        fetched: list[Sequence[Any]] = []
        self._deferred.append(_Deferred(
            compiled.for_parameters(parameters), parameters,
            lambda cursor: fetched.append(_fetch_all(cursor))))

        def get() -> Sequence[Any]:
            if not fetched:
                self.flush()
            return fetched[0]

        return get

    def fetch_behind(
        self, compiled: CompiledRead, parameters: Mapping[str, Any]
    ) -> Callable[[], Sequence[Any] | None]:
        """Execute a prepared read right behind the next statement that is not deferred, with it.

        :returns: what returns its rows, as ``fetch``; None: it was not executed, because the
            driver cannot send the two together, or that statement failed.
        """
        if not self.compiled.rows_together:
            return lambda: None
        fetched: list[Sequence[Any]] = []
        self._behind.append(_Deferred(
            compiled.for_parameters(parameters), parameters,
            lambda cursor: fetched.append(_fetch_all(cursor))))
        return lambda: fetched[0] if fetched else None

    def flush(self) -> None:
        """Execute what is deferred.

        :raises Exception: that of the first statement that fails or whose check does; none of
            the transaction must be committed then.
        """
        deferred, self._deferred = self._deferred, []
        if not deferred:
            return
        results: list[Any] = []
        error: BaseException | None = None
        started = time.perf_counter()
        try:
            connection: Any = self._connection.connection.driver_connection
            connection.send_together([
                (each.statement.text, each.statement.bind_each(each.parameters))
                for each in deferred], results)
        except BaseException as raised:  # noqa: BLE001  (it is raised again, translated)
            error = raised
        self._note_write(started)
        # Those before the one that failed come first: it may have failed because of them.
        for each, result in zip(deferred, results, strict=False):
            each.take(result)
            result.close()
        if error is not None:
            failed = deferred[min(len(results), len(deferred) - 1)]
            failed.statement.raise_as_executed(self._connection, error)

    def discard_deferred(self) -> None:
        """Forget what is deferred, because it is to be undone."""
        self._deferred, self._behind = [], []

    @property
    def is_listened_to(self) -> bool:
        """Whether somebody listens to what is executed, who hears SQLAlchemy only."""
        return bool(self._connection.engine.dispatch.before_cursor_execute)

    def _send_write(
        self, compiled: CompiledStatement, parameters: Parameters, result: Callable[[Any], T]
    ) -> T:
        started = time.perf_counter()
        try:
            return self._send(compiled, parameters, result)
        finally:
            self._note_write(started)

    def _note_write(self, started: float) -> None:
        seconds = time.perf_counter() - started
        if seconds > self.slowest_write_seconds:
            self.slowest_write_seconds = seconds

    def _send(
        self, compiled: CompiledStatement, parameters: Parameters, result: Callable[[Any], T]
    ) -> T:
        if self._deferred or self._behind:
            returned: list[T] = []
            self._deferred.append(_Deferred(
                compiled, parameters, lambda cursor: returned.append(result(cursor))))
            self._deferred += self._behind
            self._behind = []
            self.flush()
            return returned[0]
        try:
            cursor = self._connection.connection.cursor()
            compiled.execute(cursor, parameters)
            taken = result(cursor)
            cursor.close()
        except BaseException as error:  # noqa: BLE001  (it is raised again, translated)
            compiled.raise_as_executed(self._connection, error)
        return taken

    def record_change(
        self, kind: str, ref: int = 0, *, uuid: str = "", name: str = "", project: str = "",
    ) -> None:
        """Note that an object of ``kind`` changed, for the change log.

        :param kind: one of the kinds that ``changes`` names; it says how its objects are named.
        :param ref: the database key of the row that readers must load again.
        :param uuid: with ``name``, of what is known by its uuid, or has no row any more.
        :param project: the project that owns it, or owned it before.
        """
        self.recorded_changes.add(RecordedChange(kind, ref, uuid, name, project))

    def attribute(self, caller: object, changes: Collection[RecordedChange]) -> None:
        """Note which of the recorded changes one of several callers made."""
        self.attributions.append((caller, changes))


def make_txn(nanoseconds: int) -> int:
    """Return a name for a transaction that begins at a time."""
    moment = nanoseconds >> _NANOSECONDS_BITS
    return (moment << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)) & _TXN_MASK


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
