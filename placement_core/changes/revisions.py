"""Revisions: one row that rises with every change of a body of records.

Whoever raises a revision holds its row until the commit: writers of that body
queue, and decide on what no other writer can change meanwhile. Readers compare
revisions instead of contents: an unchanged one means an unchanged answer.
"""

from __future__ import annotations

import sqlalchemy as sa

from placement_core.changes import kinds
from placement_core.changes.tables import revisions
from placement_core.context import Context
from placement_core.db import PreparedRead, Session, retry_writes

#: Limits, and the catalog that they refer to.
LIMITS = "limits"
#: Cell mappings, wherever they are kept.
CELLS = "cells"
#: What is promised of the freepool, and its hosts.
POOL = "pool"
#: Which hosts the freepool has.
POOL_HOSTS = "pool_hosts"
#: The positions of notices about leases: as a number, the last one that was given.
NOTICES = "notices"

#: As what those are told of that claims are judged by: who keeps it asks again.
_KINDS = {LIMITS: kinds.REVISION, CELLS: kinds.REVISION}

_RAISE = (
    sa.update(revisions)
    .where(revisions.c.name == sa.bindparam("of"))
    .values(serial=revisions.c.serial + 1, txn=sa.bindparam("by_txn"))
)
_ASK = PreparedRead(sa.select(revisions.c.serial, revisions.c.txn).where(
    revisions.c.name == sa.bindparam("of")))


def raise_(session: Session, name: str) -> None:
    """Take a revision's row, and raise it: the first statement of a write."""
    raised = session.execute(_RAISE, {"of": name, "by_txn": session.txn}).rowcount
    if raised != 1:
        raise RuntimeError(f"the revision {name} has no row: nobody would wait for this write")
    # So that a COMMIT whose answer was lost can be looked up.
    session.record_change(_KINDS.get(name, kinds.POOL), 0)


@retry_writes
def ask(ctx: Context, name: str) -> str:
    """Return the present revision as text.

    It names the transaction too: a database that was restored, or lost its last
    transactions, does not repeat a revision with other contents.
    """
    [(serial, txn)] = _ASK.fetch(ctx, {"of": name})
    return text(serial, txn)


def text(serial: int, txn: int) -> str:
    """Return what ``ask`` does, for who read the row in another statement."""
    return f"{int(serial)}-{txn:x}"
