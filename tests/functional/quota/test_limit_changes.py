"""Limits that change beside a claim that is decided, but not committed.

The claim locked the nodes that bound it before. So a claim under the new limits does not wait for
it, and does not see it.
"""

import contextlib
import functools
import threading
import time

import fixtures
import sqlalchemy as sa

from placement_core import db
from placement_core.catalog import projects
from placement_core.changes.tables import change_heads
from placement_core.limits import limits
from placement_core.migrations import schema
from placement_core.placement import allocations
from placement_core.placement.usage import usages
from placement_core.quota import errors
from placement_plugins.enforcement.tree import Tree
from tests import databases, races
from tests.functional.quota import project_trees


@databases.on_each_database
class TestLimitsThatChange(project_trees.TreeTestCase):

    def setUp(self):
        super().setUp()
        # Claims on one host would wait for each other before they come to the limits.
        self.hosts = {
            project: self.provider(VCPU=1000) for project in (self.left, self.right, self.trunk)}
        for project in self.hosts:
            allocations.delete(self.ctx, self.claim(project))

    def claim(self, project, host=None):
        return self.take(
            project, {"VCPU": 1}, ctx=self.context(), host=host or self.hosts[project])

    def limit_trunk(self):
        self.limit(self.trunk, VCPU=1)

    def play(self, change, second, *, logged=False):
        """Pause a claim; change limits and claim again; let the first go on."""
        def change_and_claim():
            self.ctx = self.context()
            change()
            return self.claim(second)

        host = self.hosts[self.trunk]
        with self.paused(lambda: self.claim(self.left, host), logged=logged) as first:
            outcome = first.against(self.database, change_and_claim)
        self.assert_one(first.outcome, outcome)

    def assert_one(self, *outcomes):
        self.assertEqual(
            {str, errors.QuotaExceeded}, {type(outcome) for outcome in outcomes}, outcomes)
        self.ctx = self.context()
        self.assertEqual(1, self.used_by(*self.hosts))

    def used_by(self, *projects):
        return sum(each.resources.get("VCPU", 0) for project in projects
                   for each in usages.for_project(self.context(), project))

    def outcome(self, function, *arguments):
        try:
            return function(*arguments)
        except errors.QuotaExceeded as error:
            return error

    def test_a_limit_above(self):
        self.register(VCPU=1000)
        self.play(self.limit_trunk, self.right)

    def test_a_limit_above_a_claim_that_is_in_the_log(self):
        self.register(VCPU=1000)
        self.play(self.limit_trunk, self.right, logged=True)

    def test_the_first_limit(self):
        self.play(lambda: self.register(VCPU=1), self.left)

    def test_a_move_below_a_limit(self):
        self.register(VCPU=1000)
        other = self.project("other", None)
        self.limit(other, VCPU=1)
        self.hosts[other] = self.provider(VCPU=1000)
        allocations.delete(self.ctx, self.claim(other))
        self.play(lambda: projects.update(self.ctx, self.branch, parent_id=other), other)

    def test_a_limit_that_is_not_committed(self):
        """The first claim waits for it, and is decided again."""
        self.register(VCPU=1000)

        with self.paused(self.limit_trunk, logged=True) as change:
            first = change.against(self.database, lambda: self.claim(self.left))
        self.assertIsNone(change.outcome)
        self.assert_one(first, self.outcome(self.claim, self.right))

    def test_an_emptied_database(self):
        """Its limits begin anew, and so do the marks of the heads."""
        self.register(VCPU=1000)
        schema.empty(self.database.url.render_as_string(hide_password=False))
        with self.database.autocommit.connect() as connection:
            self.assertEqual({0}, set(connection.scalars(
                sa.select(change_heads.c.limits_serial))))

    def test_in_a_large_tree(self):
        """What projects use is read from the index there."""
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.quota.locked_usage.MOST_PROJECTS", -1))
        self.register(VCPU=1000)
        self.play(self.limit_trunk, self.right)

    def test_limits_that_always_change(self):
        """Random claims beside limits that are set and deleted: none is exceeded."""
        self.register(VCPU=1000)
        seen, granted, ended = [], [], threading.Event()

        def change():
            try:
                for _ in range(12):
                    set_and_delete()
                    time.sleep(0.05)
            finally:
                ended.set()

        def set_and_delete():
            ctx = self.context()
            created, = persist(lambda: limits.create_many(ctx, self.catalog, Tree(self.conf), [{
                "project_id": self.trunk, "service_id": self.service,
                "resource_name": "class:VCPU", "resource_limit": 2}]))
            before = self.used_by(*self.hosts)
            time.sleep(0.02)  # claims go on meanwhile
            seen.append((max(2, before), self.used_by(*self.hosts)))
            persist(lambda: limits.delete(ctx, self.catalog, Tree(self.conf), created.id))

        def persist(write):
            # On a slow machine, claims are first at each of the attempts.
            while True:
                with contextlib.suppress(db.TransactionConflict):
                    return write()

        def claim(project):
            while not ended.is_set():
                # On a slow machine, limits change during each of the attempts.
                with contextlib.suppress(db.TransactionConflict):
                    outcome = self.outcome(self.claim, project)
                    if isinstance(outcome, str):
                        granted.append(outcome)
                        allocations.delete(self.context(), outcome)

        outcomes = races.run(change, *(
            functools.partial(claim, project) for project in [*self.hosts] * 2))
        self.assertEqual([None] * 7, outcomes)
        self.assertTrue(granted)
        self.assertEqual([], [(most, used) for most, used in seen if used > most])
