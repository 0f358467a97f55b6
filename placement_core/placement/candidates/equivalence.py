"""Equivalent trees are searched once.

Most hosts of a cloud are built the same way. Where a request cannot tell two
trees apart, the combinations of one are those of the other, place by place: so
they are found once, as far as a caller iterates, and translated.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Hashable, Iterator

from placement_core.placement.candidates.combine import AnchorTree, Combination
from placement_core.placement.candidates.search_budget import SearchBudget

#: For each part where in its options a row is.
Places = tuple[int, ...]


class EquivalenceClasses:
    """The combinations found so far in each class of equivalent trees.

    It holds no more combinations than were taken from one tree of each class.
    """

    __slots__ = ("_budget", "_has_equals", "_known")

    def __init__(self, budget: SearchBudget) -> None:
        self._budget = budget
        self._known: dict[Hashable, _ClassCombinations] = {}
        self._has_equals: dict[Hashable, bool] = {}

    def combinations(self, tree: AnchorTree, *, distinct: bool = False) -> Iterator[Combination]:
        """Find the combinations of a tree; see ``AnchorTree.combinations``."""
        if distinct:
            return self._find_distinct(tree)
        key = None if tree.free else tree.key
        return tree.combinations() if key is None else self._translate(tree, key, distinct=False)

    def find_first(self, tree: AnchorTree) -> Combination | None:
        """Return the first combination of a tree; None: it has none."""
        places = self.find_first_places(tree)
        if places is None:
            return None
        self._budget.steps += 1
        return tuple(map(operator.getitem, tree.options, places))

    def find_first_places(self, tree: AnchorTree) -> Places | None:
        """Return where in its options a tree's first combination is; None: it has none."""
        if tree.free:
            return (0,) * len(tree.options)
        key = tree.key
        if key is None:
            return next(_find_places(tree, distinct=False), None)
        class_combinations = self._known.get(key)
        if class_combinations is None:
            class_combinations = self._known[key] = _ClassCombinations(tree, distinct=False)
        return class_combinations.find_first()

    def has_equals(self, tree: AnchorTree) -> bool:
        """Say whether some providers of a tree look the same."""
        key = tree.find_distinct_key()
        if key is None:
            return tree.has_equals()
        has_equals = self._has_equals.get(key)
        if has_equals is None:
            has_equals = self._has_equals[key] = tree.has_equals()
        return has_equals

    def _find_distinct(self, tree: AnchorTree) -> Iterator[Combination]:
        """Find what is distinct.

        The first needs no look at who is equal to whom, and often it is enough.
        """
        first = self.find_first(tree)
        if first is None:
            return
        yield first
        key = tree.find_distinct_key()
        rest = (tree.combinations(distinct=True) if key is None
                else self._translate(tree, key, distinct=True))
        yield from itertools.islice(rest, 1, None)

    def _translate(
        self, tree: AnchorTree, key: Hashable, *, distinct: bool
    ) -> Iterator[Combination]:
        class_combinations = self._known.get(key)
        if class_combinations is None:
            class_combinations = self._known[key] = _ClassCombinations(tree, distinct=distinct)
        options, pick = tree.options, operator.getitem
        for places in class_combinations:
            self._budget.steps += 1
            yield tuple(map(pick, options, places))


class _ClassCombinations:
    """The combinations of one class, as places in the options, searched on demand."""

    __slots__ = ("_known", "_rest")

    def __init__(self, tree: AnchorTree, *, distinct: bool) -> None:
        self._known: list[Places] = []
        self._rest: Iterator[Places] | None = _find_places(tree, distinct=distinct)

    def find_first(self) -> Places | None:
        """Return the first; None: there is none."""
        return self._known[0] if self._known else next(iter(self), None)

    def __iter__(self) -> Iterator[Places]:
        known = self._known
        at = 0
        while True:
            if at == len(known):
                places = None if self._rest is None else next(self._rest, None)
                if places is None:
                    # The search and the tree need not be kept.
                    self._rest = None
                    return
                known.append(places)
            yield known[at]
            at += 1


def _find_places(tree: AnchorTree, *, distinct: bool) -> Iterator[Places]:
    places = [{row: at for at, row in enumerate(rows)} for rows in tree.options]
    for combination in tree.combinations(distinct=distinct):
        yield tuple(map(operator.getitem, places, combination))
