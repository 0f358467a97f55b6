"""Finds allocation candidates in a snapshot.

Filters judge all providers at once (``filters``); combining goes tree by tree
(``combine``), and only as far as the limit needs. With a limit the trees take
turns, and combinations that differ only by an exchange of equal devices come
after all others. Without a limit the answer is complete.
Source: spec placement_api §4 and design §3.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Literal

import numpy as np

from placement_core.placement.candidates import errors, filters
from placement_core.placement.candidates.anchor_batches import AnchorBatch, FirstCombinations
from placement_core.placement.candidates.combine import AnchorTree, Combination
from placement_core.placement.candidates.equivalence import EquivalenceClasses
from placement_core.placement.candidates.filters import NULL_TRACE, NullTrace, RequestPart
from placement_core.placement.candidates.ordering import CandidateOrdering
from placement_core.placement.candidates.plans import Plan
from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.index.array_types import Amounts, Mask, Rows
from placement_core.placement.index.snapshot import CapacitySnapshot

Strategy = Literal["depth-first", "breadth-first"]
#: Returns how many combinations of some parts an answer has room for, if each combination is on
#: one provider, or may be on several.
FindMost = Callable[[Sequence[RequestPart], bool], int]

#: How many trees are prepared at a time, and at most where one of each is asked for.
_BATCH = 256
_LARGE_BATCH = 4096
#: How many rows of combinations are judged at a time.
_CELLS = 2**20
_NO_ROWS: Rows = np.array([], dtype=np.intp)


@dataclasses.dataclass(frozen=True, slots=True)
class Candidates:
    """What was found.

    :ivar parts: what each provider of a combination is for.
    :ivar columns: for each part the rows that serve it, one for each
        combination; one list for all parts where they share providers
        throughout.
    :ivar steps: what it cost, in rows looked at while combining.
    :ivar abandoned_trees: trees that cost too much, so that some of theirs may be missing.
    """

    parts: list[RequestPart]
    columns: list[list[int]]
    steps: int
    abandoned_trees: int = 0

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[Combination]:
        return zip(*self.columns, strict=True)


def find(
    snapshot: CapacitySnapshot,
    request: CandidatesRequest,
    *,
    max_candidates: int | None = None,
    find_most: FindMost | None = None,
    strategy: Strategy = "depth-first",
    randomize: bool = False,
    ordering: CandidateOrdering | None = None,
    exclude_reserved: bool = False,
) -> Candidates:
    """Find the combinations of providers that fit a request.

    :param max_candidates: the most combinations to make; None for no bound.
    :param find_most: None: an answer has room for any number.
    :param strategy: when ``max_candidates`` decides: all of one tree before
        the next tree, or one of each tree in turn.
    :param randomize: choose the combinations and their order at random, among trees that
        ``ordering`` ranks the same.
    :param ordering: which trees come first; None: the order of the snapshot.
    :param exclude_reserved: pooled trees are left out unless the request names them.
    :raises errors.UnknownRequestedClass: a class does not exist.
    :raises errors.UnknownRequestedTraits: traits do not exist.
    :raises errors.TooManyCandidates: there are more than an answer has room for.
    :raises errors.TooHard: some trees cost too much to search, and without
        them the answer would be incomplete (no bound) or none.
    """
    choices = choose(snapshot, request, exclude_reserved=exclude_reserved)
    plan, parts = choices.plan, choices.plan.parts
    if randomize:
        np.random.default_rng().shuffle(choices.anchors)
    ranked = ordering is not None and choices.sort_anchors(request, ordering)
    wanted = min(
        (most for most in (request.limit, max_candidates) if most is not None), default=None)
    in_turn = wanted is not None and (wanted == request.limit or strategy == "breadth-first")
    most = None if find_most is None else find_most(parts, choices.are_on_one_provider)
    # One more tells that there are more.
    bound = wanted if most is None else min(
        most + 1, wanted if wanted is not None else most + 1)
    unambiguous = choices.combine_unambiguous(bound)
    if unambiguous is not None:
        columns = _list_columns(unambiguous)
    else:
        columns = (
            _search_in_turns(choices, bound, randomize=randomize) if bound is not None and in_turn
            else _search_tree_by_tree(choices, bound, randomize=randomize))
        if plan.budget.abandoned_trees and (wanted is None or not columns[0]):
            raise errors.TooHard(plan.budget.abandoned_trees)
        if randomize and not ranked:
            places = random.sample(range(len(columns[0])), len(columns[0]))
            columns = [[column[at] for at in places] for column in columns]
    if most is not None and len(columns[0]) > most:
        raise errors.TooManyCandidates(most)
    return Candidates(parts, columns, plan.budget.steps, plan.budget.abandoned_trees)


def choose(
    snapshot: CapacitySnapshot, request: CandidatesRequest, trace: NullTrace = NULL_TRACE, *,
    exclude_reserved: bool = False,
) -> Choices:
    """Filter the providers, and return the choices to combine.

    :param trace: records what each filter left.
    :param exclude_reserved: pooled trees are left out unless the request names them.
    :raises errors.UnknownRequestedClass: a class does not exist.
    :raises errors.UnknownRequestedTraits: traits do not exist.
    """
    for group in request.groups:
        filters.resolve_class_ids(snapshot, group.resources)
    filters.check_traits(
        snapshot, (request.root_traits, *(group.traits for group in request.groups)))
    reserved = filters.find_reserved(snapshot, request) if exclude_reserved else None
    parts = _make_parts(snapshot, request, trace, reserved)
    anchors = np.flatnonzero(filters.find_anchors(snapshot, parts, request, trace, reserved))
    return Choices(Plan.build(snapshot, request, parts), anchors)


def _make_parts(
    snapshot: CapacitySnapshot, request: CandidatesRequest, trace: NullTrace,
    reserved: Mask | None,
) -> list[RequestPart]:
    parts = []
    for group in sorted(request.groups, key=lambda group: group.suffix != ""):
        if group.suffix:
            parts.append(filters.make_granular_part(snapshot, group, trace, reserved))
        else:
            parts.extend(filters.make_unsuffixed_parts(snapshot, group, trace, reserved))
    return parts


class Choices:
    """The rows to choose from, by anchor."""

    def __init__(self, plan: Plan, anchors: Rows) -> None:
        self.plan = plan
        self.anchors = anchors
        root = plan.snapshot.layout.root
        self.rows: list[Rows] = []
        self.roots: list[Rows] = []
        for part in plan.parts:
            rows = np.flatnonzero(part.home)
            roots = root[rows]
            if plan.snapshot.layout.trees and len(roots) and (roots[1:] < roots[:-1]).any():
                order = np.argsort(roots, kind="stable")
                rows, roots = rows[order], roots[order]
            self.rows.append(rows)
            self.roots.append(roots)

    @property
    def are_on_one_provider(self) -> bool:
        """Whether all parts of each combination are on the same provider, and no other can be."""
        return not self.plan.snapshot.layout.trees and not any(
            part.away for part in self.plan.parts)

    def sort_anchors(self, request: CandidatesRequest, ordering: CandidateOrdering) -> bool:
        """Sort the anchors by rank; return whether any differ in it."""
        requested: Counter[str] = Counter()
        for group in request.groups:
            requested.update(group.resources)
        ranked = ordering.sort(self.plan.snapshot, self.anchors, requested)
        if ranked is None:
            return False
        self.anchors = ranked
        return True

    def combine_unambiguous(self, bound: int | None) -> list[Rows] | None:
        """Combine all trees at once where none leaves a choice.

        :returns: as ``Candidates.columns``; None when some tree does leave one.
        """
        plan, anchors = self.plan, self.anchors
        if any(part.away for part in plan.parts):
            return None
        nested = bool(plan.snapshot.layout.trees)
        if plan.subtrees and nested:
            return None
        found: list[list[Rows]] = [[] for _ in (plan.parts if nested else plan.parts[:1])]
        count = 0
        step = max(_BATCH, _CELLS // len(plan.parts)) if plan.has_rules else len(anchors)
        for start in range(0, len(anchors), step or 1):
            left = None if bound is None else bound - count
            if left == 0:
                break
            batch = anchors[start:start + step] if plan.has_rules else anchors[:left]
            columns = [batch for _ in plan.parts]
            if nested:
                for number, (rows, roots) in enumerate(zip(self.rows, self.roots, strict=True)):
                    at = np.searchsorted(roots, batch)
                    after = np.minimum(at + 1, len(roots) - 1)
                    if (roots[after] == batch)[after > at].any():
                        return None
                    columns[number] = rows[at]
            keep = judge(plan, columns)
            for rows_found, column in zip(found, columns, strict=False):
                legal = column if keep is None else column[keep]
                rows_found.append(legal[:left])
            count += len(found[0][-1])
        combined = [np.concatenate([_NO_ROWS, *rows]) for rows in found]
        return combined if nested else combined * len(plan.parts)

    def batches(self, size: int = _BATCH, *, randomize: bool = False) -> Iterator[AnchorBatch]:
        """Prepare the anchors, a batch at a time."""
        # Combinations of sharing providers alone are yielded by one tree for all.
        shared: set[Hashable] | None = (
            set() if all(part.away for part in self.plan.parts) else None)
        for start in range(0, len(self.anchors), size):
            yield AnchorBatch(
                self.plan, self.anchors[start:start + size], self.rows, self.roots,
                shared=shared, shuffled=randomize)

    def trees(self, *, randomize: bool = False) -> Iterator[AnchorTree]:
        """Prepare the trees, a batch at a time."""
        return itertools.chain.from_iterable(
            batch.trees() for batch in self.batches(randomize=randomize))


def _list_columns(columns: Sequence[Rows]) -> list[list[int]]:
    """Make lists of columns; one, of a column for all parts."""
    first = columns[0].tolist()
    return [first if column is columns[0] else column.tolist() for column in columns]


def judge(plan: Plan, columns: list[Rows]) -> Mask | None:
    """Judge combinations given as one column for each part; None: all are legal."""
    keep: Mask | None = None

    def require(condition: Mask) -> None:
        nonlocal keep
        keep = condition if keep is None else keep & condition

    parts = plan.parts
    for traits in plan.required:
        met = np.zeros(len(columns[0]), dtype=bool)
        having = plan.mask_of_any_trait(traits)
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
    plan: Plan, class_id: int, demand: int, takers: list[tuple[Rows, int]]
) -> Mask:
    """Return for each combination whether providers have room for what meets there.

    :param takers: for each part that asks for the class its rows and amount.
    """
    column = plan.snapshot.column(class_id)

    def room(rows: Rows) -> Amounts:
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
    have_room: Mask = np.logical_and.reduce(totals - before <= room(rows), axis=0)
    return have_room


def _search_tree_by_tree(
    choices: Choices, bound: int | None, *, randomize: bool
) -> list[list[int]]:
    """Search all of one tree before the next.

    :returns: ``Candidates.columns``.
    """
    plan = choices.plan
    unique, equivalence = _Unique(plan), EquivalenceClasses(plan.budget)
    combinations = itertools.chain.from_iterable(
        unique.drop_repeats(equivalence.combinations(tree))
        for tree in choices.trees(randomize=randomize))
    return _to_columns(plan, itertools.islice(combinations, bound))


def _search_in_turns(choices: Choices, bound: int, *, randomize: bool) -> list[list[int]]:
    """Take one combination of each tree, then another of each, up to ``bound``.

    :returns: ``Candidates.columns``.
    """
    plan = choices.plan
    unique, equivalence = _Unique(plan), EquivalenceClasses(plan.budget)
    trees: list[AnchorTree] = []
    waiting: deque[Iterator[Combination]] = deque()
    found: list[Combination] = []
    if unique.is_each_trees_own:
        # Often one of each is enough, and then no search is started.
        firsts = _find_firsts(choices, equivalence, bound, randomize=randomize)
        columns = [np.concatenate(rows).tolist() for rows in zip(
            *[batch.columns for batch in firsts], strict=True)] or [[] for _ in plan.parts]
        if len(columns[0]) == bound:
            return columns
        found.extend(zip(*columns, strict=True))
        trees.extend(itertools.chain.from_iterable(batch.trees for batch in firsts))
        waiting.extend(itertools.islice(equivalence.combinations(tree, distinct=True), 1, None)
                       for tree in trees)
    else:
        for tree in choices.trees(randomize=randomize) if bound else ():
            combinations = unique.drop_repeats(equivalence.combinations(tree, distinct=True))
            for first in combinations:
                found.append(first)
                trees.append(tree)
                waiting.append(combinations)
                break
            if len(found) == bound:
                break
    found.extend(itertools.islice(_alternate(waiting), bound - len(found)))
    if len(found) < bound:
        seen = set(found)
        waiting.extend(
            (combination for combination in unique.drop_repeats(equivalence.combinations(tree))
             if combination not in seen)
            for tree in trees if equivalence.has_equals(tree))
        found.extend(itertools.islice(_alternate(waiting), bound - len(found)))
    return _to_columns(plan, found)


def _find_firsts(
    choices: Choices, equivalence: EquivalenceClasses, bound: int, *, randomize: bool
) -> list[FirstCombinations]:
    """Find the first combination of each tree, until there are ``bound``."""
    batches: list[FirstCombinations] = []
    for batch in choices.batches(min(max(bound, _BATCH), _LARGE_BATCH), randomize=randomize):
        if bound == 0:
            break
        firsts = batch.find_firsts(equivalence, bound)
        bound -= len(firsts)
        batches.append(firsts)
    return batches


def _to_columns(plan: Plan, found: Iterable[Combination]) -> list[list[int]]:
    return [list(rows) for rows in zip(*found, strict=True)] or [[] for _ in plan.parts]


class _Unique:
    """Drops combinations that another tree has yielded.

    Only sharing providers serve several trees, so only combinations of
    nothing but sharing providers can come twice.
    """

    def __init__(self, plan: Plan) -> None:
        self._sharing = (
            plan.snapshot.sharing_providers().keys()
            if all(part.away for part in plan.parts) else None)
        self._seen: set[Combination] = set()

    @property
    def is_each_trees_own(self) -> bool:
        """Say whether no tree can yield what another has yielded."""
        return self._sharing is None

    def drop_repeats(self, combinations: Iterator[Combination]) -> Iterator[Combination]:
        """Return the combinations of one tree that no other tree has yielded."""
        return combinations if self._sharing is None else self._drop_seen(combinations)

    def _drop_seen(self, combinations: Iterable[Combination]) -> Iterator[Combination]:
        assert self._sharing is not None
        for combination in combinations:
            if all(row in self._sharing for row in combination):
                if combination in self._seen:
                    continue
                self._seen.add(combination)
            yield combination


def take_turns(sources: Iterable[Iterator[Combination]]) -> Iterator[Combination]:
    """Take one from each source, then the next from each, until all are empty.

    A source is not started before its first turn.
    """
    waiting: deque[Iterator[Combination]] = deque()
    for source in sources:
        for combination in source:
            waiting.append(source)
            yield combination
            break
    yield from _alternate(waiting)


def _alternate(waiting: deque[Iterator[Combination]]) -> Iterator[Combination]:
    """Take one from each source in turn, until all are empty."""
    while waiting:
        source = waiting.popleft()
        for combination in source:
            waiting.append(source)
            yield combination
            break
