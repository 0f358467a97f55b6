"""Read the allocations of consumers and on providers, with generations, for clients."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.placement import lookups, records, tables
from placement_core.placement.allocations import consumers, missing_consumers
from placement_core.placement.allocations.owners import Owners

_allocations, _providers, _classes = (
    tables.allocations, tables.resource_providers, tables.resource_classes)
_consumers, _projects, _users, _types = (
    tables.consumers, tables.projects, tables.users, tables.consumer_types)

#: An allocation that a write left as it was keeps its row.
_WRITTEN_AT = sa.func.coalesce(
    _allocations.c.updated_at, _allocations.c.created_at).label("written_at")
_OF_CONSUMER = (
    sa.select(
        _providers.c.uuid.label("provider_uuid"), _providers.c.generation,
        _classes.c.name.label("resource_class"), _allocations.c.used, _WRITTEN_AT,
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
        _allocations.c.used, _WRITTEN_AT, _consumers.c.generation.label("seen"),
    )
    .join(_classes, _classes.c.id == _allocations.c.resource_class_id)
    .outerjoin(_consumers, _consumers.c.uuid == _allocations.c.consumer_id)
    .where(_allocations.c.resource_provider_id == sa.bindparam("id"))
    .order_by(_allocations.c.id)
)


@db.retry_writes
def list_for_consumer(
    ctx: Context, consumer_uuid: str, owners: Owners | None = None
) -> records.ConsumerAllocations | None:
    """Return the allocations of a consumer; None: it has none.

    If a consumer has allocations but no row, the row is inserted.

    :param owners: the owners of such a consumer; None: none are configured.
    """
    if not consumers.is_consumer_uuid(consumer_uuid):
        return None
    with db.read_once(ctx) as session:
        shares = session.execute(_OF_CONSUMER, {"uuid": consumer_uuid}).all()
    if not shares:
        return None
    owners = owners or Owners()
    if shares[0].seen is None and ctx.session is None:
        missing_consumers.record(ctx, [consumer_uuid], owners)
        return list_for_consumer(ctx, consumer_uuid, owners)
    project, user = owners.incomplete
    providers: dict[str, records.ProviderAllocation] = {}
    for uuid, of_provider in _group(shares, "provider_uuid").items():
        providers[uuid] = records.ProviderAllocation(
            _collect_resources(of_provider), of_provider[0].generation, _find_newest(of_provider))
    first = shares[0]
    return records.ConsumerAllocations(
        consumer_uuid, first.project_id or project, first.user_id or user,
        first.consumer_type, first.seen or 0, providers)


@db.retry_writes
def list_for_provider(
    ctx: Context, provider_uuid: str, owners: Owners | None = None
) -> records.ProviderAllocations:
    """Return all allocations on a provider, and the provider's generation.

    :param owners: as in ``list_for_consumer``.
    :raises errors.ProviderNotFound: the provider does not exist.
    """
    with db.read(ctx) as session:
        provider = lookups.get_provider(session, provider_uuid)
        shares = session.execute(_ON_PROVIDER, {"id": provider.id}).all()
    missing = sorted({row.consumer_id for row in shares if row.seen is None})
    if missing and ctx.session is None:
        missing_consumers.record(ctx, missing, owners or Owners())
    return records.ProviderAllocations(provider.generation, {
        uuid: records.ConsumerShare(
            rows[0].seen or 0, _collect_resources(rows), _find_newest(rows))
        for uuid, rows in _group(shares, "consumer_id").items()
    })


def _group(shares: Sequence[sa.Row[Any]], name: str) -> dict[str, list[sa.Row[Any]]]:
    groups: dict[str, list[sa.Row[Any]]] = {}
    for row in shares:
        groups.setdefault(getattr(row, name), []).append(row)
    return groups


def _collect_resources(shares: Sequence[sa.Row[Any]]) -> dict[str, int]:
    resources: dict[str, int] = {}
    for row in shares:
        resources[row.resource_class] = resources.get(row.resource_class, 0) + row.used
    return resources


def _find_newest(shares: Sequence[sa.Row[Any]]) -> datetime.datetime | None:
    return max((row.written_at for row in shares if row.written_at is not None), default=None)
