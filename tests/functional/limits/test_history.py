import datetime
from unittest import mock

import sqlalchemy as sa

from placement_core import db, services
from placement_core.context import Context, Identity
from placement_core.db.metadata import utcnow
from placement_core.http.leases_api import representations
from placement_core.limits import errors, history, limits, registered, tables, users
from tests import databases, races
from tests.functional.limits import cases
from tests.http import base


@databases.on_each_database
class TestHistory(cases.LimitsTestCase):

    def setUp(self):
        super().setUp()
        self.ctx = Context(
            self.database, Identity(user_id="jane", project_id="admins"), "req-1")

    def test_every_change_is_told(self):
        first = self.register("cores", 10)
        registered.update(self.ctx, self.catalog, first.id, {"default_limit": 12})
        limit = self.set_limit(self.top, 7)
        self.change(limit, resource_limit=0)
        self.change(limit, description="frozen")
        domain = self.set_limit(self.domain, 8)
        user = self.set_user_limit(self.top, "baobab", -1)
        users.update(self.ctx, user.id, {"resource_limit": 3})
        users.delete(self.ctx, user.id)
        self.delete(limit)
        self.delete(domain)
        registered.delete(self.ctx, first.id)
        self.assertEqual([
            ("created", "registered_limit", "cores", None, 10),
            ("updated", "registered_limit", "cores", 10, 12),
            ("created", "limit", "cores", None, 7),
            ("updated", "limit", "cores", 7, 0),
            ("updated", "limit", "cores", 0, 0),
            ("created", "limit", "cores", None, 8),
            ("created", "user_limit", "cores", None, -1),
            ("updated", "user_limit", "cores", -1, 3),
            ("deleted", "user_limit", "cores", 3, None),
            ("deleted", "limit", "cores", 0, None),
            ("deleted", "limit", "cores", 8, None),
            ("deleted", "registered_limit", "cores", 12, None),
        ], self.changes())

    def test_what_a_change_says(self):
        before = datetime.datetime.now(datetime.UTC)
        limit = self.register("cores", 10, region_id=None)
        project = self.set_limit(self.top, 7, region_id=None)
        domain = self.set_limit(self.domain, 7, region_id=None)
        user = self.set_user_limit(self.top, "baobab", 7, region_id=None)
        found = list(reversed(history.list_(self.ctx)))
        self.assertEqual(
            [("registered_limit", limit.id, None, None, None),
             ("limit", project.id, self.top, None, None),
             ("limit", domain.id, None, self.domain, None),
             ("user_limit", user.id, self.top, None, "baobab")],
            [(each.kind, each.limit_id, each.project_id, each.domain_id, each.user_id)
             for each in found])
        for each in found:
            self.assertEqual(
                (self.compute, None, "cores", "jane", "admins", "req-1"),
                (each.service_id, each.region_id, each.resource_name, each.by_user_id,
                 each.by_project_id, each.request_id))
            # MySQL keeps whole seconds.
            self.assertLess(abs(each.at - before), datetime.timedelta(seconds=30))

    def test_nobody_said_who(self):
        self.ctx = self.context()
        self.register()
        change, = history.list_(self.ctx)
        self.assertEqual((None, None, None), (
            change.by_user_id, change.by_project_id, change.request_id))

    def test_what_was_not_committed_is_not_told(self):
        self.register()

        class Undone(Exception):
            pass

        def write():
            with db.write(self.ctx):
                self.set_limit(self.top, 7)
                raise Undone

        self.assertRaises(Undone, write)
        self.assertRaises(errors.DuplicateLimit, self.register)
        self.assertEqual([("created", "registered_limit", "cores", None, 10)], self.changes())
        self.assertEqual([], limits.list_(self.ctx))

    def test_filters_and_pages(self):
        for name in ("cores", "servers"):
            self.register(name)
        limit = self.set_limit(self.top, 7)
        for value in range(3):
            self.change(limit, resource_limit=value)
        self.set_limit(self.child, 7, "servers")
        self.set_limit(self.domain, 7, "servers")
        self.set_user_limit(self.child, "me", 1)
        for filters, count in (
            ({"project_id": self.top}, 4), ({"project_id": self.child}, 2),
            ({"project_id": self.child, "kind": "user_limit"}, 1),
            ({"domain_id": self.domain}, 1), ({"user_id": "me"}, 1),
            ({"limit_id": limit.id}, 4), ({"resource_name": "servers"}, 3),
            ({"kind": "registered_limit"}, 2), ({"service_id": self.compute}, 9),
            ({"service_id": "no"}, 0), ({"region_id": self.one}, 9), ({"region_id": "\0"}, 0),
            ({"project_id": self.domain}, 0),
        ):
            self.assertEqual(count, len(history.list_(self.ctx, **filters)), filters)
        newest = history.list_(self.ctx, project_id=self.top, limit=2)
        self.assertEqual([2, 1], [each.new_value for each in newest])
        older = history.list_(self.ctx, project_id=self.top, limit=9, marker=newest[-1].id)
        self.assertEqual([0, 7], [each.new_value for each in older])
        self.assertEqual([], history.list_(
            self.ctx, project_id=self.top, marker=older[-1].id))
        for marker in (0, -1, 2**31 - 1):
            self.assertRaises(errors.UnknownMarker, history.list_, self.ctx,
                              project_id="no", marker=marker)

    def age(self, days, *limit_ids):
        """Let the changes of limits be some days old."""
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.limit_history).where(
                tables.limit_history.c.limit_uuid.in_(limit_ids)).values(
                    at=utcnow() - datetime.timedelta(days=days)))

    def test_what_is_old_is_removed(self):
        """In batches; what is younger stays, and so do the limits."""
        old = [self.register(f"r{number}", number).id for number in range(7)]
        young = self.register("cores", 10)
        self.age(366, *old)
        removed = [history.prune(self.ctx, keep_days=365, most=3) for _ in range(4)]
        self.assertEqual([3, 3, 1, 0], removed)
        self.assertEqual([("created", "registered_limit", "cores", None, 10)], self.changes())
        self.assertEqual({*old, young.id}, {each.id for each in registered.list_(self.ctx, [])})
        self.assertEqual(0, history.prune(self.ctx, keep_days=1, most=3))
        self.assertEqual(1, history.prune(self.ctx, keep_days=0, most=3))

    def test_a_clock_that_was_ahead_keeps_nothing_else(self):
        first = self.register("r1", 1)
        old = [self.register(f"old{number}", 1).id for number in range(3)]
        self.age(-2, first.id)
        self.age(400, *old)
        self.assertEqual(2, history.prune(self.ctx, keep_days=365, most=3))
        self.assertEqual(1, history.prune(self.ctx, keep_days=365, most=3))
        self.assertEqual(["r1"], [each[2] for each in self.changes()])

    def test_two_that_remove_at_once(self):
        old = [self.register(f"r{number}", 1).id for number in range(40)]
        self.age(400, *old)
        def remove():
            ctx = Context(self.database)
            removed = 0
            while more := history.prune(ctx, keep_days=365, most=4):
                removed += more
            return removed
        self.assertEqual([], [each for each in races.run(remove, remove)
                              if isinstance(each, Exception)])
        self.assertEqual([], self.changes())

    def test_the_manager_removes_them(self):
        old = [self.register(f"r{number}", 1).id for number in range(5)]
        self.age(30, *old)
        conf = base.configuration(self.database.settings.connection)
        conf.set_override("history_keep_days", 29, "limits")
        parts = services.build(conf)
        self.addCleanup(parts.database.dispose)
        with mock.patch.object(services, "_PRUNE_BATCH", 2):
            [step] = [each for each in parts.manager(representations.LEASE)._tasks
                      if "history of limits" in each.name]
            step.do(parts.context())
        self.assertEqual([], self.changes())
