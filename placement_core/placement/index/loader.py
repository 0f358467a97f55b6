"""Reads providers with everything that belongs to them.

Each function runs inside one read transaction, so what it returns is consistent.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

import sqlalchemy as sa

from placement_core.db import PreparedRead, Session, lists
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
    _inventories.c.max_unit, _inventories.c.step_size, _inventories.c.total,
    _inventories.c.reserved,
).order_by(_inventories.c.resource_class_id)
_ALL_TRAITS = sa.select(_traits.c.resource_provider_id, _traits.c.trait_id)
_ALL_MEMBERSHIPS = sa.select(
    _memberships.c.resource_provider_id, tables.placement_aggregates.c.uuid
).join(
    tables.placement_aggregates, tables.placement_aggregates.c.id == _memberships.c.aggregate_id
)

#: In the order of ``_assemble``.
_EVERYTHING = (_ALL_INVENTORIES, _ALL_TRAITS, _ALL_MEMBERSHIPS, _ALL_PROVIDERS)

#: Capacities too large for their column; ratios go up to 3.4e38.
_SATURATED_INVENTORIES = sa.select(
    _inventories.c.resource_provider_id, _inventories.c.resource_class_id,
    _inventories.c.total, _inventories.c.reserved, _inventories.c.allocation_ratio,
).where(sa.or_(_inventories.c.capacity >= _SATURATED, _inventories.c.capacity <= -_SATURATED))

_CLASSES = sa.select(tables.resource_classes.c.id, tables.resource_classes.c.name)
_TRAIT_NAMES = sa.select(tables.traits.c.id, tables.traits.c.name)

_INVENTORY, _TRAIT, _MEMBERSHIP, _PROVIDER = range(4)
#: The columns of a branch of ``_SOME``, and the type of each.
_COLUMNS: dict[str, sa.types.TypeEngine[Any]] = {
    "what": sa.Integer(), "id": sa.Integer(),
    **{f"number{place}": sa.BigInteger() for place in range(8)},
    "text": sa.String(255), "name": sa.String(255),
    "created_at": sa.DateTime(), "updated_at": sa.DateTime()}


def _build_branch(
    what: int, joined: sa.FromClause, *numbers: sa.ColumnElement[Any],
    id_: sa.ColumnElement[int], **columns: sa.ColumnElement[Any],
) -> sa.Select[Any]:
    """Build one part of the query for some providers."""
    found = {"what": sa.literal_column(str(what)), "id": id_, **columns,
             **{f"number{place}": column for place, column in enumerate(numbers)}}
    return sa.select(*(
        found.get(name, sa.cast(sa.null(), type_)).label(name)
        for name, type_ in _COLUMNS.items())).select_from(joined).where(lists.among(id_, "ids"))


def _select_some() -> sa.CompoundSelect[Any]:
    """Build the query for everything of some providers, so that a refresh is one round trip."""
    uuids = tables.placement_aggregates
    return sa.union_all(
        _build_branch(
            _INVENTORY, _inventories, _inventories.c.resource_class_id, _inventories.c.capacity,
            _inventories.c.used, _inventories.c.min_unit, _inventories.c.max_unit,
            _inventories.c.step_size, _inventories.c.total, _inventories.c.reserved,
            id_=_inventories.c.resource_provider_id),
        _build_branch(_TRAIT, _traits, _traits.c.trait_id, id_=_traits.c.resource_provider_id),
        _build_branch(
            _MEMBERSHIP, _memberships.join(uuids, uuids.c.id == _memberships.c.aggregate_id),
            id_=_memberships.c.resource_provider_id, text=uuids.c.uuid),
        _build_branch(
            _PROVIDER,
            _providers.outerjoin(_pooled, _pooled.c.root_provider_id == _providers.c.id),
            _providers.c.generation, _providers.c.parent_provider_id, _providers.c.revision,
            sa.case((_pooled.c.root_provider_id.is_not(None), 1), else_=0),
            id_=_providers.c.id, text=_providers.c.uuid, name=_providers.c.name,
            created_at=_providers.c.created_at, updated_at=_providers.c.updated_at))


#: Prepared, because a worker that sees a change does little else.
_SOME = PreparedRead(_select_some())


class _Provider(NamedTuple):
    """A row of ``_ALL_PROVIDERS``."""

    id: int
    uuid: str
    name: str
    generation: int | None
    parent_provider_id: int | None
    created_at: datetime.datetime | None
    updated_at: datetime.datetime | None
    revision: int
    pooled: bool


def load_names(session: Session) -> NameIndex:
    """Read all resource classes and traits."""
    return NameIndex(
        {row.id: row.name for row in session.execute(_CLASSES)},
        {row.id: row.name for row in session.execute(_TRAIT_NAMES)},
    )


def load_all_providers(session: Session) -> list[ProviderRow]:
    """Read all providers."""
    return _assemble(session, (
        _read_rows(session.execute(statement)) for statement in _EVERYTHING))


def load_providers(session: Session, ids: Collection[int]) -> dict[int, ProviderRow | None]:
    """Read the providers with these ids; None for those that are gone."""
    providers: dict[int, ProviderRow | None] = dict.fromkeys(ids)
    ordered = sorted(ids)
    for start in range(0, len(ordered), _BATCH):
        rows = _SOME.fetch_in(session, {"ids": ordered[start:start + _BATCH]})
        providers.update((row.id, row) for row in _assemble(session, _sort_out(rows)))
    return providers


def _sort_out(rows: Iterable[Any]) -> Iterator[Iterable[Any]]:
    """Return the rows of ``_SOME`` as those of ``_EVERYTHING``."""
    found: tuple[list[Any], ...] = ([], [], [], [])
    for values in rows:
        what, id_, *numbers, text, name, created_at, updated_at = tuple(values)
        if what == _INVENTORY:
            row: tuple[Any, ...] = (id_, *numbers)
        elif what == _TRAIT:
            row = (id_, numbers[0])
        elif what == _MEMBERSHIP:
            row = (id_, text)
        else:
            row = _Provider(id_, text, name, numbers[0], numbers[1], created_at, updated_at,
                            numbers[2], bool(numbers[3]))
        found[what].append(row)
    found[_INVENTORY].sort()
    return iter(found)


class _Interned(dict[Any, Any]):
    """The first one of equal values."""

    def __missing__(self, value: Any) -> Any:
        self[value] = value
        return value


def _read_rows(result: sa.CursorResult[Any]) -> Iterator[sa.Row[Any]]:
    """Yield rows, fetched many at a time: one by one each costs twice as much."""
    for rows in result.partitions(_FETCHED_AT_ONCE):
        yield from rows


def _assemble(
    session: Session, results: Iterator[Iterable[Any]]
) -> list[ProviderRow]:
    """Join inventories, traits, memberships and providers, in this order."""
    # Equal numbers and texts become one object: a driver makes one for each row.
    same = _Interned()
    inventories: dict[int, list[InventoryRow]] = defaultdict(list)
    saturated = False
    for id_, class_id, capacity, used, min_unit, max_unit, step_size, total, reserved in next(
            results):
        inventory = InventoryRow._make((
            class_id, same[capacity], same[used], min_unit, same[max_unit], step_size,
            same[total], same[reserved]))
        inventories[id_].append(inventory)
        saturated |= not -_SATURATED < inventory.capacity < _SATURATED
    if saturated:
        _replace_saturated_capacities(session, inventories)
    traits: dict[int, list[int]] = defaultdict(list)
    for id_, trait_id in next(results):
        traits[id_].append(same[trait_id])
    aggregates: dict[int, list[str]] = defaultdict(list)
    for id_, uuid in next(results):
        aggregates[id_].append(same[uuid])
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
