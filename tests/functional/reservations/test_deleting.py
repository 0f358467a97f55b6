from placement_core.reservations import errors, tables
from placement_core.reservations.leases import lease_queries
from tests import databases
from tests.functional.reservations import lease_cases
from tests.functional.reservations.lease_cases import HOUR


@databases.on_each_database
class TestDeleting(lease_cases.LeasesTestCase):

    def test_one_that_has_not_started(self):
        """It never held anything, and its room is free."""
        host, = self.hosts((4, 4, 4))
        first = self.create(self.whole())
        self.assertRaises(errors.NoRoom, self.create, self.instances())
        self.leases.delete(self.ctx, first.id)
        self.assertRaises(errors.LeaseNotFound, lease_queries.get, self.ctx, first.id)
        self.assertEqual([{}], self.held(first))
        self.assertEqual([], lease_queries.page(self.ctx))
        self.create(self.instances())
        self.assertEqual(["lease.create", "lease.delete"], self.notices(first))
        self.assertEqual([("made", first.reservations[0].id, []),
                          ("given up", first.reservations[0].id, [host])],
                         self.provisioner.asked[:2])

    def test_one_that_is_in_force(self):
        host, = self.hosts((4, 4, 4))
        lease = self.back(self.started(self.instances(2, (2, 2, 2)), end=2), HOUR)
        self.assertEqual("ACTIVE", lease.status)
        self.leases.delete(self.ctx, lease.id)
        [[(slots, window)]] = [each.values() for each in self.held(lease)]
        self.assertEqual((2, lease.window.start), (slots, window.start))
        self.assertTrue(0 <= window.end - self.now.timestamp() < 60)
        self.assertEqual(
            ("ended", lease.reservations[0].id, [host]), self.provisioner.asked[-1])
        when, ended = self.rules.asked[-1]
        self.assertEqual(("ended", "TERMINATED"), (when, ended.status))
        self.create(self.whole(), start=None, end=2)

    def test_one_that_has_ended(self):
        """It is gone, and what it held is history still."""
        self.hosts((4, 4, 4))
        lease = self.back(self.started(self.whole(), end=2), HOUR)
        self.assertTrue(self.execute(lease, "end_lease"))
        held, asked = self.held(lease), list(self.provisioner.asked)
        self.leases.delete(self.ctx, lease.id)
        self.assertEqual((held, asked), (self.held(lease), self.provisioner.asked))
        self.assertRaises(errors.LeaseNotFound, lease_queries.get, self.ctx, lease.id)
        self.assertEqual(
            [("DONE",)] * 3, [(row.status,) for row in self.rows(tables.lease_events)])


class TestWhatIsDeleted(lease_cases.LeasesTestCase):

    def test_somebody_elses(self):
        self.hosts((4, 4, 4))
        lease = self.create(self.instances())
        before = self.everything()
        for lease_id, project in ((lease.id, "other"), (lease.id.upper(), "p"), ("\0", None),
                                  (lease.id + " ", "p"), ("1" * 36, None)):
            self.assertRaises(errors.LeaseNotFound, self.leases.delete, self.ctx, lease_id,
                              project_id=project)
        self.assertEqual(before, self.everything())
        self.leases.delete(self.ctx, lease.id, project_id="p")
        self.assertRaises(errors.LeaseNotFound, self.leases.delete, self.ctx, lease.id)

    def test_the_end_is_refused(self):
        """What is left on the hosts can be told to refuse it."""
        self.hosts((4, 4, 4))
        lease = self.started(self.instances())
        before = self.everything()
        self.provisioner.refuses = errors.WrongStatus("allocations use it")
        self.assertRaises(errors.WrongStatus, self.leases.delete, self.ctx, lease.id)
        self.assertEqual(before, self.everything())
