"""What happened last, merged from the notifications of leases, limits and failed events."""

from __future__ import annotations

import dataclasses
import datetime

import sqlalchemy as sa

from placement_core import db, recent_changes
from placement_core.limits import history
from placement_core.limits.records import Limit
from placement_core.recent_changes import Scope
from placement_core.reservations import records, tables
from placement_core.reservations.leases import notifications
from placement_core.thresholds import tables as threshold_tables
from tests import databases
from tests.functional.reservations import lease_cases

_EVERYBODY = Scope(None)


@databases.on_each_database
class TestRecentChanges(lease_cases.LeasesTestCase):
    def setUp(self):
        super().setUp()
        self.hosts(*[(16, 16, 16)] * 3)
        self.lease = self.create(self.instances(2), project="p", name="käse 🧀")
        self.other = self.create(self.whole(), project="q")
        self.limit = Limit("a", "p", None, "s", None, "VCPU", 8)
        changed = dataclasses.replace(self.limit, resource_limit=12)
        for entry in (history.created(self.limit), history.updated(self.limit, changed)):
            with db.write(self.ctx) as session:
                history.write(self.ctx, session, [entry])

    def list_recent(self, most=10, **options):
        options = {"leases": _EVERYBODY, "limits": _EVERYBODY, "failures": True,
                   "thresholds": True, **options}
        return recent_changes.list_recent(self.ctx, most, **options)

    def test_the_newest_first(self):
        """Of each kind in its order, and no more than wanted."""
        changes = self.list_recent()
        self.assertEqual(sorted(changes, key=lambda change: change.at, reverse=True), changes)
        self.assertEqual([
            ("lease.create", self.other.id, "lease", "q"),
            ("lease.create", self.lease.id, "käse 🧀", "p")], [
            (change.what, change.subject_id, change.subject_name, change.project_id)
            for change in changes if change.kind == "lease"])
        self.assertEqual({("created", None, 8), ("updated", 8, 12)}, {
            (change.what, change.old_value, change.new_value)
            for change in changes if change.kind == "limit"})
        self.assertEqual(changes[:3], self.list_recent(3))

    def test_of_a_project(self):
        """Of others there is nothing, and of what is not wanted neither."""
        self.assertEqual({self.other.id}, {
            change.subject_id for change in self.list_recent(
                leases=Scope("q"), limits=Scope("q"))})
        self.assertEqual([], self.list_recent(
            leases=None, limits=None, failures=False, thresholds=False))
        self.assertEqual([], self.list_recent(leases=Scope("\0"), limits=Scope("\0")))
        self.assertEqual({"lease"}, {change.kind for change in self.list_recent(limits=None)})

    def test_failed_events(self):
        events = tables.lease_events
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.update(events).where(
                events.c.lease_id == self.lease.id, events.c.event_type == records.START,
            ).values(status=records.E_ERROR, problem="no host"))
        [failure] = [change for change in self.list_recent() if change.kind == "event"]
        self.assertEqual((records.START, self.lease.id, "käse 🧀", "no host"), (
            failure.what, failure.subject_id, failure.subject_name, failure.problem))
        self.assertEqual(self.lease.start_at, failure.at)
        self.assertNotIn("event", {
            change.kind for change in self.list_recent(failures=False)})

    def test_thresholds(self):
        """Those that are reached now, with what was measured; no more than wanted."""
        at = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        common = {"kind": "limit", "scope": "own", "resource_name": "VCPU", "level": 95,
                  "bound": 20, "measured": 19}
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.insert(threshold_tables.reached_thresholds), [
                {**common, "uuid": f"{number}", "node_id": f"p{number}",
                 "reached_at": at - datetime.timedelta(minutes=number)} for number in range(3)])
        others = {"leases": None, "limits": None, "failures": False}
        changes = self.list_recent(**others)
        self.assertEqual(["p0", "p1", "p2"], [change.project_id for change in changes])
        self.assertEqual(at.replace(tzinfo=datetime.UTC), changes[0].at)
        self.assertEqual((95, 19), (
            changes[0].reached.level, changes[0].reached.measurement.measured))
        self.assertEqual(changes[:2], self.list_recent(2, **others))
        self.assertNotIn("threshold", {
            change.kind for change in self.list_recent(thresholds=False)})

    def test_thresholds_that_were_left(self):
        """Beside those that are reached, with when they were reached."""
        at = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        hour = datetime.timedelta(hours=1)
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.insert(threshold_tables.left_thresholds), [
                {"uuid": "one", "level": level, "kind": "limit", "node_id": "p", "scope": "own",
                 "resource_name": "VCPU", "bound": 20, "measured": 3,
                 "reached_at": at - 2 * hour, "left_at": at - hour + hour * level / 100}
                for level in (80, 95)])
        first, second = self.list_recent(leases=None, limits=None, failures=False)
        self.assertEqual([95, 80], [first.left.level, second.left.level])
        self.assertEqual((first.left.left_at, "p", "VCPU", None), (
            first.at, first.project_id, first.subject_name, first.reached))
        self.assertEqual((at - 2 * hour).replace(tzinfo=datetime.UTC), first.left.reached_at)

    def test_newest_notifications_of_a_lease(self):
        self.change(self.lease, name="new name")
        self.assertEqual(["lease.update", "lease.create"], [
            notification.event for notification in notifications.list_newest(
                self.ctx, lease_id=self.lease.id, limit=5)])
