import dataclasses

import sqlalchemy as sa

from placement_core.cells import engines, tables
from placement_core.limits import limits
from placement_core.placement.usage.usage_index import UsageIndex
from placement_core.plugin_api.catalog import Domain, Project, Service
from placement_core.plugin_api.counting import INSTANCES, Count, CountingDriver
from placement_core.quota import checks, errors
from placement_core.quota.decisions import Decisions
from placement_core.testing import factories, fakes
from tests.functional.quota import cases


class Counting:
    """Stands before a counting driver, and notes what it is asked."""

    def __init__(self, driver: CountingDriver) -> None:
        self._driver = driver
        self.units, self.folded = driver.units, driver.folded
        self.questions = []

    def count(self, ctx, project_ids, **options) -> Count:
        self.questions.append((sorted(project_ids), options.get("user_id")))
        return self._driver.count(ctx, project_ids, **options)


class ChecksTestCase(cases.QuotaTestCase):

    def noting(self):
        counting = Counting(self.parts.counting)
        self.enforcer = dataclasses.replace(self.parts.quota, counting=counting)
        return counting


@cases.in_every_way
class TestChecks(ChecksTestCase):

    def test_the_default_binds_what_a_project_uses_itself(self):
        self.use(self.left, 9)
        self.use(self.right, 9)
        self.assertTrue(self.check(self.left, cores=1).fits)
        self.assertEqual([(self.left, "own", 10, 9, 2)], self.excesses(self.left, cores=2))
        self.assertEqual([], self.excesses(self.left, ram=2**31))

    def test_every_limit_of_the_chain_is_named(self):
        self.limit(self.domain, 20)
        self.limit(self.trunk, 12)
        self.use(self.left, 6)
        self.use(self.right, 4)
        self.use(self.other, 8)
        self.assertEqual([
            (self.left, "own", 10, 6, 5), (self.trunk, "subtree", 12, 10, 5),
            (self.domain, "subtree", 20, 18, 5)], self.excesses(self.left, cores=5))
        self.assertEqual([(1, "default"), (3, "set"), (3, "set")], [
            (each.over_by, each.source)
            for each in self.check(self.left, cores=5).exceeded_limits])

    def test_delta_0_asks_whether_a_limit_is_exceeded_already(self):
        self.use(self.left, 6)
        self.assertTrue(self.check(self.left, cores=0, servers=0).fits)
        self.limit(self.left, 5)
        self.assertEqual([(self.left, "subtree", 5, 6, 0)], self.excesses(self.left, cores=0))

    def test_usage_and_limits_are_never_old(self):
        uuid = self.use(self.left, 6)
        self.assertFalse(self.check(self.left, cores=5).fits)
        id_ = self.limit(self.trunk, 50)
        self.limit(self.left, 11)
        self.assertTrue(self.check(self.left, cores=5).fits)
        limits.update(self.ctx, self.parts.catalog, self.parts.model, id_, {"resource_limit": 11})
        self.use(self.right, 1)
        self.assertFalse(self.check(self.left, cores=5).fits)
        self.claim(uuid, {}, project=self.left)
        self.here.execute(sa.text("UPDATE instances SET deleted = id"))
        self.assertTrue(self.check(self.left, cores=5).fits)

    def test_a_question_about_nothing_limited_counts_nothing(self):
        counting = self.noting()
        answer = self.check(self.left, ram=5)
        self.assertTrue(answer.fits)
        self.assertEqual(([], None), (counting.questions, answer.count))

    def test_unknown_names(self):
        for name in ("disk", "class:", "server_key_pairs"):
            self.assertRaises(errors.UnknownResource, self.check, self.left, **{name: 0})
        if not self.from_placement:
            self.assertRaises(
                errors.UncountedResource, self.check, self.left, **{"class:DISK_GB": 0})
        else:
            self.assertTrue(self.check(self.left, **{"class:DISK_GB": 10**6}).fits)

    def test_unknown_projects(self):
        self.assertRaises(errors.UnknownProject, self.check, "nobody", cores=1)
        # One that the catalog lost, and that has instances.
        self.use("stranger", 9)
        self.assertEqual([("stranger", "own", 10, 9, 2)], self.excesses("stranger", cores=2))
        self.assertTrue(self.check(self.domain, cores=1).fits)

    def test_the_answer_says_how_it_was_made(self):
        self.use(self.left, 1)
        count = self.check(self.left, cores=1).count
        self.assertEqual("placement" if self.from_placement else "legacy_cell", count.source)
        self.assertIn("placement" if self.from_placement else "here", count.seconds)


class TestRemoteCatalog(ChecksTestCase):
    """Changes of a catalog of another service move no revision here."""

    model = "flat"

    def setUp(self):
        super().setUp()
        self.remote = fakes.MemoryCatalog(
            services=[Service(self.service, "compute")], domains=[Domain("d", "d")],
            projects=[Project("p", "p", "d", "d"), Project("q", "q", "d", "d")])
        decisions = self.parts.quota.decisions
        self.enforcer = dataclasses.replace(
            self.parts.quota, catalog=self.remote, decisions=Decisions(
                UsageIndex(self.parts.database), self.remote, self.parts.limits,
                decisions.model, resources=decisions.resources))

    def test_a_project_that_is_deleted(self):
        self.assertTrue(self.check("p", cores=1).fits)
        self.remote.forget("p")
        self.assertRaises(errors.UnknownProject, self.check, "p", cores=1)
        self.assertTrue(self.check("q", cores=1).fits)


@cases.in_every_way
class TestUsers(ChecksTestCase):

    def test_a_users_limit_binds_the_user(self):
        self.user_limit(self.left, 3)
        self.use(self.left, 2)
        self.use(self.left, 4, user="joe")
        self.assertEqual([], self.excesses(self.left, "jane", cores=1))
        self.assertEqual([(self.left, "user", 3, 2, 2)],
                         self.excesses(self.left, "jane", cores=2))
        self.assertEqual([], self.excesses(self.left, "joe", cores=2))
        self.assertEqual([(self.left, "own", 10, 6, 5), (self.left, "user", 3, 2, 5)],
                         self.excesses(self.left, "jane", cores=5))
        (over,) = self.check(self.left, "jane", cores=2).exceeded_limits
        self.assertEqual(("jane", 1), (over.user_id, over.over_by))

    def test_it_binds_in_that_project_alone(self):
        self.user_limit(self.left, 3)
        self.use(self.right, 9)
        self.assertEqual([], self.excesses(self.right, "jane", cores=1))
        self.assertEqual([], self.excesses(self.left, "jane", cores=3))

    def test_no_limit_is_none(self):
        self.user_limit(self.left, -1)
        self.use(self.left, 9)
        self.assertEqual([(self.left, "own", 10, 9, 2)],
                         self.excesses(self.left, "jane", cores=2))

    def test_the_users_usage_is_asked_for_only_where_it_matters(self):
        self.user_limit(self.left, 3)
        self.limit(self.trunk, 30)
        counting = self.noting()
        below = sorted([self.left, self.right, self.trunk])
        for user, names, expected in (
            (None, {"cores": 1}, [(below, None)]),
            ("joe", {"cores": 1}, [(below, None)]),
            ("jane", {"servers": 1}, [([self.left], None)]),
            ("jane", {"cores": 1, "servers": 1},
             [([self.left], "jane"), ([each for each in below if each != self.left], None)]),
        ):
            counting.questions.clear()
            self.check(self.left, user, **names)
            self.assertEqual(expected, counting.questions, (user, names))


@cases.in_every_way
class TestCounts(ChecksTestCase):

    def check_many(self, project, least, most, user=None, **per_item):
        return checks.check_many(
            self.ctx, self.enforcer, project_id=project, per_item=per_item, min_count=least,
            max_count=most, user_id=user)

    def test_the_largest_count_that_fits(self):
        self.use(self.left, 1)
        self.limit(self.trunk, 9)
        for least, most, cores, expected, fits in (
            (1, 4, 2, 4, True), (1, 5, 2, 4, True), (5, 5, 2, 4, False), (1, 100, 3, 2, True),
            (1, 1, 9, 0, False), (1, 100, 0, 9, True), (1, 8, 1, 8, True), (1, 8, 0, 8, True),
        ):
            answer = self.check_many(self.left, least, most, cores=cores, servers=1)
            self.assertEqual((expected, fits), (answer.fitting, answer.fits), (least, most, cores))
            self.assertEqual(expected < most, bool(answer.held_by))

    def test_what_holds_it_down(self):
        self.use(self.left, 1)
        answer = self.check_many(self.left, 1, 100, cores=1, servers=1)
        self.assertEqual(
            {("cores", 10, 1, 10), ("servers", 10, 1, 10)},
            {(each.resource_name, each.limit, each.used, each.asked) for each in answer.held_by})
        self.limit(self.trunk, 5)
        answer = self.check_many(self.left, 1, 100, cores=1, servers=1)
        self.assertEqual((4, [(self.trunk, "cores")]), (
            answer.fitting, [(each.node_id, each.resource_name) for each in answer.held_by]))
        self.assertEqual([], self.check_many(self.left, 1, 100, ram=5).held_by)

    def test_as_asked_one_by_one(self):
        self.limit(self.trunk, 14)
        self.limit(self.domain, 17)
        self.user_limit(self.left, 8)
        for project, cores in ((self.left, 3), (self.right, 4), (self.other, 2), (self.left, 1)):
            self.use(project, cores)
            for cores_each in range(4):
                for user in (None, "jane"):
                    answer = self.check_many(
                        self.left, 1, 12, user, cores=cores_each, servers=2)
                    expected = max((number for number in range(1, 13) if self.check(
                        self.left, user, cores=number * cores_each, servers=number * 2).fits),
                        default=0)
                    self.assertEqual(expected, answer.fitting)
                    self.assertEqual(expected >= 1, answer.fits)

    def test_nothing_fits_where_a_limit_is_exceeded_already(self):
        self.use(self.left, 5)
        self.limit(self.left, 4)
        answer = self.check_many(self.left, 1, 5, cores=0, servers=1)
        self.assertEqual((0, False), (answer.fitting, answer.fits))
        self.assertEqual([(self.left, "cores", 0)], [
            (each.node_id, each.resource_name, each.asked) for each in answer.exceeded_limits])

    def test_counts_that_make_no_sense(self):
        self.assertRaises(errors.InvalidCounts, self.check_many, self.left, 3, 2, cores=1)

    def test_huge_numbers(self):
        answer = self.check_many(self.left, 1, 2**31 - 1, cores=2**31 - 1)
        self.assertEqual((0, 2**31 - 1), (answer.fitting, answer.held_by[0].asked))
        answer = self.check_many(self.left, 1, 2**31 - 1, ram=2**31 - 1)
        self.assertEqual(2**31 - 1, answer.fitting)


class TestMissingCells(ChecksTestCase):
    """What becomes of a check while a cell is down."""

    from_placement = False

    def setUp(self):
        super().setUp()
        self.use(self.left, 4)
        self.down = self.cell("down")
        for uuid in (factories.new_uuid(), factories.new_uuid()):
            self.put(uuid, self.down, project=self.left, vcpus=3)
            self.map(uuid, self.down, project=self.left)

    def fail(self):
        engines.SHARED.dispose()
        self.down.path.write_bytes(b"no database at all" * 100)

    def asking(self, **options):
        self.parts = self.built(**options)
        self.enforcer = self.parts.quota
        self.ctx = self.context()

    def test_refuse(self):
        self.assertTrue(self.check(self.left, cores=0).fits)
        self.fail()
        error = self.assertRaises(errors.MissingCells, self.check, self.left, cores=1)
        self.assertEqual(["down"], [each.name for each in error.cells])
        self.assertIn("down", str(error))

    def test_allow(self):
        self.asking(quota__on_missing_cell="allow")
        self.assertFalse(self.check(self.left, cores=1).fits)
        self.fail()
        answer = self.check(self.left, cores=1)
        self.assertTrue(answer.fits)
        self.assertEqual(["down"], [each.name for each in answer.count.missing_cells])

    def test_last_known(self):
        self.asking(quota__on_missing_cell="last_known")
        self.assertFalse(self.check(self.left, cores=1).fits)
        self.fail()
        answer = self.check(self.left, cores=1)
        self.assertFalse(answer.fits)
        (missing,) = answer.count.missing_cells
        self.assertIsNotNone(missing.known_since_seconds)
        self.asking(quota__on_missing_cell="last_known")
        self.assertRaises(errors.MissingCells, self.check, self.left, cores=1)

    def test_placement_does_not_need_it(self):
        self.from_placement = True
        self.asking()
        self.fail()
        self.assertTrue(self.check(self.left, cores=6).fits)
        self.assertEqual(3, self.parts.quota.counting.count(
            self.ctx, [self.left], units=[INSTANCES]).projects[self.left][INSTANCES])


@cases.in_every_way
class TestUnmigrated(ChecksTestCase):
    """A project with mappings that were not migrated is counted in its cells."""

    def test_the_same_answers(self):
        for _ in range(3):
            uuid = self.use(self.left, 3)
        self.api(sa.update(tables.instance_mappings).where(
            tables.instance_mappings.c.instance_uuid == uuid).values(user_id=None))
        self.assertEqual([(self.left, "own", 10, 9, 2)], self.excesses(self.left, cores=2))
        self.assertEqual("legacy_cell", self.check(self.left, cores=2).count.source)
