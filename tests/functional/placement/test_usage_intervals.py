"""Usage intervals, compared with a model of who held what when."""

from __future__ import annotations

import collections
import contextlib
import datetime
import itertools
import random
import threading

import sqlalchemy as sa

from placement_core.db import TransactionConflict, clock
from placement_core.placement import allocations, errors, tables
from placement_core.placement.allocations import consumer_copies
from placement_core.placement.allocations.consumer_copies import ConsumerCopy
from placement_core.placement.records import InventoryValues
from placement_core.placement.usage import intervals
from placement_core.placement.usage.intervals import UsageFilter
from placement_core.testing import factories
from tests import databases
from tests.functional.placement import claims

_EVERYTHING = UsageFilter()
#: A page that has all intervals of a test.
_ALL = 10_000
_DAY = datetime.timedelta(days=1)


class IntervalTestCase(claims.ClaimsTestCase):

    def setUp(self):
        super().setUp()
        self.host, self.other = (
            self.provider(VCPU=10_000, MEMORY_MB=1_000_000) for _ in range(2))

    def now(self):
        """Return the database's time; later than all that was written before."""
        with self.database.autocommit.connect() as connection:
            text = connection.scalar(sa.select(clock.microseconds(clock.now())))
        return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
            microseconds=text)

    def tick(self):
        """Wait until the database's clock has moved; SQLite's has milliseconds."""
        begun = self.now()
        while (now := self.now()) == begun:
            pass
        return now

    def list(self, **filters):
        return intervals.list_(self.ctx, UsageFilter(**filters), limit=_ALL)

    def holdings(self, listed=None):
        """Return (consumer, class, amount, whether it is open), in the order of the list."""
        return [(each.consumer_uuid, each.resource_class, each.amount, each.ended_at is None)
                for each in (self.list() if listed is None else listed)]

    def assert_seamless(self, *held):
        """Assert that intervals of one consumer follow each other without gap or overlap."""
        for before, after in itertools.pairwise(held):
            self.assertEqual(before.ended_at, after.started_at)


@databases.on_each_database
class TestIntervals(IntervalTestCase):

    def test_a_claim_is_an_open_interval(self):
        before = self.tick()
        self.claim({self.host: {"VCPU": 2}})
        [interval] = self.list()
        self.assertEqual(
            (self.consumer, "INSTANCE", "project", "user", self.host.uuid, "VCPU", 2, None),
            (interval.consumer_uuid, interval.consumer_type, interval.project_id,
             interval.user_id, interval.provider_uuid, interval.resource_class, interval.amount,
             interval.ended_at))
        self.assertTrue(before <= interval.started_at <= self.now())
        self.assertEqual(0, self.count(tables.usage_intervals))

    def test_a_deletion_ends_it(self):
        self.claim({self.host: {"VCPU": 2}})
        [begun] = self.list()
        self.tick()
        allocations.delete(self.ctx, self.consumer)
        [ended] = self.list()
        self.assertEqual((begun.started_at, begun.marker), (ended.started_at, ended.marker))
        self.assertTrue(ended.started_at < ended.ended_at <= self.now())
        self.assertEqual("project", ended.project_id)

    def test_what_stays_is_not_cut(self):
        self.claim({self.host: {"VCPU": 2, "MEMORY_MB": 20}})
        [memory, _] = sorted(self.list(), key=lambda each: each.resource_class)
        self.tick()
        self.claim({self.host: {"VCPU": 4, "MEMORY_MB": 20}})
        self.tick()
        self.claim({self.host: {"VCPU": 4, "MEMORY_MB": 20}})
        listed = self.list()
        self.assertIn(memory, listed)
        first, second = (each for each in listed if each.resource_class == "VCPU")
        self.assertEqual((2, 4, None), (first.amount, second.amount, second.ended_at))
        self.assert_seamless(first, second)

    def test_another_owner_begins_another_interval(self):
        self.claim({self.host: {"VCPU": 2}})
        for change in ({"project": "theirs"}, {"project": "theirs", "user": "joan"},
                       {"project": "theirs", "user": "joan", "kind": "VOLUME"}):
            self.tick()
            self.claim({self.host: {"VCPU": 2}}, **change)
        listed = self.list()
        self.assertEqual(
            [("project", "user", "INSTANCE"), ("theirs", "user", "INSTANCE"),
             ("theirs", "joan", "INSTANCE"), ("theirs", "joan", "VOLUME")],
            [(each.project_id, each.user_id, each.consumer_type) for each in listed])
        self.assert_seamless(*listed)

    def test_a_move_to_another_consumer(self):
        self.claim({self.host: {"VCPU": 2}})
        self.tick()
        migration = factories.new_uuid()
        allocations.replace(self.ctx, [
            self.write({}), self.write({self.host: {"VCPU": 2}}, consumer=migration, seen=None)])
        [left] = self.list(consumer_uuid=self.consumer)
        [taken] = self.list(consumer_uuid=migration)
        self.assert_seamless(left, taken)

    def test_a_reshape(self):
        self.claim({self.host: {"VCPU": 2, "MEMORY_MB": 20}})
        self.tick()
        child = factories.provider(self.ctx, parent=self.host)
        new = {self.host.uuid: (self.generation(self.host), {
                   "VCPU": InventoryValues(total=10_000)}),
               child.uuid: (0, {"MEMORY_MB": InventoryValues(total=1000)})}
        allocations.reshape(self.ctx, new, [
            self.write({self.host: {"VCPU": 2}, child: {"MEMORY_MB": 20}})])
        memory = self.list(resource_class="MEMORY_MB")
        self.assertEqual([self.host.uuid, child.uuid], [each.provider_uuid for each in memory])
        self.assert_seamless(*memory)
        [vcpu] = self.list(resource_class="VCPU")
        self.assertIsNone(vcpu.ended_at)

    def test_a_copied_consumer_that_loses_its_type(self):
        copies = [ConsumerCopy(self.consumer, "project", "user", kind, 1, {
            self.host.uuid: {"VCPU": 2}}) for kind in ("INSTANCE", None)]
        for copy in copies:
            consumer_copies.write(self.ctx, [copy])
            self.tick()
        first, second = self.list()
        self.assertEqual(("INSTANCE", None), (first.consumer_type, second.consumer_type))
        self.assert_seamless(first, second)

    def test_what_lasts_no_time_is_none(self):
        self.claim({self.host: {"VCPU": 2}})
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.update(tables.allocations).values(
                started_at=clock.in_seconds(sa.literal(3600))))
        allocations.delete(self.ctx, self.consumer)
        self.assertEqual([], self.list())

    def test_a_row_of_an_older_version_has_the_time_of_its_insertion(self):
        self.claim({self.host: {"VCPU": 2}})
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.update(tables.allocations).values(
                started_at=None, created_at=datetime.datetime(2020, 1, 2, 3, 4, 5)))
        begun = datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
        self.assertEqual([begun], [each.started_at for each in self.list()])
        allocations.delete(self.ctx, self.consumer)
        self.assertEqual([begun], [each.started_at for each in self.list()])

    def test_a_consumer_without_a_record(self):
        self.claim({self.host: {"VCPU": 2}})
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.delete(tables.consumers))
            connection.execute(sa.delete(tables.usage_counters))
        self.assertEqual([None], [each.project_id for each in self.list()])
        self.tick()
        allocations.delete(self.ctx, self.consumer)
        self.assertEqual([None], [each.project_id for each in self.list()])

    def test_a_refused_write_ends_nothing(self):
        self.claim({self.host: {"VCPU": 2}})
        self.tick()
        self.assertRaises(errors.CapacityExceeded, self.claim, {self.host: {"VCPU": 10**9}})
        self.assertRaises(
            errors.ConsumerGenerationConflict, self.claim, {self.other: {"VCPU": 2}}, seen=77)
        self.assertEqual([(self.consumer, "VCPU", 2, True)], self.holdings())

    def test_two_writers_of_one_consumer(self):
        self.claim({self.host: {"VCPU": 1}})
        contexts = [self.context() for _ in range(4)]

        def work(ctx, first):
            for amount in range(first, first + 10):
                # Unless the others were quicker again and again.
                with contextlib.suppress(TransactionConflict):
                    self.claim({self.host: {"VCPU": amount}}, ctx=ctx)

        threads = [threading.Thread(target=work, args=(ctx, 100 * number))
                   for number, ctx in enumerate(contexts, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        listed = self.list()
        self.assertEqual(1, sum(each.ended_at is None for each in listed))
        self.assert_seamless(*listed)


@databases.on_each_database
class TestReading(IntervalTestCase):

    def test_filters(self):
        second = factories.new_uuid()
        self.claim({self.host: {"VCPU": 2, "MEMORY_MB": 20}})
        self.claim({self.host: {"VCPU": 3}}, consumer=second, project="theirs", user="joan")
        self.tick()
        allocations.delete(self.ctx, self.consumer)
        for filters in ({"project_id": "theirs"}, {"user_id": "joan"}, {"consumer_uuid": second}):
            self.assertEqual([(second, "VCPU", 3, True)], self.holdings(self.list(**filters)))
        self.assertEqual({2, 3}, {each.amount for each in self.list(resource_class="VCPU")})
        for filters in ({"project_id": "nobody"}, {"project_id": "\0"},
                        {"resource_class": "CUSTOM_X"}):
            self.assertEqual([], self.list(**filters))

    def test_times(self):
        before = self.tick()
        self.claim({self.host: {"VCPU": 2}})
        between = self.tick()
        self.claim({self.host: {"VCPU": 3}})
        after = self.tick()

        def amounts(**filters):
            return [each.amount for each in self.list(**filters)]

        self.assertEqual([], amounts(end_at=before))
        self.assertEqual([2], amounts(end_at=between))
        self.assertEqual([2, 3], amounts(start_at=before, end_at=after))
        self.assertEqual([3], amounts(start_at=after))
        # The same moment, said in another zone.
        zone = datetime.timezone(datetime.timedelta(hours=-7))
        self.assertEqual([2], amounts(end_at=between.astimezone(zone)))

    def test_pages_have_each_interval_once_though_some_end_meanwhile(self):
        consumers = [factories.new_uuid() for _ in range(12)]
        for consumer in consumers:
            self.claim({self.host: {"VCPU": 2}, self.other: {"VCPU": 1, "MEMORY_MB": 3}},
                       consumer=consumer, seen=None)
        self.tick()
        markers = [each.marker for each in self.list()]
        self.assertEqual(36, len(set(markers)))
        paged, marker = [], None
        while page := intervals.list_(self.ctx, _EVERYTHING, marker=marker, limit=5):
            paged += page
            marker = page[-1].marker
            for consumer in consumers[::5]:
                if self.held(consumer):
                    allocations.delete(self.ctx, consumer)
                    break
        self.assertEqual(markers, [each.marker for each in paged])

    def test_a_marker_that_is_none(self):
        for marker in ("", "x", "1.2", "1.x.y", f"{10**30}.1.y", f"1.{10**12}.y", "1.-1.y"):
            self.assertRaises(errors.InvalidMarker, intervals.list_, self.ctx, _EVERYTHING,
                              marker=marker, limit=1)

    def test_sums_beyond_64_bits(self):
        large = self.provider(MEMORY_MB=2**31 - 1)
        self.claim({large: {"MEMORY_MB": 2**31 - 1}})
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.update(tables.allocations).values(
                started_at=datetime.datetime(2020, 1, 1)))
        start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
        [total] = intervals.add_up(
            self.ctx, UsageFilter(start_at=start, end_at=start + 100 * _DAY))
        self.assertEqual(100 * 86_400 * (2**31 - 1), total.amount_seconds)

    def test_what_is_old_is_removed(self):
        for amount in range(1, 8):
            self.claim({self.host: {"VCPU": amount}})
            self.tick()
        with self.database.autocommit.connect() as connection:
            for amount in range(1, 6):
                connection.execute(
                    sa.update(tables.usage_intervals)
                    .where(tables.usage_intervals.c.amount == amount)
                    .values(ended_at=datetime.datetime(2020, 1, amount)))
            connection.execute(sa.update(tables.usage_interval_bounds).values(
                complete_since=datetime.datetime(2019, 1, 1)))
        counts = []
        while not counts or counts[-1] == 2:
            counts.append(intervals.prune(self.ctx, keep_days=30, most=2))
        self.assertEqual([2, 2, 1], counts)
        self.assertEqual([6, 7], [each.amount for each in self.list()])
        age = self.now() - intervals.get_complete_since(self.ctx)
        self.assertTrue(30 * _DAY <= age < 31 * _DAY, age)

    def test_pruning_does_not_say_that_more_is_known(self):
        since = intervals.get_complete_since(self.ctx)
        intervals.prune(self.ctx, keep_days=30, most=2)
        self.assertTrue(self.now() - intervals.get_complete_since(self.ctx) <= 30 * _DAY)
        self.assertTrue(since <= intervals.get_complete_since(self.ctx))


@databases.on_each_database
class TestRandomHistories(IntervalTestCase):
    """The intervals of random writes, compared with what was held after each of them."""

    def test_intervals_are_the_integral_of_usage(self):
        for seed in range(4):
            with self.subTest(seed=seed):
                self.run_history(random.Random(seed), steps=40)

    def run_history(self, source, steps):
        uuids = [factories.new_uuid() for _ in range(4)]
        project = f"project-{source.random()}"
        samples = []  # [(a moment between two writes, what is held then)]
        begin = self.tick()
        for _ in range(steps):
            self.write_something(source, uuids, project)
            samples.append((self.now(), self.read_held(uuids)))
            self.tick()
        end = self.tick()
        listed = self.list(project_id=project, start_at=begin, end_at=end)
        for moment, held in samples:
            at_moment = collections.Counter()
            for each in listed:
                if each.started_at <= moment and (
                        each.ended_at is None or each.ended_at > moment):
                    key = each.consumer_uuid, each.provider_uuid, each.resource_class
                    self.assertNotIn(key, at_moment)
                    at_moment[key] += each.amount
            self.assertEqual(held, dict(at_moment))
        self.assert_joined(listed)
        sums = collections.Counter()
        for each in listed:
            lasted = min(each.ended_at or end, end) - max(each.started_at, begin)
            sums[each.resource_class] += each.amount * lasted.total_seconds()
        totals = intervals.add_up(
            self.ctx, UsageFilter(project_id=project, start_at=begin, end_at=end))
        self.assertEqual({name: round(seconds) for name, seconds in sums.items()}, {
            total.resource_class: total.amount_seconds for total in totals})

    def assert_joined(self, listed):
        """Assert that no two intervals could be one."""
        ended = {(each.consumer_uuid, each.provider_uuid, each.resource_class, each.amount,
                  each.ended_at) for each in listed}
        for each in listed:
            self.assertNotIn((each.consumer_uuid, each.provider_uuid, each.resource_class,
                              each.amount, each.started_at), ended)

    def write_something(self, source, uuids, project):
        consumer = source.choice(uuids)
        others = [uuid for uuid in uuids if uuid != consumer]
        held = self.held(consumer)
        match source.randrange(5):
            case 0 if held:
                allocations.delete(self.ctx, consumer)
            case 1 if held and not self.held(others[0]):
                allocations.replace(self.ctx, [
                    self.write({}, consumer=consumer, project=project),
                    self.write(held, consumer=others[0], project=project)])
            case 2 if held:
                self.claim(held, consumer=consumer, project=project)
            case _:
                self.claim({host: {name: source.randrange(1, 4)
                                   for name in source.choice(
                                       (["VCPU"], ["MEMORY_MB"], ["VCPU", "MEMORY_MB"]))}
                            for host in source.sample([self.host, self.other],
                                                      source.randrange(1, 3))},
                           consumer=consumer, project=project)

    def read_held(self, uuids):
        return {(uuid, provider, name): amount for uuid in uuids
                for provider, resources in self.held(uuid).items()
                for name, amount in resources.items()}
