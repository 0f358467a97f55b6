"""The readers' side of the change log: what changed since I last looked.

A reader remembers a ``Vector``: the head of every slot. The cheap question is
``read_digest``: the sums of all serials and of all transaction names. A serial sum
alone could come out the same after a failover that lost some commits and made
others; the names are random, so their sum does not.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from placement_core.changes import tables
from placement_core.context import Context
from placement_core.db import PreparedRead, Session, read_each, retry_writes

_heads, _changes = tables.change_heads, tables.changes

_DIGEST = PreparedRead(sa.select(sa.func.sum(_heads.c.serial), sa.func.sum(_heads.c.txn)))
_HEADS = sa.select(_heads.c.slot, _heads.c.serial, _heads.c.txn)

#: From this many change rows on, loading everything is simpler and as fast.
_MOST_CHANGES = 50_000

#: How many slots one statement is about.
_BATCH = 16


@functools.cache
def _since(count: int) -> sa.Executable:
    """Build the question for the changes of ``count`` slots, each from a serial on."""
    rows = sa.union_all(*(
        sa.select(_changes.c.slot, _changes.c.serial, _changes.c.txn, _changes.c.kind,
                  _changes.c.ref)
        .where(_changes.c.slot == sa.bindparam(f"slot{place}"),
               _changes.c.serial >= sa.bindparam(f"serial{place}"))
        for place in range(count)))
    return rows.order_by("slot", "serial").limit(sa.bindparam("most"))


def _moved_on_postgresql() -> sa.Select[Any]:
    """Build the question for the heads that moved, with the changes of their slots.

    The seen vector is handed over as two texts, which become arrays by slot: that costs
    the driver less than arrays, and the database less than a join.
    """
    arrays = [
        sa.cast(sa.bindparam(name, type_=sa.Text), postgresql.ARRAY(sa.BigInteger)).label(name)
        for name in ("serials", "txns")]
    # The offset keeps the texts from being read again for each slot.
    seen = sa.select(*arrays).offset(sa.literal_column("0")).subquery("given")
    serial, txn = (sa.func.coalesce(array[_heads.c.slot + 1], 0) for array in seen.c)
    # Limited, so that each slot's are found by the key, whatever else the log holds.
    log = (
        sa.select(_changes.c.serial, _changes.c.txn, _changes.c.kind, _changes.c.ref)
        .where(_changes.c.slot == _heads.c.slot, _changes.c.serial >= serial)
        .order_by(_changes.c.serial)
        .limit(sa.bindparam("most"))
        .lateral("log"))
    return (
        sa.select(_heads.c.slot, _heads.c.serial.label("head_serial"),
                  _heads.c.txn.label("head_txn"), log.c.serial, log.c.txn, log.c.kind, log.c.ref)
        .select_from(seen.join(
            _heads, sa.or_(_heads.c.serial != serial, _heads.c.txn != txn),
        ).outerjoin(log, sa.true()))
        .limit(sa.bindparam("most")))


_MOVED = PreparedRead(_moved_on_postgresql())

#: (slot, serial, txn) that a reader knew of a slot that moved.
_Seen: TypeAlias = tuple[int, int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Vector:
    """The heads of all slots at one moment: {slot: (serial, txn)}."""

    heads: dict[int, tuple[int, int]]

    @property
    def digest(self) -> tuple[int, int]:
        """Return the two sums that ``read_digest`` asks the database for."""
        serials, txns = zip(*self.heads.values(), strict=True)
        return sum(serials), sum(txns)

    @property
    def texts(self) -> dict[str, str]:
        """Return it as the parameters of ``_MOVED``: as PostgreSQL writes arrays."""
        heads = [self.heads.get(slot, (0, 0)) for slot in range(tables.SLOTS)]
        serials, txns = zip(*heads, strict=True)
        return {name: f"{{{','.join(map(str, column))}}}"
                for name, column in (("serials", serials), ("txns", txns))}


@retry_writes
def read_digest(ctx: Context) -> tuple[int, int]:
    """Ask the one cheap question; equal answers mean nothing changed."""
    [(serials, txns)] = _DIGEST.fetch(ctx)
    return int(serials or 0), int(txns or 0)


def read_current(session: Session) -> Vector:
    """Read the vector of the snapshot that ``session`` sees."""
    rows = session.execute(_HEADS)
    return Vector({row.slot: (row.serial, row.txn) for row in rows})


def read_changes(session: Session, seen: Vector, now: Vector) -> set[tuple[str, int]] | None:
    """Say what changed between two vectors.

    :returns: {(kind, ref), …}; None when that is no longer known (rows were
        pruned, the database was restored or failed over with a lost tail) and
        the reader must load everything again.
    """
    moved = _moved(seen, now.heads)
    if moved is None:
        return None
    changed: set[tuple[str, int]] = set()
    for start in range(0, len(moved), _BATCH):
        batch = moved[start:start + _BATCH]
        rows = _read_since(session, batch)
        more = None if rows is None else _changed(batch, rows)
        if more is None:
            return None
        changed |= more
        if len(changed) >= _MOST_CHANGES:
            return None
    return changed


def follow(ctx: Context, seen: Vector) -> tuple[Vector, set[tuple[str, int]] | None]:
    """Return the present vector, and what changed before it, as ``read_changes`` says it.

    Never of the moment of the caller's transaction. On PostgreSQL it is one question,
    whose answer has the heads that moved instead of all.
    """
    if ctx.database.dialect == "postgresql":
        moves = _MOVED.fetch(ctx, {**seen.texts, "most": _MOST_CHANGES})
        if len(moves) < _MOST_CHANGES:
            heads = {row.slot: (row.head_serial, row.head_txn) for row in moves}
            moved = _moved(seen, heads)
            rows = sorted((row for row in moves if row.serial is not None),
                          key=lambda row: row.serial)
            return (Vector({**seen.heads, **heads}),
                    None if moved is None else _changed(moved, _by_slot(rows)))
    with read_each(ctx) as session:
        now = read_current(session)
        return now, read_changes(session, seen, now)


def _moved(seen: Vector, heads: Mapping[int, tuple[int, int]]) -> list[_Seen] | None:
    """Return the slots that moved, of some heads; None: one went back."""
    moved = []
    for slot, (serial, txn) in heads.items():
        seen_serial, seen_txn = seen.heads.get(slot, (0, 0))
        if (serial, txn) == (seen_serial, seen_txn):
            continue
        if serial <= seen_serial:
            return None
        moved.append((slot, seen_serial, seen_txn))
    return moved


def _changed(
    moved: Sequence[_Seen], rows: Mapping[int, Sequence[Any]]
) -> set[tuple[str, int]] | None:
    """Return what the change rows of some slots say; None: some rows are missing."""
    changed: set[tuple[str, int]] = set()
    for slot, seen_serial, seen_txn in moved:
        of_slot = rows.get(slot)
        # The last transaction this reader knew must still be there and be the
        # same (a new slot: its first one), else rows between are missing.
        if not of_slot or (of_slot[0].serial, of_slot[0].txn) != (
                (seen_serial, seen_txn) if seen_serial else (1, of_slot[0].txn)):
            return None
        changed.update((row.kind, row.ref) for row in of_slot if row.serial > seen_serial)
    return changed


def _read_since(session: Session, moved: Sequence[_Seen]) -> dict[int, list[Any]] | None:
    """Return the change rows of some slots, from the last known one on.

    :returns: {slot: its rows by serial}; None when there are too many.
    """
    parameters: dict[str, int] = {"most": _MOST_CHANGES}
    for place, (slot, serial, _) in enumerate(moved):
        parameters |= {f"slot{place}": slot, f"serial{place}": serial}
    rows = session.execute(_since(len(moved)), parameters).all()
    if len(rows) == _MOST_CHANGES:
        return None
    return _by_slot(rows)


def _by_slot(changes: Iterable[Any]) -> dict[int, list[Any]]:
    rows: dict[int, list[Any]] = {}
    for row in changes:
        rows.setdefault(row.slot, []).append(row)
    return rows
