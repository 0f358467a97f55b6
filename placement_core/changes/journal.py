"""The writers' side of the change log."""

from __future__ import annotations

import itertools
import os
import secrets
import threading

import sqlalchemy as sa

from placement_core.changes import tables
from placement_core.db import Session
from placement_core.db.database import Database

#: A slot keeps the changes of at least this many transactions. A reader that
#: is further behind loads everything, which is then cheaper anyway.
KEPT_SERIALS = 1024
#: A writer prunes its slot once in this many of its transactions.
_PRUNE_EVERY = 256

_heads, _changes = tables.change_heads, tables.changes

_RAISE_HEAD = (
    sa.update(_heads)
    .where(_heads.c.slot == sa.bindparam("at_slot"))
    .values(serial=_heads.c.serial + 1, txn=sa.bindparam("by_txn"))
)
_HEAD = (
    sa.select(_heads.c.serial).where(_heads.c.slot == sa.bindparam("of_slot")).scalar_subquery()
)
_APPEND = sa.insert(_changes).inline().values(serial=_HEAD)
_WAIT_FOR_HEAD = (
    sa.update(_heads)
    .where(_heads.c.slot == sa.bindparam("at_slot"))
    .values(txn=_heads.c.txn)
)
_FIND = (
    sa.select(sa.literal(1))
    .where(_changes.c.slot == sa.bindparam("slot"), _changes.c.txn == sa.bindparam("txn"))
    .limit(1)
)
_PRUNE = sa.delete(_changes).where(
    _changes.c.slot == sa.bindparam("slot"), _changes.c.serial <= _HEAD - KEPT_SERIALS
)


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
            self._local.commits = 0
        return self._local.slot

    def append(self, session: Session) -> None:
        """Raise the head of the thread's slot and write what was touched."""
        slot = self.slot()
        session.execute(_RAISE_HEAD, {"at_slot": slot, "by_txn": session.txn})
        session.execute(
            _APPEND,
            [
                {"slot": slot, "of_slot": slot, "position": position, "txn": session.txn,
                 "kind": kind, "ref": ref}
                for position, (kind, ref) in enumerate(sorted(session.touched))
            ],
        )

    def committed(self, database: Database, session: Session) -> None:
        """Prune the slot now and then, in a transaction of its own."""
        if not session.touched:
            return
        self._local.commits += 1
        if self._local.commits % _PRUNE_EVERY == 0:
            with database.autocommit.connect() as connection:
                connection.execute(_PRUNE, {"slot": self._local.slot, "of_slot": self._local.slot})

    def landed(self, database: Database, session: Session) -> bool:
        """Say whether the transaction of ``session`` was committed.

        The lost transaction holds the head of this thread's slot until it has
        ended, so waiting for the head first makes the answer final.
        """
        slot = self.slot()
        with database.writer.connect() as connection, connection.begin():
            connection.execute(_WAIT_FOR_HEAD, {"at_slot": slot})
            found = connection.execute(_FIND, {"slot": slot, "txn": session.txn}).first()
        return found is not None
