"""Positions of readers that keep their own: what they have seen of each slot of the change log.

A ``Position`` is a ``Vector`` without the names of all transactions: their sum is enough to find
out whether the log still has what the reader has seen.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from placement_core.changes import errors, tables
from placement_core.changes.vector import Vector
from placement_core.db import PreparedRead, Session

_heads, _changes = tables.change_heads, tables.changes

#: How many slots one statement reads.
_BATCH = 16
#: How many rows of each it reads.
_ROWS_OF_SLOT = 200
#: How many rows are read for one page, if nearly all of them are left out.
_MOST_ROWS = 5000
_SUM_MASK = 2**64 - 1

#: The first transaction of each slot that the log still has.
_FIRST = sa.select(
    _heads.c.slot,
    sa.select(sa.func.min(_changes.c.serial)).where(_changes.c.slot == _heads.c.slot)
    .scalar_subquery().label("serial")).subquery("first")
_BEGINNINGS = PreparedRead(
    sa.select(_changes.c.slot, _changes.c.serial, _changes.c.txn, _changes.c.created_at)
    .join(_FIRST, sa.and_(
        _FIRST.c.slot == _changes.c.slot, _FIRST.c.serial == _changes.c.serial))
    .where(_changes.c.position == 0))


class ChangeRow(NamedTuple):
    """A row of the log: a change of one object.

    :ivar uuid, name, project: None where the kind has none (``kinds``).
    """

    slot: int
    serial: int
    txn: int
    kind: str
    ref: int
    uuid: str | None
    name: str | None
    project: str | None


_COLUMNS = [_changes.c[name] for name in ChangeRow._fields]


@dataclasses.dataclass(frozen=True, slots=True)
class Position:
    """What a reader has seen.

    :ivar serials: of each slot, the serial of the last transaction.
    :ivar digest: the sum of the names of these transactions, modulo 2**64.
    :ivar next_slot: with which slot to continue, so that none starves behind a busy one.
    """

    serials: tuple[int, ...]
    digest: int
    next_slot: int = 0

    @classmethod
    def of(cls, vector: Vector) -> Position:
        """Return the position of a reader that has seen everything up to a vector."""
        heads = [vector.heads.get(slot, (0, 0)) for slot in range(tables.SLOTS)]
        return cls(tuple(serial for serial, _ in heads),
                   sum(txn for _, txn in heads) & _SUM_MASK)

    @property
    def revision(self) -> int:
        """Return the number of transactions up to here."""
        return sum(self.serials)


class LogPage(NamedTuple):
    """Changes, in whole transactions, and the position behind them.

    :ivar is_last: whether there was nothing more in the snapshot.
    """

    rows: list[ChangeRow]
    position: Position
    is_last: bool


def read_page(
    session: Session, position: Position, now: Vector, *,
    get_key: Callable[[ChangeRow], Hashable | None], most_keys: int,
) -> LogPage:
    """Return the next changes behind a position, slot by slot.

    A transaction is never split, so there may be more of them than asked for.

    :param now: the vector of the snapshot that ``session`` sees.
    :param get_key: returns what a row is about; None: it is left out.
    :param most_keys: with so many different keys, the page is full.
    :raises errors.ChangesRemoved: changes since the position were removed.
    :raises errors.DatabaseReplaced: the position is of another database.
    """
    txns = _read_seen(session, position, now)
    serials, digest = list(position.serials), position.digest
    pending = sorted(txns, key=lambda slot: (slot - position.next_slot) % tables.SLOTS)
    rows: list[ChangeRow] = []
    keys: set[Hashable] = set()
    examined, next_slot = 0, position.next_slot
    while pending and len(keys) < most_keys and examined < _MOST_ROWS:
        batch, pending = pending[:_BATCH], pending[_BATCH:]
        read = _read_rows(session, {slot: serials[slot] for slot in batch})
        if len(read) < len(batch):
            raise errors.ChangesRemoved(*find_oldest(session, now))
        for place, slot in enumerate(batch):
            for transaction in _split(session, read.get(slot, [])):
                if transaction[0].serial != serials[slot] + 1:
                    raise errors.ChangesRemoved(*find_oldest(session, now))
                examined += len(transaction)
                for row in transaction:
                    key = get_key(row)
                    if key is not None:
                        keys.add(key)
                        rows.append(row)
                serials[slot], txn = transaction[0].serial, transaction[0].txn
                digest, txns[slot] = digest - txns[slot] + txn, txn
                if len(keys) >= most_keys or examined >= _MOST_ROWS:
                    break
            next_slot = (slot + 1) % tables.SLOTS
            if serials[slot] < now.heads[slot][0]:
                pending.append(slot)
            if len(keys) >= most_keys or examined >= _MOST_ROWS:
                pending += batch[place + 1:]
                break
    return LogPage(rows, Position(tuple(serials), digest & _SUM_MASK, next_slot), not pending)


def check(session: Session, position: Position, now: Vector) -> None:
    """Find out whether the log still has what was seen up to a position.

    :param now: the vector of the snapshot that ``session`` sees.
    :raises errors.PositionLost: it has not; as ``read_page``.
    """
    _read_seen(session, position, now)


def find_oldest(session: Session, now: Vector) -> tuple[Position, datetime.datetime | None]:
    """Return the oldest position that can be read from, and the time of its oldest change."""
    heads = dict(now.heads)
    times = []
    for row in _BEGINNINGS.fetch_in(session):
        heads[row.slot] = row.serial, row.txn
        times.append(row.created_at)
    return Position.of(Vector(heads)), min(times, default=None)


def _read_seen(session: Session, position: Position, now: Vector) -> dict[int, int]:
    """Return what a reader has seen last of the slots that moved: {slot: name; 0: nothing}.

    :raises errors.PositionLost: see ``read_page``.
    """
    moved: dict[int, int] = {}
    digest = 0
    for slot, seen in enumerate(position.serials):
        serial, txn = now.heads.get(slot, (0, 0))
        if serial < seen:
            raise errors.DatabaseReplaced(*find_oldest(session, now))
        if serial > seen:
            moved[slot] = seen
        else:
            digest += txn
    # Of a slot that had nothing, the first transaction has to be there.
    txns = _read_txns(session, {slot: seen or 1 for slot, seen in moved.items()})
    if len(txns) < len(moved):
        raise errors.ChangesRemoved(*find_oldest(session, now))
    seen_txns = {slot: txns[slot] if seen else 0 for slot, seen in moved.items()}
    if (digest + sum(seen_txns.values())) & _SUM_MASK != position.digest:
        raise errors.DatabaseReplaced(*find_oldest(session, now))
    return seen_txns


@functools.cache
def _select_txns(count: int) -> PreparedRead:
    return PreparedRead(sa.union_all(*(
        sa.select(_changes.c.slot, _changes.c.txn).where(
            _changes.c.slot == sa.bindparam(f"slot{place}"),
            _changes.c.serial == sa.bindparam(f"serial{place}"), _changes.c.position == 0)
        for place in range(count))))


def _read_txns(session: Session, serials: Mapping[int, int]) -> dict[int, int]:
    """Return {slot: the name of the transaction of this serial}, without those that are gone."""
    txns: dict[int, int] = {}
    slots = sorted(serials)
    for start in range(0, len(slots), _BATCH):
        batch = slots[start:start + _BATCH]
        txns.update(_select_txns(len(batch)).fetch_in(session, _number(batch, serials)))
    return txns


@functools.cache
def _select_rows(count: int) -> PreparedRead:
    """Build the query for the oldest rows of ``count`` slots, each behind a serial."""
    parts = [
        sa.select(*_COLUMNS, _changes.c.position).where(
            _changes.c.slot == sa.bindparam(f"slot{place}"),
            _changes.c.serial > sa.bindparam(f"serial{place}"))
        .order_by(_changes.c.serial, _changes.c.position).limit(_ROWS_OF_SLOT)
        .subquery(f"part{place}") for place in range(count)]
    rows = sa.union_all(*(sa.select(part) for part in parts)).subquery("rows")
    return PreparedRead(
        sa.select(*(rows.c[name] for name in ChangeRow._fields))
        .order_by(rows.c.slot, rows.c.serial, rows.c.position))


_TRANSACTION = PreparedRead(
    sa.select(*_COLUMNS)
    .where(_changes.c.slot == sa.bindparam("slot"), _changes.c.serial == sa.bindparam("serial"))
    .order_by(_changes.c.position))


def _read_rows(session: Session, serials: Mapping[int, int]) -> dict[int, list[ChangeRow]]:
    """Return the oldest rows behind these serials, by slot."""
    rows: dict[int, list[ChangeRow]] = {}
    for row in _select_rows(len(serials)).fetch_in(session, _number(list(serials), serials)):
        rows.setdefault(row.slot, []).append(ChangeRow._make(row))
    return rows


def _number(slots: Sequence[int], serials: Mapping[int, int]) -> dict[str, int]:
    """Return the parameters of a statement for these slots."""
    parameters: dict[str, int] = {}
    for place, slot in enumerate(slots):
        parameters |= {f"slot{place}": slot, f"serial{place}": serials[slot]}
    return parameters


def _split(session: Session, rows: Sequence[ChangeRow]) -> Iterator[list[ChangeRow]]:
    """Yield the transactions of a slot's rows, each whole.

    :param rows: as ``_read_rows`` returns them: the last transaction may be cut off.
    """
    transactions = [list(group) for _, group in itertools.groupby(rows, lambda row: row.serial)]
    if len(rows) == _ROWS_OF_SLOT:
        last = transactions.pop()[0]
        if not transactions:
            transactions = [[ChangeRow._make(row) for row in _TRANSACTION.fetch_in(
                session, {"slot": last.slot, "serial": last.serial})]]
    yield from transactions
