"""The largest consumers of projects, from our allocations and nova's API database."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.cells import tables as cell_tables
from placement_core.cells.databases import CellDatabases
from placement_core.context import Context
from placement_core.db import lists, texts
from placement_core.placement import tables
from placement_core.plugin_api.counting import CONSUMERS, INSTANCES

_consumers, _projects, _users, _allocations, _classes = (
    tables.consumers, tables.projects, tables.users, tables.allocations,
    tables.resource_classes)
_mappings = cell_tables.instance_mappings


@dataclasses.dataclass(frozen=True, slots=True)
class TopConsumer:
    """A consumer (an instance), and its amount of the requested units."""

    uuid: str
    project_id: str
    amount: int


def find_largest(
    ctx: Context, cells: CellDatabases, project_ids: Collection[str], units: Collection[str],
    *, most: int, user_id: str | None = None,
) -> list[TopConsumer]:
    """Return the consumers with the largest amounts of some units, the largest first.

    Each counts as one consumer or instance, so by these units the youngest come first. If
    resource classes are counted too, their amounts decide.

    :param user_id: only this user's consumers.
    """
    classes = sorted(set(units) - {CONSUMERS, INSTANCES})
    parameters: dict[str, Any] = {
        "project_ids": sorted(filter(texts.is_storable, project_ids)), "most": most}
    if user_id is not None:
        parameters["user_id"] = user_id
    if classes:
        parameters["classes"] = classes
        rows = _fetch(ctx, _of_classes, parameters)
    elif CONSUMERS in units:
        rows = _fetch(ctx, _of_consumers, parameters)
    else:
        rows = _fetch(cells.api(ctx), _of_instances, parameters)
    return [TopConsumer(row.uuid, row.project_id, int(row.amount)) for row in rows]


@db.retry_writes
def _fetch(ctx: Context, make: Any, parameters: dict[str, Any]) -> Sequence[sa.Row[Any]]:
    with db.read_once(ctx) as session:
        return session.execute(make(of_user="user_id" in parameters), parameters).all()


def _select_consumers(amount: sa.ColumnElement[Any], *, of_user: bool) -> sa.Select[Any]:
    statement = (
        sa.select(_consumers.c.uuid, _projects.c.external_id.label("project_id"),
                  amount.label("amount"))
        .select_from(_consumers)
        .join(_projects, _projects.c.id == _consumers.c.project_id)
        .where(lists.among_many(_projects.c.external_id, "project_ids"))
        .limit(sa.bindparam("most", type_=sa.Integer)))
    if of_user:
        statement = statement.join(_users, _users.c.id == _consumers.c.user_id).where(
            _users.c.external_id == sa.bindparam("user_id"))
    return statement


@functools.cache
def _of_classes(*, of_user: bool) -> sa.Select[Any]:
    amount = sa.func.sum(_allocations.c.used)
    return (
        _select_consumers(amount, of_user=of_user)
        .join(_allocations, _allocations.c.consumer_id == _consumers.c.uuid)
        .join(_classes, _classes.c.id == _allocations.c.resource_class_id)
        .where(_classes.c.name.in_(sa.bindparam("classes", expanding=True)))
        .group_by(_consumers.c.uuid, _projects.c.external_id)
        .order_by(amount.desc(), _consumers.c.uuid))


@functools.cache
def _of_consumers(*, of_user: bool) -> sa.Select[Any]:
    return _select_consumers(sa.literal_column("1"), of_user=of_user).order_by(
        _consumers.c.id.desc())


@functools.cache
def _of_instances(*, of_user: bool) -> sa.Select[Any]:
    statement = sa.select(
        _mappings.c.instance_uuid.label("uuid"), _mappings.c.project_id,
        sa.literal_column("1").label("amount"),
    ).where(
        _mappings.c.queued_for_delete == sa.false(),
        lists.among_many(_mappings.c.project_id, "project_ids"),
    ).order_by(_mappings.c.id.desc()).limit(sa.bindparam("most", type_=sa.Integer))
    if of_user:
        statement = statement.where(_mappings.c.user_id == sa.bindparam("user_id"))
    return statement
