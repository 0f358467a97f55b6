"""How many copies of a request fit, in each tree and in all.

A copy is what one consumer claims: a provider for each part of the request. The number asked for
is the largest number of copies that can be placed one after the other.

Conditions that every choice meets anyway are dropped. Parts that no rule relates then fit
independently of each other: each tree has room for as many copies as its scarcest part allows.
Parts that are related are counted together (``alike_trees``), and what several trees share is
divided among them (``shared_room``).
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from placement_core.placement.candidates import filters, search
from placement_core.placement.candidates.anchor_batches import AnchorBatch
from placement_core.placement.candidates.filters import RequestPart
from placement_core.placement.candidates.plans import Plan
from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.candidates.search import Choices
from placement_core.placement.index.array_types import Mask, Rows
from placement_core.placement.index.snapshot import CapacitySnapshot
from placement_core.placement.room import alike_trees, greedy_copies, part_room, shared_room
from placement_core.placement.room.part_room import MOST_COPIES, Counts, PartRoom


@dataclasses.dataclass(frozen=True, slots=True)
class Copies:
    """How often a request fits.

    :ivar total: into all trees together.
    :ivar exact: False: there may be room for more.
    :ivar on_each: for each tree how often, if no other tree gets any.
    :ivar exhausted: a line for each part of the request: in which trees there is no room for
        another one once all copies are placed.
    """

    total: int
    exact: bool
    on_each: Counts
    exhausted: Mask


@dataclasses.dataclass(frozen=True, slots=True)
class _TiedRoom:
    """How often parts that are related fit into each tree.

    :ivar numbers: those of the parts.
    :ivar exact: whether that is so for all trees.
    """

    numbers: list[int]
    own: Counts
    exact: bool


def count(snapshot: CapacitySnapshot, request: CandidatesRequest, choices: Choices) -> Copies:
    """Return how often a request fits into the trees of its anchors.

    :param choices: what ``search.choose`` found for it.
    """
    anchors = choices.anchors
    if not len(anchors):
        return Copies(0, True, np.zeros(0, dtype=np.int64),
                      np.zeros((len(choices.plan.parts), 0), dtype=bool))
    request, parts = _drop_met_conditions(snapshot, request, choices)
    plan = Plan.build(snapshot, request, parts)
    rooms = [part_room.measure(snapshot, part, anchors) for part in parts]
    ties = [numbers for numbers in _list_independent_groups(plan) if len(numbers) > 1]
    # What related parts have from several trees is not counted, only bounded.
    crossing = any(parts[number].away for numbers in ties for number in numbers)
    tied = [] if crossing else [
        _count_tied(snapshot, request, parts, numbers, anchors) for numbers in ties]
    on_each = np.minimum.reduce([room.alone for room in rooms] + [room.own for room in tied])
    division = shared_room.divide(on_each, rooms)
    total = int(division.copies.sum())
    exact = total == division.most and all(room.exact for room in tied)
    if crossing:
        placed = greedy_copies.place(Choices(plan, anchors))
        total, on_each = placed.total, placed.on_each
        exact = total == division.most or placed.impossible
    return Copies(total, exact, on_each, _find_exhausted(rooms, tied, division))


def _drop_met_conditions(
    snapshot: CapacitySnapshot, request: CandidatesRequest, choices: Choices
) -> tuple[CandidatesRequest, list[RequestPart]]:
    """Drop each trait that the group without suffix has, whatever is chosen for it."""
    parts = choices.plan.parts
    numbers = [number for number, part in enumerate(parts) if not part.granular]
    if not choices.plan.required:
        return request, parts
    group = next(group for group in request.groups if not group.suffix)
    if len(numbers) == 1:
        parts = [*parts]
        parts[numbers[0]] = _require(snapshot, parts[numbers[0]], group.traits.required)
        required: tuple[frozenset[str], ...] = ()
    else:
        required = tuple(
            names for names in group.traits.required
            if not _is_met(snapshot, [parts[number] for number in numbers], names,
                           choices.anchors))
    traits = dataclasses.replace(group.traits, required=required)
    groups = tuple(dataclasses.replace(other, traits=traits) if other is group else other
                   for other in request.groups)
    return dataclasses.replace(request, groups=groups), parts


def _require(
    snapshot: CapacitySnapshot, part: RequestPart, required: tuple[frozenset[str], ...]
) -> RequestPart:
    """Return a part with only those providers that meet all conditions by themselves."""
    home = part.home
    away = part.away
    for names in required:
        having = filters.with_any_trait(snapshot, names)
        assert having is not None
        home = home & having
        away = [row for row in away if having[row]]
    return dataclasses.replace(part, home=home, away=away)


def _is_met(
    snapshot: CapacitySnapshot, parts: list[RequestPart], names: frozenset[str], anchors: Rows
) -> bool:
    """Say whether in each tree some part has one of these traits whatever serves it."""
    having = filters.with_any_trait(snapshot, names)
    assert having is not None
    met = np.zeros(snapshot.size, dtype=bool)
    for part in parts:
        if all(having[row] for row in part.away):
            lacking = np.zeros(snapshot.size, dtype=bool)
            lacking[snapshot.layout.root[part.home & ~having]] = True
            met |= ~lacking
    return bool(met[anchors].all())


def _list_independent_groups(plan: Plan) -> list[list[int]]:
    """Return the numbers of the parts of each independent group."""
    groups: dict[int, list[int]] = {}
    for number, group in enumerate(plan.independent_groups):
        groups.setdefault(group, []).append(number)
    return list(groups.values())


def _count_tied(
    snapshot: CapacitySnapshot, request: CandidatesRequest, parts: list[RequestPart],
    numbers: list[int], anchors: Rows,
) -> _TiedRoom:
    """Count how often parts that are related fit together, on each tree's own providers."""
    own_parts = [parts[number] for number in numbers]
    suffixes = {part.suffix for part in own_parts}
    plan = Plan.build(snapshot, dataclasses.replace(request, groups=tuple(
        group for group in request.groups if group.suffix in suffixes)), own_parts)
    choices = Choices(plan, anchors)
    firsts = [np.searchsorted(roots, anchors) for roots in choices.roots]
    ends = [np.searchsorted(roots, anchors, side="right") for roots in choices.roots]
    single = np.logical_and.reduce([
        end - first == 1 for first, end in zip(firsts, ends, strict=True)])
    if plan.subtrees and snapshot.layout.trees:
        single[:] = False
    own = np.zeros(len(anchors), dtype=np.int64)
    own[single] = _count_single(plan, [
        rows[first[single]] for rows, first in zip(choices.rows, firsts, strict=True)])
    places = np.flatnonzero(~single)
    exact = True
    if len(places):
        batch = AnchorBatch(
            plan, anchors[places], choices.rows, choices.roots, shared=None, shuffled=False)
        own[places], exact = alike_trees.pack(batch)
    return _TiedRoom(numbers, own, exact)


def _count_single(plan: Plan, columns: list[Rows]) -> Counts:
    """Count the copies where each part has only one provider.

    :param columns: for each part its provider, in some trees.
    """
    copies = np.full(len(columns[0]), MOST_COPIES, dtype=np.int64)
    legal = search.judge(plan, columns)
    if legal is not None:
        copies[~legal] = 0
    for rows, part in zip(columns, plan.parts, strict=True):
        for class_id in part.resources:
            total = np.zeros(len(rows), dtype=np.int64)
            for other_rows, other in zip(columns, plan.parts, strict=True):
                total += np.where(other_rows == rows, other.resources.get(class_id, 0), 0)
            np.minimum(copies, part_room.read_free(plan.snapshot, class_id, rows) // total,
                       out=copies)
    return copies


def _find_exhausted(
    rooms: list[PartRoom], tied: list[_TiedRoom], division: shared_room.Division
) -> Mask:
    """Return in which trees each part has no room for another copy."""
    placed = division.copies
    exhausted = np.stack([
        (room.alone == placed) | short
        for room, short in zip(rooms, division.short, strict=True)])
    for room in tied:
        # All of them, where none of them alone is what stops the next copy.
        together = (room.own == placed) & ~exhausted[room.numbers].any(axis=0)
        exhausted[room.numbers] |= together
    found: npt.NDArray[np.bool_] = exhausted
    return found
