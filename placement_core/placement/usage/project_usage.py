"""What projects use, for those who compare it with limits.

It is read from the usage counters; what is left out is subtracted in the same
statement, so that an answer is of one moment. Source: requirements Q3, design §5.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import PreparedRead, lists, texts
from placement_core.placement import tables
from placement_core.placement.allocations import usage_counters
from placement_core.plugin_api.counting import CONSUMERS, Owner

#: {project: {resource class or CONSUMERS: used}}; what is 0 is not there.
Totals = Mapping[str, Mapping[str, int]]

#: Of more projects than so many, all are asked for: the list would cost more.
_MANY = 1000

_counters, _projects, _users, _classes = (
    tables.usage_counters, tables.projects, tables.users, tables.resource_classes)
_allocations, _consumers, _moves = tables.allocations, tables.consumers, tables.moves


@db.retry_writes
def read(
    ctx: Context, project_ids: Collection[str] | None = None, *, user_id: str | None = None,
    without: Collection[str] = (), moves_once: bool = False,
) -> Totals:
    """Return what projects use, with one statement, inside the transaction of ``ctx``.

    A consumer that moves counts once.

    :param project_ids: of these; None: of all.
    :param user_id: only this user's share.
    :param without: uuids of consumers that shall not count.
    :param moves_once: of what a consumer holds twice while it moves, the larger counts;
        otherwise both do.
    """
    if user_id is not None and not texts.is_storable(user_id):
        return {}
    storable_ids = None
    if project_ids is not None and len(project_ids) <= _MANY:
        storable_ids = sorted({each for each in project_ids if texts.is_storable(each)})
        if not storable_ids:
            return {}
    without_uuids = sorted({each for each in without if texts.is_storable(each)})
    usage_rows = _prepare(
        some=storable_ids is not None, user=user_id is not None,
        without=bool(without_uuids), moves_once=moves_once,
    ).fetch(ctx, {"projects": storable_ids, "user": user_id, "without": without_uuids})
    project_set = None if project_ids is None else set(project_ids)
    totals: dict[str, dict[str, int]] = {}
    for row in usage_rows:
        if project_set is None or row.project in project_set:
            totals.setdefault(row.project, {})[row.name or CONSUMERS] = int(row.used)
    return totals


@db.retry_writes
def read_users(
    ctx: Context, owners: Collection[Owner], *, moves_once: bool = False
) -> Mapping[Owner, Mapping[str, int]]:
    """Return what users use in projects, with one statement.

    :param owners: of these (project, user).
    :param moves_once: as in ``read``.
    :returns: {(project, user): {resource class or CONSUMERS: used}}; what is 0 is not there.
    """
    wanted = {owner for owner in owners if all(map(texts.is_storable, owner))}
    if not wanted:
        return {}
    totals: dict[Owner, dict[str, int]] = {}
    for row in _prepare_users(moves_once=moves_once).fetch(
            ctx, {"users": sorted({user for _, user in wanted})}):
        if (row.project, row.user) in wanted:
            totals.setdefault((row.project, row.user), {})[row.name or CONSUMERS] = int(row.used)
    return totals


@functools.cache
def _prepare_users(*, moves_once: bool) -> PreparedRead:
    def part(owner: Any, used: Any) -> sa.Select[Any]:
        return sa.select(
            _projects.c.external_id.label("project"), _users.c.external_id.label("user"),
            owner.c.resource_class_id.label("class_id"), used.label("used"),
        ).select_from(owner).join(_projects, owner.c.project_id == _projects.c.id).join(
            _users, _users.c.id == owner.c.user_id,
        ).where(lists.among_many(_users.c.external_id, "users"))

    moved = part(_moves, -_moves.c.used)
    if not moves_once:
        moved = moved.where(_moves.c.resource_class_id == tables.CONSUMERS_ID)
    parts = sa.union_all(part(_counters, _counters.c.used), moved).subquery("parts")
    used = sa.func.sum(parts.c.used)
    return PreparedRead(
        sa.select(parts.c.project, parts.c.user, _classes.c.name, used.label("used"))
        .outerjoin(_classes, _classes.c.id == parts.c.class_id)
        .group_by(parts.c.project, parts.c.user, _classes.c.name)
        .having(used != 0))


@functools.cache
def _prepare(*, some: bool, user: bool, without: bool, moves_once: bool) -> PreparedRead:
    def narrow(
        statement: sa.Select[Any], owner: Any, project: Any = _projects.c.id
    ) -> sa.Select[Any]:
        statement = statement.join(_projects, owner.c.project_id == project)
        if some:
            statement = statement.where(lists.among(_projects.c.external_id, "projects"))
        if user:
            statement = statement.join(_users, _users.c.id == owner.c.user_id).where(
                _users.c.external_id == sa.bindparam("user"))
        return statement

    def is_without(column: sa.Column[Any]) -> sa.ColumnElement[bool]:
        return lists.among(column, "without")

    def part(owner: Any, class_id: Any, used: Any) -> sa.Select[Any]:
        return sa.select(
            _projects.c.external_id.label("project"), class_id.label("class_id"),
            used.label("used")).select_from(owner)

    consumer = sa.literal_column(str(tables.CONSUMERS_ID))
    counted = part(_counters, _counters.c.resource_class_id, _counters.c.used)
    parts = [narrow(counted, _counters)] if user else [
        narrow(counted.where(share.condition), _counters, share.number(_projects.c.id))
        for share in usage_counters.PARTS]
    moved = narrow(part(_moves, _moves.c.resource_class_id, -_moves.c.used), _moves)
    if not moves_once:
        moved = moved.where(_moves.c.resource_class_id == tables.CONSUMERS_ID)
    if without:
        # Of a pair of which one half does not count, the other half does.
        moved = moved.where(sa.not_(sa.or_(
            is_without(_moves.c.consumer_uuid), is_without(_moves.c.moved_from))))
        held = part(_consumers, _allocations.c.resource_class_id, -_allocations.c.used).join(
            _allocations, _allocations.c.consumer_id == _consumers.c.uuid)
        parts += [
            narrow(held, _consumers).where(is_without(_consumers.c.uuid)),
            narrow(part(_consumers, consumer, sa.literal_column("-1")), _consumers).where(
                is_without(_consumers.c.uuid))]
    all_parts = sa.union_all(*parts, moved).subquery("parts")
    used = sa.func.sum(all_parts.c.used)
    return PreparedRead(
        sa.select(all_parts.c.project, _classes.c.name, used.label("used"))
        .outerjoin(_classes, _classes.c.id == all_parts.c.class_id)
        .group_by(all_parts.c.project, _classes.c.name)
        .having(used != 0))
