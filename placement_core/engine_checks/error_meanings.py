"""What the service makes of the engine's errors."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db, errors
from placement_core.context import Context
from placement_core.db import Session, failures
from placement_core.engine_checks.results import Broken, Limited, require
from placement_core.engine_checks.trial import Trial, insert_row, read_amount

#: The session's own number, and what ends a session.
_NUMBER = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}
_KILL = {"postgresql": "SELECT pg_terminate_backend({})", "mysql": "KILL CONNECTION {}"}
#: What takes seconds. MySQL bounds no SELECT without a table.
_SLOW = {"postgresql": "SELECT pg_sleep(5)", "mysql": "SELECT SLEEP(5) FROM {}"}
#: Longer than the short bounds of a trial.
_THINKING_SECONDS = 1.6


def _require_error(kind: type[Exception], what: str, do: Callable[[], Any]) -> Exception:
    """Check that something fails, and what the service makes of that.

    :raises Broken: it does not fail, or for another reason.
    """
    expected = f"{what} is refused, which means {kind.__name__}"
    try:
        result = do()
    except Exception as error:
        if type(error) is kind:
            return error
        raise Broken(expected, f"{type(error).__name__}: {failures.describe_error(error)}"
                     ) from error
    raise Broken(expected, f"it passed ({result!r})")


def duplicate_key_is_refused(trial: Trial) -> None:
    """A name that is there cannot be inserted again; only that is undone in a savepoint."""
    trial.insert("one")
    _require_error(db_exception.DBDuplicateEntry, "a name that is there",
                   lambda: trial.insert("one"))
    with db.write(trial.context()) as session:
        insert_row(session, trial.tables, "before")

        def insert_again() -> None:
            with session.connection.begin_nested():
                insert_row(session, trial.tables, "one")

        _require_error(db_exception.DBDuplicateEntry, "a name in a savepoint", insert_again)
        insert_row(session, trial.tables, "after")
    with db.read_once(trial.context()) as session:
        names = session.execute(sa.select(trial.tables.rows.c.name)).scalars().all()
    require(["after", "before", "one"], sorted(names), "the names after the commit")


def missing_reference_is_refused(trial: Trial) -> None:
    """A row cannot refer to one that is not there, and one that is referred to stays."""
    rows, parts = trial.tables.rows, trial.tables.parts
    row_id = trial.insert("one")

    def refer(to: int) -> None:
        with db.write(trial.context()) as session:
            session.execute(sa.insert(parts), {"row_id": to})

    def delete() -> None:
        with db.write(trial.context()) as session:
            session.execute(sa.delete(rows).where(rows.c.id == row_id))

    _require_error(db_exception.DBReferenceError, "a reference to a missing row",
                   lambda: refer(row_id + 1))
    refer(row_id)
    _require_error(db_exception.DBReferenceError, "the removal of a row that is referred to",
                   delete)


def bad_values_are_refused(trial: Trial) -> None:
    """A value that a column cannot hold is refused; it is not bent until it fits."""
    rows = trial.tables.rows
    row_id = trial.insert("one")

    def set_(**values: object) -> Callable[[], int]:
        def update() -> int:
            with db.write(trial.context()) as session:
                return session.execute(
                    sa.update(rows).where(rows.c.id == row_id).values(**values)).rowcount
        return update

    if trial.dialect == "sqlite":
        _require_error(errors.Invalid, "a number of 70 bits", set_(amount=2 ** 70))
        return
    _require_error(errors.Invalid, "a number of 64 bits in BIGINT", set_(amount=2 ** 63))
    _require_error(errors.Invalid, "a number of 32 bits in INTEGER", set_(generation=2 ** 31))
    _require_error(errors.Invalid, "256 characters in VARCHAR(255)", set_(name="a" * 256))


def lock_wait_is_bounded(trial: Trial) -> None:
    """A lock that is not to be had within the bound is an error, and no reason to repeat."""
    row_id = trial.insert("one")
    with trial.impatient() as ctx, db.write(trial.context()) as session:
        trial.add(session, row_id)
        _require_error(errors.Unavailable, "the wait for a lock beyond the bound of a second",
                       lambda: _add(trial, ctx, row_id))


def statement_time_is_bounded(trial: Trial) -> None:
    """A statement that takes longer than the bound is ended."""
    trial.insert("one")
    slow = _SLOW[trial.dialect].format(trial.tables.rows.name)

    def execute(ctx: Context) -> None:
        with db.write(ctx) as session:
            session.connection.exec_driver_sql(slow)

    with trial.impatient() as ctx:
        _require_error(errors.Unavailable, "a statement beyond the bound of a second",
                       lambda: execute(ctx))


def idle_transaction_is_ended(trial: Trial) -> None:
    """A transaction whose client says nothing for longer than the bound is ended."""
    row_id = trial.insert("one")
    if trial.dialect == "mysql":
        with db.read_once(trial.context()) as session:
            bounded = session.execute(sa.text(
                "SHOW VARIABLES LIKE 'idle_transaction_timeout'")).first()
        if bounded is None:
            raise Limited("the engine has no bound for idle transactions: a process that is "
                          "stopped, or cut off, in a transaction keeps its locks until the "
                          "server notices that its connection is gone")

    def think(ctx: Context) -> None:
        with db.write(ctx) as session:
            trial.add(session, row_id)
            time.sleep(_THINKING_SECONDS)
            # Its locks are free by now.
            trial.add_and_commit(row_id)
            read_amount(session, trial.tables, row_id)

    with trial.impatient() as ctx:
        _require_error(failures.ConnectionLost, "a transaction that was idle beyond the bound",
                       lambda: think(ctx))
    require(1, trial.read_amount(row_id), "the amount after one of two additions was undone")


def lost_connection_undoes_all(trial: Trial) -> None:
    """A transaction whose connection is gone is undone, and the service sees that it is gone."""
    row_id = trial.insert("one")

    def work() -> None:
        with db.write(trial.context()) as session:
            trial.add(session, row_id)
            _kill(trial, session)
            read_amount(session, trial.tables, row_id)

    _require_error(failures.ConnectionLost, "a statement on a connection that is gone", work)
    require(1, trial.add_and_commit(row_id), "rows that an UPDATE on a new connection met")
    require(1, trial.read_amount(row_id), "the amount after one of two additions was undone")


def _kill(trial: Trial, session: Session) -> None:
    number = session.connection.exec_driver_sql(_NUMBER[trial.dialect]).scalar()
    with db.read_once(trial.context()) as other:
        other.connection.exec_driver_sql(_KILL[trial.dialect].format(number))


def _add(trial: Trial, ctx: Context, row_id: int) -> int:
    with db.write(ctx) as session:
        return trial.add(session, row_id)
