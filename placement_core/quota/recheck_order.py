"""The order of claims that re-checks decide by, and the answers that they gave.

A claim is as old as its instance mapping; one without is younger than all that have one,
and as old as its consumer. While a claim is young it is a rival: it exists, and its own
re-check is yet to come. An older one counts, answered or not: so a claim that is never
re-checked (nova's ``recheck_quota`` may be off), or that was refused and not removed, is
not overlooked for long, and the rows of ``rechecked_claims`` can be deleted.
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
#: The build requests of so many claims are read, some kilobytes each; each of the other
#: claims is taken for a request of its own.
_MOST_NAMED = 256
_PRUNE_EVERY_SECONDS = 60.0

LOG = logging.getLogger(__name__)

_mappings = cell_tables.instance_mappings
_consumers, _projects, _users, _moves = (
    placement_tables.consumers, placement_tables.projects, placement_tables.users,
    placement_tables.moves)
_answered, _nodes = tables.rechecked_claims, tables.limit_nodes

#: Where a claim stands: (0, id of its mapping) or (1, id of its consumer).
Place = tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class YoungClaim:
    """A young claim."""

    uuid: str
    place: Place
    project_id: str
    user_id: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class EarlierRequest:
    """The young claims of one request that came before another, and whose re-check is yet to come.

    They stay or go together. Which claims one request made is known of nova's instances
    (``build_requests``); every other claim is taken for a request of its own.
    """

    claims: Sequence[YoungClaim]

    @property
    def uuids(self) -> Set[str]:
        """Of all its claims."""
        return {claim.uuid for claim in self.claims}

    @property
    def project_id(self) -> str:
        """The project of the claims."""
        return self.claims[0].project_id

    @property
    def user_id(self) -> str | None:
        """The user who made them."""
        return self.claims[0].user_id


@dataclasses.dataclass(frozen=True, slots=True)
class Rivals:
    """The rivals of a claim or of several.

    :ivar left_out: the claims that do not count against it.
    :ivar unanswered: those whose re-check is yet to come, the first one first.
    """

    left_out: Set[str]
    unanswered: Sequence[YoungClaim]


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
    for rank, (database_ctx, statement) in enumerate((
            (cells.api(ctx), _MAPPED), (ctx, _CONSUMED))):
        places |= {
            row.uuid: (rank, row.id)
            for row in _fetch(database_ctx, statement, {"uuids": sorted(missing)})
            if row.project_id == project_id}
        missing -= places.keys()
    if missing:
        raise errors.UnknownConsumers(project_id, sorted(missing))
    return min(places.values())


def find_rivals(
    ctx: Context, cells: CellDatabases, first: Place, uuids: Collection[str],
    project_ids: Collection[str],
) -> Rivals:
    """Return the rivals of a request.

    Claims that came later and were not accepted do not count against it: if it fits
    without them, they are the ones to go. Nor do refused claims, which will be removed.

    :param first: where the request stands.
    :param uuids: its own claims.
    :param project_ids: whose usage counts against the same limits.
    """
    young = _young(ctx, cells.api(ctx), project_ids)
    for uuid in uuids:
        young.pop(uuid, None)
    answers = _answers(ctx, young)
    refused = {uuid for uuid, stays in answers.items() if not stays}
    # Allocations that move existed before, whatever consumer holds them now.
    moving = _moving(ctx, {*refused, *(young.keys() - answers.keys())})
    unanswered = sorted(
        (claim for uuid, claim in young.items() if uuid not in answers and uuid not in moving),
        key=lambda claim: claim.place)
    later = {claim.uuid for claim in unanswered if claim.place > first}
    return Rivals((refused - moving) | later, unanswered)


def earlier_requests(
    ctx: Context, cells: CellDatabases, rivals: Rivals, first: Place
) -> list[EarlierRequest]:
    """Return the requests that came before one and whose re-check is yet to come.

    They come in their order, each with all of its claims.
    """
    uuids = [claim.uuid for claim in rivals.unanswered[:_MOST_NAMED]]
    reservation_ids = build_requests.list_reservation_ids(ctx, cells, uuids)
    requests: dict[str, list[YoungClaim]] = {}
    for claim in rivals.unanswered:
        requests.setdefault(reservation_ids.get(claim.uuid, claim.uuid), []).append(claim)
    return [EarlierRequest(claims) for claims in requests.values() if claims[0].place < first]


@db.retry_writes
def acceptances(ctx: Context, row_ids: Collection[int]) -> dict[int, int]:
    """Return how often a re-check was accepted that a node binds, by the id of its row."""
    with db.read_once(ctx) as session:
        return _acceptances(session, row_ids)


def accept(session: Session, row_ids: Collection[int], uuids: Collection[str]) -> None:
    """Record that claims stay: they count for every rival from now on.

    :param row_ids: of the nodes that bind them, which the session holds
        (``LimitNodes.lock``): rivals that are counting now will count again.
    """
    session.execute_write(_RAISE, {"ids": sorted(set(row_ids))})
    _answer(session, uuids, stays=True)
    # The same re-check may have been refused at the same time.
    session.execute_write(_STAY, {"uuids": sorted(set(uuids))})


def refuse(session: Session, uuids: Collection[str]) -> None:
    """Record that claims have to go, unless they were accepted: they count for no rival.

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


class AnswerPruner:
    """Removes old answers now and then; for any number of threads."""

    def __init__(self) -> None:
        self._pruned_at = -_PRUNE_EVERY_SECONDS

    def prune_if_due(self, ctx: Context) -> None:
        """Remove old answers, once a minute; called after a transaction that answered."""
        if time.monotonic() - self._pruned_at < _PRUNE_EVERY_SECONDS:
            return
        self._pruned_at = time.monotonic()
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


def _young(ctx: Context, api: Context, project_ids: Collection[str]) -> dict[str, YoungClaim]:
    """Return the young claims of some projects by their uuids."""
    parameters = {"since": utcnow() - YOUNG, "project_ids": sorted(project_ids)}
    of_consumers = {row.uuid: _claim(1, row) for row in _fetch(ctx, _YOUNG_CONSUMERS, parameters)}
    mapped_uuids = {row.uuid for row in _fetch(api, _MAPPED, {"uuids": sorted(of_consumers)})}
    return {
        **{row.uuid: _claim(0, row) for row in _fetch(api, _YOUNG_MAPPED, parameters)},
        **{uuid: claim for uuid, claim in of_consumers.items() if uuid not in mapped_uuids}}


def _claim(rank: int, row: sa.Row[Any]) -> YoungClaim:
    return YoungClaim(row.uuid, (rank, row.id), row.project_id, row.user_id)


def _answers(ctx: Context, uuids: Collection[str]) -> dict[str, bool]:
    """Return which claims stay, of those whose re-check was answered."""
    return {row.consumer_uuid: bool(row.stays)
            for row in _fetch(ctx, _ANSWERS, {"uuids": sorted(uuids)})}


def _moving(ctx: Context, uuids: Collection[str]) -> set[str]:
    return {row[0] for row in _fetch(ctx, _MOVING, {"uuids": sorted(uuids)})}


@db.retry_writes
def _fetch(
    ctx: Context, statement: sa.Executable, parameters: Mapping[str, Any]
) -> Sequence[sa.Row[Any]]:
    """Return the rows of a statement; none, without asking, where a list is empty."""
    if not all(parameters.values()):
        return ()
    with db.read_once(ctx) as session:
        return session.execute(statement, parameters).all()
