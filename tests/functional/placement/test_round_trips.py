import sqlalchemy as sa

from placement_core.placement import allocations
from placement_core.placement.allocations import grouped_writes
from placement_core.placement.allocations.gates import WriteRequest
from placement_core.placement.allocations.grouped_writes import GroupedWrite
from placement_core.testing import factories
from tests import databases
from tests.functional.placement import claims
from tests.round_trips import RoundTrips


@databases.on_each_database
class TestRoundTrips(claims.ClaimsTestCase):

    def setUp(self):
        super().setUp()
        self.host = self.provider(VCPU=80, MEMORY_MB=800, DISK_GB=80)
        self.trips = RoundTrips(self.database)
        self.resources = {self.host: {"VCPU": 2, "MEMORY_MB": 20, "DISK_GB": 2}}

    def test_put(self):
        new = self.trips.of(self.claim, self.resources, seen=None)
        known = self.trips.of(
            self.claim, self.resources, seen=None, consumer=factories.new_uuid())
        again = self.trips.of(self.claim, {self.host: {"VCPU": 3, "DISK_GB": 1}}, seen=1)
        gone = self.trips.of(allocations.delete, self.ctx, self.consumer)
        self.addDetail("round trips", self.text(
            f"new project {new}, known {known}, replaced {again}, deleted {gone}"))
        together = self.kind != "sqlite"
        self.assertLessEqual(new, 9 if together else 14)
        self.assertLessEqual(known, 3 if together else 10)
        self.assertLessEqual(again, 3 if together else 12)
        self.assertLessEqual(gone, 3 if together else 12)

    def test_group(self):
        """As many as one write, unless somebody does not fit, or few go together."""
        if self.kind == "sqlite":
            self.skipTest("SQLite has nothing to wait for")
        shortages = grouped_writes.Shortages()

        def count_group(*amounts, seen=None):
            requests = [WriteRequest([self.write(
                {self.host: {"VCPU": amount}}, consumer=factories.new_uuid(), seen=seen)])
                for amount in amounts]
            for request in requests:
                self.owners.ensure(self.ctx, request.writes)
            outcomes = []
            count = self.trips.of(lambda: outcomes.extend(grouped_writes.apply_together(
                self.ctx, [GroupedWrite(request, [], self.ctx) for request in requests], [],
                self.owners, shortages)))
            return count, outcomes.count("applied")

        count_group(1, 1)
        self.assertEqual((3, 8), count_group(*[1] * 8))
        # It is undone, with one more, and made again, with one for the bounds.
        self.assertEqual((3 + 4, 2), count_group(1, 1000, 1))
        self.assertEqual((4, 2), count_group(1, 1))
        for _ in range(grouped_writes.Shortages._GROUPS):
            count_group(1, 1)
        self.assertEqual((3, 2), count_group(1, 1))

    @staticmethod
    def text(words):
        from testtools import content
        return content.text_content(words)

    def test_the_server_counts_the_same(self):
        if self.kind != "mysql":
            self.skipTest("only MySQL counts the questions of a session")
        # Statements that go together are questions each: while somebody listens, none do.
        sa.event.listen(self.database.writer, "before_cursor_execute", lambda *_: None)
        self.claim(self.resources, seen=None)
        self.database.dispose()
        engines = (self.database.writer, self.database.autocommit)

        def questions():
            # Each pool hands out the one connection that the claims use, too.
            total = 0
            for engine in engines:
                with engine.connect() as connection:
                    row = connection.exec_driver_sql("SHOW SESSION STATUS LIKE 'Questions'").one()
                    total += int(row[1])
            return total

        questions()
        before = questions()
        cost_of_asking = questions() - before
        for project in ("project", "new"):
            before = questions()
            counted = self.trips.of(self.claim, self.resources, seen=None, project=project,
                                    consumer=factories.new_uuid())
            self.assertEqual(counted, questions() - before - cost_of_asking)
