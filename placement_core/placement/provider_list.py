"""Lists providers with their inventories, traits and aggregates, page by page."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session, lists
from placement_core.placement import lookups, tables
from placement_core.placement.records import Inventory, InventoryValues

_providers, _inventories, _classes = (
    tables.resource_providers, tables.inventories, tables.resource_classes)
_traits, _provider_traits = tables.traits, tables.resource_provider_traits
_aggregates, _provider_aggregates = (
    tables.placement_aggregates, tables.resource_provider_aggregates)

_root, _parent = _providers.alias("root"), _providers.alias("parent")
_PROVIDERS = (
    sa.select(
        _providers.c.id, _providers.c.uuid, _providers.c.name, _providers.c.generation,
        _root.c.uuid.label("root_uuid"), _parent.c.uuid.label("parent_uuid"))
    .join(_root, _root.c.id == _providers.c.root_provider_id)
    .outerjoin(_parent, _parent.c.id == _providers.c.parent_provider_id)
    .order_by(_providers.c.uuid))
_BY_IDS = _PROVIDERS.where(lists.among_many(_providers.c.id, "ids"))
_BY_UUIDS = _PROVIDERS.where(lists.among_many(_providers.c.uuid, "uuids"))
_INVENTORIES = (
    sa.select(
        _inventories.c.resource_provider_id, _classes.c.name, _inventories.c.used,
        _inventories.c.total, _inventories.c.reserved, _inventories.c.min_unit,
        _inventories.c.max_unit, _inventories.c.step_size, _inventories.c.allocation_ratio)
    .join(_classes, _classes.c.id == _inventories.c.resource_class_id)
    .where(lists.among_many(_inventories.c.resource_provider_id, "ids"))
    .order_by(_inventories.c.resource_provider_id, _classes.c.id))
_TRAITS = (
    sa.select(_provider_traits.c.resource_provider_id, _traits.c.name)
    .join(_traits, _traits.c.id == _provider_traits.c.trait_id)
    .where(lists.among_many(_provider_traits.c.resource_provider_id, "ids"))
    .order_by(_traits.c.name))
_AGGREGATES = (
    sa.select(_provider_aggregates.c.resource_provider_id, _aggregates.c.uuid)
    .join(_aggregates, _aggregates.c.id == _provider_aggregates.c.aggregate_id)
    .where(lists.among_many(_provider_aggregates.c.resource_provider_id, "ids"))
    .order_by(_aggregates.c.uuid))


@dataclasses.dataclass(frozen=True, slots=True)
class ListedProvider:
    """A provider with all that belongs to it.

    :ivar parent_uuid: None: it is the root of its tree.
    :ivar traits: names, in their order; ``aggregates``: uuids, likewise.
    """

    uuid: str
    name: str
    generation: int
    root_uuid: str
    parent_uuid: str | None
    inventories: Sequence[Inventory]
    traits: Sequence[str]
    aggregates: Sequence[str]


@db.retry_writes
def list_(
    ctx: Context, *, in_tree: str | None = None, member_of: str | None = None,
    marker: str | None = None, limit: int | None = None,
) -> list[ListedProvider]:
    """Return the providers that match all filters, in the order of their uuids.

    A page takes four statements, which see one snapshot.

    :param in_tree: only providers of the tree that this provider is in.
    :param member_of: only members of this aggregate; none if it does not exist.
    :param marker: only providers with a greater uuid.
    :param limit: the largest number of providers to return.
    :raises errors.ProviderNotFound: there is no provider ``in_tree``.
    """
    statement = _PROVIDERS.limit(limit)
    if marker is not None and lookups.is_provider_uuid(marker):
        statement = statement.where(_providers.c.uuid > marker)
    if member_of is not None:
        if not lookups.is_provider_uuid(member_of):
            return []
        statement = statement.where(sa.exists(
            sa.select(_provider_aggregates.c.aggregate_id)
            .join(_aggregates, _aggregates.c.id == _provider_aggregates.c.aggregate_id)
            .where(_provider_aggregates.c.resource_provider_id == _providers.c.id,
                   _aggregates.c.uuid == member_of)))
    with db.read(ctx) as session:
        if in_tree is not None:
            root = lookups.get_provider(session, in_tree).root_provider_id
            statement = statement.where(_providers.c.root_provider_id == root)
        return _complete(session, session.execute(statement).all())


def read(
    session: Session, *, ids: Collection[int], uuids: Collection[str]
) -> dict[int, ListedProvider]:
    """Return those providers that there are, by their database keys.

    :param ids: their database keys; ``uuids``: of others.
    """
    # Not one with OR, for which databases would look at all providers.
    rows = {row.id: row for statement, parameters in (
        (_BY_IDS, {"ids": sorted(ids)}), (_BY_UUIDS, {"uuids": sorted(uuids)}))
        if any(parameters.values()) for row in session.execute(statement, parameters)}
    return dict(zip(rows, _complete(session, list(rows.values())), strict=True))


def _complete(session: Session, rows: Sequence[sa.Row[Any]]) -> list[ListedProvider]:
    """Return the providers of rows of ``_PROVIDERS``."""
    ids = [row.id for row in rows]
    inventories = _read(session, _INVENTORIES, ids)
    traits = _read(session, _TRAITS, ids)
    aggregates = _read(session, _AGGREGATES, ids)
    return [
        ListedProvider(
            row.uuid, row.name, row.generation, row.root_uuid, row.parent_uuid,
            list(map(_make_inventory, inventories[row.id])),
            [trait for trait, in traits[row.id]], [uuid for uuid, in aggregates[row.id]])
        for row in rows]


def _read(
    session: Session, statement: sa.Select[Any], ids: Sequence[int]
) -> dict[int, list[tuple[Any, ...]]]:
    """Return the rows of a statement without their first column, the provider's id, by it."""
    of_providers: dict[int, list[tuple[Any, ...]]] = collections.defaultdict(list)
    rows: Iterable[Any] = session.execute(statement, {"ids": ids}) if ids else ()
    for provider_id, *values in rows:
        of_providers[provider_id].append(tuple(values))
    return of_providers


def _make_inventory(row: tuple[Any, ...]) -> Inventory:
    name, used, *values = row
    return Inventory(name, InventoryValues(*values), used)
