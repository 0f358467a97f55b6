"""How many copies of a shape fit into each tree of providers, and on which providers.

Where a tree leaves a choice, copies compete for its providers. Then the largest number that fits
together is searched for, within a budget: packing is NP-hard.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from placement_core.placement.candidates.combine import AnchorTree, Combination
from placement_core.placement.candidates.plans import Plan
from placement_core.placement.candidates.search import Choices
from placement_core.placement.gangs.levels import find_ancestors
from placement_core.placement.gangs.planner import Numbers
from placement_core.placement.index.array_types import Rows

#: (row, resource class id)
Cell: TypeAlias = tuple[int, int]
#: What a copy takes of each cell, sorted.
_Use: TypeAlias = tuple[tuple[Cell, int], ...]

#: The number of the pool of copies that use nothing of other trees.
_NO_POOL = -1
#: How many combinations of one tree are looked at.
_MOST_COMBINATIONS = 2000
#: How many choices a search for the best packing of one tree makes.
_MOST_CHOICES = 5000


@dataclasses.dataclass(frozen=True, slots=True)
class FittingSites:
    """Where copies fit: each site is a tree, or the part of one below a depth.

    :ivar rows: of the provider at the top of each site; of a tree, its root.
    :ivar roots: of its tree.
    :ivar copies: how many fit, from 1 on.
    :ivar pools: the number of the pool of sharing providers that its copies use; -1: none.
    :ivar pool_copies: {pool: how many copies it can take}.
    :ivar list_combinations: (position of a site, number): where each of so many copies goes, a
        row for each part.
    """

    rows: Rows
    roots: Rows
    copies: Numbers
    pools: Numbers
    pool_copies: Mapping[int, int]
    list_combinations: Callable[[int, int], Sequence[Combination]]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.rows)


def find_sites(choices: Choices, depth: int, most: int) -> FittingSites:
    """Return the sites with room for copies, in the order of the anchors.

    :param depth: of the provider at the top of each site; each provider that a copy takes
        something from is one, or is below one.
    :param most: how many copies at one site matter.
    """
    columns = choices.combine_unambiguous(None)
    if columns is None:
        return _search_trees(choices, depth, most)
    return _judge_columns(choices.plan, columns, depth, most)


def _judge_columns(plan: Plan, columns: Sequence[Rows], depth: int, most: int) -> FittingSites:
    """Return the sites of trees that leave no choice.

    :param columns: for each part the row that serves it, in each tree.
    """
    rows = roots = plan.snapshot.layout.root[columns[0]]
    if depth:
        tops = [find_ancestors(plan.snapshot, column, depth)
                for part, column in zip(plan.parts, columns, strict=True) if part.resources]
        rows = tops[0]
        keep = np.logical_and.reduce([(top == rows) & (top >= 0) for top in tops])
        rows, roots, columns = rows[keep], roots[keep], [column[keep] for column in columns]
    copies = np.minimum(_count_columns(plan, columns), most)
    having = copies > 0
    columns = [column[having] for column in columns]
    return FittingSites(
        rows[having], roots[having], copies[having], np.full(int(having.sum()), _NO_POOL), {},
        lambda site, count: [tuple(int(column[site]) for column in columns)] * count)


def _count_columns(plan: Plan, columns: Sequence[Rows]) -> Numbers:
    """Return how many copies fit where each takes the same of the same providers."""
    counts = np.full(len(columns[0]), np.iinfo(np.int64).max)
    takers: dict[int, list[tuple[Rows, int]]] = defaultdict(list)
    for part, rows in zip(plan.parts, columns, strict=True):
        for class_id, amount in part.resources.items():
            takers[class_id].append((rows, amount))
    for class_id, taking in takers.items():
        column = plan.snapshot.column(class_id)
        for rows, _ in taking:
            need = sum(amount * (others == rows) for others, amount in taking)
            free = column.free[np.searchsorted(column.rows, rows)].astype(np.int64)
            counts = np.minimum(counts, free // need)
    return counts


def _search_trees(choices: Choices, depth: int, most: int) -> FittingSites:
    packer = _TreePacker(choices.plan, depth, most)
    rows, roots, packed = [], [], []
    for anchor, tree in zip(choices.anchors.tolist(), choices.trees(), strict=True):
        for site, own in packer.pack(tree, anchor).items():
            rows.append(site)
            roots.append(anchor)
            packed.append(own)
    pools, pool_copies = _number_pools([own.shared for own in packed], packer.read_free)
    return FittingSites(
        np.array(rows, dtype=np.intp), np.array(roots, dtype=np.intp),
        np.array([len(own.combinations) for own in packed], dtype=np.int64),
        np.array(pools, dtype=np.int64), pool_copies,
        lambda site, count: packed[site].combinations[:count])


def _number_pools(
    uses: Sequence[_Use], read_free: Callable[[Cell], int]
) -> tuple[list[int], dict[int, int]]:
    """Return the number of each use's pool, and how many copies each pool can take.

    Uses that have a cell in common are in one pool, which takes no more than its fullest cell:
    sometimes less than fits, never more.
    """
    pool_of: dict[Cell, int] = {}
    members: dict[int, dict[Cell, int]] = {}
    for number, use in enumerate(uses):
        joined = {pool_of[cell] for cell, _ in use if cell in pool_of}
        members[number] = dict(use)
        for other in joined:
            members[number] |= members.pop(other)
        pool_of |= dict.fromkeys(members[number], number)
    return (
        [pool_of[use[0][0]] if use else _NO_POOL for use in uses],
        {number: min(read_free(cell) // amount for cell, amount in use.items())
         for number, use in members.items() if use})


@dataclasses.dataclass(frozen=True, slots=True)
class _PackedSite:
    """The copies at one site: where each goes, and what each uses that trees share."""

    combinations: Sequence[Combination]
    shared: _Use


class _TreePacker:
    """Packs copies into trees; like trees are packed once."""

    def __init__(self, plan: Plan, depth: int, most: int) -> None:
        self._plan = plan
        self._depth = depth
        self._most = most
        self._free: dict[int, dict[int, int]] = {}
        #: The rows that serve several trees.
        self._sharing = {row for part in plan.parts for row in part.away}
        #: {what trees have in common: the copies of each site, by their places in the options}
        self._known: dict[Hashable, list[list[Combination]]] = {}

    def pack(self, tree: AnchorTree, anchor: int) -> dict[int, _PackedSite]:
        """Return the sites of a tree with room, by the row at their top."""
        if self._sharing:
            return self._pack_with_sharing(tree, anchor)
        key = self._make_key(tree, anchor)
        if key not in self._known:
            groups = self._group(tree, anchor).values()
            self._known[key] = [
                [_find_places(tree, combination) for combination in packed]
                for combinations in groups if (packed := self._pack_alike(combinations))]
        sites = {}
        for places in self._known[key]:
            combinations = [_take_places(tree, each) for each in places]
            sites[self._find_site(combinations[0], anchor)] = _PackedSite(combinations, ())
        return sites

    def _make_key(self, tree: AnchorTree, anchor: int) -> Hashable:
        """Describe a tree that no sharing provider serves: equal ones have equal copies."""
        return (
            tree.key,
            tuple(self._find_top(row) - anchor
                  for rows in tree.options for row in rows) if self._depth else (),
            tuple(self.read_free((row, class_id))
                  for part, rows in zip(self._plan.parts, tree.options, strict=True)
                  for row in rows for class_id in part.resources))

    def _pack_with_sharing(self, tree: AnchorTree, anchor: int) -> dict[int, _PackedSite]:
        """Return the sites; copies at one site all use the same of other trees."""
        found: dict[int, _PackedSite] = {}
        for (site, shared), combinations in self._group(tree, anchor).items():
            packed = self._pack_alike(combinations)
            if packed and (site not in found or len(packed) > len(found[site].combinations)):
                found[site] = _PackedSite(packed, shared)
        return found

    def _group(
        self, tree: AnchorTree, anchor: int
    ) -> dict[tuple[int, _Use], list[Combination]]:
        """Return the combinations of a tree by site and by what they use that trees share."""
        groups: dict[tuple[int, _Use], list[Combination]] = defaultdict(list)
        for combination in itertools.islice(tree.combinations(), _MOST_COMBINATIONS):
            shared = tuple((cell, amount) for cell, amount in self._measure(combination)
                           if cell[0] in self._sharing)
            site = self._find_site(combination, anchor)
            if site >= 0:
                groups[site, shared].append(combination)
        return groups

    def _find_site(self, combination: Combination, anchor: int) -> int:
        """Return the row at the top of a combination's site; -1: it is in none."""
        if not self._depth:
            return anchor
        tops = {self._find_top(row) for part, row in zip(
            self._plan.parts, combination, strict=True) if part.resources}
        return tops.pop() if len(tops) == 1 else -1

    def _find_top(self, row: int) -> int:
        """Return the row at the depth of sites that a row is, or is below; -1: there is none."""
        line = self._plan.snapshot.layout.ancestors(row)
        return line[-1 - self._depth] if self._depth < len(line) else -1

    def _pack_alike(self, combinations: Iterable[Combination]) -> list[Combination]:
        """Return where as many copies go as fit together."""
        by_use: dict[_Use, Combination] = {}
        for combination in combinations:
            by_use.setdefault(self._measure(combination), combination)
        uses = list(by_use)
        free = {cell: self.read_free(cell) for use in uses for cell, _ in use}
        return [by_use[uses[at]] for at in pack(uses, free, self._most)]

    def _measure(self, combination: Combination) -> _Use:
        """Return what a copy takes."""
        amounts: dict[Cell, int] = defaultdict(int)
        for part, row in zip(self._plan.parts, combination, strict=True):
            for class_id, amount in part.resources.items():
                amounts[row, class_id] += amount
        return tuple(sorted(amounts.items()))

    def read_free(self, cell: Cell) -> int:
        row, class_id = cell
        if class_id not in self._free:
            column = self._plan.snapshot.column(class_id)
            self._free[class_id] = dict(
                zip(column.rows.tolist(), column.free.tolist(), strict=True))
        return self._free[class_id][row]


def _find_places(tree: AnchorTree, combination: Combination) -> Combination:
    return tuple(rows.index(row) for rows, row in zip(tree.options, combination, strict=True))


def _take_places(tree: AnchorTree, places: Combination) -> Combination:
    return tuple(rows[place] for rows, place in zip(tree.options, places, strict=True))


def pack(uses: Sequence[_Use], free: Mapping[Cell, int], most: int) -> list[int]:
    """Return for each of as many copies as fit together the position of its use.

    All uses take the same of each class, in other places. Of many that compete, more may fit than
    are found (``_MOST_CHOICES``).

    :param most: how many copies are enough.
    """
    packing = _Packing(uses, free, most)
    packing.search(0, [])
    return [at for at, count in enumerate(packing.best) for _ in range(count)]


class _Packing:
    """A search for the largest packing: each use in turn takes as much as it can, then less."""

    def __init__(self, uses: Sequence[_Use], free: Mapping[Cell, int], most: int) -> None:
        self._uses = uses
        self._free = dict(free)
        self._enough = min(most, self._bound_total())
        self._choices = 0
        self.best: list[int] = []

    def search(self, at: int, counts: list[int]) -> None:
        """Complete a packing whose first uses have their numbers of copies."""
        self._choices += 1
        if sum(counts) > sum(self.best):
            self.best = counts
        if at == len(self._uses) or self._is_over(at, sum(counts)):
            return
        use = self._uses[at]
        largest = min(self._count_copies(use), self._enough - sum(counts))
        for count in range(largest, -1, -1):
            self._change_free(use, -count)
            self.search(at + 1, [*counts, count])
            self._change_free(use, count)
            if self._is_over(at, sum(counts)):
                return

    def _is_over(self, at: int, placed: int) -> bool:
        """Say whether to look no further: it is enough, or nothing better comes."""
        best = sum(self.best)
        if best >= self._enough or self._choices > _MOST_CHOICES:
            return True
        return placed + sum(map(self._count_copies, self._uses[at:])) <= best

    def _count_copies(self, use: _Use) -> int:
        return min((self._free[cell] // amount for cell, amount in use), default=self._enough)

    def _change_free(self, use: _Use, copies: int) -> None:
        for cell, amount in use:
            self._free[cell] += copies * amount

    def _bound_total(self) -> int:
        """Return how many copies could fit if all providers of a class were one."""
        free: dict[int, int] = defaultdict(int)
        for (_, class_id), amount in self._free.items():
            free[class_id] += max(amount, 0)
        needed: dict[int, int] = defaultdict(int)
        for (_, class_id), amount in self._uses[0] if self._uses else ():
            needed[class_id] += amount
        return min((free[class_id] // amount for class_id, amount in needed.items()), default=0)
