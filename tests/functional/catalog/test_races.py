"""Two real transactions that want what only one of them can have."""

import functools

from placement_core import db
from placement_core.catalog import domains, endpoints, errors, projects, regions, services, tree
from tests import base, databases, races


@databases.on_each_database
class TestRaces(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        for id_ in ("one", "two"):
            domains.create(self.ctx, name=id_, id=id_)

    def after(self, first, second):
        """Let ``second`` come while the transaction of ``first`` is open; return its outcome."""
        def play(paused):
            ctx = self.context()
            with db.write(ctx):
                first(ctx)
                paused.here()

        with races.Paused(play) as paused:
            outcome = paused.against(
                self.database, functools.partial(second, self.context()))
        self.assertIsNone(paused.outcome)
        return outcome

    def check_the_tree(self):
        """Every project has a parent, and is as deep as the walk to its domain."""
        parents = {each.id: each.parent_id for each in projects.list_(self.ctx)}
        known = {*parents, *(each.id for each in domains.list_(self.ctx))}
        self.assertLessEqual(set(parents.values()), known)
        with db.read(self.ctx) as session:
            for node in known:
                above = [node]
                while above[0] in parents:
                    above.insert(0, parents[above[0]])
                self.assertEqual(above, [each.id for each in tree.lineage(session, node)])

    def test_the_same_name(self):
        outcome = self.after(
            functools.partial(projects.create, name="p", domain_id="one"),
            functools.partial(projects.create, name="p", domain_id="one"))
        self.assertIsInstance(outcome, errors.Duplicate)
        self.assertEqual(1, len(projects.list_(self.ctx, name="p")))

    def test_the_same_name_eight_times(self):
        outcomes = races.run(*[
            functools.partial(projects.create, self.context(), name="p", domain_id="one")
            for _ in range(8)])
        refused = [each for each in outcomes if isinstance(each, errors.Duplicate)]
        self.assertEqual(7, len(refused), outcomes)
        made = projects.list_(self.ctx, name="p")
        self.assertEqual([each for each in outcomes if each not in refused], made)
        self.check_the_tree()

    def test_a_domain_and_a_project_with_one_id(self):
        outcome = self.after(
            functools.partial(projects.create, name="p", domain_id="one", id="same"),
            functools.partial(domains.create, name="d", id="same"))
        self.assertIsInstance(outcome, errors.Duplicate)
        outcome = self.after(
            functools.partial(domains.create, name="d", id="other"),
            functools.partial(projects.create, name="q", domain_id="one", id="other"))
        self.assertIsInstance(outcome, errors.Duplicate)
        self.check_the_tree()

    def test_a_child_of_a_project_that_goes(self):
        projects.create(self.ctx, name="p", domain_id="one", id="p")
        outcome = self.after(
            functools.partial(projects.delete, id_="p"),
            functools.partial(projects.create, name="q", domain_id="one", parent_id="p"))
        self.assertIsInstance(outcome, errors.UnknownReference)
        self.check_the_tree()

    def test_a_project_that_gets_a_child_as_it_goes(self):
        projects.create(self.ctx, name="p", domain_id="one", id="p")
        outcome = self.after(
            functools.partial(projects.create, name="q", domain_id="one", parent_id="p"),
            functools.partial(projects.delete, id_="p"))
        self.assertIsInstance(outcome, errors.InUse)
        self.check_the_tree()

    def test_a_project_in_a_domain_that_goes(self):
        domains.update(self.ctx, "one", enabled=False)
        outcome = self.after(
            functools.partial(domains.delete, id_="one"),
            functools.partial(projects.create, name="q", domain_id="one"))
        self.assertIsInstance(outcome, errors.UnknownReference)
        self.check_the_tree()

    def test_two_that_move_below_each_other(self):
        for id_ in ("p", "q"):
            projects.create(self.ctx, name=id_, domain_id="one", id=id_)
        outcome = self.after(
            functools.partial(projects.update, id_="p", parent_id="q"),
            functools.partial(projects.update, id_="q", parent_id="p"))
        self.assertIsInstance(outcome, errors.Misplaced)
        self.check_the_tree()

    def test_a_move_below_what_just_got_deeper(self):
        """The bound on depth holds for the tree as it is at the commit."""
        for id_ in ("p", "q", "r"):
            projects.create(self.ctx, name=id_, domain_id="one", id=id_)
        outcome = self.after(
            functools.partial(projects.update, id_="q", parent_id="r", max_depth=3),
            functools.partial(projects.update, id_="p", parent_id="q", max_depth=3))
        self.assertIsInstance(outcome, errors.TooDeep)
        self.check_the_tree()

    def test_an_endpoint_of_a_service_or_region_that_goes(self):
        regions.create(self.ctx, id="r")
        for gone in (functools.partial(services.delete, id_="s"),
                     functools.partial(regions.delete, id_="r")):
            if not services.list_(self.ctx):
                services.create(self.ctx, service_type="t", id="s")
            outcome = self.after(gone, functools.partial(
                endpoints.create, service_id="s", region_id="r", interface="public", url="u"))
            self.assertIsInstance(outcome, errors.UnknownReference)
        self.assertEqual([], endpoints.list_(self.ctx))
