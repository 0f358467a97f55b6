from placement_core.plugin_api.reservations import Window
from placement_core.reservations import errors
from placement_core.reservations.leases import lease_queries
from tests import databases, round_trips
from tests.functional.reservations import lease_cases


@databases.on_each_database
class TestPages(lease_cases.LeasesTestCase):

    def setUp(self):
        super().setUp()
        self.one, self.two = self.hosts((8, 8, 8), (8, 8, 8))
        self.made = [
            self.create(self.instances(), self.whole(), project="p", name="b", start=4, end=5),
            self.create(self.instances(), project="q", name="a", start=0, end=2),
            self.create(self.instances(), self.instances(), project="p", name="b",
                        start=1, end=3),
            self.create(self.instances(), project="p", name="c", start=1, end=2),
        ]
        gone = self.create(self.instances(), start=0, end=9)
        self.leases.delete(self.ctx, gone.id)
        self.gone = gone

    def assert_found(self, numbers, **options):
        found = lease_queries.page(self.ctx, **options)
        self.assertEqual([self.made[number] for number in numbers], found)

    def test_filters(self):
        self.assert_found([0, 1, 2, 3])
        self.assert_found([0, 2, 3], project_id="p")
        self.assert_found([], project_id="P")
        self.assert_found([0, 2], name="b")
        self.assert_found([2], name="b", project_id="p",
                          overlaps=Window(self.at(2), self.at(4)))
        self.assert_found([0, 1, 2, 3], status="PENDING")
        self.assert_found([], status="ACTIVE")
        self.assert_found([], name="\0")
        on_one = [number for number, lease in enumerate(self.made)
                  if any(self.one in each for each in self.slots(lease))]
        self.assert_found(on_one, host_id=self.one)
        self.assert_found([], host_id=10**6)

    def test_overlaps(self):
        for start, end, numbers in (
                (0, 1, [1]), (2, 3, [2]), (3, 4, []), (1, 2, [1, 2, 3]), (5, 9, []),
                (0, 9, [0, 1, 2, 3])):
            self.assert_found(numbers, overlaps=Window(self.at(start), self.at(end)))

    def test_order_and_pages(self):
        orders = {
            ("number", False): [0, 1, 2, 3], ("number", True): [3, 2, 1, 0],
            ("start_at", False): [1, 2, 3, 0], ("start_at", True): [0, 3, 2, 1],
            ("end_at", False): [1, 3, 2, 0], ("name", False): [1, 0, 2, 3],
            ("name", True): [3, 2, 0, 1]}
        for (key, descending), order in orders.items():
            self.assert_found(order, sort_key=key, descending=descending)
            for limit in (1, 3):
                found, after = [], None
                while part := lease_queries.page(
                        self.ctx, sort_key=key, descending=descending, after=after,
                        limit=limit):
                    found += part
                    after = part[-1].id
                self.assertEqual([self.made[number] for number in order], found)

    def test_a_page_goes_on_after_one_that_is_gone(self):
        self.leases.delete(self.ctx, self.made[1].id)
        self.assert_found([2, 3], after=self.made[1].id)
        self.assert_found([0, 2, 3], project_id="p", limit=9)

    def test_a_page_after_what_cannot_be_seen(self):
        for options in ({"after": "x"}, {"after": "0" * 36}, {"after": "\0"},
                        {"after": self.made[1].id, "project_id": "p"}):
            self.assertRaises(errors.InvalidLease, lease_queries.page, self.ctx, **options)

    def test_one(self):
        self.assertEqual(
            self.made[1], lease_queries.get(self.ctx, self.made[1].id, project_id="q"))
        for lease_id, project in ((self.made[1].id, "p"), (self.gone.id, None), ("x", None),
                                  (self.made[1].id.upper(), None), ("\0", None)):
            self.assertRaises(errors.LeaseNotFound, lease_queries.get, self.ctx, lease_id,
                              project_id=project)

    def test_statements(self):
        """As many, however many leases there are."""
        trips = round_trips.RoundTrips(self.database)
        for options, most in (({}, 5), ({"project_id": "p"}, 5), ({"limit": 1}, 5),
                              ({"after": self.made[0].id}, 6)):
            self.assertTrue(trips.of(lease_queries.page, self.ctx, **options) <= most)
        self.assertTrue(trips.of(lease_queries.get, self.ctx, self.made[0].id) <= 5)
