"""Which providers fit: every filter takes and returns booleans over all rows.

Each filter notes what it left in a trace, which explains an empty answer; a search
passes ``NULL_TRACE``.
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
from placement_core.placement.index.array_types import Mask
from placement_core.placement.index.snapshot import CapacitySnapshot


@dataclasses.dataclass(frozen=True, slots=True)
class FilterStep:
    """One filter, and what it left.

    :ivar group: the suffix of its group; None for filters of whole trees.
    :ivar filter: one of the names below.
    :ivar wanted: what it looked for: for RESOURCES (class id, amount); for TRAITS the
        names of which one is enough; for AGGREGATES a set like that for each
        condition; for the NO_… ones the names that must not be; for IN_TREE the uuid;
        for PART the part; for RESERVED how many trees it left out; for NOTHING None.
    :ivar mask: the rows it left, as booleans; of trees, their roots.
    """

    group: str | None
    filter: str
    wanted: Any
    mask: Mask


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
RESERVED = "reserved"


class NullTrace:
    """Drops all notes, at next to no cost."""

    __slots__ = ()

    def note(
        self, group: str | None, name: str, wanted: Any, mask: Mask,
        more: Collection[int] = (),
    ) -> None:
        """Note that the filter ``name`` of ``group`` left ``mask`` and ``more`` rows."""


class Trace(NullTrace):
    """What the filters left, in order."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps: list[FilterStep] = []

    def note(
        self, group: str | None, name: str, wanted: Any, mask: Mask,
        more: Collection[int] = (),
    ) -> None:
        """Note that the filter ``name`` of ``group`` left ``mask`` and ``more`` rows."""
        mask = mask.copy()
        mask[list(more)] = True
        self.steps.append(FilterStep(group, name, wanted, mask))


NULL_TRACE = NullTrace()


@dataclasses.dataclass(frozen=True, slots=True)
class RequestPart:
    """Something one provider has to give: a class, or a whole granular group.

    :ivar resources: amounts by resource class id.
    :ivar home: rows that fit, each in its own tree, as booleans.
    :ivar away: rows of sharing providers that fit in trees they are anchored at.
    :ivar closed: root rows where nothing from outside may be used, or None.
    """

    suffix: str
    resources: Mapping[int, int]
    home: Mask
    away: list[int]
    closed: Mask | None = None

    @property
    def granular(self) -> bool:
        """Say whether the part is a group of its own."""
        return self.suffix != ""


def resolve_class_ids(snapshot: CapacitySnapshot, names: Iterable[str]) -> dict[str, int]:
    """Return the ids of resource classes.

    :raises errors.UnknownRequestedClass: for the first that does not exist.
    """
    known = snapshot.names.class_ids
    ids = {}
    for name in names:
        if name not in known:
            raise errors.UnknownRequestedClass(name)
        ids[name] = known[name]
    return ids


def check_traits(
    snapshot: CapacitySnapshot, filters: Iterable[TraitFilter], *, parameter: str | None = None
) -> None:
    """Refuse traits that do not exist.

    :raises errors.UnknownRequestedTraits: with all of them.
    """
    known = snapshot.names.trait_ids
    unknown = {
        name for traits in filters for names in (*traits.required, traits.forbidden)
        for name in names if name not in known}
    if unknown:
        raise errors.UnknownRequestedTraits(unknown, parameter=parameter)


def fitting(
    snapshot: CapacitySnapshot, resources: Mapping[int, int]
) -> Iterable[tuple[int, Mask]]:
    """Return which rows fit each class, {class id: booleans}, as pairs."""
    for class_id, amount in resources.items():
        yield class_id, snapshot.column(class_id).find_fitting(amount, snapshot.size)


def with_any_trait(snapshot: CapacitySnapshot, names: Collection[str]) -> Mask | None:
    """Return which rows have one of these traits; None for no traits."""
    ids = snapshot.names.trait_ids
    if not names:
        return None
    size = snapshot.size
    return _match_any([snapshot.rows_with_trait(ids[name]).mask(size) for name in names], size)


def in_aggregates(
    snapshot: CapacitySnapshot, member_of: Iterable[frozenset[str]]
) -> Mask | None:
    """Return which rows are in one aggregate of every set; None for no condition."""
    return _match_all(_find_in_any_aggregate(snapshot, uuids) for uuids in member_of)


def in_any_aggregate(snapshot: CapacitySnapshot, uuids: Collection[str]) -> Mask | None:
    """Return which rows are in one of these aggregates; None for no aggregates."""
    return _find_in_any_aggregate(snapshot, uuids) if uuids else None


def in_tree(snapshot: CapacitySnapshot, uuid: str) -> Mask:
    """Return the rows of the tree that a provider is part of."""
    mask = np.zeros(snapshot.size, dtype=bool)
    row = snapshot.layout.row_of_uuid.get(uuid)
    if row is not None:
        mask[list(snapshot.layout.tree(int(snapshot.layout.root[row])))] = True
    return mask


def find_reserved(snapshot: CapacitySnapshot, request: CandidatesRequest) -> Mask | None:
    """Return the rows of pooled trees that the request does not name; None: there are none.

    A tree is named by in_tree, by a resource class of a reservation that it has inventory
    of, or by an aggregate with a member in it.
    """
    if not len(snapshot.pooled.rows):
        return None
    root = snapshot.layout.root
    named = np.zeros(snapshot.size, dtype=bool)
    for group in request.groups:
        names = filter(_is_reservation_class, group.resources)
        for class_id in resolve_class_ids(snapshot, names).values():
            named[root[snapshot.column(class_id).rows]] = True
        for uuids in group.aggregates.member_of:
            for uuid in uuids:
                named[root[snapshot.rows_in_aggregate(uuid).rows]] = True
        row = None if group.in_tree is None else snapshot.layout.row_of_uuid.get(group.in_tree)
        if row is not None:
            named[root[row]] = True
    return (snapshot.pooled.mask(snapshot.size) & ~named)[root]


def _is_reservation_class(resource_class: str) -> bool:
    return resource_class.startswith(reserved_trees.PASSES)


def find_fitting_rows(
    snapshot: CapacitySnapshot,
    resources: Mapping[int, int],
    traits: TraitFilter,
    aggregates: AggregateFilter,
    tree: str | None,
    trace: NullTrace = NULL_TRACE,
    suffix: str = "",
) -> Mask:
    """Return the rows that satisfy everything by themselves."""
    mask = snapshot.layout.root >= 0
    for class_id, fits in fitting(snapshot, resources):
        mask &= fits
        trace.note(suffix, RESOURCES, (class_id, resources[class_id]), mask)
    for names in traits.required:
        having = with_any_trait(snapshot, names)
        assert having is not None
        mask &= having
        trace.note(suffix, TRAITS, names, mask)
    keep = (
        (NO_TRAITS, traits.forbidden, with_any_trait(snapshot, traits.forbidden), False),
        (AGGREGATES, aggregates.member_of, in_aggregates(snapshot, aggregates.member_of), True),
        (NO_AGGREGATES, aggregates.forbidden,
         in_any_aggregate(snapshot, aggregates.forbidden), False),
        (IN_TREE, tree, None if tree is None else in_tree(snapshot, tree), True),
    )
    for name, wanted, condition, keeps in keep:
        if condition is not None:
            mask &= condition if keeps else ~condition
            trace.note(suffix, name, wanted, mask)
    return mask


def make_granular_part(
    snapshot: CapacitySnapshot, group: RequestGroup, trace: NullTrace,
    reserved: Mask | None = None,
) -> RequestPart:
    """Return the part that a granular group is.

    :param reserved: whose providers serve no other tree, either (``find_reserved``).
    """
    class_ids = snapshot.names.class_ids
    resources = {class_ids[name]: amount for name, amount in group.resources.items()}
    # A group without resources needs a reason to pick a provider, and its
    # in_tree is no reason (upstream; spec §4.2).
    tree = group.in_tree if resources else None
    mask = find_fitting_rows(
        snapshot, resources, group.traits, group.aggregates, tree, trace, group.suffix)
    if not resources and not (group.traits.required or group.aggregates.member_of):
        mask[:] = False
        trace.note(group.suffix, NOTHING, None, mask)
    if group.in_tree is not None and group.in_tree not in snapshot.layout.row_of_uuid:
        mask[:] = False
        trace.note(group.suffix, IN_TREE, group.in_tree, mask)
    away = [row for row in _list_sharing(snapshot, reserved) if mask[row]]
    return RequestPart(group.suffix, resources, mask, away)


def make_unsuffixed_parts(
    snapshot: CapacitySnapshot, group: RequestGroup, trace: NullTrace,
    reserved: Mask | None = None,
) -> list[RequestPart]:
    """Return a part for each class of the unsuffixed group.

    Required traits are not judged here: the providers of all parts together
    have to have them.

    :param reserved: whose providers serve no other tree, either (``find_reserved``).
    """
    root = snapshot.layout.root
    allowed = root >= 0
    inside = in_aggregates(snapshot, group.aggregates.member_of)
    if inside is not None:
        # An aggregate of the root spans the tree. (Vacant rows stay out.)
        allowed &= inside | inside[root]
        trace.note("", AGGREGATES, group.aggregates.member_of, allowed)
    closed = in_any_aggregate(snapshot, group.aggregates.forbidden)
    if closed is not None:
        allowed &= ~(closed | closed[root])
        trace.note("", NO_AGGREGATES, group.aggregates.forbidden, allowed)
    unwanted = with_any_trait(snapshot, group.traits.forbidden)
    if unwanted is not None:
        allowed &= ~unwanted
        trace.note("", NO_TRAITS, group.traits.forbidden, allowed)
    if group.in_tree is not None:
        allowed &= in_tree(snapshot, group.in_tree)
        trace.note("", IN_TREE, group.in_tree, allowed)
    class_ids = snapshot.names.class_ids
    resources = {class_ids[name]: amount for name, amount in group.resources.items()}
    # Nothing is shared into the tree that in_tree names.
    sharing = [] if group.in_tree is not None else [
        row for row in _list_sharing(snapshot, reserved)
        if (inside is None or inside[row])
        and (closed is None or not closed[row])
        and (unwanted is None or not unwanted[row])]
    parts = []
    for class_id, fits in fitting(snapshot, resources):
        away = [row for row in sharing if fits[row]]
        home = fits & allowed
        trace.note("", RESOURCES, (class_id, resources[class_id]), home, away)
        parts.append(RequestPart("", {class_id: resources[class_id]}, home, away, closed))
    return parts


def find_anchors(
    snapshot: CapacitySnapshot, parts: list[RequestPart], request: CandidatesRequest,
    trace: NullTrace, reserved: Mask | None = None,
) -> Mask:
    """Return the rows of roots where every part has an option, as booleans.

    :param reserved: rows of trees that are left out (``find_reserved``).
    """
    root = snapshot.layout.root
    mask: Mask = root == np.arange(snapshot.size)
    for names in request.root_traits.required:
        having = with_any_trait(snapshot, names)
        assert having is not None
        mask &= having
        trace.note(None, ROOT_TRAITS, names, mask)
    forbidden = with_any_trait(snapshot, request.root_traits.forbidden)
    if forbidden is not None:
        mask &= ~forbidden
        trace.note(None, NO_ROOT_TRAITS, request.root_traits.forbidden, mask)
    for part in parts:
        mask &= find_reached_roots(snapshot, part, part.home, part.away)
        trace.note(None, PART, part, mask)
    for group in request.groups:
        for names in () if group.suffix else group.traits.required:
            having = with_any_trait(snapshot, names)
            assert having is not None
            met = np.zeros(snapshot.size, dtype=bool)
            for part in parts:
                if not part.granular:
                    met |= find_reached_roots(snapshot, part, part.home & having,
                                               [row for row in part.away if having[row]])
            mask &= met
            trace.note(None, TRAITS, names, mask)
    if reserved is not None:
        # Last: what it leaves out are trees that had room.
        left_out = int(np.count_nonzero(mask & reserved))
        mask &= ~reserved
        trace.note(None, RESERVED, left_out, mask)
    return mask


def _list_sharing(snapshot: CapacitySnapshot, reserved: Mask | None) -> Iterable[int]:
    """Return the rows of sharing providers that are not in trees that are left out."""
    sharing = snapshot.sharing_providers()
    return sharing if reserved is None else [row for row in sharing if not reserved[row]]


def find_reached_roots(
    snapshot: CapacitySnapshot, part: RequestPart, home: Mask, away: list[int]
) -> Mask:
    """Return the rows of roots of the trees that these providers can serve."""
    if not snapshot.layout.trees and not away:
        return home
    reached = np.zeros(snapshot.size, dtype=bool)
    sharing = snapshot.sharing_providers()
    for row in away:
        reached |= sharing[row].mask(snapshot.size)
    if part.closed is not None:
        reached &= ~part.closed
    reached[snapshot.layout.root[home]] = True
    return reached


def _find_in_any_aggregate(snapshot: CapacitySnapshot, uuids: Collection[str]) -> Mask:
    size = snapshot.size
    return _match_any([snapshot.rows_in_aggregate(uuid).mask(size) for uuid in uuids], size)


def _match_any(masks: list[Mask], size: int) -> Mask:
    if len(masks) == 1:
        return masks[0]
    mask = np.zeros(size, dtype=bool)
    for other in masks:
        mask |= other
    return mask


def _match_all(masks: Iterable[Mask]) -> Mask | None:
    result = None
    for mask in masks:
        result = mask if result is None else result & mask
    return result
