"""Ending held claims whose time is over, and the gate that does so for writes.

Each claim ends in a transaction of its own: its consumer's row is taken, then the row
of the hold by the database's clock, then what it holds is deleted as ever. So of two
who sweep, of a sweep and a confirmation, of a sweep and a DELETE exactly one wins.
Nobody has to sweep for the sake of those who want the room: a write that is about to
be refused does it for them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db, errors as core_errors, metrics
from placement_core.context import Context
from placement_core.placement import allocations, errors as placement_errors
from placement_core.placement.allocations import Check, Gate, WriteRequest, consumers
from placement_core.placement.records import AllocationWrite
from placement_core.plugin_api.catalog import CatalogDriver
from placement_core.quota import errors, held_claims
from placement_core.quota.records import Claim, Overrun, Sweep

LOG = logging.getLogger(__name__)

#: So many due claims are looked for at a time.
_BATCH = 100
#: So many of them a write ends at most that wants their room.
_MOST_FOR_A_WRITE = 100
#: What claims may be in the way of, beside quota.
_FOR_WANT_OF_ROOM = (
    placement_errors.CapacityExceeded, placement_errors.InventoryInUse, placement_errors.Fenced)


class HeldClaimsGate(Gate):
    """Lets held claims that are due give way to writes; a reshape takes those it moves along."""

    def __init__(self, catalog: CatalogDriver) -> None:
        self._catalog = catalog

    def prepare(self, ctx: Context, request: WriteRequest) -> Check:
        """Return who keeps the claims held that a reshape moves."""
        return Check() if request.inventories is None else _Carrying()

    def make_room(
        self, ctx: Context, request: WriteRequest, refusal: core_errors.Error
    ) -> bool:
        """End claims that are due in the way of a write; say whether any were there.

        Also if it was somebody else who ended them just now: there is room all the same.
        Those that are written themselves are in nobody's way.
        """
        projects: Collection[str] = ()
        if isinstance(refusal, errors.QuotaExceeded):
            projects = _counted(ctx, self._catalog, refusal.overruns)
        elif not isinstance(refusal, _FOR_WANT_OF_ROOM):
            return False
        providers = {*(request.inventories or ()),
                     *(uuid for write in request.writes for uuid in write.allocations)}
        rows = {row.id: row for row in _due(ctx, most=_MOST_FOR_A_WRITE, providers=providers)}
        if projects:
            rows |= {row.id: row for row in _due(ctx, most=_MOST_FOR_A_WRITE, projects=projects)}
        written = {write.consumer_uuid for write in request.writes}
        swept = _end(
            ctx, [row for row in rows.values() if row.consumer_uuid not in written], Sweep())
        return bool(swept.ended or swept.others)


class _Carrying(Check):
    def consumers_locked(self, session: db.Session, writes: Sequence[AllocationWrite]) -> None:
        """Keep claims held whose allocations are written anew."""
        held_claims.carry(session, writes)


def sweep(
    ctx: Context, *, most: int | None = None,
    progress: Callable[[Sweep], None] = lambda _swept: None,
) -> Sweep:
    """End the claims whose time is over, and forget those that ended long ago.

    Any number may do so at the same time.

    :param most: how many to end at most, from 1 on.
    :param progress: called with all so far after each batch but the last.
    """
    _forget_old(ctx)
    swept = Sweep()
    after = 0
    while True:
        size = _BATCH if most is None else min(_BATCH, most - len(swept.ended))
        found = _due(ctx, after=after, most=size)
        _end(ctx, found, swept)
        if len(found) < size or len(swept.ended) == most:
            return swept
        after = found[-1].id
        progress(swept)


@db.retry_writes
def _forget_old(ctx: Context) -> None:
    with db.write(ctx) as session:
        held_claims.forget_old(session)


def _counted(
    ctx: Context, catalog: CatalogDriver, overruns: Sequence[Overrun]
) -> set[str]:
    """Return the projects whose usage counts against limits that would be exceeded."""
    projects = {overrun.node_id for overrun in overruns}
    for node_id in {each.node_id for each in overruns if each.scope == "subtree"}:
        try:
            projects.update(node.id for node in catalog.subtree(ctx, node_id))
        except core_errors.Unavailable as error:
            # The refusal was known before that; it is the better answer.
            LOG.warning("the projects below %s are not known now: %s", node_id, error)
    return projects


def _due(
    ctx: Context, *, most: int, after: int = 0, providers: Collection[str] | None = None,
    projects: Collection[str] | None = None,
) -> Sequence[sa.Row[Any]]:
    with db.read_once(ctx) as session:
        return held_claims.due(
            session, after=after, most=most, providers=providers, projects=projects)


def _end(ctx: Context, found: Sequence[sa.Row[Any]], swept: Sweep) -> Sweep:
    """End claims, each by itself; add to ``swept`` what became of them."""
    for row in found:
        try:
            ended = _expire(ctx, row)
        except core_errors.Unavailable as error:
            LOG.warning("the claim %s is due and could not be ended now: %s",
                        row.consumer_uuid, error)
            swept.failed.append(row.consumer_uuid)
            continue
        if ended is None:
            swept.others += 1
            continue
        swept.ended.append(ended)
        metrics.claim_became("expired")
        LOG.info("the claim %s of project %s expired; given back: %s", ended.consumer_uuid,
                 ended.project_id, _said(ended.allocations))
    return swept


@db.retry_writes
def _expire(ctx: Context, row: sa.Row[Any]) -> Claim | None:
    """End one claim and give back what it holds; None: somebody else was first."""
    uuid = row.consumer_uuid
    with db.write(ctx) as session:
        consumers.lock(session, uuid)
        own = held_claims.own_holdings(session, [row]).get(uuid)
        # What was deleted or rewritten is not the claim's any more: only the row ends.
        if not held_claims.end(session, row, remembered=own is not None) or own is None:
            return None
        allocations.delete(ctx, uuid)
    return Claim(uuid, row.project_id, row.user_id, own.consumer_type, "expired",
                 row.expires_at, own.allocations)


def _said(held: Mapping[str, Mapping[str, int]]) -> str:
    return "; ".join(
        f"{', '.join(f'{amount} {name}' for name, amount in sorted(resources.items()))} on {uuid}"
        for uuid, resources in sorted(held.items()))
