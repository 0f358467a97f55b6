"""Notifications: what happens to leases, for other services to read.

A transaction that changes a lease inserts a notification and waits for no other. Concurrent
transactions get ids in one order and may commit in another, so a notification has no position
until it is read: readers, one after the other, assign positions to all that are committed by then.
A reader that asks for those after its last position misses none: whatever commits later gets a
higher one. Notifications of one lease are in the order of its changes, as every writer locks the
lease's row.
Source: spec blazar §4 (names of the events); differs: stored in the database, and polled.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.changes import revisions
from placement_core.changes.tables import revisions as _revisions
from placement_core.context import Context
from placement_core.db import clock, lists, texts
from placement_core.reservations import tables
from placement_core.reservations.records import BEFORE_END, END, START, Lease, Notification

# Types of notifications. Those of events are written when the event is done.
CREATED, CHANGED, DELETED = "lease.create", "lease.update", "lease.delete"
STARTED, ENDED = f"lease.event.{START}", f"lease.event.{END}"
ENDS_SOON = f"lease.event.{BEFORE_END}"

#: How many notifications get their positions in one transaction.
_BATCH = 1000

_notices = tables.lease_notices

_INSERT = sa.insert(_notices).inline().values(at=clock.now())
_ANY_NEW = sa.select(_notices.c.id).where(_notices.c.position.is_(None)).limit(1)
_NEW = (
    sa.select(_notices.c.id)
    .where(_notices.c.position.is_(None))
    .order_by(_notices.c.id)
    .limit(sa.bindparam("most", type_=sa.Integer)))
_LAST = sa.select(_revisions.c.serial).where(_revisions.c.name == revisions.NOTICES)
_SET_LAST = (
    sa.update(_revisions)
    .where(_revisions.c.name == revisions.NOTICES)
    .values(serial=sa.bindparam("last")))
_SET_POSITIONS = (
    sa.update(_notices)
    .where(lists.among(_notices.c.id, "ids"))
    .values(position=_notices.c.id + sa.bindparam("shift", type_=sa.BigInteger)))


def add(ctx: Context, event: str, lease: Lease) -> None:
    """Insert a notification, in the transaction that changes the lease.

    :param event: one of the constants above.
    :param lease: the lease after the change.
    """
    with db.write(ctx) as session:
        session.execute(_INSERT, {
            "lease_id": lease.id, "project_id": lease.project_id, "event": event,
            "payload": json.dumps(lease, default=_to_json)})


@db.retry_writes
def page(
    ctx: Context, *, after: int = 0, project_id: str | None = None,
    lease_id: str | None = None, limit: int | None = None,
) -> list[Notification]:
    """Return notifications, the oldest first.

    An empty page means that there is nothing new yet; repeat the call with the same ``after``.

    :param after: the position of the last notification of the previous page.
    """
    filters = {"project_id": project_id, "lease_id": lease_id}
    values: dict[str, Any] = {
        name: value for name, value in filters.items() if value is not None}
    if not all(texts.is_storable(value) for value in values.values()):
        return []
    _assign_positions(ctx)
    statement = _page(tuple(values), limit is not None)
    if limit is not None:
        values["most"] = limit
    with db.read_once(ctx) as session:
        return list(map(_build, session.execute(statement, {**values, "after": after})))


@db.retry_writes
def list_newest(
    ctx: Context, *, project_id: str | None = None, lease_id: str | None = None, limit: int
) -> list[Notification]:
    """Return the newest notifications, the newest first.

    For people who look at what happened: those that commit late may be between others that were
    seen before. The position of one that nobody has read in order yet is 0.
    """
    filters = {"project_id": project_id, "lease_id": lease_id}
    values: dict[str, Any] = {
        name: value for name, value in filters.items() if value is not None}
    if not all(texts.is_storable(value) for value in values.values()):
        return []
    with db.read_once(ctx) as session:
        return list(map(_build, session.execute(
            _newest(tuple(values)), {**values, "most": limit})))


def _build(row: Any) -> Notification:
    return Notification(row.position or 0, row.lease_id, row.project_id, row.event,
                        row.at.replace(tzinfo=datetime.UTC), json.loads(row.payload))


def _assign_positions(ctx: Context) -> None:
    """Assign positions to all notifications that are committed by now."""
    with db.read_once(ctx) as session:
        if session.execute(_ANY_NEW).first() is None:
            return
    while _assign_positions_to_batch(ctx) == _BATCH:
        pass


def _assign_positions_to_batch(ctx: Context) -> int:
    """Assign positions to a batch; return its size."""
    with db.write(ctx) as session:
        revisions.increment(session, revisions.NOTICES)
        # In two statements: an UPDATE of all rows without a position would wait, on MySQL, for
        # rows that are not committed yet.
        ids = list(session.execute(_NEW, {"most": _BATCH}).scalars())
        if ids:
            # All ids are shifted by the same amount, so one statement suffices.
            shift = session.execute(_LAST).scalar_one() - ids[0]
            session.execute(_SET_POSITIONS, {"ids": ids, "shift": shift})
            session.execute(_SET_LAST, {"last": ids[-1] + shift})
    return len(ids)


@functools.cache
def _page(names: tuple[str, ...], bounded: bool) -> sa.Select[Any]:
    statement = (
        sa.select(_notices)
        .where(_notices.c.position > sa.bindparam("after", type_=sa.BigInteger),
               *(_notices.c[name] == sa.bindparam(name) for name in names))
        .order_by(_notices.c.position))
    return statement.limit(sa.bindparam("most", type_=sa.Integer)) if bounded else statement


@functools.cache
def _newest(names: tuple[str, ...]) -> sa.Select[Any]:
    return (
        sa.select(_notices)
        .where(*(_notices.c[name] == sa.bindparam(name) for name in names))
        .order_by(_notices.c.id.desc()).limit(sa.bindparam("most", type_=sa.Integer)))


def _to_json(value: object) -> object:
    """Return the JSON form of a part of a lease, for types that JSON does not have."""
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    assert dataclasses.is_dataclass(value)
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
