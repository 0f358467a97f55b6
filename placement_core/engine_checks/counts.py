"""How many rows a statement met, and what keys it made."""

from __future__ import annotations

import sqlalchemy as sa

from placement_core import db
from placement_core.db import Session, inserts
from placement_core.engine_checks.results import require
from placement_core.engine_checks.trial import Trial, hold_up, insert_row


def update_counts_found_rows(trial: Trial) -> None:
    """An UPDATE counts the rows that it found, also those which keep their values."""
    rows = trial.tables.rows
    trial.insert("one", amount=5)
    trial.insert("two", amount=5)
    update = (sa.update(rows).where(rows.c.amount == sa.bindparam("seen"))
              .values(amount=sa.bindparam("new")))
    with db.write(trial.context()) as session:
        counts = [
            session.execute_write(update, {"seen": 5, "new": 5}),
            session.execute(update, {"seen": 5, "new": 6}).rowcount,
            session.execute_write(update, {"seen": 5, "new": 7}),
        ]
    require([2, 2, 0], counts, "rows found by an UPDATE that changes nothing, by one that does, "
            "and by one that finds none")


def delete_counts_rows(trial: Trial) -> None:
    """A DELETE counts the rows that it removed."""
    rows = trial.tables.rows
    for name in ("one", "two", "three"):
        trial.insert(name)
    delete = sa.delete(rows).where(rows.c.name == sa.bindparam("named"))
    with db.write(trial.context()) as session:
        counts = [session.execute_write(delete, {"named": name}) for name in ("one", "none")]
        counts.append(session.execute(sa.delete(rows)).rowcount)
    require([1, 0, 2], counts, "rows removed by a DELETE of one, of none, of the rest")


def many_rows_are_inserted(trial: Trial) -> None:
    """Many rows are inserted by one statement: arrays on PostgreSQL, else one list of values."""
    rows = trial.tables.rows
    with db.write(trial.context()) as session:
        inserts.insert_many(session, rows, [
            {"name": f"{number}", "amount": number} for number in range(500)])
        amounts = session.execute(
            sa.select(rows.c.amount).order_by(rows.c.amount)).scalars().all()
    require(True, list(amounts) == list(range(500)), "whether all of 500 rows are there")


def skipping_insert_counts_new_rows(trial: Trial) -> None:
    """An INSERT that skips rows which are there counts those that were not."""
    skipping = inserts.build_skipping_insert(trial.tables.rows)
    trial.insert("there", amount=7)
    with db.write(trial.context()) as session:
        counts = [session.execute(skipping, {"name": name, "amount": 0}).rowcount
                  for name in ("there", "new")]
        amount = session.execute(
            sa.select(trial.tables.rows.c.amount)
            .where(trial.tables.rows.c.name == "there")).scalar()
    require(([0, 1], 7), (counts, amount), "rows inserted, and the amount of the one skipped")


def skipping_insert_waits(trial: Trial) -> None:
    """An INSERT that skips rows waits for who is just inserting them."""
    skipping = inserts.build_skipping_insert(trial.tables.rows)

    def insert() -> int:
        with db.write(trial.context()) as session:
            return session.execute(skipping, {"name": "same", "amount": 0}).rowcount

    inserted = hold_up(
        trial, lambda session: insert_row(session, trial.tables, "same"), insert,
        "an INSERT of a row that is being inserted")
    require(0, inserted, "rows inserted by the second")


def upserts_add_up(trial: Trial) -> None:
    """Two transactions that insert a sum or add to it lose nothing of it."""
    sums = trial.tables.sums
    row = {"owner": 1, "kind": 0, "amount": 2}

    def hold(session: Session) -> None:
        inserts.insert_or_add(session, sums, "amount", [row])
        session.flush()

    def add() -> None:
        with db.write(trial.context()) as session:
            inserts.insert_or_add(session, sums, "amount", [row, {**row, "kind": 1}])

    hold_up(trial, hold, add, "an upsert of a row that is being inserted")
    add()
    with db.read_once(trial.context()) as session:
        amounts = session.execute(
            sa.select(sums.c.amount).order_by(sums.c.kind)).scalars().all()
    require([6, 4], list(amounts), "the sums")


def ids_rise(trial: Trial) -> None:
    """Ids that the database gives are returned, unique, and rise within a session."""
    rows = trial.tables.rows
    with db.write(trial.context()) as session:
        ids = [insert_row(session, trial.tables, f"{number}") for number in range(20)]
        stored = session.execute(
            sa.select(rows.c.id).order_by(sa.cast(rows.c.name, sa.Integer))).scalars().all()
    require(list(stored), ids, "the ids that the INSERTs returned")
    require(sorted(set(ids)), ids, "ids in the order of the INSERTs")
