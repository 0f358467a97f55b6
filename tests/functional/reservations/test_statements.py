"""How many statements a lease takes, and that it does not grow with what is promised."""

import datetime

from placement_core.plugin_api.reservations import Window
from placement_core.reservations import errors
from placement_core.reservations.leases import lease_queries
from tests import databases, round_trips
from tests.functional.reservations import lease_cases
from tests.functional.reservations.lease_cases import DAY, HOUR, MINUTE


@databases.on_each_database
class TestStatements(lease_cases.LeasesTestCase):

    def setUp(self):
        super().setUp()
        self.hosts(*[(16, 16, 16)] * 20)
        self.trips = round_trips.RoundTrips(self.database)
        for hour in range(10):
            self.create(self.instances(4), self.whole(), start=hour, end=hour + 2)

    def assert_takes(self, most, function, *arguments, **options):
        """BEGIN and COMMIT are counted too, and the change log's statements."""
        found = self.trips.of(function, *arguments, **options)
        self.assertTrue(found <= most, f"{found} statements")

    def test_making(self):
        self.assert_takes(16, self.create, self.instances(4), end=3)
        self.assert_takes(16, self.create, self.instances(4, affinity=False), end=3)
        self.assert_takes(16, self.create, self.whole(2), end=3)
        self.assert_takes(16, self.create, *[self.instances(2) for _ in range(10)], end=3)

        def refused(*arguments, **options):
            self.assertRaises(errors.NoRoom, self.create, *arguments, **options)

        self.assert_takes(13, refused, self.instances(400), end=3)
        self.assert_takes(13, refused, self.whole(20), end=3)
        self.assert_takes(13, refused, *[self.whole(5) for _ in range(5)], end=3)

    def test_asking(self):
        self.assert_takes(6, self.leases.what_if, self.ctx, self.new(self.instances(4)))
        self.leases.timeline(self.ctx, Window(self.at(0), self.at(1)))
        self.assert_takes(5, self.leases.next_fit, self.ctx, "p", [self.whole(20)],
                          since=self.at(0), seconds=60)
        self.assert_takes(5, self.leases.timeline, self.ctx,
                          Window(self.at(0), self.at(0) + 365 * DAY))

    def test_changing(self):
        lease = self.create(self.instances(4), self.whole(), start=20, end=21)
        self.assert_takes(29, self.change, lease, {"amount": 8}, {"max": 3, "min": 3},
                          start_at=22, end_at=25)
        self.assert_takes(9, self.change, lease, name="other")
        self.assert_takes(15, self.leases.delete, self.ctx, lease.id)

        lease = self.create(self.instances(4), self.whole(), start=None, end=21)
        for event in ("start_lease", "end_lease"):
            turn = self.claimed(lease, event)
            self.assert_takes(14, self.transitions.execute, self.ctx, turn)
        self.assert_takes(5, lease_queries.page, self.ctx)


class TestAsking(lease_cases.LeasesTestCase):
    """When something fits, and how much is free: nothing is taken for that."""

    def setUp(self):
        super().setUp()
        self.hosts((8, 8, 8), (8, 8, 8))
        self.create(self.whole(), start=0, end=4)
        self.create(self.instances(5, (2, 2, 2)), start=4, end=6)

    def next_fit(self, *reservations, since=0, hours=1):
        found = self.leases.next_fit(
            self.ctx, "p", reservations, since=since if since is None else self.at(since),
            seconds=int(hours * 3600))
        return None if found is None else found.window

    def test_next_fit(self):
        self.assertEqual(Window(self.at(6), self.at(7)), self.next_fit(self.whole(2)))
        self.assertEqual(Window(self.at(2), self.at(3)), self.next_fit(self.whole(), since=2))
        self.assertEqual(
            Window(self.at(6), self.at(9)), self.next_fit(self.whole(), since=2, hours=3))
        self.assertIsNone(self.next_fit(self.whole(3)))
        for since in (None, -48):
            soon = self.next_fit(self.whole(2), since=since)
            self.assertTrue(self.now <= soon.start_at <= self.now + MINUTE)

    def test_next_fit_of_nonsense(self):
        for seconds in (0, -1, 10**12):
            self.assertRaises(errors.InvalidLease, self.leases.next_fit, self.ctx, "p",
                              [self.whole()], since=None, seconds=seconds)
        self.assertRaises(errors.InvalidLease, self.next_fit)

    def test_timeline(self):
        timeline = self.leases.timeline(self.ctx, Window(self.at(-1), self.at(8)))
        steps = timeline.steps
        self.assertEqual((2, 16), (timeline.total.hosts, timeline.total.vcpus))
        self.assertEqual([
            (self.at(-1), 2, 16), (self.at(0), 1, 8), (self.at(4), 0, 6), (self.at(6), 2, 16),
        ], [(each.window.start_at, each.hosts, each.vcpus) for each in steps])
        self.assertEqual(self.at(8), steps[-1].window.end_at)


@databases.on_each_database
class TestPast(lease_cases.LeasesTestCase):
    """The timeline of a time of which the index of bookings has forgotten some."""

    cleaning_seconds = 3600

    def setUp(self):
        super().setUp()
        self.hosts((8, 8, 8), (8, 8, 8))
        lease = self.create(self.whole(2), start=0, end=24 * 10)
        self.begin = self.now.replace(minute=0, second=0) - 30 * DAY
        self.back(lease, lease.start_at - self.begin)
        self.change(lease, name="read again")

    def read(self, start, end):
        """Return when which hosts are free, in hours from the lease's start."""
        steps = self.leases.timeline(
            self.ctx, Window(self.begin + start * HOUR, self.begin + end * HOUR)).steps
        return [((each.window.start_at - self.begin) / HOUR, each.hosts) for each in steps]

    def test_a_lease_of_last_month(self):
        self.assertEqual([(-1, 2), (0, 0), (241, 2)], self.read(-1, 24 * 30))
        self.assertEqual([(5, 0)], self.read(5, 6))

    def test_what_is_still_cleaned(self):
        """A booking that ended before the time, but occupies its hosts longer."""
        self.assertEqual([(240.5, 0), (241, 2)], self.read(240.5, 250))

    def test_up_to_what_comes(self):
        self.create(self.whole(1), start=0, end=1)
        hours = (self.at(0) - self.begin) / HOUR
        self.assertEqual([(-1, 2), (0, 0), (241, 2), (hours, 1), (hours + 2, 2)],
                         self.read(-1, hours + 24))

    def test_long_ago(self):
        first = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
        steps = self.leases.timeline(self.ctx, Window(first, self.begin + HOUR)).steps
        self.assertEqual([(first, 2), (self.begin, 0)], [
            (each.window.start_at, each.hosts) for each in steps])
