"""Lists consumers with their owners and allocations, page by page."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session, lists, texts
from placement_core.placement import lookups, tables
from placement_core.placement.allocations import consumers
from placement_core.placement.records import UNKNOWN_TYPE

_consumers, _allocations, _providers, _classes = (
    tables.consumers, tables.allocations, tables.resource_providers, tables.resource_classes)
_projects, _users, _types = tables.projects, tables.users, tables.consumer_types

_CONSUMERS = (
    sa.select(
        _consumers.c.uuid, _consumers.c.generation, _consumers.c.created_at,
        _consumers.c.updated_at, _projects.c.external_id.label("project_id"),
        _users.c.external_id.label("user_id"), _types.c.name.label("consumer_type"))
    .join(_projects, _projects.c.id == _consumers.c.project_id)
    .join(_users, _users.c.id == _consumers.c.user_id)
    .outerjoin(_types, _types.c.id == _consumers.c.consumer_type_id)
    .order_by(_consumers.c.uuid))
_SOME = _CONSUMERS.where(lists.among_many(_consumers.c.uuid, "uuids"))
_ALLOCATIONS = (
    sa.select(
        _allocations.c.consumer_id, _providers.c.uuid, _classes.c.name,
        sa.func.sum(_allocations.c.used).label("used"))
    .join(_providers, _providers.c.id == _allocations.c.resource_provider_id)
    .join(_classes, _classes.c.id == _allocations.c.resource_class_id)
    .where(lists.among_many(_allocations.c.consumer_id, "uuids"))
    .group_by(_allocations.c.consumer_id, _providers.c.uuid, _classes.c.id, _classes.c.name)
    .order_by(_allocations.c.consumer_id, _providers.c.uuid, _classes.c.id))


@dataclasses.dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer and its allocations.

    :ivar consumer_type: None: a client below microversion 1.38 wrote it.
    :ivar allocations: {provider uuid: {resource class: amount}}.
    """

    uuid: str
    generation: int
    project_id: str
    user_id: str
    consumer_type: str | None
    created_at: datetime.datetime | None
    updated_at: datetime.datetime | None
    allocations: Mapping[str, Mapping[str, int]]


@db.retry_writes
def list_(
    ctx: Context, *, project_id: str | None = None, user_id: str | None = None,
    consumer_type: str | None = None, provider_uuid: str | None = None,
    marker: str | None = None, limit: int | None = None,
) -> list[Consumer]:
    """Return the consumers that match all filters, in the order of their uuids.

    Consumers without a row, which an adopted database may have, are not listed before the
    online migration has inserted their rows.

    :param consumer_type: ``UNKNOWN_TYPE``: consumers without a type.
    :param provider_uuid: only consumers with allocations on this provider.
    :param marker: only consumers with a greater uuid.
    :param limit: the largest number of consumers to return.
    :raises errors.ProviderNotFound: there is no provider ``provider_uuid``.
    """
    if not all(texts.is_storable(text) for text in (project_id, user_id, consumer_type) if text):
        return []
    statement = _CONSUMERS.limit(limit)
    if project_id is not None:
        statement = statement.where(_projects.c.external_id == project_id)
    if user_id is not None:
        statement = statement.where(_users.c.external_id == user_id)
    if consumer_type is not None:
        statement = statement.where(
            _consumers.c.consumer_type_id.is_(None) if consumer_type == UNKNOWN_TYPE
            else _types.c.name == consumer_type)
    if marker is not None and consumers.is_consumer_uuid(marker):
        statement = statement.where(_consumers.c.uuid > marker)
    with db.read(ctx) as session:
        if provider_uuid is not None:
            provider = lookups.get_provider(session, provider_uuid)
            statement = statement.where(sa.exists().where(
                _allocations.c.consumer_id == _consumers.c.uuid,
                _allocations.c.resource_provider_id == provider.id))
        return _complete(session, session.execute(statement).all())


def read(session: Session, uuids: Collection[str]) -> list[Consumer]:
    """Return those consumers that there are, in the order of their uuids."""
    return _complete(session, session.execute(_SOME, {"uuids": sorted(uuids)}).all())


def _complete(session: Session, rows: Sequence[sa.Row[Any]]) -> list[Consumer]:
    """Return the consumers of rows of ``_CONSUMERS``."""
    held = _read_allocations(session, [row.uuid for row in rows])
    return [
        Consumer(row.uuid, row.generation, row.project_id, row.user_id, row.consumer_type,
                 row.created_at, row.updated_at, held.get(row.uuid, {}))
        for row in rows]


def _read_allocations(
    session: Session, uuids: Sequence[str]
) -> dict[str, dict[str, dict[str, int]]]:
    """Return {consumer uuid: {provider uuid: {resource class: amount}}}."""
    held: dict[str, dict[str, dict[str, int]]] = {}
    for row in session.execute(_ALLOCATIONS, {"uuids": uuids}) if uuids else ():
        held.setdefault(row.consumer_id, {}).setdefault(row.uuid, {})[row.name] = int(row.used)
    return held
