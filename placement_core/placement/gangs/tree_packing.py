"""Where as many copies go as fit together into a tree that leaves a choice.

Where there are few combinations, ``packing`` compares them. Where there are many, as on a host
with hundreds of devices, copies are placed one after another, as long as there is a combination
with room.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from placement_core.placement.candidates.combine import AnchorTree, Combination
from placement_core.placement.candidates.filters import RequestPart
from placement_core.placement.candidates.plans import Plan
from placement_core.placement.candidates.search import Choices
from placement_core.placement.gangs import packing
from placement_core.placement.gangs.packing import CopyBounds, PackingBudget
from placement_core.placement.gangs.uses import Cell, Use, count_repeats, take
from placement_core.placement.room import part_room

#: How many combinations at one site are looked at, to find one or to choose among them; also of
#: providers that trees share.
_MOST_COMBINATIONS = 500
#: How many uses of all trees are packed together.
_MOST_USES = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class PackedSite:
    """The copies at one site: where each goes, and what each uses that trees share."""

    combinations: Sequence[Combination]
    shared: Use


class SiteUse(NamedTuple):
    """What a copy at a site can take, and from where.

    :ivar site: the row at its top; ``anchor``: that of its tree.
    """

    site: int
    anchor: int
    use: Use
    combination: Combination


class TreePacker:
    """Packs copies into trees; like trees are packed once.

    :ivar budget: what the trees may cost.
    """

    def __init__(self, plan: Plan, depth: int, most: int) -> None:
        self._plan = plan
        self._depth = depth
        self._most = most
        self._bounds = CopyBounds(plan)
        self.budget = PackingBudget(0)
        self._free: dict[int, dict[int, int]] = {}
        #: The rows that serve several trees.
        self._sharing = {row for part in plan.parts for row in part.away}
        #: {what trees have in common: the copies of each site, by their places in the options}
        self._known: dict[Hashable, list[list[Combination]]] = {}

    def pack(self, choices: Choices) -> Iterator[tuple[int, dict[int, PackedSite]]]:
        """Yield each anchor, and the sites of its tree with room, by the row at their top."""
        trees = [(anchor, tree, self._make_key(tree, anchor)) for anchor, tree in zip(
            choices.anchors.tolist(), choices.trees(), strict=True)]
        keys = [key for _, _, key in trees]
        self.budget = PackingBudget(len({*keys} - {None}) + keys.count(None))
        for anchor, tree, key in trees:
            if key is None:
                yield anchor, self._pack_sites(tree, anchor)
                continue
            if key not in self._known:
                self._known[key] = [
                    [_find_places(tree, combination) for combination in packed.combinations]
                    for packed in self._pack_sites(tree, anchor).values()]
            yield anchor, self._find_sites(tree, anchor, self._known[key])

    def list_uses(self, choices: Choices) -> list[SiteUse]:
        """Return what copies can take of all trees, of the first ones if it is much.

        Trees with too many choices are left out.
        """
        self.budget = PackingBudget(len(choices.anchors))
        listed: list[SiteUse] = []
        for anchor, tree in zip(choices.anchors.tolist(), choices.trees(), strict=True):
            if len(listed) >= _MOST_USES:
                break
            self.budget.begin_tree()
            for (site, _), parts in self._split(tree, anchor).items():
                by_use, _ = self._list_uses(parts)
                listed += [SiteUse(site, anchor, use, combination)
                           for use, combination in by_use.items()]
        return listed

    def _find_sites(
        self, tree: AnchorTree, anchor: int, places: Sequence[Sequence[Combination]]
    ) -> dict[int, PackedSite]:
        """Return the sites of a tree that is like one that was packed."""
        sites = {}
        for own_places in places:
            combinations = [_take_places(tree, each) for each in own_places]
            sites[self._find_site(combinations[0], anchor)] = PackedSite(combinations, ())
        return sites

    def _make_key(self, tree: AnchorTree, anchor: int) -> Hashable | None:
        """Describe a tree that no sharing provider serves: equal ones have equal copies.

        :returns: None: whether there is an equal one is not known.
        """
        return None if self._sharing or tree.key is None else (
            tree.key,
            tuple(self._find_top(row) - anchor
                  for rows in tree.options for row in rows) if self._depth else (),
            tuple(self.read_free((row, class_id))
                  for part, rows in zip(self._plan.parts, tree.options, strict=True)
                  for row in rows for class_id in part.resources))

    def _pack_sites(self, tree: AnchorTree, anchor: int) -> dict[int, PackedSite]:
        """Return the sites of a tree; copies at one all use the same of other trees."""
        self.budget.begin_tree()
        sites: dict[int, PackedSite] = {}
        for (site, shared), parts in self._split(tree, anchor).items():
            if site in sites and not self.budget.allows(1):
                continue
            packed = self._pack_together(parts)
            if packed and (site not in sites or len(packed) > len(sites[site].combinations)):
                sites[site] = PackedSite(packed, shared)
        return sites

    def _split(
        self, tree: AnchorTree, anchor: int
    ) -> dict[tuple[int, Use], list[AnchorTree]]:
        """Return the parts of a tree by site and by what their copies use that trees share."""
        parts: dict[tuple[int, Use], list[AnchorTree]] = defaultdict(list)
        for site, options in self._split_by_site(tree, anchor):
            sources = map(self._list_sources, self._plan.parts, options)
            for own_options in itertools.islice(itertools.product(*sources), _MOST_COMBINATIONS):
                shared = tuple(
                    (cell, amount)
                    for cell, amount in self._measure([rows[0] for rows in own_options])
                    if cell[0] in self._sharing)
                # Members that use nothing of any host's own may go to each of them.
                parts[site, shared].append(AnchorTree(self._plan, list(own_options)))
        return parts

    def _list_sources(self, part: RequestPart, rows: list[int]) -> list[list[int]]:
        """Divide the rows of a part into those of one tree, and each that serves several."""
        if not self._sharing or not part.resources:
            return [rows]
        own = [row for row in rows if row not in self._sharing]
        return [*([own] if own else []), *([row] for row in rows if row in self._sharing)]

    def _split_by_site(
        self, tree: AnchorTree, anchor: int
    ) -> Iterator[tuple[int, list[list[int]]]]:
        """Yield the row at the top of each site, and the options that are there."""
        if not self._depth:
            yield anchor, tree.options
            return
        by_top: list[dict[int, list[int]]] = []
        for part, rows in zip(self._plan.parts, tree.options, strict=True):
            by_top.append(defaultdict(list))
            for row in rows if part.resources else ():
                by_top[-1][self._find_top(row)].append(row)
        tops = [rows for rows in by_top if rows]
        for top in tops[0] if tops else ():
            if top >= 0 and all(top in rows for rows in tops):
                yield top, [rows[top] if rows else anywhere
                            for rows, anywhere in zip(by_top, tree.options, strict=True)]

    def _find_site(self, combination: Combination, anchor: int) -> int:
        """Return the row at the top of a combination's site."""
        if not self._depth:
            return anchor
        return next(self._find_top(row) for part, row in zip(
            self._plan.parts, combination, strict=True) if part.resources)

    def _find_top(self, row: int) -> int:
        """Return the row at the depth of sites that a row is, or is below; -1: there is none."""
        line = self._plan.snapshot.layout.ancestors(row)
        return line[-1 - self._depth] if self._depth < len(line) else -1

    def _pack_together(self, trees: Sequence[AnchorTree]) -> list[Combination]:
        """Return where as many copies go as fit together into parts of one tree."""
        free = {(row, class_id): self.read_free((row, class_id))
                for tree in trees for number, rows in enumerate(tree.options)
                for class_id in self._plan.parts[number].resources for row in rows}
        enough = self._bounds.bound(free, self._most)
        if not enough:
            return []
        by_use, complete = self._list_uses(trees)
        packed = [] if complete else self._fill_in_turn(trees, free, enough)
        if len(packed) < enough:
            uses = list(by_use)
            packed = max(packed, [by_use[uses[at]] for at in packing.pack(
                uses, free, enough, self.budget)], key=len)
        return packed

    def _list_uses(self, trees: Sequence[AnchorTree]) -> tuple[dict[Use, Combination], bool]:
        """Return what copies can take, with a combination for each, and whether that is all."""
        most = sum(math.prod(map(len, tree.options)) for tree in trees)
        if not self.budget.allows(min(most, _MOST_COMBINATIONS)):
            return {}, False
        combinations = list(itertools.islice(
            itertools.chain.from_iterable(tree.combinations() for tree in trees),
            _MOST_COMBINATIONS + 1))
        self.budget.charge(len(combinations))
        by_use: dict[Use, Combination] = {}
        for combination in combinations[:_MOST_COMBINATIONS]:
            by_use.setdefault(self._measure(combination), combination)
        return by_use, len(combinations) <= _MOST_COMBINATIONS

    def _fill_in_turn(
        self, trees: Sequence[AnchorTree], free: Mapping[Cell, int], enough: int
    ) -> list[Combination]:
        """Return the same where there are too many uses to compare, or to list."""
        packed = self._fill(trees, dict(free), enough, evenly=False)
        if len(packed) < enough and self.budget.allows(1):
            packed = max(packed, self._fill(trees, dict(free), enough, evenly=True), key=len)
        return packed

    def _fill(
        self, trees: Sequence[AnchorTree], free: dict[Cell, int], enough: int, *, evenly: bool
    ) -> list[Combination]:
        """Place copies in one combination after another, as long as there is one with room.

        :param evenly: a share of those that fit, where the providers have most room.
        """
        packed: list[Combination] = []
        while len(packed) < enough and (not packed or self.budget.allows(1)):
            trees = [self._narrow(tree, free, evenly=evenly) for tree in trees]
            combination = self._find_next(trees, free)
            if combination is None:
                break
            use = self._measure(combination)
            copies = min(enough - len(packed), packing.choose_share(
                count_repeats(use, free), evenly=evenly))
            take(use, free, copies)
            packed += [combination] * copies
        return packed

    def _narrow(
        self, tree: AnchorTree, free: Mapping[Cell, int], *, evenly: bool
    ) -> AnchorTree:
        """Leave a tree the rows with room for a part; if ``evenly``, those with most first."""
        options = []
        for part, rows in zip(self._plan.parts, tree.options, strict=True):
            self.budget.charge(len(rows))
            amounts = [*part.resources.items()]
            roomy = [row for row in rows
                     if all(free[row, class_id] >= amount for class_id, amount in amounts)]
            if evenly and amounts:
                roomy.sort(
                    key=functools.partial(_count_at, free=free, amounts=amounts), reverse=True)
            options.append(roomy)
        return AnchorTree(self._plan, options)

    def _find_next(
        self, trees: Sequence[AnchorTree], free: Mapping[Cell, int]
    ) -> Combination | None:
        """Return the first combination that has room; each part has, but several may meet."""
        combinations = itertools.chain.from_iterable(
            tree.combinations() for tree in trees if all(tree.options))
        for combination in itertools.islice(combinations, _MOST_COMBINATIONS):
            self.budget.charge(1)
            if count_repeats(self._measure(combination), free):
                return combination
        return None

    def _measure(self, combination: Sequence[int]) -> Use:
        """Return what a copy takes."""
        amounts: dict[Cell, int] = defaultdict(int)
        for part, row in zip(self._plan.parts, combination, strict=True):
            for class_id, amount in part.resources.items():
                amounts[row, class_id] += amount
        return tuple(sorted(amounts.items()))

    def read_free(self, cell: Cell) -> int:
        """Return how much of an inventory is free."""
        row, class_id = cell
        if class_id not in self._free:
            snapshot = self._plan.snapshot
            rows = snapshot.column(class_id).rows
            amounts = part_room.read_free(snapshot, class_id, rows)
            self._free[class_id] = dict(zip(rows.tolist(), amounts.tolist(), strict=True))
        return self._free[class_id][row]


def _count_at(row: int, free: Mapping[Cell, int], amounts: Sequence[tuple[int, int]]) -> int:
    """Return how many copies of a part have room at a row."""
    return min([free[row, class_id] // amount for class_id, amount in amounts])


def _find_places(tree: AnchorTree, combination: Combination) -> Combination:
    return tuple(rows.index(row) for rows, row in zip(tree.options, combination, strict=True))


def _take_places(tree: AnchorTree, places: Combination) -> Combination:
    return tuple(rows[place] for rows, place in zip(tree.options, places, strict=True))
