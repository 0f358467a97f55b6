"""The writers' side of the change log."""

from __future__ import annotations

import functools
import itertools
import os
import random
import secrets
import threading

import sqlalchemy as sa

from placement_core.changes import tables
from placement_core.db import Session
from placement_core.db.database import Database
from placement_core.db.metadata import utcnow

#: A slot keeps the changes of at least this many transactions. A reader that
#: is further behind loads everything, which is then cheaper anyway.
KEPT_SERIALS = 1024
#: A writer prunes its slot after one in this many transactions, at random: threads and
#: processes may be too short-lived to count.
_PRUNE_EVERY = 256
#: So many transactions one pruning removes at most: many times more than come meanwhile,
#: and few enough for the one who waits for it.
_PRUNED_SERIALS = 8 * _PRUNE_EVERY

_heads, _changes = tables.change_heads, tables.changes


def _raise_head() -> sa.Update:
    return (
        sa.update(_heads)
        .where(_heads.c.slot == sa.bindparam("at_slot"))
        .values(serial=_heads.c.serial + 1, txn=sa.bindparam("by_txn")))


_RAISE_HEAD = _raise_head()
#: How many change rows one statement appends.
_BATCH = 50
_FIND = (
    sa.select(sa.literal(1))
    .where(_changes.c.slot == sa.bindparam("slot"), _changes.c.txn == sa.bindparam("txn"))
    .limit(1)
)
#: Asked for before: MySQL would lock the head, which another writer has perhaps.
_RANGE = sa.select(
    sa.select(_heads.c.serial).where(_heads.c.slot == sa.bindparam("slot"))
    .scalar_subquery().label("head"),
    sa.select(sa.func.min(_changes.c.serial)).where(_changes.c.slot == sa.bindparam("slot"))
    .scalar_subquery().label("oldest"))
_PRUNE = sa.delete(_changes).where(
    _changes.c.slot == sa.bindparam("slot"), _changes.c.serial < sa.bindparam("until"))


class Journal:
    """Appends to the change log; every thread that writes has its own slot.

    Two threads (of two processes, say) may share a slot by chance; they then
    wait for each other's COMMIT and nothing worse happens.
    """

    def __init__(self) -> None:
        self._local = threading.local()
        self._pid: int | None = None
        self._slots = itertools.count()

    def slot(self) -> int:
        """Return the calling thread's slot, also right after a fork."""
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
        """Raise the head of the thread's slot and write the recorded changes."""
        changes = sorted(session.recorded_changes)
        raised = False
        for start in range(0, len(changes), _BATCH):
            batch = changes[start:start + _BATCH]
            parameters: dict[str, object] = {
                "at_slot": self.slot(), "by_txn": session.txn, "now": utcnow()}
            for place, (kind, ref) in enumerate(batch):
                parameters |= {f"position{place}": start + place, f"kind{place}": kind,
                               f"ref{place}": ref}
            if not raised and session.dialect == "postgresql":
                session.execute_write(_raise_and_append(len(batch)), parameters)
            else:
                if not raised:
                    session.execute_write(_RAISE_HEAD, parameters)
                session.execute_write(_append(len(batch)), parameters)
            raised = True

    def notice_commit(self, database: Database, session: Session) -> None:
        """Prune the slot now and then, in statements of their own."""
        if session.recorded_changes and random.randrange(_PRUNE_EVERY) == 0:  # noqa: S311
            _prune(database, self.slot())

    def was_committed(self, database: Database, session: Session) -> bool:
        """Say whether the transaction of ``session`` was committed.

        The lost transaction holds the head of this thread's slot until it has
        ended, so raising the head ourselves makes the answer final: we wait for
        it, or (Galera, on another node) whoever is certified second fails. What
        it recorded is written down once more, which readers survive.
        """
        slot = self.slot()
        with database.connection(database.writer) as connection, connection.begin():
            successor = Session(connection, database.compiled, writing=True)
            successor.recorded_changes = session.recorded_changes
            self.append(successor)
            row = connection.execute(_FIND, {"slot": slot, "txn": session.txn}).first()
        return row is not None


def _prune(database: Database, slot: int) -> None:
    """Remove what nobody follows any more of a slot, the oldest first."""
    with database.connection(database.autocommit) as connection:
        head, oldest = connection.execute(_RANGE, {"slot": slot}).one()
        if head is None or oldest is None:
            return
        until = min(head - KEPT_SERIALS + 1, oldest + _PRUNED_SERIALS)
        if until > oldest:
            connection.execute(_PRUNE, {"slot": slot, "until": until})


def _rows(count: int) -> sa.Subquery:
    return sa.union_all(*(
        sa.select(
            sa.bindparam(f"position{place}", type_=_changes.c.position.type).label("position"),
            sa.bindparam(f"kind{place}", type_=_changes.c.kind.type).label("kind"),
            sa.bindparam(f"ref{place}", type_=_changes.c.ref.type).label("ref"))
        for place in range(count)
    )).subquery("touched")


def _insert(head: sa.FromClause, rows: sa.Subquery) -> sa.Insert:
    chosen = sa.select(
        head.c.slot, head.c.serial, rows.c.position,
        sa.bindparam("by_txn", type_=_changes.c.txn.type), rows.c.kind, rows.c.ref,
        sa.bindparam("now", type_=_changes.c.created_at.type),
    ).select_from(head.join(rows, sa.true()))
    return sa.insert(_changes).inline().from_select(
        ["slot", "serial", "position", "txn", "kind", "ref", "created_at"], chosen)


@functools.cache
def _append(count: int) -> sa.Insert:
    """Build the statement that writes ``count`` change rows at the slot's head."""
    head = sa.select(_heads.c.slot, _heads.c.serial).where(
        _heads.c.slot == sa.bindparam("at_slot")).subquery("head")
    return _insert(head, _rows(count))


@functools.cache
def _raise_and_append(count: int) -> sa.Insert:
    """Build ``_RAISE_HEAD`` and ``_append`` in one statement, for PostgreSQL."""
    # Made anew: one that was compiled has no columns any more when it shall return some.
    head = _raise_head().returning(_heads.c.slot, _heads.c.serial).cte("head")
    return _insert(head, _rows(count))
