"""What copies take of inventories: each of its cells, which are a provider's of one class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

#: (row, resource class id)
Cell: TypeAlias = tuple[int, int]
#: What a copy takes of each cell, sorted.
Use: TypeAlias = tuple[tuple[Cell, int], ...]


def count_repeats(use: Use, free: Mapping[Cell, int]) -> int:
    """Return how often what a copy takes, at least something, is there."""
    return min([free[cell] // amount for cell, amount in use])


def take(use: Use, free: dict[Cell, int], copies: int) -> None:
    """Take what some copies take; give it back if they are less than none."""
    for cell, amount in use:
        free[cell] -= amount * copies
