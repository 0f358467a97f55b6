"""Limits of users in projects: an extension, which clients of Keystone never see."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.db import Session, lists
from placement_core.limits import (
    errors,
    history,
    inputs,
    queries,
    references,
    regions,
    registered,
    tables,
)
from placement_core.limits.records import Filter, UserLimit
from placement_core.plugin_api.catalog import CatalogDriver

_registered, _user_limits = tables.registered_limits, tables.user_limits

#: Limits of users with the service, region and name of their registered limit.
ALL = sa.select(
    _user_limits, _registered.c.service_id, _registered.c.region_key,
    _registered.c.resource_name,
).join(_registered, _registered.c.id == _user_limits.c.registered_limit_id)
_BY_ID = ALL.where(_user_limits.c.uuid == sa.bindparam("id_"))
_INSERT = sa.insert(_user_limits).inline()
_UPDATE = (
    sa.update(_user_limits).where(_user_limits.c.id == sa.bindparam("of_id"))
    .values(resource_limit=sa.bindparam("new_value"), description=sa.bindparam("new_description")))
_DELETE = sa.delete(_user_limits).where(_user_limits.c.id == sa.bindparam("of_id"))
_TAKEN = sa.select(
    _user_limits.c.registered_limit_id, _user_limits.c.project_id, _user_limits.c.user_id,
).where(
    lists.among_many(_user_limits.c.registered_limit_id, "registered_ids"),
    lists.among_many(_user_limits.c.project_id, "project_ids"),
    lists.among_many(_user_limits.c.user_id, "user_ids"))

LIST_QUERY = queries.ListQuery(ALL, _user_limits, {
    "service_id": queries.Field(_registered.c.service_id),
    "region_id": queries.Field(_registered.c.region_key, _registered.c.region_key != ""),
    "resource_name": queries.Field(_registered.c.resource_name),
    "project_id": queries.Field(_user_limits.c.project_id),
    "user_id": queries.Field(_user_limits.c.user_id),
})


def parse(item: Mapping[str, Any]) -> UserLimit:
    """Return the new limit that an item describes.

    :raises errors.InvalidLimit: it is invalid.
    """
    key = inputs.parse_key(item)
    return UserLimit(
        inputs.parse_id(item), inputs.parse_project_id(item), inputs.parse_text(item, "user_id"),
        key.service_id, key.region_id, key.resource_name,
        inputs.parse_value(item, "resource_limit"), inputs.parse_description(item))


@db.retry_writes
def create_many(
    ctx: Context, catalog: CatalogDriver, items: Sequence[Mapping[str, Any]]
) -> list[UserLimit]:
    """Create limits of users, all or nothing; return them in the order of the items.

    Users are not looked up: nobody here knows them.

    :param items: project_id, user_id, service_id, resource_name, resource_limit;
        may have region_id, description.
    :raises errors.InvalidLimit: an item is invalid.
    :raises errors.UnknownLimitReference: a service, region or project does not exist.
    :raises errors.NoRegisteredLimit: its resource was never registered.
    :raises errors.DuplicateLimit: a limit exists already, or is there twice.
    """
    if not items:
        return []
    new_limits = [parse(item) for item in items]
    keys = [inputs.Key(limit.service_id, limit.region_id, limit.resource_name)
            for limit in new_limits]

    def check_references() -> None:
        references.check(ctx, catalog, keys)
        for project_id in dict.fromkeys(limit.project_id for limit in new_limits):
            if catalog.project(ctx, project_id) is None:
                raise errors.UnknownLimitReference("project", project_id)

    with references.open_write(ctx, catalog, check_references) as (session, _):
        rows = registered.require_rows(session, keys)
        identities = [(rows[key].id, limit.project_id, limit.user_id)
                      for key, limit in zip(keys, new_limits, strict=True)]
        taken = session.execute(_TAKEN, {
            "registered_ids": sorted({registered_id for registered_id, _, _ in identities}),
            "project_ids": sorted({limit.project_id for limit in new_limits}),
            "user_ids": sorted({limit.user_id for limit in new_limits})})
        if (len(set(identities)) < len(identities)
                or set(identities) & {tuple(row) for row in taken}):
            raise errors.DuplicateLimit("user_limit")
        _insert(session, new_limits, [rows[key].id for key in keys])
        history.write(ctx, session, [history.created(limit) for limit in new_limits])
    return new_limits


@db.retry_writes
def get(ctx: Context, id_: str) -> UserLimit:
    """Return a user's limit.

    :raises errors.UserLimitNotFound: there is none of that id.
    """
    with db.read_once(ctx) as session:
        return from_row(_find(session, id_))


@db.retry_writes
def list_(
    ctx: Context, filters: Sequence[Filter] = (), *, marker: str | None = None,
    limit: int | None = None,
) -> list[UserLimit]:
    """Return the limits of users that match all filters, in the order of creation.

    :param marker: the id of the last limit of the previous page.
    :param limit: how many at most.
    :raises errors.UnknownMarker: there is no such limit.
    """
    return [from_row(row) for row in queries.list_(
        ctx, LIST_QUERY, filters, marker=marker, limit=limit)]


@db.retry_writes
def update(ctx: Context, id_: str, changes: Mapping[str, Any]) -> UserLimit:
    """Update a user's limit; return it.

    :param changes: of resource_limit, description.
    :raises errors.UserLimitNotFound: there is none of that id.
    :raises errors.InvalidLimit: a value is invalid.
    """
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        row = _find(session, id_)
        before = from_row(row)
        after = _changed(before, changes)
        if after == before:
            return before
        session.execute(_UPDATE, {"of_id": row.id, "new_value": after.resource_limit,
                                  "new_description": after.description})
        history.write(ctx, session, [history.updated(before, after)])
    return after


@db.retry_writes
def delete(ctx: Context, id_: str) -> None:
    """Delete a user's limit.

    :raises errors.UserLimitNotFound: there is none of that id.
    """
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        row = _find(session, id_)
        session.execute(_DELETE, {"of_id": row.id})
        history.write(ctx, session, [history.deleted(from_row(row))])


def from_row(row: sa.Row[Any]) -> UserLimit:
    """Return the record of a row of ``ALL``."""
    return UserLimit(
        row.uuid, row.project_id, row.user_id, row.service_id, regions.id_(row.region_key),
        row.resource_name, row.resource_limit, row.description)


def _find(session: Session, id_: str) -> sa.Row[Any]:
    row = queries.by_id(session, _BY_ID, id_)
    if row is None:
        raise errors.UserLimitNotFound(id_)
    return row


def _insert(
    session: Session, new_limits: Sequence[UserLimit], registered_ids: Sequence[int]
) -> None:
    try:
        session.execute(_INSERT, [
            {
                "uuid": limit.id, "registered_limit_id": registered_id,
                "project_id": limit.project_id, "user_id": limit.user_id,
                "resource_limit": limit.resource_limit, "description": limit.description,
            }
            for limit, registered_id in zip(new_limits, registered_ids, strict=True)])
    except db_exception.DBDuplicateEntry:
        # Ids that differ in trailing blanks are equal on MySQL.
        raise errors.DuplicateLimit("user_limit") from None


def _changed(before: UserLimit, changes: Mapping[str, Any]) -> UserLimit:
    value, description = before.resource_limit, before.description
    if "resource_limit" in changes:
        value = inputs.parse_value(changes, "resource_limit")
    if "description" in changes:
        description = inputs.parse_description(changes)
    return dataclasses.replace(before, resource_limit=value, description=description)
