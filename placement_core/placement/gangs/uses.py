"""What copies take of inventories: each of its cells, which are a provider's of one class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
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


def drop_slack_cells(uses: Sequence[Use], free: Mapping[Cell, int]) -> list[Use]:
    """Leave out of each use the cells that never run out before another one does.

    Of cells that the same uses take of, each of them the same amount, as of the processors and
    the memory of a host, only the one with room for the fewest copies matters.
    """
    alike: dict[tuple[int, ...], list[tuple[int, Cell]]] = defaultdict(list)
    for cell, amounts in _list_amounts(uses).items():
        if len({*amounts.values()}) == 1:
            alike[tuple(amounts)].append((free[cell] // min(amounts.values()), cell))
    slack = {cell for cells in alike.values() for _, cell in sorted(cells)[1:]}
    return [tuple([part for part in use if part[0] not in slack]) for use in uses]


def find_narrow_sides(uses: Sequence[Use]) -> set[Cell] | None:
    """Return the cells on one side of what copies flow through, that with the fewer cells.

    Copies are a flow where each use takes of at most one cell of either side, as of a host and of
    a pool, and all that take of a cell take the same amount. Cells that are not connected with
    each other have sides of their own.

    :returns: None: they are no flow.
    """
    if any(len(use) > 2 for use in uses) or any(
            len({*amounts.values()}) > 1 for amounts in _list_amounts(uses).values()):
        return None
    opposite: dict[Cell, set[Cell]] = defaultdict(set)
    for use in uses:
        cells = [cell for cell, _ in use]
        opposite[cells[0]].update(cells[1:])
        opposite[cells[-1]].update(cells[:-1])
    narrow: set[Cell] = set()
    seen: set[Cell] = set()
    for cell in opposite:
        if cell in seen:
            continue
        # Step by step across, and back.
        sides: tuple[set[Cell], set[Cell]] = (set(), {cell})
        reached = {cell}
        while reached:
            reached = set().union(*[opposite[each] for each in reached]) - sides[0]
            sides = (sides[1], sides[0] | reached)
        if sides[0] & sides[1]:
            return None
        seen |= sides[0] | sides[1]
        narrow |= min(sides, key=len)
    return narrow


def _list_amounts(uses: Sequence[Use]) -> dict[Cell, dict[int, int]]:
    """Return for each cell how much each use takes of it, by the use's position."""
    amounts: dict[Cell, dict[int, int]] = defaultdict(dict)
    for at, use in enumerate(uses):
        for cell, amount in use:
            amounts[cell][at] = amount
    return amounts
