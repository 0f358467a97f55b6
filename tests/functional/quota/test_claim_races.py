import random
import time
from unittest import mock

import sqlalchemy as sa

from placement_core.placement import allocations, errors as placement_errors
from placement_core.placement.tables import allocations as allocation_rows
from placement_core.quota import claim_expiry, claims, errors, held_claims, tables
from placement_core.quota.records import Sweep
from placement_core.testing import factories
from tests import databases, races
from tests.functional.placement.races import processes
from tests.functional.quota import claimers, held


@databases.on_each_database
class TestEnds(held.HeldTestCase):
    """A claim ends once, in one way, whoever tries."""

    def setUp(self):
        super().setUp()
        self.host = self.provider(VCPU=64)

    def race(self, *functions):
        """Run functions at once, each with a context of its own."""
        contexts = [self.context() for _ in functions]
        return races.run(*(
            lambda ctx=ctx, function=function: function(ctx)
            for ctx, function in zip(contexts, functions, strict=True)))

    def paused_in(self, module, name, function):
        """Run ``function`` until it is about to call a function of a module."""
        original = getattr(module, name)

        def play(paused):
            def wait(*arguments, **options):
                paused.here()
                return original(*arguments, **options)

            with mock.patch.object(module, name, wait):
                return function(self.context())

        return races.Paused(play)

    def assert_given_back(self, consumer):
        self.assertEqual(({}, {"VCPU": 0}, [0]), (
            self.held(consumer), self.used(self.host), self.usage(self.cloud.leaf)))

    def test_two_sweepers(self):
        due = {self.expired({self.host: {"VCPU": 1}}) for _ in range(12)}
        swept = self.race(*[claim_expiry.sweep] * 3)
        self.assertEqual([Sweep] * 3, [type(each) for each in swept], swept)
        ended = [each.consumer_uuid for one in swept for each in one.ended]
        self.assertEqual((len(due), due), (len(ended), set(ended)))
        self.assertEqual([[]] * 3, [one.failed for one in swept])
        self.assertEqual({"VCPU": 0}, self.used(self.host))

    def test_a_second_sweeper_waits_and_finds_it_done(self):
        due = self.expired({self.host: {"VCPU": 1}})
        with self.paused_in(allocations, "delete", claim_expiry.sweep) as first:
            second = first.against(self.database, lambda: claim_expiry.sweep(self.context()))
        self.assertEqual([due], [each.consumer_uuid for each in first.outcome.ended])
        self.assertEqual([], second.ended)
        self.assertEqual("expired", self.state(due))
        self.assert_given_back(due)

    def test_a_write_that_is_refused_while_somebody_sweeps(self):
        """It waits for the sweep, and has what that gave back."""
        due = self.expired({self.host: {"VCPU": 64}})
        with self.paused_in(allocations, "delete", claim_expiry.sweep) as sweep:
            outcome = sweep.against(self.database, lambda: self.put(
                {self.host: {"VCPU": 64}}, ctx=self.context(), seen=None, project="far"))
        self.assertIsNone(outcome)
        self.assertEqual([due], [each.consumer_uuid for each in sweep.outcome.ended])

    def test_a_confirmation_that_comes_while_it_expires(self):
        due = self.expired({self.host: {"VCPU": 1}})
        with self.paused_in(allocations, "delete", claim_expiry.sweep) as sweep:
            outcome = sweep.against(
                self.database, lambda: claims.confirm(self.context(), due))
        self.assertIsInstance(outcome, errors.ClaimExpired)
        self.assertEqual([due], [each.consumer_uuid for each in sweep.outcome.ended])
        self.assert_given_back(due)

    def test_one_that_expires_while_its_confirmation_is_refused(self):
        if self.kind == "sqlite":
            self.skipTest("SQLite has one writer at a time")
        due = self.expired({self.host: {"VCPU": 1}})
        read, swept = held_claims.read_own_holdings, []

        def sweep_and_read(session, rows):
            if not swept:
                swept.append(None)
                swept[0] = claim_expiry.sweep(self.context())
            return read(session, rows)

        with mock.patch.object(held_claims, "read_own_holdings", sweep_and_read):
            self.assertRaises(errors.ClaimExpired, claims.confirm, self.context(), due)
        self.assertEqual([due], [each.consumer_uuid for each in swept[0].ended])

    def test_a_sweep_that_comes_while_it_is_confirmed(self):
        consumer = self.hold({self.host: {"VCPU": 1}}, seconds=1).consumer_uuid

        def confirm(ctx):
            return claims.confirm(ctx, consumer)

        with self.paused_in(claims, "get", confirm) as confirmation:
            time.sleep(1.2)
            swept = confirmation.against(
                self.database, lambda: claim_expiry.sweep(self.context()))
        self.assertEqual("confirmed", confirmation.outcome.state)
        self.assertEqual([], swept.ended)
        self.assertEqual({"VCPU": 1}, self.used(self.host))
        self.assertEqual(("confirmed", 0), (self.state(consumer), self.rows()))

    def test_confirmations_in_the_last_moment(self):
        made = [self.hold({self.host: {"VCPU": 1}}, seconds=1) for _ in range(16)]
        ends = time.monotonic() + 1.5

        def confirm(ctx, consumer):
            time.sleep(random.uniform(0.3, 1.2))
            return claims.confirm(ctx, consumer)

        def sweep(ctx):
            ended = []
            while time.monotonic() < ends:
                ended += claim_expiry.sweep(ctx).ended
            return [each.consumer_uuid for each in ended]

        outcomes = self.race(sweep, sweep, *(
            lambda ctx, each=each: confirm(ctx, each.consumer_uuid) for each in made))
        first, second, *confirmed = outcomes
        kept = {one.consumer_uuid for one, outcome in zip(made, confirmed, strict=True)
                if not isinstance(outcome, errors.ClaimExpired)}
        # What a slow machine left until now.
        last = [each.consumer_uuid for each in claim_expiry.sweep(self.ctx).ended]
        self.assertEqual({one.consumer_uuid for one in made} - kept, {*first, *second, *last})
        self.assertEqual(16 - len(kept), len(first) + len(second) + len(last))
        self.assertEqual({"VCPU": len(kept)}, self.used(self.host))
        for consumer in kept:
            self.assertEqual("confirmed", self.state(consumer))

    def test_a_confirmation_and_a_release(self):
        for _ in range(8):
            consumer = self.hold({self.host: {"VCPU": 1}}).consumer_uuid
            confirmed, released = self.race(
                lambda ctx, consumer=consumer: claims.confirm(ctx, consumer),
                lambda ctx, consumer=consumer: claims.release(ctx, consumer))
            # One after the other, in either order: it is released in the end.
            self.assertIsNone(released)
            if isinstance(confirmed, Exception):
                self.assertIsInstance(confirmed, errors.ClaimNotFound)
            self.assert_given_back(consumer)
            self.assertEqual(0, self.rows())

    def test_two_releases(self):
        for _ in range(8):
            consumer = self.hold({self.host: {"VCPU": 1}}).consumer_uuid
            outcomes = self.race(*[lambda ctx, consumer=consumer: claims.release(ctx, consumer)]
                                 * 2)
            self.assertEqual(1, outcomes.count(None), outcomes)
            self.assertEqual({type(None), errors.ClaimNotFound}, {*map(type, outcomes)})
            self.assert_given_back(consumer)

    def test_an_expiry_and_a_release_or_delete(self):
        for end, refusal in ((claims.release, errors.ClaimNotFound),
                             (allocations.delete, placement_errors.NoAllocations)) * 4:
            consumer = self.expired({self.host: {"VCPU": 1}})
            swept, deleted = self.race(
                claim_expiry.sweep, lambda ctx, consumer=consumer, end=end: end(ctx, consumer))
            self.assertIn(type(deleted), (type(None), refusal), deleted)
            self.assertEqual(1, len(swept.ended) + (deleted is None), (swept, deleted))
            self.assert_given_back(consumer)
            claim_expiry.sweep(self.ctx)

    def test_an_expiry_and_somebody_who_takes_it_over(self):
        for _ in range(8):
            consumer = self.expired({self.host: {"VCPU": 1}})
            swept, written = self.race(
                claim_expiry.sweep,
                lambda ctx, consumer=consumer: self.put(
                    {self.host: {"VCPU": 2}}, ctx=ctx, consumer=consumer, seen=1,
                    project=self.cloud.leaf))
            if swept.ended:
                self.assertIsInstance(written, placement_errors.ConsumerGenerationConflict)
                self.assert_given_back(consumer)
            else:
                self.assertIsNone(written)
                self.assertEqual({"VCPU": 2}, self.used(self.host))
                allocations.delete(self.ctx, consumer)
            claim_expiry.sweep(self.ctx)

    def test_a_delete_that_comes_while_it_expires(self):
        due = self.expired({self.host: {"VCPU": 1}})
        with self.paused_in(allocations, "delete", claim_expiry.sweep) as sweep:
            outcome = sweep.against(
                self.database, lambda: claims.release(self.context(), due))
        self.assertIsInstance(outcome, errors.ClaimNotFound)
        self.assertEqual(1, len(sweep.outcome.ended))


@databases.on_each_database
class TestRivals(held.HeldTestCase):

    def assert_one_won(self, outcomes, refusal):
        won = [each for each in outcomes if not isinstance(each, Exception)]
        self.assertEqual(1, len(won), outcomes)
        self.assertEqual({refusal}, {type(each) for each in outcomes if each is not won[0]})

    def rivals(self, place):
        contexts = [self.context() for _ in range(16)]

        def claim(ctx, number):
            if number % 2:
                return self.hold(place, ctx=ctx)
            self.put(place, ctx=ctx, consumer=factories.new_uuid(), seen=None,
                     project=self.cloud.twig)
            return None

        return races.run(*(
            lambda ctx=ctx, number=number: claim(ctx, number)
            for number, ctx in enumerate(contexts)))

    def test_for_the_place_of_one_that_is_due(self):
        host = self.provider(VCPU=1)
        for _ in range(3):
            due = self.expired({host: {"VCPU": 1}})
            outcomes = self.rivals({host: {"VCPU": 1}})
            self.assert_one_won(outcomes, placement_errors.CapacityExceeded)
            self.assertEqual(({}, {"VCPU": 1}), (self.held(due), self.used(host)))
            for consumer in allocations.list_for_provider(self.ctx, host.uuid).consumers:
                claims.release(self.ctx, consumer)

    def test_for_the_quota_of_one_that_is_due(self):
        self.cloud.limit(self.cloud.trunk, 1)
        first, second = self.provider(VCPU=99), self.provider(VCPU=99)
        due = self.expired({first: {"VCPU": 1}})
        outcomes = self.rivals({second: {"VCPU": 1}})
        self.assert_one_won(outcomes, errors.QuotaExceeded)
        self.assertEqual(({}, {"VCPU": 1}), (self.held(due), self.used(second)))


@databases.on_each_database
class TestOneTree(held.HeldTestCase):
    """Claims of one tree from two processes, with quota for ten."""

    def setUp(self):
        super().setUp()
        self.hosts = [self.provider(VCPU=99).uuid for _ in range(4)]

    def used_below(self, *projects):
        return sum(self.usage(*projects))

    def claimers(self, projects, *, count=32):
        return [
            processes.Process(claimers.claim, self.database, providers=self.hosts,
                              projects=projects, threads=8, count=count)
            for _ in range(2)]

    def assert_ten_of_sixty_four(self, limited, projects):
        self.cloud.limit(limited, 10)
        said = [outcome for (outcome,) in processes.run(*self.claimers(projects))]
        self.assertEqual(10, sum(outcome.get("made", 0) for outcome in said), said)
        self.assertEqual(54, sum(outcome.get("QuotaExceeded", 0) for outcome in said), said)
        self.assertEqual(10, self.used_below(*projects))

    def test_limited_at_the_root(self):
        cloud = self.cloud
        self.assert_ten_of_sixty_four(
            cloud.trunk, [cloud.leaf, cloud.twig, cloud.branch, cloud.trunk])

    def test_limited_in_the_middle(self):
        cloud = self.cloud
        self.assert_ten_of_sixty_four(cloud.branch, [cloud.leaf, cloud.twig, cloud.branch])

    def test_limited_below(self):
        self.assert_ten_of_sixty_four(self.cloud.leaf, [self.cloud.leaf])

    def test_limited_at_every_level(self):
        """Each level has what it may have, and none of them more."""
        cloud = self.cloud
        for project, limit in ((cloud.trunk, 10), (cloud.branch, 7), (cloud.leaf, 3)):
            cloud.limit(project, limit)
        projects = [cloud.leaf, cloud.twig, cloud.branch, cloud.trunk]
        said = [outcome for (outcome,) in processes.run(*self.claimers(projects))]
        made = sum(outcome.get("made", 0) for outcome in said)
        self.assertEqual(64 - made, sum(outcome.get("QuotaExceeded", 0) for outcome in said), said)
        self.assertEqual((10, 10), (made, self.used_below(*projects)))
        self.assertLessEqual(self.used_below(*projects[:3]), 7)
        self.assertLessEqual(self.used_below(cloud.leaf), 3)

    def test_clients_that_are_killed(self):
        cloud = self.cloud
        cloud.limit(cloud.trunk, 10)
        projects = [cloud.leaf, cloud.twig]
        confirmed, released = set(), set()
        for seed in range(3):
            chance = random.Random(seed)
            alive = [
                processes.Process(claimers.live_until_killed, self.database, providers=self.hosts,
                                 projects=projects, threads=4) for _ in range(2)]
            for process in alive:
                process.ready()
            for process in alive:
                process.start()
            time.sleep(chance.uniform(0.5, 2))
            for process in alive:
                process.kill()
            for document in (each for process in alive for each in process.finish()):
                confirmed |= {document.get("confirmed")} - {None}
                released |= {document.get("released")} - {None}
            self.assert_whole(confirmed - released)
        # What is left of quota can be had, to the last one; what is due makes room.
        time.sleep(1.1)
        kept = len(self.consumers()) - self.held_rows()
        said = processes.run(*self.claimers(projects))
        made = sum(outcome.get("made", 0) for (outcome,) in said)
        self.assertEqual((10, 10), (kept + made, self.used_below(*projects)), said)

    def consumers(self):
        """Return who holds something, as (consumer, amount)."""
        with self.database.autocommit.connect() as connection:
            return connection.execute(sa.select(
                allocation_rows.c.consumer_id, allocation_rows.c.used)).all()

    def held_rows(self):
        with self.database.autocommit.connect() as connection:
            return connection.scalar(
                sa.select(sa.func.count()).select_from(tables.held_claims)
                .where(held_claims._live))

    def assert_whole(self, confirmed):
        """Expect every claim to be there wholly or not at all, and no more than ten."""
        held_by = {row.consumer_id: row.used for row in self.consumers()}
        self.assertEqual({1}, {*held_by.values()} or {1})
        self.assertLessEqual(len(held_by), 10)
        self.assertEqual(len(held_by), self.used_below(self.cloud.leaf, self.cloud.twig))
        self.assertEqual(set(), confirmed - set(held_by))
        found, _ = claims.list_(self.ctx, most=1000)
        speaking = {each.consumer_uuid for each in found if each.allocations}
        self.assertEqual(self.held_rows(), len(speaking))
        self.assertEqual(set(), speaking - set(held_by))
        self.assert_audit_clean()
