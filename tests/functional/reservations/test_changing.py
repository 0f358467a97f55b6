import contextlib
from unittest import mock

from placement_core.plugin_api.reservations import (
    DoesNotFit,
    InvalidReservation,
    NotChangeable,
    Window,
)
from placement_core.reservations import errors
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.records import ChangedReservation, LeaseChange
from tests import databases
from tests.functional.reservations import lease_cases
from tests.functional.reservations.lease_cases import DAY, HOUR, MINUTE, SECOND


class ChangingTestCase(lease_cases.LeasesTestCase):

    def setUp(self):
        super().setUp()
        self.one, self.two = self.hosts((8, 8, 8), (8, 8, 8))

    def due(self, lease):
        return {each.event_type: (each.due_at, each.status) for each in self.get(lease).events}

    @contextlib.contextmanager
    def within_a_minute(self):
        """Let leases be read in the middle of a minute; return when that is."""
        now = self.now.replace(second=30)
        find = lease_queries.find
        with mock.patch.object(
                lease_queries, "find", lambda *args: find(*args)._replace(at=now)):
            yield now

    def refused(self, kind, lease, *reservations, **changes):
        """Assert that a change is refused, and that nothing is changed by it."""
        before = self.everything()
        error = self.assertRaises(kind, self.change, lease, *reservations, **changes)
        self.assertEqual(before, self.everything())
        return error


@databases.on_each_database
class TestChanging(ChangingTestCase):

    def test_everything_of_one_to_come(self):
        lease = self.create(self.instances(2), self.whole(), end=2)
        self.provisioner.asked.clear()
        changed = self.change(
            lease, {"amount": 4, "vcpus": 2, "affinity": True}, {"before_end": "snapshot"},
            name="long", start_at=1, end_at=4)
        self.assertEqual(changed, self.get(lease))
        self.assertEqual(("long", self.at(1), self.at(4), "PENDING"), (
            changed.name, changed.start_at, changed.end_at, changed.status))
        slots, whole = changed.reservations
        self.assertEqual(("snapshot", 1), (whole.fields["before_end"], whole.fields["min"]))
        self.assertEqual((4, 2, True), tuple(
            slots.fields[name] for name in ("amount", "vcpus", "affinity")))
        self.assertEqual(
            [{self.one: (4, changed.window)}, {self.two: (1, changed.window)}],
            self.held(lease))
        self.assertEqual({
            "start_lease": (self.at(1), "UNDONE"), "end_lease": (self.at(4), "UNDONE"),
            "before_end_lease": (self.at(3), "UNDONE")}, self.due(lease))
        self.assertEqual([("changed", slots.id, [self.one]), ("changed", whole.id, [self.two])],
                         self.provisioner.asked)
        self.assertEqual(["lease.create", "lease.update"], self.notices(lease))

    def test_one_in_force_grows(self):
        lease = self.back(self.started(self.whole(), end=2), HOUR)
        self.provisioner.asked.clear()
        changed = self.change(lease, {"max": 2, "min": 2}, end_at=3)
        self.assertEqual(changed, self.get(lease))
        held, = self.held(lease)
        self.assertEqual((1, lease.start_at, self.at(3)), (
            held[self.one][0], held[self.one][1].start_at, held[self.one][1].end_at))
        # What is new is held from now on.
        self.assertTrue(self.now <= held[self.two][1].start_at <= self.now + MINUTE)
        self.assertEqual(
            [("changed", lease.reservations[0].id, [self.one, self.two])], self.provisioner.asked)

    def test_slots_in_force_grow(self):
        lease = self.back(self.started(self.instances(6), end=2), HOUR)
        self.change(lease, {"amount": 10})
        self.assertEqual([{self.one: 8, self.two: 2}], self.slots(lease))
        held, = self.held(lease)
        # As many as that are held from now on.
        window = held[self.one][1]
        self.assertTrue(self.now <= window.start_at <= self.now + MINUTE)
        self.assertEqual(lease.window.end_at, window.end_at)

    def test_shorter(self):
        lease = self.started(self.whole(2), end=4)
        self.execute(lease, "before_end_lease")
        self.change(lease, end_at=2)
        self.assertEqual({
            "start_lease": (lease.start_at, "DONE"), "end_lease": (self.at(2), "UNDONE"),
            "before_end_lease": (self.at(1), "UNDONE")}, self.due(lease))
        self.create(self.whole(2), start=2, end=4)


class TestWhatChanges(ChangingTestCase):

    def test_a_name(self):
        """Also of one that has ended; nobody is asked."""
        lease = self.back(self.started(self.instances(), end=2), HOUR)
        self.change(lease, name="new")
        self.execute(lease, "end_lease")
        self.rules.asked.clear()
        self.assertEqual("newer", self.change(lease, name="newer").name)
        self.assertEqual("newer", self.get(lease).name)
        self.assertEqual([], self.rules.asked)

    def test_nothing(self):
        lease = self.create(self.instances(), end=2)
        for changes in ({}, {"start_at": 0, "end_at": 2, "name": "lease"}, {
                "before_end_at": self.at(1)}):
            self.assertEqual(lease, self.change(lease, {}, **changes))
        self.assertEqual((lease, ["lease.create"]), (self.get(lease), self.notices(lease)))

    def test_the_start(self):
        lease = self.create(self.instances(), end=2)
        self.assertRaises(errors.InvalidLease, self.change, lease, start_at=self.now - HOUR)
        self.assertRaises(errors.InvalidLease, self.change, lease, start_at=2)
        self.assertRaises(errors.InvalidLease, self.change, lease, end_now=True)
        changed = self.change(lease, start_now=True)
        self.assertTrue(self.now <= changed.start_at <= self.now + MINUTE)
        self.execute(lease, "start_lease")
        for changes in ({"start_at": 1}, {"start_now": True}, {"start_at": self.now - HOUR}):
            error = self.refused(errors.InvalidLease, lease, **changes)
            self.assertEqual(
                "Cannot modify the start date of already started leases.", str(error))
        self.change(lease, start_at=changed.start_at, end_at=3)
        prolonged = self.change(lease, start_at=changed.start_at.replace(second=0), end_at=4)
        self.assertEqual(changed.start_at, prolonged.start_at)

    def test_a_start_that_is_late(self):
        """It can be told again as it is."""
        lease = self.back(self.create(self.instances(), start=None, end=2), HOUR)
        changed = self.change(lease, {"amount": 3}, start_at=lease.start_at, end_at=3)
        self.assertEqual((lease.start_at, self.at(3)), (changed.start_at, changed.end_at))
        self.assertEqual([{self.one: (3, changed.window)}], self.held(lease))

    def test_the_end(self):
        lease = self.back(self.started(self.instances(), end=2), HOUR)
        for end in (lease.start_at, self.now - MINUTE, lease.start_at - DAY):
            self.refused(errors.InvalidLease, lease, end_at=end)

    def test_an_end_in_the_present_minute(self):
        """It means now: clients send minutes."""
        lease = self.back(self.started(self.instances(), end=2), HOUR)
        with self.within_a_minute() as now:
            minute = now.replace(second=0)
            for changes in ({"before_end_at": self.at(1)}, {"start_now": True}):
                self.refused(errors.InvalidLease, lease, end_at=minute, **changes)
            self.refused(errors.InvalidLease, lease, {"amount": 2}, end_at=minute)
            self.refused(errors.InvalidLease, lease, end_at=minute - SECOND)
            ended = self.change(lease, end_at=minute, name="short")
        self.assertEqual(("TERMINATED", now, "short"), (ended.status, ended.end_at, ended.name))
        self.assertEqual(ended, self.get(lease))

    def test_an_end_in_the_present_minute_of_one_to_come(self):
        lease = self.create(self.instances(), end=3)
        with self.within_a_minute() as now:
            self.refused(errors.InvalidLease, lease, end_at=now.replace(second=0))

    def test_before_the_end(self):
        lease = self.create(self.instances(), end=3)
        self.change(lease, before_end_at=self.at(0.5))
        # It keeps its distance, and does not come before the start.
        self.change(lease, end_at=4)
        self.assertEqual((self.at(1.5), "UNDONE"), self.due(lease)["before_end_lease"])
        self.change(lease, start_at=2)
        self.assertEqual((self.at(2), "UNDONE"), self.due(lease)["before_end_lease"])
        for at in (2, 4, 5):
            self.refused(errors.OutOfLimits, lease, before_end_at=self.at(at))

    def test_before_the_end_where_there_was_none(self):
        self.leases = self.service(minutes_before_end=0)
        lease = self.create(self.instances(), end=3)
        self.change(lease, end_at=4)
        self.assertNotIn("before_end_lease", self.due(lease))
        self.change(lease, before_end_at=self.at(1))
        self.assertEqual((self.at(1), "UNDONE"), self.due(lease)["before_end_lease"])

    def test_one_that_has_ended(self):
        """Also when nobody has carried out the end yet."""
        lease = self.back(self.started(self.instances(), end=self.now + HOUR), 2 * HOUR)
        for _ in range(2):
            for changes in ({"end_at": 2}, {"start_at": 1}, {"end_now": True},
                            {"name": "new", "end_at": 2}, {"before_end_at": self.at(1)}):
                error = self.refused(errors.InvalidLease, lease, **changes)
                self.assertEqual("Terminated leases can only be renamed.", str(error))
            self.execute(lease, "end_lease")

    def test_in_force(self):
        lease = self.started(self.instances(2), self.whole(), end=2)
        for changes in (({"amount": 1},), ({"vcpus": 2},), ({"affinity": True},),
                        ({"resource_properties": '["=", "$id", "1"]'},)):
            self.refused(NotChangeable, lease, *changes)
        self.change(lease, {"amount": 3})
        lease = self.started(self.instances(), end=2)
        self.assertRaises(errors.InvalidLease, self.change, lease, {"amount": 2}, end_now=True)

    def test_in_error(self):
        lease = self.create(self.instances(2), start=None, end=2)
        self.transitions.fail(self.ctx, self.claimed(lease, "start_lease"), "no such host")
        self.refused(NotChangeable, lease, {"amount": 3})
        self.refused(errors.InvalidLease, lease, start_at=1)
        self.assertEqual("ERROR", self.change(lease, end_at=3).status)
        self.assertEqual("TERMINATED", self.change(lease, end_now=True).status)

    def test_which_reservations(self):
        lease = self.create(self.instances(2), end=2)
        id_ = lease.reservations[0].id
        other = self.create(self.instances(), end=2).reservations[0].id
        before = self.everything()
        for *reservations, said in (
            (("", None), "Missing parameter reservation ID"),
            ((other, None), "Please enter valid reservation IDs"),
            (("x", None), "Please enter valid reservation IDs"),
            ((id_, None), (id_, None), "Please enter valid reservation IDs"),
            ((id_, "physical:host"), "The resource type of a reservation cannot change."),
        ):
            error = self.assertRaises(
                errors.InvalidLease, self.leases.change, self.ctx, lease.id,
                LeaseChange(reservations=[
                    ChangedReservation(each, type_, {"amount": 3})
                    for each, type_ in reservations]))
            self.assertTrue(str(error).startswith(said), error)
        for given in ({"id": id_}, {"lease_id": "x"}, {"amount": 0}, {"min": 1}):
            self.assertRaises(InvalidReservation, self.change, lease, given)
        self.assertEqual(before, self.everything())

    def test_somebody_elses(self):
        lease = self.create(self.instances(2), end=2)
        for change in (LeaseChange(name="mine"), LeaseChange(end_at=self.at(3)),
                       LeaseChange(end_now=True)):
            self.assertRaises(errors.LeaseNotFound, self.leases.change, self.ctx, lease.id,
                              change, project_id="other")

    def test_what_rules_are_told(self):
        lease = self.create(self.instances(2), end=2)
        self.rules.asked.clear()
        self.change(lease, {"amount": 3}, end_at=3)
        [(before, asked), (inside, (window, shares))] = self.rules.asked
        self.assertEqual(("prepare", "decide"), (before, inside))
        self.assertEqual((self.at(0), self.at(3), 3), (
            asked.start_at, asked.end_at, asked.reservations[0].raw_fields["amount"]))
        self.assertEqual(Window(self.at(0), self.at(3)), window)
        self.assertEqual([3], [sum(each.slots for each in of_one) for of_one in shares])
        for when in ("prepare", "decide"):
            self.rules.refuses = {when: errors.PolicyRefused("too long")}
            self.refused(errors.PolicyRefused, lease, end_at=4)


class TestNoRoom(ChangingTestCase):

    def test_it_says_when_it_fits(self):
        lease = self.create(self.whole(), start=0, end=1)
        self.create(self.whole(2), start=2, end=5)
        refusal = self.refused(errors.NoRoom, lease, start_at=1, end_at=3)
        self.assertEqual(self.at(5), refusal.fits_at)
        self.change(lease, start_at=5, end_at=7)

    def test_one_in_force(self):
        """It begins when it began: there is no other time."""
        lease = self.started(self.whole(2), end=1)
        self.create(self.instances(), start=1, end=2)
        refusal = self.refused(DoesNotFit, lease, end_at=2)
        self.assertNotIsInstance(refusal, errors.NoRoom)
        self.assertEqual({"hosts": 1}, refusal.missing)

    def test_whole_or_not_at_all(self):
        """One reservation would fit, the other does not."""
        lease = self.create(self.instances(2), self.instances(2, (2, 2, 2)))
        self.refused(errors.NoRoom, lease, {"amount": 3}, {"amount": 9})
        self.change(lease, {"amount": 4}, {"amount": 6})

    def test_moved_to_another_host(self):
        self.create(self.whole(hypervisor_properties=f'["=", "$id", "{self.one}"]'),
                    start=1, end=2)
        lease = self.create(self.whole(), start=0, end=1)
        self.provisioner.asked.clear()
        before, = self.slots(lease)
        changed = self.change(lease, {}, end_at=2)
        self.assertEqual([{self.two: (1, changed.window)}], self.held(lease))
        if before != {self.two: 1}:
            self.assertEqual("changed", self.provisioner.asked[-1][0])
