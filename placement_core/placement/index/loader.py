"""Reads providers with everything that belongs to them.

Each function runs inside one read transaction, so what it returns is consistent.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import sqlalchemy as sa

from placement_core.db import PreparedRead, Session, clock, lists, number_texts
from placement_core.db.number_texts import BETWEEN_NUMBERS, BETWEEN_ROWS
from placement_core.placement import tables
from placement_core.placement.index.records import InventoryRow, NameIndex, ProviderRow

_SATURATED = 2**63 - 1

_Value = TypeVar("_Value")
_NOTHING: frozenset[Any] = frozenset()
#: How many ids one statement selects by.
_BATCH = 500
_FETCHED_AT_ONCE = 5000
#: Between the texts of two providers, and between a provider's id and its text.
_BETWEEN_PROVIDERS, _BEHIND_ID = ";", ":"
#: Providers whose ids are alike but for so many bits share a row: 128 texts stay far below the
#: longest that a server sends (``max_allowed_packet``).
_SHARED_BITS = 7

_providers, _inventories = tables.resource_providers, tables.inventories
_pooled = tables.pooled_trees
_traits, _memberships = tables.resource_provider_traits, tables.resource_provider_aggregates


def _write_provider() -> sa.ColumnElement[str]:
    """Build the text of a provider's own row, which ``_assemble`` reads; a NULL is empty."""
    numbers = map(number_texts.write_digits, (
        _providers.c.generation, _providers.c.parent_provider_id,
        clock.microseconds(_providers.c.created_at), clock.microseconds(_providers.c.updated_at),
        _providers.c.revision, _pooled.c.root_provider_id))
    return number_texts.join([_providers.c.uuid, *(
        sa.func.coalesce(text, sa.literal_column("''", sa.String))
        for text in (number_texts.write_hex(_providers.c.name), *numbers))])


_PROVIDERS = _providers.outerjoin(_pooled, _pooled.c.root_provider_id == _providers.c.id)


def _share_rows(id_: sa.ColumnElement[int], text: sa.ColumnElement[str]) -> sa.Select[str]:
    """Build the query for texts of providers, with one row for many.

    A driver takes longer over a row than over a provider's part of a text: PyMySQL by far.
    """
    text = number_texts.write_digits(id_).concat(_BEHIND_ID).concat(text)
    return sa.select(sa.func.aggregate_strings(text, _BETWEEN_PROVIDERS)).group_by(
        id_.bitwise_rshift(_SHARED_BITS))


_ALL_PROVIDERS = _share_rows(_providers.c.id, _write_provider()).select_from(_PROVIDERS)


def _gather(id_: sa.ColumnElement[int], *numbers: sa.ColumnElement[int]) -> sa.Select[str]:
    """Build the query for everything of one kind."""
    gathered = sa.select(
        id_.label("id"), number_texts.gather(*numbers).label("numbers"),
    ).group_by(id_).subquery("gathered")
    return _share_rows(gathered.c.id, gathered.c.numbers)


#: In the order of ``InventoryRow``.
_INVENTORY_NUMBERS = (
    _inventories.c.resource_class_id, _inventories.c.capacity, _inventories.c.used,
    _inventories.c.min_unit, _inventories.c.max_unit, _inventories.c.step_size,
    _inventories.c.total, _inventories.c.reserved)
_ALL_INVENTORIES = _gather(_inventories.c.resource_provider_id, *_INVENTORY_NUMBERS)
_ALL_TRAITS = _gather(_traits.c.resource_provider_id, _traits.c.trait_id)
_ALL_MEMBERSHIPS = _gather(_memberships.c.resource_provider_id, _memberships.c.aggregate_id)
_AGGREGATE_UUIDS = sa.select(
    tables.placement_aggregates.c.id, tables.placement_aggregates.c.uuid)

#: Capacities too large for their column; ratios go up to 3.4e38.
_SATURATED_INVENTORIES = sa.select(
    _inventories.c.resource_provider_id, _inventories.c.resource_class_id,
    _inventories.c.total, _inventories.c.reserved, _inventories.c.allocation_ratio,
).where(sa.or_(_inventories.c.capacity >= _SATURATED, _inventories.c.capacity <= -_SATURATED))

_CLASSES = sa.select(tables.resource_classes.c.id, tables.resource_classes.c.name)
_TRAIT_NAMES = sa.select(tables.traits.c.id, tables.traits.c.name)


def _build_text(
    joined: sa.FromClause, id_: sa.ColumnElement[int], text: sa.ColumnElement[str]
) -> sa.ScalarSelect[str]:
    """Build the text of everything of one kind that belongs to a provider."""
    return (sa.select(text).select_from(joined).where(id_ == _providers.c.id)
            .correlate(_providers).scalar_subquery())


def _select_some() -> sa.Select[Any]:
    """Build the query for everything of some providers, so that a refresh is one round trip."""
    uuids = tables.placement_aggregates
    return sa.select(
        _providers.c.id, _write_provider().label("provider"),
        _build_text(
            _inventories, _inventories.c.resource_provider_id,
            number_texts.gather(*_INVENTORY_NUMBERS)).label("inventories"),
        _build_text(
            _traits, _traits.c.resource_provider_id,
            number_texts.gather(_traits.c.trait_id)).label("traits"),
        _build_text(
            _memberships.join(uuids, uuids.c.id == _memberships.c.aggregate_id),
            _memberships.c.resource_provider_id,
            sa.func.aggregate_strings(uuids.c.uuid, BETWEEN_ROWS)).label("aggregates"),
    ).select_from(_PROVIDERS).where(lists.among(_providers.c.id, "ids"))


#: Prepared, because a worker that sees a change does little else.
_SOME = PreparedRead(_select_some())


def load_names(session: Session) -> NameIndex:
    """Read all resource classes and traits."""
    return NameIndex(
        {row.id: row.name for row in session.execute(_CLASSES)},
        {row.id: row.name for row in session.execute(_TRAIT_NAMES)},
    )


def load_all_providers(session: Session) -> list[ProviderRow]:
    """Read all providers."""
    uuids: dict[int, str] = dict(_read_rows(session.execute(_AGGREGATE_UUIDS)))
    belongings = _Belongings(
        inventories=_read_texts(session, _ALL_INVENTORIES, _make_inventories_parser()),
        traits=_read_texts(session, _ALL_TRAITS, _parse_ids),
        aggregates=_read_texts(session, _ALL_MEMBERSHIPS, lambda text: frozenset(
            uuids[id_] for id_ in _parse_ids(text) if id_ in uuids)))
    return _assemble(
        session, belongings, _split_texts(_read_rows(session.execute(_ALL_PROVIDERS))))


def load_providers(session: Session, ids: Collection[int]) -> dict[int, ProviderRow | None]:
    """Read the providers with these ids; None for those that are gone."""
    providers: dict[int, ProviderRow | None] = dict.fromkeys(ids)
    ordered = sorted(ids)
    for start in range(0, len(ordered), _BATCH):
        rows = _SOME.fetch_in(session, {"ids": ordered[start:start + _BATCH]})
        belongings = _Belongings(
            _parse_texts(
                ((row.id, row.inventories) for row in rows), _make_inventories_parser()),
            _parse_texts(((row.id, row.traits) for row in rows), _parse_ids),
            _parse_texts(((row.id, row.aggregates) for row in rows),
                         lambda text: frozenset(text.split(BETWEEN_ROWS))))
        providers.update((row.id, row) for row in _assemble(
            session, belongings, ((row.id, row.provider) for row in rows)))
    return providers


class _Parsed(dict[str, _Value], Generic[_Value]):
    """What texts say; each is parsed once, so that equal values are one object."""

    def __init__(self, parse: Callable[[str], _Value]) -> None:
        super().__init__()
        self._parse = parse

    def __missing__(self, text: str) -> _Value:
        value = self[text] = self._parse(text)
        return value


class _Belongings(NamedTuple):
    """What belongs to providers, by their ids; inventories in the order of class ids."""

    inventories: dict[int, tuple[InventoryRow, ...]]
    traits: Mapping[int, frozenset[int]]
    aggregates: Mapping[int, frozenset[str]]


def _make_inventories_parser() -> Callable[[str], tuple[InventoryRow, ...]]:
    parse = _Parsed(_parse_inventory).__getitem__
    return lambda text: tuple(sorted(map(parse, text.split(BETWEEN_ROWS))))


def _parse_inventory(text: str) -> InventoryRow:
    return InventoryRow._make(map(int, text.split(BETWEEN_NUMBERS)))


def _parse_ids(text: str) -> frozenset[int]:
    return frozenset(map(int, text.split(BETWEEN_ROWS)))


def _read_texts(
    session: Session, statement: sa.Select[str], parse: Callable[[str], _Value]
) -> dict[int, _Value]:
    """Read what ``_gather`` built: {provider: what its text says}."""
    return _parse_texts(_split_texts(_read_rows(session.execute(statement))), parse)


def _split_texts(rows: Iterable[tuple[str]]) -> Iterator[tuple[int, str]]:
    """Yield each provider's id and text."""
    for (texts,) in rows:
        for provider in texts.split(_BETWEEN_PROVIDERS):
            id_, _, text = provider.partition(_BEHIND_ID)
            yield int(id_), text


def _parse_texts(
    texts: Iterable[tuple[int, str | None]], parse: Callable[[str], _Value]
) -> dict[int, _Value]:
    """Return {provider: what its text says}, without those that have none."""
    parsed = _Parsed(parse)
    return {id_: parsed[text] for id_, text in texts if text}


def _read_rows(result: sa.CursorResult[Any]) -> Iterator[Any]:
    """Yield rows, fetched many at a time: one by one each costs twice as much."""
    for rows in result.partitions(_FETCHED_AT_ONCE):
        yield from rows


def _assemble(
    session: Session, belongings: _Belongings, providers: Iterable[tuple[int, str]]
) -> list[ProviderRow]:
    """Join texts of providers (``_write_provider``) and what belongs to them.

    Equal sets become one object: most providers have the same traits as others.
    """
    inventories, traits, aggregates = belongings
    _replace_saturated_capacities(session, inventories)
    trait_sets: dict[frozenset[int], frozenset[int]] = {}
    aggregate_sets: dict[frozenset[str], frozenset[str]] = {}
    rows = []
    for id_, text in providers:
        uuid, name, generation, parent_id, created_at, updated_at, revision, pooled = text.split(
            BETWEEN_NUMBERS)
        trait_set = traits.get(id_, _NOTHING)
        aggregate_set = aggregates.get(id_, _NOTHING)
        rows.append(ProviderRow(
            id=id_, uuid=uuid, name=bytes.fromhex(name).decode(), generation=int(generation or 0),
            parent_id=int(parent_id) if parent_id else None,
            inventories=inventories.get(id_, ()),
            traits=trait_sets.setdefault(trait_set, trait_set),
            aggregates=aggregate_sets.setdefault(aggregate_set, aggregate_set),
            created_at=_parse_moment(created_at), updated_at=_parse_moment(updated_at),
            revision=int(revision), pooled=bool(pooled)))
    return rows


def _parse_moment(microseconds: str) -> datetime.datetime | None:
    return clock.from_microseconds(int(microseconds)) if microseconds else None


def _replace_saturated_capacities(
    session: Session, inventories: dict[int, tuple[InventoryRow, ...]]
) -> None:
    """Compute the capacities that their column is too small for."""
    saturated = [
        id_ for id_, rows in inventories.items() for row in rows
        if not -_SATURATED < row.capacity < _SATURATED]
    if not saturated:
        return
    exact = {
        (row.resource_provider_id, row.resource_class_id):
            int((row.total - row.reserved) * row.allocation_ratio)
        for row in session.execute(_SATURATED_INVENTORIES)
    }
    for id_ in saturated:
        inventories[id_] = tuple(
            row._replace(capacity=exact.get((id_, row.class_id), row.capacity))
            for row in inventories[id_])
