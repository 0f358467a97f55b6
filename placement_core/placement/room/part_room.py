"""How often one part of a request fits into each tree, were it the only part."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from placement_core.placement.candidates.filters import RequestPart
from placement_core.placement.index.array_types import Mask, Rows
from placement_core.placement.index.columns import LARGEST_AMOUNT
from placement_core.placement.index.snapshot import CapacitySnapshot

#: A number of copies for each tree or provider.
Counts = npt.NDArray[np.int64]

#: A provider has room for no more copies than this; sums over all providers fit 64 bits then.
MOST_COPIES = 2**40


@dataclasses.dataclass(frozen=True, slots=True)
class PartRoom:
    """How often a part fits into each of some trees.

    :ivar own: for each tree how often on providers that only it can use.
    :ivar pools: for each sharing provider that fits how often the part fits there.
    :ivar kinds: which sharing providers serve a tree, booleans: a line for each kind of tree.
    :ivar kind_of_tree: for each tree the number of its line.
    """

    own: Counts
    pools: Counts
    kinds: Mask
    kind_of_tree: Rows

    @property
    def alone(self) -> Counts:
        """Return for each tree how often the part fits if no other tree gets any."""
        shared: Counts = self.kinds @ self.pools
        return self.own + shared[self.kind_of_tree]


def measure(snapshot: CapacitySnapshot, part: RequestPart, roots: Rows) -> PartRoom:
    """Return how often a part fits into the trees with these roots."""
    home = part.home
    if part.away:
        # What is shared is nobody's own, not even in its own tree.
        home = home.copy()
        home[part.away] = False
    rows = np.flatnonzero(home)
    own = add_up(snapshot, rows, count_copies(snapshot, part, rows))[roots]
    kinds, kind_of_tree = _find_kinds(snapshot, part, roots)
    pools = np.array(part.away, dtype=np.intp)
    return PartRoom(own, count_copies(snapshot, part, pools), kinds, kind_of_tree)


def _find_kinds(
    snapshot: CapacitySnapshot, part: RequestPart, roots: Rows
) -> tuple[Mask, Rows]:
    """Return ``kinds`` and ``kind_of_tree`` of the trees with these roots."""
    reach = np.zeros((len(part.away), len(roots)), dtype=bool)
    numbers = np.zeros(len(roots), dtype=np.intp)
    sharing = snapshot.sharing_providers()
    for at, row in enumerate(part.away):
        reach[at] = sharing[row].mask(snapshot.size)[roots]
        if part.closed is not None:
            reach[at] &= ~part.closed[roots]
        _, numbers = np.unique(2 * numbers + reach[at], return_inverse=True)
    _, firsts = np.unique(numbers, return_index=True)
    return reach[:, firsts].T, numbers


def count_copies(snapshot: CapacitySnapshot, part: RequestPart, rows: Rows) -> Counts:
    """Return how often a part fits on each of some rows that fit it."""
    counts = np.full(len(rows), MOST_COPIES, dtype=np.int64)
    for class_id, amount in part.resources.items():
        np.minimum(counts, read_free(snapshot, class_id, rows) // amount, out=counts)
    return counts


def read_free(snapshot: CapacitySnapshot, class_id: int, rows: Rows) -> Counts:
    """Return how much of a class is free on each of some rows that have it."""
    column = snapshot.column(class_id)
    free = column.free[np.searchsorted(column.rows, rows)].astype(np.int64)
    # The column holds what is free only up to a bound.
    for at in np.flatnonzero(free == LARGEST_AMOUNT).tolist():
        inventory = snapshot.entry(int(rows[at])).inventory(class_id)
        free[at] = min(inventory.capacity - inventory.used, MOST_COPIES)
    return free


def add_up(snapshot: CapacitySnapshot, rows: Rows, values: Counts) -> Counts:
    """Return the sum of the values of each tree's rows, at the row of its root."""
    sums = np.zeros(snapshot.size, dtype=np.int64)
    if snapshot.layout.trees:
        np.add.at(sums, snapshot.layout.root[rows], values)
    else:
        sums[rows] = values
    return sums
