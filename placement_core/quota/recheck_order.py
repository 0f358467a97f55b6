"""The order of concurrent claims, and the recorded answers of their re-checks.

A claim is as old as its instance mapping. A claim without a mapping is younger than all that
have one, and as old as its consumer. While a claim is recent (``RECENT``) it is concurrent
with others: it exists, and its own re-check may be pending. An older claim counts, whether
it was answered or not. So a claim that is never re-checked (nova's ``recheck_quota`` may be
off), or that was refused and not removed, is not overlooked for long, and the rows of
``rechecked_claims`` can be deleted.
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

from placement_core import db, errors as core_errors, metrics
from placement_core.cells import build_requests, tables as cell_tables
from placement_core.cells.databases import CellDatabases
from placement_core.context import Context
from placement_core.db import Session, inserts, lists
from placement_core.db.metadata import utcnow
from placement_core.placement import tables as placement_tables
from placement_core.quota import errors, tables

#: How long a claim is recent: longer than any request takes to create its instances and to
#: re-check them.
RECENT = datetime.timedelta(minutes=10)
#: How long an answer is kept; more than ``RECENT``, because clocks differ.
_ANSWER_LIFETIME = 2 * RECENT
#: How many claims have their build requests read, some kilobytes each; each of the other
#: claims is treated as a request of its own.
_MOST_BUILD_REQUESTS = 256
_PRUNE_EVERY_SECONDS = 60.0
#: How many old answers one transaction deletes.
_PRUNE_BATCH = 500

LOG = logging.getLogger(__name__)

_mappings = cell_tables.instance_mappings
_consumers, _projects, _users, _moves = (
    placement_tables.consumers, placement_tables.projects, placement_tables.users,
    placement_tables.moves)
_rechecked, _nodes = tables.rechecked_claims, tables.limit_nodes

#: The position of a claim in the order: (0, id of its mapping) or (1, id of its consumer).
Position = tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class RecentClaim:
    """A claim that is younger than ``RECENT``."""

    uuid: str
    position: Position
    project_id: str
    user_id: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class EarlierRequest:
    """The recent claims of one request that precedes another and whose re-check is pending.

    They stay or go together. Nova's build requests tell which instances one request created
    (``build_requests``); every other claim is treated as a request of its own.
    """

    claims: Sequence[RecentClaim]

    @property
    def uuids(self) -> Set[str]:
        """Return the uuids of all its claims."""
        return {claim.uuid for claim in self.claims}

    @property
    def project_id(self) -> str:
        """Return the project of the claims."""
        return self.claims[0].project_id

    @property
    def user_id(self) -> str | None:
        """Return the user who made them."""
        return self.claims[0].user_id


@dataclasses.dataclass(frozen=True, slots=True)
class ConcurrentClaims:
    """The recent claims beside those of one request.

    :ivar excluded: the claims that do not count against the request.
    :ivar pending: those whose re-check is pending, the first one first.
    """

    excluded: Set[str]
    pending: Sequence[RecentClaim]


def find_position(
    ctx: Context, cells: CellDatabases, project_id: str, uuids: Collection[str]
) -> Position:
    """Return the position of a request, which is that of the first of its claims.

    So one of several requests stays, too, whose instances were created in turns.

    :param project_id: whose instances or consumers ``uuids`` are.
    :raises errors.UnknownConsumers: the project does not have some of them.
    """
    positions: dict[str, Position] = {}
    missing = set(uuids)
    for rank, (database_ctx, statement) in enumerate((
            (cells.api(ctx), _MAPPED), (ctx, _CONSUMED))):
        positions |= {
            row.uuid: (rank, row.id)
            for row in _fetch(database_ctx, statement, {"uuids": sorted(missing)})
            if row.project_id == project_id}
        missing -= positions.keys()
    if missing:
        raise errors.UnknownConsumers(project_id, sorted(missing))
    return min(positions.values())


def find_concurrent_claims(
    ctx: Context, cells: CellDatabases, first: Position, uuids: Collection[str],
    project_ids: Collection[str],
) -> ConcurrentClaims:
    """Return the claims that are concurrent with those of a request.

    Later claims that were not accepted do not count against the request: if it fits without
    them, they are the ones to go. Nor do refused claims, which will be removed.

    :param first: the position of the request.
    :param uuids: its own claims.
    :param project_ids: the projects whose usage counts against the same limits.
    """
    recent = _read_recent_claims(ctx, cells.api(ctx), project_ids)
    for uuid in uuids:
        recent.pop(uuid, None)
    answers = _read_answers(ctx, recent)
    refused = {uuid for uuid, stays in answers.items() if not stays}
    # Allocations that are moved existed before, whichever consumer has them now.
    moving = _read_moving(ctx, {*refused, *(recent.keys() - answers.keys())})
    pending = sorted(
        (claim for uuid, claim in recent.items() if uuid not in answers and uuid not in moving),
        key=lambda claim: claim.position)
    later = {claim.uuid for claim in pending if claim.position > first}
    return ConcurrentClaims((refused - moving) | later, pending)


def find_earlier_requests(
    ctx: Context, cells: CellDatabases, concurrent: ConcurrentClaims, first: Position
) -> list[EarlierRequest]:
    """Return the requests that precede one and whose re-check is pending.

    They are sorted by position, each with all of its claims.
    """
    uuids = [claim.uuid for claim in concurrent.pending[:_MOST_BUILD_REQUESTS]]
    reservation_ids = build_requests.list_reservation_ids(ctx, cells, uuids)
    requests: dict[str, list[RecentClaim]] = {}
    for claim in concurrent.pending:
        requests.setdefault(reservation_ids.get(claim.uuid, claim.uuid), []).append(claim)
    return [EarlierRequest(claims) for claims in requests.values() if claims[0].position < first]


@db.retry_writes
def read_acceptances(ctx: Context, row_ids: Collection[int]) -> dict[int, int]:
    """Return how many re-checks were accepted that each node binds, by the id of its row."""
    with db.read_once(ctx) as session:
        return _select_acceptances(session, row_ids)


def record_acceptance(session: Session, row_ids: Collection[int], uuids: Collection[str]) -> None:
    """Record that claims stay, so that they count for every other request from now on.

    :param row_ids: the rows of the nodes that bind them, which the session has locked
        (``LimitNodes.lock``). Re-checks that are counting now will count again.
    """
    if row_ids:
        session.write_later(_COUNT_ACCEPTANCE, {"ids": sorted(set(row_ids))})
    # The same re-check may have been refused at the same time.
    inserts.insert_or_set(session, _rechecked, "stays", _make_answers(uuids, stays=True))


def record_refusal(session: Session, uuids: Collection[str]) -> None:
    """Record that claims have to go, unless they were accepted: no other request counts them.

    :param session: has locked the nodes that bind them, so that concurrent re-checks answer
        one after the other.
    """
    inserts.insert_missing(session.connection, _rechecked, _make_answers(uuids, stays=False))


def is_unchanged(session: Session, seen: Mapping[int, int]) -> bool:
    """Say whether no request was accepted since ``read_acceptances`` returned ``seen``.

    :param session: has locked the nodes.
    """
    return _select_acceptances(session, seen) == dict(seen)


@db.retry_writes
def prune(ctx: Context, *, most: int = _PRUNE_BATCH) -> int:
    """Delete answers about claims that are no longer recent; return how many.

    :param most: how many at most.
    """
    before = {"before": utcnow() - _ANSWER_LIFETIME}
    with db.write(ctx) as session:
        uuids = list(session.execute(_OLD, {**before, "most": most}).scalars())
        removed = session.execute(_PRUNE, {**before, "uuids": uuids}).rowcount if uuids else 0
    metrics.count_removed_rows(_rechecked.name, removed)
    return removed


class AnswerPruner:
    """Deletes old answers once a minute. Thread-safe."""

    def __init__(self) -> None:
        self._pruned_at = -_PRUNE_EVERY_SECONDS

    def prune_if_due(self, ctx: Context) -> None:
        """Delete old answers if a minute has passed; call it after recording an answer."""
        if time.monotonic() - self._pruned_at < _PRUNE_EVERY_SECONDS:
            return
        self._pruned_at = time.monotonic()
        try:
            while prune(ctx) == _PRUNE_BATCH:
                pass
        except core_errors.Error:
            LOG.warning("old answers of re-checks could not be removed", exc_info=True)


_COUNT_ACCEPTANCE = (
    sa.update(_nodes).where(lists.among(_nodes.c.id, "ids"))
    .values(accepted=_nodes.c.accepted + 1))
_ACCEPTANCES = sa.select(_nodes.c.id, _nodes.c.accepted).where(
    lists.among(_nodes.c.id, "ids"))
_is_old = _rechecked.c.answered_at < sa.bindparam("before")
_OLD = sa.select(_rechecked.c.consumer_uuid).where(_is_old).limit(
    sa.bindparam("most", type_=sa.Integer))
_PRUNE = sa.delete(_rechecked).where(lists.among(_rechecked.c.consumer_uuid, "uuids"), _is_old)
_ANSWERS = sa.select(_rechecked.c.consumer_uuid, _rechecked.c.stays).where(
    lists.among_many(_rechecked.c.consumer_uuid, "uuids"))
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
_RECENT_MAPPED = sa.select(
    _mappings.c.id, _mappings.c.instance_uuid.label("uuid"), _mappings.c.project_id,
    _mappings.c.user_id,
).where(
    _mappings.c.created_at > sa.bindparam("since"),
    lists.among_many(_mappings.c.project_id, "project_ids"))
_RECENT_CONSUMERS = sa.select(
    _consumers.c.id, _consumers.c.uuid, _projects.c.external_id.label("project_id"),
    _users.c.external_id.label("user_id"),
).join(_projects, _projects.c.id == _consumers.c.project_id).outerjoin(
    _users, _users.c.id == _consumers.c.user_id,
).where(
    _consumers.c.created_at > sa.bindparam("since"),
    lists.among_many(_projects.c.external_id, "project_ids"))


def _select_acceptances(session: Session, row_ids: Collection[int]) -> dict[int, int]:
    return {row.id: row.accepted for row in session.execute(
        _ACCEPTANCES, {"ids": sorted(row_ids)})}


def _make_answers(uuids: Collection[str], *, stays: bool) -> list[dict[str, Any]]:
    now = utcnow()
    return [{"consumer_uuid": uuid, "stays": stays, "answered_at": now}
            for uuid in sorted(set(uuids))]


def _read_recent_claims(
    ctx: Context, api: Context, project_ids: Collection[str]
) -> dict[str, RecentClaim]:
    """Return the recent claims of some projects by their uuids."""
    parameters = {"since": utcnow() - RECENT, "project_ids": sorted(project_ids)}
    by_consumer = {
        row.uuid: _make_claim(1, row) for row in _fetch(ctx, _RECENT_CONSUMERS, parameters)}
    mapped_uuids = {row.uuid for row in _fetch(api, _MAPPED, {"uuids": sorted(by_consumer)})}
    return {
        **{row.uuid: _make_claim(0, row) for row in _fetch(api, _RECENT_MAPPED, parameters)},
        **{uuid: claim for uuid, claim in by_consumer.items() if uuid not in mapped_uuids}}


def _make_claim(rank: int, row: sa.Row[Any]) -> RecentClaim:
    return RecentClaim(row.uuid, (rank, row.id), row.project_id, row.user_id)


def _read_answers(ctx: Context, uuids: Collection[str]) -> dict[str, bool]:
    """Return whether each claim stays, of those whose re-check was answered."""
    return {row.consumer_uuid: bool(row.stays)
            for row in _fetch(ctx, _ANSWERS, {"uuids": sorted(uuids)})}


def _read_moving(ctx: Context, uuids: Collection[str]) -> set[str]:
    """Return the consumers whose allocations are being moved, either way."""
    return {row[0] for row in _fetch(ctx, _MOVING, {"uuids": sorted(uuids)})}


@db.retry_writes
def _fetch(
    ctx: Context, statement: sa.Executable, parameters: Mapping[str, Any]
) -> Sequence[sa.Row[Any]]:
    """Return the rows of a statement; none, without a query, where a list is empty."""
    if not all(parameters.values()):
        return ()
    with db.read_once(ctx) as session:
        return session.execute(statement, parameters).all()
