"""Find the reason why a write is refused: unknown names, or inventories without room."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import PreparedRead, TransactionConflict, lists
from placement_core.placement import errors, inventories, tables
from placement_core.placement.allocations import loaded
from placement_core.placement.allocations.loaded import Cell, LoadedRows
from placement_core.placement.allocations.plan import CapacityShort
from placement_core.placement.records import AllocationWrite, NewInventories

_inventories = tables.inventories

_BOUNDS = PreparedRead(sa.select(
    _inventories.c.resource_provider_id, _inventories.c.resource_class_id, _inventories.c.used,
    _inventories.c.capacity, _inventories.c.min_unit, _inventories.c.max_unit,
    _inventories.c.step_size,
).where(lists.among(_inventories.c.resource_provider_id, "providers")))


def check_providers(writes: Sequence[AllocationWrite], rows: LoadedRows) -> None:
    """Refuse allocations on providers that do not exist.

    :raises errors.AllocationForUnknownProvider: one does not exist.
    """
    for write in writes:
        for uuid in write.allocations:
            if uuid not in rows.providers:
                raise errors.AllocationForUnknownProvider(uuid)


def check_classes(writes: Sequence[AllocationWrite], rows: LoadedRows) -> None:
    """Refuse allocations of resource classes that do not exist.

    :raises errors.UnknownResourceClass: one does not exist.
    """
    for write in writes:
        for name in rows.unknown_classes(write):
            prefix = (f"Unable to allocate inventory for consumer {write.consumer_uuid}: "
                      if len(writes) == 1 else "Unable to allocate inventory ")
            raise errors.UnknownResourceClass(name, prefix=prefix)


@contextlib.contextmanager
def explaining_refusals(
    ctx: Context, writes: Sequence[AllocationWrite], new: NewInventories | None,
) -> Iterator[None]:
    """Replace ``CapacityShort`` by the error with the reason.

    The reason is determined after the rollback, so writes that succeed do not pay for it. If
    there is no reason any more by then, the write is tried again.

    :param new: the inventories that the transaction was about to create.
    """
    try:
        # Inside a larger transaction only this write is undone, so that the
        # inventories can be read as they were.
        with ctx.session.connection.begin_nested() if ctx.session else contextlib.nullcontext():
            yield
    except CapacityShort as short:
        plan = short.plan
    else:
        return
    with db.read(ctx) as session:
        rows = loaded.read(session, writes, existed=False)
        bounds = read_bounds(session, rows.providers.values())
    _add_new_bounds(bounds, rows, new or {})
    raise find_refusal(writes, rows, bounds, plan.deltas) or TransactionConflict


class InventoryBounds(NamedTuple):
    """The bounds and the usage of an inventory."""

    used: int
    capacity: int
    min_unit: int
    max_unit: int
    step_size: int


def read_bounds(
    session: db.Session, providers: Collection[int]
) -> dict[Cell, InventoryBounds]:
    """Return the bounds and the usage of the inventories of providers, by their ids."""
    return read_bounds_later(session, providers)()


def read_bounds_later(
    session: db.Session, providers: Collection[int]
) -> Callable[[], dict[Cell, InventoryBounds]]:
    """Do the same together with the session's next statement; return what returns them."""
    get = _BOUNDS.fetch_later(session, {"providers": sorted(providers)})
    return lambda: {
        (row.resource_provider_id, row.resource_class_id): InventoryBounds(*row[2:])
        for row in get()
    }


def _add_new_bounds(
    bounds: dict[Cell, InventoryBounds], rows: LoadedRows, new: NewInventories
) -> None:
    for uuid, (_, made) in new.items():
        for name, values in made.items():
            cell = rows.cell(uuid, name)
            bounds[cell] = InventoryBounds(
                bounds[cell].used if cell in bounds else 0, inventories.capacity(values),
                values.min_unit, values.max_unit, values.step_size)


def find_refusal(
    writes: Sequence[AllocationWrite], rows: LoadedRows, bounds: Mapping[Cell, InventoryBounds],
    deltas: Mapping[Cell, int],
) -> errors.CannotAllocate | None:
    """Return the error for the first amount, in the order of the request, that does not fit.

    :param deltas: {cell: change of ``used``} by all writes that count as one with these.
    """
    amounts = [
        (uuid, name, amount, rows.cell(uuid, name))
        for write in writes
        for uuid, resources in write.allocations.items()
        for name, amount in resources.items()
    ]
    for uuid, name, amount, cell in amounts:
        if cell not in bounds:
            return errors.InventoryMissing(uuid, name, amount)
    for uuid, name, amount, cell in amounts:
        _, _, least, most, step = bounds[cell]
        if not least <= amount <= most or amount % step:
            return errors.ConstraintsViolated(
                uuid, name, amount, min_unit=least, max_unit=most, step_size=step)
    for uuid, name, _, cell in amounts:
        delta, (used, capacity, *_) = deltas.get(cell, 0), bounds[cell]
        if delta > 0 and used + delta > capacity:
            return errors.CapacityExceeded(uuid, name, delta, used=used, capacity=capacity)
    return None
