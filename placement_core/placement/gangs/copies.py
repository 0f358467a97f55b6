"""How many copies of a shape fit into each tree of providers, and on which providers.

Where a tree leaves a choice, copies compete for its providers (``tree_packing``). Where trees
share providers and leave a choice of these, copies of all trees do (``JointPacking``).
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from placement_core.placement.candidates.combine import Combination
from placement_core.placement.candidates.plans import Plan
from placement_core.placement.candidates.search import Choices
from placement_core.placement.gangs import packing
from placement_core.placement.gangs.levels import find_ancestors
from placement_core.placement.gangs.packing import CopyBounds, PackingBudget
from placement_core.placement.gangs.planner import Numbers
from placement_core.placement.gangs.tree_packing import SiteUse, TreePacker
from placement_core.placement.gangs.uses import Cell, Use
from placement_core.placement.index.array_types import Rows
from placement_core.placement.room import part_room

#: The number of the pool of copies that use nothing of other trees.
_NO_POOL = -1
#: In place of a resource class: copies on a host.
_ON_HOST = -1


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
        for rows, _ in taking:
            need = sum(amount * (others == rows) for others, amount in taking)
            free = part_room.read_free(plan.snapshot, class_id, rows)
            counts = np.minimum(counts, free // need)
    return counts


def _search_trees(choices: Choices, depth: int, most: int) -> FittingSites:
    packer = TreePacker(choices.plan, depth, most)
    rows, roots, packed = [], [], []
    for anchor, sites in packer.pack(choices):
        for site, own in sites.items():
            rows.append(site)
            roots.append(anchor)
            packed.append(own)
    pools, pool_copies = _number_pools([own.shared for own in packed], packer.read_free)
    return FittingSites(
        np.array(rows, dtype=np.intp), np.array(roots, dtype=np.intp),
        np.array([len(own.combinations) for own in packed], dtype=np.int64),
        np.array(pools, dtype=np.int64), pool_copies,
        lambda site, count: packed[site].combinations[:count])


class JointPacking:
    """Packs the copies of all trees together, whatever they share.

    It heeds what others leave of shared providers, which ``find_sites`` does not: there, the
    copies of a tree use the same ones, as if no other tree did.
    """

    def __init__(self, choices: Choices, depth: int, most: int) -> None:
        """List what copies can use.

        :param depth: as for ``find_sites``.
        :param most: how many copies matter.
        """
        packer = TreePacker(choices.plan, depth, most)
        self._uses = packer.list_uses(choices)
        self._read_free = packer.read_free
        self._bounds = CopyBounds(choices.plan)
        self._most = most

    @property
    def sites(self) -> FittingSites:
        """Everything that a copy can use, as a site for one copy."""
        return self._make_sites(self._uses, [1] * len(self._uses))

    def pack(
        self, positions: Sequence[int], max_per_host: int | None, budget: PackingBudget
    ) -> FittingSites:
        """Return where as many copies go as fit together, or as matter; none competes.

        :param positions: of the ``sites`` that they may use.
        """
        by_host = Counter(self._uses[at].anchor for at in positions)
        # Who has the fewest choices chooses first.
        positions = sorted(positions, key=lambda at: by_host[self._uses[at].anchor])
        free = {cell: self._read_free(cell)
                for at in positions for cell, _ in self._uses[at].use}
        most = self._bounds.bound(free, self._most)
        uses = [self._uses[at].use for at in positions]
        if max_per_host is not None:
            uses = [(*use, ((self._uses[at].anchor, _ON_HOST), 1))
                    for at, use in zip(positions, uses, strict=True)]
            free |= {(anchor, _ON_HOST): max_per_host for anchor in by_host}
        counts = Counter(packing.pack(uses, free, most, budget))
        return self._make_sites(
            [self._uses[positions[at]] for at in counts], list(counts.values()))

    @staticmethod
    def _make_sites(uses: Sequence[SiteUse], counts: Sequence[int]) -> FittingSites:
        return FittingSites(
            np.array([use.site for use in uses], dtype=np.intp),
            np.array([use.anchor for use in uses], dtype=np.intp),
            np.array(counts, dtype=np.int64), np.full(len(uses), _NO_POOL), {},
            lambda site, count: [uses[site].combination] * count)


def _number_pools(
    uses: Sequence[Use], read_free: Callable[[Cell], int]
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
            for cell, amount in members.pop(other).items():
                members[number][cell] = max(members[number].get(cell, 0), amount)
        pool_of |= dict.fromkeys(members[number], number)
    return (
        [pool_of[use[0][0]] if use else _NO_POOL for use in uses],
        {number: min(read_free(cell) // amount for cell, amount in use.items())
         for number, use in members.items() if use})
