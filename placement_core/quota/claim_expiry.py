"""Expiry of held claims: a periodic sweep, and a gate that expires them for writes.

Each claim ends in a transaction of its own, which locks the consumer's row, then ends the
claim's row if it is due by the database's clock, then deletes the allocations. So of two
sweeps, of a sweep and a confirmation, or of a sweep and a DELETE exactly one wins. Writes
do not depend on the sweep: one that is about to be refused expires due claims itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db, errors as core_errors, metrics
from placement_core.caches import BoundedCache
from placement_core.context import Context
from placement_core.placement import allocations, errors as placement_errors
from placement_core.placement.allocations import Check, Gate, WriteRequest, consumers
from placement_core.placement.records import AllocationWrite
from placement_core.plugin_api.catalog import CatalogDriver
from placement_core.quota import errors, held_claims
from placement_core.quota.records import Claim, ExceededLimit, Sweep

LOG = logging.getLogger(__name__)

#: How many expired claims one statement reads.
_BATCH = 100
#: How many expired claims a write that needs their room ends at most.
_MOST_FOR_A_WRITE = 100
#: How long, and for how many projects and providers, a process remembers that it ended claims
#: for a write: longer than a write takes from its refusal until it looks for due claims.
_REMEMBERED_SECONDS = 10
_MOST_REMEMBERED = 10_000
#: Refusals, beside quota, that expiring claims may resolve.
_NO_ROOM = (
    placement_errors.CapacityExceeded, placement_errors.InventoryInUse,
    placement_errors.ProviderReserved)


class HeldClaimsGate(Gate):
    """Expires due claims that block a write, and keeps the claims held that a reshape moves."""

    def __init__(self, catalog: CatalogDriver) -> None:
        self._catalog = catalog
        #: {project id or provider uuid: when claims there were last ended for a write}, by the
        #: monotonic clock.
        self._room_made_at = BoundedCache[str, float](_MOST_REMEMBERED)

    def prepare(self, ctx: Context, request: WriteRequest) -> Check:
        """Return the check that keeps claims held; only a reshape needs it."""
        return Check() if request.inventories is None else _CarryHeldClaims()

    def make_room(
        self, ctx: Context, request: WriteRequest, refusal: core_errors.Error
    ) -> bool:
        """Expire due claims that block a write; say whether there were any.

        Claims that another process ended meanwhile count, because that made room, too. So do
        those that this process ended a moment ago: writes that share a transaction are refused
        together, and one of them ends the claims that blocked all. Claims of consumers that the
        write replaces do not block it.
        """
        projects: Collection[str] = ()
        if isinstance(refusal, errors.QuotaExceeded):
            projects = _find_counted_projects(ctx, self._catalog, refusal.exceeded_limits)
        elif not isinstance(refusal, _NO_ROOM):
            return False
        providers = {*(request.inventories or ()),
                     *(uuid for write in request.writes for uuid in write.allocations)}
        rows = {row.id: row for row in _list_due(
            ctx, most=_MOST_FOR_A_WRITE, providers=providers)}
        if projects:
            rows |= {row.id: row for row in _list_due(
                ctx, most=_MOST_FOR_A_WRITE, projects=projects)}
        written = {write.consumer_uuid for write in request.writes}
        due = [row for row in rows.values() if row.consumer_uuid not in written]
        if not due:
            return self._made_room_lately({*providers, *projects})
        places = {*providers, *projects, *(row.project_id for row in due)}
        # Before, so that it is noted when others find that none are due any more.
        self._note_room(places)
        outcome = _end_claims(ctx, due, Sweep())
        self._note_room(places.union(*(claim.allocations for claim in outcome.ended)))
        return bool(outcome.ended or outcome.others)

    def _note_room(self, places: Collection[str]) -> None:
        """Note that claims end now, of some projects or on some providers."""
        for place in places:
            self._room_made_at.put(place, time.monotonic())

    def _made_room_lately(self, places: Collection[str]) -> bool:
        since = time.monotonic() - _REMEMBERED_SECONDS
        return any(made_at >= since for made_at in self._room_made_at.get_many(places).values())


class _CarryHeldClaims(Check):
    def consumers_locked(self, session: db.Session, writes: Sequence[AllocationWrite]) -> None:
        """Keep claims held whose allocations are rewritten."""
        held_claims.carry(session, writes)


def sweep(
    ctx: Context, *, most: int | None = None,
    progress: Callable[[Sweep], None] = lambda _sweep: None,
) -> Sweep:
    """End the claims that are due, and delete the rows of those that ended over a day ago.

    Any number of processes may sweep at the same time.

    :param most: how many to end at most, 1 or more.
    :param progress: called after each batch but the last, with the result so far.
    """
    while _forget_old(ctx) == _BATCH:
        pass
    outcome = Sweep()
    after = 0
    while True:
        size = _BATCH if most is None else min(_BATCH, most - len(outcome.ended))
        rows = _list_due(ctx, after=after, most=size)
        _end_claims(ctx, rows, outcome)
        if len(rows) < size or len(outcome.ended) == most:
            return outcome
        after = rows[-1].id
        progress(outcome)


def end_due(ctx: Context) -> bool:
    """End claims that are due, wherever they are; say whether there were any.

    For a request that found no room anywhere. Claims that another process ended meanwhile count.
    """
    outcome = _end_claims(ctx, _list_due(ctx, most=_MOST_FOR_A_WRITE), Sweep())
    return bool(outcome.ended or outcome.others)


@db.retry_writes
def _forget_old(ctx: Context) -> int:
    with db.write(ctx) as session:
        removed = held_claims.forget_old(session, _BATCH)
    metrics.count_removed_rows("held_claims", removed)
    return removed


def _find_counted_projects(
    ctx: Context, catalog: CatalogDriver, exceeded_limits: Sequence[ExceededLimit]
) -> set[str]:
    """Return the projects whose usage counts against limits that would be exceeded."""
    projects = {exceeded.node_id for exceeded in exceeded_limits}
    for node_id in {exceeded.node_id for exceeded in exceeded_limits
                    if exceeded.scope == "subtree"}:
        try:
            projects.update(node.id for node in catalog.subtree(ctx, node_id))
        except core_errors.Unavailable as error:
            # The first refusal tells the caller more than this error.
            LOG.warning("the projects below %s are not known now: %s", node_id, error)
    return projects


def _list_due(
    ctx: Context, *, most: int, after: int = 0, providers: Collection[str] | None = None,
    projects: Collection[str] | None = None,
) -> Sequence[sa.Row[Any]]:
    with db.read_once(ctx) as session:
        return held_claims.list_due(
            session, after=after, most=most, providers=providers, projects=projects)


def _end_claims(ctx: Context, rows: Sequence[sa.Row[Any]], outcome: Sweep) -> Sweep:
    """End claims, each in its own transaction; add the results to ``outcome``."""
    for row in rows:
        try:
            claim = _expire(ctx, row)
        except core_errors.Unavailable as error:
            LOG.warning("the claim %s is due and could not be ended now: %s",
                        row.consumer_uuid, error)
            outcome.failed.append(row.consumer_uuid)
            continue
        if claim is None:
            outcome.others += 1
            continue
        outcome.ended.append(claim)
        metrics.count_claim("expired")
        LOG.info("the claim %s of project %s expired; given back: %s", claim.consumer_uuid,
                 claim.project_id, _describe(claim.allocations))
    return outcome


@db.retry_writes
def _expire(ctx: Context, row: sa.Row[Any]) -> Claim | None:
    """End one claim and delete its allocations; None: another process was first."""
    uuid = row.consumer_uuid
    with db.write(ctx) as session:
        consumers.lock(session, uuid)
        holdings = held_claims.read_own_holdings(session, [row]).get(uuid)
        # If its allocations were deleted or rewritten since, only the row of the claim ends.
        if not held_claims.end(session, row, keep_row=holdings is not None) or holdings is None:
            return None
        allocations.delete(ctx, uuid)
    return Claim(uuid, row.project_id, row.user_id, holdings.consumer_type, "expired",
                 row.expires_at, holdings.allocations)


def _describe(allocations: Mapping[str, Mapping[str, int]]) -> str:
    return "; ".join(
        f"{', '.join(f'{amount} {name}' for name, amount in sorted(resources.items()))} on {uuid}"
        for uuid, resources in sorted(allocations.items()))
