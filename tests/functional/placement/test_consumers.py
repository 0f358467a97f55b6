from unittest import mock

import sqlalchemy as sa

from placement_core import db
from placement_core.feed import reading
from placement_core.feed.records import Filters
from placement_core.placement import allocations, errors, tables
from placement_core.placement.allocations import consumers, missing_consumers
from placement_core.placement.allocations.owners import Owners
from placement_core.placement.records import ANY_GENERATION
from placement_core.placement.usage import usages
from placement_core.testing import factories
from tests import databases
from tests.functional.placement import claims

NOBODY = "00000000-0000-0000-0000-000000000000"


@databases.on_each_database
class TestMissingConsumers(claims.ClaimsTestCase):
    """Allocations from before consumers were recorded (G6, seed 004)."""

    def setUp(self):
        super().setUp()
        self.host = self.provider(VCPU=80, DISK_GB=80)

    def unrecorded(self, count=1, **held):
        """Make allocations of consumers without a record; return their uuids."""
        uuids = sorted(factories.new_uuid() for _ in range(count))
        for uuid in uuids:
            self.claim({self.host: held or {"VCPU": 2}}, consumer=uuid)
        with self.database.writer.begin() as connection:
            connection.execute(
                sa.delete(tables.consumers).where(tables.consumers.c.uuid.in_(uuids)))
            connection.execute(sa.delete(tables.usage_counters))
        return uuids

    def test_reading_a_consumer_records_it(self):
        uuid, = self.unrecorded(VCPU=2, DISK_GB=3)
        found = allocations.list_for_consumer(self.ctx, uuid)
        self.assertEqual((NOBODY, NOBODY, None, 0),
                         (found.project_id, found.user_id, found.consumer_type,
                          found.generation))
        self.assertEqual(0, self.generation(uuid))
        usage, = usages.for_project(self.ctx, NOBODY)
        self.assertEqual((None, 1, {"VCPU": 2, "DISK_GB": 3}),
                         (usage.consumer_type, usage.consumer_count, dict(usage.resources)))

    def test_reading_a_provider_records_them(self):
        uuids = self.unrecorded(3)
        found = allocations.list_for_provider(
            self.ctx, self.host.uuid, Owners(("old project", "old user")))
        self.assertEqual(dict.fromkeys(uuids, 0),
                         {uuid: share.consumer_generation
                          for uuid, share in found.consumers.items()})
        self.assertEqual(3, self.count(tables.consumers))
        usage, = usages.for_project(self.ctx, "old project", user_id="old user")
        self.assertEqual(3, usage.consumer_count)

    def test_reading_inside_a_transaction_records_nothing(self):
        uuid, = self.unrecorded()
        with db.read(self.ctx):
            found = allocations.list_for_consumer(self.ctx, uuid)
        self.assertEqual((NOBODY, 0), (found.project_id, found.generation))
        self.assertIsNone(self.generation(uuid))

    def test_writing_records_it_as_the_writer_says(self):
        for seen in (None, ANY_GENERATION):
            uuid, = self.unrecorded()
            self.assertRaises(errors.ConsumerGenerationConflict, self.claim,
                              {self.host: {"VCPU": 1}}, consumer=uuid, seen=0)
            self.claim({self.host: {"VCPU": 1}}, consumer=uuid, seen=seen)
            self.assertEqual(1, self.generation(uuid))
            self.assertEqual({self.host.uuid: {"VCPU": 1}}, self.held(uuid))
            allocations.delete(self.ctx, uuid)

    def test_emptying_one(self):
        for remove in (
            lambda uuid: self.claim({}, consumer=uuid, seen=None),
            lambda uuid: self.claim({}, consumer=uuid),
            lambda uuid: allocations.delete(self.ctx, uuid),
        ):
            uuid, = self.unrecorded()
            remove(uuid)
            self.assertEqual({}, self.held(uuid))
            self.assertEqual({"VCPU": 0, "DISK_GB": 0}, self.used(self.host))

    def test_in_batches(self):
        self.unrecorded(5)
        self.assertEqual((5, 2), missing_consumers.create_incomplete(self.ctx, 2))
        self.assertEqual((3, 1), missing_consumers.create_incomplete(self.ctx, 1))
        self.assertEqual((2, 2), missing_consumers.create_incomplete(self.ctx, 50))
        self.assertEqual((0, 0), missing_consumers.create_incomplete(self.ctx, 50))
        self.assertEqual(5, self.count(tables.consumers))
        usage, = usages.for_project(self.ctx, NOBODY)
        self.assertEqual((5, {"VCPU": 10}), (usage.consumer_count, dict(usage.resources)))

    def test_recording_twice_and_without_allocations(self):
        uuid, = self.unrecorded()
        for _ in range(2):
            missing_consumers.record(self.ctx, [uuid, factories.new_uuid()], Owners())
        self.assertEqual(1, self.count(tables.consumers))


@databases.on_each_database
class TestUnusedConsumers(claims.ClaimsTestCase):
    """Upstream leaves consumers of generation 0 that hold nothing."""

    def setUp(self):
        super().setUp()
        self.host = self.provider(VCPU=8)
        self.claim({self.host: {"VCPU": 1}}, consumer=factories.new_uuid())
        with self.database.writer.begin() as connection:
            connection.execute(sa.insert(tables.consumers).from_select(
                ["uuid", "project_id", "user_id", "generation"],
                sa.select(sa.literal(self.consumer), tables.projects.c.id, tables.users.c.id, 0)
                .select_from(tables.projects.join(tables.users, sa.true()))))

    def test_they_count_as_new(self):
        self.claim({self.host: {"VCPU": 2}}, project="another", seen=None)
        found = allocations.list_for_consumer(self.ctx, self.consumer)
        self.assertEqual(("another", "INSTANCE", 1),
                         (found.project_id, found.consumer_type, found.generation))
        self.assertRaises(errors.ConsumerGenerationConflict, self.claim,
                          {self.host: {"VCPU": 2}}, seen=None)

    def test_they_can_be_emptied(self):
        self.claim({}, seen=None)
        self.assertIsNone(self.generation(self.consumer))

    def test_they_can_be_written_by_generation(self):
        self.claim({self.host: {"VCPU": 2}}, seen=0)
        self.assertEqual(1, self.generation(self.consumer))

    def test_one_that_vanishes_while_it_is_written(self):
        """Its new owner is not taken for the one that was read before."""
        if self.kind != "postgresql":
            self.skipTest("whoever finds it locks it, or there is one writer at a time")
        insert = consumers._insert_together

        def insert_and_lose(session, writes):
            inserted = insert(session, writes)
            with self.database.writer.begin() as connection:
                connection.execute(sa.delete(tables.consumers).where(
                    tables.consumers.c.uuid == self.consumer))
            return inserted

        with mock.patch.object(consumers, "_insert_together", insert_and_lose):
            allocations.replace(self.ctx, [
                self.write({self.host: {"VCPU": 2}}, consumer=consumer, project="another",
                           seen=None)
                for consumer in (self.consumer, factories.new_uuid())], owners=self.owners)
        found = allocations.list_for_consumer(self.ctx, self.consumer)
        self.assertEqual(("another", 1), (found.project_id, found.generation))
        usage, = usages.for_project(self.ctx, "another")
        self.assertEqual((2, {"VCPU": 4}), (usage.consumer_count, dict(usage.resources)))


@databases.on_each_database
class TestOwners(claims.ClaimsTestCase):

    def test_owners_are_made_once(self):
        host = self.provider(VCPU=80)
        for _ in range(3):
            self.claim({host: {"VCPU": 1}}, consumer=factories.new_uuid())
        for table in (tables.projects, tables.users, tables.consumer_types):
            self.assertEqual(1, self.count(table))

    def test_owners_that_vanished_are_made_again(self):
        host = self.provider(VCPU=80)
        self.claim({host: {"VCPU": 1}}, seen=None)
        allocations.delete(self.ctx, self.consumer)
        with self.database.writer.begin() as connection:
            for table in (tables.usage_counters, tables.projects, tables.users,
                          tables.consumer_types):
                connection.execute(sa.delete(table))
        self.claim({host: {"VCPU": 1}}, seen=None)
        found = allocations.list_for_consumer(self.ctx, self.consumer)
        self.assertEqual(("project", "user", "INSTANCE"),
                         (found.project_id, found.user_id, found.consumer_type))
        # The same for a consumer that moves to owners we thought we knew.
        self.claim({host: {"VCPU": 1}}, project="next", user="next", kind="NEXT")
        self.claim({host: {"VCPU": 1}})
        with self.database.writer.begin() as connection:
            connection.execute(sa.delete(tables.projects).where(
                tables.projects.c.external_id == "next"))
        self.claim({host: {"VCPU": 1}}, project="next", user="next", kind="NEXT")
        self.assertEqual(
            "next", allocations.list_for_consumer(self.ctx, self.consumer).project_id)
        self.database_is_as_the_counters_say()

    def database_is_as_the_counters_say(self):
        usage, = usages.for_project(self.ctx, "next")
        self.assertEqual({"VCPU": 1}, dict(usage.resources))


@databases.on_each_database
class TestLock(claims.ClaimsTestCase):
    """For callers that decide by a consumer's allocations, and may change nothing."""

    def test_readers_of_changes_learn_of_it(self):
        """Its row has another time afterwards."""
        self.claim({self.provider(VCPU=8): {"VCPU": 1}})
        token = reading.read_now(self.ctx).token
        with db.write(self.ctx) as session:
            self.assertTrue(consumers.lock(session, self.consumer))
        answer = reading.read(self.ctx, token, Filters(frozenset({"consumer"})), most=10)
        self.assertEqual([self.consumer], [change.id for change in answer.changes])
