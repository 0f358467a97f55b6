from oslo_config import cfg

from placement_core import errors as core_errors
from placement_core.catalog import projects
from placement_core.limits import errors, limits, project_moves
from placement_core.plugin_api.catalog import Domain, Project, Region, Service
from placement_core.testing import fakes
from placement_plugins.enforcement.overcommit import Overcommit
from tests import databases
from tests.functional.limits import cases


@databases.on_each_database
class TestHierarchy(cases.LimitsTestCase):
    """Trees of limits stay whole, whatever is written."""

    def setUp(self):
        super().setUp()
        self.register("cores", 10)
        self.register("servers", 10)

    def refused(self, function, *arguments, **options):
        before = self.rows()
        error = self.assertRaises(errors.HierarchyClash, function, *arguments, **options)
        self.assertEqual(("limits.hierarchy", "cores"), (error.code, error.resource_name))
        self.assertEqual(before, self.rows())
        return error

    def test_a_refusal_says_why(self):
        self.set_limit(self.domain, 5, model=cases.STRICT)
        error = self.refused(self.set_limit, self.top, 7, model=cases.STRICT)
        self.assertEqual((self.top, 7, self.domain, 5, self.compute, self.one), (
            error.node_id, error.value, error.other_id, error.other_value, error.service_id,
            error.region_id))
        for text in (self.top, self.domain, "7", "5", "cores",
                     "doesn't satisfy current hierarchy model"):
            self.assertIn(text, str(error))

    def test_above_the_default(self):
        error = self.refused(self.set_limit, self.top, 11, model=cases.STRICT)
        self.assertEqual((self.top, 11, None, 10), (
            error.node_id, error.value, error.other_id, error.other_value))
        self.set_limit(self.domain, 20, model=cases.STRICT)
        self.set_limit(self.top, 11, model=cases.STRICT)
        self.assertEqual({self.domain: {"cores": 20}, self.top: {"cores": 11}}, self.values())

    def test_the_parent_project_counts(self):
        """B7: 8 under 5."""
        self.set_limit(self.top, 5, model=cases.STRICT)
        error = self.refused(self.set_limit, self.child, 8, model=cases.STRICT)
        self.assertEqual((self.child, self.top), (error.node_id, error.other_id))
        self.set_limit(self.child, 5, model=cases.STRICT)

    def test_zero_and_unlimited(self):
        """B4, B5, B6."""
        limit = self.set_limit(self.domain, 0, model=cases.STRICT)
        self.refused(self.set_limit, self.top, 7, model=cases.STRICT)
        self.change(limit, resource_limit=-1, model=cases.STRICT)
        made = self.set_limit(self.top, 7, model=cases.STRICT)
        self.change(made, resource_limit=-1, model=cases.STRICT)
        self.refused(self.change, limit, resource_limit=10, model=cases.STRICT)
        self.change(made, resource_limit=10, model=cases.STRICT)
        self.change(limit, resource_limit=10, model=cases.STRICT)
        self.refused(self.change, made, resource_limit=-1, model=cases.STRICT)

    def test_a_batch_is_judged_whole(self):
        items = [self.item(self.child, 15), self.item(self.top, 20), self.item(self.domain, 30),
                 self.item(self.other, 30), self.item(self.far, 10),
                 self.item(self.top, 1, "servers")]
        for order in (items, items[::-1]):
            made = self.set_many(order, model=cases.STRICT)
            self.assertEqual([each["resource_limit"] for each in order],
                             [each.resource_limit for each in made])
            for limit in reversed(made) if order is items else made:
                limits.delete(self.ctx, self.catalog, cases.FLAT, limit.id)
        self.refused(self.set_many, [*items[:3], self.item(self.other, 31)], model=cases.STRICT)
        self.assertEqual({}, self.values())

    def test_a_new_limit_between_two(self):
        self.set_many([self.item(self.domain, 20), self.item(self.child, 15)],
                      model=cases.STRICT)
        error = self.refused(self.set_limit, self.top, 12, model=cases.STRICT)
        self.assertEqual({self.top, self.child}, {error.node_id, error.other_id})
        self.set_limit(self.top, 15, model=cases.STRICT)

    def test_order_of_updates(self):
        parent, child = self.set_many(
            [self.item(self.domain, 20), self.item(self.top, 20)], model=cases.STRICT)
        error = self.refused(self.change, parent, resource_limit=19, model=cases.STRICT)
        self.assertEqual({self.domain, self.top}, {error.node_id, error.other_id})
        self.refused(self.change, child, resource_limit=21, model=cases.STRICT)
        self.change(child, resource_limit=19, model=cases.STRICT)
        self.change(parent, resource_limit=19, model=cases.STRICT)
        self.change(parent, resource_limit=40, model=cases.STRICT)
        self.change(child, resource_limit=40, model=cases.STRICT)

    def test_delete(self):
        """What stands on a limit keeps it there."""
        parent, child = self.set_many(
            [self.item(self.domain, 20), self.item(self.top, 15)], model=cases.STRICT)
        error = self.refused(self.delete, parent, model=cases.STRICT)
        self.assertIn(self.top, (error.node_id, error.other_id))
        self.change(child, resource_limit=10, model=cases.STRICT)
        self.delete(parent, model=cases.STRICT)
        self.delete(child, model=cases.STRICT)

    def test_children_together(self):
        """Their sum may be more than the parent's; with overcommit that has a bound."""
        self.set_many([self.item(self.domain, 10), self.item(self.top, 9),
                       self.item(self.other, 9)], model=cases.STRICT)
        conf = cfg.ConfigOpts()
        model = Overcommit(conf)
        third = self.project("third", self.domain)
        conf.set_override("factor", 2.0, "overcommit")
        model = Overcommit(conf)
        self.refused(self.set_limit, third, 3, model=model)
        self.set_limit(third, 2, model=model)

    def test_other_trees_and_resources_do_not_matter(self):
        self.set_limit(self.domain, 5, model=cases.STRICT)
        self.register("cores", 10, region_id=self.two)
        self.set_limit(self.far, 10, model=cases.STRICT)
        self.set_limit(self.top, 10, "servers", model=cases.STRICT)
        self.set_limit(self.top, 10, region_id=self.two, model=cases.STRICT)

    def test_flat_does_not_ask(self):
        self.set_limit(self.domain, 5)
        limit = self.set_limit(self.top, 7)
        self.change(limit, resource_limit=-1)
        # The model changes; what was broken already can be mended, and left alone.
        self.set_limit(self.other, 5, model=cases.STRICT)
        self.change(limit, description="x", model=cases.STRICT)
        self.refused(self.change, limit, resource_limit=6, model=cases.STRICT)
        self.change(limit, resource_limit=5, model=cases.STRICT)

    def test_deep_trees(self):
        above, chain = self.child, []
        for number in range(5):
            above = self.project(f"deep{number}", self.domain, parent_id=above)
            chain.append(above)
        self.set_limit(self.domain, 50, model=cases.TREE)
        self.set_limit(chain[4], 50, model=cases.TREE)
        self.refused(self.set_limit, chain[1], 49, model=cases.TREE)
        self.set_limit(chain[1], 50, model=cases.TREE)
        error = self.refused(self.set_limit, chain[3], 49, model=cases.TREE)
        self.assertEqual({chain[3], chain[4]}, {error.node_id, error.other_id})

    def test_lowering_below_usage_is_no_matter(self):
        """L4: nobody is asked for usage."""
        limit = self.set_limit(self.top, 10, model=cases.STRICT)
        self.change(limit, resource_limit=0, model=cases.STRICT)


@databases.on_each_database
class TestMoves(cases.LimitsTestCase):

    def setUp(self):
        super().setUp()
        self.register("cores", 10)
        self.register("servers", 10)
        self.set_many([self.item(self.other, 5), self.item(self.child, 7),
                       self.item(self.child, 1, "servers"), self.item(self.other, 1, "servers")],
                      model=cases.TREE)

    def move(self, id_, parent_id, model=cases.TREE, **changes):
        return project_moves.update_project(self.ctx, model, id_, parent_id=parent_id, **changes)

    def test_a_project_that_does_not_fit_stays(self):
        for moved in (self.child, self.top):
            error = self.assertRaises(errors.HierarchyClash, self.move, moved, self.other)
            self.assertEqual(("cores", {self.child, self.other}), (
                error.resource_name, {error.node_id, error.other_id}))
        self.assertEqual(self.top, projects.get(self.ctx, self.child).parent_id)
        self.assertEqual(self.domain, projects.get(self.ctx, self.top).parent_id)

    def test_a_project_that_fits_moves(self):
        for limit in limits.list_(self.ctx, cases.equals(project_id=self.child)):
            self.change(limit, resource_limit=1)
        self.assertEqual(self.other, self.move(self.child, self.other).parent_id)
        self.assertEqual((self.domain, "new"), (
            (moved := self.move(self.child, self.domain, name="new")).parent_id, moved.name))

    def test_flat_lets_everything_move(self):
        self.assertEqual(self.other, self.move(self.child, self.other, cases.FLAT).parent_id)

    def test_other_changes(self):
        changed = project_moves.update_project(self.ctx, cases.TREE, self.child, description="x")
        self.assertEqual("x", changed.description)


class TestRemoteCatalog(cases.LimitsTestCase):
    """A catalog that is not ours is asked before the transaction."""

    def setUp(self):
        super().setUp()
        self.remote = fakes.MemoryCatalog(
            regions=[Region("far-region")], services=[Service("ab" * 16, "volume")],
            domains=[Domain("d", "d")],
            projects=[Project("p", "p", "d", "d"), Project("q", "q", "d", "p")])
        ask = self.remote._answer

        def outside(method):
            self.assertIsNone(self.ctx.session)
            ask(method)

        self.remote._answer = outside
        self.local, self.catalog = self.catalog, self.remote
        self.compute, self.one, self.domain = "ab" * 16, "far-region", "d"
        self.register("cores", 10)

    def test_writes(self):
        parent, child = self.set_many(
            [self.item("d", 20), self.item("q", 15)], model=cases.STRICT)
        self.assertRaises(errors.HierarchyClash, self.set_limit, "p", 14, model=cases.STRICT)
        self.assertRaises(errors.HierarchyClash, self.change, parent, resource_limit=1,
                          model=cases.STRICT)
        self.assertRaises(errors.HierarchyClash, self.delete, parent, model=cases.STRICT)
        self.change(child, resource_limit=3, model=cases.STRICT)
        self.set_user_limit("p", "me", 3)
        self.assertRaises(errors.UnknownLimitReference, self.set_limit, "no", 1)
        self.assertRaises(errors.UnknownLimitReference, self.set_user_limit, "d", "me", 1)
        self.assertEqual({"d": {"cores": 20}, "q": {"cores": 3}}, self.values())

    def test_two_questions_for_a_tree(self):
        self.set_many([self.item("d", 20), self.item("q", 15), self.item("p", 15)],
                      model=cases.STRICT)
        self.assertEqual((1, 1), (self.remote.asked.count("lineage"),
                                  self.remote.asked.count("subtree")))

    def test_an_outage_is_no_answer(self):
        limit = self.set_limit("p", 5)
        self.remote.down = True
        before = self.rows()
        for call in (lambda: self.set_limit("q", 5), lambda: self.register("servers"),
                     lambda: self.change(limit, resource_limit=6, model=cases.STRICT)):
            self.assertRaises(core_errors.Unavailable, call)
        self.assertEqual(before, self.rows())
        # Nobody has to be asked for these.
        self.change(limit, resource_limit=6)
        self.delete(limit)
