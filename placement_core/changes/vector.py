"""The readers' side of the change log: what changed since I last looked.

A reader remembers a ``Vector``: the head of every slot. The cheap question is
``digest``: the sums of all serials and of all transaction names. A serial sum
alone could come out the same after a failover that lost some commits and made
others; the names are random, so their sum does not.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.changes import tables
from placement_core.context import Context
from placement_core.db import Question, Session, retry_writes

_heads, _changes = tables.change_heads, tables.changes

_DIGEST = Question(sa.select(sa.func.sum(_heads.c.serial), sa.func.sum(_heads.c.txn)))
_HEADS = sa.select(_heads.c.slot, _heads.c.serial, _heads.c.txn)

#: From this many change rows on, loading everything is simpler and as fast.
_MOST_CHANGES = 50_000

#: How many slots one statement is about.
_BATCH = 16


@functools.cache
def _since(count: int) -> sa.Executable:
    """Build the question for the changes of ``count`` slots, each from a serial on."""
    found = sa.union_all(*(
        sa.select(_changes.c.slot, _changes.c.serial, _changes.c.txn, _changes.c.kind,
                  _changes.c.ref)
        .where(_changes.c.slot == sa.bindparam(f"slot{place}"),
               _changes.c.serial >= sa.bindparam(f"serial{place}"))
        for place in range(count)))
    return found.order_by("slot", "serial").limit(sa.bindparam("most"))


@dataclasses.dataclass(frozen=True, slots=True)
class Vector:
    """The heads of all slots at one moment: {slot: (serial, txn)}."""

    heads: dict[int, tuple[int, int]]

    @property
    def digest(self) -> tuple[int, int]:
        """Return the two sums that ``digest`` asks the database for."""
        serials, txns = zip(*self.heads.values(), strict=True)
        return sum(serials), sum(txns)


@retry_writes
def digest(ctx: Context) -> tuple[int, int]:
    """Ask the one cheap question; equal answers mean nothing changed."""
    [(serials, txns)] = _DIGEST.ask(ctx)
    return int(serials or 0), int(txns or 0)


def current(session: Session) -> Vector:
    """Read the vector of the snapshot that ``session`` sees."""
    rows = session.execute(_HEADS)
    return Vector({row.slot: (row.serial, row.txn) for row in rows})


def since(session: Session, seen: Vector, now: Vector) -> set[tuple[str, int]] | None:
    """Say what changed between two vectors.

    :returns: {(kind, ref), …}; None when that is no longer known (rows were
        pruned, the database was restored or failed over with a lost tail) and
        the reader must load everything again.
    """
    moved = []
    for slot, (serial, txn) in now.heads.items():
        seen_serial, seen_txn = seen.heads.get(slot, (0, 0))
        if (serial, txn) == (seen_serial, seen_txn):
            continue
        if serial <= seen_serial:
            return None
        moved.append((slot, seen_serial, seen_txn))
    changed: set[tuple[str, int]] = set()
    for start in range(0, len(moved), _BATCH):
        batch = moved[start:start + _BATCH]
        rows = _read_since(session, batch)
        if rows is None:
            return None
        for slot, seen_serial, seen_txn in batch:
            of_slot = rows.get(slot)
            # The last transaction this reader knew must still be there and be the
            # same (a new slot: its first one), else rows between are missing.
            if not of_slot or (of_slot[0].serial, of_slot[0].txn) != (
                    (seen_serial, seen_txn) if seen_serial else (1, of_slot[0].txn)):
                return None
            changed.update((row.kind, row.ref) for row in of_slot if row.serial > seen_serial)
        if len(changed) >= _MOST_CHANGES:
            return None
    return changed


def _read_since(
    session: Session, moved: Sequence[tuple[int, int, int]]
) -> dict[int, list[sa.Row[Any]]] | None:
    """Return the change rows of some slots, from the last known one on.

    :param moved: (slot, serial, txn) that the reader knew.
    :returns: {slot: its rows by serial}; None when there are too many.
    """
    parameters: dict[str, int] = {"most": _MOST_CHANGES}
    for place, (slot, serial, _) in enumerate(moved):
        parameters |= {f"slot{place}": slot, f"serial{place}": serial}
    found = session.execute(_since(len(moved)), parameters).all()
    if len(found) == _MOST_CHANGES:
        return None
    rows: dict[int, list[sa.Row[Any]]] = {}
    for row in found:
        rows.setdefault(row.slot, []).append(row)
    return rows
