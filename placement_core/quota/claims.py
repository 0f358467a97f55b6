"""Claims: quota and capacity claimed in one transaction, permanently or until a deadline.

A claim is identified by the uuid of its consumer. A held claim expires unless it is
confirmed in time; once confirmed it is a consumer like any other, without a row in
``held_claims``. A write of a held consumer's allocations by another route (PUT or POST
/allocations) takes the claim over: it counts as confirmed from then on, and never expires.
A reshape only moves the allocations: the claim stays held, with its deadline. A consumer
that was deleted (DELETE /allocations) is no longer a claim.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db, metrics
from placement_core.context import Context
from placement_core.placement import allocations, errors as placement_errors
from placement_core.placement.allocations import (
    Check,
    Gate,
    WriteQueue,
    WriteRequest,
    consumers,
)
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.records import AllocationWrite, NewInventories
from placement_core.quota import errors, held_claims
from placement_core.quota.recheck_order import AnswerPruner
from placement_core.quota.records import Claim, ClaimState


class Claims:
    """Every write of allocations from outside, with the gates that may refuse it."""

    def __init__(
        self, gates: Sequence[Gate], enforcing: Sequence[Gate], pruner: AnswerPruner,
        owners: Owners, most_grouped: int = 1,
    ) -> None:
        """Initialize the writes of allocations.

        :param gates: for writes of allocations.
        :param enforcing: for claims, which limits bind in every mode of the guard.
        :param pruner: deletes old answers of re-checks, which claims may have recorded.
        :param owners: caches the owners of consumers.
        :param most_grouped: the largest number of consumers whose writes share a transaction.
        """
        self._queue = WriteQueue(most_grouped)
        self._gates = gates
        self._enforcing = enforcing
        self._pruner = pruner
        self._owners = owners

    def replace(self, ctx: Context, writes: Sequence[AllocationWrite]) -> None:
        """Replace the allocations of consumers, all of them or none.

        :raises errors.QuotaExceeded, errors.ProviderReserved: and what ``allocations.replace``
            raises.
        """
        allocations.replace(ctx, writes, self._gates, self._owners, self._queue)

    def reshape(
        self, ctx: Context, inventories: NewInventories, writes: Sequence[AllocationWrite]
    ) -> None:
        """Replace inventories of providers and allocations of consumers in one transaction.

        Held claims stay held, with their deadlines.

        :raises errors.ProviderReserved: and what ``allocations.reshape`` raises.
        """
        allocations.reshape(ctx, inventories, writes, self._gates, self._owners)

    def delete(self, ctx: Context, consumer_uuid: str) -> None:
        """Delete all allocations of a consumer, whatever its generation.

        :raises errors.NoAllocations: it has none.
        """
        allocations.delete(ctx, consumer_uuid, self._gates, self._owners, self._queue)

    def claim(
        self, ctx: Context, write: AllocationWrite, *, hold_seconds: int | None = None
    ) -> Claim:
        """Allocate what a new consumer requests, if capacity and limits allow it.

        :param write: of a consumer without allocations, whatever generation it names.
        :param hold_seconds: the time to confirm the claim, by the database's clock; None: it
            is permanent.
        :raises errors.ClaimExists: the consumer has allocations already.
        :raises errors.QuotaExceeded, errors.CannotAllocate,
            errors.AllocationForUnknownProvider, errors.UnknownResourceClass,
            errors.ProviderReserved: nothing was changed.
        """
        expires_at = self.claim_all(ctx, [write], hold_seconds=hold_seconds)
        return Claim(
            write.consumer_uuid, write.project_id, write.user_id, write.consumer_type,
            "confirmed" if expires_at is None else "held", expires_at, write.allocations)

    def claim_all(
        self, ctx: Context, writes: Sequence[AllocationWrite], *,
        hold_seconds: int | None = None, undo: bool = False,
        choose: Callable[[db.Session], Sequence[AllocationWrite]] | None = None,
    ) -> datetime.datetime | None:
        """Make the claims of several new consumers in one transaction, all or none.

        :param choose: as ``allocations.replace``.
        :param undo: make the claims and undo them, to know whether they would be refused.
        :returns: their deadline; None: there is none, or they were undone.
        :raises errors.Error: as ``claim``.
        """
        undoing = [_UndoingGate()] if undo else []
        try:
            checks = allocations.replace(
                ctx, writes, [*self._enforcing, _DeadlineGate(hold_seconds), *undoing],
                self._owners, choose=choose)
        except placement_errors.ConsumerGenerationConflict as conflict:
            raise errors.ClaimExists(conflict.uuid) from None
        except _Undone:
            return None
        deadline = checks[len(self._enforcing)]
        assert isinstance(deadline, _SetDeadline)
        self._pruner.prune_if_due(ctx)
        for _ in deadline.writes:
            metrics.count_claim("taken" if deadline.expires_at is None else "held")
        return deadline.expires_at


class _DeadlineGate(Gate):
    """Sets the deadline of new claims."""

    def __init__(self, seconds: int | None) -> None:
        self._seconds = seconds

    def prepare(self, ctx: Context, request: WriteRequest) -> Check:
        return _SetDeadline(self._seconds)


class _SetDeadline(Check):
    """Sets the deadline of new claims in one attempt.

    :ivar writes: of the claims.
    :ivar expires_at: None: the claims are permanent.
    """

    def __init__(self, seconds: int | None) -> None:
        self.writes: Sequence[AllocationWrite] = ()
        self.expires_at: datetime.datetime | None = None
        self._seconds = seconds

    def consumers_locked(self, session: db.Session, writes: Sequence[AllocationWrite]) -> None:
        self.writes = writes

    def applied(self, session: db.Session) -> None:
        # The rows of earlier claims of these consumers may still exist.
        held_claims.forget(session, [write.consumer_uuid for write in self.writes])
        if self._seconds is not None:
            self.expires_at = held_claims.insert(session, self.writes, self._seconds)


class _Undone(Exception):
    """A claim was possible, and is to be undone."""


class _UndoingGate(Gate):
    """Undoes a claim that nothing refused."""

    def prepare(self, ctx: Context, request: WriteRequest) -> Check:
        return _Undoing()


class _Undoing(Check):
    def applied(self, session: db.Session) -> None:
        raise _Undone


@db.retry_writes
def get(ctx: Context, consumer_uuid: str, owners: Owners | None = None) -> Claim:
    """Return a claim; an expired one can be read for a day.

    :param owners: as ``allocations.list_for_consumer``.
    :raises errors.ClaimNotFound: there is no such claim.
    """
    if not consumers.is_consumer_uuid(consumer_uuid):
        raise errors.ClaimNotFound(consumer_uuid)
    with db.read(ctx) as session:
        row = held_claims.find(session, consumer_uuid)
        if row is not None:
            holdings = held_claims.read_own_holdings(session, [row]).get(row.consumer_uuid)
            if holdings is None and row.ended_at is None:
                # In a transaction that writes, it may have expired between the two statements.
                row = held_claims.find(session, consumer_uuid)
            if row is not None and (holdings is not None or row.ended_at is not None):
                return _from_row(row, holdings)
        consumer = allocations.list_for_consumer(ctx, consumer_uuid, owners)
    if consumer is None:
        raise errors.ClaimNotFound(consumer_uuid)
    return Claim(
        consumer.consumer_uuid, consumer.project_id, consumer.user_id, consumer.consumer_type,
        "confirmed", None,
        {uuid: share.resources for uuid, share in consumer.providers.items()})


@db.retry_writes
def list_(
    ctx: Context, *, project_id: str | None = None, state: ClaimState | None = None,
    after: int = 0, most: int,
) -> tuple[list[Claim], int | None]:
    """Return a page of the claims that are held or expired within the last day.

    They are in the order of creation. Confirmed claims are consumers like any other, and
    are not listed.

    :param after: the marker of the previous page.
    :returns: the claims, and the marker of the next page; None: there are no more.
    """
    with db.read(ctx) as session:
        rows = held_claims.list_page(
            session, project_id=project_id, state=state, after=after, most=most + 1)
        more = len(rows) > most
        rows = rows[:most]
        holdings = held_claims.read_own_holdings(
            session, [row for row in rows if row.ended_at is None])
    return [_from_row(row, holdings.get(row.consumer_uuid)) for row in rows], (
        rows[-1].id if more else None)


def read(session: db.Session, consumer_uuids: Collection[str]) -> dict[str, Claim | None]:
    """Return those claims that are held, or expired within the last day: {consumer uuid: claim}.

    :returns: None is a claim that was taken over by a later write of its consumer.
    """
    rows = held_claims.list_of(session, consumer_uuids)
    holdings = held_claims.read_own_holdings(
        session, [row for row in rows if row.ended_at is None])
    return {
        row.consumer_uuid: _from_row(row, holdings.get(row.consumer_uuid))
        if row.ended_at is not None or row.consumer_uuid in holdings else None
        for row in rows}


@db.retry_writes
def confirm(ctx: Context, consumer_uuid: str, owners: Owners | None = None) -> Claim:
    """Confirm a claim, which then never expires; return it.

    The call is idempotent: a confirmed claim stays confirmed.

    :param owners: as ``get``.
    :raises errors.ClaimExpired: it is too late.
    :raises errors.ClaimNotFound: there is no such claim.
    """
    if not consumers.is_consumer_uuid(consumer_uuid):
        raise errors.ClaimNotFound(consumer_uuid)
    with db.write(ctx) as session:
        was_held = held_claims.confirm(session, consumer_uuid)
        claim = get(ctx, consumer_uuid, owners)
        if claim.state != "confirmed":
            raise errors.ClaimExpired(consumer_uuid)
    if was_held:
        metrics.count_claim("confirmed")
    return claim


@db.retry_writes
def release(ctx: Context, consumer_uuid: str) -> None:
    """Delete the allocations of a claim, confirmed or not.

    :raises errors.ClaimNotFound: there is no such claim; it may have expired.
    """
    if not consumers.is_consumer_uuid(consumer_uuid):
        raise errors.ClaimNotFound(consumer_uuid)
    with db.write(ctx) as session:
        consumers.lock(session, consumer_uuid)
        row = held_claims.find(session, consumer_uuid)
        if row is not None and row.ended_at is not None:
            raise errors.ClaimNotFound(consumer_uuid)
        held_claims.forget(session, [consumer_uuid])
        try:
            allocations.delete(ctx, consumer_uuid)
        except placement_errors.NoAllocations:
            raise errors.ClaimNotFound(consumer_uuid) from None
    metrics.count_claim("released")


@db.retry_writes
def confirm_all(ctx: Context, consumer_uuids: Sequence[str]) -> None:
    """Confirm several claims, all or none. The call is idempotent.

    :raises errors.ClaimExpired, errors.ClaimNotFound: naming the first that cannot be confirmed.
    """
    with db.write(ctx) as session:
        confirmed = held_claims.confirm_all(session, consumer_uuids)
        # A row outlives the allocations of its consumer.
        holding = held_claims.find_holding(session, confirmed)
        for uuid in consumer_uuids:
            if uuid not in holding and get(ctx, uuid).state != "confirmed":
                raise errors.ClaimExpired(uuid)
    for _ in confirmed:
        metrics.count_claim("confirmed")


@db.retry_writes
def release_all(ctx: Context, consumer_uuids: Sequence[str]) -> list[str]:
    """Delete the allocations of several claims, confirmed or not, in one transaction.

    :returns: the consumers that had any.
    """
    with db.write(ctx) as session:
        released = [uuid for uuid in sorted(consumer_uuids) if consumers.lock(session, uuid)]
        if released:
            held_claims.forget(session, released)
            allocations.replace(ctx, [
                AllocationWrite(uuid, {}, project_id="", user_id="") for uuid in released])
    for _ in released:
        metrics.count_claim("released")
    return released


def _from_row(row: sa.Row[Any], holdings: held_claims.OwnHoldings | None) -> Claim:
    """Return the claim of a row.

    :param holdings: the allocations that it still has; None: it has none.
    """
    is_over = row.ended_at is not None or row.late or holdings is None
    return Claim(
        row.consumer_uuid, row.project_id, row.user_id,
        holdings.consumer_type if holdings else None, "expired" if is_over else "held",
        row.expires_at, holdings.allocations if holdings else {})
