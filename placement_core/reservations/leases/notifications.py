"""Notices: what was done to leases, for those who want to know.

Whoever changes a lease writes one in its transaction, and waits for nobody: transactions
that write at the same time get ids in one order and commit in another. So a notice has no
position until somebody reads: readers, one after the other, give positions to what is
committed by then. A reader that asks for what comes after its last position misses
nothing; what was committed later has a higher one. Of one lease, whose row every writer
holds, they are in the order in which things were done.
Source: spec blazar §4 (names of the events); differs: kept in the database, and read.
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

# What happens to leases. Those of events are told when they are done.
CREATED, CHANGED, DELETED = "lease.create", "lease.update", "lease.delete"
STARTED, ENDED = f"lease.event.{START}", f"lease.event.{END}"
ENDS_SOON = f"lease.event.{BEFORE_END}"

#: So many get their positions in one transaction.
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
    """Write down what is being done to a lease, in the transaction that does it.

    :param event: one of those above.
    :param lease: as it is afterwards.
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
    """Return what was done to leases, the oldest first.

    An empty page says that there is nothing new yet; whoever asks with the same
    ``after`` later gets what has come since.

    :param after: the position of the last one of the page before.
    """
    filters = {"project_id": project_id, "lease_id": lease_id}
    values: dict[str, Any] = {
        name: value for name, value in filters.items() if value is not None}
    if not all(texts.is_storable(value) for value in values.values()):
        return []
    _give_positions(ctx)
    statement = _page(tuple(values), limit is not None)
    if limit is not None:
        values["most"] = limit
    with db.read_once(ctx) as session:
        return [
            Notification(row.position, row.lease_id, row.project_id, row.event,
                         row.at.replace(tzinfo=datetime.UTC), json.loads(row.payload))
            for row in session.execute(statement, {**values, "after": after})]


def _give_positions(ctx: Context) -> None:
    """Give positions to what is committed by now, all of it."""
    with db.read_once(ctx) as session:
        if session.execute(_ANY_NEW).first() is None:
            return
    while _give_positions_to_batch(ctx) == _BATCH:
        pass


def _give_positions_to_batch(ctx: Context) -> int:
    """Give positions to some; return to how many."""
    with db.write(ctx) as session:
        revisions.raise_(session, revisions.NOTICES)
        # In two statements: MySQL, asked to update what has no position, would wait for
        # rows that are not committed yet.
        ids = list(session.execute(_NEW, {"most": _BATCH}).scalars())
        if ids:
            # The distances of the ids stay: then one statement does for all.
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


def _to_json(value: object) -> object:
    """Return a part of a lease as JSON has it, where that is not the same."""
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    assert dataclasses.is_dataclass(value)
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
