"""Which providers fit: every filter takes and gives booleans over all rows.

Each filter notes what it left, which is what explains an empty answer; who only
wants the answer hands it ``UNNOTED``.
Source: spec placement_api §4.2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from placement_core.placement.allocations import reserved_trees
from placement_core.placement.candidates import errors
from placement_core.placement.candidates.requests import (
    AggregateFilter,
    CandidatesRequest,
    RequestGroup,
    TraitFilter,
)
from placement_core.placement.index.world import World


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One filter, and what it left.

    :ivar group: the suffix of its group; None for filters of whole trees.
    :ivar filter: one of the names below.
    :ivar wanted: what it looked for: for RESOURCES (class id, amount); for TRAITS the
        names of which one is enough; for AGGREGATES a set like that for each
        condition; for the NO_… ones the names that must not be; for IN_TREE the uuid;
        for PART the part; for FENCE how many trees it left out; for NOTHING None.
    :ivar mask: the rows it left, as booleans; of trees, their roots.
    """

    group: str | None
    filter: str
    wanted: Any
    mask: np.ndarray


RESOURCES = "resources"
TRAITS = "traits"
NO_TRAITS = "no traits"
AGGREGATES = "aggregates"
NO_AGGREGATES = "no aggregates"
IN_TREE = "in_tree"
#: A granular group that asks for nothing that could pick a provider.
NOTHING = "nothing"
#: Of trees: the root has to have, or must not have; one provider serves the part.
ROOT_TRAITS = "root traits"
NO_ROOT_TRAITS = "no root traits"
PART = "part"
#: Of trees: not pooled, or named by the request.
FENCE = "fence"


class Unnoted:
    """Takes no notes, at next to no cost."""

    __slots__ = ()

    def note(
        self, group: str | None, name: str, wanted: Any, mask: np.ndarray,
        more: Collection[int] = (),
    ) -> None:
        """Note that the filter ``name`` of ``group`` left ``mask`` and ``more`` rows."""


class Trace(Unnoted):
    """What the filters left, in order."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def note(
        self, group: str | None, name: str, wanted: Any, mask: np.ndarray,
        more: Collection[int] = (),
    ) -> None:
        """Note that the filter ``name`` of ``group`` left ``mask`` and ``more`` rows."""
        mask = mask.copy()
        mask[list(more)] = True
        self.steps.append(Step(group, name, wanted, mask))


UNNOTED = Unnoted()


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """Something one provider has to give: a class, or a whole granular group.

    :ivar resources: amounts by resource class id.
    :ivar home: rows that fit, each in its own tree, as booleans.
    :ivar away: rows of sharing providers that fit in trees they are anchored at.
    :ivar closed: root rows where nothing from outside may be used, or None.
    """

    suffix: str
    resources: Mapping[int, int]
    home: np.ndarray
    away: list[int]
    closed: np.ndarray | None = None

    @property
    def granular(self) -> bool:
        """Say whether the part is a group of its own."""
        return self.suffix != ""


def class_ids(world: World, names: Iterable[str]) -> dict[str, int]:
    """Return the ids of resource classes.

    :raises errors.UnknownResourceClass: for the first that does not exist.
    """
    known = world.names.class_ids
    ids = {}
    for name in names:
        if name not in known:
            raise errors.UnknownResourceClass(name)
        ids[name] = known[name]
    return ids


def check_traits(
    world: World, filters: Iterable[TraitFilter], *, parameter: str | None = None
) -> None:
    """Refuse traits that do not exist.

    :raises errors.UnknownTraits: with all of them.
    """
    known = world.names.trait_ids
    unknown = {
        name for each in filters for names in (*each.required, each.forbidden)
        for name in names if name not in known}
    if unknown:
        raise errors.UnknownTraits(unknown, parameter=parameter)


def fitting(world: World, resources: Mapping[int, int]) -> Iterable[tuple[int, np.ndarray]]:
    """Return which rows fit each class, {class id: booleans}, as pairs."""
    for class_id, amount in resources.items():
        yield class_id, world.column(class_id).fitting(amount, world.size)


def with_any_trait(world: World, names: Collection[str]) -> np.ndarray | None:
    """Return which rows have one of these traits; None for no traits."""
    ids = world.names.trait_ids
    if not names:
        return None
    return _any_of([world.having(ids[name]).mask(world.size) for name in names], world.size)


def in_aggregates(world: World, member_of: Iterable[frozenset[str]]) -> np.ndarray | None:
    """Return which rows are in one aggregate of every set; None for no condition."""
    return _all_of(
        _any_of([world.members(uuid).mask(world.size) for uuid in uuids], world.size)
        for uuids in member_of)


def in_any_aggregate(world: World, uuids: Collection[str]) -> np.ndarray | None:
    """Return which rows are in one of these aggregates; None for no aggregates."""
    if not uuids:
        return None
    return _any_of([world.members(uuid).mask(world.size) for uuid in uuids], world.size)


def in_tree(world: World, uuid: str) -> np.ndarray:
    """Return the rows of the tree that a provider is part of."""
    mask = np.zeros(world.size, dtype=bool)
    row = world.layout.row_of_uuid.get(uuid)
    if row is not None:
        mask[list(world.layout.tree(int(world.layout.root[row])))] = True
    return mask


def fenced(world: World, request: CandidatesRequest) -> np.ndarray | None:
    """Return the rows of pooled trees that the request does not name; None: there are none.

    A tree is named by in_tree, by a resource class of a reservation that it has inventory
    of, or by an aggregate with a member in it.
    """
    if not len(world.pooled.rows):
        return None
    root = world.layout.root
    named = np.zeros(world.size, dtype=bool)
    for group in request.groups:
        for class_id in class_ids(world, filter(_is_pass, group.resources)).values():
            named[root[world.column(class_id).rows]] = True
        for uuids in group.aggregates.member_of:
            for uuid in uuids:
                named[root[world.members(uuid).rows]] = True
        row = None if group.in_tree is None else world.layout.row_of_uuid.get(group.in_tree)
        if row is not None:
            named[root[row]] = True
    return (world.pooled.mask(world.size) & ~named)[root]


def _is_pass(resource_class: str) -> bool:
    return resource_class.startswith(reserved_trees.PASSES)


def single(
    world: World,
    resources: Mapping[int, int],
    traits: TraitFilter,
    aggregates: AggregateFilter,
    tree: str | None,
    trace: Unnoted = UNNOTED,
    suffix: str = "",
) -> np.ndarray:
    """Return the rows that satisfy everything by themselves."""
    mask = world.layout.root >= 0
    for class_id, fits in fitting(world, resources):
        mask &= fits
        trace.note(suffix, RESOURCES, (class_id, resources[class_id]), mask)
    for names in traits.required:
        having = with_any_trait(world, names)
        assert having is not None
        mask &= having
        trace.note(suffix, TRAITS, names, mask)
    keep = (
        (NO_TRAITS, traits.forbidden, with_any_trait(world, traits.forbidden), False),
        (AGGREGATES, aggregates.member_of, in_aggregates(world, aggregates.member_of), True),
        (NO_AGGREGATES, aggregates.forbidden,
         in_any_aggregate(world, aggregates.forbidden), False),
        (IN_TREE, tree, None if tree is None else in_tree(world, tree), True),
    )
    for name, wanted, condition, keeps in keep:
        if condition is not None:
            mask &= condition if keeps else ~condition
            trace.note(suffix, name, wanted, mask)
    return mask


def granular_part(
    world: World, group: RequestGroup, trace: Unnoted, kept: np.ndarray | None = None
) -> Part:
    """Return the part that a granular group is.

    :param kept: whose providers serve no other tree, either (``fenced``).
    """
    resources = {world.names.class_ids[name]: amount for name, amount in group.resources.items()}
    # A group without resources needs a reason to pick a provider, and its
    # in_tree is no reason (upstream; spec §4.2).
    tree = group.in_tree if resources else None
    mask = single(world, resources, group.traits, group.aggregates, tree, trace, group.suffix)
    if not resources and not (group.traits.required or group.aggregates.member_of):
        mask[:] = False
        trace.note(group.suffix, NOTHING, None, mask)
    if group.in_tree is not None and group.in_tree not in world.layout.row_of_uuid:
        mask[:] = False
        trace.note(group.suffix, IN_TREE, group.in_tree, mask)
    away = [row for row in _sharing(world, kept) if mask[row]]
    return Part(group.suffix, resources, mask, away)


def unsuffixed_parts(
    world: World, group: RequestGroup, trace: Unnoted, kept: np.ndarray | None = None
) -> list[Part]:
    """Return a part for each class of the unsuffixed group.

    Required traits are not judged here: the providers of all parts together
    have to have them.

    :param kept: whose providers serve no other tree, either (``fenced``).
    """
    root = world.layout.root
    allowed = root >= 0
    inside = in_aggregates(world, group.aggregates.member_of)
    if inside is not None:
        # An aggregate of the root spans the tree. (Vacant rows stay out.)
        allowed &= inside | inside[root]
        trace.note("", AGGREGATES, group.aggregates.member_of, allowed)
    closed = in_any_aggregate(world, group.aggregates.forbidden)
    if closed is not None:
        allowed &= ~(closed | closed[root])
        trace.note("", NO_AGGREGATES, group.aggregates.forbidden, allowed)
    unwanted = with_any_trait(world, group.traits.forbidden)
    if unwanted is not None:
        allowed &= ~unwanted
        trace.note("", NO_TRAITS, group.traits.forbidden, allowed)
    if group.in_tree is not None:
        allowed &= in_tree(world, group.in_tree)
        trace.note("", IN_TREE, group.in_tree, allowed)
    resources = {world.names.class_ids[name]: amount for name, amount in group.resources.items()}
    # Nothing is shared into the tree that in_tree names.
    sharing = [] if group.in_tree is not None else [
        row for row in _sharing(world, kept)
        if (inside is None or inside[row])
        and (closed is None or not closed[row])
        and (unwanted is None or not unwanted[row])]
    parts = []
    for class_id, fits in fitting(world, resources):
        away = [row for row in sharing if fits[row]]
        home = fits & allowed
        trace.note("", RESOURCES, (class_id, resources[class_id]), home, away)
        parts.append(Part("", {class_id: resources[class_id]}, home, away, closed))
    return parts


def anchors(
    world: World, parts: list[Part], request: CandidatesRequest, trace: Unnoted,
    kept: np.ndarray | None = None,
) -> np.ndarray:
    """Return the rows of roots where every part has an option, as booleans.

    :param kept: rows of trees that are left out (``fenced``).
    """
    root = world.layout.root
    mask = root == np.arange(world.size)
    for names in request.root_traits.required:
        having = with_any_trait(world, names)
        assert having is not None
        mask &= having
        trace.note(None, ROOT_TRAITS, names, mask)
    forbidden = with_any_trait(world, request.root_traits.forbidden)
    if forbidden is not None:
        mask &= ~forbidden
        trace.note(None, NO_ROOT_TRAITS, request.root_traits.forbidden, mask)
    for part in parts:
        mask &= _reached(world, part, part.home, part.away)
        trace.note(None, PART, part, mask)
    for group in request.groups:
        for names in () if group.suffix else group.traits.required:
            having = with_any_trait(world, names)
            assert having is not None
            met = np.zeros(world.size, dtype=bool)
            for part in parts:
                if not part.granular:
                    met |= _reached(world, part, part.home & having,
                                    [row for row in part.away if having[row]])
            mask &= met
            trace.note(None, TRAITS, names, mask)
    if kept is not None:
        # Last: what it leaves out are trees that had room.
        left_out = int(np.count_nonzero(mask & kept))
        mask &= ~kept
        trace.note(None, FENCE, left_out, mask)
    return mask


def _sharing(world: World, kept: np.ndarray | None) -> Iterable[int]:
    """Return the rows of sharing providers that are not in trees that are left out."""
    sharing = world.sharing()
    return sharing if kept is None else [row for row in sharing if not kept[row]]


def _reached(world: World, part: Part, home: np.ndarray, away: list[int]) -> np.ndarray:
    """Return the rows of roots of the trees that these providers can serve."""
    if not world.layout.trees and not away:
        return home
    reached = np.zeros(world.size, dtype=bool)
    sharing = world.sharing()
    for row in away:
        reached |= sharing[row].mask(world.size)
    if part.closed is not None:
        reached &= ~part.closed
    reached[world.layout.root[home]] = True
    return reached


def _any_of(masks: list[np.ndarray], size: int) -> np.ndarray:
    if len(masks) == 1:
        return masks[0]
    mask = np.zeros(size, dtype=bool)
    for each in masks:
        mask |= each
    return mask


def _all_of(masks: Iterable[np.ndarray]) -> np.ndarray | None:
    result = None
    for mask in masks:
        result = mask if result is None else result & mask
    return result
