"""What there is to do for managers, and whether any lives."""

from __future__ import annotations

import datetime
import functools

import sqlalchemy as sa

from placement_core.db import clock
from placement_core.db.metadata import utcnow
from placement_core.reservations import records, tables
from placement_core.reservations.manager import backlog, heartbeats
from tests import databases, races
from tests.functional.reservations import eventful

START, BEFORE_END, END = eventful.KINDS
_managers = tables.managers


@databases.on_each_database
class TestBacklog(eventful.EventTestCase):

    def measure(self) -> backlog.Backlog:
        return backlog.measure(self.context())

    def execute(self, statement, *parameters) -> None:
        with self.database.writer.begin() as connection:
            connection.execute(statement, *parameters)

    def test_nothing(self) -> None:
        self.assertEqual(
            (backlog.Backlog(0, 0.0, 0, 0, 0.0, 0, None),
             {"PENDING": 0, "ACTIVE": 0, "TERMINATED": 0, "ERROR": 0}),
            (self.measure(), backlog.count_leases(self.context())))

    def test_events(self) -> None:
        self.lease(100, 200)
        self.lease(-50, 100, done=[START])
        self.assertEqual((0, 0.0), (self.measure().due_events,
                                    self.measure().longest_due_seconds))
        self.lease(-20, 100)
        begun = self.lease(-300, -40, before_end=-60)
        self.set(begun, status=records.IN_PROGRESS)
        failed = self.lease(-500, 100)
        self.set(failed, status=records.E_ERROR)
        found = self.measure()
        self.assertEqual((4, 1), (found.due_events, found.failed_events))
        self.assertTrue(300 <= found.longest_due_seconds < 340, found)

    def test_leases(self) -> None:
        ids = [self.lease(100, 200) for _ in range(4)]
        leases = tables.leases
        for id_, values in (
                (ids[0], {"status": records.ACTIVE}), (ids[1], {"deleted_at": utcnow()})):
            self.execute(sa.update(leases).where(leases.c.id == id_).values(**values))
        self.assertEqual({"PENDING": 2, "ACTIVE": 1, "TERMINATED": 0, "ERROR": 0},
                         backlog.count_leases(self.context()))

    def test_outbox(self) -> None:
        for age in (30, 90, 60):
            self.execute(sa.insert(tables.outbox).values(
                subject="s", call="c", arguments="{}", attempt=0, next_at=clock.now(),
                created_at=utcnow() - datetime.timedelta(seconds=age)))
        found = self.measure()
        self.assertEqual(3, found.calls)
        self.assertTrue(89 <= found.oldest_call_seconds < 130, found)

    def test_the_first_audit_beside_the_first_heartbeat(self) -> None:
        """A manager begins both at the same time."""
        for number in range(10):
            owner = f"manager-{number}"
            outcomes = races.run(
                functools.partial(heartbeats.beat, self.context(), owner=owner),
                functools.partial(
                    heartbeats.record_audit, self.context(), owner=owner, findings=number))
            self.assertEqual([None, None], outcomes)
        self.assertEqual(
            {f"manager-{number}": number for number in range(10)},
            {manager.owner: manager.audit_findings
             for manager in heartbeats.list_(self.context(), most=20)})

    def test_heartbeats(self) -> None:
        """Silence for a minute, and nobody counts on the manager; after a day it is not listed."""
        for owner in ("a", "b", "c", "c"):
            heartbeats.beat(self.context(), owner=owner)
        self.assertEqual(3, self.measure().managers)
        self.assertLess(self.measure().heartbeat_seconds, 30)
        for owner, seconds in (("a", 61), ("b", 86_401)):
            self.execute(
                sa.update(_managers).where(_managers.c.owner == owner)
                .values(seen_at=clock.in_seconds(sa.literal_column(str(-seconds), sa.Integer))))
        heartbeats.record_audit(self.context(), owner="c", findings=4)
        self.assertEqual(1, self.measure().managers)
        self.assertEqual([(4, True), (None, False)], [
            (manager.audit_findings, manager.audited_at is not None)
            for manager in heartbeats.list_(self.context(), most=9)])
        self.assertEqual([("c", True), ("a", False)], [
            (manager.owner, manager.is_alive)
            for manager in heartbeats.list_(self.context(), most=9)])
        self.execute(sa.delete(_managers).where(_managers.c.owner == "c"))
        found = self.measure()
        self.assertEqual(0, found.managers)
        self.assertTrue(61 <= found.heartbeat_seconds < 100, found)
        heartbeats.beat(self.context(), owner="d")
        with self.database.autocommit.connect() as connection:
            self.assertEqual({"a", "d"}, set(connection.scalars(sa.select(_managers.c.owner))))
