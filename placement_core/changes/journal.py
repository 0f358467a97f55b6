"""Appending to the change log, and pruning it."""

from __future__ import annotations

import functools
import itertools
import os
import random
import secrets
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from placement_core.changes import audit, pruning, revisions, tables
from placement_core.db import Session, TransactionConflict, arrays, row_locks
from placement_core.db.database import Database
from placement_core.db.metadata import utcnow
from placement_core.db.session import RecordedChange

#: A writer prunes after one in this many transactions, at random, because threads and processes
#: may be too short-lived to count.
_PRUNE_EVERY = 256
#: How many transactions one pruning deletes at most: many times more than are added between
#: two prunings, and few enough for the request that waits for it.
_PRUNED_SERIALS = 8 * _PRUNE_EVERY

_heads, _changes = tables.change_heads, tables.changes


def _increment_head(serial: sa.ColumnElement[int]) -> sa.Update:
    return (
        sa.update(_heads)
        .where(_heads.c.slot == sa.bindparam("at_slot"),
               _heads.c.limits_serial <= sa.bindparam("decided_by"))
        .values(serial=serial, txn=sa.bindparam("by_txn")))


_NEXT_SERIAL: sa.ColumnElement[int] = _heads.c.serial + 1
_INCREMENT_HEAD = _increment_head(_NEXT_SERIAL)
#: The same for MariaDB and MySQL: what inserts the rows need not ask for the head.
_INCREMENT_AND_KEEP = _increment_head(sa.func.last_insert_id(_NEXT_SERIAL))
#: For transactions that do not depend on limits.
_ANY_SERIAL = 2 ** 63 - 1
_MARK_HEADS = (
    sa.update(_heads)
    .where(row_locks.locked_in_order(_heads.c.slot, _heads.c.slot >= 0))
    .values(limits_serial=sa.select(tables.revisions.c.serial)
            .where(tables.revisions.c.name == revisions.LIMITS).scalar_subquery()))
#: What a change may lack.
_OPTIONAL = ("uuid", "name", "project")
#: What all changes of a transaction have in common, beside the slot's head.
_TRANSACTION = {
    "txn": sa.bindparam("by_txn", type_=_changes.c.txn.type),
    "created_at": sa.bindparam("now", type_=_changes.c.created_at.type)}
#: How many change rows one statement appends.
_BATCH = 50
#: The most changes of a transaction whose rows have parameters only for what they are made of:
#: each form of rows has a statement of its own.
_MOST_FORMS = 6
#: How many statements are kept, by the forms of their rows.
_MOST_STATEMENTS = 512
#: How many transactions of a slot, at most, were committed since one whose COMMIT was lost.
_LOOKED_THROUGH = 1024
_FIND = (
    sa.select(sa.literal(1))
    .where(_changes.c.slot == sa.bindparam("slot"), _changes.c.txn == sa.bindparam("txn"),
           _changes.c.serial > sa.select(_heads.c.serial - _LOOKED_THROUGH).where(
               _heads.c.slot == sa.bindparam("slot")).scalar_subquery())
    .limit(1)
)


class Journal:
    """Appends to the change log; every writing thread has its own slot.

    Two threads (of two processes, say) may share a slot by chance; the only effect is that
    they wait for each other's COMMIT.

    :param keep_seconds: for how long changes are kept.
    :param audits: whether it is recorded, too, who made them.
    """

    def __init__(
        self, keep_seconds: int = pruning.KEEP_SECONDS, *, audits: bool = False
    ) -> None:
        self._audits = audits
        self._keep_seconds = keep_seconds
        self._local = threading.local()
        self._pid: int | None = None
        self._slots = itertools.count()

    def slot(self) -> int:
        """Return the calling thread's slot; a forked process gets new ones."""
        pid = os.getpid()
        if getattr(self._local, "pid", None) != pid:
            if self._pid != pid:
                self._pid = pid
                self._slots = itertools.count(secrets.randbelow(tables.SLOTS))
            self._local.pid = pid
            self._local.slot = next(self._slots) % tables.SLOTS
        slot: int = self._local.slot
        return slot

    def append(self, session: Session) -> None:
        """Increment the head of the thread's slot and insert the recorded changes.

        :raises TransactionConflict: the limits have changed on which the transaction depends.
        """
        changes = sorted(session.recorded_changes)
        if not changes:
            return
        if session.changes_limits:
            session.execute(_MARK_HEADS)
        limits_serial = session.limits_serial
        parameters: dict[str, object] = {
            "at_slot": self.slot(), "by_txn": session.txn, "now": utcnow(),
            "decided_by": _ANY_SERIAL if limits_serial is None else limits_serial}
        if session.dialect == "postgresql":
            self._append_arrays(session, changes, parameters)
        else:
            self._append_rows(session, changes, parameters)
        session.flush()

    def _append_arrays(
        self, session: Session, changes: Sequence[RecordedChange], parameters: dict[str, object]
    ) -> None:
        kinds, refs, *texts = map(list, zip(*changes, strict=True))
        columns = {name: [text or None for text in column]
                   for name, column in zip(_OPTIONAL, texts, strict=True) if any(column)}
        form, audited = audit.make_insert(session) if self._is_audited(session) else (None, {})
        session.write_later(
            _increment_and_append(tuple(columns), form),
            {**parameters, "kind": kinds, "ref": refs, **columns, **audited},
            functools.partial(_check_head, session))

    def _append_rows(
        self, session: Session, changes: Sequence[RecordedChange], parameters: dict[str, object]
    ) -> None:
        keeps_serial = session.dialect != "sqlite"
        session.write_later(
            _INCREMENT_AND_KEEP if keeps_serial else _INCREMENT_HEAD, parameters,
            functools.partial(_check_head, session))
        for start in range(0, len(changes), _BATCH):
            batch = changes[start:start + _BATCH]
            values: list[object]
            if len(changes) <= _MOST_FORMS:
                forms = tuple([_Form(change.kind, *map(bool, change[1:])) for change in batch])
                values = [value for change in batch for value in change[1:] if value]
            else:
                forms = (_ANY_FORM,) * len(batch)
                values = [value for place, (kind, ref, *texts) in enumerate(batch, start)
                          for value in (place, kind, ref, *[text or None for text in texts])]
            insert = _append(forms, keeps_serial=keeps_serial)
            session.write_later(
                insert.statement,
                {**parameters, **dict(zip(insert.names, values, strict=True))})
        if self._is_audited(session):
            audit.insert_later(session)

    def _is_audited(self, session: Session) -> bool:
        # Without a caller, it repeats changes that were made before (``was_committed``).
        return self._audits and session.caller is not None

    def notice_commit(self, database: Database, session: Session) -> None:
        """Prune the log after some commits, outside of the committed transaction.

        The thread's own slot and, since threads leave slots behind that nobody writes to any
        more, another one.
        """
        if session.recorded_changes and random.randrange(_PRUNE_EVERY) == 0:  # noqa: S311
            for slot in {self.slot(), random.randrange(tables.SLOTS)}:  # noqa: S311
                self._prune(database, slot)

    def _prune(self, database: Database, slot: int) -> None:
        with (database.connection(database.autocommit) as connection,
              database.bounded(connection, database.settings.statement_timeout_seconds)):
            pruning.prune_slot(
                Session(connection, database.compiled, writing=True), slot,
                keep_seconds=self._keep_seconds, most=_PRUNED_SERIALS)

    def was_committed(self, database: Database, session: Session, seconds: float) -> bool:
        """Say whether the transaction of ``session`` was committed; within some seconds.

        The lost transaction has locked the head of this thread's slot until it ends, so
        incrementing the head here makes the answer final: this transaction waits for it, or
        (Galera, on another node) the one that is certified second fails. The changes that
        it recorded are appended once more, which readers tolerate.
        """
        slot = self.slot()
        with (database.connection(database.writer) as connection,
              database.bounded(connection, seconds), connection.begin()):
            successor = Session(connection, database.compiled, writing=True)
            successor.recorded_changes = session.recorded_changes
            self.append(successor)
            row = connection.execute(_FIND, {"slot": slot, "txn": session.txn}).first()
        return row is not None


def _check_head(session: Session, incremented: int) -> None:
    if not incremented:
        if session.forget_limits is not None:
            session.forget_limits()
        raise TransactionConflict


class _Form(NamedTuple):
    """What a row of a change is made of, where there are no arrays.

    :ivar kind: None: the row has parameters for this and its position, too.
    :ivar ref, uuid, name, project: whether it has a parameter for it.
    """

    kind: str | None
    ref: bool = True
    uuid: bool = True
    name: bool = True
    project: bool = True


_ANY_FORM = _Form(None)


class _RowsInsert(NamedTuple):
    """An INSERT of some rows, and the names of their parameters in the order of their values."""

    statement: sa.Insert
    names: Sequence[str]


@functools.lru_cache(_MOST_STATEMENTS)
def _append(forms: Sequence[_Form], *, keeps_serial: bool) -> _RowsInsert:
    """Build the statement that writes change rows at the slot's head.

    Each parameter costs time with every claim.

    :param keeps_serial: whether the connection has kept the serial (``_INCREMENT_AND_KEEP``);
        else each row asks for it.
    """
    slot = sa.bindparam("at_slot", type_=_heads.c.slot.type)
    serial = (sa.func.last_insert_id() if keeps_serial else
              sa.select(_heads.c.serial).where(_heads.c.slot == slot).scalar_subquery())
    rows: list[dict[str, sa.ColumnElement[Any]]] = []
    names: list[str] = []
    for place, form in enumerate(forms):
        wanted = [name for name in _Form._fields[1:] if getattr(form, name)]
        if form.kind is None:
            wanted = ["position", "kind", *wanted]
        constants = {"position": str(place), "kind": f"'{form.kind}'", "ref": "0",
                     **dict.fromkeys(_OPTIONAL, "NULL")}
        rows.append({
            "slot": slot, "serial": serial, **_TRANSACTION,
            **{name: sa.literal_column(text) for name, text in constants.items()},
            **{name: sa.bindparam(f"{name}{place}", type_=_changes.c[name].type)
               for name in wanted}})
        names += [f"{name}{place}" for name in wanted]
    return _RowsInsert(sa.insert(_changes).inline().values(rows), names)


@functools.cache
def _increment_and_append(optional: Sequence[str], form: audit.InsertForm | None) -> sa.Insert:
    """Build both for PostgreSQL, in one statement for any number of rows.

    An array costs as much as some rows do, so there are as few as possible.

    :param optional: which of the columns that may be missing the rows have.
    :param form: that of the rows of the audit, which are written, too; None: there are none.
    """
    # A new update: RETURNING on one that was compiled before yields no columns.
    head = _increment_head(_NEXT_SERIAL).returning(_heads.c.slot, _heads.c.serial).cte("head")
    names = ("kind", "ref", *optional)
    rows = arrays.rows(
        "recorded", {name: _changes.c[name].type for name in names}, numbered="position")
    values = {"slot": head.c.slot, "serial": head.c.serial, **_TRANSACTION,
              "position": rows.c.position - 1, **{name: rows.c[name] for name in names}}
    statement = sa.insert(_changes).inline().from_select(
        list(values), sa.select(*values.values()).select_from(head.join(rows, sa.true())))
    return statement if form is None else statement.add_cte(audit.build_cte(form))
