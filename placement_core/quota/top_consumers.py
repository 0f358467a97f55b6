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

_consumers, _projects, _users, _allocations, _classes, _moves = (
    tables.consumers, tables.projects, tables.users, tables.allocations,
    tables.resource_classes, tables.moves)
_mappings = cell_tables.instance_mappings

_MOST = sa.bindparam("most", type_=sa.Integer)
_CLASSES = sa.bindparam("classes", expanding=True)
#: The consumer itself or, of a migration, the instance that it moves.
_UUID_OF_INSTANCE = sa.func.coalesce(_moves.c.moved_from, _consumers.c.uuid)


@dataclasses.dataclass(frozen=True, slots=True)
class TopConsumer:
    """A consumer (an instance), and its amount of the requested units."""

    uuid: str
    project_id: str
    amount: int


def find_largest(
    ctx: Context, cells: CellDatabases, project_ids: Collection[str], units: Collection[str],
    *, most: int, moves_once: bool, user_id: str | None = None,
) -> list[TopConsumer]:
    """Return the consumers with the largest amounts of some units, the largest first.

    Each counts as one consumer or instance, so by these units the youngest come first. If
    resource classes are counted too, their amounts decide.

    :param moves_once: an instance that is being moved is one consumer, with what counts of both
        its sets of allocations; otherwise each set is one. It is one consumer or instance always.
    :param user_id: only this user's consumers.
    """
    classes = sorted(set(units) - {CONSUMERS, INSTANCES})
    parameters: dict[str, Any] = {
        "project_ids": sorted(filter(texts.is_storable, project_ids)), "most": most}
    if user_id is not None:
        parameters["user_id"] = user_id
    if classes:
        parameters["classes"] = classes
        rows = _fetch(ctx, _of_classes_moves_once if moves_once else _of_classes, parameters)
    elif CONSUMERS in units:
        rows = _fetch(ctx, _of_consumers, parameters)
    else:
        rows = _fetch(cells.api(ctx), _of_instances, parameters)
    return [TopConsumer(row.uuid, row.project_id, int(row.amount)) for row in rows]


@db.retry_writes
def _fetch(ctx: Context, make: Any, parameters: dict[str, Any]) -> Sequence[sa.Row[Any]]:
    with db.read_once(ctx) as session:
        return session.execute(make(of_user="user_id" in parameters), parameters).all()


def _select_owned(
    owner: sa.Table, uuid: sa.ColumnElement[str], amount: sa.ColumnElement[Any], *,
    of_user: bool,
) -> sa.Select[Any]:
    """Select what projects, or a user in them, have in a table."""
    statement = (
        sa.select(uuid.label("uuid"), _projects.c.external_id.label("project_id"),
                  amount.label("amount"))
        .select_from(owner)
        .join(_projects, _projects.c.id == owner.c.project_id)
        .where(lists.among_many(_projects.c.external_id, "project_ids")))
    if of_user:
        statement = statement.join(_users, _users.c.id == owner.c.user_id).where(
            _users.c.external_id == sa.bindparam("user_id"))
    return statement


def _of_class(statement: sa.Select[Any], owner: sa.Table) -> sa.Select[Any]:
    """Narrow a statement to the resource classes that are wanted."""
    return statement.join(_classes, _classes.c.id == owner.c.resource_class_id).where(
        _classes.c.name.in_(_CLASSES))


def _join_moves(statement: sa.Select[Any]) -> sa.Select[Any]:
    """Join the move of which a consumer holds the second set of allocations, if there is one."""
    return statement.outerjoin(_moves, sa.and_(
        _moves.c.consumer_uuid == _consumers.c.uuid,
        _moves.c.resource_class_id == tables.CONSUMERS_ID))


@functools.cache
def _of_classes(*, of_user: bool) -> sa.Select[Any]:
    amount = sa.func.sum(_allocations.c.used)
    statement = _select_owned(_consumers, _consumers.c.uuid, amount, of_user=of_user).join(
        _allocations, _allocations.c.consumer_id == _consumers.c.uuid)
    return (
        _of_class(statement, _allocations)
        .group_by(_consumers.c.uuid, _projects.c.external_id)
        .order_by(amount.desc(), _consumers.c.uuid).limit(_MOST))


@functools.cache
def _of_classes_moves_once(*, of_user: bool) -> sa.Select[Any]:
    holdings = _join_moves(_select_owned(
        _consumers, _UUID_OF_INSTANCE, _allocations.c.used, of_user=of_user,
    ).join(_allocations, _allocations.c.consumer_id == _consumers.c.uuid))
    counted_twice = _select_owned(_moves, _moves.c.moved_from, -_moves.c.used, of_user=of_user)
    parts = sa.union_all(
        _of_class(holdings, _allocations), _of_class(counted_twice, _moves)).subquery("parts")
    amount = sa.func.sum(parts.c.amount)
    return (
        sa.select(parts.c.uuid, parts.c.project_id, amount.label("amount"))
        .group_by(parts.c.uuid, parts.c.project_id)
        .order_by(amount.desc(), parts.c.uuid).limit(_MOST))


@functools.cache
def _of_consumers(*, of_user: bool) -> sa.Select[Any]:
    statement = _select_owned(
        _consumers, _UUID_OF_INSTANCE, sa.literal_column("1"), of_user=of_user)
    # A migration is no consumer besides its instance, if that holds something, too.
    counted_twice = sa.func.coalesce(_moves.c.used, 0)
    return _join_moves(statement).where(counted_twice == 0).order_by(
        _consumers.c.id.desc()).limit(_MOST)


@functools.cache
def _of_instances(*, of_user: bool) -> sa.Select[Any]:
    statement = sa.select(
        _mappings.c.instance_uuid.label("uuid"), _mappings.c.project_id,
        sa.literal_column("1").label("amount"),
    ).where(
        _mappings.c.queued_for_delete == sa.false(),
        lists.among_many(_mappings.c.project_id, "project_ids"),
    ).order_by(_mappings.c.id.desc()).limit(_MOST)
    if of_user:
        statement = statement.where(_mappings.c.user_id == sa.bindparam("user_id"))
    return statement
