"""Reservations of what is on no host, by a plugin that has no table of its own."""

from placement_core.plugin_api.reservations import Amounts, DoesNotFit
from placement_core.reservations import errors, tables
from placement_core.reservations.records import NewReservation
from tests import databases
from tests.functional.reservations import lease_cases
from tests.functional.reservations.lease_cases import HOUR
from tests.plugins.reservations import pools


class NotedLicences(pools.Licences):
    """Remembers what it was told to do."""

    def __init__(self, capacity):
        super().__init__(capacity)
        self.told = []

    def started(self, ctx, asked, window):
        self.told.append(("started", asked.started, window))

    def before_end(self, ctx, asked, window):
        self.told.append(("before_end", asked.started, window))

    def ended(self, ctx, asked, window):
        self.told.append(("ended", asked.values["amount"], window))


class KindsOfLicences(pools.Licences):
    def need(self, spec, hosts):
        return Amounts({spec.values["kind"]: spec.values["amount"]})

    def capacities(self):
        return dict.fromkeys("ab", self.capacity)


@databases.on_each_database
class TestAmounts(lease_cases.LeasesTestCase):

    def setUp(self):
        super().setUp()
        self.licences = self.plugins["virtual:licence"] = NotedLicences(10)
        self.leases = self.service()

    @staticmethod
    def some(amount):
        return NewReservation("virtual:licence", {"amount": amount})

    def lent(self):
        return sorted((row.amount, row.start_second, row.end_second)
                      for row in self.rows(tables.reservation_amounts))

    def test_a_life(self):
        lease = self.create(self.some(6), start=1, end=3)
        self.assertEqual(lease, self.get(lease))
        self.assertEqual(({"amount": 6}, {}), (
            lease.reservations[0].fields, lease.reservations[0].compute_ids))
        refusal = self.assertRaises(errors.NoRoom, self.create, self.some(5), end=2)
        self.assertEqual(({"licences": 1}, self.at(3)), (refusal.missing, refusal.fits_at))
        self.create(self.some(5), end=1)
        lease = self.change(lease, {"amount": 7}, start_at=2, end_at=4)
        self.assertEqual(lease, self.get(lease))
        self.create(self.some(5), start=1, end=2)
        self.assertRaises(errors.NoRoom, self.create, self.some(4), start=3, end=4)
        self.leases.delete(self.ctx, lease.id)
        self.create(self.some(10), start=2, end=4)
        self.assertEqual([], self.licences.told)

    def test_beside_hosts(self):
        """All of a lease or nothing."""
        self.hosts((4, 4, 4))
        before = self.everything()
        for reservations in ([self.some(11), self.whole()], [self.some(1), self.whole(2)],
                             [self.some(6), self.some(6)]):
            self.assertRaises(errors.NoRoom, self.create, *reservations)
        self.assertEqual(before, self.everything())
        lease = self.create(self.some(4), self.whole(), self.some(6))
        self.assertEqual([4, None, 6], [
            each.fields.get("amount") for each in self.get(lease).reservations])

    def test_in_force(self):
        lease = self.back(self.started(self.some(6), end=2), HOUR)
        start = lease.window.start
        lease = self.change(lease, {"amount": 8}, end_at=3)
        self.assertEqual([(8, start, lease.window.end)], self.lent())
        self.assertRaises(DoesNotFit, self.change, lease, {"amount": 11})
        self.execute(lease, "before_end_lease")
        ended = self.change(lease, end_now=True)
        self.assertEqual([(8, start, ended.window.end)], self.lent())
        self.assertEqual(["started", "before_end", "ended"],
                         [what for what, *_ in self.licences.told])
        self.assertEqual([True, True, 8], [what for _, what, _ in self.licences.told])

    def test_other_things_in_force(self):
        """What a reservation no longer asks for is free for others, from now on."""
        self.plugins["virtual:licence"] = KindsOfLicences(10)
        self.leases = self.service()

        def of_kind(kind, amount):
            return {"amount": amount, "kind": kind}

        def create(kind, amount):
            return self.create(NewReservation("virtual:licence", of_kind(kind, amount)), end=2)

        lease = self.back(self.started(
            NewReservation("virtual:licence", of_kind("a", 8)), end=2), HOUR)
        self.assertRaises(errors.NoRoom, create, "a", 3)
        lease = self.change(lease, of_kind("b", 8))
        other = create("a", 3)
        self.assertRaises(errors.NoRoom, create, "b", 3)
        self.assertRaises(DoesNotFit, self.change, lease, of_kind("a", 8))
        self.leases.delete(self.ctx, other.id)
        self.change(lease, of_kind("a", 8))
        self.assertRaises(errors.NoRoom, create, "a", 3)
        create("b", 3)

    def test_a_plugin_that_is_not_there_any_more(self):
        """What it reserved can be seen, renamed and ended."""
        lease = self.started(self.some(6), end=2)
        del self.plugins["virtual:licence"]
        self.assertEqual({"amount": 6}, self.get(lease).reservations[0].fields)
        for changes in ({"end_at": 3}, {"name": "x", "end_at": 4}):
            self.assertRaises(errors.InvalidLease, self.change, lease, **changes)
        self.change(lease, name="other")
        self.change(lease, end_at=1)
        self.leases.delete(self.ctx, lease.id)
