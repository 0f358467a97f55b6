"""Rivals for the same room: real transactions on connections of their own; one wins."""

from placement_core.plugin_api.reservations import DoesNotFit
from placement_core.reservations import errors, tables
from placement_core.reservations.records import Lease
from placement_core.reservations.store import bookings
from tests import databases, races
from tests.functional.reservations import lease_cases


@databases.on_each_database
class TestRaces(lease_cases.LeasesTestCase):

    def race(self, *functions):
        """Run functions at once, each with a context of its own; return (won, refused)."""
        contexts = [self.context() for _ in functions]
        outcomes = races.run(*(
            lambda ctx=ctx, function=function: function(ctx)
            for ctx, function in zip(contexts, functions, strict=True)))
        won = [each for each in outcomes if isinstance(each, Lease)]
        refused = [each for each in outcomes if isinstance(each, DoesNotFit)]
        self.assertEqual(len(functions), len(won) + len(refused), outcomes)
        return won, refused

    def test_the_last_slot(self):
        self.hosts((4, 4, 4), (4, 4, 4))
        self.create(self.instances(7))
        won, _ = self.race(*[
            lambda ctx: self.create(self.instances(), ctx=ctx)] * 16)
        self.assertEqual(1, len(won))
        self.assertEqual(8, sum(row.slots for row in self.rows(tables.computehost_allocations)))

    def test_two_extensions_into_one_gap(self):
        self.hosts((4, 4, 4))
        early = self.create(self.whole(), start=0, end=1)
        late = self.create(self.whole(), start=3, end=4)
        won, _ = self.race(
            lambda ctx: self.change(early, end_at=3, ctx=ctx),
            lambda ctx: self.change(late, start_at=1, ctx=ctx))
        self.assertEqual(1, len(won))
        windows = sorted((window.start, window.end) for lease in (early, late)
                         for each in self.held(lease) for _, window in each.values())
        self.assertTrue(windows[0][1] <= windows[1][0], windows)

    def test_a_whole_host_and_slots(self):
        self.hosts((4, 4, 4))
        for hour in range(4):
            won, _ = self.race(
                lambda ctx, at=hour: self.create(self.whole(), start=at, end=at + 1, ctx=ctx),
                lambda ctx, at=hour: self.create(
                    self.instances(4), start=at, end=at + 1, ctx=ctx))
            self.assertEqual(1, len(won))

    def test_who_comes_second_waits(self):
        """And plans with what the first one has got."""
        one, two = self.hosts((4, 4, 4), (4, 4, 4))
        original = bookings.insert

        def first(paused):
            def hold(*arguments):
                original(*arguments)
                paused.here()

            bookings.insert = hold
            try:
                return self.create(self.whole(), ctx=self.context())
            finally:
                bookings.insert = original

        with races.Paused(first) as paused:
            bookings.insert = original
            second = paused.against(
                self.database, lambda: self.create(self.whole(), ctx=self.context()))
        self.assertEqual([{one: 1}], self.slots(paused.outcome))
        self.assertEqual([{two: 1}], self.slots(second))

    def test_an_end_that_is_put_off_while_it_is_carried_out(self):
        """Either of the two happens, and not both."""
        self.hosts((4, 4, 4))
        for _ in range(3):
            lease = self.started(self.instances(), end=1)
            turn = self.claimed(lease, "end_lease")
            contexts = self.context(), self.context()
            done, changed = races.run(
                lambda: self.transitions.execute(contexts[0], turn),
                lambda lease=lease: self.change(lease, end_at=2, ctx=contexts[1]))
            if done:
                self.assertIsInstance(changed, errors.InvalidLease)
                self.assertEqual("TERMINATED", self.get(lease).status)
            else:
                self.assertEqual("ACTIVE", changed.status)
                self.assertEqual("ACTIVE", self.get(lease).status)

    def test_two_who_carry_out(self):
        self.hosts((4, 4, 4))
        lease = self.create(self.instances(), start=None, end=1)
        turn = self.claimed(lease, "start_lease")
        contexts = [self.context() for _ in range(4)]
        outcomes = races.run(*(
            lambda ctx=ctx: self.transitions.execute(ctx, turn) for ctx in contexts))
        self.assertEqual([False, False, False, True], sorted(outcomes))
        self.assertEqual(["made", "started"], [what for what, *_ in self.provisioner.asked])

    def test_deleted_by_two(self):
        self.hosts((4, 4, 4))
        lease = self.started(self.instances(), end=1)
        contexts = self.context(), self.context()
        outcomes = races.run(*(
            lambda ctx=ctx: self.leases.delete(ctx, lease.id) for ctx in contexts))
        self.assertEqual({"NoneType", "LeaseNotFound"},
                         {type(each).__name__ for each in outcomes})
        self.assertEqual(
            ["made", "started", "ended"], [what for what, *_ in self.provisioner.asked])
