"""What the reference does wrong (spec blazar §6, items 1 to 7 and 11) is done right."""

from placement_core.plugin_api.reservations import InvalidReservation, NotChangeable
from placement_core.reservations import errors
from placement_core.reservations.records import LeaseChange, NewLease
from tests.functional.reservations import lease_cases
from tests.functional.reservations.lease_cases import HOUR


class TestWeaknesses(lease_cases.LeasesTestCase):

    def setUp(self):
        super().setUp()
        self.host, = self.hosts((8, 64, 64))

    def test_every_slot_counts(self):
        for affinity in (None, True):
            lease = self.create(self.instances(2, (4, 1, 1), affinity=affinity))
            self.assertRaises(
                errors.NoRoom, self.create, self.instances(1, (4, 1, 1), affinity=affinity))
            self.leases.delete(self.ctx, lease.id)

    def test_reservations_of_one_lease_see_each_other(self):
        for others in ([self.instances(1, (8, 1, 1))], [self.whole()]):
            self.assertRaises(
                errors.NoRoom, self.create, self.instances(1, (8, 1, 1)), *others)

    def test_back_to_back(self):
        kinds = (self.instances(1, (8, 1, 1)), self.whole())
        for hour, (first, second) in enumerate((a, b) for a in kinds for b in kinds):
            at = 10 * hour
            self.create(first, start=at, end=at + 1)
            self.create(second, start=at + 1, end=at + 2)
            # What touches both fits before and after them, in no order of the three.
            self.create(self.instances(1, (8, 1, 1)), start=at - 1, end=at)
            self.create(self.whole(), start=at + 2, end=at + 3)

    def test_touching_leases_block_nobody(self):
        """One instant, at which one ends and one begins: never both count."""
        self.create(self.instances(1, (4, 1, 1)), start=0, end=1)
        self.create(self.instances(1, (4, 1, 1)), start=1, end=2)
        self.create(self.instances(1, (4, 1, 1)), start=0, end=2)
        self.assertRaises(errors.NoRoom, self.create, self.instances(), start=0, end=2)

    def test_a_refused_lease_leaves_nothing(self):
        before = self.everything()
        self.assertRaises(errors.NoRoom, self.create, self.instances(), self.whole(),
                          self.instances(2, affinity=False))
        self.assertEqual((before, []), (self.everything(), self.provisioner.asked))

    def test_a_refused_update_changes_nothing(self):
        lease = self.create(self.instances(2), self.instances(2))
        before, asked = self.everything(), list(self.provisioner.asked)
        for change in ({"amount": 7}, {"vcpus": 100}, {"amount": 0}):
            self.assertRaises(
                (errors.NoRoom, InvalidReservation), self.change, lease, {"amount": 3}, change,
                name="other", end_at=5)
            self.assertEqual((before, asked), (self.everything(), self.provisioner.asked))

    def test_nothing_else_can_be_set(self):
        """What is asked for has no place for ids, owners, events or statuses."""
        for kind in (NewLease, LeaseChange):
            self.assertEqual(set(), set(kind.__dataclass_fields__) & {
                "id", "trust_id", "status", "events", "created_at", "degraded", "number"})
        self.assertNotIn("project_id", LeaseChange.__dataclass_fields__)
        lease = self.create(self.instances())
        for field in ("id", "lease_id", "status", "resource_id", "flavor_id", "project_id"):
            for given in ({**self.instances().raw_fields, field: "x"}, {field: "x"}):
                self.assertRaises(InvalidReservation, self.change, lease, given)

    def test_sizes_of_nothing(self):
        for size in ((0, 0, 0), (-1, -1, -1), (0, 1, 1)):
            self.assertRaises(InvalidReservation, self.create, self.instances(1, size))

    def test_one_that_has_ended_is_not_changed(self):
        """Also not within the minute, or the second, in which it ended."""
        lease = self.back(self.started(self.instances(), end=2), HOUR)
        self.change(lease, end_now=True)
        before, asked = self.everything(), list(self.provisioner.asked)
        for changes in ({"end_at": 5}, {"end_now": True}, {"start_now": True}):
            self.assertRaises(errors.InvalidLease, self.change, lease, **changes)
        self.assertRaises((errors.InvalidLease, NotChangeable),
                          self.change, lease, {"amount": 2})
        self.assertEqual((before, asked), (self.everything(), self.provisioner.asked))
