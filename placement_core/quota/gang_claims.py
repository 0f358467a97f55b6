"""Claims of gangs: find room for several members and claim it, in one request.

A search reads the capacity index, and the claim is decided by the rows of the database, under
their locks. Others may take the room in between; then it is searched for again. The last round
locks every provider that could serve a member before it searches, so that nobody takes
anything in between: a gang that fits is not refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import sqlalchemy as sa

from placement_core import db, metrics
from placement_core.context import Context
from placement_core.db import lists
from placement_core.placement import errors as placement_errors, tables as placement_tables
from placement_core.placement.candidates import search as candidate_search
from placement_core.placement.candidates.ordering import CandidateOrdering
from placement_core.placement.gangs import search
from placement_core.placement.gangs.errors import NoRoomForGang
from placement_core.placement.gangs.requests import GangRequest
from placement_core.placement.gangs.search import Member
from placement_core.placement.index import CapacityIndex, CapacitySnapshot
from placement_core.placement.records import AllocationWrite
from placement_core.quota import claim_expiry, errors
from placement_core.quota.claims import Claims

#: How often room is searched for; the last time under locks.
_ROUNDS = 3
#: Refusals of a claim for which there was room when it was searched for.
_RAN_OUT = (
    placement_errors.CannotAllocate, placement_errors.AllocationForUnknownProvider,
    placement_errors.ProviderReserved)

#: Where members fit, and in which snapshot.
Found: TypeAlias = tuple[CapacitySnapshot, list[Member]]

_providers = placement_tables.resource_providers
_LOCK = (
    sa.select(_providers.c.id).where(lists.among_many(_providers.c.id, "ids"))
    .order_by(_providers.c.id).with_for_update(of=_providers, key_share=True))


@dataclasses.dataclass(frozen=True, slots=True)
class GangOwner:
    """Whose consumers the members are.

    :ivar consumer_uuids: one for each member that is wanted, in the order of topology.
    """

    project_id: str
    user_id: str
    consumer_type: str
    consumer_uuids: Sequence[str]

    def make_writes(self, members: Sequence[Member]) -> list[AllocationWrite]:
        """Return the writes of the members' allocations."""
        return [
            AllocationWrite(uuid, member.allocations, self.project_id, self.user_id,
                            self.consumer_type, expected_generation=None)
            for uuid, member in zip(self.consumer_uuids, members, strict=False)]


@dataclasses.dataclass(frozen=True, slots=True)
class Gang:
    """Claimed members, in the order of topology; their consumers are the first of the owner's.

    :ivar expires_at: as ``Claim.expires_at``.
    """

    members: Sequence[Member]
    expires_at: datetime.datetime | None


class GangClaims:
    """Finds and claims room for gangs."""

    def __init__(
        self, claims: Claims, index: CapacityIndex, ordering: CandidateOrdering, *,
        exclude_reserved: bool,
    ) -> None:
        """Initialize the claims of gangs.

        :param ordering, exclude_reserved: as ``search.find_members``.
        """
        self._claims = claims
        self._index = index
        self._ordering = ordering
        self._exclude_reserved = exclude_reserved

    def claim(
        self, ctx: Context, request: GangRequest, owner: GangOwner, *,
        hold_seconds: int | None = None, dry_run: bool = False,
    ) -> Gang:
        """Claim room for all members, or for at least as many as are needed, or for none.

        :param hold_seconds: the time to confirm the claims; None: they are permanent.
        :param dry_run: do not claim it; only say whether and where it would be.
        :raises NoRoomForGang: too few fit.
        :raises errors.QuotaExceeded: limits allow fewer members than are needed.
        :raises errors.ClaimExists: one of the consumers has allocations already.
        :raises errors.Error: as ``search.find_members`` and ``Claims.claim``.
        """
        claiming = _Claiming(ctx, self._claims, self._find, owner, hold_seconds, dry_run=dry_run)
        outcome: metrics.GangOutcome = "failed"
        try:
            gang = claiming.claim(request)
            outcome = "claimed"
        except NoRoomForGang:
            outcome = "no_room"
            raise
        except errors.QuotaExceeded:
            outcome = "over_limit"
            raise
        finally:
            if not dry_run:
                metrics.observe_gang(outcome, claiming.searches)
        return gang

    def _find(self, ctx: Context, request: GangRequest) -> Found:
        """Find members as the newest state of the database has room for them."""
        snapshot = self._index.snapshot(ctx)
        return snapshot, search.find_members(
            snapshot, request, ordering=self._ordering, exclude_reserved=self._exclude_reserved)


class _Claiming:
    """One claim of a gang.

    :ivar searches: how often room was searched for.
    """

    def __init__(
        self, ctx: Context, claims: Claims, find: Callable[[Context, GangRequest], Found],
        owner: GangOwner, hold_seconds: int | None, *, dry_run: bool,
    ) -> None:
        self.searches = 0
        self._ctx = ctx
        self._claims = claims
        self._find_newest = find
        self._owner = owner
        self._hold_seconds = hold_seconds
        self._dry_run = dry_run

    def claim(self, request: GangRequest) -> Gang:
        """Claim what is found; the last time, nobody can take it meanwhile."""
        for _ in range(_ROUNDS - 1):
            with contextlib.suppress(*_RAN_OUT):
                return self._claim_what_is_allowed(request)
        return self._claim_what_is_allowed(request, locked=True)

    def _claim_what_is_allowed(self, request: GangRequest, *, locked: bool = False) -> Gang:
        """Make attempts until neither claims that are due nor limits stand in the way."""
        while True:
            try:
                return self._attempt(request, locked=locked)
            except NoRoomForGang:
                # Claims past their deadlines hold room until somebody needs it.
                if not claim_expiry.end_due(self._ctx):
                    raise
            except errors.QuotaExceeded as refusal:
                allowed = _count_allowed(refusal, request.members)
                if not request.min_members <= allowed < request.members:
                    raise
                request = dataclasses.replace(request, members=allowed)

    def _attempt(self, request: GangRequest, *, locked: bool) -> Gang:
        snapshot, members = self._find(request)

        def choose(session: db.Session) -> list[AllocationWrite]:
            nonlocal members
            _lock_candidates(session, snapshot, request)
            # The gates are prepared for no more members than these.
            _, members = self._find(dataclasses.replace(
                request, members=len(members),
                min_members=min(len(members), request.min_members)))
            return self._owner.make_writes(members)

        expires_at = self._claims.claim_all(
            self._ctx, self._owner.make_writes(members), hold_seconds=self._hold_seconds,
            undo=self._dry_run, choose=choose if locked else None)
        return Gang(members, expires_at)

    def _find(self, request: GangRequest) -> Found:
        self.searches += 1
        return self._find_newest(self._ctx, request)


def _lock_candidates(
    session: db.Session, snapshot: CapacitySnapshot, request: GangRequest
) -> None:
    """Lock every provider that may serve a member against claims."""
    parts = candidate_search.choose(snapshot, request.shape).plan.parts
    rows = {row for part in parts for row in (*np.flatnonzero(part.home).tolist(), *part.away)}
    session.execute(_LOCK, {
        "ids": sorted(snapshot.entry(row).provider.id for row in rows)}).all()


def _count_allowed(refusal: errors.QuotaExceeded, members: int) -> int:
    """Return how many members all limits allow, by what they refused to ``members``."""
    return min(
        max(int(exceeded.limit) - exceeded.used, 0) * members // exceeded.asked
        for exceeded in refusal.exceeded_limits)
