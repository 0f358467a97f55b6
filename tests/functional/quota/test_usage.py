import random

from placement_core import amounts
from placement_core.limits import registered
from placement_core.quota import errors, usage
from placement_core.quota.overview import Overviews
from tests import round_trips
from tests.functional.quota import cases, test_checks


class UsageTestCase(test_checks.ChecksTestCase):

    def of(self, project, user=None):
        return usage.get_project_quota(self.ctx, self.enforcer, project, user)

    def shares(self, project, user=None):
        """Return {resource name: (limit, source, used, free, held by)}."""
        found = self.of(project, user)
        return {
            name: (amounts.to_wire(share.limit), share.source, share.used,
                   None if share.free is None else amounts.to_wire(share.free),
                   share.tightest and (share.tightest.user_id or share.tightest.node_id))
            for name, share in (found.resources if user is None else found.of_user).items()}

    def overview(self, visible=None):
        """Return {project: {resource name: the same}}."""
        found = self.parts.overviews.make(self.ctx, visible)
        unknown = [None] * len(found.project_ids)
        rows = {
            name: list(zip(column.limits, column.sources, column.used or unknown,
                           column.free or unknown, column.held_by, strict=True))
            for name, column in found.resources.items()}
        return {project: {name: cells[row] for name, cells in rows.items()}
                for row, project in enumerate(found.project_ids)}


@cases.in_every_way
class TestUsage(UsageTestCase):

    def test_what_is_free_regards_all_that_is_above(self):
        self.limit(self.trunk, 12)
        self.limit(self.domain, 100, "ram")
        self.use(self.left, 3)
        self.use(self.right, 4)
        self.assertEqual({
            "cores": (10, "default", 3, 5, self.trunk),
            "ram": (-1, "default", 10, 80, self.domain),
            "servers": (10, "default", 1, 9, self.left)}, self.shares(self.left))
        self.assertEqual((12, "set", 0, 5, self.trunk), self.shares(self.trunk)["cores"])
        self.assertEqual([(self.left, 10, 3), (self.trunk, 12, 7)], [
            (bound.node_id, bound.limit, bound.used)
            for bound in self.of(self.left).resources["cores"].chain])
        self.assertEqual((10, "default", 0, 10, self.other), self.shares(self.other)["cores"])

    def test_what_is_exceeded_leaves_nothing(self):
        self.use(self.left, 6)
        self.limit(self.left, 5)
        self.assertEqual((5, "set", 6, 0, self.left), self.shares(self.left)["cores"])
        self.assertEqual(6, self.of(self.left).resources["cores"].tightest.used)

    def test_what_nothing_counts_is_not_known(self):
        registered.create_many(self.ctx, self.parts.catalog, [
            {"service_id": self.service, "resource_name": name, "default_limit": 5}
            for name in ("server_key_pairs", "class:VGPU")])
        found = self.shares(self.left)
        self.assertEqual((5, "default", None, None, None), found["server_key_pairs"])
        self.assertEqual((5, "default", 0, 5, self.left) if self.from_placement else
                         (5, "default", None, None, None), found["class:VGPU"])
        self.assertEqual(found, self.overview()[self.left])

    def test_of_a_user(self):
        self.user_limit(self.left, 3)
        self.use(self.left, 2)
        self.use(self.left, 4, user="joe")
        self.assertEqual((3, "set", 2, 1, "jane"), self.shares(self.left, "jane")["cores"])
        self.assertEqual((10, "default", 1, 8, self.left),
                         self.shares(self.left, "jane")["servers"])
        self.assertEqual((10, "default", 4, 4, self.left), self.shares(self.left, "joe")["cores"])
        self.assertEqual((10, "default", 6, 4, self.left), self.shares(self.left)["cores"])
        self.assertEqual((10, "default", 0, 4, self.left), self.shares(self.left, "eve")["cores"])

    def test_projects_that_nobody_knows(self):
        self.assertRaises(errors.ProjectNotFound, self.of, "nobody")
        self.assertRaises(errors.InvalidId, self.of, "half \ud800")
        self.assertRaises(errors.InvalidId, self.of, self.left, "half \ud800")
        self.use("stranger", 4)
        self.assertEqual((10, "default", 4, 6, "stranger"), self.shares("stranger")["cores"])

    def test_one_question_of_each(self):
        self.limit(self.trunk, 12)
        counting = self.noting()
        self.of(self.left)
        self.of(self.left, "jane")
        below = sorted([self.left, self.right, self.trunk])
        self.assertEqual(
            [(below, None), ([self.left], "jane"),
             ([each for each in below if each != self.left], None)], counting.questions)


@cases.in_every_way
class TestOverview(UsageTestCase):

    def test_every_project_as_one_by_one(self):
        chance = random.Random(3)
        nodes = [self.trunk, self.other, self.left, self.right]
        for number in range(8):
            nodes.append(self.project(f"more-{number}", chance.choice(nodes)))
        for node, value in ((self.domain, 40), (self.trunk, 30), (self.left, 7),
                            (nodes[-1], 0)):
            self.limit(node, value)
        self.limit(self.right, 100, "ram")
        self.limit(self.other, -1, "ram")
        self.use("stranger", 1)
        for _ in range(4):
            for _ in range(4):
                self.use(chance.choice([*nodes, "stranger"]), chance.randint(0, 4))
            found = self.overview()
            self.assertEqual(sorted([*nodes, "stranger"]), sorted(found))
            self.assertEqual(
                {project: self.shares(project) for project in found}, found)
            visible = {*chance.sample([*nodes, "stranger"], 3), "nobody"}
            self.assertEqual({project: found[project] for project in visible - {"nobody"}},
                             self.overview(visible))

    def test_changes_are_seen(self):
        self.use(self.left, 4)
        self.assertEqual(6, self.overview()[self.left]["cores"][3])
        self.limit(self.trunk, 5)
        self.assertEqual((10, "default", 4, 1, self.trunk), self.overview()[self.left]["cores"])
        late = self.project("late", self.trunk)
        self.use(late, 1)
        self.use("stranger", 1)
        found = self.overview()
        self.assertEqual((10, "default", 1, 0, self.trunk), found[late]["cores"])
        self.assertEqual((10, "default", 1, 9, "stranger"), found["stranger"]["cores"])

    def test_only_what_may_be_seen_is_counted(self):
        """And what counts against the limits above it, of which something may be left."""
        aside = self.project("aside", self.other)
        for project in (self.left, self.right, self.other, aside, "stranger"):
            self.use(project, 2)
        found = self.overview()
        counting = self.noting()
        overviews = Overviews(self.enforcer)
        for visible, expected in (
                ([self.left], [self.left]),
                ([self.other, aside], [self.other, aside]), ([], []),
                (["stranger"], ["stranger"])):
            overview = overviews.make(self.ctx, visible)
            self.assertEqual(sorted(visible), overview.project_ids)
            self.assertEqual(
                [found[each]["cores"][2] for each in overview.project_ids],
                overview.resources["cores"].used)
            self.assertEqual((sorted(expected), None), counting.questions.pop())
        self.limit(self.trunk, 5)
        overview = overviews.make(self.ctx, [self.left])
        self.assertEqual(([1], [self.trunk]), (
            overview.resources["cores"].free, overview.resources["cores"].held_by))
        self.assertEqual((sorted([self.left, self.right, self.trunk]), None),
                         counting.questions.pop())

    def test_what_is_used_below(self):
        """The usage of all projects below one, and the limits of domains."""
        self.limit(self.domain, 40)
        for project, amount in ((self.trunk, 1), (self.left, 2), (self.right, 3),
                                (self.project("leaf", self.left), 4)):
            self.use(project, amount)
        overview = self.parts.overviews.make(self.ctx)
        below = dict(zip(
            overview.project_ids, overview.resources["cores"].used_below, strict=True))
        self.assertEqual((9, 4, 0), tuple(
            below[project] for project in (self.trunk, self.left, self.right)))
        self.assertEqual("garden", overview.domains[self.domain].name)
        self.assertEqual({"cores": 40}, overview.domains[self.domain].limits)
        self.assertEqual(self.trunk, overview.nodes[self.left].parent_id)

    def test_names(self):
        found = self.parts.overviews.make(self.ctx)
        self.assertEqual("left", found.names[self.left])
        self.assertEqual(sorted(found.project_ids), list(found.project_ids))

    def test_the_number_of_statements_does_not_grow(self):
        self.limit(self.trunk, 12)
        trips = round_trips.RoundTrips(self.parts.database)
        counts = []
        for number in (1, 40):
            for place in range(number):
                self.use(self.project(f"p{number}-{place}", self.trunk), 1)
            self.overview()
            # After a change of usage, and after one of limits.
            self.use(self.left, 0)
            again = trips.of(self.overview)
            self.limit(self.project(f"x{number}"), 3)
            counts.append((again, trips.of(self.overview)))
        few, many = counts
        self.assertEqual(few, many)
        self.assertLessEqual(few[0], 8)
        self.assertLessEqual(few[1], 14)


class TestFlat(UsageTestCase):

    model = "flat"

    def test_as_one_by_one(self):
        self.limit(self.trunk, 2)
        self.limit(self.left, 20)
        self.use(self.left, 7)
        found = self.overview()
        self.assertEqual((20, "set", 7, 13, self.left), found[self.left]["cores"])
        self.assertEqual({project: self.shares(project) for project in found}, found)


class TestOvercommit(UsageTestCase):

    model = "overcommit"

    def test_as_one_by_one(self):
        self.limit(self.trunk, 20)
        self.limit(self.left, 6)
        self.use(self.left, 5)
        self.use(self.project("below", self.left), 1)
        self.use(self.right, 6)
        found = self.overview()
        self.assertEqual((6, "set", 5, 0, self.left), found[self.left]["cores"])
        self.assertEqual({project: self.shares(project) for project in found}, found)


class TestMissingCells(test_checks.TestMissingCells):
    """What is shown while a cell is down."""

    def test_refuse(self):
        self.fail()
        for count in (usage.get_project_quota(self.ctx, self.enforcer, self.left).count,
                      self.parts.overviews.make(self.ctx).count):
            self.assertEqual(["down"], [each.name for each in count.missing_cells])

    test_allow = test_last_known = test_placement_does_not_need_it = None


class TestNoService(UsageTestCase):
    """The catalog has no service of the type: nothing is registered."""

    def test_nothing_to_show(self):
        self.parts = self.built(quota__service_type="volume")
        self.enforcer, self.ctx = self.parts.quota, self.context()
        self.assertEqual({}, self.shares(self.left))
        self.assertEqual({}, self.overview()[self.left])
        self.assertTrue(self.check(self.left, cores=99).fits)
