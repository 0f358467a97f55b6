import datetime
import functools
import logging

import fixtures

from placement_core.placement import allocations, errors as placement_errors
from placement_core.placement.records import InventoryValues
from placement_core.plugin_api import counting
from placement_core.quota import claim_expiry, claims, errors, project_trees
from placement_core.testing import factories
from tests import databases
from tests.functional.quota import held


@databases.on_each_database
class TestClaims(held.HeldTestCase):

    def setUp(self):
        super().setUp()
        self.host = self.provider(VCPU=16, MEMORY_MB=64)
        self.asked = {self.host: {"VCPU": 2, "MEMORY_MB": 4}}
        self.wire = {self.host.uuid: {"VCPU": 2, "MEMORY_MB": 4}}

    def test_for_good(self):
        made = self.hold(self.asked, seconds=None)
        self.assertEqual(
            (self.cloud.leaf, "user", "INSTANCE", "confirmed", None, self.wire),
            (made.project_id, made.user_id, made.consumer_type, made.state, made.expires_at,
             made.allocations))
        self.assertEqual(made, claims.get(self.ctx, made.consumer_uuid))
        self.assertEqual(made, claims.confirm(self.ctx, made.consumer_uuid))
        self.assertEqual((0, [2]), (self.rows(), self.usage(self.cloud.leaf)))
        claims.release(self.ctx, made.consumer_uuid)
        self.assertEqual(({}, [0]), (self.held(made.consumer_uuid), self.usage(self.cloud.leaf)))
        self.assertIsNone(self.state(made.consumer_uuid))

    def test_held_and_confirmed(self):
        made = self.hold(self.asked)
        left = made.expires_at - datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        self.assertTrue(580 < left.total_seconds() < 620, left)
        self.assertEqual(made, claims.get(self.ctx, made.consumer_uuid))
        self.assertEqual(self.wire, self.held(made.consumer_uuid))
        self.assertEqual(([made], None), claims.list_(self.ctx, most=10))
        confirmed = claims.confirm(self.ctx, made.consumer_uuid)
        self.assertEqual(("confirmed", None, self.wire),
                         (confirmed.state, confirmed.expires_at, confirmed.allocations))
        # Whoever did not get the answer asks again.
        self.assertEqual(confirmed, claims.confirm(self.ctx, made.consumer_uuid))
        self.assertEqual(([], None), claims.list_(self.ctx, most=10))
        self.assertEqual((1, 0), (self.generation(made.consumer_uuid), self.rows()))
        claims.release(self.ctx, made.consumer_uuid)
        self.assertEqual({"VCPU": 0, "MEMORY_MB": 0}, self.used(self.host))

    def test_what_projects_hold(self):
        """What claims hold is known by project, until they are confirmed or written over."""
        self.assertEqual({}, project_trees.read_held(self.ctx))
        made, over = self.hold(self.asked), self.hold({self.host: {"VCPU": 3}})
        self.hold(self.asked, seconds=None)
        self.expired({self.host: {"MEMORY_MB": 1}})
        self.assertEqual(
            {self.cloud.leaf: {"VCPU": 5, "MEMORY_MB": 5, counting.CONSUMERS: 3}},
            project_trees.read_held(self.ctx))
        claims.confirm(self.ctx, made.consumer_uuid)
        self.hold({self.host: {"VCPU": 4}}, consumer=over.consumer_uuid, seen=1,
                  seconds=None)
        self.assertEqual({self.cloud.leaf: {"MEMORY_MB": 1, counting.CONSUMERS: 1}},
                         project_trees.read_held(self.ctx))

    def test_parts_of_a_second_count(self):
        """A database that rounds to whole seconds would give up to a second less."""
        times = [self.hold({self.host: {"VCPU": 1}}).expires_at for _ in range(3)]
        self.assertTrue(any(each.microsecond for each in times), times)

    def test_released_while_it_is_held(self):
        made = self.hold(self.asked)
        claims.release(self.ctx, made.consumer_uuid)
        self.assertEqual((None, 0), (self.state(made.consumer_uuid), self.rows()))
        for function in (claims.release, claims.confirm, claims.get):
            self.assertRaises(
                errors.ClaimNotFound, function, self.ctx, made.consumer_uuid)

    def test_too_late(self):
        consumer = self.expired(self.asked)
        for swept in (False, True):
            self.assertRaises(errors.ClaimExpired, claims.confirm, self.ctx, consumer)
            self.assertEqual("expired", self.state(consumer))
            (listed,), _ = claims.list_(self.ctx, most=10, state="expired")
            self.assertEqual({} if swept else self.wire, listed.allocations)
            self.assertEqual(([], None), claims.list_(self.ctx, most=10, state="held"))
            claim_expiry.sweep(self.ctx)
        self.assertRaises(errors.ClaimNotFound, claims.release, self.ctx, consumer)

    def test_released_when_it_is_late_and_nobody_swept(self):
        consumer = self.expired(self.asked)
        claims.release(self.ctx, consumer)
        self.assertEqual((None, {}), (self.state(consumer), self.held(consumer)))

    def test_unknown(self):
        for name in (factories.new_uuid(), "", "x" * 37, "\0", "\ud800", "a\u00e4\U0001f600"):
            for function in (claims.get, claims.confirm, claims.release):
                self.assertRaises(errors.ClaimNotFound, function, self.ctx, name)

    def test_a_consumer_that_holds_something(self):
        made = self.hold(self.asked)
        refused = self.assertRaises(
            errors.ClaimExists, self.hold, self.asked, consumer=made.consumer_uuid, seconds=None)
        self.assertEqual("claim.exists", refused.code)
        self.assertEqual((made, 1), (claims.get(self.ctx, made.consumer_uuid), self.rows()))

    def test_undone(self):
        """What is made only to be undone is refused as if it were to stay."""
        for amount, refusal in ((2, None), (65, placement_errors.CapacityExceeded)):
            write = self.write({self.host: {"MEMORY_MB": amount}}, consumer=factories.new_uuid())
            if refusal is None:
                self.assertIsNone(self.cloud.claims.claim_all(self.ctx, [write], undo=True))
            else:
                self.assertRaises(
                    refusal, self.cloud.claims.claim_all, self.ctx, [write], undo=True)
            self.assertEqual({"VCPU": 0, "MEMORY_MB": 0}, self.used(self.host))

    def test_what_is_refused_is_not_held(self):
        self.cloud.limit(self.cloud.branch, 3)
        for asked, refusal in (
            ({self.host: {"VCPU": 17}}, errors.QuotaExceeded),
            ({self.host: {"MEMORY_MB": 65}}, placement_errors.CapacityExceeded),
            ({self.host: {"VCPU": 1, "DISK_GB": 1}}, placement_errors.InventoryMissing),
            ({self.host: {"CUSTOM_NONE": 1}}, placement_errors.UnknownResourceClass),
            ({factories.new_uuid(): {"VCPU": 1}}, placement_errors.AllocationForUnknownProvider),
        ):
            self.assertRaises(refusal, self.hold, asked)
        self.assertEqual((0, [0]), (self.rows(), self.usage(self.cloud.leaf)))
        self.hold({self.host: {"VCPU": 3}})
        refused = self.assertRaises(errors.QuotaExceeded, self.hold, {self.host: {"VCPU": 1}})
        (exceeded,) = refused.exceeded_limits
        self.assertEqual((self.cloud.branch, 3, 3, 1),
                         (exceeded.node_id, exceeded.limit, exceeded.used, exceeded.asked))

    def test_pages(self):
        made = [self.hold({self.host: {"VCPU": 1}}, project=project) for project in (
            self.cloud.leaf, self.cloud.twig, self.cloud.leaf, self.cloud.leaf)]
        found, after = [], 0
        while after is not None:
            page, after = claims.list_(self.ctx, most=1, after=after)
            found += page
        self.assertEqual(made, found)
        page, after = claims.list_(self.ctx, most=2, project_id=self.cloud.leaf)
        self.assertEqual([made[0], made[2]], page)
        # What ends meanwhile moves nothing.
        claims.confirm(self.ctx, made[2].consumer_uuid)
        page, after = claims.list_(self.ctx, most=2, project_id=self.cloud.leaf, after=after)
        self.assertEqual(([made[3]], None), (page, after))


@databases.on_each_database
class TestTakenOver(held.HeldTestCase):
    """Somebody else writes what a held consumer has."""

    def setUp(self):
        super().setUp()
        self.host, self.other = self.provider(VCPU=16), self.provider(VCPU=16)
        self.held_one = self.hold({self.host: {"VCPU": 2}}).consumer_uuid

    def assert_theirs(self, amount):
        """Expect what somebody else wrote to stay, whatever becomes of the hold."""
        self.assertEqual("confirmed", self.state(self.held_one))
        self.assertEqual(([], None), claims.list_(self.ctx, most=10))
        self.pass_time(self.held_one)
        self.assertEqual("confirmed", self.state(self.held_one))
        generation = self.generation(self.held_one)
        swept = claim_expiry.sweep(self.ctx)
        self.assertEqual(([], 1, []), (swept.ended, swept.others, swept.failed))
        self.assertEqual({self.host.uuid: {"VCPU": amount}}, self.held(self.held_one))
        self.assertEqual((generation, 0), (self.generation(self.held_one), self.rows()))
        self.assertEqual("confirmed", claims.confirm(self.ctx, self.held_one).state)

    def test_by_put(self):
        self.put({self.host: {"VCPU": 3}}, consumer=self.held_one, seen=1)
        self.assert_theirs(3)

    def test_by_put_of_the_same(self):
        self.put({self.host: {"VCPU": 2}}, consumer=self.held_one, seen=1)
        self.assert_theirs(2)

    def test_by_delete_and_put(self):
        """The generation is what it was: it begins anew."""
        allocations.delete(self.ctx, self.held_one)
        self.assertIsNone(self.state(self.held_one))
        self.put({self.host: {"VCPU": 2}}, consumer=self.held_one, seen=None)
        self.assertEqual(1, self.generation(self.held_one))
        self.assert_theirs(2)

    def reshape(self, held, **options):
        options = {"consumer": self.held_one, "project": self.cloud.leaf, **options}
        self.cloud.claims.reshape(self.ctx, {self.host.uuid: (
            self.generation(self.host), {"VCPU": InventoryValues(total=20)})},
            [self.write(held, **options)])

    def test_a_reshape_takes_nothing_over(self):
        """It says what everybody holds, and means to move it."""
        before = claims.get(self.ctx, self.held_one)
        self.reshape({self.host: {"VCPU": 2}})
        self.assertEqual(before, claims.get(self.ctx, self.held_one))
        self.reshape({self.other: {"VCPU": 2}})
        moved = claims.get(self.ctx, self.held_one)
        self.assertEqual(("held", before.expires_at, {self.other.uuid: {"VCPU": 2}}),
                         (moved.state, moved.expires_at, moved.allocations))
        self.pass_time(self.held_one)
        [ended] = claim_expiry.sweep(self.ctx).ended
        self.assertEqual({self.other.uuid: {"VCPU": 2}}, ended.allocations)
        self.assertEqual({}, self.held(self.held_one))

    def test_confirmed_after_a_reshape(self):
        self.reshape({self.host: {"VCPU": 2}})
        self.assertEqual("confirmed", claims.confirm(self.ctx, self.held_one).state)
        self.assertEqual((0, {self.host.uuid: {"VCPU": 2}}),
                         (self.rows(), self.held(self.held_one)))

    def test_a_reshape_after_it_was_taken_over(self):
        self.put({self.host: {"VCPU": 3}}, consumer=self.held_one, seen=1)
        self.reshape({self.host: {"VCPU": 3}})
        self.assert_theirs(3)

    def test_a_reshape_that_gives_it_to_another_project(self):
        self.reshape({self.host: {"VCPU": 2}}, project=self.cloud.twig)
        self.assert_theirs(2)

    def test_a_reshape_that_empties_it(self):
        self.reshape({})
        self.assertIsNone(self.state(self.held_one))
        self.pass_time(self.held_one)
        self.assertEqual(1, claim_expiry.sweep(self.ctx).others)

    def test_confirmed_after_that(self):
        self.put({self.host: {"VCPU": 3}}, consumer=self.held_one, seen=1)
        self.assertEqual("confirmed", claims.confirm(self.ctx, self.held_one).state)
        self.assertEqual(0, self.rows())

    def test_deleted(self):
        allocations.delete(self.ctx, self.held_one)
        for function in (claims.confirm, claims.release, claims.get):
            self.assertRaises(errors.ClaimNotFound, function, self.ctx, self.held_one)
        self.pass_time(self.held_one)
        self.assertEqual(1, claim_expiry.sweep(self.ctx).others)
        self.assertEqual(0, self.rows())

    def test_claimed_anew(self):
        allocations.delete(self.ctx, self.held_one)
        self.hold({self.host: {"VCPU": 5}}, consumer=self.held_one, seconds=None)
        self.assert_row_gone_and_kept()
        claims.release(self.ctx, self.held_one)
        again = self.hold({self.host: {"VCPU": 5}}, consumer=self.held_one)
        self.assertEqual(again, claims.get(self.ctx, self.held_one))
        self.pass_time(self.held_one)
        claim_expiry.sweep(self.ctx)
        # A new one is not mistaken for the one that expired.
        self.hold({self.host: {"VCPU": 1}}, consumer=self.held_one, seconds=None)
        self.assert_row_gone_and_kept()

    def assert_row_gone_and_kept(self):
        self.assertEqual(("confirmed", 0), (self.state(self.held_one), self.rows()))

    def test_put_after_it_expired(self):
        self.pass_time(self.held_one)
        claim_expiry.sweep(self.ctx)
        self.put({self.host: {"VCPU": 3}}, consumer=self.held_one, seen=None)
        # The claim is over all the same.
        self.assertRaises(errors.ClaimExpired, claims.confirm, self.ctx, self.held_one)
        self.assertRaises(errors.ClaimNotFound, claims.release, self.ctx, self.held_one)
        self.assertEqual({self.host.uuid: {"VCPU": 3}}, self.held(self.held_one))


@databases.on_each_database
class TestSweeping(held.HeldTestCase):

    def setUp(self):
        super().setUp()
        self.host, self.other = self.provider(VCPU=16), self.provider(VCPU=16)

    def test_sweep(self):
        log = self.useFixture(fixtures.FakeLogger(level=logging.INFO))
        stays = self.hold({self.host: {"VCPU": 1}})
        due = [self.expired({self.host: {"VCPU": 2}, self.other: {"VCPU": 1}})
               for _ in range(3)]
        before = self.generation(self.host)
        swept = claim_expiry.sweep(self.ctx)
        self.assertEqual(due, [each.consumer_uuid for each in swept.ended])
        self.assertEqual(
            {self.host.uuid: {"VCPU": 2}, self.other.uuid: {"VCPU": 1}},
            swept.ended[0].allocations)
        self.assertEqual((0, []), (swept.others, swept.failed))
        self.assertEqual(({"VCPU": 1}, {"VCPU": 0}), (self.used(self.host), self.used(self.other)))
        self.assertEqual([1], self.usage(self.cloud.leaf))
        self.assertEqual("held", self.state(stays.consumer_uuid))
        # As with DELETE /allocations: no client's view of the provider is spoilt.
        self.assertEqual(before, self.generation(self.host))
        self.assertIn(f"claim {due[0]} of project {self.cloud.leaf} expired", log.output)
        self.assertIn(f"2 VCPU on {self.host.uuid}", log.output)
        self.assertEqual([], claim_expiry.sweep(self.ctx).ended)

    def test_batches(self):
        self.useFixture(fixtures.MonkeyPatch("placement_core.quota.claim_expiry._BATCH", 2))
        due = [self.expired({self.host: {"VCPU": 1}}) for _ in range(5)]
        self.assertEqual(due[:3], [
            each.consumer_uuid for each in claim_expiry.sweep(self.ctx, most=3).ended])
        said = []
        claim_expiry.sweep(self.ctx, progress=lambda swept: said.append(len(swept.ended)))
        self.assertEqual(([2], {"VCPU": 0}), (said, self.used(self.host)))

    def test_what_cannot_be_ended_does_not_keep_the_others(self):
        stuck, due = (self.expired({self.host: {"VCPU": 1}}) for _ in range(2))
        delete = allocations.delete

        def too_busy(ctx, consumer_uuid):
            if consumer_uuid == stuck:
                raise claim_expiry.core_errors.Unavailable("too busy")
            delete(ctx, consumer_uuid)

        with fixtures.MonkeyPatch("placement_core.placement.allocations.delete", too_busy):
            swept = claim_expiry.sweep(self.ctx)
        self.assertEqual(([due], [stuck]),
                         ([each.consumer_uuid for each in swept.ended], swept.failed))
        self.assertEqual({"VCPU": 1}, self.used(self.host))
        self.assertEqual([stuck], [
            each.consumer_uuid for each in claim_expiry.sweep(self.ctx).ended])

    def test_what_ended_is_forgotten_after_a_day(self):
        consumer = self.expired({self.host: {"VCPU": 1}})
        claim_expiry.sweep(self.ctx)
        self.pass_time(consumer, seconds=86_000)
        claim_expiry.sweep(self.ctx)
        self.assertEqual("expired", self.state(consumer))
        self.pass_time(consumer, seconds=86_500)
        claim_expiry.sweep(self.ctx)
        self.assertIsNone(self.state(consumer))

    def test_a_write_takes_the_place_of_what_is_due(self):
        due = self.expired({self.host: {"VCPU": 16}})
        elsewhere = self.expired({self.other: {"VCPU": 1}})
        self.put({self.host: {"VCPU": 16}}, project="anybody")
        self.assertEqual(("expired", {}), (self.state(due), self.held(due)))
        self.assertNotEqual({}, self.held(elsewhere))  # not in the way

    def test_a_claim_takes_it_too(self):
        self.expired({self.host: {"VCPU": 16}})
        self.hold({self.host: {"VCPU": 1}})
        self.assertEqual({"VCPU": 1}, self.used(self.host))

    def test_a_reshape_takes_it_too(self):
        due = self.expired({self.host: {"VCPU": 16}})
        self.reshape({"VCPU": 16}, [self.write({self.host: {"VCPU": 16}}, seen=None)])
        self.assertEqual({}, self.held(due))

    def test_a_reshape_takes_the_class_away(self):
        due = self.expired({self.host: {"VCPU": 2}})
        self.reshape({"MEMORY_MB": 16}, [])
        self.assertEqual(({}, {"MEMORY_MB": 0}), (self.held(due), self.used(self.host)))

    def test_a_reshape_that_what_is_not_due_is_in_the_way_of(self):
        self.hold({self.host: {"VCPU": 2}})
        self.assertRaises(placement_errors.InventoryInUse, self.reshape, {"MEMORY_MB": 16}, [])
        self.assertRaises(placement_errors.CapacityExceeded, self.reshape, {"VCPU": 16}, [
            self.write({self.host: {"VCPU": 15}}, seen=None)])

    def test_what_is_due_and_written_itself_is_in_nobodys_way(self):
        """The refusal says what is too large, and nothing is lost."""
        due = self.expired({self.host: {"VCPU": 2}})
        for write in (functools.partial(self.put, {self.host: {"VCPU": 17}}, seen=1, consumer=due),
                      functools.partial(self.reshape, {"VCPU": 16}, [
                          self.write({self.host: {"VCPU": 17}}, consumer=due, seen=1)])):
            self.assertRaises(placement_errors.CapacityExceeded, write)
            self.assertEqual({self.host.uuid: {"VCPU": 2}}, self.held(due))

    def reshape(self, inventory, writes):
        self.cloud.claims.reshape(self.ctx, {self.host.uuid: (self.generation(self.host), {
            name: InventoryValues(total=total) for name, total in inventory.items()})}, writes)

    def test_several_providers_at_once(self):
        for host in (self.host, self.other):
            self.expired({host: {"VCPU": 16}})
        self.put({self.host: {"VCPU": 1}, self.other: {"VCPU": 1}})

    def test_what_is_not_due_is_in_the_way(self):
        due = self.expired({self.host: {"VCPU": 1}})
        self.hold({self.host: {"VCPU": 15}})
        self.assertRaises(
            placement_errors.CapacityExceeded, self.put, {self.host: {"VCPU": 2}})
        self.assertEqual("expired", self.state(due))
        self.put({self.host: {"VCPU": 1}})

    def test_room_that_was_made_a_moment_ago(self):
        """A write that was refused before that is attempted again, though nothing is due."""
        gate = claim_expiry.HeldClaimsGate(self.cloud.catalog)
        refusal = self.assertRaises(
            placement_errors.CapacityExceeded, self.claim, {self.host: {"VCPU": 17}})

        def make_room(host):
            request = allocations.WriteRequest([self.write({host: {"VCPU": 1}})])
            return gate.make_room(self.ctx, request, refusal)

        self.assertFalse(make_room(self.host))
        self.expired({self.host: {"VCPU": 16}})
        self.assertEqual([True, True, False], [
            make_room(host) for host in (self.host, self.host, self.other)])
        with fixtures.MonkeyPatch("placement_core.quota.claim_expiry._REMEMBERED_SECONDS", -1):
            self.assertFalse(make_room(self.host))

    def test_quota_that_is_due_in_another_project_of_the_tree(self):
        self.cloud.limit(self.cloud.trunk, 10)
        self.expired({self.host: {"VCPU": 10}}, project=self.cloud.leaf)
        far = self.expired({self.host: {"VCPU": 1}}, project="far")
        self.put({self.other: {"VCPU": 10}}, project=self.cloud.twig)
        self.assertEqual([0, 10], self.usage(self.cloud.leaf, self.cloud.twig))
        self.assertNotEqual({}, self.held(far))

    def test_quota_first_and_capacity_then(self):
        self.cloud.limit(self.cloud.trunk, 10)
        self.expired({self.host: {"VCPU": 10}}, project=self.cloud.leaf)
        self.expired({self.other: {"VCPU": 16}}, project="far")
        self.put({self.other: {"VCPU": 10}}, project=self.cloud.twig)

    def test_quota_that_is_not_due(self):
        self.cloud.limit(self.cloud.leaf, 10)
        self.hold({self.host: {"VCPU": 10}})
        self.assertRaises(errors.QuotaExceeded, self.put, {self.host: {"VCPU": 1}},
                          project=self.cloud.leaf)
