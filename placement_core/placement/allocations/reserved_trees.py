"""Reserved trees: provider trees from which only admitted consumers may claim.

This room does not know who is admitted. The gate whose check has ``judges_reserved_trees``
(``gates.Check``) decides, and asks which reserved trees a write claims more of. A tree is marked
and unmarked with the rows of all its providers locked (``locks``), and a claim reads the mark
while it has the provider's row locked. So of a mark and a concurrent claim, one sees the other.
A marked provider cannot be deleted: the root of a reserved tree, and what is protected in it.
Source: design §6.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.changes import kinds
from placement_core.db import Session
from placement_core.placement import tables
from placement_core.placement.allocations import moves
from placement_core.placement.allocations.gates import PlannedWrite
from placement_core.placement.allocations.loaded import LoadedRows
from placement_core.placement.allocations.plan import WritePlan

#: A request that names a resource class with this prefix names the trees with inventory of it.
PASSES = "CUSTOM_RESERVATION_"

_pooled, _providers = tables.pooled_trees, tables.resource_providers

_MARK = sa.insert(_pooled)
_UNMARK = sa.delete(_pooled).where(
    _pooled.c.root_provider_id.in_(sa.bindparam("ids", expanding=True)))
_HELD = (
    sa.select(
        _providers.c.root_provider_id, _providers.c.id, tables.allocations.c.consumer_id,
        tables.projects.c.external_id, tables.resource_classes.c.name,
        tables.allocations.c.used)
    .outerjoin(tables.allocations, tables.allocations.c.resource_provider_id == _providers.c.id)
    .outerjoin(tables.resource_classes,
               tables.resource_classes.c.id == tables.allocations.c.resource_class_id)
    .outerjoin(tables.consumers, tables.consumers.c.uuid == tables.allocations.c.consumer_id)
    .outerjoin(tables.projects, tables.projects.c.id == tables.consumers.c.project_id)
    .where(_providers.c.root_provider_id.in_(sa.bindparam("roots", expanding=True))))


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """The amount of one class that a consumer has on a provider.

    :ivar project_id: None for a consumer without a row.
    """

    provider_id: int
    consumer_uuid: str
    project_id: str | None
    resource_class: str
    used: int


@dataclasses.dataclass(frozen=True, slots=True)
class ReservedTree:
    """A reserved tree after a write.

    :ivar held: all allocations in the tree.
    :ivar entrants: {consumer uuid: its project}, of the consumers that have more than before,
        beyond what they take over from another consumer.
    """

    root_id: int
    held: Sequence[Held]
    entrants: Mapping[str, str]


def mark(session: Session, root_id: int, *protected: int) -> None:
    """Mark a tree as reserved, from the commit on.

    :param root_id: the root of a tree that is not marked, and all of whose rows are locked.
    :param protected: providers below it that nobody may delete either.
    """
    for id_ in (root_id, *protected):
        protect(session, id_)
    session.record_change(kinds.PROVIDER, root_id)


def protect(session: Session, provider_id: int) -> None:
    """Have nobody delete a provider of a reserved tree, whose row is locked."""
    session.execute(_MARK, {"root_provider_id": provider_id})


def unmark(session: Session, root_id: int, *protected: int) -> None:
    """Remove the mark of a tree, if it has one, and the protection of providers below it.

    :param root_id: the root of a tree all of whose rows are locked.
    """
    session.execute(_UNMARK, {"ids": [root_id, *protected]})
    session.record_change(kinds.PROVIDER, root_id)


def find_entered(write: PlannedWrite) -> list[ReservedTree]:
    """Return the trees of which a write claims more, and that were reserved before the lock.

    Claims from trees that were reserved since then fail in ``applying.change_used``.
    """
    roots = set(write.rows.reserved_roots.values())
    if not roots:
        return []
    by_root: dict[int, list[sa.Row[Any]]] = collections.defaultdict(list)
    for row in write.session.execute(_HELD, {"roots": sorted(roots)}):
        by_root[row.root_provider_id].append(row)
    trees = []
    for root, rows in sorted(by_root.items()):
        entrants = set(_find_entrants({row.id for row in rows}, write.rows, write.plan))
        if entrants:
            trees.append(ReservedTree(
                root, [Held(*tuple(row)[1:]) for row in rows if row.consumer_id is not None],
                {each.consumer_uuid: each.project_id for each in write.writes
                 if each.consumer_uuid in entrants}))
    return trees


def _find_entrants(
    providers: Collection[int], rows: LoadedRows, plan: WritePlan
) -> Iterator[str]:
    """Return the consumers that have more of a tree than before.

    A consumer that takes over all allocations of another consumer of the project does not have
    more: this is how nova moves instances.
    """
    before: dict[str, dict[int, int]] = {
        uuid: moves.sum_by_class({cell: used for cell, used in held.items()
                              if cell[0] in providers})
        for uuid, held in rows.held.items()}
    after: dict[str, dict[int, int]] = collections.defaultdict(collections.Counter)
    for allocation in plan.begun:
        if allocation.cell[0] in providers:
            after[allocation.consumer_uuid][allocation.cell[1]] += allocation.used
    given_up = [(rows.owners[uuid][0], before[uuid]) for uuid in plan.emptied
                if uuid in before]
    for uuid, amounts in sorted(after.items()):
        had = before.get(uuid, {})
        if all(used <= had.get(class_id, 0) for class_id, used in amounts.items()):
            continue
        taken_over = plan.owners[uuid][0], dict(amounts)
        if taken_over in given_up:
            given_up.remove(taken_over)
        else:
            yield uuid
