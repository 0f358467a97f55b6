"""Allocations: what consumers hold on providers.

Every write replaces the whole of what its consumers hold, in one transaction:
consumers, then allocations, then providers, then inventories, then counters.
Source: spec placement_api §3.10, design §4.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db.transactions import TransactionConflict
from placement_core.placement import (
    consumers,
    errors,
    facts,
    fencing,
    growth,
    inventories,
    ledger,
    locks,
    records,
    rows,
    tables,
)

_allocations, _providers, _classes = (
    tables.allocations, tables.resource_providers, tables.resource_classes)
_consumers, _projects, _users, _types = (
    tables.consumers, tables.projects, tables.users, tables.consumer_types)

_OF_CONSUMER = (
    sa.select(
        _providers.c.uuid.label("provider_uuid"), _providers.c.generation,
        _classes.c.name.label("resource_class"), _allocations.c.used, _allocations.c.created_at,
        _projects.c.external_id.label("project_id"), _users.c.external_id.label("user_id"),
        _types.c.name.label("consumer_type"), _consumers.c.generation.label("seen"),
    )
    .join(_providers, _providers.c.id == _allocations.c.resource_provider_id)
    .join(_classes, _classes.c.id == _allocations.c.resource_class_id)
    .outerjoin(_consumers, _consumers.c.uuid == _allocations.c.consumer_id)
    .outerjoin(_projects, _projects.c.id == _consumers.c.project_id)
    .outerjoin(_users, _users.c.id == _consumers.c.user_id)
    .outerjoin(_types, _types.c.id == _consumers.c.consumer_type_id)
    .where(_allocations.c.consumer_id == sa.bindparam("uuid"))
    .order_by(_allocations.c.id)
)
_ON_PROVIDER = (
    sa.select(
        _allocations.c.consumer_id, _classes.c.name.label("resource_class"),
        _allocations.c.used, _allocations.c.created_at, _consumers.c.generation.label("seen"),
    )
    .join(_classes, _classes.c.id == _allocations.c.resource_class_id)
    .outerjoin(_consumers, _consumers.c.uuid == _allocations.c.consumer_id)
    .where(_allocations.c.resource_provider_id == sa.bindparam("id"))
    .order_by(_allocations.c.id)
)
_inventories = tables.inventories

#: {provider uuid: {resource class: values}}
Promised: TypeAlias = Mapping[str, Mapping[str, records.InventoryValues]]

_BOUNDS = sa.select(
    _inventories.c.resource_provider_id, _inventories.c.resource_class_id, _inventories.c.used,
    _inventories.c.capacity, _inventories.c.min_unit, _inventories.c.max_unit,
    _inventories.c.step_size,
).where(_inventories.c.resource_provider_id.in_(sa.bindparam("providers", expanding=True)))


class Guard(Protocol):
    """Somebody who may refuse a write for reasons that this room does not know.

    One guard belongs to one call of ``replace``; when the transaction is
    repeated, both halves are called again.
    """

    def prepare(self, ctx: Context, writes: Sequence[records.AllocationWrite]) -> None:
        """Fetch what the decision needs, outside of the transaction."""

    def decide(self, ctx: Context, grown: growth.Growth) -> None:
        """Decide, inside the transaction, with consumers and providers locked.

        May take locks of its own (limit nodes). What is committed by then, and what
        the writes change, is all there is; the usage counters are not written yet.
        Not called where nothing grows.

        :raises errors.Error: the write is refused, and the transaction undone.
        """


# Writing --------------------------------------------------------------------


@db.retry_writes
def replace(
    ctx: Context, writes: Sequence[records.AllocationWrite], *, guard: Guard | None = None,
    fence: fencing.Fence | None = None, beside: Callable[[db.Session], None] | None = None,
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
        ledger.write_allocations(session, planned)
        if fence is not None:
            fencing.hold_roots(known, planned)
        locks.hold(session, planned.steps)
        if fence is not None:
            fencing.judge(session, fence, writes, known, planned)
        if guard is not None:
            grown = growth.measure(session, writes, known, planned)
            if grown.projects or grown.users:
                guard.decide(ctx, grown)
        ledger.move_used(session, planned, None if fence is None else known.pooled)
        if beside is not None:
            beside(session)
        ledger.count(ctx, session, planned)


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
        ledger.write_allocations(session, planned)
        locks.hold(session, planned.steps)
        ledger.move_used(session, planned)
        ledger.count(ctx, session, planned)


def _plan(
    ctx: Context, session: db.Session, writes: Sequence[records.AllocationWrite], *,
    raise_generations: bool = True,
) -> tuple[facts.Facts, ledger.Plan]:
    """Take the consumers' rows and compute what ``writes`` change."""
    with consumers.remembering(ctx.database):
        existed = consumers.hold(session, writes)
        known = facts.read(session, writes, existed=bool(existed))
        _check_names(writes, known)
        facts.hold_pairs(session, known, writes)
        return known, ledger.plan(writes, known, existed, raise_generations=raise_generations)


def _check_names(writes: Sequence[records.AllocationWrite], known: facts.Facts) -> None:
    """Refuse names of providers and classes that do not exist."""
    check_providers(writes, known)
    for write in writes:
        for name in known.unknown_classes(write):
            prefix = (f"Unable to allocate inventory for consumer {write.consumer_uuid}: "
                      if len(writes) == 1 else "Unable to allocate inventory ")
            raise errors.UnknownResourceClass(name, prefix=prefix)


def check_providers(writes: Sequence[records.AllocationWrite], known: facts.Facts) -> None:
    """Refuse allocations on providers that do not exist.

    :raises errors.AllocationForUnknownProvider:
    """
    for write in writes:
        for uuid in write.allocations:
            if uuid not in known.providers:
                raise errors.AllocationForUnknownProvider(uuid)


# Refusing -------------------------------------------------------------------


@contextlib.contextmanager
def explained(
    ctx: Context, writes: Sequence[records.AllocationWrite],
    promised: Promised = MappingProxyType({}),
) -> Iterator[None]:
    """Turn ``ledger.Short`` into the refusal that says why.

    The reason is looked for after the transaction was undone: writes that
    succeed do not pay for it. If by then there is no reason left, the write is
    tried again.

    :param promised: inventories that the transaction was about to make.
    """
    try:
        # Inside a larger transaction only this write is undone, so that the
        # inventories can be read as they were.
        with ctx.session.connection.begin_nested() if ctx.session else contextlib.nullcontext():
            yield
    except ledger.Short as short:
        planned = short.plan
    else:
        return
    with db.read(ctx) as session:
        known = facts.read(session, writes, existed=False)
        bounds = _bounds(session, known, promised)
    raise _reason(writes, known, bounds, planned) or TransactionConflict


class _Bounds(NamedTuple):
    """What an inventory allows, and how much of it is used."""

    used: int
    capacity: int
    min_unit: int
    max_unit: int
    step_size: int


def _bounds(
    session: db.Session, known: facts.Facts, promised: Promised
) -> dict[facts.Cell, _Bounds]:
    bounds = {
        (row.resource_provider_id, row.resource_class_id): _Bounds(*tuple(row)[2:])
        for row in session.execute(_BOUNDS, {"providers": sorted(known.providers.values())})
    }
    for uuid, made in promised.items():
        for name, values in made.items():
            cell = known.providers.get(uuid, -1), known.classes.get(name, -1)
            bounds[cell] = _Bounds(
                bounds[cell].used if cell in bounds else 0, inventories.capacity(values),
                values.min_unit, values.max_unit, values.step_size)
    return bounds


def _reason(
    writes: Sequence[records.AllocationWrite], known: facts.Facts,
    bounds: Mapping[facts.Cell, _Bounds], planned: ledger.Plan,
) -> errors.CannotAllocate | None:
    """Find the first amount, in the order of the request, that cannot be had."""
    judged = [
        (uuid, name, amount, (known.providers.get(uuid, -1), known.classes.get(name, -1)))
        for write in writes
        for uuid, resources in write.allocations.items()
        for name, amount in resources.items()
    ]
    for uuid, name, amount, cell in judged:
        if cell not in bounds:
            return errors.InventoryMissing(uuid, name, amount)
    for uuid, name, amount, cell in judged:
        _, _, least, most, step = bounds[cell]
        if not least <= amount <= most or amount % step:
            return errors.ConstraintsViolated(
                uuid, name, amount, min_unit=least, max_unit=most, step_size=step)
    for uuid, name, _, cell in judged:
        delta, (used, capacity, *_) = planned.deltas.get(cell, 0), bounds[cell]
        if delta > 0 and used + delta > capacity:
            return errors.CapacityExceeded(uuid, name, delta, used=used, capacity=capacity)
    return None


# Reading --------------------------------------------------------------------


@db.retry_writes
def list_for_consumer(ctx: Context, consumer_uuid: str) -> records.ConsumerAllocations | None:
    """Return all that a consumer holds; None: it holds nothing.

    A consumer that holds something without being recorded is recorded in passing.
    """
    if not consumers.is_consumer_uuid(consumer_uuid):
        return None
    with db.read_once(ctx) as session:
        found = session.execute(_OF_CONSUMER, {"uuid": consumer_uuid}).all()
    if not found:
        return None
    if found[0].seen is None and ctx.session is None:
        consumers.record_missing(ctx, [consumer_uuid])
        return list_for_consumer(ctx, consumer_uuid)
    project, user = ctx.database.incomplete_owner
    providers: dict[str, records.ProviderAllocation] = {}
    for uuid, of_provider in _grouped(found, "provider_uuid").items():
        providers[uuid] = records.ProviderAllocation(
            _resources(of_provider), of_provider[0].generation, _newest(of_provider))
    first = found[0]
    return records.ConsumerAllocations(
        consumer_uuid, first.project_id or project, first.user_id or user,
        first.consumer_type, first.seen or 0, providers)


@db.retry_writes
def list_for_provider(ctx: Context, provider_uuid: str) -> records.ProviderAllocations:
    """Return all allocations on a provider, and the generation they were read at.

    :raises errors.ProviderNotFound:
    """
    with db.read(ctx) as session:
        provider = rows.by_uuid(session, provider_uuid)
        found = session.execute(_ON_PROVIDER, {"id": provider.id}).all()
    missing = sorted({row.consumer_id for row in found if row.seen is None})
    if missing and ctx.session is None:
        consumers.record_missing(ctx, missing)
    return records.ProviderAllocations(provider.generation, {
        uuid: records.ConsumerShare(shares[0].seen or 0, _resources(shares), _newest(shares))
        for uuid, shares in _grouped(found, "consumer_id").items()
    })


def _grouped(found: Sequence[sa.Row], name: str) -> dict[str, list[sa.Row]]:
    groups: dict[str, list[sa.Row]] = {}
    for row in found:
        groups.setdefault(getattr(row, name), []).append(row)
    return groups


def _resources(found: Sequence[sa.Row]) -> dict[str, int]:
    resources: dict[str, int] = {}
    for row in found:
        resources[row.resource_class] = resources.get(row.resource_class, 0) + row.used
    return resources


def _newest(found: Sequence[sa.Row]) -> datetime.datetime | None:
    return max((row.created_at for row in found if row.created_at is not None), default=None)
