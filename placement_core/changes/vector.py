"""Reading the change log: the changes since the reader's last position.

A reader keeps a ``Vector``: the head of every slot. ``read_digest`` is the cheap query: the
sums of all serials and of all transaction ids. The sum of the serials alone could be the same
after a failover that lost some commits and made others; transaction ids have the time and random
bits, so their sum is not.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from placement_core.changes import kinds, tables
from placement_core.context import Context
from placement_core.db import PreparedRead, Session, number_texts, read_each, retry_writes
from placement_core.db.number_texts import BETWEEN_NUMBERS, BETWEEN_ROWS

_heads, _changes = tables.change_heads, tables.changes

#: True of all heads. A change of limits writes all of them anew. PostgreSQL cannot use the room of
#: the old ones again while other changes of limits wait with older snapshots, so thousands of
#: changes by several clients leave thousands of pages with a head in some: reading all of these
#: takes longer than all else that a request does. With a bound that it does not know when it
#: plans, it expects a third of the heads, and finds them by their key once there are some hundred
#: pages.
_is_head = _heads.c.slot >= sa.select(sa.literal_column("0")).scalar_subquery()

_DIGEST = PreparedRead(
    sa.select(sa.func.sum(_heads.c.serial), sa.func.sum(_heads.c.txn)).where(_is_head))
_HEADS = PreparedRead(
    sa.select(number_texts.gather(_heads.c.slot, _heads.c.serial, _heads.c.txn)).where(_is_head))

#: With this many change rows or more, loading everything is simpler and as fast.
_MOST_CHANGES = 50_000

#: How many slots one statement reads.
_BATCH = 16

#: The rest is for readers of changes, not of indexes. The first transaction that a reader asks
#: for comes whole, because it says whether any is missing.
_is_followed = _changes.c.kind.in_([
    sa.literal_column(f"'{kind}'") for kind in kinds.FOLLOWED])


@functools.cache
def _prepare_since(count: int) -> PreparedRead:
    """Prepare the query for the changes of ``count`` slots, each from a serial on."""
    rows = sa.union_all(*(
        sa.select(_changes.c.slot, _changes.c.serial, _changes.c.txn, _changes.c.kind,
                  _changes.c.ref)
        .where(_changes.c.slot == sa.bindparam(f"slot{place}"),
               _changes.c.serial >= sa.bindparam(f"serial{place}"),
               sa.or_(_is_followed, _changes.c.serial <= sa.bindparam(f"first{place}")))
        for place in range(count)))
    return PreparedRead(rows.order_by("slot", "serial").limit(sa.bindparam("most")))


def _select_moved() -> sa.Select[Any]:
    """Build the query for the heads that moved, with the changes of their slots.

    The seen vector is passed as two texts, which become arrays indexed by slot: that costs
    the driver less than arrays, and the database less than a join.
    """
    arrays = [
        sa.cast(sa.bindparam(name, type_=sa.Text), postgresql.ARRAY(sa.BigInteger)).label(name)
        for name in ("serials", "txns")]
    # The offset keeps the texts from being parsed again for each slot.
    seen = sa.select(*arrays).offset(sa.literal_column("0")).subquery("seen")
    serial, txn = (sa.func.coalesce(array[_heads.c.slot + 1], 0) for array in seen.c)
    # With a limit, so that the rows of a slot are found by the key, whatever the log's size.
    log = (
        sa.select(_changes.c.serial, _changes.c.txn, _changes.c.kind, _changes.c.ref)
        .where(_changes.c.slot == _heads.c.slot, _changes.c.serial >= serial,
               sa.or_(_is_followed, _changes.c.serial <= sa.func.greatest(serial, 1)))
        .order_by(_changes.c.serial)
        .limit(sa.bindparam("most"))
        .lateral("log"))
    return (
        sa.select(_heads.c.slot, _heads.c.serial.label("head_serial"),
                  _heads.c.txn.label("head_txn"), log.c.serial, log.c.txn, log.c.kind, log.c.ref)
        .select_from(seen.join(
            _heads, sa.and_(_is_head, sa.or_(_heads.c.serial != serial, _heads.c.txn != txn)),
        ).outerjoin(log, sa.true()))
        .limit(sa.bindparam("most")))


_MOVED = PreparedRead(_select_moved())

#: (slot, serial, txn): the head that a reader has seen of a slot that moved.
_Seen: TypeAlias = tuple[int, int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Vector:
    """The heads of all slots at one moment: {slot: (serial, txn)}."""

    heads: dict[int, tuple[int, int]]

    @property
    def digest(self) -> tuple[int, int]:
        """Return the two sums that ``read_digest`` reads from the database."""
        serials, txns = zip(*self.heads.values(), strict=True)
        return sum(serials), sum(txns)

    @property
    def texts(self) -> dict[str, str]:
        """Return the parameters of ``_MOVED``: the vector as PostgreSQL's array literals."""
        heads = [self.heads.get(slot, (0, 0)) for slot in range(tables.SLOTS)]
        serials, txns = zip(*heads, strict=True)
        return {name: f"{{{','.join(map(str, column))}}}"
                for name, column in (("serials", serials), ("txns", txns))}


@retry_writes
def read_digest(ctx: Context) -> tuple[int, int]:
    """Return the sums of all serials and transaction ids; equal sums mean no change."""
    [(serials, txns)] = _DIGEST.fetch(ctx)
    return int(serials or 0), int(txns or 0)


def read_current(session: Session) -> Vector:
    """Read the vector of the snapshot that ``session`` sees."""
    [(text,)] = _HEADS.fetch_in(session)
    heads = {}
    for row in text.split(BETWEEN_ROWS):
        slot, serial, txn = map(int, row.split(BETWEEN_NUMBERS))
        heads[slot] = (serial, txn)
    return Vector(heads)


def read_changes(session: Session, seen: Vector, now: Vector) -> set[tuple[str, int]] | None:
    """Return the changes between two vectors.

    :returns: {(kind, ref), …}; None if they are no longer known (rows were
        pruned, the database was restored or failed over with a lost tail), and
        the reader must load everything again.
    """
    moved = _find_moved(seen, now.heads)
    # Of a log that is kept for days, nobody reads more than it takes to load everything.
    if moved is None or now.digest[0] - seen.digest[0] >= _MOST_CHANGES:
        return None
    changed: set[tuple[str, int]] = set()
    for start in range(0, len(moved), _BATCH):
        batch = moved[start:start + _BATCH]
        rows = _read_since(session, batch)
        more = None if rows is None else _collect_changes(batch, rows)
        if more is None:
            return None
        changed |= more
        if len(changed) >= _MOST_CHANGES:
            return None
    return changed


def follow(ctx: Context, seen: Vector) -> tuple[Vector, set[tuple[str, int]] | None]:
    """Return the current vector, and the changes up to it as ``read_changes`` returns them.

    It never reads in the caller's transaction. On PostgreSQL it takes one query, which
    returns only the heads that moved.
    """
    if ctx.database.dialect == "postgresql":
        moves = _MOVED.fetch(ctx, {**seen.texts, "most": _MOST_CHANGES})
        if len(moves) < _MOST_CHANGES:
            return _read_moves(seen, moves)
    with read_each(ctx) as session:
        now = read_current(session)
        return now, read_changes(session, seen, now)


def follow_in(session: Session, seen: Vector) -> tuple[Vector, set[tuple[str, int]] | None]:
    """Return the same for the snapshot that ``session`` sees."""
    if session.dialect == "postgresql":
        moves = _MOVED.fetch_in(session, {**seen.texts, "most": _MOST_CHANGES})
        if len(moves) < _MOST_CHANGES:
            return _read_moves(seen, moves)
    now = read_current(session)
    return now, read_changes(session, seen, now)


def _read_moves(
    seen: Vector, moves: Sequence[Any]
) -> tuple[Vector, set[tuple[str, int]] | None]:
    """Return the current vector and the changes from the rows of ``_MOVED``."""
    heads = {row.slot: (row.head_serial, row.head_txn) for row in moves}
    moved = _find_moved(seen, heads)
    rows = sorted((row for row in moves if row.serial is not None), key=lambda row: row.serial)
    return (Vector({**seen.heads, **heads}),
            None if moved is None else _collect_changes(moved, _group_by_slot(rows)))


def _find_moved(seen: Vector, heads: Mapping[int, tuple[int, int]]) -> list[_Seen] | None:
    """Return the slots among ``heads`` that moved; None: one moved backwards."""
    moved = []
    for slot, (serial, txn) in heads.items():
        seen_serial, seen_txn = seen.heads.get(slot, (0, 0))
        if (serial, txn) == (seen_serial, seen_txn):
            continue
        if serial <= seen_serial:
            return None
        moved.append((slot, seen_serial, seen_txn))
    return moved


def _collect_changes(
    moved: Sequence[_Seen], rows: Mapping[int, Sequence[Any]]
) -> set[tuple[str, int]] | None:
    """Return the changes in the rows of some slots; None: rows are missing."""
    changed: set[tuple[str, int]] = set()
    for slot, seen_serial, seen_txn in moved:
        slot_rows = rows.get(slot)
        # The last transaction that the reader has seen must still be there and be the
        # same (in a new slot: its first one), or else rows in between are missing.
        if not slot_rows or (slot_rows[0].serial, slot_rows[0].txn) != (
                (seen_serial, seen_txn) if seen_serial else (1, slot_rows[0].txn)):
            return None
        changed.update((row.kind, row.ref) for row in slot_rows if row.serial > seen_serial)
    return changed


def _read_since(session: Session, moved: Sequence[_Seen]) -> dict[int, list[Any]] | None:
    """Return the change rows of some slots, from the last seen one on.

    :returns: {slot: its rows by serial}; None when there are too many.
    """
    parameters: dict[str, int] = {"most": _MOST_CHANGES}
    for place, (slot, serial, _) in enumerate(moved):
        parameters |= {f"slot{place}": slot, f"serial{place}": serial,
                       f"first{place}": max(serial, 1)}
    rows = _prepare_since(len(moved)).fetch_in(session, parameters)
    if len(rows) == _MOST_CHANGES:
        return None
    return _group_by_slot(rows)


def _group_by_slot(changes: Iterable[Any]) -> dict[int, list[Any]]:
    rows: dict[int, list[Any]] = {}
    for row in changes:
        rows.setdefault(row.slot, []).append(row)
    return rows
