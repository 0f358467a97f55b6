"""Managers tell in the database that they live, and what their audits found.

So any worker can say how many live, and whether what is stored adds up.
"""

from __future__ import annotations

import dataclasses
import datetime

import sqlalchemy as sa

from placement_core import db, metrics
from placement_core.context import Context
from placement_core.db import clock, inserts
from placement_core.reservations import tables

_managers = tables.managers

#: How often a manager tells that it lives.
EVERY_SECONDS = 10
#: A manager that has not told for longer does not live.
SILENT_SECONDS = 60
#: Those that ended a day ago are not listed; a manager that starts removes their rows.
_FORGET_SECONDS = 86_400

_UPDATE = (
    sa.update(_managers).where(_managers.c.owner == sa.bindparam("of_owner"))
    .values(seen_at=clock.now()))
#: The first heartbeat and the first audit of a manager may come at the same time.
_INSERT = inserts.build_skipping_insert(_managers).values(seen_at=clock.now())
_UPDATE_AUDIT = (
    sa.update(_managers).where(_managers.c.owner == sa.bindparam("of_owner"))
    .values(audited_at=clock.now(), audit_findings=sa.bindparam("findings")))
_IS_FORGOTTEN = _managers.c.seen_at < clock.in_seconds(
    sa.literal_column(str(-_FORGET_SECONDS), sa.Integer))
_FORGET = sa.delete(_managers).where(_IS_FORGOTTEN)

#: The condition on ``managers`` for those that live, by the database's clock. A subquery, so that
#: it is computed once for a statement.
IS_ALIVE = _managers.c.seen_at > sa.select(clock.in_seconds(
    sa.literal_column(str(-SILENT_SECONDS), sa.Integer))).scalar_subquery()
_LIST = (
    sa.select(_managers, clock.now().label("now"))
    .where(~_IS_FORGOTTEN)
    .order_by(_managers.c.seen_at.desc(), _managers.c.owner)
    .limit(sa.bindparam("most", type_=sa.Integer)))
_COUNT = sa.select(sa.func.count()).select_from(_managers).where(IS_ALIVE)


@dataclasses.dataclass(frozen=True, slots=True)
class ManagerState:
    """A manager, when it last told that it lives, and what its last audit found.

    :ivar silent_seconds: how long ago ``seen_at`` was, by the database's clock.
    :ivar audited_at: None: it has made no audit of stored sums. Else there are so many
        ``audit_findings``.
    """

    owner: str
    seen_at: datetime.datetime
    silent_seconds: float
    audited_at: datetime.datetime | None
    audit_findings: int | None

    @property
    def is_alive(self) -> bool:
        """Say whether it counts as alive."""
        return self.silent_seconds < SILENT_SECONDS


@db.retry_writes
def beat(ctx: Context, *, owner: str) -> None:
    """Record that a manager lives now."""
    removed = 0
    with db.write(ctx) as session:
        if session.execute(_UPDATE, {"of_owner": owner}).rowcount == 0:
            session.execute(_INSERT, {"owner": owner})
            removed = session.execute(_FORGET).rowcount
    metrics.count_removed_rows(_managers.name, removed)


@db.retry_writes
def record_audit(ctx: Context, *, owner: str, findings: int) -> None:
    """Record what an audit of a manager found that ended now."""
    audit = {"of_owner": owner, "findings": findings}
    with db.write(ctx) as session:
        if session.execute(_UPDATE_AUDIT, audit).rowcount == 0:
            session.execute(_INSERT, {"owner": owner})
            session.execute(_UPDATE_AUDIT, audit)


@db.retry_writes
def list_(ctx: Context, most: int) -> list[ManagerState]:
    """Return the managers that lived in the last day, those heard of last first."""
    with db.read_once(ctx) as session:
        return [
            ManagerState(
                row.owner, row.seen_at.replace(tzinfo=datetime.UTC),
                max(0.0, (row.now - row.seen_at).total_seconds()),
                row.audited_at and row.audited_at.replace(tzinfo=datetime.UTC),
                row.audit_findings)
            for row in session.execute(_LIST, {"most": most})]


def count_alive(ctx: Context) -> int:
    """Return how many managers live, on any machine."""
    with db.read(ctx) as session:
        return int(session.execute(_COUNT).scalar_one())
