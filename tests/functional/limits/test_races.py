import functools

from placement_core import amounts, db
from placement_core.catalog import errors as catalog_errors, projects, services
from placement_core.limits import (
    cleanup,
    errors,
    history,
    limits,
    project_moves,
    registered,
    users,
)
from tests import databases, races
from tests.functional.limits import cases, rivals
from tests.functional.placement.races import processes


class RaceTestCase(cases.LimitsTestCase):

    def setUp(self):
        super().setUp()
        # The revision's row makes writers queue; they lose races to nobody.
        self.database.retries = 30


@databases.on_each_database
class TestDuplicates(RaceTestCase):
    """Eight equal POSTs: one is made, seven are told of it (B1)."""

    def all_at_once(self, function, *arguments):
        return races.run(*(
            functools.partial(function, self.context(), *arguments) for _ in range(8)))

    def assert_one(self, outcomes):
        lost = [each for each in outcomes if isinstance(each, Exception)]
        self.assertEqual([errors.DuplicateLimit] * 7, [type(each) for each in lost], lost)

    def test_threads(self):
        for region in (self.one, None):
            self.assert_one(self.all_at_once(registered.create_many, self.catalog, [
                self.registration("servers", region_id=region),
                self.registration("cores", region_id=region)]))
            for model in (cases.FLAT, cases.STRICT):
                self.assert_one(self.all_at_once(limits.create_many, self.catalog, model, [
                    self.item(self.top if model is cases.FLAT else self.child, 5,
                              region_id=region)]))
            self.assert_one(self.all_at_once(users.create_many, self.catalog, [
                self.user_item(self.top, "me", 5, region_id=region)]))
        self.assertEqual((4, 4, 2, 10), self.rows())

    def test_processes(self):
        for kind, item in (
            ("registered_limit", self.registration(region_id=None)),
            ("limit", self.item(self.top, 5, region_id=None)),
            ("user_limit", self.user_item(self.top, "me", 5, region_id=None)),
        ):
            said = processes.run(*(
                processes.Process(rivals.create, self.database, kind=kind, items=[item])
                for _ in range(4)))
            self.assertEqual(["DuplicateLimit"] * 3 + ["created"],
                             sorted(each[0]["outcome"] for each in said))
        self.assertEqual((1, 1, 1, 3), self.rows())

    def test_a_list_that_every_node_registers(self):
        items = [self.registration(f"resource{number}", number) for number in range(5)]
        said = processes.run(*(
            processes.Process(rivals.register, self.database, items=items) for _ in range(3)))
        self.assertEqual([["created"] * 5, ["unchanged"] * 5, ["unchanged"] * 5],
                         sorted(each[0]["states"] for each in said))

    def test_batches_in_opposite_order(self):
        self.register()
        nodes = [self.project(f"p{number}", self.domain) for number in range(6)]
        items = [self.item(node, 1) for node in nodes]

        def play(number):
            ctx = self.context()
            try:
                self.set_many(items if number % 2 else items[::-1], ctx=ctx)
            except errors.DuplicateLimit:
                return "duplicate"
            return "made"

        outcomes = races.run(*(functools.partial(play, number) for number in range(6)))
        self.assertEqual(["duplicate"] * 5 + ["made"], sorted(outcomes, key=str))


@databases.on_each_database
class TestTrees(RaceTestCase):
    """Whatever is written at once, no tree of limits is ever broken."""

    def setUp(self):
        super().setUp()
        self.register("cores", 10)

    def assert_never_broken(self, parents):
        """Follow the history: the tree was whole after each change.

        Changes of one tree hold its revision until they are committed, so they stand
        in the order in which they were.
        """
        values = {}
        for change in reversed(history.list_(self.ctx, kind="limit")):
            node = change.project_id or change.domain_id
            values.pop(node, None)
            if change.new_value is not None:
                values[node] = amounts.from_wire(change.new_value)
            for below, above in parents.items():
                if below in values and above in values:
                    self.assertLessEqual(values[below], values[above], (change, values))

    def test_a_parent_is_lowered_while_a_child_is_raised(self):
        parent, child = self.set_many(
            [self.item(self.domain, 20), self.item(self.top, 10)], model=cases.STRICT)
        for _ in range(15):
            outcomes = races.run(
                functools.partial(self.change, parent, resource_limit=10, model=cases.STRICT,
                                  ctx=self.context()),
                functools.partial(self.change, child, resource_limit=20, model=cases.STRICT,
                                  ctx=self.context()))
            lost = [type(each) for each in outcomes if isinstance(each, Exception)]
            self.assertEqual([errors.HierarchyClash], lost, outcomes)
            self.change(child, resource_limit=10, model=cases.STRICT)
            self.change(parent, resource_limit=20, model=cases.STRICT)
        self.assert_never_broken({self.top: self.domain})

    def test_one_waits_for_the_other(self):
        parent, child = self.set_many(
            [self.item(self.domain, 20), self.item(self.top, 10)], model=cases.STRICT)

        def lower(paused):
            ctx = self.context()
            with db.write(ctx):
                self.change(parent, resource_limit=10, model=cases.STRICT, ctx=ctx)
                paused.here()

        with races.Paused(lower) as paused:
            outcome = paused.against(self.database, functools.partial(
                self.change, child, resource_limit=20, model=cases.STRICT, ctx=self.context()))
        self.assertIsNone(paused.outcome)
        self.assertIsInstance(outcome, errors.HierarchyClash)

    def test_from_processes(self):
        made = self.set_many(
            [self.item(self.domain, 9), self.item(self.top, 5), self.item(self.child, 3)],
            model=cases.STRICT)
        said = processes.run(*(
            processes.Process(rivals.change, self.database, ids=[each.id for each in made],
                              rounds=40, seed=seed)
            for seed in range(3)))
        refused = sum(each[0]["refused"] for each in said)
        self.assertGreater(refused, 5)
        self.assertGreater(len(self.changes(kind="limit")), 20)
        self.assert_never_broken({self.top: self.domain, self.child: self.top})

    def test_a_new_limit_while_the_project_moves(self):
        self.set_limit(self.other, 5, model=cases.TREE)

        def move(paused):
            ctx = self.context()
            with db.write(ctx):
                project_moves.update_project(ctx, cases.TREE, self.child, parent_id=self.other)
                paused.here()

        with races.Paused(move) as paused:
            outcome = paused.against(self.database, functools.partial(
                self.set_limit, self.child, 7, model=cases.TREE, ctx=self.context()))
        self.assertIsNone(paused.outcome)
        self.assertIsInstance(outcome, errors.HierarchyClash)


@databases.on_each_database
class TestOrphans(RaceTestCase):
    """A limit that is made while its subject is deleted goes with it, or is refused."""

    def setUp(self):
        super().setUp()
        self.register("cores", 10)

    def delete_first(self, delete, create):
        def play(paused):
            ctx = self.context()
            with db.write(ctx):
                delete(ctx)
                paused.here()

        with races.Paused(play) as paused:
            outcome = paused.against(self.database, functools.partial(create, self.context()))
        self.assertIsNone(paused.outcome)
        self.assertEqual([], cleanup.audit(self.ctx, self.catalog))
        return outcome

    def create_first(self, create, delete):
        def play(paused):
            ctx = self.context()
            with db.write(ctx):
                create(ctx)
                paused.here()

        with races.Paused(play) as paused:
            outcome = paused.against(self.database, functools.partial(delete, self.context()))
        self.assertEqual((None, None), (paused.outcome, outcome))
        self.assertEqual([], cleanup.audit(self.ctx, self.catalog))

    def create(self, ctx):
        self.set_limit(self.child, 5, ctx=ctx)

    def create_for_user(self, ctx):
        users.create_many(ctx, self.catalog, [self.user_item(self.child, "me", 5)])

    def register_again(self, ctx):
        registered.create_many(ctx, self.catalog, [self.registration("servers")])

    def delete_project(self, ctx):
        cleanup.delete_project(ctx, self.child)

    def delete_service(self, ctx):
        cleanup.delete_service(ctx, self.compute)

    def test_project_first(self):
        for create in (self.create, self.create_for_user):
            outcome = self.delete_first(self.delete_project, create)
            self.assertIsInstance(outcome, errors.UnknownLimitReference)
            self.child = self.project("child", self.domain)

    def test_limit_first(self):
        for create in (self.create, self.create_for_user):
            self.create_first(create, self.delete_project)
            self.child = self.project("child", self.domain)
        self.assertEqual((1, 0, 0), self.rows()[:3])

    def test_service(self):
        self.create_first(self.register_again, self.delete_service)
        self.assertEqual((0, 0, 0), self.rows()[:3])

    def test_service_first(self):
        for create in (self.register_again, self.create):
            outcome = self.delete_first(self.delete_service, create)
            self.assertIsInstance(outcome, errors.UnknownLimitReference)
            services.create(self.ctx, service_type="compute", id=self.compute)

    def test_a_default_changes_while_a_limit_is_made(self):
        limit = registered.list_(self.ctx)[0]

        def create(paused):
            ctx = self.context()
            with db.write(ctx):
                self.create(ctx)
                paused.here()

        with races.Paused(create) as paused:
            outcome = paused.against(self.database, functools.partial(
                registered.update, self.context(), self.catalog, limit.id,
                {"default_limit": 1}))
        self.assertIsInstance(outcome, errors.RegisteredLimitInUse)

    def test_from_processes(self):
        doomed = [self.project(f"p{number}", self.domain) for number in range(12)]
        process = processes.Process(rivals.set_until_gone, self.database,
                                    items=[self.item(node, 1) for node in doomed])
        process.ready()
        process.start()
        ctx = self.context()
        for node in doomed:
            cleanup.delete_project(ctx, node)
            self.assertRaises(catalog_errors.NotInCatalog, projects.get, ctx, node)
        said, = process.finish()
        self.assertEqual(len(doomed), said["UnknownLimitReference"], said)
        self.assertEqual([], limits.list_(self.ctx))
        self.assertEqual([], cleanup.audit(self.ctx, self.catalog))
