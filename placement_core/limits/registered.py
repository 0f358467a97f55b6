"""Registered limits: the resources of a service, and their defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.db import Session, lists
from placement_core.limits import errors, history, inputs, queries, references, regions, tables
from placement_core.limits.inputs import Key
from placement_core.limits.records import Filter, RegisteredLimit
from placement_core.plugin_api.catalog import CatalogDriver

_registered, _limits, _user_limits = (
    tables.registered_limits, tables.limits, tables.user_limits)

_ALL = sa.select(_registered)
_BY_ID = _ALL.where(_registered.c.uuid == sa.bindparam("id_"))
_BY_NAMES = _ALL.where(
    lists.among_many(_registered.c.service_id, "services"),
    lists.among_many(_registered.c.resource_name, "names"))
_REFERRED_TO = {
    table: sa.select(table.c.registered_limit_id).distinct().where(
        lists.among_many(table.c.registered_limit_id, "ids"))
    for table in (_limits, _user_limits)}
_INSERT = sa.insert(_registered).inline()
_UPDATE = (
    sa.update(_registered).where(_registered.c.id == sa.bindparam("of_id"))
    .values(service_id=sa.bindparam("new_service_id"), region_key=sa.bindparam("new_region_key"),
            resource_name=sa.bindparam("new_resource_name"),
            default_limit=sa.bindparam("new_default_limit"),
            description=sa.bindparam("new_description")))
_DELETE = sa.delete(_registered).where(_registered.c.id == sa.bindparam("of_id"))

LIST_QUERY = queries.ListQuery(_ALL, _registered, {
    "service_id": queries.Field(_registered.c.service_id),
    "region_id": queries.Field(_registered.c.region_key, _registered.c.region_key != ""),
    "resource_name": queries.Field(_registered.c.resource_name),
})


@db.retry_writes
def create_many(
    ctx: Context, catalog: CatalogDriver, items: Sequence[Mapping[str, Any]]
) -> list[RegisteredLimit]:
    """Register resources, all or nothing; return them in the order of the items.

    :param items: service_id, resource_name, default_limit; may have region_id, description,
        and the id of a limit that is copied.
    :raises errors.InvalidLimit: an item is invalid.
    :raises errors.UnknownLimitReference: a service or region does not exist.
    :raises errors.DuplicateLimit: a resource is registered already, or is there twice.
    """
    new_limits = [parse(item) for item in items]
    keys = [key_of(limit) for limit in new_limits]
    with references.open_write(
            ctx, catalog, lambda: references.check(ctx, catalog, keys)) as (session, _):
        if len(set(keys)) < len(keys) or find_rows(session, keys):
            raise errors.DuplicateLimit("registered_limit")
        insert(ctx, session, new_limits)
    return new_limits


@db.retry_writes
def get(ctx: Context, id_: str) -> RegisteredLimit:
    """Return a registered limit.

    :raises errors.RegisteredLimitNotFound: there is none of that id.
    """
    with db.read_once(ctx) as session:
        return from_row(_find(session, id_))


@db.retry_writes
def list_(
    ctx: Context, filters: Sequence[Filter] = (), *, marker: str | None = None,
    limit: int | None = None,
) -> list[RegisteredLimit]:
    """Return the registered limits that match all filters, in the order of creation.

    :param marker: the id of the last limit of the previous page.
    :param limit: how many at most.
    :raises errors.UnknownMarker: there is no such registered limit.
    """
    return [from_row(row) for row in queries.list_(
        ctx, LIST_QUERY, filters, marker=marker, limit=limit)]


@db.retry_writes
def update(
    ctx: Context, catalog: CatalogDriver, id_: str, changes: Mapping[str, Any]
) -> RegisteredLimit:
    """Update a registered limit that no limit refers to; return it.

    :param changes: of service_id, region_id, resource_name, default_limit, description.
    :raises errors.RegisteredLimitNotFound: there is none of that id.
    :raises errors.InvalidLimit: a value is invalid.
    :raises errors.UnknownLimitReference: the service or region does not exist.
    :raises errors.RegisteredLimitInUse: limits refer to it.
    :raises errors.DuplicateLimit: another one has that service, region and name.
    """
    services = [inputs.parse_service_id(changes)] if "service_id" in changes else []
    region_ids = [inputs.parse_region_id(changes)] if "region_id" in changes else []
    with references.open_write(
            ctx, catalog, lambda: references.require(ctx, catalog, services, region_ids)
    ) as (session, _):
        row = _find(session, id_)
        before = from_row(row)
        after = _changed(before, changes)
        if after == before:
            return before
        if in_use(session, [row.id]):
            raise errors.RegisteredLimitInUse(id_)
        if key_of(after) != key_of(before) and find_rows(session, [key_of(after)]):
            raise errors.DuplicateLimit("registered_limit")
        update_row(ctx, session, row.id, before, after)
    return after


@db.retry_writes
def delete(ctx: Context, id_: str) -> None:
    """Delete a registered limit that no limit refers to.

    :raises errors.RegisteredLimitNotFound: there is none of that id.
    :raises errors.RegisteredLimitInUse: limits refer to it.
    """
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        row = _find(session, id_)
        if in_use(session, [row.id]):
            raise errors.RegisteredLimitInUse(id_)
        session.execute(_DELETE, {"of_id": row.id})
        history.write(ctx, session, [history.deleted(from_row(row))])


# For the neighbours: inside a transaction that holds the revision ---------------


def find_rows(session: Session, keys: Iterable[Key]) -> dict[Key, sa.Row[Any]]:
    """Return the rows of registered limits, by key."""
    wanted_keys = set(keys)
    candidates = session.execute(_BY_NAMES, {
        "services": sorted({key.service_id for key in wanted_keys}),
        "names": sorted({key.resource_name for key in wanted_keys})})
    rows = {key_of(from_row(row)): row for row in candidates}
    return {key: row for key, row in rows.items() if key in wanted_keys}


def require_rows(session: Session, keys: Sequence[Key]) -> dict[Key, sa.Row[Any]]:
    """Return the rows of the registered limits of new limits.

    :raises errors.NoRegisteredLimit: one was never registered.
    """
    rows = find_rows(session, keys)
    for key in keys:
        if key not in rows:
            raise errors.NoRegisteredLimit(key.service_id, key.region_id, key.resource_name)
    return rows


def in_use(session: Session, row_ids: Sequence[int]) -> set[int]:
    """Return the rows that limits of projects, domains or users refer to."""
    return {row_id for statement in _REFERRED_TO.values()
            for row_id in session.execute(statement, {"ids": list(row_ids)}).scalars()}


def insert(ctx: Context, session: Session, new_limits: Sequence[RegisteredLimit]) -> None:
    """Insert registered limits, and record it in the history.

    :raises errors.DuplicateLimit: the database treats two of their names as equal.
    """
    if not new_limits:
        return
    try:
        session.execute(_INSERT, [_values(limit) for limit in new_limits])
    except db_exception.DBDuplicateEntry:
        # Names that differ in blanks at their end are equal on MySQL.
        raise errors.DuplicateLimit("registered_limit") from None
    history.write(ctx, session, [history.created(limit) for limit in new_limits])


def update_row(
    ctx: Context, session: Session, row_id: int, before: RegisteredLimit, after: RegisteredLimit
) -> None:
    """Update a row, and record it in the history."""
    values = _values(after)
    del values["uuid"]
    try:
        session.execute(
            _UPDATE, {"of_id": row_id} | {f"new_{name}": value for name, value in values.items()})
    except db_exception.DBDuplicateEntry:
        raise errors.DuplicateLimit("registered_limit") from None
    history.write(ctx, session, [history.updated(before, after)])


def parse(item: Mapping[str, Any]) -> RegisteredLimit:
    """Return the new registered limit that an item describes.

    :raises errors.InvalidLimit: it is invalid.
    """
    key = inputs.parse_key(item)
    return RegisteredLimit(
        inputs.parse_id(item), key.service_id, key.region_id, key.resource_name,
        inputs.parse_value(item, "default_limit"), inputs.parse_description(item))


def key_of(limit: RegisteredLimit) -> Key:
    """Return the key of a registered limit."""
    return Key(limit.service_id, limit.region_id, limit.resource_name)


def from_row(row: sa.Row[Any]) -> RegisteredLimit:
    """Return the record of a row."""
    return RegisteredLimit(
        row.uuid, row.service_id, regions.id_(row.region_key), row.resource_name,
        row.default_limit, row.description)


def _find(session: Session, id_: str) -> sa.Row[Any]:
    row = queries.by_id(session, _BY_ID, id_)
    if row is None:
        raise errors.RegisteredLimitNotFound(id_)
    return row


def _changed(before: RegisteredLimit, changes: Mapping[str, Any]) -> RegisteredLimit:
    item = dataclasses.asdict(before) | dict(changes)
    return dataclasses.replace(parse(item), id=before.id)


def _values(limit: RegisteredLimit) -> dict[str, Any]:
    return {
        "uuid": limit.id, "service_id": limit.service_id,
        "region_key": regions.key(limit.region_id), "resource_name": limit.resource_name,
        "default_limit": limit.default_limit, "description": limit.description}
