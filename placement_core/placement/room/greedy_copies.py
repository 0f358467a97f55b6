"""A number of copies that can be placed, where the largest number is not known."""

from __future__ import annotations

import dataclasses
from collections import ChainMap

import numpy as np

from placement_core.placement.candidates.anchor_batches import AnchorBatch
from placement_core.placement.candidates.equivalence import EquivalenceClasses
from placement_core.placement.candidates.search import Choices
from placement_core.placement.room import tree_packing
from placement_core.placement.room.packing_bounds import Slot, Use
from placement_core.placement.room.part_room import Counts


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedCopies:
    """What was placed.

    :ivar total: how many in all.
    :ivar on_each: how many in each tree if no other gets any.
    :ivar impossible: no combination is a candidate.
    """

    total: int
    on_each: Counts
    impossible: bool


def place(choices: Choices) -> PlacedCopies:
    """Place copies in one tree after the other, always where the most fit in the same way.

    :param choices: with at least one anchor.
    """
    plan = choices.plan
    equivalence = EquivalenceClasses(plan.budget)
    free: dict[Slot, int] = {}
    total = 0
    impossible = True
    on_each = np.zeros(len(choices.anchors), dtype=np.int64)
    # Each tree with all of its combinations, also those that an earlier one has, too.
    batch = AnchorBatch(
        plan, choices.anchors, choices.rows, choices.roots, shared=None, shuffled=False)
    for at, tree in enumerate(batch.trees()):
        uses, complete = tree_packing.list_uses(plan, equivalence, tree)
        impossible = impossible and complete and not uses
        before = {slot: tree_packing.read_free(plan, slot) for use in uses for slot in use}
        on_each[at] = _fill(uses, dict(before))
        left = dict(ChainMap(free, before))
        total += _fill(uses, left)
        free |= left
    return PlacedCopies(total, on_each, impossible)


def _fill(uses: list[Use], free: dict[Slot, int]) -> int:
    return tree_packing.pack_greedily(uses, free) if uses else 0
