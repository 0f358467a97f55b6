"""Which aggregates a provider is in.

An aggregate is no more than a uuid that somebody once named; it is made on the
fly, and removed a day after its last member (``unused_names``). Missing ones are
made in a short transaction of their own, before the provider is held: one that is
left over harms nobody.
Source: spec placement_api §3.7.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import PreparedRead, Session, inserts, texts
from placement_core.db.metadata import utcnow
from placement_core.placement import errors, locks, lookups, tables, unused_names
from placement_core.placement.records import ProviderAggregates

T = TypeVar("T")

_LONGEST_UUID = 36
#: Names in one statement; databases bound the number of its parameters.
_BATCH = 500

_aggregates = tables.placement_aggregates
_members = tables.resource_provider_aggregates
_providers = tables.resource_providers

_BY_UUIDS = sa.select(
    _aggregates.c.id, _aggregates.c.uuid, unused_names.is_stale(_aggregates).label("stale"),
).where(_aggregates.c.uuid.in_(sa.bindparam("uuids", expanding=True)))
_KEEP = unused_names.build_keep(_aggregates, _aggregates.c.uuid)
_OF_PROVIDER = PreparedRead(
    sa.select(_providers.c.uuid, _providers.c.generation,
              _aggregates.c.uuid.label("aggregate_uuid"))
    .select_from(
        _providers
        .outerjoin(_members, _members.c.resource_provider_id == _providers.c.id)
        .outerjoin(_aggregates, _aggregates.c.id == _members.c.aggregate_id))
    .where(_providers.c.uuid == sa.bindparam("uuid"))
    .order_by(_aggregates.c.uuid)
)
_MEMBERSHIPS = sa.select(_members.c.aggregate_id).where(
    _members.c.resource_provider_id == sa.bindparam("provider_id"))
_JOIN = sa.insert(_members)
_LEAVE = sa.delete(_members).where(
    _members.c.resource_provider_id == sa.bindparam("provider_id"),
    _members.c.aggregate_id.in_(sa.bindparam("aggregate_ids", expanding=True)))


@db.retry_writes
def list_for_provider(ctx: Context, uuid: str) -> ProviderAggregates:
    """Return the aggregates of a provider, by uuid.

    :raises errors.ProviderNotFound: no such provider.
    """
    memberships = lookups.fetch_of_provider(ctx, _OF_PROVIDER, uuid)
    return ProviderAggregates(memberships[0].generation, tuple(
        row.aggregate_uuid for row in memberships if row.aggregate_uuid is not None))


@db.retry_writes
def replace_for_provider(
    ctx: Context, uuid: str, uuids: Collection[str], *, generation: int | None,
) -> ProviderAggregates:
    """Make a provider a member of these aggregates and no others.

    :param uuids: kept as they are spelled.
    :param generation: the provider's, which then rises in any case; None
        neither checks nor raises it.
    :raises errors.ProviderNotFound: no such provider.
    :raises errors.ProviderGenerationConflict: its generation is another.
    :raises errors.InvalidAggregate: a spelling is too long to be kept.
    """
    distinct = sorted(set(uuids))
    with db.read(ctx) as session:
        provider = lookups.get_provider(session, uuid)
    if generation is not None and provider.generation != generation:
        raise errors.ProviderGenerationConflict(uuid)
    for aggregate in distinct:
        if not 0 < len(aggregate) <= _LONGEST_UUID or not texts.is_storable(aggregate):
            raise errors.InvalidAggregate(aggregate)
    aggregate_ids = _insert_missing(ctx, distinct)
    with db.write(ctx) as session:
        provider = lookups.get_provider(session, uuid)
        if generation is None:
            locks.lock_providers(session, {provider.id: 0})
        elif not locks.lock_at_generation(session, provider.id, seen=generation, step=1):
            raise errors.ProviderGenerationConflict(uuid)
        present = set(session.execute(_MEMBERSHIPS, {"provider_id": provider.id}).scalars())
        for batch in _split(sorted(present - aggregate_ids)):
            session.execute(_LEAVE, {"provider_id": provider.id, "aggregate_ids": batch})
        if aggregate_ids - present:
            session.execute(_JOIN, [
                {"resource_provider_id": provider.id, "aggregate_id": aggregate_id}
                for aggregate_id in sorted(aggregate_ids - present)])
        # In the order the caller chose.
        return ProviderAggregates(
            lookups.get_generation(session, provider.id), tuple(dict.fromkeys(uuids)))


@db.retry_writes
def join(ctx: Context, provider_uuid: str, uuid: str) -> None:
    """Make a provider a member of one more aggregate; its generation rises if it was none.

    :raises errors.ProviderNotFound: no such provider.
    """
    if uuid in list_for_provider(ctx, provider_uuid).uuids:
        return
    [aggregate_id] = _insert_missing(ctx, [uuid])
    with db.write(ctx) as session:
        provider = lookups.get_provider(session, provider_uuid)
        locks.lock_providers(session, {provider.id: 1})
        present = session.execute(_MEMBERSHIPS, {"provider_id": provider.id}).scalars()
        if aggregate_id not in present.all():
            session.execute(_JOIN, [
                {"resource_provider_id": provider.id, "aggregate_id": aggregate_id}])


def _insert_missing(ctx: Context, uuids: list[str]) -> set[int]:
    """Return the ids of aggregates, making those that are missing.

    An adopted MySQL table takes two spellings that differ in case for one.
    """
    with db.read(ctx) as session:
        rows = _read_rows(session, uuids)
    aggregate_ids = {row.uuid: row.id for row in rows if not row.stale}
    missing = [uuid for uuid in uuids if uuid not in aggregate_ids]
    if missing:
        now = utcnow()
        with db.write(ctx) as session:
            for row in rows:
                if row.stale:
                    session.execute_write(_KEEP, {"name": row.uuid})
            inserts.insert_missing(session.connection, _aggregates, [
                {"uuid": uuid, "created_at": now} for uuid in missing])
            aggregate_ids |= {row.uuid: row.id for row in _read_rows(session, missing)}
    return set(aggregate_ids.values())


def _read_rows(session: Session, uuids: list[str]) -> list[sa.Row[Any]]:
    return [row for batch in _split(uuids)
            for row in session.execute(_BY_UUIDS, {"uuids": batch})]


def _split(values: list[T]) -> list[list[T]]:
    return [values[start:start + _BATCH] for start in range(0, len(values), _BATCH)]
