"""Claims: quota and capacity taken in one transaction, for good or held for a time.

A claim goes by the uuid of its consumer. One that is held ends by itself unless it is
confirmed in time; confirmed, it is a consumer like any other, and nothing of the hold
is left. Whoever writes a held consumer's allocations by another way (PUT or POST
/allocations) has taken it over: it counts as confirmed from then on, and never expires.
A reshape only moves what is held: the claim stays held, and expires when it was to. A
consumer that was deleted (DELETE /allocations) is no claim any more.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db, metrics
from placement_core.context import Context
from placement_core.placement import allocations, errors as placement_errors
from placement_core.placement.allocations import Check, Gate, WriteRequest, consumers
from placement_core.placement.records import AllocationWrite, NewInventories
from placement_core.quota import errors, held_claims, recheck_order
from placement_core.quota.records import Claim, ClaimState


class Claims:
    """Every write of allocations from outside, judged by whoever has to."""

    def __init__(self, gates: Sequence[Gate], enforcing: Sequence[Gate]) -> None:
        """Make it for all writes.

        :param gates: who judges writes of allocations.
        :param enforcing: who judges claims: limits hold them whatever the guard's mode is.
        """
        self._gates = gates
        self._enforcing = enforcing

    def replace(self, ctx: Context, writes: Sequence[AllocationWrite]) -> None:
        """Make consumers hold exactly what ``writes`` say, all of them or none.

        :raises errors.QuotaExceeded, errors.Fenced: and what ``allocations.replace`` raises.
        """
        allocations.replace(ctx, writes, self._gates)

    def reshape(
        self, ctx: Context, inventories: NewInventories, writes: Sequence[AllocationWrite]
    ) -> None:
        """Give providers inventories and consumers allocations, as one.

        Claims that are held stay held, and expire when they were to.

        :raises errors.Fenced: and what ``allocations.reshape`` raises.
        """
        allocations.reshape(ctx, inventories, writes, self._gates)

    def delete(self, ctx: Context, consumer_uuid: str) -> None:
        """Take everything away from a consumer, whatever its generation.

        :raises errors.NoAllocations: it holds nothing.
        """
        allocations.delete(ctx, consumer_uuid, self._gates)

    def claim(
        self, ctx: Context, write: AllocationWrite, *, hold_seconds: int | None = None
    ) -> Claim:
        """Take what a new consumer shall hold, if capacity and limits allow it.

        :param write: of a consumer that holds nothing yet, whatever generation it names.
        :param hold_seconds: until then, by the database's clock, it has to be confirmed;
            None: it is taken for good.
        :raises errors.ClaimExists: the consumer holds something already.
        :raises errors.QuotaExceeded, errors.CannotAllocate,
            errors.AllocationForUnknownProvider, errors.UnknownResourceClass,
            errors.Fenced: nothing was changed.
        """
        deadline = _Deadline(hold_seconds)
        try:
            allocations.replace(ctx, [write], [*self._enforcing, deadline])
        except placement_errors.ConsumerGenerationConflict:
            raise errors.ClaimExists(write.consumer_uuid) from None
        expires_at = deadline.last.expires_at
        recheck_order.prune_sometimes(ctx)
        metrics.claim_became("taken" if expires_at is None else "held")
        return Claim(
            write.consumer_uuid, write.project_id, write.user_id, write.consumer_type,
            "confirmed" if expires_at is None else "held", expires_at, write.allocations)


class _Deadline(Gate):
    """Sets the deadline of one new claim.

    :ivar last: its part in the last attempt, which is the one that was committed.
    """

    last: _SetDeadline

    def __init__(self, seconds: int | None) -> None:
        self._seconds = seconds

    def prepare(self, ctx: Context, request: WriteRequest) -> Check:
        self.last = _SetDeadline(request.writes[0], self._seconds)
        return self.last


class _SetDeadline(Check):
    """Sets the deadline of a new claim in one attempt.

    :ivar expires_at: None: the claim is taken for good.
    """

    def __init__(self, write: AllocationWrite, seconds: int | None) -> None:
        self.expires_at: datetime.datetime | None = None
        self._write = write
        self._seconds = seconds

    def applied(self, session: db.Session) -> None:
        write = self._write
        # What is left of an earlier claim of this consumer says nothing about this one.
        held_claims.forget(session, write.consumer_uuid)
        if self._seconds is not None:
            self.expires_at = held_claims.make(
                session, write.consumer_uuid, write.project_id, write.user_id, self._seconds)


@db.retry_writes
def get(ctx: Context, consumer_uuid: str) -> Claim:
    """Return a claim.

    What expired is shown as such for a day.

    :raises errors.ClaimNotFound: nothing is held in that name.
    """
    if not consumers.is_consumer_uuid(consumer_uuid):
        raise errors.ClaimNotFound(consumer_uuid)
    with db.read(ctx) as session:
        row = held_claims.find(session, consumer_uuid)
        if row is not None:
            own = held_claims.own_holdings(session, [row]).get(row.consumer_uuid)
            if own is not None or row.ended_at is not None:
                return _of_row(row, own)
        held = allocations.list_for_consumer(ctx, consumer_uuid)
    if held is None:
        raise errors.ClaimNotFound(consumer_uuid)
    return Claim(
        held.consumer_uuid, held.project_id, held.user_id, held.consumer_type, "confirmed", None,
        {uuid: share.resources for uuid, share in held.providers.items()})


@db.retry_writes
def list_(
    ctx: Context, *, project_id: str | None = None, state: ClaimState | None = None,
    after: int = 0, most: int,
) -> tuple[list[Claim], int | None]:
    """Return a page of the claims that are held, or expired not long ago.

    In the order in which they were made. Confirmed ones are consumers like others,
    and not listed.

    :param after: where the page before ended.
    :returns: the claims, and where this page ends; None: there are no more.
    """
    with db.read(ctx) as session:
        rows = held_claims.page(
            session, project_id=project_id, state=state, after=after, most=most + 1)
        more = len(rows) > most
        rows = rows[:most]
        own = held_claims.own_holdings(session, [row for row in rows if row.ended_at is None])
    return [_of_row(row, own.get(row.consumer_uuid)) for row in rows], (
        rows[-1].id if more else None)


@db.retry_writes
def confirm(ctx: Context, consumer_uuid: str) -> Claim:
    """Keep for good what a claim holds; return it.

    May be repeated: a claim that is confirmed already stays so.

    :raises errors.ClaimExpired: it is too late.
    :raises errors.ClaimNotFound: nothing is held in that name.
    """
    if not consumers.is_consumer_uuid(consumer_uuid):
        raise errors.ClaimNotFound(consumer_uuid)
    with db.write(ctx) as session:
        was_held = held_claims.confirm(session, consumer_uuid)
        found = get(ctx, consumer_uuid)
        if found.state != "confirmed":
            raise errors.ClaimExpired(consumer_uuid)
    if was_held:
        metrics.claim_became("confirmed")
    return found


@db.retry_writes
def release(ctx: Context, consumer_uuid: str) -> None:
    """Give back what a claim holds, confirmed or not.

    :raises errors.ClaimNotFound: nothing is held in that name; it may have expired.
    """
    if not consumers.is_consumer_uuid(consumer_uuid):
        raise errors.ClaimNotFound(consumer_uuid)
    with db.write(ctx) as session:
        consumers.lock(session, consumer_uuid)
        row = held_claims.find(session, consumer_uuid)
        if row is not None and row.ended_at is not None:
            raise errors.ClaimNotFound(consumer_uuid)
        held_claims.forget(session, consumer_uuid)
        try:
            allocations.delete(ctx, consumer_uuid)
        except placement_errors.NoAllocations:
            raise errors.ClaimNotFound(consumer_uuid) from None
    metrics.claim_became("released")


def _of_row(row: sa.Row[Any], own: held_claims.OwnHoldings | None) -> Claim:
    """Return the claim of a row, which speaks for it or is remembered."""
    over = row.ended_at is not None or row.late or own is None
    return Claim(
        row.consumer_uuid, row.project_id, row.user_id, own.consumer_type if own else None,
        "expired" if over else "held", row.expires_at, own.allocations if own else {})
