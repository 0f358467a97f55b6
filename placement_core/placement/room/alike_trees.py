"""How many copies of parts that depend on each other fit into each of many trees.

Most trees are built alike, and have the same combinations, place by place. Arrays do for all of
them at once what ``tree_packing`` does for one: a greedy choice and an upper bound. Where the two
agree the number is known. The other trees are searched one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from placement_core.placement.candidates.anchor_batches import AnchorBatch
from placement_core.placement.candidates.equivalence import EquivalenceClasses
from placement_core.placement.index.array_types import Mask, Rows
from placement_core.placement.index.snapshot import CapacitySnapshot
from placement_core.placement.room import part_room, tree_packing
from placement_core.placement.room.packing_bounds import Slot, Use
from placement_core.placement.room.part_room import MOST_COPIES, Counts


def pack(batch: AnchorBatch) -> tuple[Counts, bool]:
    """Return how many copies fit into each tree, and whether there is room for no more in any.

    :param batch: the roots, without sharing providers.
    """
    plan, roots = batch.plan, batch.anchors
    copies = np.zeros(len(roots), dtype=np.int64)
    exact = True
    packer = tree_packing.TreePacker(plan)
    equivalence = EquivalenceClasses(plan.budget)
    for places in batch.list_equivalent():
        uses, complete = tree_packing.list_uses(plan, equivalence, batch.tree(int(places[0])))
        known = np.zeros(len(places), dtype=bool)
        if complete and uses and uses[0]:
            copies[places], known = _pack_alike(plan.snapshot, uses, roots[places])
        for place in places[~known].tolist():
            packed = packer.pack(batch.tree(place))
            copies[place] = packed.copies
            exact = exact and packed.exact
    return copies, exact


def _pack_alike(
    snapshot: CapacitySnapshot, uses: Sequence[Use], roots: Rows
) -> tuple[Counts, Mask]:
    """Return how many copies fit into each of some equivalent trees, and where no more do.

    :param uses: what each combination of the first tree takes, at least something.
    """
    slots = sorted({slot for use in uses for slot in use})
    amounts = np.array([[use.get(slot, 0) for slot in slots] for use in uses], dtype=np.int64)
    # Rows of equivalent trees lie in the same places behind those of their roots.
    free = np.stack([part_room.read_free(snapshot, class_id, roots + (row - roots[0]))
                     for row, class_id in slots], axis=1)
    copies = _pack_greedily(amounts, free)
    # What is larger was cut.
    whole = (free < MOST_COPIES).all(axis=1)
    return copies, whole & ~may_fit(slots, amounts, free, copies + 1)


def _pack_greedily(amounts: Counts, free: Counts) -> Counts:
    """Do for each line of ``free`` what ``tree_packing.pack_greedily`` does."""
    left = free.copy()
    copies = np.zeros(len(free), dtype=np.int64)
    unfinished = np.arange(len(free))
    while len(unfinished):
        repeats, chosen = _find_roomiest(amounts, left[unfinished])
        fitting = repeats > 0
        unfinished = unfinished[fitting]
        steps = np.maximum(1, repeats[fitting] // 8)
        left[unfinished] -= steps[:, np.newaxis] * amounts[chosen[fitting]]
        copies[unfinished] += steps
    return copies


def _find_roomiest(amounts: Counts, free: Counts) -> tuple[Counts, Rows]:
    """Return for each line how often the combination with the most room fits, and its number."""
    most = np.zeros(len(free), dtype=np.int64)
    chosen = np.zeros(len(free), dtype=np.intp)
    for number, use in enumerate(amounts):
        taken = np.flatnonzero(use)
        repeats = (free[:, taken] // use[taken]).min(axis=1)
        chosen[repeats > most] = number
        np.maximum(most, repeats, out=most)
    return most, chosen


def may_fit(slots: Sequence[Slot], amounts: Counts, free: Counts, copies: Counts) -> Mask:
    """Say for each tree whether there may be room for so many copies.

    The bounds are those of ``packing_bounds``.

    :param slots: the inventories of one tree, by provider.
    :param amounts: what each combination takes, a line for each, a column for each slot.
    :param free: a line for each tree.
    :param copies: a number for each tree.
    """
    classes = np.array([class_id for _, class_id in slots])
    units = np.gcd.reduce(amounts, axis=0)
    least = np.where(amounts > 0, amounts, amounts.max()).min(axis=0)
    usable = free // units * units
    allowed = np.ones(len(free), dtype=bool)
    for columns in (np.flatnonzero(classes == class_id) for class_id in np.unique(classes)):
        allowed &= usable[:, columns].sum(axis=1) >= copies * amounts[0, columns].sum()
        # Each copy may need several providers at once.
        count = int(np.count_nonzero(amounts[:, columns], axis=1).min())
        served = np.minimum(usable[:, columns] // least[columns], copies[:, np.newaxis])
        allowed &= served.sum(axis=1) >= count * copies
    totals = {class_id: int(amounts[0, classes == class_id].sum())
              for class_id in classes.tolist()}
    scale = math.lcm(*totals.values())
    # Larger products would not be exact.
    if len(totals) == 1 or scale * len(slots) * int(max(free.max(), copies.max())) >= 2**63:
        return allowed
    weights = np.array([scale // totals[class_id] for class_id in classes.tolist()])
    rows = np.array([row for row, _ in slots])
    allowed &= _may_fit_by_provider(rows, amounts * weights, usable * weights, copies)
    return allowed


def _may_fit_by_provider(rows: Rows, amounts: Counts, usable: Counts, copies: Counts) -> Mask:
    """Say for each tree whether there is enough of the scarcest class of each provider.

    :param rows: the provider of each column.
    :param amounts: weighed, as ``usable``.
    """
    trees = np.arange(len(usable))
    scarcest = np.zeros(usable.shape, dtype=bool)
    for columns in (np.flatnonzero(rows == row) for row in np.unique(rows)):
        scarcest[trees, columns[usable[:, columns].argmin(axis=1)]] = True
    lightest = np.minimum.reduce([scarcest @ use for use in amounts])
    enough: Mask = copies * lightest <= np.where(scarcest, usable, 0).sum(axis=1)
    return enough
