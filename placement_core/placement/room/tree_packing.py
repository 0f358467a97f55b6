"""How many copies of parts that depend on each other fit into one tree.

A copy is one combination of the tree's providers, and combinations compete for them. To choose how
often to use each is an integer program: a greedy choice is compared with an upper bound, and only
where they differ a branch-and-bound search decides, within the budget of the request.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Hashable, Sequence

from placement_core.placement.candidates.combine import AnchorTree, Combination
from placement_core.placement.candidates.equivalence import EquivalenceClasses
from placement_core.placement.candidates.plans import Plan
from placement_core.placement.candidates.search_budget import BudgetExhausted, SearchBudget
from placement_core.placement.room import packing_bounds
from placement_core.placement.room.packing_bounds import Slot, Use
from placement_core.placement.room.part_room import MOST_COPIES

#: How many combinations of a tree are regarded at most.
_MOST_COMBINATIONS = 500
#: How many nodes the search in one tree may take.
_MOST_NODES = 4000


@dataclasses.dataclass(frozen=True, slots=True)
class PackedCopies:
    """How many copies fit.

    :ivar exact: False: there may be room for more.
    """

    copies: int
    exact: bool


class TreePacker:
    """Packs trees; equal ones are packed once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._known: dict[Hashable, PackedCopies] = {}
        self._allowance = _Allowance(plan.budget)
        self._equivalence = EquivalenceClasses(plan.budget)
        # Whatever is used of a class, it is a multiple of this.
        self._units: dict[int, int] = {}
        for part in plan.parts:
            for class_id, amount in part.resources.items():
                self._units[class_id] = math.gcd(self._units.get(class_id, 0), amount)

    def pack(self, tree: AnchorTree) -> PackedCopies:
        """Return how many copies fit into a tree."""
        key = self._make_key(tree)
        packed = self._known.get(key) if key is not None else None
        if packed is None:
            packed = self._search(tree)
            if key is not None:
                self._known[key] = packed
        return packed

    def _make_key(self, tree: AnchorTree) -> Hashable | None:
        """Return what trees with equal answers have in common; None: that is not known."""
        if tree.key is None:
            return None
        slots = dict.fromkeys(
            (row, class_id) for part, rows in zip(self._plan.parts, tree.options, strict=True)
            for row in rows for class_id in part.resources)
        return tree.key, tuple(
            [read_free(self._plan, slot) // self._units[slot[1]] for slot in slots])

    def _search(self, tree: AnchorTree) -> PackedCopies:
        uses, complete = list_uses(self._plan, self._equivalence, tree)
        if not uses:
            return PackedCopies(0, complete)
        if not uses[0]:
            # Groups without resources: they take nothing.
            return PackedCopies(MOST_COPIES, True)
        free = {slot: read_free(self._plan, slot) for use in uses for slot in use}
        packed = _Search(uses, self._allowance).run(free)
        return packed if complete else dataclasses.replace(packed, exact=False)


def list_uses(
    plan: Plan, equivalence: EquivalenceClasses, tree: AnchorTree
) -> tuple[list[Use], bool]:
    """Return what combinations of a tree take, each once, and whether these are all of them."""
    combinations = list(itertools.islice(
        equivalence.combinations(tree), _MOST_COMBINATIONS + 1))
    uses = {tuple(sorted(_add_up(plan, combination).items()))
            for combination in combinations[:_MOST_COMBINATIONS]}
    # Once the search of a tree was broken off, others that are equal may lack combinations, too.
    complete = len(combinations) <= _MOST_COMBINATIONS and not plan.budget.abandoned_trees
    return [dict(use) for use in sorted(uses)], complete


def read_free(plan: Plan, slot: Slot) -> int:
    """Return how much of an inventory is free."""
    inventory = plan.snapshot.entry(slot[0]).inventory(slot[1])
    return inventory.capacity - inventory.used


def count_repeats(use: Use, free: dict[Slot, int]) -> int:
    """Return how often what a combination takes is there."""
    return min((free[slot] // amount for slot, amount in use.items()), default=MOST_COPIES)


def take(use: Use, free: dict[Slot, int], copies: int) -> None:
    """Take some copies of what a combination takes."""
    for slot, amount in use.items():
        free[slot] -= amount * copies


def _add_up(plan: Plan, combination: Combination) -> Counter[Slot]:
    use: Counter[Slot] = Counter()
    for part, row in zip(plan.parts, combination, strict=True):
        for class_id, amount in part.resources.items():
            use[row, class_id] += amount
    return use


class _Allowance:
    """Nodes of the search, drawn from the budget of the request."""

    def __init__(self, budget: SearchBudget) -> None:
        self._budget = budget
        self._nodes = 0
        self._left_for_tree = 0

    def begin_tree(self) -> None:
        """Begin with another tree."""
        self._left_for_tree = _MOST_NODES

    def charge(self) -> None:
        """Charge a node.

        :raises BudgetExhausted: the tree, or the request, may cost no more.
        """
        if not self._left_for_tree:
            raise BudgetExhausted
        if not self._nodes:
            self._nodes = self._budget.draw()
        self._nodes -= 1
        self._left_for_tree -= 1


class _Search:
    """Chooses how often to use each combination of a tree.

    :param uses: what each combination takes; of each class all take the same in all.
    """

    def __init__(self, uses: list[Use], allowance: _Allowance) -> None:
        self._uses = uses
        self._allowance = allowance
        self._best = 0
        #: For each combination the bounds of what it and those after it can do.
        self._bounds = [packing_bounds.Bounds(uses[first:]) for first in range(len(uses))]

    def run(self, free: dict[Slot, int]) -> PackedCopies:
        """Return how many copies fit."""
        self._allowance.begin_tree()
        self._best = pack_greedily(self._uses, dict(free))
        try:
            self._branch(0, free, 0)
        except BudgetExhausted:
            return PackedCopies(self._best, False)
        return PackedCopies(self._best, True)

    def _branch(self, first: int, free: dict[Slot, int], copies: int) -> None:
        """Try each number of the first of the remaining combinations."""
        self._best = max(self._best, copies)
        if first == len(self._uses) or not self._bounds[first].allow(
                free, self._best + 1 - copies):
            return
        self._allowance.charge()
        use = self._uses[first]
        most = count_repeats(use, free)
        # Nothing else could use what the last one leaves.
        least = most if first + 1 == len(self._uses) else 0
        for repeats in range(most, least - 1, -1):
            left = dict(free)
            take(use, left, repeats)
            self._branch(first + 1, left, copies + repeats)


def pack_greedily(uses: Sequence[Use], free: dict[Slot, int]) -> int:
    """Return how many copies fit where always the combination with the most room is used.

    :param uses: what each takes, at least something.
    """
    copies = 0
    while True:
        repeats, at = max((count_repeats(use, free), -at) for at, use in enumerate(uses))
        if not repeats:
            return copies
        # In shares of what is there, so that large numbers take few rounds.
        step = max(1, repeats // 8)
        take(uses[-at], free, step)
        copies += step
