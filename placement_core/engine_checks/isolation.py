"""What transactions see of each other."""

from __future__ import annotations

import contextlib

import sqlalchemy as sa

from placement_core import db
from placement_core.db import Session
from placement_core.engine_checks.results import require
from placement_core.engine_checks.trial import (
    Trial,
    Undo,
    beside,
    hold_up,
    insert_row,
    read_amount,
    require_done,
)

#: How often it is tried whether a commit is seen at once.
_COMMITS = 20
_UPDATE = "an UPDATE of a row that another transaction has updated"


def update_sees_committed_row(trial: Trial) -> None:
    """Two transactions add to one amount; the second waits, and adds to what is committed."""
    row_id = trial.insert("one")
    met = hold_up(trial, lambda session: trial.add(session, row_id),
                  lambda: trial.add_and_commit(row_id), _UPDATE)
    require(1, met, "rows that the second UPDATE met")
    require(2, trial.read_amount(row_id), "the amount after two additions")


def _guard(trial: Trial, *, commit: bool) -> int:
    """Let a guarded UPDATE wait for one that breaks its guard; return how many rows it met."""
    rows = trial.tables.rows
    row_id = trial.insert("one")
    guarded = (
        sa.update(rows).where(rows.c.id == sa.bindparam("of_id"),
                              rows.c.amount == sa.bindparam("seen"))
        .values(amount=rows.c.amount + 10))

    def update() -> int:
        with db.write(trial.context()) as session:
            return session.execute_write(guarded, {"of_id": row_id, "seen": 0})

    return hold_up(trial, lambda session: trial.add(session, row_id), update, _UPDATE,
                   commit=commit)


def guard_is_checked_again(trial: Trial) -> None:
    """The guard of an UPDATE holds for the row as committed by who it waited for."""
    require(0, _guard(trial, commit=True), "rows whose guard no longer holds")


def guard_holds_after_rollback(trial: Trial) -> None:
    """The guard holds for the row as it was, if who it waited for rolled back."""
    require(1, _guard(trial, commit=False), "rows whose guard holds again")


def deleted_row_is_not_met(trial: Trial) -> None:
    """An UPDATE that waited for a DELETE meets no row."""
    rows = trial.tables.rows
    row_id = trial.insert("one")
    met = hold_up(
        trial, lambda session: session.execute(sa.delete(rows).where(rows.c.id == row_id)),
        lambda: trial.add_and_commit(row_id), "an UPDATE of a row that another one deletes")
    require(0, met, "rows that an UPDATE after the DELETE met")


def reads_after_lock_see_commits(trial: Trial) -> None:
    """What a transaction reads after it waited for a lock is as fresh as the lock."""
    locked, fact = trial.insert("locked"), trial.insert("fact")

    def hold(session: Session) -> None:
        trial.add(session, locked)
        trial.add(session, fact)

    def decide() -> int | None:
        with db.write(trial.context()) as session:
            # A snapshot would begin here.
            read_amount(session, trial.tables, fact)
            trial.add(session, locked)
            return read_amount(session, trial.tables, fact)

    require(1, hold_up(trial, hold, decide, _UPDATE),
            "the amount of another row, read under the lock")


def snapshot_is_one_moment(trial: Trial) -> None:
    """Two statements of a read see the same moment, whatever is committed between them."""
    row_id = trial.insert("one")
    rows = trial.tables.rows
    count = sa.select(sa.func.count()).select_from(rows)
    with db.read(trial.context()) as session:
        seen = [(read_amount(session, trial.tables, row_id), session.execute(count).scalar())]
        trial.add_and_commit(row_id)
        trial.insert("two")
        seen.append((read_amount(session, trial.tables, row_id), session.execute(count).scalar()))
    require([(0, 1), (0, 1)], seen, "amount and number of rows, read twice in a snapshot")


def uncommitted_is_not_seen(trial: Trial) -> None:
    """Readers see nothing of an open transaction, and do not wait for it."""
    row_id = trial.insert("one")

    def read() -> list[int | None]:
        seen = []
        for opened in (db.read, db.read_once, db.read_each):
            with opened(trial.context()) as session:
                seen.append(read_amount(session, trial.tables, row_id))
        return seen

    with beside() as other:
        with db.write(trial.context()) as session:
            trial.add(session, row_id)
            insert_row(session, trial.tables, "uncommitted")
            seen = require_done(other.submit(read), "a reader of a row that is being changed")
            counts = require_done(other.submit(_count_rows, trial), "a reader of such a table")
    require([0] * 3, seen, "the amount before the commit")
    require(1, counts, "the number of rows before the commit")


def _count_rows(trial: Trial) -> int | None:
    with db.read_once(trial.context()) as session:
        return session.execute(
            sa.select(sa.func.count()).select_from(trial.tables.rows)).scalar()


def committed_is_seen_at_once(trial: Trial) -> None:
    """Every read that begins after a COMMIT sees it, on whichever connection."""
    row_id = trial.insert("one")
    for number in range(1, _COMMITS + 1):
        trial.add_and_commit(row_id)
        seen = []
        for opened in (db.read, db.read_once, db.write):
            with opened(trial.context()) as session:
                seen.append(read_amount(session, trial.tables, row_id))
        require([number] * 3, seen, "the amount after a commit")


def rollback_undoes_all(trial: Trial) -> None:
    """A transaction that fails leaves nothing."""
    row_id = trial.insert("one")
    with contextlib.suppress(Undo), db.write(trial.context()) as session:
        trial.add(session, row_id)
        insert_row(session, trial.tables, "two")
        raise Undo
    require((0, 1), (trial.read_amount(row_id), _count_rows(trial)),
            "amount and number of rows after a rollback")


def savepoint_undoes_its_part(trial: Trial) -> None:
    """What is rolled back to a savepoint is undone; the rest of the transaction stays."""
    row_id = trial.insert("one")
    with db.write(trial.context()) as session:
        trial.add(session, row_id)
        with contextlib.suppress(Undo), session.connection.begin_nested():
            trial.add(session, row_id)
            insert_row(session, trial.tables, "two")
            raise Undo
        require(1, read_amount(session, trial.tables, row_id), "the amount after the savepoint")
        trial.add(session, row_id)
    require((2, 1), (trial.read_amount(row_id), _count_rows(trial)),
            "amount and number of rows after the commit")


def lost_commit_is_found(trial: Trial) -> None:
    """Who takes the same head of the change log waits, and then finds the transaction or not."""
    heads = trial.tables.heads
    for commit in (True, False):
        trial.clear()
        with db.write(trial.context()) as session:
            session.execute(sa.insert(heads), {"slot": 0, "serial": 0, "txn": 0})
        found = hold_up(
            trial, lambda session: _append_change(trial, session, txn=7),
            lambda: _look_up(trial, 7), "the look-up of a transaction that has not ended",
            commit=commit)
        require(commit, found, "whether a transaction is found that was "
                + ("committed" if commit else "rolled back"))


def _append_change(trial: Trial, session: Session, txn: int) -> None:
    heads, changes = trial.tables.heads, trial.tables.changes
    session.execute(sa.update(heads).where(heads.c.slot == 0)
                    .values(serial=heads.c.serial + 1, txn=txn))
    serial = session.execute(sa.select(heads.c.serial).where(heads.c.slot == 0)).scalar()
    session.execute(sa.insert(changes), {
        "slot": 0, "serial": serial, "position": 0, "txn": txn, "kind": "check", "ref": 1})


def _look_up(trial: Trial, txn: int) -> bool:
    changes = trial.tables.changes
    with db.write(trial.context()) as session:
        _append_change(trial, session, txn=8)
        return session.execute(
            sa.select(changes.c.slot).where(changes.c.slot == 0, changes.c.txn == txn)
        ).first() is not None
