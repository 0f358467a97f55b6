"""Limits of projects and domains, which override the registered defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session, lists
from placement_core.limits import (
    errors,
    hierarchy,
    history,
    inputs,
    queries,
    references,
    regions,
    registered,
    tables,
)
from placement_core.limits.records import Filter, Limit
from placement_core.plugin_api.catalog import CatalogDriver, Node
from placement_core.plugin_api.enforcement import EnforcementModel

_registered, _limits = tables.registered_limits, tables.limits

#: Limits with the service, region and name of their registered limit.
#: ``from_row`` relies on the order of the columns up to ``description``.
ALL = sa.select(
    _limits.c.uuid, _limits.c.node_id, _limits.c.is_domain, _registered.c.service_id,
    _registered.c.region_key, _registered.c.resource_name, _limits.c.resource_limit,
    _limits.c.description, _limits.c.id, _limits.c.registered_limit_id,
    _registered.c.default_limit,
).join(_registered, _registered.c.id == _limits.c.registered_limit_id)
_BY_ID = ALL.where(_limits.c.uuid == sa.bindparam("id_"))
_INSERT = sa.insert(_limits).inline()
_UPDATE = (
    sa.update(_limits).where(_limits.c.id == sa.bindparam("of_id"))
    .values(resource_limit=sa.bindparam("new_value"), description=sa.bindparam("new_description")))
_DELETE = sa.delete(_limits).where(_limits.c.id == sa.bindparam("of_id"))
_EXISTING = sa.select(_limits.c.registered_limit_id, _limits.c.node_id).where(
    lists.among_many(_limits.c.registered_limit_id, "registered_ids"),
    lists.among_many(_limits.c.node_id, "node_ids"))

LIST_QUERY = queries.ListQuery(ALL, _limits, {
    "service_id": queries.Field(_registered.c.service_id),
    "region_id": queries.Field(_registered.c.region_key, _registered.c.region_key != ""),
    "resource_name": queries.Field(_registered.c.resource_name),
    "project_id": queries.Field(_limits.c.node_id, _limits.c.is_domain.is_(False)),
    "domain_id": queries.Field(_limits.c.node_id, _limits.c.is_domain.is_(True)),
}, _limits.c.node_id)


@dataclasses.dataclass(frozen=True, slots=True)
class NewLimit:
    """A limit to create.

    :ivar what: how the item names its node: ``project`` or ``domain``.
    """

    id: str
    key: inputs.Key
    what: str
    node_id: str
    value: int
    description: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class _Subjects:
    """The nodes of new limits in the catalog.

    :ivar nodes: {id: the node that a limit is for}.
    :ivar forest: the trees of these nodes; None if the model is not hierarchical.
    """

    nodes: Mapping[str, Node]
    forest: references.Forest | None


def parse(item: Mapping[str, Any]) -> NewLimit:
    """Return the new limit that an item describes.

    :raises errors.InvalidLimit: it is invalid.
    """
    return NewLimit(
        inputs.parse_id(item), inputs.parse_key(item), *inputs.parse_node(item),
        inputs.parse_value(item, "resource_limit"), inputs.parse_description(item))


@db.retry_writes
def create_many(
    ctx: Context, catalog: CatalogDriver, model: EnforcementModel,
    items: Sequence[Mapping[str, Any]],
) -> list[Limit]:
    """Create limits, all or nothing; return them in the order of the items.

    The limits of one call are checked together: a parent's new limit counts, wherever it is
    in the list.

    :param items: project_id or domain_id, service_id, resource_name,
        resource_limit; may have region_id, description, and the id of a limit that is copied.
        A project_id may name a domain.
    :raises errors.InvalidLimit: an item is invalid.
    :raises errors.UnknownLimitReference: a service, region, project or domain does not exist.
    :raises errors.NoRegisteredLimit: its resource was never registered.
    :raises errors.DuplicateLimit: a limit exists already, or is there twice.
    :raises errors.HierarchyClash: one does not fit into its tree.
    """
    if not items:
        return []
    new_limits = [parse(item) for item in items]
    keys = [new.key for new in new_limits]

    def read_subjects() -> _Subjects:
        references.check(ctx, catalog, keys)
        nodes = references.resolve(ctx, catalog, [(new.what, new.node_id) for new in new_limits])
        return _Subjects(nodes, _forest(ctx, catalog, model, nodes))

    with references.open_write(ctx, catalog, read_subjects) as (session, subjects):
        rows = registered.require_rows(session, keys)
        identities = [(rows[new.key].id, new.node_id) for new in new_limits]
        _refuse_duplicates(session, identities)
        if subjects.forest is not None:
            changes: dict[hierarchy.Resource, dict[str, int | None]] = {}
            for new in new_limits:
                resource = _resource(rows[new.key].id, rows[new.key])
                changes.setdefault(resource, {})[new.node_id] = new.value
            hierarchy.check(session, model, subjects.forest, changes)
        limits = [_record(new, subjects.nodes[new.node_id]) for new in new_limits]
        _insert(session, limits, identities)
        history.write(ctx, session, [history.created(limit) for limit in limits])
    return limits


@db.retry_writes
def get(ctx: Context, id_: str) -> Limit:
    """Return a limit.

    :raises errors.LimitNotFound: there is none of that id.
    """
    with db.read_once(ctx) as session:
        return from_row(_find(session, id_))


@db.retry_writes
def list_(
    ctx: Context, filters: Sequence[Filter] = (), *, visible: Collection[str] | None = None,
    marker: str | None = None, limit: int | None = None,
) -> list[Limit]:
    """Return the limits that match all filters, in the order of creation.

    :param visible: ids of the projects and domains whose limits may be seen; None: all.
    :param marker: the id of the last limit of the previous page.
    :param limit: how many at most.
    :raises errors.UnknownMarker: there is no such limit.
    """
    return [from_row(row) for row in queries.list_(
        ctx, LIST_QUERY, filters, visible=visible, marker=marker, limit=limit)]


@db.retry_writes
def update(
    ctx: Context, catalog: CatalogDriver, model: EnforcementModel, id_: str,
    changes: Mapping[str, Any],
) -> Limit:
    """Update a limit; return it. Current usage is not checked.

    :param changes: of resource_limit, description.
    :raises errors.LimitNotFound: there is none of that id.
    :raises errors.InvalidLimit: a value is invalid.
    :raises errors.HierarchyClash: it would no longer fit into its tree.
    """
    with references.open_write(
            ctx, catalog, lambda: _forest_of(ctx, catalog, model, id_)) as (session, forest):
        row = _find(session, id_)
        before = from_row(row)
        after = _changed(before, changes)
        if after == before:
            return before
        if forest is not None and after.resource_limit != before.resource_limit:
            hierarchy.check(session, model, forest, {
                _resource(row.registered_limit_id, row): {row.node_id: after.resource_limit}})
        session.execute(_UPDATE, {"of_id": row.id, "new_value": after.resource_limit,
                                  "new_description": after.description})
        history.write(ctx, session, [history.updated(before, after)])
    return after


@db.retry_writes
def delete(ctx: Context, catalog: CatalogDriver, model: EnforcementModel, id_: str) -> None:
    """Delete a limit, so that the registered default applies.

    :raises errors.LimitNotFound: there is none of that id.
    :raises errors.HierarchyClash: limits below it would no longer fit into the tree.
    """
    with references.open_write(
            ctx, catalog, lambda: _forest_of(ctx, catalog, model, id_)) as (session, forest):
        row = _find(session, id_)
        if forest is not None:
            hierarchy.check(session, model, forest, {
                _resource(row.registered_limit_id, row): {row.node_id: None}})
        session.execute(_DELETE, {"of_id": row.id})
        history.write(ctx, session, [history.deleted(from_row(row))])


def from_row(row: sa.Row[Any]) -> Limit:
    """Return the record of a row of ``ALL``."""
    # By position: lists have thousands of rows, and access by name costs more than the rest.
    values: Sequence[Any] = row
    uuid, node_id, is_domain, service_id, region_key, name, value, description, *_ = values
    return Limit(
        uuid, None if is_domain else node_id, node_id if is_domain else None, service_id,
        regions.id_(region_key), name, value, description)


def _find(session: Session, id_: str) -> sa.Row[Any]:
    row = queries.by_id(session, _BY_ID, id_)
    if row is None:
        raise errors.LimitNotFound(id_)
    return row


def _forest(
    ctx: Context, catalog: CatalogDriver, model: EnforcementModel, node_ids: Collection[str]
) -> references.Forest | None:
    return references.forest(ctx, catalog, node_ids) if model.hierarchical else None


def _forest_of(
    ctx: Context, catalog: CatalogDriver, model: EnforcementModel, id_: str
) -> references.Forest | None:
    """Return the tree of a limit's node; the node of a limit never changes."""
    if not model.hierarchical:
        return None
    with db.read_once(ctx) as session:
        node_id = _find(session, id_).node_id
    return _forest(ctx, catalog, model, [node_id])


def _resource(registered_limit_id: int, row: sa.Row[Any]) -> hierarchy.Resource:
    return hierarchy.Resource(
        registered_limit_id, row.service_id, regions.id_(row.region_key), row.resource_name,
        row.default_limit)


def _refuse_duplicates(session: Session, identities: Sequence[tuple[int, str]]) -> None:
    """Refuse limits that exist already, or are there twice.

    :param identities: (key of the registered limit, node id) of each.
    """
    existing = session.execute(_EXISTING, {
        "registered_ids": sorted({registered_id for registered_id, _ in identities}),
        "node_ids": sorted({node_id for _, node_id in identities})})
    if (len(set(identities)) < len(identities)
            or set(identities) & {tuple(row) for row in existing}):
        raise errors.DuplicateLimit("limit")


def _insert(
    session: Session, limits: Sequence[Limit], identities: Sequence[tuple[int, str]]
) -> None:
    try:
        session.execute(_INSERT, [
            {
                "uuid": limit.id, "registered_limit_id": registered_id, "node_id": node_id,
                "is_domain": limit.domain_id is not None, "resource_limit": limit.resource_limit,
                "description": limit.description,
            }
            for limit, (registered_id, node_id) in zip(limits, identities, strict=True)])
    except db_exception.DBDuplicateEntry:
        # The id of a copied limit is taken.
        raise errors.DuplicateLimit("limit") from None


def _record(new: NewLimit, node: Node) -> Limit:
    return Limit(
        new.id, None if node.is_domain else node.id, node.id if node.is_domain else None,
        new.key.service_id, new.key.region_id, new.key.resource_name, new.value,
        new.description)


def _changed(before: Limit, changes: Mapping[str, Any]) -> Limit:
    value, description = before.resource_limit, before.description
    if "resource_limit" in changes:
        value = inputs.parse_value(changes, "resource_limit")
    if "description" in changes:
        description = inputs.parse_description(changes)
    return dataclasses.replace(before, resource_limit=value, description=description)
