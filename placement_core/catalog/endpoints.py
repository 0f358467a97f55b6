"""Endpoints: the URLs of services."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

import sqlalchemy as sa

from placement_core import db
from placement_core.catalog import errors, rows, tables
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.db import Session
from placement_core.plugin_api.catalog import Endpoint

INTERFACES = ("public", "internal", "admin")

_KIND = "endpoint"
_NEVER_EMPTY = ("url", "region_id")

_endpoints = tables.catalog_endpoints


def check(endpoint: Endpoint) -> None:
    """Refuse values that no endpoint can have; nothing is read.

    :raises errors.InvalidValue: the id, the interface or a text is not valid.
    """
    rows.check_id(_KIND, endpoint.id)
    _check_values(dataclasses.asdict(endpoint))


class EndpointChanges(TypedDict, total=False):
    """The fields of an endpoint that can be changed."""

    service_id: str
    interface: str
    url: str
    region_id: str | None
    enabled: bool


@db.retry_writes
def create(
    ctx: Context, *, service_id: str, interface: str, url: str, region_id: str | None = None,
    enabled: bool = True, id: str | None = None,  # noqa: A002  (the field's name)
) -> Endpoint:
    """Create an endpoint.

    :param interface: one of ``INTERFACES``.
    :param id: a random id if None.
    :raises errors.Duplicate: the id is taken.
    :raises errors.UnknownReference: the service or the region does not exist.
    :raises errors.InvalidValue: the id, the interface or a text is not valid.
    """
    endpoint = Endpoint(
        id if id is not None else rows.new_id(), service_id, interface, url, region_id, enabled)
    check(endpoint)
    values = dataclasses.asdict(endpoint)
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        _require(session, values)
        rows.insert(session, _endpoints, _KIND, values, clash=f"id {endpoint.id}")
    return endpoint


@db.retry_writes
def get(ctx: Context, id_: str) -> Endpoint:
    """Return an endpoint.

    :raises errors.NotInCatalog: no endpoint has this id.
    """
    with db.read_once(ctx) as session:
        return _make_record(rows.get(session, _endpoints, _KIND, id_))


@db.retry_writes
def list_(
    ctx: Context, *, service_id: str | None = None, region_id: str | None = None,
    interface: str | None = None,
) -> list[Endpoint]:
    """Return the endpoints of a service, a region and an interface; None matches any."""
    with db.read_once(ctx) as session:
        endpoint_rows = rows.list_matching(
            session, _endpoints, ["id"],
            {"service_id": service_id, "region_id": region_id, "interface": interface})
    return [_make_record(row) for row in endpoint_rows]


@db.retry_writes
def update(ctx: Context, id_: str, **changes: Unpack[EndpointChanges]) -> Endpoint:
    """Update an endpoint.

    :raises errors.NotInCatalog: no endpoint has this id.
    :raises errors.UnknownReference: the service or the region does not exist.
    :raises errors.InvalidValue: the interface or a text is not valid.
    """
    _check_values(changes)
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        rows.get(session, _endpoints, _KIND, id_)
        _require(session, changes)
        rows.update(session, _endpoints, _KIND, id_, changes)
        return _make_record(rows.get(session, _endpoints, _KIND, id_))


@db.retry_writes
def delete(ctx: Context, id_: str) -> None:
    """Delete an endpoint.

    :raises errors.NotInCatalog: no endpoint has this id.
    """
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        rows.get(session, _endpoints, _KIND, id_)
        rows.delete(session, _endpoints, "id", id_)


def _check_values(values: Mapping[str, Any]) -> None:
    rows.check(_KIND, _endpoints, values, never_empty=_NEVER_EMPTY)
    if values.get("interface", INTERFACES[0]) not in INTERFACES:
        raise errors.InvalidValue(_KIND, "interface", f"one of {', '.join(INTERFACES)}")


def _require(session: Session, values: Mapping[str, Any]) -> None:
    if "service_id" in values:
        rows.require(session, tables.catalog_services, "service", values["service_id"])
    if values.get("region_id") is not None:
        rows.require(session, tables.catalog_regions, "region", values["region_id"])


def _make_record(row: sa.Row[Any]) -> Endpoint:
    return Endpoint(**row._mapping)
