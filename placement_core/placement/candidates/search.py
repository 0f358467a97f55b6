"""Finds allocation candidates in a world.

Filtering looks at all providers at once (``filters``); combining goes tree by
tree (``combine``), and only as far as the limit needs. With a limit the trees
take turns, and combinations that differ only by an exchange of equal devices
come after all others. Without a limit the answer is complete.
Source: spec placement_api §4 and design §3.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from typing import Literal

import numpy as np

from placement_core.placement.candidates import errors, filters
from placement_core.placement.candidates.blocks import Block, Firsts
from placement_core.placement.candidates.combine import Combination, Tree
from placement_core.placement.candidates.filters import UNNOTED, Part, Unnoted
from placement_core.placement.candidates.plans import Plan
from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.candidates.shapes import Shapes
from placement_core.placement.index.world import World

Strategy = Literal["depth-first", "breadth-first"]

#: How many trees are prepared at a time, and at most where one of each is asked for.
_BLOCK = 256
_LARGE_BLOCK = 4096
#: How many rows of combinations are judged at a time.
_CELLS = 2**20


@dataclasses.dataclass(frozen=True, slots=True)
class Candidates:
    """What was found.

    :ivar parts: what each provider of a combination is for.
    :ivar columns: for each part the rows that serve it, one for each
        combination; one list for all parts where they share providers
        throughout.
    :ivar steps: what it cost, in rows looked at while combining.
    :ivar left: trees that cost too much, so that some of theirs may be missing.
    """

    parts: list[Part]
    columns: list[list[int]]
    steps: int
    left: int = 0

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[Combination]:
        return zip(*self.columns, strict=True)


def find(
    world: World,
    request: CandidatesRequest,
    *,
    max_candidates: int | None = None,
    strategy: Strategy = "depth-first",
    randomize: bool = False,
    fence: bool = False,
) -> Candidates:
    """Find the combinations of providers that fit a request.

    :param max_candidates: at most so many are made at all; None for no bound.
    :param strategy: when ``max_candidates`` decides: all of one tree before
        the next tree, or one of each tree in turn.
    :param randomize: which ones, and their order, are left to chance.
    :param fence: pooled trees are left out unless the request names them.
    :raises errors.UnknownResourceClass: a class does not exist.
    :raises errors.UnknownTraits: traits do not exist.
    :raises errors.TooHard: some trees cost too much to search, and without
        them the answer would be incomplete (no bound) or none.
    """
    choices = choose(world, request, fence=fence)
    plan, parts = choices.plan, choices.plan.parts
    if randomize:
        np.random.default_rng().shuffle(choices.anchors)
    bound = min(
        (each for each in (request.limit, max_candidates) if each is not None), default=None)
    columns = choices.alone(bound)
    if columns is None:
        in_turn = bound is not None and (bound == request.limit or strategy == "breadth-first")
        columns = (
            _in_turn(choices, bound, randomize=randomize) if bound is not None and in_turn
            else _one_by_one(choices, bound, randomize=randomize))
        if plan.effort.left and (bound is None or not columns[0]):
            raise errors.TooHard(plan.effort.left)
        if randomize:
            order = random.sample(range(len(columns[0])), len(columns[0]))
            columns = [[column[at] for at in order] for column in columns]
    return Candidates(parts, columns, plan.effort.steps, plan.effort.left)


def choose(
    world: World, request: CandidatesRequest, trace: Unnoted = UNNOTED, *, fence: bool = False
) -> Choices:
    """Filter: return what there is to combine.

    :param trace: takes down what each filter left.
    :param fence: pooled trees are left out unless the request names them.
    :raises errors.UnknownResourceClass: a class does not exist.
    :raises errors.UnknownTraits: traits do not exist.
    """
    for group in request.groups:
        filters.class_ids(world, group.resources)
    filters.check_traits(
        world, (request.root_traits, *(group.traits for group in request.groups)))
    kept = filters.fenced(world, request) if fence else None
    parts = _parts(world, request, trace, kept)
    anchors = np.flatnonzero(filters.anchors(world, parts, request, trace, kept))
    return Choices(Plan.of(world, request, parts), anchors)


def _parts(
    world: World, request: CandidatesRequest, trace: Unnoted, kept: np.ndarray | None
) -> list[Part]:
    parts = []
    for group in sorted(request.groups, key=lambda group: group.suffix != ""):
        if group.suffix:
            parts.append(filters.granular_part(world, group, trace, kept))
        else:
            parts.extend(filters.unsuffixed_parts(world, group, trace, kept))
    return parts


class Choices:
    """The rows to choose from, by anchor."""

    def __init__(self, plan: Plan, anchors: np.ndarray) -> None:
        self.plan = plan
        self.anchors = anchors
        root = plan.world.layout.root
        self.rows: list[np.ndarray] = []
        self.roots: list[np.ndarray] = []
        for part in plan.parts:
            rows = np.flatnonzero(part.home)
            roots = root[rows]
            if plan.world.layout.trees and len(roots) and (roots[1:] < roots[:-1]).any():
                order = np.argsort(roots, kind="stable")
                rows, roots = rows[order], roots[order]
            self.rows.append(rows)
            self.roots.append(roots)

    def alone(self, bound: int | None) -> list[list[int]] | None:
        """Combine all trees at once where none leaves a choice.

        :returns: ``Candidates.columns``; None when some tree does leave one.
        """
        plan, anchors = self.plan, self.anchors
        if any(part.away for part in plan.parts):
            return None
        nested = bool(plan.world.layout.trees)
        if plan.subtrees and nested:
            return None
        found: list[list[int]] = [[] for _ in (plan.parts if nested else plan.parts[:1])]
        step = max(_BLOCK, _CELLS // len(plan.parts)) if plan.has_rules else len(anchors)
        for start in range(0, len(anchors), step or 1):
            left = None if bound is None else bound - len(found[0])
            if left == 0:
                break
            block = anchors[start:start + step] if plan.has_rules else anchors[:left]
            columns = [block for _ in plan.parts]
            if nested:
                for number, (rows, roots) in enumerate(zip(self.rows, self.roots, strict=True)):
                    at = np.searchsorted(roots, block)
                    after = np.minimum(at + 1, len(roots) - 1)
                    if (roots[after] == block)[after > at].any():
                        return None
                    columns[number] = rows[at]
            keep = _legal(plan, columns)
            for rows_found, column in zip(found, columns, strict=False):
                kept = column if keep is None else column[keep]
                rows_found.extend(kept[:left].tolist())
        return found if nested else found * len(plan.parts)

    def blocks(self, size: int = _BLOCK, *, randomize: bool = False) -> Iterator[Block]:
        """Prepare the anchors, a block at a time."""
        # What sharing providers give among themselves, one tree gives for all.
        shared: set[Hashable] | None = (
            set() if all(part.away for part in self.plan.parts) else None)
        for start in range(0, len(self.anchors), size):
            yield Block(
                self.plan, self.anchors[start:start + size], self.rows, self.roots,
                shared=shared, shuffled=randomize)

    def trees(self, *, randomize: bool = False) -> Iterator[Tree]:
        """Prepare the trees, a block at a time."""
        return itertools.chain.from_iterable(
            block.trees() for block in self.blocks(randomize=randomize))


def _legal(plan: Plan, columns: list[np.ndarray]) -> np.ndarray | None:
    """Judge combinations given as one column for each part; None: all are legal."""
    keep: np.ndarray | None = None

    def require(condition: np.ndarray) -> None:
        nonlocal keep
        keep = condition if keep is None else keep & condition

    parts = plan.parts
    for traits in plan.required:
        met = np.zeros(len(columns[0]), dtype=bool)
        having = plan.meeting(traits)
        for part, rows in zip(parts, columns, strict=True):
            if not part.granular:
                met |= having[rows]
        require(met)
    if plan.isolate:
        taken = np.sort(np.stack(
            [rows for part, rows in zip(parts, columns, strict=True) if part.granular]), axis=0)
        require(np.logical_and.reduce(taken[1:] != taken[:-1], axis=0))
    if plan.one_per_tree:
        using = [rows for part, rows in zip(parts, columns, strict=True) if part.resources]
        for rows in using:
            require(rows == using[0])
    for class_id, demand in plan.demand.items():
        takers = [(rows, part.resources[class_id])
                  for part, rows in zip(parts, columns, strict=True)
                  if class_id in part.resources]
        require(_have_room(plan, class_id, demand, takers))
    return keep


def _have_room(
    plan: Plan, class_id: int, demand: int, takers: list[tuple[np.ndarray, int]]
) -> np.ndarray:
    """Return for each combination whether providers have room for what meets there.

    :param takers: for each part that asks for the class its rows and amount.
    """
    column = plan.world.column(class_id)

    def room(rows: np.ndarray) -> np.ndarray:
        at = np.searchsorted(column.rows, rows)
        return np.minimum(column.free[at], column.max_unit[at])

    first = takers[0][0]
    if all(rows is first for rows, _ in takers):
        return room(first) >= demand
    stacked = np.stack([rows for rows, _ in takers])
    order = np.argsort(stacked, axis=0, kind="stable")
    rows = np.take_along_axis(stacked, order, axis=0)
    amounts = np.array([amount for _, amount in takers], dtype=np.int64)[order]
    totals = np.cumsum(amounts, axis=0)
    # Where a provider's run begins, what came before is not its own.
    begins = np.ones(rows.shape, dtype=bool)
    begins[1:] = rows[1:] != rows[:-1]
    before = np.maximum.accumulate(np.where(begins, totals - amounts, 0), axis=0)
    return np.logical_and.reduce(totals - before <= room(rows), axis=0)


def _one_by_one(choices: Choices, bound: int | None, *, randomize: bool) -> list[list[int]]:
    """Go through the trees: all of one before the next.

    :returns: ``Candidates.columns``.
    """
    plan = choices.plan
    unique, shapes = _Unique(plan), Shapes(plan.effort)
    everything = itertools.chain.from_iterable(
        unique.of(shapes.combinations(tree)) for tree in choices.trees(randomize=randomize))
    return _columns(plan, itertools.islice(everything, bound))


def _in_turn(choices: Choices, bound: int, *, randomize: bool) -> list[list[int]]:
    """Go through the trees as far as is needed: one of each, then another of each.

    :returns: ``Candidates.columns``.
    """
    plan = choices.plan
    unique, shapes = _Unique(plan), Shapes(plan.effort)
    begun: list[Tree] = []
    waiting: deque[Iterator[Combination]] = deque()
    found: list[Combination] = []
    if unique.is_each_trees_own:
        # Often one of each is enough, and then no search need be begun.
        firsts = _firsts(choices, shapes, bound, randomize=randomize)
        columns = [np.concatenate(rows).tolist() for rows in zip(
            *[block.columns for block in firsts], strict=True)] or [[] for _ in plan.parts]
        if len(columns[0]) == bound:
            return columns
        found.extend(zip(*columns, strict=True))
        begun.extend(itertools.chain.from_iterable(block.trees for block in firsts))
        waiting.extend(itertools.islice(shapes.combinations(tree, distinct=True), 1, None)
                       for tree in begun)
    else:
        for tree in choices.trees(randomize=randomize) if bound else ():
            combinations = unique.of(shapes.combinations(tree, distinct=True))
            for first in combinations:
                found.append(first)
                begun.append(tree)
                waiting.append(combinations)
                break
            if len(found) == bound:
                break
    found.extend(itertools.islice(_turns(waiting), bound - len(found)))
    if len(found) < bound:
        already = set(found)
        waiting.extend(
            (each for each in unique.of(shapes.combinations(tree)) if each not in already)
            for tree in begun if shapes.symmetric(tree))
        found.extend(itertools.islice(_turns(waiting), bound - len(found)))
    return _columns(plan, found)


def _firsts(
    choices: Choices, shapes: Shapes, bound: int, *, randomize: bool
) -> list[Firsts]:
    """Find the first combination of each tree, until there are so many."""
    found: list[Firsts] = []
    for block in choices.blocks(min(max(bound, _BLOCK), _LARGE_BLOCK), randomize=randomize):
        if bound == 0:
            break
        firsts = block.firsts(shapes, bound)
        bound -= len(firsts)
        found.append(firsts)
    return found


def _columns(plan: Plan, found: Iterable[Combination]) -> list[list[int]]:
    return [list(rows) for rows in zip(*found, strict=True)] or [[] for _ in plan.parts]


class _Unique:
    """Drops combinations that another tree has given.

    Only sharing providers are in several trees, so only combinations of
    nothing but sharing providers can be given twice.
    """

    def __init__(self, plan: Plan) -> None:
        self._sharing = (
            plan.world.sharing().keys() if all(part.away for part in plan.parts) else None)
        self._seen: set[Combination] = set()

    @property
    def is_each_trees_own(self) -> bool:
        """Say whether no tree can give what another has given."""
        return self._sharing is None

    def of(self, combinations: Iterator[Combination]) -> Iterator[Combination]:
        """Return the combinations of one tree that no other tree has given."""
        return combinations if self._sharing is None else self._first(combinations)

    def _first(self, combinations: Iterable[Combination]) -> Iterator[Combination]:
        assert self._sharing is not None
        for combination in combinations:
            if all(row in self._sharing for row in combination):
                if combination in self._seen:
                    continue
                self._seen.add(combination)
            yield combination


def take_turns(sources: Iterable[Iterator[Combination]]) -> Iterator[Combination]:
    """Take one from each source, then the next from each, until all are empty.

    A source is not begun before its first turn.
    """
    waiting: deque[Iterator[Combination]] = deque()
    for source in sources:
        for combination in source:
            waiting.append(source)
            yield combination
            break
    yield from _turns(waiting)


def _turns(waiting: deque[Iterator[Combination]]) -> Iterator[Combination]:
    """Take one from each source in turn, until all are empty."""
    while waiting:
        source = waiting.popleft()
        for combination in source:
            waiting.append(source)
            yield combination
            break
