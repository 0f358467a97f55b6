"""Batches of anchors, with the options of each.

Arrays answer for a whole batch at once which trees are equivalent, and what the
first combination of each is.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from placement_core.placement.candidates.combine import AnchorTree, Combination
from placement_core.placement.candidates.equivalence import EquivalenceClasses
from placement_core.placement.candidates.plans import Plan
from placement_core.placement.index.array_types import Rows


@dataclasses.dataclass(frozen=True, slots=True)
class FirstCombinations:
    """The first combinations of anchors, one of each that has any.

    :ivar columns: for each part the rows that serve it.
    :ivar trees: the trees of these anchors, in the same order.
    """

    columns: list[Rows]
    trees: Iterable[AnchorTree]

    def __len__(self) -> int:
        return len(self.columns[0])


class AnchorBatch:
    """Some anchors, and the options of each.

    :param anchors: rows of roots, in any order; at least one.
    :param rows: for each part the rows that can serve it, by their roots.
    :param roots: for each part the roots of ``rows``.
    :param shared: where all parts may be served by sharing providers: what
        these offer in the trees before, to be added to; None otherwise.
    :param shuffled: the options of an anchor are shuffled too.
    """

    def __init__(
        self, plan: Plan, anchors: Rows, rows: list[Rows],
        roots: list[Rows], *, shared: set[Hashable] | None, shuffled: bool,
    ) -> None:
        self.plan = plan
        self.anchors = anchors
        self._shared = shared
        self._shuffled = shuffled
        self._rows: list[Rows] = []
        #: For each part where the rows of each anchor begin and end in ``_rows``.
        self._begins: list[Rows] = []
        self._ends: list[Rows] = []
        for part_rows, part_roots in zip(rows, roots, strict=True):
            low = np.searchsorted(part_roots, anchors)
            high = np.searchsorted(part_roots, anchors, side="right")
            first, last = int(low.min()), int(high.max())
            self._rows.append(part_rows[first:last])
            self._begins.append(low - first)
            self._ends.append(high - first)
            plan.budget.steps += int((high - low).sum())
        sharing = plan.snapshot.sharing_providers()
        self._homes = set(plan.snapshot.layout.root[list(sharing)].tolist())
        self._visitors = self._find_visitors() if any(part.away for part in plan.parts) else None
        self._keys: list[Hashable] | None = None

    def trees(self) -> Iterator[AnchorTree]:
        """Return what each anchor offers."""
        for at, options in enumerate(self._iterate_options()):
            if self._shuffled:
                for rows in options:
                    random.shuffle(rows)
            yield AnchorTree(self.plan, options, own=self._is_repeated(options), batch=(self, at))

    def tree(self, at: int) -> AnchorTree:
        """Return what one anchor offers, of which no sharing provider may serve any."""
        return AnchorTree(self.plan, [
            rows[begins[at]:ends[at]].tolist()
            for rows, begins, ends in zip(self._rows, self._begins, self._ends, strict=True)],
            batch=(self, at))

    def list_equivalent(self) -> list[Rows]:
        """Return the places of anchors whose ``AnchorTree.key`` is equal, and each without one.

        None may be served by sharing providers.
        """
        numbers: dict[Hashable, int] = {}
        homes = self._homes
        of_places = np.array([
            numbers.setdefault(anchor if anchor in homes else key, len(numbers))
            for anchor, key in zip(self.anchors.tolist(), self._list_keys(), strict=True)])
        order = np.argsort(of_places, kind="stable")
        return np.split(order, np.cumsum(np.bincount(of_places))[:-1])

    def find_firsts(self, equivalence: EquivalenceClasses, limit: int) -> FirstCombinations:
        """Find the first combination of each anchor, until there are ``limit``."""
        if self._shuffled or self._visitors is not None:
            return self._find_firsts_in_turn(equivalence, limit)
        places = self._find_first_places(equivalence, limit)
        having = np.flatnonzero(places[:, 0] >= 0)[:limit]
        self.plan.budget.steps += len(having)
        columns = [rows[begins[having] + at] for rows, begins, at in zip(
            self._rows, self._begins, places[having].T, strict=True)]
        marks = np.zeros(len(self.anchors), dtype=bool)
        marks[having] = True
        return FirstCombinations(columns, itertools.compress(self.trees(), marks.tolist()))

    def _find_firsts_in_turn(
        self, equivalence: EquivalenceClasses, limit: int
    ) -> FirstCombinations:
        found: list[Combination] = []
        trees = []
        for tree in self.trees():
            first = equivalence.find_first(tree)
            if first is not None:
                found.append(first)
                trees.append(tree)
                if len(found) == limit:
                    break
        rows = np.array(found, dtype=np.intp).reshape(len(found), len(self.plan.parts))
        return FirstCombinations(list(rows.T), trees)

    def _find_first_places(self, equivalence: EquivalenceClasses, limit: int) -> Rows:
        """Return where in its choices each anchor's first combination is, -1 for none.

        :returns: a line for each anchor, until ``limit`` have one.
        """
        count = len(self.anchors)
        if not self.plan.has_rules:
            return np.zeros((count, len(self.plan.parts)), dtype=np.intp)
        numbers: dict[Hashable, int] = {}
        class_numbers = np.array(
            [numbers.setdefault(key, len(numbers)) for key in self._list_keys()])
        _, first_members = np.unique(class_numbers, return_index=True)
        places = np.full((len(numbers), len(self.plan.parts)), -1, dtype=np.intp)
        found = 0
        end = count
        for first, end in itertools.pairwise([*first_members.tolist(), count]):
            # The classes of all anchors before the next first member are known by then.
            first_places = equivalence.find_first_places(self.tree(first))
            if first_places is not None:
                places[class_numbers[first]] = first_places
            found += int(np.count_nonzero(places[class_numbers[first:end], 0] >= 0))
            if found >= limit:
                break
        places_by_anchor: Rows = places[class_numbers[:end]]
        return places_by_anchor

    def _is_repeated(self, options: list[list[int]]) -> bool:
        """Say whether an earlier tree offered the same sharing providers.

        Among themselves they combine in the same ways in each of them.
        """
        if self._shared is None:
            return False
        sharing = self.plan.snapshot.sharing_providers()
        offered = tuple([tuple(sorted([row for row in rows if row in sharing]))
                         for rows in options])
        repeated = offered in self._shared
        self._shared.add(offered)
        return repeated

    def _iterate_options(self) -> Iterator[list[list[int]]]:
        """Return for each anchor the rows to choose from, by part."""
        rows = [part_rows.tolist() for part_rows in self._rows]
        for at, spans in enumerate(self._iterate_spans()):
            options = [part_rows[span] for part_rows, span in zip(rows, spans, strict=True)]
            if self._visitors is not None:
                at_home = int(self.anchors[at]) in self._homes
                for home, away in zip(options, self._visitors[at], strict=True):
                    home.extend([row for row in away if row not in home] if at_home else away)
                    self.plan.budget.steps += len(away)
            yield options

    def _iterate_spans(self) -> Iterator[tuple[slice, ...]]:
        """Return for each anchor the slices of ``_rows``, by part."""
        return zip(*[
            itertools.starmap(slice, zip(begins.tolist(), ends.tolist(), strict=True))
            for begins, ends in zip(self._begins, self._ends, strict=True)], strict=True)

    def key(self, at: int) -> Hashable | None:
        """Describe the options of an anchor: equal descriptions have equal combinations.

        :returns: None where that is not known.
        """
        if self._shuffled or int(self.anchors[at]) in self._homes:
            return None
        return self._visitors and self._visitors[at], self._list_keys()[at]

    def _list_keys(self) -> list[Hashable]:
        """Return the key of each anchor, of what is its own."""
        if self._keys is None:
            keys: list[Hashable] = [None] * len(self.anchors)
            described = [self._describe(number) for number in range(len(self._rows))]
            for widths, places in self._split_by_widths():
                count = len(places)
                facts = np.concatenate([
                    of_rows[begins[places, np.newaxis] + np.arange(width)].reshape(count, -1)
                    for of_rows, begins, width in zip(
                        described, self._begins, widths, strict=True)], axis=1)
                text, size = facts.tobytes(), facts.shape[1] * facts.itemsize
                for at, place in enumerate(places.tolist()):
                    keys[place] = widths, text[at * size:(at + 1) * size]
            self._keys = keys
        return self._keys

    def _split_by_widths(self) -> list[tuple[tuple[int, ...], Rows]]:
        """Return the places of anchors that have equally many rows to choose from, by part."""
        split: list[tuple[tuple[int, ...], Rows]] = [((), np.arange(len(self.anchors)))]
        for begins, ends in zip(self._begins, self._ends, strict=True):
            widths = ends - begins
            split = [((*before, width), places[widths[places] == width])
                     for before, places in split
                     for width in np.unique(widths[places]).tolist()]
        return split

    def _describe(self, number: int) -> npt.NDArray[np.int32]:
        """Describe the rows of a part: an array of facts for each."""
        plan, layout, rows = self.plan, self.plan.snapshot.layout, self._rows[number]
        roots = layout.root[rows]
        facts: list[npt.NDArray[Any]] = [rows - roots]
        if any(number in numbers for numbers in plan.subtrees):
            above = layout.parent_rows[rows]
            while (above >= 0).any():
                facts.append(np.where(above >= 0, above - roots, -1))
                above = np.where(above >= 0, layout.parent_rows[above], -1)
        facts.extend(
            plan.useful_rooms(rows, class_id) for class_id, _ in plan.contested[number])
        if not plan.parts[number].granular:
            facts.extend(plan.mask_of_any_trait(traits)[rows] for traits in plan.required)
        return np.stack(facts, axis=1).astype(np.int32)

    def _find_visitors(self) -> list[tuple[tuple[int, ...], ...]]:
        """Return the sharing providers that may be used, by anchor and part."""
        plan, sharing = self.plan, self.plan.snapshot.sharing_providers()
        visitors = []
        for part in plan.parts:
            away: list[tuple[int, ...]] = [()] * len(self.anchors)
            for row in part.away:
                reached = sharing[row].mask(plan.snapshot.size)[self.anchors]
                if part.closed is not None:
                    reached = reached & ~part.closed[self.anchors]
                for at in np.flatnonzero(reached).tolist():
                    away[at] += (row,)
            visitors.append(away)
        return list(zip(*visitors, strict=True))
