from placement_core.plugin_api.reservations import Window
from placement_core.reservations.hosts import host_calendar
from tests import databases, round_trips
from tests.functional.reservations import lease_cases


@databases.on_each_database
class TestHostCalendar(lease_cases.LeasesTestCase):

    def setUp(self):
        super().setUp()
        self.one, self.two, self.three = self.hosts(*[(8, 8, 8)] * 3)
        self.whole_lease = self.create(self.whole(), project="p", name="all <b>", start=1, end=3)
        self.late = self.create(self.instances(2), project="q", name="late", start=5, end=6)
        gone = self.create(self.whole(), project="p", start=2, end=4)
        self.leases.delete(self.ctx, gone.id)

    def page(self, start=0, end=9, **options):
        return host_calendar.page(
            self.ctx, Window(self.at(start), self.at(end)), **{"limit": 10, **options})

    def list_shares(self, **options):
        return [(host.id, share.lease_id) for host in self.page(**options)
                for share in host.shares]

    def test_shares(self):
        """Those that overlap the time, of leases that are there."""
        [host] = self.page(end=5)
        [share] = host.shares
        self.assertEqual(
            (self.whole_lease.id, "all <b>", "PENDING", "p", self.at(1), self.at(3), True),
            (share.lease_id, share.lease_name, share.status, share.project_id, share.start_at,
             share.end_at, share.whole))
        self.assertEqual({self.late.id}, {lease for _, lease in self.list_shares(start=3)})
        self.assertEqual([], self.page(start=6))
        self.assertEqual([], self.page(start=3, end=5))

    def test_filters(self):
        """By project and by host, and page by page; nobody learns of other projects."""
        shares = self.list_shares()
        self.assertEqual({self.whole_lease.id, self.late.id}, {lease for _, lease in shares})
        self.assertEqual([self.late.id], sorted({
            lease for _, lease in self.list_shares(project_id="q")}))
        for project_id in ("P", "nobody", "\0"):
            self.assertEqual([], self.list_shares(project_id=project_id))
        for host_id in (self.one, self.two, self.three):
            self.assertEqual([share for share in shares if share[0] == host_id],
                             self.list_shares(host_id=host_id))
        ids, after = [], 0
        while part := self.page(after=after, limit=1):
            ids.append(part[0].id)
            after = part[0].id
        self.assertEqual(sorted({host for host, _ in shares}), ids)

    def test_the_number_of_statements_does_not_grow(self):
        trips = round_trips.RoundTrips(self.database)
        few = trips.of(self.page, limit=1)
        self.assertEqual(few, trips.of(self.page))
