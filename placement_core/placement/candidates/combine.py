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


class BatchKeys(Protocol):
    """A batch of trees that can be compared."""

    def key(self, at: int) -> Hashable | None:
        """Return the ``AnchorTree.key`` of one of them."""


class AnchorTree:
    """The options that one anchor offers.

    :ivar options: for each part the rows to choose from.
    :ivar own: at least one provider has to be one that shares nothing. (The
        combinations of sharing providers alone are another tree's to give.)
    """

    __slots__ = ("_batch", "_distinct_key", "_exchange_classes", "options", "own", "plan")

    def __init__(
        self, plan: Plan, options: list[list[int]], *, own: bool = False,
        batch: tuple[BatchKeys, int] | None = None,
    ) -> None:
        self.plan = plan
        self.options = options
        self.own = own
        self._batch = batch
        self._exchange_classes: dict[int, Hashable] | None = None
        self._distinct_key: Hashable | None = None

    @property
    def key(self) -> Hashable | None:
        """Return the key that equivalent trees have in common.

        Their combinations are the same, by the places of the rows in ``options``.
        None: whether there is an equivalent tree is not known.
        """
        if self._batch is None:
            return None
        batch, position = self._batch
        key = batch.key(position)
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

    def has_equals(self) -> bool:
        """Say whether some providers look the same."""
        classes = self.exchange_classes()
        return len(set(classes.values())) < len(classes)

    def exchange_classes(self) -> dict[int, Hashable]:
        """Return the exchange class of each row: rows of one class are interchangeable."""
        if self._exchange_classes is None:
            self._exchange_classes = self._find_exchange_classes()
        return self._exchange_classes

    def find_distinct_key(self) -> Hashable | None:
        """Return the key of equivalent trees whose ``exchange_classes`` correspond; or None."""
        if self._distinct_key is None:
            key = self.key
            if key is not None:
                first: dict[int, int] = {}
                provider_class = self.plan.provider_class
                self._distinct_key = (key, tuple([
                    first.setdefault(provider_class(row), len(first))
                    for row in dict.fromkeys(itertools.chain.from_iterable(self.options))]))
        return self._distinct_key

    def _find_exchange_classes(self) -> dict[int, Hashable]:
        plan, layout = self.plan, self.plan.snapshot.layout
        parts = backtracking.group_parts_by_row(dict(enumerate(self.options)))
        if len(parts) == 1:
            return dict.fromkeys(parts)
        places = _find_exchange_places(plan, parts)
        sharing = plan.snapshot.sharing_providers()
        return {
            row: (tuple(numbers), places.get(row), int(layout.root[row]), row in sharing,
                  plan.provider_class(row))
            for row, numbers in parts.items()}


def _find_exchange_places(plan: Plan, rows: dict[int, list[int]]) -> dict[int, int]:
    """Return where rows are, as far as it matters.

    Where subtrees matter, only children of one parent can be exchanged, and
    only when nothing to choose hangs below them.
    """
    if not plan.subtrees:
        return {}
    layout = plan.snapshot.layout
    above: set[int] = set()
    for row in rows:
        above.update(layout.ancestors(row)[1:])
    return {row: row if row in above else -1 - layout.parents.get(row, row) for row in rows}
