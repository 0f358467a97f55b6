"""Adds up inventories, exactly: how much there is, is in use, is spoken for, and is free."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from placement_core.placement.index.array_types import Amounts, Rows
from placement_core.placement.index.columns import InventoryColumn
from placement_core.placement.index.entries import EntryTable
from placement_core.placement.index.records import InventoryRow
from placement_core.placement.index.snapshot import CapacitySnapshot, ProviderEntry

#: No sum of int64 may reach it.
_TOO_LARGE = 2**63
#: How many rows are added up at a time: bounds the memory that groups with many rows need.
_MOST_ROWS = 200_000


class Room(NamedTuple):
    """Sums over inventories of one resource class.

    ``total`` and ``reserved`` are as in the inventories, ``capacity`` is ``(total - reserved) *
    allocation_ratio`` of each, rounded down. ``held`` is a part of ``used``, ``promised`` a part
    of ``free``. ``free`` is what capacity exceeds usage by, of each inventory by itself.
    ``largest`` is the largest amount that one provider could give at once.
    """

    total: int
    reserved: int
    capacity: int
    used: int
    held: int
    promised: int
    free: int
    largest: int


#: The fields that are sums, in the order of ``RoomColumn.amounts``.
_SUMS = Room._fields[:-1]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RoomColumn:
    """The inventories of one resource class.

    :ivar source: the same inventories in the snapshot that they were read from.
    :ivar entries: of that snapshot.
    :ivar amounts: for each field of ``Room`` but ``largest`` an amount of each inventory: int64,
        or Python's integers where a sum could be larger.
    :ivar largest: of each inventory.
    """

    source: InventoryColumn
    entries: EntryTable[ProviderEntry]
    amounts: Amounts
    largest: Amounts

    @property
    def rows(self) -> Rows:
        """Return the rows of their providers, ascending."""
        return self.source.rows

    def get(self, field: str) -> Amounts:
        """Return the amounts of a field."""
        amounts: Amounts = self.amounts[_SUMS.index(field)]
        return amounts

    def with_claims(self, held: Amounts, promised: Amounts) -> RoomColumn:
        """Return the column with the parts that are held and promised."""
        amounts = self.amounts.copy()
        amounts[_SUMS.index("held")] = np.minimum(held, self.get("used"))
        amounts[_SUMS.index("promised")] = np.minimum(promised, self.get("free"))
        return dataclasses.replace(self, amounts=amounts)


def build_columns(
    snapshot: CapacitySnapshot, before: Mapping[int, RoomColumn]
) -> dict[int, RoomColumn]:
    """Return the columns of all classes with inventories, by their ids, without claims.

    :param before: those of an earlier snapshot; of classes that have not changed since, they are
        returned again, and of others only the rows that changed are read.
    """
    return {
        class_id: _build_column(snapshot, class_id, column, before.get(class_id))
        for class_id, column in sorted(snapshot.columns.items()) if len(column.rows)}


def _build_column(
    snapshot: CapacitySnapshot, class_id: int, column: InventoryColumn, before: RoomColumn | None
) -> RoomColumn:
    if before is not None and before.source is column:
        return before
    amounts = None if before is None else _update_amounts(snapshot, class_id, column.rows, before)
    if amounts is None:
        amounts = _read_amounts(snapshot, class_id, column.rows, len(column.rows))
    return RoomColumn(column, snapshot.entries, amounts, _find_largest(column))


def _update_amounts(
    snapshot: CapacitySnapshot, class_id: int, rows: Rows, before: RoomColumn
) -> Amounts | None:
    """Return the amounts of a column whose rows were others, perhaps; None: read them all.

    Only what changed, and what was not there before, is read.
    """
    positions = np.searchsorted(before.rows, rows)
    positions[positions == len(before.rows)] = 0
    is_known = before.rows[positions] == rows
    is_known &= np.isin(rows, np.array(
        snapshot.entries.list_changes(before.entries), dtype=np.intp), invert=True)
    known = before.amounts[:, positions[is_known]]
    if not len(known[0]) or not _is_exact(int(np.abs(known).max()), len(rows)):
        return None
    changed = _read_amounts(snapshot, class_id, rows[~is_known], len(rows))
    if changed.dtype != known.dtype:
        return None
    amounts = np.empty((len(_SUMS), len(rows)), dtype=known.dtype)
    amounts[:, is_known] = known
    amounts[:, ~is_known] = changed
    return amounts


def _read_amounts(
    snapshot: CapacitySnapshot, class_id: int, rows: Rows, count: int
) -> Amounts:
    """Return the amounts of some inventories of a class.

    :param count: how many there are in the column, whose sums are to be exact.
    """
    if not len(rows):
        return np.empty((len(_SUMS), 0), dtype=np.int64)
    return _make_amounts([
        snapshot.entry(row).inventory(class_id) for row in rows.tolist()], count)


def _make_amounts(inventories: Sequence[InventoryRow], count: int) -> Amounts:
    """Return the amounts of inventories.

    :param count: how many there are in the column, whose sums are to be exact.
    """
    lists = dict(zip(InventoryRow._fields, zip(*inventories, strict=True), strict=True))
    free = [max(capacity - used, 0)
            for capacity, used in zip(lists["capacity"], lists["used"], strict=True)]
    nothing = [0] * len(inventories)
    fields = {**lists, "free": free, "held": nothing, "promised": nothing}
    return _make_exact([fields[name] for name in _SUMS], count)


def _make_exact(lists: Sequence[Sequence[int]], count: int) -> Amounts:
    """Return lists of the same length as an array; sums of ``count`` such amounts are exact."""
    largest = max(max(map(max, lists)), -min(map(min, lists)))
    return np.array(lists, dtype=np.int64 if _is_exact(largest, count) else object)


def _is_exact(largest: int, count: int) -> bool:
    """Say whether the sum of so many amounts, none larger, is exact in 64 bits."""
    return largest * count < _TOO_LARGE


def _find_largest(column: InventoryColumn) -> Amounts:
    """Return the largest amount that each inventory could give at once; 0: none."""
    pieces = np.minimum(np.maximum(column.free, 0), column.max_unit)
    pieces -= pieces % column.step_size
    pieces[pieces < column.min_unit] = 0
    return pieces


def sum_groups(
    columns: Mapping[int, RoomColumn], groups: Sequence[Rows], size: int
) -> list[dict[int, Room]]:
    """Return the room of groups of providers, {class id: its sums}, in the order of the groups.

    Classes of which a group has no inventory are left out.

    :param groups: the rows of each; a row may be in several groups.
    :param size: how many rows there are.
    """
    rooms: list[dict[int, Room]] = [{} for _ in groups]
    for first, last in _split(groups):
        batch = groups[first:last]
        rows = np.concatenate(batch)
        numbers = np.repeat(np.arange(first, last), [len(group) for group in batch])
        for class_id, column in columns.items():
            for number, room in _sum_column(column, rows, numbers, size):
                rooms[number][class_id] = room
    return rooms


def _split(groups: Sequence[Rows]) -> Iterator[tuple[int, int]]:
    """Yield ranges of groups that have a bounded number of rows, or are one group."""
    first, count = 0, 0
    for number, group in enumerate(groups):
        if count and count + len(group) > _MOST_ROWS:
            yield first, number
            first, count = number, 0
        count += len(group)
    if first < len(groups):
        yield first, len(groups)


def _sum_column(
    column: RoomColumn, rows: Rows, numbers: Rows, size: int
) -> Iterator[tuple[int, Room]]:
    """Yield the sums of the groups that have inventory, by their numbers.

    :param numbers: of the group of each row, ascending.
    """
    position_of_row = np.full(size, -1, dtype=np.intp)
    position_of_row[column.rows] = np.arange(len(column.rows))
    positions = position_of_row[rows]
    present = positions >= 0
    positions, numbers = positions[present], numbers[present]
    if not len(positions):
        return
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    sums = np.add.reduceat(column.amounts[:, positions], starts, axis=1)
    largest = np.maximum.reduceat(column.largest[positions], starts)
    for number, *amounts in zip(
            numbers[starts].tolist(), *sums.tolist(), largest.tolist(), strict=True):
        yield number, Room(*amounts)
