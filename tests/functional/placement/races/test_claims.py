import sqlalchemy as sa

from placement_core import db
from placement_core.placement import allocations, errors, inventories, tables
from placement_core.placement.usage import usages
from placement_core.testing import factories
from tests import databases, races
from tests.functional.placement import claims
from tests.functional.placement.races import processes


@databases.on_each_database
class TestRacingClaims(claims.ClaimsTestCase):

    def rivals(self, host, count, *, before=None, **options):
        """Let ``count`` consumers claim one VCPU at once; return the outcomes."""
        contexts = [self.context() for _ in range(count)]

        def rival(ctx):
            if before is not None:
                before(ctx)
            self.claim({host: {"VCPU": 1}}, ctx=ctx, consumer=factories.new_uuid(),
                       seen=None, **options)

        return races.run(*(lambda ctx=ctx: rival(ctx) for ctx in contexts))

    def assert_won(self, host, outcomes, wins):
        self.assertEqual(wins, outcomes.count(None), outcomes)
        self.assertEqual(
            {errors.CapacityExceeded} if wins < len(outcomes) else set(),
            {type(outcome) for outcome in outcomes if outcome is not None})
        self.assertEqual({"VCPU": wins}, self.used(host))
        usage, = usages.for_project(self.ctx, "project")
        self.assertEqual((wins, {"VCPU": wins}), (usage.consumer_count, dict(usage.resources)))

    def test_sixteen_for_sixteen(self):
        host = self.provider(VCPU=16)
        self.assert_won(host, self.rivals(host, 16), 16)
        self.assertEqual(host.generation + 16, self.generation(host))

    def test_sixteen_for_eight(self):
        host = self.provider(VCPU=8)
        self.assert_won(host, self.rivals(host, 16), 8)

    def test_with_reads_before(self):
        host = self.provider(VCPU=8)

        def look(ctx):
            allocations.list_for_provider(ctx, host.uuid)
            inventories.list_(ctx, host.uuid)
            usages.for_provider(ctx, host.uuid)

        self.assert_won(host, self.rivals(host, 16, before=look), 8)

    def test_with_reads_earlier_in_the_transaction(self):
        host = self.provider(VCPU=8)
        seen = []

        @db.retry_writes
        def look_and_claim(ctx):
            with db.write(ctx):
                # REPEATABLE READ would decide on what it saw here.
                seen.append(usages.for_provider(ctx, host.uuid))
                self.claim({host: {"VCPU": 1}}, ctx=ctx, consumer=factories.new_uuid(),
                           seen=None)

        contexts = [self.context() for _ in range(16)]
        outcomes = races.run(*(lambda ctx=ctx: look_and_claim(ctx) for ctx in contexts))
        self.assert_won(host, outcomes, 8)

    def test_new_owners_at_once(self):
        host = self.provider(VCPU=16)
        contexts = [self.context() for _ in range(8)]
        outcomes = races.run(*(
            lambda ctx=ctx, number=number: self.claim(
                {host: {"VCPU": 1}}, ctx=ctx, consumer=factories.new_uuid(), seen=None,
                project=f"new {number % 2}", user=f"new {number % 3}", kind="NEW")
            for number, ctx in enumerate(contexts)))
        self.assertEqual([None] * 8, outcomes)

    def test_two_processes_for_sixty_places(self):
        host = self.provider(VCPU=60)
        said = processes.run(*(
            processes.Process(processes.claim, self.database, provider=host.uuid, threads=8,
                              claims=120)
            for _ in range(2)))
        outcomes = [outcome for (outcome,) in said]
        self.assertEqual(60, sum(outcome.get("made", 0) for outcome in outcomes), outcomes)
        self.assertEqual(180, sum(outcome.get("CapacityExceeded", 0) for outcome in outcomes),
                         outcomes)
        self.assertEqual({"VCPU": 60}, self.used(host))


@databases.on_each_database
class TestRacingConsumers(claims.ClaimsTestCase):

    def race(self, host, count=4, **options):
        contexts = [self.context() for _ in range(count)]
        return races.run(*(
            lambda ctx=ctx, amount=amount: self.claim(
                {host: {"VCPU": amount}}, ctx=ctx, **options)
            for amount, ctx in enumerate(contexts, 1)))

    def assert_one_won(self, host, outcomes, generation):
        self.assertEqual(1, outcomes.count(None), outcomes)
        self.assertEqual(
            {errors.ConsumerGenerationConflict},
            {type(outcome) for outcome in outcomes if outcome is not None})
        amount = outcomes.index(None) + 1
        self.assertEqual({host.uuid: {"VCPU": amount}}, self.held())
        self.assertEqual({"VCPU": amount}, self.used(host))
        self.assertEqual(generation, self.generation(self.consumer))

    def test_for_a_new_consumer(self):
        host = self.provider(VCPU=16)
        self.assert_one_won(host, self.race(host, seen=None), 1)

    def test_for_one_generation(self):
        host = self.provider(VCPU=16)
        self.claim({host: {"VCPU": 1}}, seen=None)
        for seen in (1, 2, 3):
            self.assert_one_won(host, self.race(host, seen=seen), seen + 1)

    def test_without_generations_everybody_succeeds(self):
        host = self.provider(VCPU=16)
        self.assertEqual([None] * 4, self.race(host))
        self.assertEqual(4, self.generation(self.consumer))
        self.assertEqual([None] * 4, self.race(host))
        self.assertEqual(8, self.generation(self.consumer))

    def test_a_write_against_a_delete(self):
        host = self.provider(VCPU=16)
        for _ in range(5):
            self.claim({host: {"VCPU": 1}}, seen=None)
            first, second = self.context(), self.context()
            deleted, written = races.run(
                lambda ctx=first: allocations.delete(ctx, self.consumer),
                lambda ctx=second: self.claim({host: {"VCPU": 2}}, ctx=ctx, seen=1))
            self.assertIsNone(deleted)
            if written is not None:
                self.assertIsInstance(written, errors.ConsumerGenerationConflict)
                self.assertIsNone(written.actual)
            self.assertEqual({}, self.held())
            self.assertEqual({"VCPU": 0}, self.used(host))

    def test_a_consumer_that_is_made_while_it_is_released(self):
        """It is not there when its row is asked for, and there when its claims are read."""
        host = self.provider(VCPU=9)
        rivals = []

        def claim_in_between(_connection, _cursor, statement, *_arguments):
            if "UNION ALL" in statement and not rivals:
                rivals.append(self.consumer)
                self.claim({host: {"VCPU": 3}}, ctx=self.context())

        if self.kind == "sqlite":  # its writers wait in BEGIN: there is no in between
            self.assertRaises(
                errors.NoAllocations, allocations.delete, self.ctx, self.consumer)
            return
        sa.event.listen(self.database.writer, "before_cursor_execute", claim_in_between)
        allocations.delete(self.ctx, self.consumer)
        self.assertEqual([self.consumer], rivals)
        self.assertEqual(({}, {"VCPU": 0}), (self.held(), self.used(host)))
        self.assert_audit_clean()

    def test_a_claim_waits_for_no_inventories_but_its_own(self):
        """However few there are, so that a plan might look at all of them."""
        if self.kind == "sqlite":
            self.skipTest("one writes at a time there")
        amounts = {"VCPU": 1, "MEMORY_MB": 1, "DISK_GB": 1}
        host, other = (self.provider(**dict.fromkeys(amounts, 9)) for _ in range(2))
        other_inventories = (
            sa.select(tables.inventories).where(
                tables.inventories.c.resource_provider_id == other.id).with_for_update())
        with db.write(self.context()) as session:
            self.assertEqual(3, len(session.execute(other_inventories).all()))
            self.claim({host: amounts})
        self.assertEqual(amounts, self.used(host))

    def test_two_processes(self):
        host = self.provider(VCPU=16)
        rounds = 15
        said = processes.run(*(
            processes.Process(processes.race_for_generation, self.database, provider=host.uuid,
                              consumer=self.consumer, rounds=rounds, amount=amount)
            for amount in (1, 2)))
        won = [document["won"] for (document,) in said]
        self.assertEqual(list(range(rounds)), sorted(won[0] + won[1]))
        self.assertEqual(rounds, self.generation(self.consumer))
        last = 1 if rounds - 1 in won[0] else 2
        self.assertEqual({host.uuid: {"VCPU": last}}, self.held())
