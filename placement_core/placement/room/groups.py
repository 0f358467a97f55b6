"""Which providers count, and the groups that they form: trees, aggregates or traits.

A provider is in an aggregate, or has a trait, if that is so of itself or of the root of its tree:
what an operator says of a host holds for its devices. So a provider may be in many groups, and
their sums may exceed those of the cloud.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np

from placement_core.placement import errors
from placement_core.placement.candidates import filters
from placement_core.placement.candidates.requests import AggregateFilter, TraitFilter
from placement_core.placement.index.array_types import Mask, Rows
from placement_core.placement.index.columns import RowSet
from placement_core.placement.index.snapshot import CapacitySnapshot

GroupedBy = Literal["root", "aggregate", "trait"]


@dataclasses.dataclass(frozen=True, slots=True)
class RoomFilter:
    """Which providers count: those that meet every part.

    :ivar resource_class: those with inventory of it, and no other class.
    :ivar in_tree: the uuid of a provider: those of its tree.
    """

    resource_class: str | None = None
    in_tree: str | None = None
    traits: TraitFilter = dataclasses.field(default_factory=TraitFilter)
    aggregates: AggregateFilter = dataclasses.field(default_factory=AggregateFilter)


class Group(NamedTuple):
    """A group of providers.

    :ivar key: the uuid of the root or aggregate, or the name of the trait.
    """

    key: str
    rows: Rows


def find_rows(snapshot: CapacitySnapshot, conditions: RoomFilter) -> Mask:
    """Return which rows count.

    :raises errors.ProviderNotFound: there is no provider ``in_tree``.
    :raises errors.UnknownResourceClass: the class does not exist.
    :raises errors.UnknownRequestedTraits: traits do not exist.
    """
    mask = snapshot.layout.root >= 0
    for wanted in _find_wanted(snapshot, conditions):
        mask &= wanted
    return mask


def _find_wanted(snapshot: CapacitySnapshot, conditions: RoomFilter) -> Iterator[Mask]:
    """Yield for each condition which rows meet it."""
    traits, aggregates = conditions.traits, conditions.aggregates
    filters.check_traits(snapshot, [traits], parameter="required")
    if conditions.resource_class is not None:
        class_id = snapshot.names.class_ids.get(conditions.resource_class)
        if class_id is None:
            raise errors.UnknownResourceClass(conditions.resource_class)
        yield RowSet(snapshot.column(class_id).rows).mask(snapshot.size)
    if conditions.in_tree is not None:
        if conditions.in_tree not in snapshot.layout.row_of_uuid:
            raise errors.ProviderNotFound(conditions.in_tree)
        yield filters.in_tree(snapshot, conditions.in_tree)
    required = [filters.with_any_trait(snapshot, names) for names in traits.required]
    required += [filters.in_any_aggregate(snapshot, uuids) for uuids in aggregates.member_of]
    forbidden = [filters.with_any_trait(snapshot, traits.forbidden),
                 filters.in_any_aggregate(snapshot, aggregates.forbidden)]
    yield from (_spread(snapshot, mask) for mask in required if mask is not None)
    yield from (~_spread(snapshot, mask) for mask in forbidden if mask is not None)


def _spread(snapshot: CapacitySnapshot, mask: Mask) -> Mask:
    """Return the rows of a mask, and all rows of trees with their root in it."""
    return mask | mask[snapshot.layout.root]


def list_groups(
    snapshot: CapacitySnapshot, mask: Mask, by: GroupedBy, *,
    marker: str | None = None, limit: int | None = None,
) -> list[Group]:
    """Return the groups of the rows in a mask, in the order of their keys.

    :param marker: only groups with a greater key.
    :param limit: the largest number of groups to return.
    """
    groups = []
    for key, rows in _generate(snapshot, mask, by, marker or ""):
        if len(groups) == limit:
            break
        counted = rows[mask[rows]]
        if len(counted):
            groups.append(Group(key, counted))
    return groups


def _generate(
    snapshot: CapacitySnapshot, mask: Mask, by: GroupedBy, marker: str
) -> Iterator[tuple[str, Rows]]:
    """Yield the keys after a marker, in their order, with the rows of their groups."""
    if by == "root":
        yield from _generate_trees(snapshot, mask, marker)
        return
    sets: Mapping[str, RowSet] = snapshot.aggregates
    if by == "trait":
        names = snapshot.names.trait_names
        sets = {names[id_]: rows for id_, rows in snapshot.traits.items()}
    for key in sorted(key for key in sets if key > marker):
        yield key, _add_trees(snapshot, sets[key].rows)


def _generate_trees(
    snapshot: CapacitySnapshot, mask: Mask, marker: str
) -> Iterator[tuple[str, Rows]]:
    layout, entries = snapshot.layout, snapshot.entries
    roots = np.unique(layout.root[mask]).tolist()
    keys = ((entry.provider.uuid, row) for row in roots if (entry := entries[row]) is not None)
    for uuid, root in sorted(key for key in keys if key[0] > marker):
        yield uuid, np.array(layout.tree(root), dtype=np.intp)


def _add_trees(snapshot: CapacitySnapshot, rows: Rows) -> Rows:
    """Return rows, and those of the trees of the roots among them; each once, ascending."""
    trees = snapshot.layout.trees
    below: Iterable[int] = (
        row for root in rows.tolist() if root in trees for row in trees[root])
    added = np.fromiter(below, dtype=np.intp)
    return np.union1d(rows, added) if len(added) else rows
