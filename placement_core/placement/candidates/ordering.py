"""Orders the trees of a search by the rank that a driver gives them.

Ranking 10,000 trees takes longer than searching them, so ranks are cached by what is requested.
A tree's rank depends on that tree alone: after a claim, only the trees that it touched are ranked
again and moved to their new place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from placement_core.caches import BoundedCache
from placement_core.placement.index.array_types import Mask, Rows
from placement_core.placement.index.columns import InventoryColumn
from placement_core.placement.index.layout import Layout
from placement_core.placement.index.snapshot import CapacitySnapshot
from placement_core.plugin_api.candidate_order import Amounts, CandidateOrder

#: How much memory the cached ranks may take, in bytes: those of 200 different requests at
#: 10,000 hosts.
_CACHE_BYTES = 32 * 2**20
#: With more changed trees, all are ranked again: moving each by itself would take as long.
_MOST_MOVED = 256

_Ranks = npt.NDArray[np.float64]


class RankedTrees:
    """Some trees of a snapshot, as drivers see them (``CandidateTrees``).

    :param roots: the rows of their roots.
    :ivar classes: the names of the resource classes that were asked about.
    """

    def __init__(
        self, snapshot: CapacitySnapshot, roots: Rows, requested: Mapping[str, int]
    ) -> None:
        self._snapshot = snapshot
        self._roots = roots
        self.requested = requested
        self.classes: set[str] = set()

    @property
    def uuids(self) -> Sequence[str]:
        """Return the uuids of the roots."""
        return [self._snapshot.entry(row).provider.uuid for row in self._roots.tolist()]

    def free(self, resource_class: str) -> Amounts:
        """Return the free amount of a resource class in each tree."""
        self.classes.add(resource_class)
        layout, column = self._snapshot.layout, _find_column(self._snapshot, resource_class)
        if layout.trees and len(self._roots) <= _MOST_MOVED:
            return self._add_up_each(column)
        by_row = np.zeros(layout.size, dtype=np.int64)
        free = np.maximum(column.free, 0)
        if layout.trees:
            np.add.at(by_row, layout.root[column.rows], free)
        else:
            by_row[column.rows] = free
        return by_row[self._roots]

    def __len__(self) -> int:
        """Return the number of trees."""
        return len(self._roots)

    def _add_up_each(self, column: InventoryColumn) -> Amounts:
        """Return the sums of few trees without adding up all of them."""
        sums = np.zeros(len(self._roots), dtype=np.int64)
        for at, root in enumerate(self._roots.tolist()):
            members = np.array(self._snapshot.layout.tree(root))
            places = np.searchsorted(column.rows, members)
            members = members[places < len(column.rows)]
            places = places[places < len(column.rows)]
            # Of a member that has nothing of the class, the place is that of the row behind it.
            places = places[column.rows[places] == members]
            sums[at] = np.maximum(column.free[places], 0).sum()
        return sums


@dataclasses.dataclass(frozen=True, slots=True)
class _Ranking:
    """The ranks of all trees for one request, in one snapshot.

    :ivar columns: the inventories that the ranks depend on, by resource class.
    :ivar ranks: by row of the root; None: all are equal.
    :ivar rows: of roots, by rank; equal ones ascending.
    """

    layout: Layout
    columns: Mapping[str, InventoryColumn]
    ranks: _Ranks | None
    rows: Rows

    def count_bytes(self) -> int:
        return self.rows.nbytes + (0 if self.ranks is None else self.ranks.nbytes) + 1024


class CandidateOrdering:
    """Sorts trees by a driver's ranks; any thread may call it."""

    def __init__(self, order: CandidateOrder) -> None:
        self._order = order
        self._rankings = BoundedCache[frozenset[tuple[str, int]], _Ranking](
            _CACHE_BYTES, _Ranking.count_bytes)

    def sort(
        self, snapshot: CapacitySnapshot, anchors: Rows, requested: Mapping[str, int]
    ) -> Rows | None:
        """Return rows of roots by rank, equal ones in the order they are in.

        :param requested: amounts by resource class.
        :returns: None: all trees have the same rank.
        """
        if len(anchors) < 2:
            return None
        key = frozenset(requested.items())
        ranking = self._update(self._rankings.get(key), snapshot, requested)
        self._rankings.put(key, ranking)
        if ranking.ranks is None:
            return None
        if (anchors[1:] < anchors[:-1]).any():
            return anchors[np.argsort(ranking.ranks[anchors], kind="stable")]
        wanted = np.zeros(snapshot.size, dtype=bool)
        wanted[anchors] = True
        return ranking.rows[wanted[ranking.rows]]

    def _update(
        self, before: _Ranking | None, snapshot: CapacitySnapshot, requested: Mapping[str, int]
    ) -> _Ranking:
        """Return the ranking in a snapshot, with as few new ranks as possible."""
        changed = None if before is None else _find_changed(before, snapshot)
        if before is None or changed is None or len(changed) > _MOST_MOVED:
            return self._rank_all(snapshot, requested)
        if not len(changed):
            return before
        trees = RankedTrees(snapshot, changed, requested)
        new = self._order.rank(trees)
        if new is None or before.ranks is None:
            return self._rank_all(snapshot, requested)
        ranks = before.ranks.copy()
        ranks[changed] = new
        return _Ranking(snapshot.layout, _list_columns(snapshot, before.columns.keys()), ranks,
                        _move(before.rows, ranks, changed))

    def _rank_all(self, snapshot: CapacitySnapshot, requested: Mapping[str, int]) -> _Ranking:
        layout = snapshot.layout
        roots = np.flatnonzero(layout.root == np.arange(layout.size))
        trees = RankedTrees(snapshot, roots, requested)
        new = self._order.rank(trees)
        columns = _list_columns(snapshot, trees.classes)
        if new is None:
            return _Ranking(layout, columns, None, roots)
        ranks = np.zeros(layout.size)
        ranks[roots] = new
        return _Ranking(layout, columns, ranks, roots[np.argsort(ranks[roots], kind="stable")])


def _find_column(snapshot: CapacitySnapshot, resource_class: str) -> InventoryColumn:
    class_id = snapshot.names.class_ids.get(resource_class)
    return snapshot.column(-1 if class_id is None else class_id)


def _list_columns(
    snapshot: CapacitySnapshot, classes: Iterable[str]
) -> dict[str, InventoryColumn]:
    return {name: _find_column(snapshot, name) for name in classes}


def _find_changed(before: _Ranking, snapshot: CapacitySnapshot) -> Rows | None:
    """Return the roots of trees whose free amounts differ; None: more than these changed."""
    if before.layout is not snapshot.layout:
        return None
    changed: list[Rows] = []
    for name, old in before.columns.items():
        new = _find_column(snapshot, name)
        if new is old:
            continue
        if new.rows is not old.rows and not np.array_equal(new.rows, old.rows):
            return None
        changed.append(new.rows[new.free != old.free])
    if not changed:
        return np.empty(0, dtype=np.intp)
    return np.unique(snapshot.layout.root[np.concatenate(changed)])


def _move(rows: Rows, ranks: _Ranks, changed: Rows) -> Rows:
    """Return ``rows`` by rank where the ranks of some have changed."""
    moved: Mask = np.zeros(len(ranks), dtype=bool)
    moved[changed] = True
    staying = rows[~moved[rows]]
    inserted = changed[np.argsort(ranks[changed], kind="stable")]
    ranks_of_staying = ranks[staying]
    first = np.searchsorted(ranks_of_staying, ranks[inserted])
    last = np.searchsorted(ranks_of_staying, ranks[inserted], side="right")
    places = [int(low) + int(np.searchsorted(staying[low:high], row)) for low, high, row in zip(
        first.tolist(), last.tolist(), inserted.tolist(), strict=True)]
    return np.insert(staying, places, inserted)
