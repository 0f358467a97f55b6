"""Removal of old changes from the log, also from slots that nobody writes to any more.

Writers keep the log bounded while they write (``journal``). This makes it small again afterwards.
"""

from __future__ import annotations

import sqlalchemy as sa

from placement_core import db, metrics
from placement_core.changes import tables
from placement_core.context import Context
from placement_core.db import clock

#: How long changes are kept. A reader that is further behind loads everything.
_KEPT_SECONDS = 86_400
#: How many transactions of a slot one statement deletes, with a few rows each.
_BATCH = 100

_heads, _changes = tables.change_heads, tables.changes

_LONG_AGO = clock.in_seconds(sa.literal_column(str(-_KEPT_SECONDS), sa.Integer))
#: Without the last transaction of a slot, by which a reader knows that it missed none.
_OLD = (
    sa.select(_changes.c.slot, sa.func.min(_changes.c.serial).label("first"),
              sa.func.max(_changes.c.serial).label("last"))
    .join(_heads, _heads.c.slot == _changes.c.slot)
    .where(_changes.c.serial < _heads.c.serial, _changes.c.created_at < _LONG_AGO)
    .group_by(_changes.c.slot).order_by(_changes.c.slot))
_REMOVE = sa.delete(_changes).where(
    _changes.c.slot == sa.bindparam("slot"), _changes.c.serial <= sa.bindparam("until"))


def remove_old(ctx: Context) -> int:
    """Remove the changes that are older than a day; return the number of rows.

    The last transaction of each slot stays. Any number of processes may do so at the same time.
    """
    removed = 0
    for slot, first, last in _read_old(ctx):
        for serial in range(first, last + 1, _BATCH):
            removed += _remove(ctx, slot, min(serial + _BATCH - 1, last))
    metrics.count_removed_rows(_changes.name, removed)
    return removed


@db.retry_writes
def _read_old(ctx: Context) -> list[tuple[int, int, int]]:
    """Return the slots with old changes, each with its first and last old serial."""
    with db.read_once(ctx) as session:
        return [(row.slot, row.first, row.last) for row in session.execute(_OLD)]


@db.retry_writes
def _remove(ctx: Context, slot: int, until: int) -> int:
    with db.write(ctx) as session:
        return session.execute_write(_REMOVE, {"slot": slot, "until": until})
