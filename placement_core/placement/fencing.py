"""Pooled trees: providers that are kept for those whom somebody lets in.

Who lets consumers in, and why, this room does not know: a ``Fence`` is asked about
what claims more of a pooled tree. A tree is marked and unmarked with the rows of all
its providers held (``locks``), and whether it is marked is decided by what is read
under the rows of a claim: so of a mark and a claim that come at once, one sees the
other. Source: design §6.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

import sqlalchemy as sa

from placement_core.changes import kinds
from placement_core.db import Session
from placement_core.placement import ledger, moves, records, tables
from placement_core.placement.facts import Facts

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
class Tree:
    """A pooled tree as a write would leave it.

    :ivar held: all that anybody has of it.
    :ivar entrants: {consumer uuid: its project}, of those who would have more of it than
        before: not merely what another one gave up.
    """

    root_id: int
    held: Sequence[Held]
    entrants: Mapping[str, str]


class Fence(Protocol):
    """Somebody who lets consumers into pooled trees."""

    def judge(self, session: Session, trees: Sequence[Tree]) -> None:
        """Decide, inside the transaction of a write, with the roots of the trees held.

        :raises errors.Fenced: the write is refused, and the transaction undone.
        """


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


def hold_roots(known: Facts, planned: ledger.Plan) -> None:
    """Make a write take the roots of pooled trees, too: one decides about each at a time."""
    for root in known.pooled.values():
        planned.steps.setdefault(root, 0)


def judge(
    session: Session, fence: Fence, writes: Sequence[records.AllocationWrite], known: Facts,
    planned: ledger.Plan,
) -> None:
    """Ask about what is claimed of trees that were pooled before their rows were taken.

    Of those that became so since, ``ledger.move_used`` gives nothing.

    :param planned: the plan of ``writes``, whose allocations are written.
    :raises errors.Fenced: the fence refuses.
    """
    if not known.pooled:
        return
    found: dict[int, list[sa.Row]] = collections.defaultdict(list)
    for row in session.execute(_HELD, {"roots": sorted(set(known.pooled.values()))}):
        found[row.root_provider_id].append(row)
    trees = []
    for root, rows in sorted(found.items()):
        entrants = set(_entrants({row.id for row in rows}, known, planned))
        if entrants:
            trees.append(Tree(
                root, [Held(*row[1:]) for row in rows if row.consumer_id is not None],
                {write.consumer_uuid: write.project_id for write in writes
                 if write.consumer_uuid in entrants}))
    if trees:
        fence.judge(session, trees)


def _entrants(
    providers: Collection[int], known: Facts, planned: ledger.Plan
) -> Iterator[str]:
    """Return who would have more of a tree than before.

    Who takes over just what another one of the project gives up altogether has not more:
    that is how machines are moved.
    """
    before: dict[str, dict[int, int]] = {
        uuid: moves.by_class({cell: used for cell, used in held.items()
                              if cell[0] in providers})
        for uuid, held in known.held.items()}
    after: dict[str, dict[int, int]] = collections.defaultdict(collections.Counter)
    for row in planned.rows:
        if row.cell[0] in providers:
            after[row.consumer_uuid][row.cell[1]] += row.used
    given_up = [(known.owners[uuid][0], before[uuid]) for uuid in planned.emptied
                if uuid in before]
    for uuid, amounts in sorted(after.items()):
        had = before.get(uuid, {})
        if all(used <= had.get(class_id, 0) for class_id, used in amounts.items()):
            continue
        taken_over = planned.owners[uuid][0], dict(amounts)
        if taken_over in given_up:
            given_up.remove(taken_over)
        else:
            yield uuid
