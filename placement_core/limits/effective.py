"""The limits that decisions on claims read, with one statement for each query."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from placement_core import amounts, db
from placement_core.amounts import Amount
from placement_core.context import Context
from placement_core.db import lists
from placement_core.limits import regions, tables
from placement_core.plugin_api.counting import Owner
from placement_core.plugin_api.limits import EffectiveLimits, RegisteredName

_registered, _limits, _user_limits = (
    tables.registered_limits, tables.limits, tables.user_limits)

_OF_SERVICE = (
    _registered.c.service_id == sa.bindparam("service_id"),
    _registered.c.region_key == sa.bindparam("region_key"))


def _effective(*of_nodes: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(
        _registered.c.resource_name, _registered.c.default_limit, _limits.c.node_id,
        _limits.c.resource_limit,
    ).select_from(_registered.outerjoin(_limits, sa.and_(
        _limits.c.registered_limit_id == _registered.c.id, *of_nodes))).where(*_OF_SERVICE)


_EFFECTIVE = _effective(lists.among(_limits.c.node_id, "node_ids"))
_EFFECTIVE_OF_ALL = _effective()
_OF_USER = sa.select(_registered.c.resource_name, _user_limits.c.resource_limit).join(
    _user_limits, _user_limits.c.registered_limit_id == _registered.c.id,
).where(
    *_OF_SERVICE, _user_limits.c.project_id == sa.bindparam("project_id"),
    _user_limits.c.user_id == sa.bindparam("user_id"))

_OF_ALL_USERS = sa.select(
    _registered.c.resource_name, _user_limits.c.project_id, _user_limits.c.user_id,
    _user_limits.c.resource_limit,
).join(_user_limits, _user_limits.c.registered_limit_id == _registered.c.id).where(*_OF_SERVICE)

_NAMES = sa.select(
    _registered.c.service_id, _registered.c.region_key, _registered.c.resource_name,
).order_by(_registered.c.id)


@db.retry_writes
def read(
    ctx: Context, node_ids: Collection[str], *, service_id: str, region_id: str | None
) -> EffectiveLimits:
    """Return the defaults of a service in a region, and the limits of some nodes.

    :param node_ids: ids of projects and domains.
    :param region_id: None is a value of its own, not "any".
    """
    with db.read_once(ctx) as session:
        return _read(session.execute(_EFFECTIVE, {
            "service_id": service_id, "region_key": regions.key(region_id),
            "node_ids": sorted(node_ids)}))


@db.retry_writes
def read_all(ctx: Context, *, service_id: str, region_id: str | None) -> EffectiveLimits:
    """Return the defaults of a service in a region, and the limits of all nodes."""
    with db.read_once(ctx) as session:
        return _read(session.execute(_EFFECTIVE_OF_ALL, {
            "service_id": service_id, "region_key": regions.key(region_id)}))


def _read(rows: Iterable[sa.Row[Any]]) -> EffectiveLimits:
    defaults: dict[str, Amount] = {}
    overrides: dict[str, dict[str, Amount]] = {}
    for row in rows:
        defaults[row.resource_name] = amounts.from_wire(row.default_limit)
        if row.node_id is not None:
            overrides.setdefault(row.node_id, {})[row.resource_name] = amounts.from_wire(
                row.resource_limit)
    return EffectiveLimits(defaults, overrides)


@db.retry_writes
def read_user_limits(
    ctx: Context, project_id: str, user_id: str, *, service_id: str, region_id: str | None
) -> Mapping[str, Amount]:
    """Return the limits of a user in a project, by resource name; most users have none."""
    with db.read_once(ctx) as session:
        return {
            row.resource_name: amounts.from_wire(row.resource_limit)
            for row in session.execute(_OF_USER, {
                "service_id": service_id, "region_key": regions.key(region_id),
                "project_id": project_id, "user_id": user_id})}


@db.retry_writes
def list_user_limits(
    ctx: Context, *, service_id: str, region_id: str | None
) -> dict[Owner, dict[str, Amount]]:
    """Return the limits of all users, {(project, user): {resource name: limit}}."""
    limits: dict[Owner, dict[str, Amount]] = {}
    with db.read_once(ctx) as session:
        for row in session.execute(_OF_ALL_USERS, {
                "service_id": service_id, "region_key": regions.key(region_id)}):
            limits.setdefault((row.project_id, row.user_id), {})[row.resource_name] = (
                amounts.from_wire(row.resource_limit))
    return limits


@db.retry_writes
def registered_names(ctx: Context) -> list[RegisteredName]:
    """Return what every service registers, in the order of creation."""
    with db.read_once(ctx) as session:
        return [
            RegisteredName(row.service_id, regions.id_(row.region_key), row.resource_name)
            for row in session.execute(_NAMES)]
