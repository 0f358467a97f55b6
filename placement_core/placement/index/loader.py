"""Reads providers with everything that belongs to them.

Each function runs inside one read transaction, so what it returns is consistent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import sqlalchemy as sa

from placement_core.db import Session, lists
from placement_core.placement import tables
from placement_core.placement.index.records import InventoryRow, NameIndex, ProviderRow

_SATURATED = 2**63 - 1
#: How many ids one statement selects by.
_BATCH = 500
_FETCHED_AT_ONCE = 5000

_providers, _inventories = tables.resource_providers, tables.inventories
_pooled = tables.pooled_trees
_traits, _memberships = tables.resource_provider_traits, tables.resource_provider_aggregates

_ALL_PROVIDERS = sa.select(
    _providers.c.id, _providers.c.uuid, _providers.c.name, _providers.c.generation,
    _providers.c.parent_provider_id, _providers.c.created_at, _providers.c.updated_at,
    _providers.c.revision, _pooled.c.root_provider_id.is_not(None).label("pooled"),
).outerjoin(_pooled, _pooled.c.root_provider_id == _providers.c.id)
_ALL_INVENTORIES = sa.select(
    _inventories.c.resource_provider_id, _inventories.c.resource_class_id,
    _inventories.c.capacity, _inventories.c.used, _inventories.c.min_unit,
    _inventories.c.max_unit, _inventories.c.step_size,
).order_by(_inventories.c.resource_class_id)
_ALL_TRAITS = sa.select(_traits.c.resource_provider_id, _traits.c.trait_id)
_ALL_MEMBERSHIPS = sa.select(
    _memberships.c.resource_provider_id, tables.placement_aggregates.c.uuid
).join(
    tables.placement_aggregates, tables.placement_aggregates.c.id == _memberships.c.aggregate_id
)

#: In the order of ``_assemble``, each with the column that holds the provider's id.
_EVERYTHING = (
    (_ALL_INVENTORIES, _inventories.c.resource_provider_id),
    (_ALL_TRAITS, _traits.c.resource_provider_id),
    (_ALL_MEMBERSHIPS, _memberships.c.resource_provider_id),
    (_ALL_PROVIDERS, _providers.c.id),
)

#: Capacities too large for their column; ratios go up to 3.4e38.
_SATURATED_INVENTORIES = sa.select(
    _inventories.c.resource_provider_id, _inventories.c.resource_class_id,
    _inventories.c.total, _inventories.c.reserved, _inventories.c.allocation_ratio,
).where(sa.or_(_inventories.c.capacity >= _SATURATED, _inventories.c.capacity <= -_SATURATED))

_CLASSES = sa.select(tables.resource_classes.c.id, tables.resource_classes.c.name)
_TRAIT_NAMES = sa.select(tables.traits.c.id, tables.traits.c.name)


_SOME = tuple(statement.where(lists.among(provider_id, "ids"))
              for statement, provider_id in _EVERYTHING)


def load_names(session: Session) -> NameIndex:
    """Read all resource classes and traits."""
    return NameIndex(
        {row.id: row.name for row in session.execute(_CLASSES)},
        {row.id: row.name for row in session.execute(_TRAIT_NAMES)},
    )


def load_all_providers(session: Session) -> list[ProviderRow]:
    """Read all providers."""
    return _assemble(session, (
        _read_rows(session.execute(statement)) for statement, _ in _EVERYTHING))


def load_providers(session: Session, ids: Collection[int]) -> dict[int, ProviderRow | None]:
    """Read the providers with these ids; None for those that are gone."""
    providers: dict[int, ProviderRow | None] = dict.fromkeys(ids)
    ordered = sorted(ids)
    for start in range(0, len(ordered), _BATCH):
        batch = {"ids": ordered[start:start + _BATCH]}
        rows = _assemble(session, (
            _read_rows(session.execute(statement, batch))
            for statement in _SOME))
        providers.update((row.id, row) for row in rows)
    return providers


def _read_rows(result: sa.CursorResult[Any]) -> Iterator[sa.Row[Any]]:
    """Yield rows, fetched many at a time: one by one each costs twice as much."""
    for rows in result.partitions(_FETCHED_AT_ONCE):
        yield from rows


def _assemble(
    session: Session, results: Iterator[Iterable[Any]]
) -> list[ProviderRow]:
    """Join inventories, traits, memberships and providers, in this order."""
    inventories: dict[int, list[InventoryRow]] = defaultdict(list)
    saturated = False
    for id_, *values in next(results):
        inventory = InventoryRow._make(values)
        inventories[id_].append(inventory)
        saturated |= not -_SATURATED < inventory.capacity < _SATURATED
    if saturated:
        _replace_saturated_capacities(session, inventories)
    traits: dict[int, list[int]] = defaultdict(list)
    for id_, trait_id in next(results):
        traits[id_].append(trait_id)
    aggregates: dict[int, list[str]] = defaultdict(list)
    for id_, uuid in next(results):
        aggregates[id_].append(uuid)
    # Equal sets become one object: most providers have the same traits as others.
    trait_sets: dict[frozenset[int], frozenset[int]] = {}
    aggregate_sets: dict[frozenset[str], frozenset[str]] = {}
    rows = []
    for row in next(results):
        trait_set = frozenset(traits.get(row.id, ()))
        aggregate_set = frozenset(aggregates.get(row.id, ()))
        rows.append(ProviderRow(
            id=row.id, uuid=row.uuid, name=row.name, generation=row.generation or 0,
            parent_id=row.parent_provider_id,
            inventories=tuple(inventories.get(row.id, ())),
            traits=trait_sets.setdefault(trait_set, trait_set),
            aggregates=aggregate_sets.setdefault(aggregate_set, aggregate_set),
            created_at=row.created_at, updated_at=row.updated_at,
            revision=row.revision, pooled=bool(row.pooled)))
    return rows


def _replace_saturated_capacities(
    session: Session, inventories: dict[int, list[InventoryRow]]
) -> None:
    exact = {
        (row.resource_provider_id, row.resource_class_id):
            int((row.total - row.reserved) * row.allocation_ratio)
        for row in session.execute(_SATURATED_INVENTORIES)
    }
    for id_, rows in inventories.items():
        inventories[id_] = [
            inventory._replace(
                capacity=exact.get((id_, inventory.class_id), inventory.capacity))
            for inventory in rows]
