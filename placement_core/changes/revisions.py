"""Revisions: a counter row for each set of records, incremented by every change of the set.

Incrementing a revision locks its row until the commit. So writers of a set queue, and decide
on records that no other writer can change meanwhile. Readers compare revisions instead of
contents: an unchanged revision means an unchanged answer.

A claim that was decided by limits does not lock their revision, because claims would queue. It
notes the revision (``depend_on_limits``), and increments the head of its slot of the change log
only if no head was marked with a later one. Who changes limits marks all heads before the commit,
so one of the two waits for the other: either the change waits for the claim's commit, or the
claim for that of the change, and is decided again.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from placement_core.changes import kinds
from placement_core.changes.tables import revisions
from placement_core.context import Context
from placement_core.db import PreparedRead, Session, retry_writes

#: Limits, and the catalog that they refer to.
LIMITS = "limits"
#: Cell mappings, wherever they are kept.
CELLS = "cells"
#: Bookings of the freepool, and its hosts.
POOL = "pool"
#: The set of hosts in the freepool.
POOL_HOSTS = "pool_hosts"
#: The positions of notifications about leases; its number is the last assigned position.
NOTICES = "notices"

#: The kinds of change rows for revisions that decisions on claims depend on: whoever caches
#: such data reads it again.
_KINDS = {LIMITS: kinds.REVISION, CELLS: kinds.REVISION}

_INCREMENT = (
    sa.update(revisions)
    .where(revisions.c.name == sa.bindparam("of"))
    .values(serial=revisions.c.serial + 1, txn=sa.bindparam("by_txn"))
)
_READ = PreparedRead(sa.select(revisions.c.serial, revisions.c.txn).where(
    revisions.c.name == sa.bindparam("of")))


def increment(session: Session, name: str) -> None:
    """Lock a revision's row and increment it; call it as the first statement of a write."""
    incremented = session.execute(_INCREMENT, {"of": name, "by_txn": session.txn}).rowcount
    if incremented != 1:
        raise RuntimeError(f"the revision {name} has no row: nobody would wait for this write")
    session.changes_limits |= name == LIMITS
    # Recorded so that a COMMIT whose answer was lost can be looked up.
    session.record_change(_KINDS.get(name, kinds.POOL), 0)


@retry_writes
def read(ctx: Context, name: str) -> str:
    """Return the current revision as text.

    The text has the id of the transaction, too, so that a database that was restored, or lost
    its last transactions, does not repeat a revision with other contents.
    """
    [(serial, txn)] = _READ.fetch(ctx, {"of": name})
    return format_revision(serial, txn)


def depend_on_limits(
    session: Session, revision: str, forget: Callable[[], None] | None = None
) -> None:
    """Let a transaction fail if limits have changed by its commit.

    :param revision: that of the limits by which it was decided, as ``read`` returns it.
    :param forget: is called if they have: what the caller derived from them is stale.
    """
    session.forget_limits = forget or session.forget_limits
    serial = int(revision.partition("-")[0])
    if session.limits_serial is None or serial < session.limits_serial:
        session.limits_serial = serial


def format_revision(serial: int, txn: int) -> str:
    """Return the text of ``read``, for callers that read the row in another statement."""
    return f"{int(serial)}-{txn:x}"
