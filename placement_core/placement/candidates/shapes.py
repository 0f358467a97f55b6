"""Trees that are alike are searched once.

Most hosts of a cloud are built the same way. Where a request cannot tell two
trees apart, the combinations of one are those of the other, place by place: so
they are found once, as far as somebody asked, and translated.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Hashable, Iterator

from placement_core.placement.candidates.combine import Combination, Tree
from placement_core.placement.candidates.effort import Effort

#: For each part where in its options a row is.
Places = tuple[int, ...]


class Shapes:
    """What was found in trees of each shape.

    It holds no more combinations than were taken from one tree of each shape.
    """

    __slots__ = ("_effort", "_known", "_symmetric")

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._known: dict[Hashable, _Found] = {}
        self._symmetric: dict[Hashable, bool] = {}

    def combinations(self, tree: Tree, *, distinct: bool = False) -> Iterator[Combination]:
        """Find the combinations of a tree; see ``Tree.combinations``."""
        if distinct:
            return self._distinct(tree)
        key = None if tree.free else tree.key
        return tree.combinations() if key is None else self._like(tree, key, distinct=False)

    def first(self, tree: Tree) -> Combination | None:
        """Return the first combination of a tree; None: it has none."""
        places = self.first_places(tree)
        if places is None:
            return None
        self._effort.steps += 1
        return tuple(map(operator.getitem, tree.options, places))

    def first_places(self, tree: Tree) -> Places | None:
        """Return where in its options a tree's first combination is; None: it has none."""
        if tree.free:
            return (0,) * len(tree.options)
        key = tree.key
        if key is None:
            return next(_places(tree, distinct=False), None)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _Found(tree, distinct=False)
        return found.first()

    def symmetric(self, tree: Tree) -> bool:
        """Say whether some providers of a tree look the same."""
        key = tree.likeness()
        if key is None:
            return tree.symmetric()
        known = self._symmetric.get(key)
        if known is None:
            known = self._symmetric[key] = tree.symmetric()
        return known

    def _distinct(self, tree: Tree) -> Iterator[Combination]:
        """Find what is distinct.

        The first needs no look at who is equal to whom, and often it is enough.
        """
        first = self.first(tree)
        if first is None:
            return
        yield first
        key = tree.likeness()
        rest = (tree.combinations(distinct=True) if key is None
                else self._like(tree, key, distinct=True))
        yield from itertools.islice(rest, 1, None)

    def _like(self, tree: Tree, key: Hashable, *, distinct: bool) -> Iterator[Combination]:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _Found(tree, distinct=distinct)
        options, pick = tree.options, operator.getitem
        for places in found:
            self._effort.steps += 1
            yield tuple(map(pick, options, places))


class _Found:
    """The combinations of one shape, as places in the options; found when asked for."""

    __slots__ = ("_known", "_rest")

    def __init__(self, tree: Tree, *, distinct: bool) -> None:
        self._known: list[Places] = []
        self._rest: Iterator[Places] | None = _places(tree, distinct=distinct)

    def first(self) -> Places | None:
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


def _places(tree: Tree, *, distinct: bool) -> Iterator[Places]:
    places = [{row: at for at, row in enumerate(rows)} for rows in tree.options]
    for combination in tree.combinations(distinct=distinct):
        yield tuple(map(operator.getitem, places, combination))
