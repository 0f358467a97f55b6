"""Usages: how much is used of a provider, or by a project.

Neither sums allocations: ``inventories.used`` and the usage counters are kept
exact by the writes. Source: spec placement_api §3.6 and §3.11.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import PreparedRead, texts
from placement_core.placement import lookups, records, tables
from placement_core.placement.allocations import usage_counters

#: As ``consumer_type``: consumers of every type, and those without one.
ALL_TYPES = "all"

_inventories, _classes, _counters = (
    tables.inventories, tables.resource_classes, tables.usage_counters)
_projects, _users, _types = tables.projects, tables.users, tables.consumer_types

_OF_PROVIDER = (
    sa.select(_classes.c.name, _inventories.c.used)
    .join(_classes, _classes.c.id == _inventories.c.resource_class_id)
    .where(_inventories.c.resource_provider_id == sa.bindparam("id"))
    .order_by(_classes.c.id)
)


def _read_project(*, user: bool) -> sa.Select[Any]:
    """Build what everybody in a project uses, or one user in it."""
    counted = sa.select(
        _counters.c.consumer_type_id, _counters.c.resource_class_id, _counters.c.used)
    of_project = _projects.c.external_id == sa.bindparam("project")
    parts = [
        counted.join(_projects, _counters.c.project_id == _projects.c.id)
        .join(_users, _users.c.id == _counters.c.user_id)
        .where(of_project, _users.c.external_id == sa.bindparam("user")),
    ] if user else [
        counted.join(_projects, _counters.c.project_id == part.number(_projects.c.id))
        .where(of_project, part.condition)
        for part in usage_counters.PARTS]
    rows = sa.union_all(*parts).subquery()
    used = sa.func.sum(rows.c.used)
    return (
        sa.select(_types.c.name.label("consumer_type"), _classes.c.name.label("resource_class"),
                  rows.c.resource_class_id, used.label("used"))
        .select_from(rows)
        .outerjoin(_types, _types.c.id == rows.c.consumer_type_id)
        .outerjoin(_classes, _classes.c.id == rows.c.resource_class_id)
        .group_by(_types.c.name, _classes.c.name, rows.c.resource_class_id)
        .having(used != 0)
        .order_by(_types.c.name, rows.c.resource_class_id))


_OF_USER = PreparedRead(_read_project(user=True))
_OF_ANYBODY = PreparedRead(_read_project(user=False))


@db.retry_writes
def for_provider(ctx: Context, uuid: str) -> records.ProviderUsages:
    """Return what is used of each class that the provider has inventory of.

    :raises errors.ProviderNotFound:
    """
    with db.read(ctx) as session:
        provider = lookups.get_provider(session, uuid)
        usages = session.execute(_OF_PROVIDER, {"id": provider.id})
        return records.ProviderUsages(
            provider.generation, {row.name: row.used for row in usages})


@db.retry_writes
def for_project(
    ctx: Context, project_id: str, *, user_id: str | None = None,
    consumer_type: str = ALL_TYPES,
) -> list[records.TypeUsage]:
    """Return what a project (or one user in it) uses, one record for each type.

    :param consumer_type: ``ALL_TYPES``, ``records.UNKNOWN_TYPE`` or the name of one type.
    :returns: no record for a type without consumers; empty for an unknown project.
    """
    if not texts.is_storable(project_id) or not texts.is_storable(user_id or ""):
        return []
    counter_rows = (
        _OF_ANYBODY.fetch(ctx, {"project": project_id}) if user_id is None
        else _OF_USER.fetch(ctx, {"project": project_id, "user": user_id}))
    by_type: dict[str | None, tuple[dict[str, int], list[int]]] = {}
    for type_name, class_name, class_id, used in counter_rows:
        resources, consumers = by_type.setdefault(type_name, ({}, []))
        if class_id == tables.CONSUMERS_ID:
            consumers.append(int(used))
        else:
            resources[class_name] = int(used)
    type_names = {ALL_TYPES: by_type.keys(), records.UNKNOWN_TYPE: {None}}.get(
        consumer_type, {consumer_type})
    return [
        records.TypeUsage(name, sum(consumers), resources)
        for name, (resources, consumers) in by_type.items() if name in type_names
    ]
