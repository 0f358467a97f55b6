"""How long transactions keep others waiting, and whom."""

from __future__ import annotations

import threading

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.db import Session, TransactionConflict, row_locks
from placement_core.engine_checks.results import Broken, require
from placement_core.engine_checks.trial import (
    PATIENCE_SECONDS,
    Trial,
    beside,
    hold_up,
    insert_row,
    require_done,
    require_waiting,
)


def locked_read_waits(trial: Trial) -> None:
    """SELECT ... FOR UPDATE waits for who has the row, and reads what that one committed."""
    rows = trial.tables.rows
    row_id = trial.insert("one")
    locking = sa.select(rows.c.amount).where(rows.c.id == row_id).with_for_update()

    def read() -> int | None:
        with db.write(trial.context()) as session:
            return session.execute(locking).scalar()

    def hold(session: Session) -> None:
        session.execute(locking)
        trial.add(session, row_id)

    require(1, hold_up(trial, hold, read, "SELECT ... FOR UPDATE of a row that is locked"),
            "the amount that was read under the lock")


def locked_rows_are_skipped(trial: Trial) -> None:
    """SELECT ... FOR UPDATE SKIP LOCKED returns the other rows at once: managers share events."""
    rows = trial.tables.rows
    locked, free = trial.insert("locked"), trial.insert("free")
    skipping = sa.select(rows.c.id).order_by(rows.c.id).with_for_update(skip_locked=True)

    def read() -> list[int]:
        with db.write(trial.context()) as session:
            return list(session.execute(skipping).scalars())

    with beside() as other:
        with db.write(trial.context()) as session:
            session.execute(sa.select(rows.c.id).where(rows.c.id == locked).with_for_update())
            seen = require_done(other.submit(read), "SKIP LOCKED")
    require([free], seen, "the rows that are not locked")


def rows_are_locked_one_by_one(trial: Trial) -> None:
    """Transactions on different rows do not wait for each other."""
    first, second = trial.insert("first"), trial.insert("second")
    with beside() as other, db.write(trial.context()) as session:
        trial.add(session, first)
        require_done(other.submit(trial.add_and_commit, second), "an UPDATE of another row")


def gaps_are_not_locked(trial: Trial) -> None:
    """An UPDATE of several rows does not keep others from inserting rows between them."""
    rows = trial.tables.rows
    for name in ("a", "c"):
        trial.insert(name, amount=1)
    with beside() as other, db.write(trial.context()) as session:
        session.execute(sa.update(rows).where(rows.c.amount > 0).values(amount=2))
        require_done(other.submit(trial.insert, "b", 1), "an INSERT between rows")


def rows_are_locked_in_order(trial: Trial) -> None:
    """An UPDATE of many rows locks them by their ids: one that waits has no later row."""
    rows = trial.tables.rows
    names = ["c", "a", "b"]
    ids = [trial.insert(name) for name in names]
    locking = (
        sa.update(rows)
        .where(row_locks.locked_in_order(rows.c.id, rows.c.id.in_(
            sa.bindparam("ids", expanding=True))))
        .values(generation=rows.c.generation + 1))

    def lock_all() -> int:
        with db.write(trial.context()) as session:
            return session.execute_write(locking, {"ids": ids[::-1]})

    with beside() as other:
        with db.write(trial.context()) as session:
            trial.add(session, ids[0])
            waiting = other.submit(lock_all)
            require_waiting(
                trial, waiting, "an UPDATE of many rows, the first of them locked,")
            later = other.submit(trial.add_and_commit, ids[2])
            require_done(later, "an UPDATE of the last of these rows")
        require(3, waiting.result(), "rows that the UPDATE of many rows met")


def deadlock_ends_one(trial: Trial) -> None:
    """Of two transactions that wait for each other one goes on, the other may be repeated."""
    first, second = trial.insert("first"), trial.insert("second")
    both = threading.Barrier(2)

    def cross(*ids: int) -> str:
        try:
            with db.write(trial.context()) as session:
                trial.add(session, ids[0])
                both.wait(PATIENCE_SECONDS)
                trial.add(session, ids[1])
        except TransactionConflict:
            return "may be repeated"
        return "committed"

    with beside() as others:
        crossing = [others.submit(cross, first, second), others.submit(cross, second, first)]
        outcomes = [each.exception() or each.result() for each in crossing]
    if "committed" not in outcomes or not set(outcomes) <= {"committed", "may be repeated"}:
        raise Broken("one transaction is committed, the other may be repeated",
                     ", ".join(map(str, outcomes)))


def inserts_of_a_key_wait(trial: Trial) -> None:
    """An INSERT of a key that another transaction inserts waits until that one ends."""
    def insert() -> str:
        try:
            trial.insert("same")
        except db_exception.DBDuplicateEntry:
            return "a duplicate"
        return "a second row"

    outcome = hold_up(trial, lambda session: insert_row(session, trial.tables, "same"), insert,
                      "an INSERT of a key that is being inserted")
    require("a duplicate", outcome, "the second row of a key")


def writers_take_turns(trial: Trial) -> None:
    """A transaction that writes has the whole database: a second one waits for its end."""
    row_id = trial.insert("one")
    met = hold_up(trial, lambda _session: None, lambda: trial.add_and_commit(row_id),
                  "a second writer")
    require(1, met, "rows that the second writer met")
