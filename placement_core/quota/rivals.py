"""Who came first: the order of claims that re-checks decide by, and what they answered.

A claim is as old as its instance mapping; one without is younger than all that have one,
and as old as its consumer. While a claim is young it is a rival: it was made, and its
own re-check is yet to come. Whatever is older counts, answered or not: so what is never
re-checked (nova's ``recheck_quota`` may be off) is not overlooked for long, and neither
is who was refused and did not go; and the rows of ``rechecked_claims`` can go.
Source: requirement Q9, spec nova_quota N6.
"""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db, errors as core_errors
from placement_core.cells import tables as cell_tables
from placement_core.cells.databases import CellDatabases
from placement_core.context import Context
from placement_core.db import Session, arrays
from placement_core.db.metadata import utcnow
from placement_core.limits.nodes import among
from placement_core.placement import inserts, tables as placement_tables
from placement_core.quota import errors, tables

#: How long a claim is young: longer than any request takes to make its instances, and to
#: re-check them.
YOUNG = datetime.timedelta(minutes=10)
#: Clocks differ.
_KEPT = 2 * YOUNG
_PRUNE_EVERY_SECONDS = 60.0
_pruned_at = -_PRUNE_EVERY_SECONDS

LOG = logging.getLogger(__name__)

_DIALECTS = ("postgresql", "mysql", "sqlite")
_mappings = cell_tables.instance_mappings
_consumers, _projects, _moves = (
    placement_tables.consumers, placement_tables.projects, placement_tables.moves)
_answered, _nodes = tables.rechecked_claims, tables.limit_nodes

#: Where a claim stands: (0, id of its mapping) or (1, id of its consumer).
Place = tuple[int, int]


def place(
    ctx: Context, cells: CellDatabases, project_id: str, uuids: Collection[str]
) -> Place:
    """Return where a request stands: where the first of its claims does.

    So of requests whose instances came by turns one stays, too.

    :param project_id: whose instances or consumers ``uuids`` are.
    :raises errors.UnknownConsumers: the project does not have some of them.
    """
    places: dict[str, Place] = {}
    missing = set(uuids)
    for rank, (where, statements) in enumerate(((cells.api(ctx), _MAPPED), (ctx, _CONSUMED))):
        if missing:
            places |= {row.uuid: (rank, row.id) for row in _asked(
                where, statements, uuids=sorted(missing)) if row.project_id == project_id}
            missing -= places.keys()
    if missing:
        raise errors.UnknownConsumers(project_id, sorted(missing))
    return min(places.values())


def left_out(
    ctx: Context, cells: CellDatabases, first: Place, uuids: Collection[str],
    project_ids: Collection[str],
) -> set[str]:
    """Return the rivals of a request that do not count against it.

    Those that came later and were not accepted: if it fits without them, they are the
    ones to go. And those that were refused: they are on their way out.

    :param first: where the request stands.
    :param uuids: its own claims.
    :param project_ids: whose usage counts against the same limits.
    """
    young = _young(ctx, cells.api(ctx), project_ids)
    for uuid in uuids:
        young.pop(uuid, None)
    answers = _answers(ctx, young)
    found = {uuid for uuid, place in young.items()
             if (place > first if uuid not in answers else not answers[uuid])}
    # What moves was there before, whatever consumer holds it for now.
    return found - _moving(ctx, found)


@db.retry_writes
def acceptances(ctx: Context, row_ids: Collection[int]) -> dict[int, int]:
    """Return how often a re-check was accepted that a node binds, by the id of its row."""
    with db.read_once(ctx) as session:
        return _acceptances(session, row_ids)


def accept(session: Session, row_ids: Collection[int], uuids: Collection[str]) -> None:
    """Note that claims are there to stay: they count for every rival from now on.

    :param row_ids: of the nodes that bind them, which the session holds
        (``nodes.hold``): rivals that are counting now will count again.
    """
    session.change(_RAISE[session.dialect], {"ids": sorted(set(row_ids))})
    _answer(session, uuids, stays=True)
    # Whatever a question asked twice at once wrote.
    session.change(_STAY[session.dialect], {"uuids": sorted(set(uuids))})


@db.retry_writes
def refuse(ctx: Context, uuids: Collection[str]) -> None:
    """Note that claims have to go, unless they were accepted: they count for no rival."""
    with db.write(ctx) as session:
        _answer(session, uuids, stays=False)


def seen_by(session: Session, seen: Mapping[int, int]) -> bool:
    """Say whether nobody was accepted since ``acceptances`` returned ``seen``.

    :param session: holds the nodes.
    """
    return _acceptances(session, seen) == dict(seen)


@db.retry_writes
def prune(ctx: Context) -> int:
    """Remove the answers about claims that are young no more; return how many."""
    with db.write(ctx) as session:
        return session.execute(_PRUNE, {"before": utcnow() - _KEPT}).rowcount


def prune_sometimes(ctx: Context) -> None:
    """Do so once a minute; called after a transaction that answered."""
    global _pruned_at
    if time.monotonic() - _pruned_at < _PRUNE_EVERY_SECONDS:
        return
    _pruned_at = time.monotonic()
    try:
        prune(ctx)
    except core_errors.Error:
        LOG.warning("old answers of re-checks could not be removed", exc_info=True)


_RAISE = {
    dialect: sa.update(_nodes).where(arrays.among(_nodes.c.id, "ids", dialect=dialect))
    .values(accepted=_nodes.c.accepted + 1)
    for dialect in _DIALECTS}
_ACCEPTANCES = {
    dialect: sa.select(_nodes.c.id, _nodes.c.accepted).where(
        arrays.among(_nodes.c.id, "ids", dialect=dialect))
    for dialect in _DIALECTS}
_STAY = {
    dialect: sa.update(_answered).where(
        arrays.among(_answered.c.consumer_uuid, "uuids", dialect=dialect)).values(stays=True)
    for dialect in _DIALECTS}
_PRUNE = sa.delete(_answered).where(_answered.c.answered_at < sa.bindparam("before"))
_ANSWERS = {
    dialect: sa.select(_answered.c.consumer_uuid, _answered.c.stays).where(
        among(_answered.c.consumer_uuid, "uuids", dialect=dialect))
    for dialect in _DIALECTS}
_MOVING = {
    dialect: sa.union_all(*(
        sa.select(column).where(among(column, "uuids", dialect=dialect))
        for column in (_moves.c.consumer_uuid, _moves.c.moved_from)))
    for dialect in _DIALECTS}
_MAPPED = {
    dialect: sa.select(
        _mappings.c.id, _mappings.c.instance_uuid.label("uuid"), _mappings.c.project_id,
    ).where(among(_mappings.c.instance_uuid, "uuids", dialect=dialect))
    for dialect in _DIALECTS}
_CONSUMED = {
    dialect: sa.select(
        _consumers.c.id, _consumers.c.uuid, _projects.c.external_id.label("project_id"),
    ).join(_projects, _projects.c.id == _consumers.c.project_id).where(
        among(_consumers.c.uuid, "uuids", dialect=dialect))
    for dialect in _DIALECTS}
_YOUNG_MAPPED = {
    dialect: sa.select(_mappings.c.id, _mappings.c.instance_uuid.label("uuid")).where(
        _mappings.c.created_at > sa.bindparam("since"),
        among(_mappings.c.project_id, "project_ids", dialect=dialect))
    for dialect in _DIALECTS}
_YOUNG_CONSUMERS = {
    dialect: sa.select(_consumers.c.id, _consumers.c.uuid).join(
        _projects, _projects.c.id == _consumers.c.project_id,
    ).where(
        _consumers.c.created_at > sa.bindparam("since"),
        among(_projects.c.external_id, "project_ids", dialect=dialect))
    for dialect in _DIALECTS}


def _acceptances(session: Session, row_ids: Collection[int]) -> dict[int, int]:
    return {row.id: row.accepted for row in session.execute(
        _ACCEPTANCES[session.dialect], {"ids": sorted(row_ids)})}


def _answer(session: Session, uuids: Collection[str], *, stays: bool) -> None:
    inserts.missing(session.connection, _answered, [
        {"consumer_uuid": uuid, "stays": stays, "answered_at": utcnow()}
        for uuid in sorted(set(uuids))])


def _young(ctx: Context, api: Context, project_ids: Collection[str]) -> dict[str, Place]:
    """Return the young claims of some projects, and where each stands."""
    asked = {"since": utcnow() - YOUNG, "project_ids": sorted(project_ids)}
    consumers = {row.uuid: row.id for row in _asked(ctx, _YOUNG_CONSUMERS, **asked)}
    mapped = {row.uuid for row in _asked(api, _MAPPED, uuids=sorted(consumers))}
    return {
        **{row.uuid: (0, row.id) for row in _asked(api, _YOUNG_MAPPED, **asked)},
        **{uuid: (1, id_) for uuid, id_ in consumers.items() if uuid not in mapped}}


def _answers(ctx: Context, uuids: Collection[str]) -> dict[str, bool]:
    """Return which claims stay, of those whose re-check was answered."""
    return {row.consumer_uuid: bool(row.stays)
            for row in _asked(ctx, _ANSWERS, uuids=sorted(uuids))}


def _moving(ctx: Context, uuids: Collection[str]) -> set[str]:
    return {row[0] for row in _asked(ctx, _MOVING, uuids=sorted(uuids))}


@db.retry_writes
def _asked(
    ctx: Context, statements: Mapping[str, sa.Executable], **parameters: Any
) -> Sequence[sa.Row[Any]]:
    """Return what a statement selects; nothing where it asks about nothing."""
    if not all(parameters.values()):
        return ()
    with db.read_once(ctx) as session:
        return session.execute(statements[session.dialect], parameters).all()
