"""What each row holds, in blocks that versions share.

A list of all entries would be copied with each change: with 100,000 hosts that takes longer than
everything else that a worker does about a claim, because it counts a reference to each entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")

#: A block has 2 to the power of this many rows.
_SHIFT = 8
_IN_BLOCK = (1 << _SHIFT) - 1


class EntryTable(Generic[T]):
    """The entries of all rows; None for vacant rows. Immutable, but for the entries."""

    __slots__ = ("_blocks", "_size")

    def __init__(self, blocks: list[list[Any]] | None = None, size: int = 0) -> None:
        self._blocks = blocks or []
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T | None]:
        for block in self._blocks:
            yield from block

    def __getitem__(self, row: int) -> T | None:
        entry: T | None = self._blocks[row >> _SHIFT][row & _IN_BLOCK]
        return entry

    def select(self, rows: Iterable[int]) -> list[T]:
        """Return what some rows hold that are not vacant."""
        blocks = self._blocks
        return [blocks[row >> _SHIFT][row & _IN_BLOCK] for row in rows]

    def list_changes(self, before: EntryTable[T]) -> list[int]:
        """Return the rows whose entries are other objects than in an earlier version.

        :param before: a version of the same table, not larger than this one.
        """
        changes = []
        for number, block in enumerate(self._blocks):
            old = before._blocks[number] if number < len(before._blocks) else []
            if block is not old:
                start = number << _SHIFT
                changes += [start + at for at, entry in enumerate(block)
                            if at >= len(old) or entry is not old[at]]
        return changes

    def apply_edits(self, edits: Mapping[int, T | None], size: int) -> EntryTable[T]:
        """Return the table with other entries in some rows, and with ``size`` rows.

        :param size: not less than before.
        """
        blocks = list(self._blocks)
        if size > self._size:
            last = blocks.pop() if self._size & _IN_BLOCK else []
            start = len(blocks) << _SHIFT
            added = [*last, *[None] * (size - start - len(last))]
            blocks += [added[at:at + _IN_BLOCK + 1] for at in range(0, len(added), _IN_BLOCK + 1)]
        for number in {row >> _SHIFT for row in edits}:
            blocks[number] = list(blocks[number])
        for row, entry in edits.items():
            blocks[row >> _SHIFT][row & _IN_BLOCK] = entry
        return EntryTable(blocks, size)
