"""Removal of old changes from the log.

Writers remove what is old in the slots that they meet (``journal``), so the log stays bounded
without a manager. A manager goes through all slots.

Of what is older than the retention, the last transaction of each slot stays: a reader knows by it
that it missed none, and one whose position is within the retention may stand right behind it.
"""

from __future__ import annotations

import sqlalchemy as sa

from placement_core import db, metrics
from placement_core.changes import tables
from placement_core.context import Context
from placement_core.db import Session, clock

#: For how long changes are kept unless an option says otherwise.
KEEP_SECONDS = 86_400
#: How many transactions of a slot a manager deletes at a time, with a few rows each.
_BATCH = 100

_heads, _changes = tables.change_heads, tables.changes

_IS_OLD_AFTER = clock.in_seconds(-sa.bindparam("keep_seconds", type_=sa.BigInteger))
#: Each transaction has one row of this position.
_is_first = _changes.c.position == 0
#: By the key, from the oldest on, so that it does not matter how long the log is.
_FRONT = (
    sa.select(_changes.c.serial, _changes.c.created_at)
    .where(_changes.c.slot == sa.bindparam("slot"), _is_first)
    .order_by(_changes.c.serial).limit(sa.bindparam("most", type_=sa.Integer)).subquery("front"))
_LAST_OLD = sa.select(sa.func.max(_FRONT.c.serial)).where(_FRONT.c.created_at < _IS_OLD_AFTER)
_REMOVE = sa.delete(_changes).where(
    _changes.c.slot == sa.bindparam("slot"), _changes.c.serial < sa.bindparam("until"))
#: Slots with two old transactions or more.
_SECOND = (
    sa.select(_changes.c.created_at)
    .where(_changes.c.slot == _heads.c.slot, _is_first)
    .order_by(_changes.c.serial).limit(1).offset(1).scalar_subquery())
_OLD_SLOTS = sa.select(_heads.c.slot).where(_SECOND < _IS_OLD_AFTER).order_by(_heads.c.slot)


def remove_old(ctx: Context, *, keep_seconds: int = KEEP_SECONDS) -> int:
    """Remove the changes that are older than the retention; return the number of rows.

    Any number of processes may do so at the same time.
    """
    removed = 0
    for slot in _list_old_slots(ctx, keep_seconds):
        while rows := _remove_batch(ctx, slot, keep_seconds):
            removed += rows
    metrics.count_removed_rows(_changes.name, removed)
    return removed


def prune_slot(session: Session, slot: int, *, keep_seconds: int, most: int) -> int:
    """Remove old transactions of a slot; return the number of rows.

    :param most: how many transactions to look at, 2 or more.
    """
    # Read before the delete, so that MySQL does not lock what stays.
    until = session.execute(
        _LAST_OLD, {"slot": slot, "keep_seconds": keep_seconds, "most": most}).scalar()
    return 0 if until is None else session.execute_write(
        _REMOVE, {"slot": slot, "until": until})


@db.retry_writes
def _list_old_slots(ctx: Context, keep_seconds: int) -> list[int]:
    with db.read_once(ctx) as session:
        return list(session.execute(_OLD_SLOTS, {"keep_seconds": keep_seconds}).scalars())


@db.retry_writes
def _remove_batch(ctx: Context, slot: int, keep_seconds: int) -> int:
    with db.write(ctx) as session:
        return prune_slot(session, slot, keep_seconds=keep_seconds, most=_BATCH)
