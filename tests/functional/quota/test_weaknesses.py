"""What the reference gets wrong when it decides about quota (spec nova_quota §6), here.

N7 and N8 are about who counts, N9 to N11 and N13 about counting and migrations: their
tests are with those parts.
"""

from placement_core.placement import allocations
from placement_core.placement.records import AllocationWrite
from placement_core.quota import checks
from placement_core.testing import factories
from tests import round_trips
from tests.functional.quota import cases, test_checks


@cases.in_every_way
class TestWeaknesses(test_checks.ChecksTestCase):

    def test_n1_many_items_cost_one_count(self):
        """There, 1 to 100 items with room for 10 cost 91 counts."""
        counting = self.noting()
        answer = checks.check_many(
            self.ctx, self.enforcer, project_id=self.left, per_item={"cores": 1, "servers": 1},
            min_count=1, max_count=100)
        self.assertEqual((10, 1), (answer.fitting, len(counting.questions)))

    def test_n2_an_unshelve_is_checked(self):
        """There, all its deltas are 0."""
        self.use(self.left, 8)
        self.assertFalse(self.check(self.left, cores=4, ram=10).fits)

    def test_n3_a_resize_takes_no_server(self):
        """There, it is refused where there are as many servers as are allowed."""
        for _ in range(10):
            self.use(self.left, 0)
        self.assertFalse(self.check(self.left, servers=1).fits)
        self.assertTrue(self.check(self.left, cores=4).fits)

    def test_n4_the_project_that_is_asked_about_counts(self):
        """There, an administrator's own is counted."""
        self.use(self.left, 10)
        self.ctx.identity = type(self.ctx.identity)(project_id=self.right)
        self.assertFalse(self.check(self.left, cores=1).fits)
        self.assertTrue(self.check(self.right, cores=1).fits)

    def test_n6_of_two_rivals_one_stays(self):
        """There, both may lose, and leave instances in error."""
        first, second = self.use(self.left, 6), self.use(self.left, 6)
        self.assertEqual([False, True], [self.parts.rechecks.recheck(
            self.context(), project_id=self.left, names=["cores"],
            uuids=[uuid]).fits for uuid in (second, first)])

    def test_n12_a_burst_does_not_fetch_limits_again(self):
        """There, each request asks for them anew, two to six times."""
        self.limit(self.trunk, 12)
        self.user_limit(self.left, 9)
        self.use(self.left, 1)
        self.check(self.left, "jane", cores=1)
        trips = round_trips.RoundTrips(self.parts.database)
        asked = []
        effective, user_limits = self.parts.limits.effective, self.parts.limits.user_limits

        def asking(name, function):
            def ask(ctx, *arguments, **options):
                asked.append(repr((name, arguments, options)))
                return function(ctx, *arguments, **options)
            return ask

        self.patch(self.parts.limits, "effective", asking("effective", effective))
        self.patch(self.parts.limits, "user_limits", asking("user_limits", user_limits))
        count = trips.of(self.check, self.left, "jane", cores=1)
        self.assertEqual([], asked)
        # Has anything changed? Then what is used, by the user and by the others.
        self.assertLessEqual(count, 6)
        self.limit(self.left, 11)
        self.check(self.left, "jane", cores=1)
        # Those of the catalog's only region and those without one, each once.
        self.assertEqual(5, len(asked))
        self.assertEqual(sorted(set(asked)), sorted(asked))


class TestMoves(test_checks.ChecksTestCase):

    def test_n5_a_resize_counts_once(self):
        """There, its project has both halves in VERIFY_RESIZE; so here, unless told."""
        instance = self.use(self.left, 5)
        allocations.replace(self.ctx, [
            AllocationWrite(instance, {}, self.left, cases.USER, "INSTANCE"),
            AllocationWrite(factories.new_uuid(), {self.host.uuid: {"VCPU": 5, "MEMORY_MB": 10}},
                            self.left, cases.USER, "MIGRATION")])
        allocations.replace(self.ctx, [AllocationWrite(
            instance, {self.host.uuid: {"VCPU": 6, "MEMORY_MB": 10}}, self.left, cases.USER,
            "INSTANCE")])
        self.assertEqual([(self.left, "own", 10, 11, 0)], self.excesses(self.left, cores=0))
        for options in ({"quota__count_moves": "once"}, {"quota__guard": "enforce"}):
            self.parts = self.built(**options)
            self.enforcer, self.ctx = self.parts.quota, self.context()
            self.assertEqual([(self.left, "own", 10, 6, 5)], self.excesses(self.left, cores=5))
