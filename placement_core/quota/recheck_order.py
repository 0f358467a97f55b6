"""Who came first: the order of claims that re-checks decide by, and what they answered.

A claim is as old as its instance mapping; one without is younger than all that have one,
and as old as its consumer. While a claim is young it is a rival: it was made, and its
own re-check is yet to come. Whatever is older counts, answered or not: so what is never
re-checked (nova's ``recheck_quota`` may be off) is not overlooked for long, and neither
is who was refused and did not go; and the rows of ``rechecked_claims`` can go.
Source: requirement Q9, spec nova_quota N6.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import time
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

import sqlalchemy as sa

from placement_core import db, errors as core_errors
from placement_core.cells import build_requests, tables as cell_tables
from placement_core.cells.databases import CellDatabases
from placement_core.context import Context
from placement_core.db import Session, inserts, lists
from placement_core.db.metadata import utcnow
from placement_core.placement import tables as placement_tables
from placement_core.quota import errors, tables

#: How long a claim is young: longer than any request takes to make its instances, and to
#: re-check them.
YOUNG = datetime.timedelta(minutes=10)
#: Clocks differ.
_KEPT = 2 * YOUNG
#: Nova's texts about so many claims are read, some kilobytes each; the others are taken
#: for requests of their own.
_MOST_NAMED = 256
_PRUNE_EVERY_SECONDS = 60.0
_pruned_at = -_PRUNE_EVERY_SECONDS

LOG = logging.getLogger(__name__)

_mappings = cell_tables.instance_mappings
_consumers, _projects, _users, _moves = (
    placement_tables.consumers, placement_tables.projects, placement_tables.users,
    placement_tables.moves)
_answered, _nodes = tables.rechecked_claims, tables.limit_nodes

#: Where a claim stands: (0, id of its mapping) or (1, id of its consumer).
Place = tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """A young claim."""

    uuid: str
    place: Place
    project_id: str
    user_id: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class EarlierRequest:
    """The young claims of one request that came before another, and whose re-check is yet to come.

    They stay or go together. Who made what is known of nova's instances
    (``build_requests``); every other claim is taken for a request of its own.
    """

    claims: Sequence[Claim]

    @property
    def uuids(self) -> Set[str]:
        """Of all its claims."""
        return {claim.uuid for claim in self.claims}

    @property
    def project_id(self) -> str:
        """Whose claims they are."""
        return self.claims[0].project_id

    @property
    def user_id(self) -> str | None:
        """Who made them."""
        return self.claims[0].user_id


@dataclasses.dataclass(frozen=True, slots=True)
class Rivals:
    """The rivals of a claim or of several.

    :ivar left_out: the claims that do not count against it.
    :ivar unanswered: those whose re-check is yet to come, the first one first.
    """

    left_out: Set[str]
    unanswered: Sequence[Claim]


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
    for rank, (where, statement) in enumerate(((cells.api(ctx), _MAPPED), (ctx, _CONSUMED))):
        if missing:
            places |= {row.uuid: (rank, row.id) for row in _asked(
                where, statement, uuids=sorted(missing)) if row.project_id == project_id}
            missing -= places.keys()
    if missing:
        raise errors.UnknownConsumers(project_id, sorted(missing))
    return min(places.values())


def of_request(
    ctx: Context, cells: CellDatabases, first: Place, uuids: Collection[str],
    project_ids: Collection[str],
) -> Rivals:
    """Return the rivals of a request.

    What does not count against it came later and was not accepted: if it fits without
    them, they are the ones to go. Or it was refused: it is on its way out.

    :param first: where the request stands.
    :param uuids: its own claims.
    :param project_ids: whose usage counts against the same limits.
    """
    young = _young(ctx, cells.api(ctx), project_ids)
    for uuid in uuids:
        young.pop(uuid, None)
    answers = _answers(ctx, young)
    refused = {uuid for uuid, stays in answers.items() if not stays}
    # What moves was there before, whatever consumer holds it for now.
    moving = _moving(ctx, {*refused, *(young.keys() - answers.keys())})
    unanswered = sorted(
        (claim for uuid, claim in young.items() if uuid not in answers and uuid not in moving),
        key=lambda claim: claim.place)
    later = {claim.uuid for claim in unanswered if claim.place > first}
    return Rivals((refused - moving) | later, unanswered)


def earlier_requests(
    ctx: Context, cells: CellDatabases, others: Rivals, first: Place
) -> list[EarlierRequest]:
    """Return the requests that came before one and whose re-check is yet to come.

    They count as far as they may stay. The first one comes first, with all of its claims.
    """
    named = [claim.uuid for claim in others.unanswered[:_MOST_NAMED]]
    names = build_requests.reservation_ids(ctx, cells, named)
    requests: dict[str, list[Claim]] = {}
    for claim in others.unanswered:
        requests.setdefault(names.get(claim.uuid, claim.uuid), []).append(claim)
    return [EarlierRequest(made) for made in requests.values() if made[0].place < first]


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
    session.execute_write(_RAISE, {"ids": sorted(set(row_ids))})
    _answer(session, uuids, stays=True)
    # Whatever a question asked twice at once wrote.
    session.execute_write(_STAY, {"uuids": sorted(set(uuids))})


def refuse(session: Session, uuids: Collection[str]) -> None:
    """Note that claims have to go, unless they were accepted: they count for no rival.

    :param session: holds the nodes that bind them, so that rivals answer one by one.
    """
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


_RAISE = (
    sa.update(_nodes).where(lists.among(_nodes.c.id, "ids"))
    .values(accepted=_nodes.c.accepted + 1))
_ACCEPTANCES = sa.select(_nodes.c.id, _nodes.c.accepted).where(
    lists.among(_nodes.c.id, "ids"))
_STAY = sa.update(_answered).where(
    lists.among(_answered.c.consumer_uuid, "uuids")).values(stays=True)
_PRUNE = sa.delete(_answered).where(_answered.c.answered_at < sa.bindparam("before"))
_ANSWERS = sa.select(_answered.c.consumer_uuid, _answered.c.stays).where(
    lists.among_many(_answered.c.consumer_uuid, "uuids"))
_MOVING = sa.union_all(*(
    sa.select(column).where(lists.among_many(column, "uuids"))
    for column in (_moves.c.consumer_uuid, _moves.c.moved_from)))
_MAPPED = sa.select(
    _mappings.c.id, _mappings.c.instance_uuid.label("uuid"), _mappings.c.project_id,
).where(lists.among_many(_mappings.c.instance_uuid, "uuids"))
_CONSUMED = sa.select(
    _consumers.c.id, _consumers.c.uuid, _projects.c.external_id.label("project_id"),
).join(_projects, _projects.c.id == _consumers.c.project_id).where(
    lists.among_many(_consumers.c.uuid, "uuids"))
_YOUNG_MAPPED = sa.select(
    _mappings.c.id, _mappings.c.instance_uuid.label("uuid"), _mappings.c.project_id,
    _mappings.c.user_id,
).where(
    _mappings.c.created_at > sa.bindparam("since"),
    lists.among_many(_mappings.c.project_id, "project_ids"))
_YOUNG_CONSUMERS = sa.select(
    _consumers.c.id, _consumers.c.uuid, _projects.c.external_id.label("project_id"),
    _users.c.external_id.label("user_id"),
).join(_projects, _projects.c.id == _consumers.c.project_id).outerjoin(
    _users, _users.c.id == _consumers.c.user_id,
).where(
    _consumers.c.created_at > sa.bindparam("since"),
    lists.among_many(_projects.c.external_id, "project_ids"))


def _acceptances(session: Session, row_ids: Collection[int]) -> dict[int, int]:
    return {row.id: row.accepted for row in session.execute(
        _ACCEPTANCES, {"ids": sorted(row_ids)})}


def _answer(session: Session, uuids: Collection[str], *, stays: bool) -> None:
    inserts.insert_missing(session.connection, _answered, [
        {"consumer_uuid": uuid, "stays": stays, "answered_at": utcnow()}
        for uuid in sorted(set(uuids))])


def _young(ctx: Context, api: Context, project_ids: Collection[str]) -> dict[str, Claim]:
    """Return the young claims of some projects by their uuids."""
    asked = {"since": utcnow() - YOUNG, "project_ids": sorted(project_ids)}
    consumers = {row.uuid: _claim(1, row) for row in _asked(ctx, _YOUNG_CONSUMERS, **asked)}
    mapped = {row.uuid for row in _asked(api, _MAPPED, uuids=sorted(consumers))}
    return {
        **{row.uuid: _claim(0, row) for row in _asked(api, _YOUNG_MAPPED, **asked)},
        **{uuid: claim for uuid, claim in consumers.items() if uuid not in mapped}}


def _claim(rank: int, row: sa.Row[Any]) -> Claim:
    return Claim(row.uuid, (rank, row.id), row.project_id, row.user_id)


def _answers(ctx: Context, uuids: Collection[str]) -> dict[str, bool]:
    """Return which claims stay, of those whose re-check was answered."""
    return {row.consumer_uuid: bool(row.stays)
            for row in _asked(ctx, _ANSWERS, uuids=sorted(uuids))}


def _moving(ctx: Context, uuids: Collection[str]) -> set[str]:
    return {row[0] for row in _asked(ctx, _MOVING, uuids=sorted(uuids))}


@db.retry_writes
def _asked(
    ctx: Context, statement: sa.Executable, **parameters: Any
) -> Sequence[sa.Row[Any]]:
    """Return what a statement selects; nothing where it asks about nothing."""
    if not all(parameters.values()):
        return ()
    with db.read_once(ctx) as session:
        return session.execute(statement, parameters).all()
