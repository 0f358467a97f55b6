"""Services.

Two services may have the same type and name, as in Keystone.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict, Unpack

import sqlalchemy as sa

from placement_core import db
from placement_core.catalog import rows, tables
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.plugin_api.catalog import Service

_KIND = "service"
_NEVER_EMPTY = ("type",)

_services = tables.catalog_services
_endpoints = tables.catalog_endpoints


def check(service: Service) -> None:
    """Refuse values that no service can have; nothing is read.

    :raises errors.InvalidValue: the id is malformed, or a text is too short or too long, or
        cannot be stored.
    """
    rows.check_id(_KIND, service.id)
    rows.check(_KIND, _services, dataclasses.asdict(service), never_empty=_NEVER_EMPTY)


class ServiceChanges(TypedDict, total=False):
    """The fields of a service that can be changed."""

    type: str
    name: str
    description: str
    enabled: bool


@db.retry_writes
def create(
    ctx: Context, *, service_type: str, name: str = "", description: str = "",
    enabled: bool = True, id: str | None = None,  # noqa: A002  (the field's name)
) -> Service:
    """Create a service.

    :param id: a random id if None.
    :raises errors.Duplicate: the id is taken.
    :raises errors.InvalidValue: the id is malformed, or a text is too short or too long, or
        cannot be stored.
    """
    service = Service(
        id if id is not None else rows.new_id(), service_type, name, description, enabled)
    check(service)
    values = dataclasses.asdict(service)
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        rows.insert(session, _services, _KIND, values, clash=f"id {service.id}")
    return service


@db.retry_writes
def get(ctx: Context, id_: str) -> Service:
    """Return a service.

    :raises errors.NotInCatalog: no service has this id.
    """
    with db.read_once(ctx) as session:
        return _make_record(rows.get(session, _services, _KIND, id_))


@db.retry_writes
def list_(
    ctx: Context, *, service_type: str | None = None, name: str | None = None,
) -> list[Service]:
    """Return the services of a type and a name, ordered by both; None matches any."""
    with db.read_once(ctx) as session:
        service_rows = rows.list_matching(
            session, _services, ["type", "name", "id"], {"type": service_type, "name": name})
    return [_make_record(row) for row in service_rows]


@db.retry_writes
def update(ctx: Context, id_: str, **changes: Unpack[ServiceChanges]) -> Service:
    """Update a service.

    :raises errors.NotInCatalog: no service has this id.
    :raises errors.InvalidValue: a text is too short or too long, or cannot be stored.
    """
    rows.check(_KIND, _services, changes, never_empty=_NEVER_EMPTY)
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        rows.get(session, _services, _KIND, id_)
        rows.update(session, _services, _KIND, id_, changes)
        return _make_record(rows.get(session, _services, _KIND, id_))


@db.retry_writes
def delete(ctx: Context, id_: str) -> None:
    """Delete a service with its endpoints.

    :raises errors.NotInCatalog: no service has this id.
    """
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        rows.get(session, _services, _KIND, id_)
        rows.delete(session, _endpoints, "service_id", id_)
        rows.delete(session, _services, "id", id_)


def _make_record(row: sa.Row[Any]) -> Service:
    return Service(**row._mapping)
