"""Deletes catalog records with their limits, and finds limits whose subject is gone.

Records of our own catalog and their limits are deleted in one transaction, so that none is
left over. A remote catalog deletes without notice: ``audit`` finds the limits that are left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from placement_core import db
from placement_core.catalog import domains, projects, regions, services, tree
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.db import Session
from placement_core.limits import history, limits, registered, tables, users
from placement_core.limits.records import AnyLimit, Kind, Leftover
from placement_core.plugin_api.catalog import CatalogDriver

T = TypeVar("T")

_registered, _limits, _user_limits = (
    tables.registered_limits, tables.limits, tables.user_limits)

#: {table: (the query of its rows, the function that makes a record of a row)}.
_KINDS: dict[sa.Table, tuple[sa.Select[Any], Callable[[sa.Row[Any]], AnyLimit]]] = {
    _user_limits: (users.ALL, users.from_row),
    _limits: (limits.ALL, limits.from_row),
    _registered: (sa.select(_registered), registered.from_row),
}
#: How many rows, or nodes, one statement names.
_BATCH = 500


@db.retry_writes
def delete_project(ctx: Context, id_: str) -> None:
    """Delete a project that has none below it, with its limits.

    :raises errors.NotInCatalog: (of the catalog room) there is none of that id.
    :raises errors.InUse: likewise: other projects are below it.
    """
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        projects.delete(ctx, id_)
        _remove_of_nodes(ctx, session, [id_])


@db.retry_writes
def delete_domain(ctx: Context, id_: str) -> None:
    """Delete a domain that is disabled, with its projects and all their limits.

    :raises errors.NotInCatalog: (of the catalog room) there is none of that id.
    :raises errors.StillEnabled: likewise: it is enabled.
    """
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        nodes = tree.subtree(session, id_)
        domains.delete(ctx, id_)
        _remove_of_nodes(ctx, session, [node.id for node in nodes])


@db.retry_writes
def delete_service(ctx: Context, id_: str) -> None:
    """Delete a service, with what it registered and every limit of that.

    :raises errors.NotInCatalog: (of the catalog room) there is none of that id.
    """
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        services.delete(ctx, id_)
        _remove_of_registered(ctx, session, _registered.c.service_id, [id_])


@db.retry_writes
def delete_region(ctx: Context, id_: str) -> None:
    """Delete a region, with what is registered in it and every limit of that.

    :raises errors.NotInCatalog: (of the catalog room) there is none of that id.
    :raises errors.InUse: likewise: it has endpoints, or regions below it.
    """
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        regions.delete(ctx, id_)
        _remove_of_registered(ctx, session, _registered.c.region_key, [id_])


@db.retry_writes
def audit(ctx: Context, catalog: CatalogDriver) -> list[Leftover]:
    """Return the limits whose service, region, project or domain no longer exists.

    They come by kind, registered limits first, and in the order of creation.

    The catalog is read last: what a limit refers to existed when it was written.

    :raises errors.Unavailable: the catalog does not answer.
    """
    with db.read(ctx) as session:
        stored = [record(row) for table, (select, record) in reversed(_KINDS.items())
                  for row in session.execute(select.order_by(table.c.id))]
    lookup = _CatalogLookup(ctx, catalog)
    leftovers = (_leftover(limit, lookup) for limit in stored)
    return [leftover for leftover in leftovers if leftover is not None]


def repair(ctx: Context, catalog: CatalogDriver) -> list[Leftover]:
    """Delete the limits that ``audit`` finds; return them.

    :raises errors.Unavailable: the catalog does not answer; nothing was deleted.
    """
    leftovers = audit(ctx, catalog)
    if leftovers:
        _remove_leftovers(ctx, leftovers)
    return leftovers


# Deleting -----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _StoredLimit:
    """A row of any kind: its table, its key and its record."""

    table: sa.Table
    id: int
    limit: AnyLimit


def _remove_of_nodes(ctx: Context, session: Session, node_ids: Sequence[str]) -> None:
    _remove(ctx, session, [
        *_read(session, _user_limits, _user_limits.c.project_id, node_ids),
        *_read(session, _limits, _limits.c.node_id, node_ids)])


def _remove_of_registered(
    ctx: Context, session: Session, column: sa.Column[Any], values: Sequence[str]
) -> None:
    """Delete the registered limits that have one of some values, and their limits."""
    _remove(ctx, session, [
        stored for table in _KINDS for stored in _read(session, table, column, values)])


@db.retry_writes
def _remove_leftovers(ctx: Context, leftovers: Sequence[Leftover]) -> None:
    """Delete the limits that ``audit`` found, if they still exist."""
    ids: dict[Kind, list[str]] = {"registered_limit": [], "limit": [], "user_limit": []}
    for leftover in leftovers:
        ids[leftover.kind].append(leftover.limit_id)
    with db.write(ctx) as session:
        revisions.increment(session, revisions.LIMITS)
        _remove_of_registered(ctx, session, _registered.c.uuid, ids["registered_limit"])
        _remove(ctx, session, [
            *_read(session, _user_limits, _user_limits.c.uuid, ids["user_limit"]),
            *_read(session, _limits, _limits.c.uuid, ids["limit"])])


def _read(
    session: Session, table: sa.Table, column: sa.Column[Any], values: Sequence[str]
) -> list[_StoredLimit]:
    """Return the rows of a kind whose column has one of some values."""
    select, record = _KINDS[table]
    statement = select.where(column.in_(sa.bindparam("values", expanding=True)))
    return [
        _StoredLimit(table, row.id, record(row))
        for batch in _batches(values)
        for row in session.execute(statement.order_by(table.c.id), {"values": batch})]


def _remove(ctx: Context, session: Session, stored_limits: Sequence[_StoredLimit]) -> None:
    """Delete rows, those that refer to others first, and record it in the history."""
    for table in _KINDS:
        statement = sa.delete(table).where(table.c.id.in_(sa.bindparam("ids", expanding=True)))
        for batch in _batches([stored.id for stored in stored_limits if stored.table is table]):
            session.execute(statement, {"ids": batch})
    history.write(ctx, session, [history.deleted(stored.limit) for stored in stored_limits])


def _batches(values: Sequence[T]) -> Iterator[list[T]]:
    for start in range(0, len(values), _BATCH):
        yield list(values[start:start + _BATCH])


# Finding leftovers --------------------------------------------------------------


class _CatalogLookup:
    """Which catalog records exist: read from lists first, then one by one.

    A remote catalog may truncate a list. So a record that is missing from it is
    requested by its id before it counts as gone.
    """

    def __init__(self, ctx: Context, catalog: CatalogDriver) -> None:
        self._single: dict[str, Callable[[str], object | None]] = {
            "service": lambda id_: catalog.service(ctx, id_),
            "region": lambda id_: catalog.region(ctx, id_),
            "domain": lambda id_: catalog.domain(ctx, id_),
            "project": lambda id_: catalog.project(ctx, id_),
        }
        self._exist = {
            **{("service", each.id): True for each in catalog.services(ctx)},
            **{("region", each.id): True for each in catalog.regions(ctx)},
            **{("domain", each.id): True for each in catalog.domains(ctx)},
            **{("project", each.id): True for each in catalog.projects(ctx)},
        }

    def exists(self, what: str, id_: str) -> bool:
        """Say whether a service, region, domain or project exists."""
        if (what, id_) not in self._exist:
            self._exist[what, id_] = self._single[what](id_) is not None
        return self._exist[what, id_]


def _leftover(limit: AnyLimit, lookup: _CatalogLookup) -> Leftover | None:
    """Return a limit with the first reference that does not exist; None: all exist."""
    project_id = getattr(limit, "project_id", None)
    domain_id = getattr(limit, "domain_id", None)
    for what, id_ in (("service", limit.service_id), ("region", limit.region_id),
                      ("domain", domain_id), ("project", project_id)):
        if id_ is not None and not lookup.exists(what, id_):
            return Leftover(
                history.kind(limit), limit.id, limit.service_id, limit.region_id,
                limit.resource_name, project_id, domain_id, getattr(limit, "user_id", None),
                what, id_)
    return None
