"""Statements with many values, and several statements at once."""

from __future__ import annotations

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.db import PreparedRead, inserts, lists
from placement_core.engine_checks.results import Broken, require
from placement_core.engine_checks.trial import Trial

_MANY = 3000
#: Rows, and characters of each: about the longest message that PyMySQL is given.
_LARGE = (1000, 990)


def statements_go_together(trial: Trial) -> None:
    """Statements that are sent at once are executed in order, and each has its own result."""
    rows = trial.tables.rows
    ids = [trial.insert(name) for name in ("one", "two")]
    add = (sa.update(rows).where(rows.c.id <= sa.bindparam("up_to"))
           .values(amount=rows.c.amount + 1))
    read = PreparedRead(sa.select(rows.c.id, rows.c.amount).order_by(rows.c.id))
    counts: list[int] = []
    with db.write(trial.context()) as session:
        session.write_later(add, {"up_to": ids[1]}, counts.append)
        first = read.fetch_later(session, {})
        session.write_later(add, {"up_to": ids[0]}, counts.append)
        session.write_later(add, {"up_to": 0}, counts.append)
        last = read.fetch_in(session)
        seen = [list(map(tuple, first())), list(map(tuple, last))]
    require([2, 1, 0], counts, "rows that three UPDATEs met which were sent at once")
    require([[(ids[0], 1), (ids[1], 1)], [(ids[0], 2), (ids[1], 1)]], seen,
            "rows that SELECTs between them saw")


def failure_ends_what_is_sent_together(trial: Trial) -> None:
    """Of statements that are sent at once, those behind one that fails are not executed."""
    rows = trial.tables.rows
    row_id = trial.insert("one")
    insert = sa.insert(rows).inline()
    add = sa.update(rows).where(rows.c.id == sa.bindparam("of_id")).values(amount=2)
    counts: list[int] = []

    def send() -> None:
        with db.write(trial.context()) as session:
            session.write_later(insert, {"name": "two", "amount": 0}, counts.append)
            session.write_later(insert, {"name": "one", "amount": 0}, counts.append)
            session.write_later(add, {"of_id": row_id}, counts.append)

    try:
        send()
    except db_exception.DBDuplicateEntry:
        pass
    else:
        raise Broken("the second of three statements fails", "all passed")
    require([1], counts, "rows that the statements met which were executed")
    require(0, trial.read_amount(row_id), "the amount, which was to be set by the third")


def long_lists_are_found(trial: Trial) -> None:
    """A statement takes a list of thousands of values."""
    rows = trial.tables.rows
    wanted = [trial.insert(name) for name in ("one", "two")]
    trial.insert("three")
    numbers = [*wanted, *range(2 ** 30, 2 ** 30 + _MANY)]
    for among in (lists.among, lists.among_many):
        statement = sa.select(rows.c.id).where(among(rows.c.id, "ids")).order_by(rows.c.id)
        with db.read_once(trial.context()) as session:
            seen = session.execute(statement, {"ids": numbers}).scalars().all()
        require(wanted, list(seen), f"rows among {len(numbers)} ids")


def large_statements_pass(trial: Trial) -> None:
    """Four megabytes pass in one statement, and as one value that many rows are joined to."""
    rows = trial.tables.rows
    count, length = _LARGE
    # Of four bytes each.
    text = "\N{DROMEDARY CAMEL}" * length
    with db.write(trial.context()) as session:
        inserts.insert_many(session, rows, [
            {"name": f"{number}", "amount": 0, "text": text} for number in range(count)])
        joined = session.execute(
            sa.select(sa.func.aggregate_strings(rows.c.text, ","))).scalar()
    require(count * length + count - 1, len(joined or ""), "characters of the joined text")


def texts_arrive_unchanged(trial: Trial) -> None:
    """Quotes, backslashes and marks of other kinds arrive as they were sent, however sent."""
    rows = trial.tables.rows
    texts = ["it's", '"quoted"', "back\\slash\\", "\\'", "100 %s %(x)s", "{a,b}", "a;b--c",
             "line\nbreak\ttab\r", "NULL", ""]
    insert = sa.insert(rows).inline()
    with db.write(trial.context()) as session:
        inserts.insert_many(session, rows, [
            {"name": f"many {number}", "amount": 0, "text": text}
            for number, text in enumerate(texts)])
        for number, text in enumerate(texts):
            session.write_later(
                insert, {"name": f"one {number}", "amount": 0, "text": text})
        stored = dict(map(tuple, session.execute(sa.select(rows.c.name, rows.c.text)).all()))
        found = session.execute(
            sa.select(sa.func.count()).where(lists.among(rows.c.text, "texts")),
            {"texts": texts}).scalar()
    for number, text in enumerate(texts):
        for kind in ("many", "one"):
            require(repr(text), repr(stored[f"{kind} {number}"]), "a text")
    require(2 * len(texts), found, "rows found by their texts")
