from placement_core.plugin_api.reservations import DoesNotFit
from placement_core.reservations import errors, tables
from placement_core.reservations.leases.transitions import EventAttempt
from tests import databases
from tests.functional.reservations import lease_cases
from tests.functional.reservations.lease_cases import HOUR, SECOND

NAMES = ("start_lease", "before_end_lease", "end_lease")


class TurnsTestCase(lease_cases.LeasesTestCase):

    def setUp(self):
        super().setUp()
        self.one, self.two = self.hosts((8, 8, 8), (8, 8, 8))

    def states(self, lease):
        lease = self.get(lease)
        return (lease.status, [each.status for each in lease.reservations],
                [each.status for each in lease.events])


@databases.on_each_database
class TestTurns(TurnsTestCase):

    def test_a_life(self):
        lease = self.create(self.instances(2), self.whole(), start=None, end=2)
        slots, whole = lease.reservations
        states = []
        for event in NAMES:
            self.provisioner.asked.clear()
            self.assertTrue(self.execute(lease, event))
            states.append(self.states(lease))
            what = event.removesuffix("_lease").replace("start", "started").replace(
                "before_end", "BEFORE").replace("end", "ended").replace("BEFORE", "before_end")
            self.assertEqual([(what, slots.id, [self.one]), (what, whole.id, [self.two])],
                             self.provisioner.asked)
        self.assertEqual([
            ("ACTIVE", ["active"] * 2, ["DONE", "UNDONE", "UNDONE"]),
            ("ACTIVE", ["active"] * 2, ["DONE", "DONE", "UNDONE"]),
            ("TERMINATED", ["deleted"] * 2, ["DONE", "DONE", "DONE"]),
        ], states)
        self.assertEqual(
            ["lease.create", *(f"lease.event.{name}" for name in NAMES)], self.notices(lease))
        self.assertEqual("ended", self.rules.asked[-1][0])

    def test_once(self):
        """A turn is carried out by whoever has it, and by nobody a second time."""
        lease = self.create(self.instances(), start=None, end=2)
        mine = self.claimed(lease, "start_lease")
        before = self.everything()
        for other in (
            EventAttempt(mine.event_id, lease.id, mine.event_type, "other", mine.number),
            EventAttempt(mine.event_id, lease.id, mine.event_type, mine.owner, mine.number - 1),
            EventAttempt(mine.event_id, "0" * 36, mine.event_type, mine.owner, mine.number),
        ):
            self.assertFalse(self.transitions.execute(self.ctx, other))
            self.assertFalse(self.transitions.fail(self.ctx, other, "why"))
            self.assertEqual(before, self.everything())
        later = self.claimed(lease, "start_lease")
        self.assertFalse(self.transitions.execute(self.ctx, mine))
        self.assertTrue(self.transitions.execute(self.ctx, later))
        self.assertFalse(self.transitions.execute(self.ctx, later))
        self.assertEqual(["made", "started"], [what for what, *_ in self.provisioner.asked])

    def test_one_that_was_deleted(self):
        lease = self.create(self.instances(), start=None, end=2)
        turn = self.claimed(lease, "start_lease")
        self.leases.delete(self.ctx, lease.id)
        self.assertFalse(self.transitions.execute(self.ctx, turn))
        self.assertEqual(["made", "given up"], [what for what, *_ in self.provisioner.asked])
        self.assertEqual({"DONE"}, {row.status for row in self.rows(tables.lease_events)})

    def test_a_start_that_fails_for_good(self):
        lease = self.create(self.instances(), start=None, end=2)
        self.assertTrue(self.transitions.fail(
            self.ctx, self.claimed(lease, "start_lease"), "no such host"))
        self.assertEqual(("ERROR", ["error"], ["ERROR", "UNDONE", "UNDONE"]), self.states(lease))
        self.assertEqual("no such host", self.get(lease).events[0].problem)
        # Tried again, it starts.
        self.assertTrue(self.execute(lease, "start_lease"))
        self.assertEqual(
            ("ACTIVE", ["active"], ["DONE", "UNDONE", "UNDONE"]), self.states(lease))
        self.assertIsNone(self.get(lease).events[0].problem)

    def test_ended_at_once(self):
        lease = self.back(self.started(self.whole(), end=2), HOUR)
        ended = self.change(lease, end_now=True, name="short")
        self.assertEqual(ended, self.get(lease))
        self.assertEqual(("TERMINATED", ["deleted"], ["DONE"] * 3), self.states(lease))
        self.assertEqual("short", ended.name)
        self.assertTrue(self.now <= ended.end_at <= self.now + 60 * SECOND)
        self.assertEqual(ended.window, self.held(lease)[0][self.one][1])
        self.create(self.whole(2), start=None, end=1)


class TestWhatHappens(TurnsTestCase):

    def test_one_that_was_changed(self):
        """An end that was put off is not carried out by who had it before."""
        lease = self.started(self.instances(), end=2)
        turn = self.claimed(lease, "end_lease")
        self.change(lease, end_at=3)
        self.assertFalse(self.transitions.execute(self.ctx, turn))
        self.assertEqual(
            ("ACTIVE", ["active"], ["DONE", "UNDONE", "UNDONE"]), self.states(lease))

    def test_an_effect_fails(self):
        """Nothing is written, so that it can be tried again."""
        lease = self.started(self.instances(), end=2)
        turn = self.claimed(lease, "end_lease")
        before = self.everything()
        self.provisioner.refuses = errors.WrongStatus("allocations use it")
        self.assertRaises(errors.WrongStatus, self.transitions.execute, self.ctx, turn)
        self.assertEqual(before, self.everything())
        self.provisioner.refuses = None
        self.assertTrue(self.transitions.execute(self.ctx, turn))

    def test_a_late_start_of_what_is_over(self):
        """It does not begin: others may have the hosts. Then it ends."""
        lease = self.back(self.create(self.whole(), start=None, end=self.now + HOUR), 2 * HOUR)
        self.create(self.whole(2), start=None, end=1)
        for event in NAMES:
            self.assertTrue(self.execute(lease, event))
        self.assertEqual(("TERMINATED", ["deleted"], ["DONE"] * 3), self.states(lease))
        self.assertEqual(["made", "made", "given up"],
                         [what for what, *_ in self.provisioner.asked])

    def test_a_late_end(self):
        """What it held is history as it was promised: others may have had it since."""
        lease = self.back(self.started(self.whole(), end=self.now + HOUR), 2 * HOUR)
        held = self.held(lease)
        self.assertTrue(self.execute(lease, "end_lease"))
        self.assertEqual(held, self.held(lease))
        self.assertEqual(lease.window, held[0][self.one][1])

    def test_the_end_is_not_prepared_before_the_start(self):
        lease = self.create(self.instances(), start=None, end=2)
        turn = self.claimed(lease, "before_end_lease")
        self.assertRaises(errors.WrongStatus, self.transitions.execute, self.ctx, turn)
        self.execute(lease, "start_lease")
        self.assertTrue(self.transitions.execute(self.ctx, turn))

    def test_the_end_of_one_that_never_started(self):
        lease = self.create(self.instances(), start=None, end=2)
        self.transitions.fail(self.ctx, self.claimed(lease, "start_lease"), "no such host")
        self.assertTrue(self.execute(lease, "end_lease"))
        self.assertEqual(("TERMINATED", ["deleted"], ["DONE"] * 3), self.states(lease))
        self.assertEqual("given up", self.provisioner.asked[-1][0])

    def failed_to_end(self, reservation):
        """Make a lease whose end was due an hour ago, and has failed for good."""
        lease = self.started(reservation, end=2)
        lease = self.back(lease, lease.end_at - self.now + HOUR)
        self.transitions.fail(self.ctx, self.claimed(lease, "end_lease"), "servers are left")
        return lease

    def test_an_end_that_fails_for_good(self):
        """It is in force still; another end is another try."""
        lease = self.failed_to_end(self.instances())
        self.assertEqual(("ERROR", ["active"], ["DONE", "UNDONE", "ERROR"]), self.states(lease))
        self.assertRaises(errors.InvalidLease, self.change, lease, {"amount": 2})
        self.assertRaises(errors.InvalidLease, self.change, lease, {"amount": 2},
                          end_at=lease.end_at)
        self.change(lease, end_at=2.5)
        self.assertEqual(
            ("ACTIVE", ["active"], ["DONE", "UNDONE", "UNDONE"]), self.states(lease))
        self.transitions.fail(self.ctx, self.claimed(lease, "end_lease"), "servers are left")
        self.leases.delete(self.ctx, lease.id)
        self.assertEqual("ended", self.provisioner.asked[-1][0])

    def test_ended_after_its_end_has_failed(self):
        """It ends when it was to, whenever that is possible."""
        lease = self.failed_to_end(self.whole())
        ended = self.change(lease, end_now=True)
        self.assertEqual(lease.window, ended.window)
        self.assertEqual(ended, self.get(lease))
        self.assertEqual(("TERMINATED", ["deleted"], ["DONE"] * 3), self.states(lease))
        self.assertEqual("ended", self.provisioner.asked[-1][0])

    def test_another_end_where_another_lease_has_the_host(self):
        late = self.failed_to_end(self.whole())
        self.create(self.whole(2), start=None, end=1)
        self.assertRaises(DoesNotFit, self.change, late, end_at=3)
        self.assertEqual("ERROR", self.get(late).status)

    def test_a_preparation_that_fails(self):
        """The lease goes on."""
        lease = self.started(self.instances(), end=2)
        self.transitions.fail(self.ctx, self.claimed(lease, "before_end_lease"), "no image")
        self.assertEqual(("ACTIVE", ["active"], ["DONE", "ERROR", "UNDONE"]), self.states(lease))

    def test_ended_in_its_first_second(self):
        """It held nothing for a second: nothing is history."""
        lease = self.started(self.whole(), end=2)
        ended = self.change(lease, end_now=True)
        self.assertTrue(ended.start_at < ended.end_at)
        for window in (window for each in self.held(lease) for _, window in each.values()):
            self.assertEqual(ended.window, window)
