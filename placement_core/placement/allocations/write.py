"""Allocations: what consumers hold on providers.

Every write replaces the whole of what its consumers hold, in one transaction:
consumers, then allocations, then providers, then inventories, then counters.
Source: spec placement_api §3.10, design §4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from placement_core import db
from placement_core.context import Context
from placement_core.placement import errors, locks, records
from placement_core.placement.allocations import (
    applying,
    consumers,
    loaded,
    plan,
    reserved_trees,
    usage_delta,
)
from placement_core.placement.allocations.refusals import explained


class Guard(Protocol):
    """Somebody who may refuse a write for reasons that this room does not know.

    One guard belongs to one call of ``replace``; when the transaction is
    repeated, both halves are called again.
    """

    def prepare(self, ctx: Context, writes: Sequence[records.AllocationWrite]) -> None:
        """Fetch what the decision needs, outside of the transaction."""

    def decide(self, ctx: Context, grown: usage_delta.Growth) -> None:
        """Decide, inside the transaction, with consumers and providers locked.

        May take locks of its own (limit nodes). What is committed by then, and what
        the writes change, is all there is; the usage counters are not written yet.
        Not called where nothing grows.

        :raises errors.Error: the write is refused, and the transaction undone.
        """


@db.retry_writes
def replace(
    ctx: Context, writes: Sequence[records.AllocationWrite], *, guard: Guard | None = None,
    fence: reserved_trees.Fence | None = None, beside: Callable[[db.Session], None] | None = None,
) -> None:
    """Make consumers hold exactly what ``writes`` say, all of them or none.

    Capacity is judged on the sum, without what the same consumers held before;
    so resources can move between consumers in one call. A consumer that holds
    nothing afterwards ceases to exist.

    :param writes: at most one for each consumer.
    :param fence: lets in who claims of pooled trees; None: everybody is let in.
    :param beside: writes what belongs to it in the same transaction; the consumers
        and providers are locked by then.
    :raises errors.ConsumerGenerationConflict, errors.AllocationForUnknownProvider,
        errors.UnknownResourceClass, errors.InventoryMissing,
        errors.ConstraintsViolated, errors.CapacityExceeded, errors.Fenced: nothing was
        changed.
    """
    consumers.ensure_owners(ctx, writes)
    if guard is not None:
        guard.prepare(ctx, writes)
    with explained(ctx, writes), db.write(ctx) as session:
        known, planned = _plan(ctx, session, writes)
        applying.write_allocations(session, planned)
        if fence is not None:
            reserved_trees.hold_roots(known, planned)
        locks.hold(session, planned.steps)
        if fence is not None:
            reserved_trees.judge(session, fence, writes, known, planned)
        if guard is not None:
            grown = usage_delta.measure(session, writes, known, planned)
            if grown.projects or grown.users:
                guard.decide(ctx, grown)
        applying.move_used(session, planned, None if fence is None else known.pooled)
        if beside is not None:
            beside(session)
        applying.count(ctx, session, planned)


@db.retry_writes
def delete(ctx: Context, consumer_uuid: str) -> None:
    """Take everything away from a consumer, whatever its generation.

    The generations of its providers stay as they are.

    :raises errors.NoAllocations: it holds nothing.
    """
    if not consumers.is_consumer_uuid(consumer_uuid):
        raise errors.NoAllocations(consumer_uuid)
    write = records.AllocationWrite(consumer_uuid, {}, project_id="", user_id="")
    with explained(ctx, [write]), db.write(ctx) as session:
        _, planned = _plan(ctx, session, [write], raise_generations=False)
        if not planned.gone:
            raise errors.NoAllocations(consumer_uuid)
        applying.write_allocations(session, planned)
        locks.hold(session, planned.steps)
        applying.move_used(session, planned)
        applying.count(ctx, session, planned)


def _plan(
    ctx: Context, session: db.Session, writes: Sequence[records.AllocationWrite], *,
    raise_generations: bool = True,
) -> tuple[loaded.Facts, plan.Plan]:
    """Take the consumers' rows and compute what ``writes`` change."""
    with consumers.remembering(ctx.database):
        existed = consumers.hold(session, writes)
        known = loaded.read(session, writes, existed=bool(existed))
        _check_names(writes, known)
        loaded.hold_pairs(session, known, writes)
        return known, plan.plan(writes, known, existed, raise_generations=raise_generations)


def _check_names(writes: Sequence[records.AllocationWrite], known: loaded.Facts) -> None:
    """Refuse names of providers and classes that do not exist."""
    check_providers(writes, known)
    for write in writes:
        for name in known.unknown_classes(write):
            prefix = (f"Unable to allocate inventory for consumer {write.consumer_uuid}: "
                      if len(writes) == 1 else "Unable to allocate inventory ")
            raise errors.UnknownResourceClass(name, prefix=prefix)


def check_providers(writes: Sequence[records.AllocationWrite], known: loaded.Facts) -> None:
    """Refuse allocations on providers that do not exist.

    :raises errors.AllocationForUnknownProvider:
    """
    for write in writes:
        for uuid in write.allocations:
            if uuid not in known.providers:
                raise errors.AllocationForUnknownProvider(uuid)
