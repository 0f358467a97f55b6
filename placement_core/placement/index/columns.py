"""Immutable columns over the rows of a snapshot.

A column holds values only for the rows that have them, sorted by row, so that
hundreds of rare classes or traits cost what they hold. An edit copies the
arrays it changes and shares the others with the version before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from placement_core.placement.index.array_types import Amounts, Mask, Rows
from placement_core.placement.index.records import InventoryRow

#: The largest ``max_unit``, and so the largest amount that can fit anywhere.
LARGEST_AMOUNT = 2**31 - 1
#: Sets that hold at least one in so many rows keep their mask. All of these
#: masks together are at most so many times larger than the sets themselves.
_KEEP_MASK_ABOVE = 64


class RowSet:
    """A set of rows: those that have a trait, say."""

    __slots__ = ("_mask", "rows")

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._mask: Mask | None = None

    @classmethod
    def from_rows(cls, rows: Collection[int]) -> RowSet:
        """Make a set of unsorted row numbers."""
        return cls(np.unique(np.fromiter(rows, dtype=np.intp, count=len(rows))))

    def mask(self, size: int) -> Mask:
        """Return the set as booleans, for reading only."""
        mask = self._mask
        if mask is None or len(mask) != size:
            mask = np.zeros(size, dtype=bool)
            mask[self.rows] = True
            if len(self.rows) * _KEEP_MASK_ABOVE >= size:
                self._mask = mask
        return mask

    def apply_edits(self, added: Collection[int], removed: Collection[int]) -> RowSet:
        """Return the set with rows added and removed."""
        rows = self.rows
        if removed:
            gone = np.fromiter(removed, dtype=np.intp, count=len(removed))
            rows = rows[~np.isin(rows, gone)]
        if added:
            rows = np.concatenate((rows, np.fromiter(added, dtype=np.intp, count=len(added))))
            rows = np.unique(rows)
        return RowSet(rows)


NO_ROWS = RowSet(np.empty(0, dtype=np.intp))


class InventoryColumn:
    """The inventories of one resource class.

    :ivar free: capacity less used, saturated to 32 bits: no amount, and no sum
        of amounts that one provider may give (``max_unit``), is larger.
    """

    _all_steps_one: bool
    __slots__ = ("_all_steps_one", "free", "max_unit", "min_unit", "rows", "step_size")

    def __init__(
        self,
        rows: Rows,
        free: Amounts,
        min_unit: Amounts,
        max_unit: Amounts,
        step_size: Amounts,
        *,
        before: InventoryColumn | None = None,
    ) -> None:
        self.rows = rows
        self.free = free
        self.min_unit = min_unit
        self.max_unit = max_unit
        self.step_size = step_size
        if before is not None and before.step_size is step_size:
            self._all_steps_one = before._all_steps_one
        else:
            self._all_steps_one = bool((step_size == 1).all())

    def find_fitting(self, amount: int, size: int) -> Mask:
        """Return which rows can take ``amount`` at once, as booleans."""
        mask = np.zeros(size, dtype=bool)
        count = len(self.rows)
        if amount > LARGEST_AMOUNT or not count:
            return mask
        fits = self.free >= amount
        fits &= self.min_unit <= amount
        fits &= self.max_unit >= amount
        if not self._all_steps_one:
            fits &= amount % self.step_size == 0
        if self.rows[-1] == count - 1:  # rows 0, 1, 2, …: nothing to scatter
            mask[:count] = fits
        else:
            mask[self.rows] = fits
        return mask

    def apply_edits(self, edits: Mapping[int, InventoryRow | None]) -> InventoryColumn:
        """Return the column with the values of some rows set, or removed (None)."""
        values_by_row = {row: value for row, value in edits.items() if value is not None}
        rows = np.fromiter(values_by_row, dtype=np.intp, count=len(values_by_row))
        values = _make_arrays(values_by_row.values())
        order = np.argsort(rows)
        rows, values = rows[order], [array[order] for array in values]
        old = (self.free, self.min_unit, self.max_unit, self.step_size)
        at, present = _find_positions(self.rows, rows)
        new = [_set_values(array, at[present], array_values[present])
               for array, array_values in zip(old, values, strict=True)]
        keys = self.rows
        gone = [row for row, value in edits.items() if value is None]
        if gone:
            staying = ~np.isin(keys, np.array(gone, dtype=np.intp))
            keys, new = keys[staying], [array[staying] for array in new]
        if not present.all():
            keys = np.concatenate((keys, rows[~present]))
            order = np.argsort(keys)
            keys = keys[order]
            new = [np.concatenate((array, array_values[~present]))[order]
                   for array, array_values in zip(new, values, strict=True)]
        return InventoryColumn(keys, *new, before=self)


NO_INVENTORY = InventoryColumn(
    np.empty(0, dtype=np.intp), *(np.empty(0, dtype=np.int32) for _ in range(4)),
)


def compute_free(inventory: InventoryRow) -> int:
    """Return what is left of an inventory, within 32 bits."""
    return min(max(inventory.capacity - inventory.used, -LARGEST_AMOUNT), LARGEST_AMOUNT)


def _make_arrays(values: Collection[InventoryRow]) -> list[Amounts]:
    count = len(values)
    return [
        np.fromiter((compute_free(value) for value in values), dtype=np.int32, count=count),
        np.fromiter((value.min_unit for value in values), dtype=np.int32, count=count),
        np.fromiter((value.max_unit for value in values), dtype=np.int32, count=count),
        np.fromiter((value.step_size for value in values), dtype=np.int32, count=count),
    ]


def _find_positions(keys: Rows, rows: Rows) -> tuple[Rows, Mask]:
    """Return where ``rows`` are in sorted ``keys``, and which are there."""
    at = np.searchsorted(keys, rows)
    present = at < len(keys)
    present[present] = keys[at[present]] == rows[present]
    return at, present


def _set_values(array: Amounts, at: Rows, values: Amounts) -> Amounts:
    """Return ``array`` with values set; itself when they are there already."""
    if np.array_equal(array[at], values):
        return array
    array = array.copy()
    array[at] = values
    return array
