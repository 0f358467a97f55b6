"""How often to use each combination of providers, so that as many copies as possible fit.

To choose that is an integer program: greedy choices come first, then exchanges, then a search
within a budget.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from placement_core.placement.candidates.plans import Plan
from placement_core.placement.candidates.search_budget import BudgetExhausted
from placement_core.placement.gangs.uses import (
    Cell,
    Use,
    count_repeats,
    drop_slack_cells,
    find_narrow_sides,
    take,
)

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

    @property
    def search_left(self) -> int:
        """Return how much searches in this tree may still look at."""
        return self._search_left_in_tree

    def charge_search(self, steps: int, kept: int = 0) -> None:
        """Charge what a search is about to look at.

        :param kept: what is to be left for others.
        :raises BudgetExhausted: it may cost no more.
        """
        if self._search_left_in_tree <= kept:
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


def choose_share(repeats: int, *, evenly: bool) -> int:
    """Return how many copies to place where so many fit."""
    return max(1, repeats // _SHARE) if evenly else repeats


def pack(
    uses: Sequence[Use], free: Mapping[Cell, int], enough: int, budget: PackingBudget
) -> list[int]:
    """Return for each of as many copies as fit together the position of its use.

    Of many that compete, more may fit than are found, unless each takes of its host and of one of
    several pools, or of less.

    :param enough: how many copies are enough, or there can be.
    """
    if not uses:
        return []
    budget.charge(2 * len(uses))
    # Where uses do not compete, the first choice has them all.
    enough = min(enough, sum([count_repeats(use, free) for use in uses]))
    counts = _fill(uses, dict(free), enough)
    if sum(counts) < enough:
        counts = _search(drop_slack_cells(uses, free), free, counts, enough, budget)
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


def _search(
    uses: Sequence[Use], free: Mapping[Cell, int], counts: list[int], enough: int,
    budget: PackingBudget,
) -> list[int]:
    """Search for more copies than the first choice has placed.

    Where exchanges find the most, they are all that is needed.
    """
    side = find_narrow_sides(uses)
    if side is None and budget.allows(len(uses)):
        counts = max(counts, _divide(uses, dict(free), enough, budget), key=sum)
    exchange = _Exchange(uses, free, counts, enough, budget, side)
    try:
        while exchange.missing and exchange.go_on():
            pass
    except BudgetExhausted:
        pass
    if exchange.missing and side is None:
        return _improve(uses, free, exchange.counts, enough, budget)
    return exchange.counts


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


class _Move(NamedTuple):
    """A copy that comes where a cell lacks room for it.

    :ivar cell: that which the copy leaves; None: it is a new one.
    :ivar left: the position of the use that it leaves; ``joined``: of the one that it joins.
    """

    cell: Cell | None
    left: int | None
    joined: int


class _Exchange:
    """Finds room for more copies by moving others, each to where the next one leaves.

    Where copies are a flow, as from hosts to pools, it finds the most that fit, from one of both
    sides: what is not the largest flow has an augmenting path. Elsewhere it may find less, and
    leaves half of the budget for a search.

    :ivar counts: how often each use is taken.
    :ivar missing: how many copies more would be enough.
    """

    def __init__(
        self, uses: Sequence[Use], free: Mapping[Cell, int], counts: Sequence[int], enough: int,
        budget: PackingBudget, side: set[Cell] | None,
    ) -> None:
        """Initialize the exchange.

        :param side: the cells at which copies change places; None: at all of them.
        """
        self._budget, self._side = budget, side
        self._kept = budget.search_left // 2 if side is None else 0
        self.counts = [*counts, *[0] * (len(uses) - len(counts))]
        self.missing = enough - sum(counts)
        self._uses = uses
        self._free = dict(free)
        self._at_cell: dict[Cell, list[int]] = defaultdict(list)
        for at, use in enumerate(uses):
            take(use, self._free, self.counts[at])
            for cell, _ in use:
                self._at_cell[cell].append(at)

    def go_on(self) -> bool:
        """Do as many of the shortest chains of moves as there is room for; say whether any.

        Source: Dinic's algorithm, whose blocking flows these are.

        :raises BudgetExhausted: it may cost no more.
        """
        # {cell without room: the moves that come there, after as few others as possible}
        coming: dict[Cell, list[_Move]] = {}
        self._budget.charge_search(len(self._uses), self._kept)
        moves = [_Move(None, None, at) for at in range(len(self._uses))]
        missing = self.missing
        while moves:
            last: list[_Move] = []
            reached: dict[Cell, list[_Move]] = defaultdict(list)
            for move in moves:
                lacking = self._find_lacking(move)
                if not lacking:
                    last.append(move)
                elif len(lacking) == 1 and self._may_change(lacking[0], coming):
                    reached[lacking[0]].append(move)
            coming |= reached
            for move in last:
                self._place(move, coming)
            if self.missing < missing:
                return True
            moves = [move for cell in reached for move in self._list_moves(cell)]
        return False

    def _may_change(self, cell: Cell, coming: Collection[Cell]) -> bool:
        """Say whether moves are to come to a cell that none have reached before."""
        return cell not in coming and (self._side is None or cell in self._side)

    def _find_lacking(self, move: _Move) -> list[Cell]:
        """Return the cells that lack room for a copy that moves."""
        back = {} if move.left is None else dict(self._uses[move.left])
        return [cell for cell, amount in self._uses[move.joined]
                if self._free[cell] + back.get(cell, 0) < amount]

    def _list_moves(self, cell: Cell) -> Iterator[_Move]:
        """Yield how copies can leave a cell, for uses that have something in common with theirs.

        Where nothing is, what they leave is of no use for them.
        """
        leaving = {*self._at_cell[cell]}
        for left in self._at_cell[cell]:
            if not self.counts[left]:
                continue
            near = {at for other, _ in self._uses[left] if other != cell
                    for at in self._at_cell[other]} - leaving
            self._budget.charge_search(len(near) + 1, self._kept)
            yield from [_Move(cell, left, joined) for joined in sorted(near)]

    def _place(self, last: _Move, coming: Mapping[Cell, list[_Move]]) -> None:
        """Do chains that end with a move, as often as there is room for them."""
        while self.missing and (chain := self._trace(last, coming)):
            changes: Counter[int] = Counter()
            for move in chain:
                changes[move.joined] += 1
                if move.left is not None:
                    changes[move.left] -= 1
            if self._change(changes):
                self.missing -= 1
                continue
            # Its moves disturb each other: without the first one it is another chain.
            cell = chain[-2].cell if len(chain) > 1 else None
            if cell is None:
                break
            coming[cell].pop()

    def _trace(self, last: _Move, coming: Mapping[Cell, list[_Move]]) -> list[_Move]:
        """Return the moves of a chain, from the last one to the first, or none.

        What cannot be done any more is removed from ``coming``.
        """
        if not self._is_possible(last, None):
            return []
        chain = [last]
        left: list[Cell] = []
        while (cell := chain[-1].cell) is not None:
            before = coming[cell]
            while before and not self._is_possible(before[-1], cell):
                before.pop()
            if before:
                chain.append(before[-1])
                left.append(cell)
                continue
            # Nothing comes there any more, so nothing can leave.
            chain.pop()
            if not left:
                break
            coming[left.pop()].pop()
        return chain

    def _is_possible(self, move: _Move, vacated: Cell | None) -> bool:
        """Say whether a copy can move to where only one cell lacks room, which another leaves."""
        return (move.left is None or self.counts[move.left] > 0) and all(
            cell == vacated for cell in self._find_lacking(move))

    def _change(self, changes: Mapping[int, int]) -> bool:
        """Take more or fewer copies of uses if they all have room."""
        cells = {cell for at in changes for cell, _ in self._uses[at]}
        for at, copies in changes.items():
            self.counts[at] += copies
            take(self._uses[at], self._free, copies)
        if all(self.counts[at] >= 0 for at in changes) and all(
                self._free[cell] >= 0 for cell in cells):
            return True
        for at, copies in changes.items():
            self.counts[at] -= copies
            take(self._uses[at], self._free, -copies)
        return False


def _improve(
    uses: Sequence[Use], free: Mapping[Cell, int], counts: list[int], enough: int,
    budget: PackingBudget,
) -> list[int]:
    """Try everything, until the budget is exhausted."""
    search = _ExhaustiveSearch(uses, free, counts, enough)
    try:
        while True:
            budget.charge_search(search.count_remaining())
            if not search.go_on():
                return search.best_counts
    except BudgetExhausted:
        return search.best_counts


class _ExhaustiveSearch:
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
