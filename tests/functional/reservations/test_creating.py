import datetime
import time

from placement_core.plugin_api.reservations import InvalidReservation
from placement_core.reservations import errors, tables
from placement_core.reservations.records import NewReservation
from tests import databases
from tests.functional.reservations import lease_cases
from tests.functional.reservations.lease_cases import DAY, HOUR, MINUTE, SECOND


@databases.on_each_database
class TestCreating(lease_cases.LeasesTestCase):

    def test_a_lease(self):
        self.hosts((8, 8, 8), (8, 8, 8))
        made = self.create(self.instances(2, (4, 2, 1)), self.whole(
            before_end="snapshot", hypervisor_properties='["=", "$vcpus", "8"]'), name="käse 🧀")
        found = self.get(made)
        self.assertEqual(made, found)
        self.assertEqual(
            ("käse 🧀", "p", "jane", self.at(0), self.at(1), "PENDING", False, None),
            (found.name, found.project_id, found.user_id, found.start_at, found.end_at,
             found.status, found.degraded, found.trust_id))
        self.assertEqual(
            [("start_lease", self.at(0), "UNDONE"), ("before_end_lease", self.at(0), "UNDONE"),
             ("end_lease", self.at(1), "UNDONE")],
            [(each.event_type, each.due_at, each.status) for each in found.events])
        slots, whole = found.reservations
        self.assertEqual({
            "vcpus": 4, "memory_mb": 2, "disk_gb": 1, "amount": 2, "affinity": None,
            "resource_properties": ""}, slots.fields)
        self.assertEqual({
            "min": 1, "max": 1, "hypervisor_properties": '["=", "$vcpus", "8"]',
            "resource_properties": "", "before_end": "snapshot"}, whole.fields)
        self.assertEqual(
            {"flavor_id": slots.id, "server_group_id": None, "aggregate_id": None},
            slots.compute_ids)
        self.assertEqual({"aggregate_id": None}, whole.compute_ids)
        self.assertEqual(
            [("made", slots.id, []), ("made", whole.id, [])], self.provisioner.asked)
        self.assertEqual(["prepare", "decide"], [when for when, _ in self.rules.asked])
        self.assertEqual(["lease.create"], self.notices(made))

    def test_nothing_is_left_of_a_refused_one(self):
        self.hosts((8, 8, 8))
        before = self.everything()
        refusal = self.assertRaises(
            errors.NoRoom, self.create, self.instances(2, (4, 1, 1)), self.instances())
        self.assertEqual(before, self.everything())
        self.assertIsNone(refusal.fits_at)
        self.assertEqual([], self.provisioner.asked)

    def test_a_refusal_says_when_it_fits(self):
        self.hosts((8, 8, 8), (8, 8, 8))
        self.create(self.whole(2), start=0, end=2)
        self.create(self.instances(3, (4, 4, 4)), start=2, end=4.5)
        refusal = self.assertRaises(
            errors.NoRoom, self.create, self.instances(2, (4, 4, 4)), start=1, end=3)
        self.assertEqual(self.at(4.5), refusal.fits_at)
        self.assertEqual({"slots": 2, "VCPU": 8, "MEMORY_MB": 8, "DISK_GB": 8}, refusal.missing)
        self.assertEqual(
            (self.at(1), self.at(2)), (refusal.during.start_at, refusal.during.end_at))
        self.create(self.instances(2, (4, 4, 4)), start=refusal.fits_at, end=7)

    def test_properties(self):
        one, two = self.hosts((8, 8, 8), (16, 8, 8), hypervisor_type="QEMU")
        three, = self.hosts((4, 4, 4), hypervisor_type="xen", reservable=False)
        self.capability("rank", {one: "9", two: "10", three: "11"})
        self.capability("colour", {three: "red"})
        for requirement, hosts in (
            ('[">", "$rank", "9"]', [two]),
            ('["and", [">=", "$rank", "9"], ["<", "$vcpus", "16"]]', [one]),
            ('["or", ["=", "$rank", "9"], ["=", "$local_gb", "7"]]', [one]),
            (f'["=", "$id", "{two}"]', [two]),
            ('["=", "$hypervisor_type", "QEMU"]', [one, two]),
            ('["=", "$hypervisor_type", "xen"]', None),
            ('["=", "$colour", "red"]', None),
            ('["=", "$service_name", "x"]', None),
        ):
            for field in ("resource_properties", "hypervisor_properties"):
                asked = self.whole(1, 9, **{field: requirement})
                if hosts is None:
                    self.assertRaises(errors.NoRoom, self.create, asked)
                    continue
                lease = self.create(asked)
                self.assertEqual([dict.fromkeys(hosts, 1)], self.slots(lease), requirement)
                self.leases.delete(self.ctx, lease.id)
        error = self.assertRaises(InvalidReservation, self.create, self.instances(
            resource_properties='["=", "$flavour", "x"]'))
        self.assertIn("flavour", str(error))


class TestAdmission(lease_cases.LeasesTestCase):

    def test_a_refusal_of_one_that_starts_now(self):
        self.hosts((8, 8, 8))
        self.create(self.whole(), start=None, end=2)
        refusal = self.assertRaises(
            errors.NoRoom, self.create, self.whole(), start=None, end=1)
        self.assertEqual(self.at(2), refusal.fits_at)

    def test_refused_by_a_rule(self):
        self.hosts((8, 8, 8))
        before = self.everything()
        for when in ("prepare", "decide"):
            self.rules.refuses = {when: errors.PolicyRefused("too long")}
            self.assertRaises(errors.PolicyRefused, self.create, self.whole())
            self.assertRaises(errors.PolicyRefused, self.leases.what_if, self.ctx,
                              self.new(self.whole()))
        self.assertEqual(before, self.everything())

    def test_hosts_that_were_never_promised_come_first(self):
        one, two = self.hosts((8, 8, 8), (8, 8, 8))
        self.assertEqual([{one: 1}], self.slots(self.create(self.whole(), start=0, end=1)))
        self.assertEqual([{two: 1}], self.slots(self.create(self.whole(), start=5, end=6)))

    def test_cleaning_time(self):
        self.leases = self.service(cleaning_seconds=1800)
        self.hosts((8, 8, 8))
        self.create(self.whole(), start=1, end=2)
        for start, end in ((2, 3), (2.4, 3), (0, 1), (0, 0.6)):
            self.assertRaises(
                errors.NoRoom, self.create, self.instances(), start=start, end=end)
        self.create(self.instances(), start=2.5, end=3)
        self.create(self.instances(), start=0, end=0.5)

    def test_what_if(self):
        self.hosts((8, 8, 8))
        before = self.everything()
        self.assertIsNone(self.leases.what_if(self.ctx, self.new(self.instances(8))))
        refusal = self.assertRaises(
            errors.NoRoom, self.leases.what_if, self.ctx, self.new(self.instances(9)))
        self.assertEqual({"slots": 1, "VCPU": 1, "MEMORY_MB": 1, "DISK_GB": 1}, refusal.missing)
        self.assertEqual(before, self.everything())
        self.assertEqual([], self.provisioner.asked)


class TestDates(lease_cases.LeasesTestCase):

    def setUp(self):
        super().setUp()
        self.host, = self.hosts((8, 8, 8))
        self.minute = self.now.replace(second=0)

    def due(self, lease):
        return {each.event_type: each.due_at for each in lease.events}

    def test_now(self):
        """In whole seconds; the present minute too is now."""
        if self.now.second > 50:
            # The minute must not pass meanwhile.
            time.sleep(61 - self.now.second)
            self.now += 61 * SECOND - self.now.second * SECOND
        for start in (None, self.now.replace(second=0)):
            lease = self.create(self.instances(), start=start, end=self.now + HOUR)
            self.assertEqual(0, lease.start_at.microsecond)
            self.assertTrue(self.now <= lease.start_at <= self.now + 30 * SECOND)
            self.assertEqual(lease.start_at, self.due(lease)["start_lease"])
            # Clamped to the start.
            self.assertEqual(lease.start_at, self.due(lease)["before_end_lease"])

    def test_the_past(self):
        error = self.assertRaises(
            errors.InvalidLease, self.create, self.instances(), start=self.minute - SECOND,
            end=1)
        self.assertEqual("Start date must be later than current date", str(error))

    def test_the_end(self):
        for start, end in ((1, 1), (1, 0), (None, self.minute), (1, self.now - DAY)):
            error = self.assertRaises(
                errors.InvalidLease, self.create, self.instances(), start=start, end=end)
            self.assertEqual("End date must be later than start date.", str(error))

    def test_the_end_of_the_calendar(self):
        last = datetime.datetime(4999, 12, 31, 23, 59, tzinfo=datetime.UTC)
        lease = self.create(self.whole(), start=last - 400 * DAY, end=last)
        self.assertEqual(last, self.get(lease).end_at)
        refusal = self.assertRaises(errors.NoRoom, self.create, self.whole(), end=last)
        self.assertEqual(last, refusal.fits_at)
        self.assertRaises(errors.InvalidLease, self.create, self.whole(), end=last + MINUTE)
        self.assertRaises(errors.InvalidLease, self.create, self.whole(),
                          start=last + MINUTE, end=last + DAY)

    def test_before_the_end(self):
        lease = self.create(self.instances(), end=3)
        self.assertEqual(self.at(2), self.due(lease)["before_end_lease"])
        lease = self.create(self.instances(), end=3, before_end_at=self.at(1.5))
        self.assertEqual(self.at(1.5), self.due(lease)["before_end_lease"])
        self.leases = self.service(minutes_before_end=0)
        self.assertEqual({"start_lease", "end_lease"}, set(self.due(self.create(
            self.instances(), end=3))))
        for at in (-1, 0, 3, 4):
            error = self.assertRaises(errors.OutOfLimits, self.create, self.instances(), end=3,
                                      before_end_at=self.at(at))
            self.assertEqual("Datetime is out of lease limits", str(error))


class TestFields(lease_cases.LeasesTestCase):

    def setUp(self):
        super().setUp()
        self.hosts((8, 8, 8))

    def refused(self, resource_type, given):
        before = self.everything()
        asked = NewReservation(resource_type, given)
        error = self.assertRaises(
            (InvalidReservation, errors.InvalidLease), self.create, asked)
        self.assertEqual(before, self.everything())
        return error

    def test_unknown_type(self):
        error = self.refused("virtual:floatingip", {})
        self.assertEqual(
            "The virtual:floatingip resource type is not supported.", str(error))

    def test_missing(self):
        error = self.refused("physical:host", {"min": 1})
        self.assertEqual(("Missing parameter max", "max"), (str(error), error.field))

    def test_what_no_plugin_has(self):
        """Nothing can be set that is not asked for."""
        good = self.whole().raw_fields
        for field in ("id", "lease_id", "status", "aggregate_id", "resource_id"):
            error = self.refused("physical:host", {**good, field: "1"})
            self.assertIn(field, str(error))

    def test_wrong(self):
        good = self.instances().raw_fields
        for field, value in (
            ("vcpus", 0), ("vcpus", -1), ("memory_mb", 1.5), ("disk_gb", True),
            ("amount", 10**30), ("amount", "many"), ("amount", None), ("vcpus", "\0"),
            ("affinity", "perhaps"), ("resource_properties", "{"),
            ("resource_properties", 7), ("vcpus", "🙂" * 1000),
        ):
            error = self.refused("virtual:instance", {**good, field: value})
            self.assertTrue(len(str(error)) < 400, error)

    def test_how_many(self):
        self.leases = self.service(max_reservations=2)
        self.create(self.instances(), self.instances())
        self.assertRaises(errors.InvalidLease, self.create)
        self.assertRaises(errors.InvalidLease, self.create, *[self.instances()] * 3)
        self.assertEqual(2, len(self.rows(tables.lease_reservations)))
