"""Leases with events, written as rows; and who carries events out without any effect."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import clock
from placement_core.db.metadata import utcnow
from placement_core.placement import tables as placement_tables  # noqa: F401 (foreign keys)
from placement_core.reservations import records, tables
from placement_core.reservations.leases.transitions import EventAttempt
from placement_core.testing import factories
from tests import base

_events, _leases, _notices = tables.lease_events, tables.leases, tables.lease_notices

KINDS = (records.START, records.BEFORE_END, records.END)


class EventTestCase(base.DatabaseTestCase):
    """A test on leases whose times are seconds from now on.

    :ivar now: what those are counted from.
    """

    def setUp(self) -> None:
        super().setUp()
        self.now = utcnow()

    def at(self, seconds: float) -> datetime.datetime:
        return self.now + datetime.timedelta(seconds=seconds)

    def lease(
        self, start: float, end: float, *, before_end: float | None = None,
        hosts: Sequence[int] = (), done: Sequence[str] = (),
    ) -> str:
        """Make a lease, on hosts, some of whose events are done; return its id."""
        return leases(self.database, [Row(
            self.at(start), self.at(end), None if before_end is None else self.at(before_end),
            hosts, done)])[0]

    def event(self, lease: str, kind: str = records.START) -> Any:
        with self.database.autocommit.connect() as connection:
            return connection.execute(
                sa.select(_events).where(_events.c.lease_id == lease,
                                         _events.c.event_type == kind)).one()

    def set(self, lease: str, kind: str = records.START, **values: object) -> None:
        """Make an event other than it is."""
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.update(_events).where(
                _events.c.lease_id == lease, _events.c.event_type == kind).values(**values))

    def effects(self) -> Mapping[tuple[str, str], int]:
        return effects(self.database)


class Row(tuple):
    """A lease to be made: start, end, before_end, hosts, kinds of events that are done."""

    def __new__(cls, start, end, before_end=None, hosts=(), done=()):
        return super().__new__(cls, (start, end, before_end, hosts, done))


def leases(database: Any, rows: Sequence[Row]) -> list[str]:
    """Make leases with their events; return their ids."""
    made: dict[Any, list[dict[str, object]]] = {
        table: [] for table in (_leases, tables.lease_reservations, tables.instance_reservations,
                                tables.computehost_allocations, _events)}
    ids = []
    for start, end, before_end, hosts, done in rows:
        lease, reservation = factories.new_uuid(), factories.new_uuid()
        ids.append(lease)
        made[_leases].append({
            "id": lease, "name": "lease", "user_id": "user", "project_id": "project",
            "start_at": start, "end_at": end, "status": records.PENDING, "degraded": False,
            "version": 0})
        made[tables.lease_reservations].append({
            "id": reservation, "lease_id": lease, "position": 0,
            "resource_type": "virtual:instance", "resource_id": reservation,
            "status": records.R_PENDING, "missing_resources": False, "resources_changed": False})
        made[tables.instance_reservations].append({
            "id": factories.new_uuid(), "reservation_id": reservation, "vcpus": 1,
            "memory_mb": 1, "disk_gb": 1, "amount": max(1, len(hosts)), "affinity": None,
            "resource_properties": ""})
        made[tables.computehost_allocations] += [
            {"reservation_id": reservation, "computehost_id": host, "slots": 1, "vcpus": 1,
             "memory_mb": 1, "disk_gb": 1, "whole": False, "start_second": second(start),
             "end_second": second(end)} for host in hosts]
        made[_events] += [
            {"id": factories.new_uuid(), "lease_id": lease, "event_type": kind, "due_at": at,
             "status": records.DONE if kind in done else records.UNDONE, "attempt": 0}
            for kind, at in zip(KINDS, (start, before_end, end), strict=True) if at is not None]
    with database.writer.begin() as connection:
        for table, found in made.items():
            if found:
                connection.execute(sa.insert(table), found)
    return ids


def second(at: datetime.datetime) -> int:
    return int(at.replace(tzinfo=datetime.UTC).timestamp())


def effects(database: Any) -> Mapping[tuple[str, str], int]:
    """Return how often which event of which lease had its effect."""
    with database.autocommit.connect() as connection:
        return {
            (row.lease_id, row.event): row.number
            for row in connection.execute(
                sa.select(_notices.c.lease_id, _notices.c.event,
                          sa.func.count().label("number"))
                .group_by(_notices.c.lease_id, _notices.c.event))}


class EffectTurns:
    """Carries events out: the only effect of each is a row.

    As real turns it takes the lease's row first, then its event's, and does everything in
    one transaction.
    """

    def execute(self, ctx: Context, turn: EventAttempt) -> bool:
        return db.retry_writes(self._execute)(ctx, turn)

    def fail(self, ctx: Context, turn: EventAttempt, problem: str) -> bool:
        with db.write(ctx) as session:
            return self._mark(session, turn, status=records.E_ERROR, problem=problem)

    def _execute(self, ctx: Context, turn: EventAttempt) -> bool:
        with db.write(ctx) as session:
            if not self._mark(session, turn, status=records.DONE, done_at=clock.now()):
                return False
            self.effect(turn)
            session.execute(sa.insert(_notices).values(
                lease_id=turn.lease_id, project_id="project", event=turn.event_type,
                at=clock.now(), payload="{}"))
        return True

    def effect(self, turn: EventAttempt) -> None:
        """Do more in the middle of the transaction."""

    @staticmethod
    def _mark(session: db.Session, turn: EventAttempt, **values: object) -> bool:
        session.execute(sa.update(_leases).where(_leases.c.id == turn.lease_id).values(
            version=_leases.c.version + 1))
        return session.execute(
            sa.update(_events)
            .where(_events.c.id == turn.event_id, _events.c.owner == turn.owner,
                   _events.c.attempt == turn.number,
                   _events.c.status == records.IN_PROGRESS)
            .values(owner=None, deadline_at=None, **values)).rowcount == 1
