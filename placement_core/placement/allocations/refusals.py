"""Why inventories do not give what a write asks for: found after it was undone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db.transactions import TransactionLost
from placement_core.placement import errors, inventories, records, tables
from placement_core.placement.allocations import loaded, plan

_inventories = tables.inventories

#: {provider uuid: {resource class: values}}
Promised: TypeAlias = Mapping[str, Mapping[str, records.InventoryValues]]

_BOUNDS = sa.select(
    _inventories.c.resource_provider_id, _inventories.c.resource_class_id, _inventories.c.used,
    _inventories.c.capacity, _inventories.c.min_unit, _inventories.c.max_unit,
    _inventories.c.step_size,
).where(_inventories.c.resource_provider_id.in_(sa.bindparam("providers", expanding=True)))


@contextlib.contextmanager
def explained(
    ctx: Context, writes: Sequence[records.AllocationWrite],
    promised: Promised = MappingProxyType({}),
) -> Iterator[None]:
    """Turn ``plan.Short`` into the refusal that says why.

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
    except plan.Short as short:
        planned = short.plan
    else:
        return
    with db.read(ctx) as session:
        known = loaded.read(session, writes, existed=False)
        bounds = _bounds(session, known, promised)
    raise _reason(writes, known, bounds, planned) or TransactionLost


class _Bounds(NamedTuple):
    """What an inventory allows, and how much of it is used."""

    used: int
    capacity: int
    min_unit: int
    max_unit: int
    step_size: int


def _bounds(
    session: db.Session, known: loaded.Facts, promised: Promised
) -> dict[loaded.Cell, _Bounds]:
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
    writes: Sequence[records.AllocationWrite], known: loaded.Facts,
    bounds: Mapping[loaded.Cell, _Bounds], planned: plan.Plan,
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
