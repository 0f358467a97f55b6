"""Each crossing of a threshold is reported once, whoever looks."""

from __future__ import annotations

import dataclasses
import threading
import time

import fixtures
import sqlalchemy as sa

from placement_core import db, errors, services
from placement_core.catalog import domains, projects, regions, services as catalog_services
from placement_core.changes import kinds, tables as change_tables
from placement_core.db import clock
from placement_core.feed import reading
from placement_core.feed.records import Filters
from placement_core.http.leases_api import representations
from placement_core.limits import limits, registered, users
from placement_core.placement import allocations
from placement_core.placement.records import ANY_GENERATION, AllocationWrite
from placement_core.reservations.manager import loop
from placement_core.testing import factories
from placement_core.thresholds import monitor, tables as threshold_tables, webhooks
from placement_core.thresholds.levels import Subject
from tests import base, databases
from tests.functional.thresholds import receivers
from tests.http.base import configuration

_PATIENCE_SECONDS = 60


class ThresholdTestCase(base.DatabaseTestCase):
    """A project with a limit of 20 VCPU, and a host with room for 25 requests of 4."""

    options = {}

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.receiver = self.useFixture(receivers.Receiver())
        self.parts = self.build()
        self.ctx = self.parts.context()
        self.service = catalog_services.create(self.ctx, service_type="compute").id
        self.domain = domains.create(self.ctx, name="garden").id
        self.project = projects.create(self.ctx, name="web", domain_id=self.domain).id
        registered.create_many(self.ctx, self.parts.catalog, [
            {"service_id": self.service, "resource_name": "class:VCPU", "default_limit": -1}])
        [limit] = limits.create_many(self.ctx, self.parts.catalog, self.parts.model, [
            {"project_id": self.project, "service_id": self.service,
             "resource_name": "class:VCPU", "resource_limit": 20}])
        self.limit_id = limit.id
        self.host = factories.provider(self.ctx, inventory={"VCPU": 100})
        self.consumer = factories.new_uuid()

    def build(self):
        """Return the parts of a manager, which knows nothing but the database."""
        parts = services.build(configuration(
            self.database.url.render_as_string(hide_password=False), {
                ("thresholds", "enabled"): True,
                ("thresholds", "webhook"): self.urls(),
                ("thresholds", "webhook_secret"): receivers.SECRET,
                ("quota", "count_usage_from_placement"): True, **self.options}))
        self.addCleanup(parts.database.dispose)
        return parts

    def urls(self):
        """Return the webhooks."""
        return [self.receiver.url]

    def use(self, amount, project=None):
        allocations.replace(self.ctx, [AllocationWrite(
            self.consumer, {self.host.uuid: {"VCPU": amount}} if amount else {},
            project or self.project, "user", "INSTANCE", ANY_GENERATION)])

    def check(self, parts=None):
        parts = parts or self.parts
        return parts.thresholds.check(parts.context())

    def reports(self):
        """Return what is delivered since the last call."""
        before = len(self.receiver.events)
        for target in self.parts.thresholds.targets:
            sender = webhooks.Sender(target)
            while sender.deliver(self.parts.context()):
                pass
        return [event for _, event in self.receiver.events[before:]]

    def crossings(self):
        return [(each["data"]["previous_level"], each["data"]["level"])
                for each in self.reports()]

    def changes(self):
        with self.database.autocommit.connect() as connection:
            return connection.execute(
                sa.select(change_tables.changes).where(
                    change_tables.changes.c.kind == kinds.THRESHOLD)).all()


@databases.on_each_database
class TestLimits(ThresholdTestCase):

    def test_up_and_down(self):
        for used, crossings in (
                (15, []), (16, [(0, 80)]), (16, []), (17, []), (20, [(80, 100)]),
                (19, [(100, 95)]), (15, [(95, 0)]), (20, [(0, 100)]), (0, [(100, 0)])):
            self.use(used)
            self.check()
            self.assertEqual(crossings, self.crossings(), used)
        self.assertEqual(6, len(self.changes()))

    def test_what_was_left(self):
        """Each level once, with the last time; for a week."""
        for used in (16, 20, 17, 0, 20, 0):
            self.use(used)
            self.check()
        self.assertEqual([(100, 20, 0), (80, 20, 0)], [
            (left.level, left.bound, left.measured)
            for left in monitor.list_left(self.ctx, 10)])
        [last] = monitor.list_left(self.ctx, 1)
        self.assertEqual(("limit", self.project, "own", "class:VCPU"), (
            last.subject.kind, last.subject.node_id, last.subject.scope,
            last.subject.resource_name))
        self.assertLess(last.reached_at, last.left_at)
        left_at = threshold_tables.left_thresholds.c.left_at
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.update(threshold_tables.left_thresholds).values(
                left_at=clock.in_seconds(sa.literal_column("-604801"))))
        self.assertEqual([], monitor.list_left(self.ctx, 10))
        self.use(18)
        self.check()
        limits.delete(self.ctx, self.parts.catalog, self.parts.model, self.limit_id)
        self.check()
        self.assertEqual([(80, None, None)], [
            (left.level, left.bound, left.measured)
            for left in monitor.list_left(self.ctx, 10)])
        with self.database.autocommit.connect() as connection:
            self.assertEqual(1, connection.scalar(sa.select(sa.func.count(left_at))))

    def test_a_report(self):
        self.use(19)
        self.assertEqual(1, self.check())
        [reached] = monitor.list_(self.ctx)
        [report] = self.reports()
        self.assertEqual(self.receiver.events[0][0], report["id"])
        self.assertEqual("threshold.crossed", report["type"])
        self.assertEqual({
            "uuid": reached.measurement.subject.uuid, "kind": "limit", "node_id": self.project,
            "scope": "own", "resource_name": "class:VCPU", "user_id": None, "limit": 20,
            "used": 19, "level": 95, "previous_level": 0}, report["data"])
        [change] = self.changes()
        self.assertEqual((reached.measurement.subject.uuid, "class:VCPU", self.project),
                         (change.uuid, change.name, change.project))
        with db.read(self.ctx) as session:
            self.assertEqual([reached], monitor.read(session, [change.uuid, "other"]))
            self.assertEqual([], monitor.read(session, []))
        self.assertEqual(95, reached.level)

    def test_the_feed_has_its_present_state(self):
        filters = Filters(frozenset({"threshold"}), self.project)
        answer = reading.read_now(self.ctx)
        self.use(19)
        self.check()
        answer = reading.read(self.ctx, answer.token, filters, most=10)
        [reached] = monitor.list_(self.ctx)
        [change] = answer.changes
        self.assertEqual(
            ("threshold", reached.measurement.subject.uuid, "class:VCPU", self.project, reached),
            (change.kind, change.id, change.name, change.project_id, change.record))
        listed = reading.read(self.ctx, None, filters, most=10)
        while listed.token.listing is not None and not listed.changes:
            listed = reading.read(self.ctx, listed.token, filters, most=10)
        self.assertEqual([change], list(listed.changes))
        self.use(0)
        self.check()
        [gone] = reading.read(self.ctx, answer.token, filters, most=10).changes
        self.assertEqual((change.id, None), (gone.id, gone.record))

    def test_several_managers_and_restarts(self):
        managers = [self.parts, self.build(), self.build()]
        self.use(20)
        self.assertEqual([1, 0, 0], [self.check(parts) for parts in managers])
        self.use(1)
        self.assertEqual([1, 0, 0], [self.check(parts) for parts in reversed(managers)])
        self.assertEqual([(0, 100), (100, 0)], self.crossings())

    def be_overtaken(self, *amounts):
        """Let a manager be slow: others see these amounts used, after it has measured."""
        slow = self.build()
        measure = slow.overviews.measure_limits

        def measure_slowly(*arguments):
            measured = measure(*arguments)
            for amount in amounts:
                self.use(amount)
                self.assertEqual(1, self.check())
            return measured

        slow.overviews.measure_limits = measure_slowly
        self.assertEqual(0, self.check(slow))

    def test_one_that_is_slow_does_not_bring_back_what_is_over(self):
        self.use(20)
        self.check()
        self.be_overtaken(1)
        self.assertEqual([], monitor.list_(self.ctx))
        self.assertEqual([(0, 100), (100, 0)], self.crossings())

    def test_one_that_is_slow_and_has_read_no_row(self):
        self.use(20)
        self.be_overtaken(20, 1)
        self.assertEqual([], monitor.list_(self.ctx))
        self.assertEqual([(0, 100), (100, 0)], self.crossings())
        self.use(20)
        self.assertEqual(1, self.check())

    def test_one_that_is_slow_and_has_read_the_same_level(self):
        self.use(16)
        self.check()
        self.use(20)
        self.be_overtaken(19, 16)
        [reached] = monitor.list_(self.ctx)
        self.assertEqual(80, reached.level)
        self.assertEqual([(0, 80), (80, 95), (95, 80)], self.crossings())

    def test_a_project_that_the_catalog_does_not_have(self):
        """The default is its limit, also when it uses nothing any more."""
        registered.create_many(self.ctx, self.parts.catalog, [
            {"service_id": self.service, "resource_name": "servers", "default_limit": 1}])
        for amount in (1, 0):
            self.use(amount, "stranger")
            self.check()
        self.assertEqual([("stranger", 100, 1, 1), ("stranger", 0, 1, 0)], [
            tuple(each["data"][name] for name in ("node_id", "level", "limit", "used"))
            for each in self.reports()])
        self.assertEqual(0, self.check())

    def test_a_limit_that_is_no_more(self):
        self.use(20)
        self.check()
        limits.delete(self.ctx, self.parts.catalog, self.parts.model, self.limit_id)
        self.check()
        _, report = self.reports()
        self.assertEqual((100, 0, None, None), tuple(report["data"][name] for name in (
            "previous_level", "level", "limit", "used")))
        self.assertEqual(0, self.check())

    def test_a_limit_that_changes(self):
        self.use(10)
        self.check()
        limits.update(self.ctx, self.parts.catalog, self.parts.model, self.limit_id,
                      {"resource_limit": 10})
        self.check()
        limits.update(self.ctx, self.parts.catalog, self.parts.model, self.limit_id,
                      {"resource_limit": 100})
        self.check()
        self.assertEqual([(0, 100), (100, 0)], self.crossings())


@databases.on_each_database
class TestUsers(ThresholdTestCase):

    def setUp(self):
        super().setUp()
        registered.create_many(self.ctx, self.parts.catalog, [
            {"service_id": self.service, "resource_name": name, "default_limit": -1}
            for name in ("class:MEMORY_MB", "servers")])
        users.create_many(self.ctx, self.parts.catalog, [
            {"project_id": self.project, "user_id": user, "service_id": self.service,
             "resource_name": name, "resource_limit": limit}
            for user, name, limit in (
                ("user", "class:VCPU", 5), ("other", "class:VCPU", 5),
                ("user", "class:MEMORY_MB", 1), ("user", "servers", -1))])

    def test_up_and_down(self):
        self.use(4)
        self.assertEqual(1, self.check())
        [reached] = monitor.list_(self.ctx)
        self.assertEqual(
            Subject("limit", self.project, "user", "class:VCPU", "user"),
            reached.measurement.subject)
        [report] = self.reports()
        self.assertEqual(
            {"uuid": reached.measurement.subject.uuid, "kind": "limit", "node_id": self.project,
             "scope": "user", "resource_name": "class:VCPU", "user_id": "user", "limit": 5,
             "used": 4, "level": 80, "previous_level": 0}, report["data"])
        self.use(0)
        self.check()
        self.assertEqual([], monitor.list_(self.ctx))
        [left] = monitor.list_left(self.ctx, 10)
        self.assertEqual(reached.measurement.subject, left.subject)

    def test_a_user_beside_the_project(self):
        """Each of the limits is reported by itself."""
        self.use(20)
        self.check()
        self.assertEqual({(None, 20), ("user", 5)}, {
            (each["data"]["user_id"], each["data"]["limit"]) for each in self.reports()})

    def test_a_limit_that_is_no_more(self):
        self.use(4)
        self.check()
        for limit in users.list_(self.ctx):
            users.delete(self.ctx, limit.id)
        self.check()
        self.assertEqual([(0, 80), (80, 0)], self.crossings())


@databases.on_each_database
class TestUsersOfARegion(ThresholdTestCase):

    def test_limits_without_a_region(self):
        """They count for what the region does not register."""
        regions.create(self.ctx, id="here")
        for name, region, limit in (
                ("class:VCPU", "here", 5), ("class:VCPU", None, 1), ("class:DISK_GB", None, 10)):
            if (name, region) != ("class:VCPU", None):
                registered.create_many(self.ctx, self.parts.catalog, [
                    {"service_id": self.service, "region_id": region, "resource_name": name,
                     "default_limit": -1}])
            users.create_many(self.ctx, self.parts.catalog, [
                {"project_id": self.project, "user_id": "user", "service_id": self.service,
                 "region_id": region, "resource_name": name, "resource_limit": limit}])
        self.use(4)
        self.check()
        self.assertEqual([("user", 5)], [
            (each["data"]["user_id"], each["data"]["limit"]) for each in self.reports()])


@databases.on_each_database
class TestSubtrees(ThresholdTestCase):
    options = {("limits", "enforcement_model"): "tree"}

    def test_usage_below_counts_once(self):
        child = projects.create(
            self.ctx, name="shop", domain_id=self.domain, parent_id=self.project).id
        self.use(20, child)
        self.check()
        self.assertEqual(
            [(self.project, "subtree", 20)],
            [(each["data"]["node_id"], each["data"]["scope"], each["data"]["used"])
             for each in self.reports()])


@databases.on_each_database
class TestCapacity(ThresholdTestCase):
    options = {("thresholds", "fewest_shapes"): 10,
               ("least_stranded", "shape"): ["VCPU:4", "CUSTOM_GPU:1"]}

    def test_up_and_down(self):
        self.check()
        [report] = self.reports()  # There is no such class.
        self.assertEqual({"CUSTOM_GPU": 1}, report["data"]["resources"])
        for used, crossings in ((60, []), (61, [(0, 1)]), (60, []), (56, [(1, 0)])):
            self.use(used, "nobody")
            self.check()
            reports = [each["data"] for each in self.reports()
                       if each["data"]["kind"] == "capacity"]
            self.assertEqual(crossings, [
                (data["previous_level"], data["level"]) for data in reports], used)
            for data in reports:
                self.assertEqual(({"VCPU": 4}, 10), (data["resources"], data["fewest"]))

    def test_limits_that_are_not_known(self):
        """They keep nobody from looking at capacity."""
        catalog_services.create(self.ctx, service_type="compute")
        self.use(61, "nobody")
        self.assertRaises(errors.Unavailable, self.check)
        self.assertEqual(
            {"VCPU:4", "CUSTOM_GPU:1"},
            {reached.measurement.subject.resource_name for reached in monitor.list_(self.ctx)})


@databases.on_each_database
class TestManagersWithOtherOptions(ThresholdTestCase):
    """While options differ, they do not report the same thing back and forth."""

    options = {("thresholds", "fewest_shapes"): 50, ("least_stranded", "shape"): ["VCPU:4"]}

    def build_other(self, **changes):
        self.options = {**self.options, **{
            ("thresholds", name): value for name, value in changes.items()}}
        return self.build()

    def let_an_hour_pass(self):
        reached = threshold_tables.reached_thresholds
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.update(reached).values(
                reached_at=clock.in_seconds(sa.literal_column("-3600"))))

    def list_levels(self):
        return {(reached.measurement.subject.kind, reached.level)
                for reached in monitor.list_(self.ctx)}

    def test_percentages(self):
        other = self.build_other(percentages=[90, 99])
        self.use(19)
        managers = [self.parts, other] * 2
        self.assertEqual([2, 0, 0, 0], [self.check(parts) for parts in managers])
        self.let_an_hour_pass()
        self.assertEqual([0, 1, 1, 0], [self.check(parts) for parts in managers])
        self.use(1)
        self.assertEqual(1, self.check(other))
        self.assertEqual({("capacity", 1)}, self.list_levels())

    def test_capacity(self):
        for changes in ({"fewest_shapes": 20}, {"fewest_shapes": 0}):
            other = self.build_other(**changes)
            self.check()
            self.assertEqual([0] * 4, [self.check(parts) for parts in [other, self.parts] * 2])
            self.let_an_hour_pass()
            self.assertEqual(1, self.check(other))
            self.assertEqual(set(), self.list_levels())

    def test_before_they_are_switched_off(self):
        """Managers without any threshold leave what is reached, and report that."""
        self.use(20)
        self.check()
        self.reports()
        last = self.build_other(percentages=[], fewest_shapes=0)
        self.assertEqual(0, self.check(last))
        self.let_an_hour_pass()
        self.assertEqual(2, self.check(last))
        self.assertEqual([0, 0], [each["data"]["level"] for each in self.reports()])
        self.assertEqual(set(), self.list_levels())


class TestTasks(ThresholdTestCase):

    def test_the_manager_looks_and_sends(self):
        tasks = {task.name: task for task in self.parts.manager(representations.LEASE)._tasks}
        self.use(20)
        tasks["look at thresholds"].do(self.parts.context())
        tasks["reports to webhook 1"].do(self.parts.context())
        self.assertEqual(1, len(self.receiver.events))


class TestManager(ThresholdTestCase):
    """Receivers do not delay each other, nor the end of the manager."""

    def setUp(self):
        super().setUp()
        self.manager = self.parts.manager(representations.LEASE)
        self.manager._tasks = [task for task in self.manager._tasks if "webhook" in task.name]
        self.thread = threading.Thread(target=self.manager.run, daemon=True)
        self.addCleanup(self.manager.stop)

    def urls(self):
        self.other = self.useFixture(receivers.Receiver())
        return [self.receiver.url, self.other.url]

    def put(self, number, *event_ids):
        """Insert reports to the webhook with this number."""
        for event_id in event_ids:
            with db.write(self.ctx) as session:
                webhooks.put(
                    session, [self.parts.thresholds.targets[number]], event_id, "{}")

    def test_one_that_is_slow(self):
        """Others get what comes meanwhile, and a manager that stops sends no further report."""
        begun, may_go_on, came = threading.Event(), threading.Event(), threading.Event()
        take, take_other = self.receiver.take, self.other.take

        def hang(headers, body):
            begun.set()
            assert may_go_on.wait(_PATIENCE_SECONDS)
            take(headers, body)

        def take_and_tell(headers, body):
            take_other(headers, body)
            came.set()

        self.receiver.take, self.other.take = hang, take_and_tell
        self.addCleanup(may_go_on.set)
        self.put(0, "one", "two", "three")
        self.thread.start()
        self.assertTrue(begun.wait(_PATIENCE_SECONDS))
        self.put(1, "four")
        self.assertTrue(came.wait(_PATIENCE_SECONDS))
        self.manager.stop()
        self.assertTrue(self.manager._stopped.wait(_PATIENCE_SECONDS))
        may_go_on.set()
        self.thread.join(_PATIENCE_SECONDS)
        self.assertFalse(self.thread.is_alive())
        self.assertEqual(["one"], [event_id for event_id, _ in self.receiver.events])
        self.assertEqual(2, webhooks.count_undelivered(self.ctx).waiting)

    def test_one_that_hangs_when_the_manager_stops(self):
        """Its thread does not keep the process."""
        self.useFixture(fixtures.MonkeyPatch(f"{loop.__name__}._STOP_SECONDS", 0.1))
        begun, may_go_on = threading.Event(), threading.Event()

        def hang(_headers, _body):
            begun.set()
            may_go_on.wait(_PATIENCE_SECONDS)

        self.receiver.take = hang
        self.addCleanup(may_go_on.set)
        self.put(0, "one")
        self.thread.start()
        self.assertTrue(begun.wait(_PATIENCE_SECONDS))
        self.manager.stop()
        self.thread.join(_PATIENCE_SECONDS)
        self.assertFalse(self.thread.is_alive())
        threads = [each for each in threading.enumerate() if "webhook" in each.name]
        self.assertTrue(threads and all(each.daemon for each in threads), threads)

    def test_many_that_wait(self):
        """They are sent without pauses between them."""
        self.manager._tasks = [
            dataclasses.replace(task, seconds=3600) for task in self.manager._tasks]
        self.put(0, *(f"event-{number}" for number in range(20)))
        until = time.monotonic() + _PATIENCE_SECONDS
        self.thread.start()
        while webhooks.count_undelivered(self.context()).waiting:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)
        self.manager.stop()
        self.thread.join(_PATIENCE_SECONDS)
        self.assertEqual(20, len(self.receiver.events))


class TestOff(base.DatabaseTestCase):

    def test_it_is_off_by_default(self):
        parts = services.build(configuration(
            self.database.url.render_as_string(hide_password=False)))
        self.addCleanup(parts.database.dispose)
        self.assertIsNone(parts.thresholds)
