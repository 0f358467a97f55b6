"""Reserved trees: providers that are kept for those whom somebody lets in.

Who lets consumers in, and why, this room does not know: a gate whose check judges reserved
trees (``gates.Check``) asks for those that a write enters. A tree is marked and unmarked
with the rows of all its providers held (``locks``), and whether it is marked is decided by
what is read under the rows of a claim: so of a mark and a claim that come at once, one sees
the other. Source: design §6.
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

#: Who names a resource class that begins so names the trees that have inventory of it.
PASSES = "CUSTOM_RESERVATION_"

_pooled, _providers = tables.pooled_trees, tables.resource_providers

_MARK = sa.insert(_pooled)
_UNMARK = sa.delete(_pooled).where(_pooled.c.root_provider_id == sa.bindparam("of_root"))
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
    """What a consumer has of one class on a provider.

    :ivar project_id: None for a consumer that nobody recorded.
    """

    provider_id: int
    consumer_uuid: str
    project_id: str | None
    resource_class: str
    used: int


@dataclasses.dataclass(frozen=True, slots=True)
class ReservedTree:
    """A reserved tree as a write would leave it.

    :ivar held: all that anybody has of it.
    :ivar entrants: {consumer uuid: its project}, of those who would have more of it than
        before: not merely what another one gave up.
    """

    root_id: int
    held: Sequence[Held]
    entrants: Mapping[str, str]


def mark(session: Session, root_id: int) -> None:
    """Keep a tree for those who are let in, from the commit on.

    :param root_id: of a tree that is not marked, all of whose rows the session holds.
    """
    session.execute(_MARK, {"root_provider_id": root_id})
    session.record_change(kinds.PROVIDER, root_id)


def unmark(session: Session, root_id: int) -> None:
    """Give a tree back to everybody; one that is not marked stays as it is.

    :param root_id: of a tree all of whose rows the session holds.
    """
    session.execute(_UNMARK, {"of_root": root_id})
    session.record_change(kinds.PROVIDER, root_id)


def find_entered(write: PlannedWrite) -> list[ReservedTree]:
    """Return the trees, reserved before their rows were locked, that somebody claims more of.

    Of those that became so since, ``applying.change_used`` gives nothing.
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
    """Return who would have more of a tree than before.

    Who takes over just what another one of the project gives up altogether has not more:
    that is how machines are moved.
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
