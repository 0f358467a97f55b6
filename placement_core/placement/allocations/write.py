"""PUT, POST and DELETE of allocations, as lists of steps.

A write replaces all allocations of its consumers, in one transaction.
Source: spec placement_api §3.10, design §4.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session
from placement_core.placement import errors
from placement_core.placement.allocations import consumers, refusals
from placement_core.placement.allocations.gates import Check, Gate, WriteRequest
from placement_core.placement.allocations.owners import Owners, normalize_owners
from placement_core.placement.allocations.unit_of_work import carry_out, unit_of_work
from placement_core.placement.allocations.write_queue import WriteQueue
from placement_core.placement.records import AllocationWrite


def replace(
    ctx: Context, writes: Sequence[AllocationWrite], gates: Sequence[Gate] = (),
    owners: Owners | None = None, queue: WriteQueue | None = None,
    choose: Callable[[Session], Sequence[AllocationWrite]] | None = None,
) -> Sequence[Check]:
    """Replace the allocations of all consumers in ``writes``, or of none.

    Capacity is checked for the sum of the new allocations, without the old ones of the same
    consumers, so resources can move between consumers in one call. A consumer without
    allocations afterwards is deleted.

    :param writes: at most one for each consumer.
    :param owners: None: ids of owners are not cached.
    :param queue: that of all writes with these gates; None: the write shares no transaction.
    :param choose: as ``WriteRequest.choose``.
    :returns: the checks of the attempt that was committed, in the order of the gates.
    :raises errors.ConsumerGenerationConflict, errors.AllocationForUnknownProvider,
        errors.UnknownResourceClass, errors.InventoryMissing,
        errors.ConstraintsViolated, errors.CapacityExceeded, and the errors of gates:
        nothing was changed.
    """
    attempt = _replace if queue is None else functools.partial(queue.run, _replace)
    request = WriteRequest(normalize_owners(ctx, writes), choose=choose)
    return carry_out(attempt, ctx, request, gates, owners or Owners())


@db.retry_writes
def _replace(
    ctx: Context, request: WriteRequest, gates: Sequence[Gate], owners: Owners
) -> Sequence[Check]:
    with unit_of_work(ctx, request, gates, owners) as unit:
        rows = unit.load()
        refusals.check_providers(unit.writes, rows)
        refusals.check_classes(unit.writes, rows)
        unit.plan()
        unit.lock_providers()
        unit.apply()
        unit.count()
    return unit.checks


def delete(
    ctx: Context, consumer_uuid: str, gates: Sequence[Gate] = (),
    owners: Owners | None = None, queue: WriteQueue | None = None,
) -> None:
    """Delete all allocations of a consumer, whatever its generation.

    The generations of its providers do not change.

    :param owners, queue: as ``replace``.
    :raises errors.NoAllocations: the consumer has none.
    """
    if not consumers.is_consumer_uuid(consumer_uuid):
        raise errors.NoAllocations(consumer_uuid)
    request = WriteRequest(
        [AllocationWrite(consumer_uuid, {}, project_id="", user_id="")], deletes=True)
    attempt = _delete if queue is None else functools.partial(queue.run, _delete)
    attempt(ctx, request, gates, owners or Owners())


@db.retry_writes
def _delete(
    ctx: Context, request: WriteRequest, gates: Sequence[Gate], owners: Owners
) -> Sequence[Check]:
    with unit_of_work(ctx, request, gates, owners) as unit:
        unit.load()
        if not unit.plan(raise_generations=False).ended:
            raise errors.NoAllocations(request.writes[0].consumer_uuid)
        unit.lock_providers()
        unit.apply()
        unit.count()
    return unit.checks
