"""The combinations of one tree: one provider for each part, under the plan's rules.

Where the rules leave a choice, they are found by ``backtracking``.
Source: spec placement_api §4.3.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from typing import Protocol

from placement_core.placement.candidates import backtracking
from placement_core.placement.candidates.plans import Plan

Combination = tuple[int, ...]


class Neighbours(Protocol):
    """Trees that can be compared."""

    def key(self, at: int) -> Hashable | None:
        """Return what ``Tree.key`` says of one of them."""


class Tree:
    """The choices that one anchor offers.

    :ivar options: for each part the rows to choose from.
    :ivar own: at least one provider has to be one that shares nothing. (The
        combinations of sharing providers alone are another tree's to give.)
    """

    __slots__ = ("_beside", "_likeness", "_looks", "options", "own", "plan")

    def __init__(
        self, plan: Plan, options: list[list[int]], *, own: bool = False,
        beside: tuple[Neighbours, int] | None = None,
    ) -> None:
        self.plan = plan
        self.options = options
        self.own = own
        self._beside = beside
        self._looks: dict[int, Hashable] | None = None
        self._likeness: Hashable | None = None

    @property
    def key(self) -> Hashable | None:
        """Return what trees have in common whose combinations are the same.

        The same by the places of the rows in ``options``. None: it is not known
        whether there is another one.
        """
        if self._beside is None:
            return None
        neighbours, at = self._beside
        key = neighbours.key(at)
        return None if key is None else (self.own, key)

    @property
    def free(self) -> bool:
        """Say whether every choice is a combination."""
        return not (self.plan.has_rules or self.own)

    def combinations(self, *, distinct: bool = False) -> Iterator[Combination]:
        """Find all combinations, each a row for each part.

        :param distinct: leave out those that become another one when
            providers that look the same are exchanged.
        """
        if self.free and not distinct:
            return itertools.product(*self.options)
        return backtracking.Search(self, distinct=distinct).run()

    def symmetric(self) -> bool:
        """Say whether some providers look the same."""
        looks = self.looks()
        return len(set(looks.values())) < len(looks)

    def looks(self) -> dict[int, Hashable]:
        """Return what each row is to the request: equals can be exchanged."""
        if self._looks is None:
            self._looks = self._look()
        return self._looks

    def likeness(self) -> Hashable | None:
        """Return what trees have in common that are alike in ``looks`` too; or None."""
        if self._likeness is None:
            key = self.key
            if key is not None:
                first: dict[int, int] = {}
                look = self.plan.look
                self._likeness = (key, tuple([
                    first.setdefault(look(row), len(first))
                    for row in dict.fromkeys(itertools.chain.from_iterable(self.options))]))
        return self._likeness

    def _look(self) -> dict[int, Hashable]:
        plan, layout = self.plan, self.plan.world.layout
        parts = backtracking.group_parts_by_row(dict(enumerate(self.options)))
        if len(parts) == 1:
            return dict.fromkeys(parts)
        places = _places(plan, parts)
        sharing = plan.world.sharing()
        return {
            row: (tuple(numbers), places.get(row), int(layout.root[row]), row in sharing,
                  plan.look(row))
            for row, numbers in parts.items()}


def _places(plan: Plan, rows: dict[int, list[int]]) -> dict[int, int]:
    """Return where rows are, as far as it matters.

    Where subtrees matter, only children of one parent can be exchanged, and
    only when nothing to choose hangs below them.
    """
    if not plan.subtrees:
        return {}
    layout = plan.world.layout
    above: set[int] = set()
    for row in rows:
        above.update(layout.ancestors(row)[1:])
    return {row: row if row in above else -1 - layout.parents.get(row, row) for row in rows}
