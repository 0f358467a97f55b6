"""Rows of ``held_claims``, and the allocations that belong to a row.

A row is *live* until it ends. Only the allocations that its claim wrote belong to it: a
later write of the consumer's allocations takes the claim over. So the row has the id of the
transaction that wrote them, which every allocation has too (``allocations.txn``). A
consumer's generation would not do, because it restarts when the consumer is deleted and
created again. A reshape does not take a claim over: it moves the allocations and updates the
row (``carry``).

Locks: inserting or ending a row locks its consumer's row first, if there is one; a
confirmation locks only the row itself.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.changes import kinds
from placement_core.db import PreparedRead, Session, clock, inserts, lists
from placement_core.placement import tables as placement_tables
from placement_core.placement.records import AllocationWrite
from placement_core.plugin_api.counting import CONSUMERS
from placement_core.quota import tables

_rows = tables.held_claims
_allocations, _providers, _classes, _consumers, _types = (
    placement_tables.allocations, placement_tables.resource_providers,
    placement_tables.resource_classes, placement_tables.consumers,
    placement_tables.consumer_types)

#: How long the row of an expired claim is kept.
_KEEP_SECONDS = 86_400

#: Computed once for a statement, so that an index can be used.
_NOW = sa.select(clock.now()).scalar_subquery()
_KEEP_SINCE = sa.select(
    clock.in_seconds(sa.literal_column(str(-_KEEP_SECONDS), sa.Integer))).scalar_subquery()

_of_consumer = _rows.c.consumer_uuid == sa.bindparam("of_uuid")
_live = _rows.c.ended_at.is_(None)
#: The consumer still has what the claim wrote.
_own = sa.exists().where(
    _allocations.c.consumer_id == _rows.c.consumer_uuid, _allocations.c.txn == _rows.c.txn)

_FORGET = sa.delete(_rows).where(lists.among(_rows.c.consumer_uuid, "uuids"))
_OWNERS = PreparedRead(sa.select(_rows.c.consumer_uuid, _rows.c.project_id).where(
    lists.among(_rows.c.consumer_uuid, "uuids")))
_DEADLINE = sa.select(clock.in_seconds(sa.bindparam("seconds", type_=sa.Integer)))
_ONE = sa.select(
    _rows, (_rows.c.expires_at <= clock.now()).label("late")).where(_of_consumer)
_SOME = sa.select(_rows, (_rows.c.expires_at <= clock.now()).label("late")).where(
    lists.among_many(_rows.c.consumer_uuid, "uuids"))
_CONFIRM = sa.delete(_rows).where(_of_consumer, _live, _rows.c.expires_at > clock.now())
_UNCONFIRMED = sa.select(_rows.c.consumer_uuid).where(
    lists.among(_rows.c.consumer_uuid, "uuids"), _live, _rows.c.expires_at > clock.now(),
).order_by(_rows.c.consumer_uuid).with_for_update()
_HOLDING = sa.select(_allocations.c.consumer_id).distinct().where(
    lists.among(_allocations.c.consumer_id, "uuids"))
#: Not by ``id``: SQLite reuses the id of a deleted row.
_end = (_of_consumer, _rows.c.txn == sa.bindparam("of_txn"), _live,
        _rows.c.expires_at <= clock.now())
_END = sa.update(_rows).where(*_end).values(ended_at=clock.now())
_DROP = sa.delete(_rows).where(*_end)
_is_old = _rows.c.ended_at <= _KEEP_SINCE
_OLD = sa.select(_rows).where(_is_old).limit(sa.bindparam("most", type_=sa.Integer))
_FORGET_OLD = sa.delete(_rows).where(lists.among(_rows.c.id, "ids"), _is_old)

_CARRIED = sa.select(_rows.c.consumer_uuid, _rows.c.project_id, _rows.c.user_id).where(
    lists.among(_rows.c.consumer_uuid, "uuids"), _live, _own)
_CARRY = sa.update(_rows).where(
    lists.among(_rows.c.consumer_uuid, "uuids"), _live, _own,
).values(txn=sa.bindparam("new_txn"))

_HELD = (
    sa.select(
        _allocations.c.consumer_id, _allocations.c.txn, _providers.c.uuid,
        _classes.c.name.label("resource_class"), _allocations.c.used,
        _types.c.name.label("consumer_type"))
    .join(_providers, _providers.c.id == _allocations.c.resource_provider_id)
    .join(_classes, _classes.c.id == _allocations.c.resource_class_id)
    .outerjoin(_consumers, _consumers.c.uuid == _allocations.c.consumer_id)
    .outerjoin(_types, _types.c.id == _consumers.c.consumer_type_id)
    .where(_allocations.c.consumer_id.in_(sa.bindparam("uuids", expanding=True)))
    .order_by(_allocations.c.id))

_SUMS = (
    sa.select(_allocations.c.resource_provider_id, _allocations.c.resource_class_id,
              sa.func.sum(_allocations.c.used).label("held"))
    .join(_rows, sa.and_(_rows.c.consumer_uuid == _allocations.c.consumer_id,
                         _rows.c.txn == _allocations.c.txn))
    .where(_live)
    .group_by(_allocations.c.resource_provider_id, _allocations.c.resource_class_id))

_SUMS_OF_PROJECTS = (
    sa.select(_rows.c.project_id, _classes.c.name, sa.func.sum(_allocations.c.used).label("held"))
    .join(_allocations, sa.and_(_rows.c.consumer_uuid == _allocations.c.consumer_id,
                                _rows.c.txn == _allocations.c.txn))
    .join(_classes, _classes.c.id == _allocations.c.resource_class_id)
    .where(_live)
    .group_by(_rows.c.project_id, _classes.c.name))
_COUNTS_OF_PROJECTS = (
    sa.select(_rows.c.project_id, sa.func.count().label("held"))
    .where(_live, _own).group_by(_rows.c.project_id))

_DUE = (
    sa.select(_rows)
    .where(_live, _rows.c.expires_at <= _NOW, _rows.c.id > sa.bindparam("after"))
    .order_by(_rows.c.id).limit(sa.bindparam("most", type_=sa.Integer)))
_DUE_ON = _DUE.where(sa.exists(
    sa.select(_allocations.c.id)
    .join(_providers, _providers.c.id == _allocations.c.resource_provider_id)
    .where(_allocations.c.consumer_id == _rows.c.consumer_uuid,
           lists.among(_providers.c.uuid, "providers"))))
_DUE_OF = _DUE.where(lists.among(_rows.c.project_id, "projects"))

#: The rows of lists: live rows with allocations, and rows of expired claims.
_LIST = (
    sa.select(_rows, (_rows.c.expires_at <= _NOW).label("late"))
    .where(sa.or_(~_live, _own), _rows.c.id > sa.bindparam("after"))
    .order_by(_rows.c.id).limit(sa.bindparam("most", type_=sa.Integer)))
_STATES = {
    "held": sa.and_(_live, _rows.c.expires_at > _NOW),
    "expired": sa.or_(~_live, _rows.c.expires_at <= _NOW),
}


@dataclasses.dataclass(frozen=True, slots=True)
class OwnHoldings:
    """The allocations that a claim wrote and its consumer still has.

    :ivar allocations: {provider uuid: {resource class: amount}}.
    """

    consumer_type: str | None
    allocations: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)


def insert(
    session: Session, writes: Sequence[AllocationWrite], seconds: int
) -> datetime.datetime:
    """Insert the rows of claims that the session's transaction makes; return their deadline."""
    expires_at: datetime.datetime = session.execute(
        _DEADLINE, {"seconds": seconds}).scalar_one()
    inserts.insert_many(session, _rows, [
        {"consumer_uuid": write.consumer_uuid, "project_id": write.project_id,
         "user_id": write.user_id, "txn": session.txn, "expires_at": expires_at}
        for write in writes])
    for write in writes:
        _record_change(session, write.consumer_uuid, write.project_id)
    return expires_at


def forget(session: Session, consumer_uuids: Sequence[str]) -> None:
    """Delete the rows of consumers that have one."""
    uuids = {"uuids": sorted(consumer_uuids)}
    owners = _OWNERS.fetch_later(session, uuids)
    if session.execute_write(_FORGET, uuids):
        for uuid, project_id in owners():
            _record_change(session, uuid, project_id)


def find(session: Session, consumer_uuid: str) -> sa.Row[Any] | None:
    """Return the row of a consumer; its ``late`` says whether its deadline has passed."""
    return session.execute(_ONE, {"of_uuid": consumer_uuid}).first()


def confirm(session: Session, consumer_uuid: str) -> bool:
    """Delete the row of a consumer if it is live and not late; say whether it was."""
    uuids = {"uuids": [consumer_uuid]}
    owners = _OWNERS.fetch_later(session, uuids)
    confirmed = session.execute_write(_CONFIRM, {"of_uuid": consumer_uuid}) == 1
    if confirmed:
        for uuid, project_id in owners():
            _record_change(session, uuid, project_id)
    return confirmed


def confirm_all(session: Session, consumer_uuids: Sequence[str]) -> set[str]:
    """Delete the rows of consumers that are live and not late; return whose they were."""
    uuids = {row.consumer_uuid for row in session.execute(
        _UNCONFIRMED, {"uuids": sorted(consumer_uuids)})}
    if uuids:
        forget(session, sorted(uuids))
    return uuids


def find_holding(session: Session, consumer_uuids: Collection[str]) -> set[str]:
    """Return those consumers that have allocations, whichever write made them."""
    if not consumer_uuids:
        return set()
    return set(session.execute(_HOLDING, {"uuids": sorted(consumer_uuids)}).scalars())


def carry(session: Session, writes: Sequence[AllocationWrite]) -> None:
    """Assign to rows the allocations that this transaction writes for their consumers.

    The claim of a consumer that gets another owner, or no allocations, is no longer held.
    """
    owners = {write.consumer_uuid: (write.project_id, write.user_id)
              for write in writes if write.allocations}
    if not owners:
        return
    uuids = sorted(
        row.consumer_uuid for row in session.execute(
            _CARRIED, {"uuids": sorted(owners)})
        if owners[row.consumer_uuid] == (row.project_id, row.user_id))
    if uuids:
        session.execute(_CARRY, {"uuids": uuids, "new_txn": session.txn})


def end(session: Session, row: sa.Row[Any], *, keep_row: bool) -> bool:
    """End a row if it is still live and its deadline has passed; say whether it was.

    :param keep_row: keep the row for a day, so that the claim reads as expired.
    """
    statement = _END if keep_row else _DROP
    ended = session.execute(
        statement, {"of_uuid": row.consumer_uuid, "of_txn": row.txn}).rowcount == 1
    if ended:
        _record_change(session, row.consumer_uuid, row.project_id)
    return ended


def forget_old(session: Session, most: int) -> int:
    """Delete rows that ended more than a day ago, at most ``most``; return how many."""
    rows = session.execute(_OLD, {"most": most}).all()
    for row in rows:
        _record_change(session, row.consumer_uuid, row.project_id)
    return session.execute(
        _FORGET_OLD, {"ids": [row.id for row in rows]}).rowcount if rows else 0


def _record_change(session: Session, consumer_uuid: str, project_id: str) -> None:
    session.record_change(kinds.CLAIM, uuid=consumer_uuid, project=project_id)


def list_of(session: Session, consumer_uuids: Collection[str]) -> Sequence[sa.Row[Any]]:
    """Return the rows of consumers that have one, valid or not; ``late`` as in ``find``."""
    return session.execute(_SOME, {"uuids": sorted(consumer_uuids)}).all()


def read_own_holdings(session: Session, rows: Sequence[sa.Row[Any]]) -> dict[str, OwnHoldings]:
    """Return the allocations that claims wrote and still have, by consumer.

    Consumers whose allocations were deleted or rewritten since are not included.
    """
    txns = {row.consumer_uuid: row.txn for row in rows}
    holdings: dict[str, OwnHoldings] = {}
    if txns:
        for row in session.execute(_HELD, {"uuids": sorted(txns)}):
            if txns[row.consumer_id] == row.txn:
                own = holdings.setdefault(row.consumer_id, OwnHoldings(row.consumer_type))
                on_provider = own.allocations.setdefault(row.uuid, {})
                on_provider[row.resource_class] = row.used
    return holdings


def sum_by_inventory(session: Session) -> dict[tuple[int, int], int]:
    """Return what live rows hold, {(provider id, class id): amount}.

    Late rows are included: their allocations are there until the row ends.
    """
    return {(row.resource_provider_id, row.resource_class_id): int(row.held)
            for row in session.execute(_SUMS)}


def sum_by_project(session: Session) -> dict[str, dict[str, int]]:
    """Return what live rows hold, {project: {resource class or ``CONSUMERS``: amount}}.

    Late rows are included, as in ``sum_by_inventory``.
    """
    held: dict[str, dict[str, int]] = {}
    for row in session.execute(_SUMS_OF_PROJECTS):
        held.setdefault(row.project_id, {})[row.name] = int(row.held)
    for row in session.execute(_COUNTS_OF_PROJECTS):
        held.setdefault(row.project_id, {})[CONSUMERS] = row.held
    return held


def list_due(
    session: Session, *, after: int, most: int, providers: Collection[str] | None = None,
    projects: Collection[str] | None = None,
) -> list[sa.Row[Any]]:
    """Return live rows whose deadline has passed, in the order of their ids.

    :param after: the last id of the previous batch.
    :param providers: only rows of consumers with allocations on one of these providers.
    :param projects: only rows of these projects.
    """
    statement, parameters = _DUE, {"after": after, "most": most}
    list_parameters: Mapping[str, list[str]] = {}
    if providers is not None:
        statement, list_parameters = _DUE_ON, {"providers": sorted(providers)}
    elif projects is not None:
        statement, list_parameters = _DUE_OF, {"projects": sorted(projects)}
    return list(session.execute(statement, {**parameters, **list_parameters}))


def list_page(
    session: Session, *, project_id: str | None, state: str | None, after: int, most: int
) -> list[sa.Row[Any]]:
    """Return a page of rows, in the order of their ids; ``late`` as in ``find``."""
    statement = _LIST
    parameters: dict[str, Any] = {"after": after, "most": most}
    if project_id is not None:
        statement = statement.where(_rows.c.project_id == sa.bindparam("of_project"))
        parameters["of_project"] = project_id
    if state is not None:
        statement = statement.where(_STATES[state])
    return list(session.execute(statement, parameters))
