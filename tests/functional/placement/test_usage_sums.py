"""What everybody in a project uses: kept beside what its users do, filled, folded, audited."""

import random
import threading
from unittest import mock

import sqlalchemy as sa

from placement_core import db, services
from placement_core.http.leases_api import representations
from placement_core.placement import allocations, tables
from placement_core.placement.allocations import usage_counters
from placement_core.placement.usage import audit, project_usage, usages
from placement_core.placement.usage.usage_index import ProjectSet, UsageIndex
from placement_core.plugin_api.counting import CONSUMERS
from placement_core.quota import locked_usage
from placement_core.testing import factories
from tests import databases, races
from tests.functional.placement import claims
from tests.http import base as http_base

_counters, _migrations = tables.usage_counters, tables.online_migrations


class SumsTestCase(claims.ClaimsTestCase):

    def setUp(self):
        super().setUp()
        self.index = UsageIndex(self.database)
        self.host = self.provider(VCPU=10_000, MEMORY_MB=10_000)

    def use(self, user, amount=1, *, project="project", **options):
        consumer = factories.new_uuid()
        self.claim({self.host: {"VCPU": amount}}, consumer=consumer, project=project, user=user,
                   **options)
        return consumer

    def run_sql(self, *statements):
        with self.database.writer.begin() as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, *conditions):
        with self.database.autocommit.connect() as connection:
            return connection.scalar(
                sa.select(sa.func.count()).select_from(_counters).where(*conditions))

    def assert_used(self, vcpus, consumers, project="project"):
        """Ask everybody who answers what a project uses."""
        expected = {"VCPU": vcpus, CONSUMERS: consumers} if consumers else {}
        self.assertEqual(expected, project_usage.read(self.ctx, [project]).get(project, {}))
        self.assertEqual(expected, self.index.by_project(
            self.ctx, [project], moves_once=False).get(project, {}))
        shown = usages.for_project(self.ctx, project)
        self.assertEqual(vcpus, sum(each.resources.get("VCPU", 0) for each in shown))
        self.assertEqual(consumers, sum(each.consumer_count for each in shown))
        later = UsageIndex(self.database).usages(self.ctx)
        for name, amount in (("VCPU", vcpus), (CONSUMERS, consumers)):
            self.assertEqual(amount, later.total(ProjectSet([project]), name))
        with self.database.autocommit.connect() as connection:
            id_ = connection.scalar(sa.select(tables.projects.c.id).where(
                tables.projects.c.external_id == project))
        with db.write(self.context()) as session:
            locked = locked_usage.read(session, [locked_usage.ProjectRows({project: id_})])
        for name, amount in (("VCPU", vcpus), (CONSUMERS, consumers)):
            self.assertEqual(amount, locked.total(ProjectSet([project]), name))


@databases.on_each_database
class TestSums(SumsTestCase):

    def test_users_that_come_and_go(self):
        for number in range(30):
            allocations.delete(self.ctx, self.use(f"user-{number}"))
        self.use("somebody", 3)
        self.assert_used(3, 1)
        # Of one type, VCPU and consumers, however many users there were.
        self.assertEqual(2, self.rows(_counters.c.project_id < 0))
        self.assertEqual(62, self.rows(_counters.c.project_id > 0))

    def test_a_consumer_that_gets_another_owner(self):
        consumer = self.use("anna", 2)
        self.claim({self.host: {"VCPU": 5}}, consumer=consumer, project="other", user="berta")
        self.assert_used(0, 0)
        self.assert_used(5, 1, "other")

    def test_the_audit_repairs_them(self):
        self.use("anna", 2)
        self.use("berta", 4)
        self.run_sql(sa.update(_counters).values(used=_counters.c.used + 7).where(
            _counters.c.project_id < 0, _counters.c.resource_class_id == 0))
        [finding] = audit.audit(self.ctx, repair=False)
        self.assertEqual(("counter", 13, 6), (finding.what, finding.stored, finding.actual))
        self.assertIn("VCPU of project project, all users", finding.where)
        self.assert_used(13, 2)
        audit.audit(self.ctx, repair=True)
        self.assert_used(6, 2)


@databases.on_each_database
class TestOlderDatabases(SumsTestCase):
    """Only users have counters, as a version wrote that did not know the sums."""

    def setUp(self):
        super().setUp()
        self.addCleanup(self.run_sql, sa.update(_migrations).values(finished=True))
        for number, project in enumerate(("project", "other", "third")):
            self.use("anna", number + 1, project=project)
            self.use("berta", 10, project=project)
        self.run_sql(
            sa.delete(_counters).where(_counters.c.project_id < 0),
            sa.update(_migrations).values(finished=False, position=0))

    def test_they_are_read_as_before_and_summed_up_in_portions(self):
        self.use("clara", 100)
        self.assert_used(111, 3)
        self.assert_audit_clean()
        for _ in range(3):
            self.assertEqual((1, 1), usage_counters.sum_up(self.ctx, 1))
            self.use("clara", 100)
        self.assert_used(411, 6)
        self.use("clara", 1, project="made meanwhile")
        while usage_counters.sum_up(self.ctx, 1)[1]:
            pass
        self.assertEqual((0, 0), usage_counters.sum_up(self.ctx, 1))
        # The rows of users say nothing any more.
        self.assert_used(411, 6)
        self.assert_used(12, 2, "other")
        self.assert_used(1, 1, "made meanwhile")
        self.assert_audit_clean()

    def test_beside_claims(self):
        projects = ("project", "other", "third")

        def come_and_go(number):
            chance = random.Random(number)
            for _ in range(10):
                consumer = factories.new_uuid()
                write = self.write({self.host: {"VCPU": 1}}, consumer=consumer,
                                   project=chance.choice(projects), user=f"user-{number}")
                allocations.replace(self.context(), [write])
                if chance.random() < 0.6:
                    allocations.delete(self.context(), consumer)

        def sum_up():
            while usage_counters.sum_up(self.context(), 1)[1]:
                pass

        outcomes = races.run(*(lambda n=n: come_and_go(n) for n in range(3)), sum_up, sum_up)
        self.assertEqual([None] * 5, outcomes)
        self.assert_audit_clean()


@databases.on_each_database
class TestFolding(SumsTestCase):

    def test_what_is_zero_goes(self):
        """In whatever slots it was counted; what is not zero stays."""
        stays = self.use("anna", 3)
        gone = [self.use(f"user-{number}", 2) for number in range(10)]
        for consumer in gone:
            # Each thread has a slot.
            thread = threading.Thread(target=allocations.delete, args=(self.context(), consumer))
            thread.start()
            thread.join()
        self.use("anna", 1, project="left")
        allocations.delete(self.ctx, self.use("anna", 1, project="empty"))
        index = UsageIndex(self.database)
        index.usages(self.ctx)
        self.assertGreaterEqual(usage_counters.fold(self.ctx), 24)
        self.assertEqual(0, usage_counters.fold(self.ctx))
        self.assertEqual(4, self.rows(_counters.c.project_id > 0))
        self.assert_used(3, 1)
        self.assert_used(0, 0, "empty")
        allocations.delete(self.ctx, stays)
        usage_counters.fold(self.ctx)
        # Who knew the project before finds nothing of it.
        self.assertEqual(0, index.usages(self.ctx).total(ProjectSet(["project"]), "VCPU"))
        self.assertFalse(index.usages(self.ctx).has_usage("project"))
        self.use("user-1", 5)
        self.assertEqual(5, index.usages(self.ctx).total(ProjectSet(["project"]), "VCPU"))
        self.assert_used(5, 1)

    def test_slots_are_merged(self):
        """What the guard reads of a project is one row for each counter, as if it always ran."""
        consumers = [self.use_in_slot(slot, "anna", 1 + slot) for slot in (2, 5, 7)]
        self.use_in_slot(0, "berta", 30)
        self.use_in_slot(3, "clara", 30, project="other")
        self.assertEqual(0, usage_counters.fold(self.ctx))
        self.assertEqual((10, 10), self.count_rows())
        usage_counters.fold(self.ctx, merge_slots=True)
        self.assertEqual(0, self.rows(_counters.c.slot > 0))
        # VCPU and consumers of each user, and of everybody in each project.
        self.assertEqual((6, 4), self.count_rows())
        self.assert_used(47, 4)
        self.assert_used(30, 1, "other")
        self.assertEqual(0, usage_counters.fold(self.ctx, merge_slots=True))
        for consumer in consumers:
            self.run_in_slot(1, allocations.delete, self.context(), consumer)
        usage_counters.fold(self.ctx, merge_slots=True)
        self.assertEqual(0, self.rows(_counters.c.slot > 0))
        self.assert_used(30, 1)

    def test_busy_counters_keep_no_others(self):
        """Those of a project that claims all the time change between two looks at them."""
        self.use_in_slot(3, "anna", 5, project="busy")
        self.use_in_slot(3, "anna", 7, project="quiet")
        allocations.delete(self.ctx, self.use("anna", 1, project="empty"))
        with self.database.autocommit.connect() as connection:
            busy = connection.scalar(sa.select(tables.projects.c.id).where(
                tables.projects.c.external_id == "busy"))
        read_slots = usage_counters._read_slots

        def read_too_early(session, key):
            ahead = abs(key[0]) == busy
            return {slot: used + ahead for slot, used in read_slots(session, key).items()}

        with mock.patch.object(usage_counters, "_read_slots", read_too_early):
            # VCPU and consumers, of the user and of everybody, in two projects.
            self.assertEqual(8, usage_counters.fold(self.ctx, merge_slots=True))
        self.assertEqual(4, self.rows(_counters.c.slot > 0))
        self.assert_used(5, 1, "busy")
        self.assert_used(7, 1, "quiet")
        self.assertEqual(4, usage_counters.fold(self.ctx, merge_slots=True))
        self.assertEqual(0, self.rows(_counters.c.slot > 0))

    def test_the_manager_merges_them_where_the_guard_enforces(self):
        for guard, merges in (("off", False), ("audit", False), ("enforce", True)):
            self.use_in_slot(3, "anna", project=f"under {guard}")
            of_slot = self.rows(_counters.c.slot > 0)
            conf = http_base.configuration(self.database.settings.connection)
            conf.set_override("count_usage_from_placement", True, "quota")
            conf.set_override("guard", guard, "quota")
            parts = services.build(conf)
            self.addCleanup(parts.database.dispose)
            [task] = [each for each in parts.manager(representations.LEASE)._tasks
                      if "usage counters" in each.name]
            task.do(parts.context())
            self.assertEqual(0 if merges else of_slot, self.rows(_counters.c.slot > 0), guard)

    def count_rows(self):
        """Return the number of counters of users, and of those of everybody."""
        return (self.rows(_counters.c.project_id > 0), self.rows(_counters.c.project_id < 0))

    def run_in_slot(self, slot, function, *arguments, **options):
        with mock.patch.object(self.database.journal, "slot", lambda: slot):
            return function(*arguments, **options)

    def use_in_slot(self, slot, *arguments, **options):
        return self.run_in_slot(slot, self.use, *arguments, **options)

    def test_beside_claims(self):
        self.check_beside_claims(merge_slots=False)

    def test_merging_beside_claims(self):
        self.check_beside_claims(merge_slots=True)

    def check_beside_claims(self, *, merge_slots):
        """Several fold while others claim and give back, of the same users."""
        done = threading.Event()
        stay = []

        def come_and_go(number):
            chance = random.Random(number)
            for _ in range(25):
                consumer = factories.new_uuid()
                write = self.write({self.host: {"VCPU": 1, "MEMORY_MB": 1}}, consumer=consumer,
                                   user=f"user-{chance.randrange(2)}")
                allocations.replace(self.context(), [write])
                if chance.random() < 0.3:
                    stay.append(consumer)
                else:
                    allocations.delete(self.context(), consumer)

        def claim():
            outcomes = races.run(*(lambda n=n: come_and_go(n) for n in range(3)))
            done.set()
            self.assertEqual([None] * 3, outcomes)

        def fold():
            while not done.is_set():
                usage_counters.fold(self.context(), merge_slots=merge_slots)

        self.assertEqual([None] * 3, races.run(claim, fold, fold))
        self.assert_audit_clean()
        self.assertEqual({"VCPU": len(stay), "MEMORY_MB": len(stay), CONSUMERS: len(stay)},
                         project_usage.read(self.ctx, ["project"])["project"])
        usage_counters.fold(self.ctx, merge_slots=merge_slots)
        if merge_slots:
            self.assertEqual(0, self.rows(_counters.c.slot > 0))
        for consumer in stay:
            allocations.delete(self.ctx, consumer)
        usage_counters.fold(self.ctx)
        self.assertEqual(0, self.rows())
