"""How often to use each combination of providers, so that as many copies as possible fit.

To choose that is an integer program: greedy choices come first, then a search within a budget.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from placement_core.placement.candidates.plans import Plan
from placement_core.placement.candidates.search_budget import BudgetExhausted

#: (row, resource class id)
Cell: TypeAlias = tuple[int, int]
#: What a copy takes of each cell, sorted.
Use: TypeAlias = tuple[tuple[Cell, int], ...]

#: How many rows and uses are looked at for one request: in greedy choices, and in searches.
_MOST_GREEDY_STEPS = 500_000
_MOST_SEARCH_STEPS = 200_000
#: The least that a tree may have looked at in greedy choices: eight devices, two for a copy.
_LEAST_STEPS_IN_TREE = 100
#: What greedy choices divide evenly, they take in such shares of what is there.
_SHARE = 8


class PackingBudget:
    """What may still be looked at for one request: about a second, which its trees share.

    :ivar steps: what was looked at.
    """

    def __init__(self, trees: int) -> None:
        """Initialize the budget.

        :param trees: how many there are; what one leaves over is for those behind it.
        """
        self.steps = 0
        self._trees_left = trees
        self._greedy_left, self._search_left = _MOST_GREEDY_STEPS, _MOST_SEARCH_STEPS
        self._greedy_left_in_tree = self._search_left_in_tree = 0

    def begin_tree(self) -> None:
        """Begin with another tree."""
        trees = max(self._trees_left, 1)
        self._greedy_left_in_tree = max(self._greedy_left // trees, _LEAST_STEPS_IN_TREE)
        self._search_left_in_tree = self._search_left // trees
        self._trees_left -= 1

    def allows(self, steps: int) -> bool:
        """Say whether a greedy choice may look at so many; if not, it has to do with one."""
        return steps <= self._greedy_left_in_tree

    def charge(self, steps: int) -> None:
        """Charge what a greedy choice looks at, whatever is left."""
        self.steps += steps
        self._greedy_left -= steps
        self._greedy_left_in_tree -= steps

    def charge_search(self, steps: int) -> None:
        """Charge what a search is about to look at.

        :raises BudgetExhausted: it may cost no more.
        """
        if self._search_left_in_tree <= 0:
            raise BudgetExhausted
        self.steps += steps
        self._search_left -= steps
        self._search_left_in_tree -= steps


class CopyBounds:
    """How many copies of a plan's parts there can be at most."""

    def __init__(self, plan: Plan) -> None:
        #: {class: what a copy takes of it}.
        self._totals: dict[int, int] = defaultdict(int)
        #: {class: what each of several providers of a copy gives of it, at least}.
        self._apart: dict[int, list[int]] = defaultdict(list)
        for part in plan.parts:
            for class_id, amount in part.resources.items():
                self._totals[class_id] += amount
                if plan.isolate and part.granular:
                    self._apart[class_id].append(amount)

    def bound(self, free: Mapping[Cell, int], most: int) -> int:
        """Return how many there can be, up to ``most``.

        :param free: what there is of the classes that a copy takes.
        """
        by_class: dict[int, list[int]] = defaultdict(list)
        for (_, class_id), amount in free.items():
            by_class[class_id].append(max(amount, 0))
        for class_id, total in self._totals.items():
            most = min(most, sum(by_class[class_id]) // total)
            if len(self._apart[class_id]) > 1:
                most = _bound_apart(by_class[class_id], self._apart[class_id], most)
        return most if self._totals else 0


def _bound_apart(amounts: Iterable[int], needed: Sequence[int], most: int) -> int:
    """Return how many copies there can be that each take from several providers."""
    least = min(needed)
    rooms = [amount // least for amount in amounts]
    low, high = 0, most
    while low < high:
        copies = (low + high + 1) // 2
        if sum([min(room, copies) for room in rooms]) >= copies * len(needed):
            low = copies
        else:
            high = copies - 1
    return low


def count_repeats(use: Use, free: Mapping[Cell, int]) -> int:
    """Return how often what a copy takes, at least something, is there."""
    return min([free[cell] // amount for cell, amount in use])


def take(use: Use, free: dict[Cell, int], copies: int) -> None:
    """Take what some copies take; give it back if they are less than none."""
    for cell, amount in use:
        free[cell] -= amount * copies


def choose_share(repeats: int, *, evenly: bool) -> int:
    """Return how many copies to place where so many fit."""
    return max(1, repeats // _SHARE) if evenly else repeats


def pack(
    uses: Sequence[Use], free: Mapping[Cell, int], enough: int, budget: PackingBudget
) -> list[int]:
    """Return for each of as many copies as fit together the position of its use.

    Of many that compete, more may fit than are found.

    :param enough: how many copies are enough, or there can be.
    """
    if not uses:
        return []
    budget.charge(2 * len(uses))
    # Where uses do not compete, the first choice has them all.
    enough = min(enough, sum([count_repeats(use, free) for use in uses]))
    counts = _fill(uses, dict(free), enough)
    if sum(counts) < enough and budget.allows(len(uses)):
        counts = max(counts, _divide(uses, dict(free), enough, budget), key=sum)
    if sum(counts) < enough:
        counts = _improve(uses, free, counts, enough, budget)
    return [at for at, count in enumerate(counts) for _ in range(count)]


def _fill(uses: Sequence[Use], free: dict[Cell, int], enough: int) -> list[int]:
    """Take of each use in turn as much as there is."""
    counts = []
    for use in uses:
        copies = min(count_repeats(use, free), enough)
        take(use, free, copies)
        counts.append(copies)
        enough -= copies
    return counts


def _divide(
    uses: Sequence[Use], free: dict[Cell, int], enough: int, budget: PackingBudget
) -> list[int]:
    """Take always of the use with the most room a share."""
    counts = [0] * len(uses)
    while enough and budget.allows(len(uses)):
        budget.charge(len(uses))
        rooms = [[free[cell] // amount for cell, amount in use] for use in uses]
        repeats, _, at = max((min(room), sum(room), -at) for at, room in enumerate(rooms))
        if not repeats:
            break
        copies = min(choose_share(repeats, evenly=True), enough)
        take(uses[-at], free, copies)
        counts[-at] += copies
        enough -= copies
    return counts


def _improve(
    uses: Sequence[Use], free: Mapping[Cell, int], counts: list[int], enough: int,
    budget: PackingBudget,
) -> list[int]:
    """Search for more copies than a greedy choice has placed."""
    search = _Search(uses, free, counts, enough)
    try:
        while True:
            budget.charge_search(search.count_remaining())
            if not search.go_on():
                return search.best_counts
    except BudgetExhausted:
        return search.best_counts


class _Search:
    """Takes as much as it can of each use in turn, then less.

    :ivar best_counts: how often each of the first uses is taken in the best packing.
    """

    def __init__(
        self, uses: Sequence[Use], free: Mapping[Cell, int], counts: list[int], enough: int
    ) -> None:
        self.best_counts = counts
        self._uses = uses
        self._free = dict(free)
        self._best = sum(counts)
        self._enough = enough
        #: How often each of the first uses is taken now, and how many copies that are.
        self._counts: list[int] = []
        self._placed = 0

    def count_remaining(self) -> int:
        """Return how many uses the next step looks at."""
        return len(self._uses) - len(self._counts) + 1

    def go_on(self) -> bool:
        """Do one step; return False once nothing better can come."""
        if self._may_improve():
            self._take_next()
            return self._best < self._enough
        return self._take_less()

    def _may_improve(self) -> bool:
        return self._placed + sum(
            [count_repeats(use, self._free)
             for use in self._uses[len(self._counts):]]) > self._best

    def _take_next(self) -> None:
        """Take as much as possible of the next use."""
        use = self._uses[len(self._counts)]
        copies = min(count_repeats(use, self._free), self._enough - self._placed)
        take(use, self._free, copies)
        self._counts.append(copies)
        self._placed += copies
        if self._placed > self._best:
            self._best, self.best_counts = self._placed, [*self._counts]

    def _take_less(self) -> bool:
        """Take one copy less of the last use that is taken; return False: none is."""
        while self._counts and not self._counts[-1]:
            self._counts.pop()
        if not self._counts:
            return False
        self._counts[-1] -= 1
        self._placed -= 1
        take(self._uses[len(self._counts) - 1], self._free, -1)
        return True
