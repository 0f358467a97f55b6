from placement_core.limits import errors, limits, registered
from tests import databases
from tests.functional.limits import cases


@databases.on_each_database
class TestLimits(cases.LimitsTestCase):

    def setUp(self):
        super().setUp()
        self.register("cores", 10)
        self.register("servers", 5)
        self.register("cores", 20, region_id=None)

    def test_create(self):
        made = self.set_many([
            self.item(self.child, 7), self.item(self.domain, -1, description="all of it"),
            self.item(self.top, 0, "servers"), self.item(self.top, 2**31 - 1, region_id=None)])
        self.assertEqual(made, limits.list_(self.ctx))
        for limit in made:
            self.assertEqual(limit, limits.get(self.ctx, limit.id))
            self.assertRegex(limit.id, "^[0-9a-f]{32}$")
        self.assertEqual([7, -1, 0, 2**31 - 1], [each.resource_limit for each in made])
        self.assertEqual([(self.child, None), (None, self.domain), (self.top, None)],
                         [(each.project_id, each.domain_id) for each in made[:3]])
        self.assertEqual((self.compute, None, "cores"),
                         (made[3].service_id, made[3].region_id, made[3].resource_name))
        self.assertEqual([None, "all of it"], [each.description for each in made[:2]])
        self.assertEqual([], self.set_many([]))

    def test_a_project_id_that_names_a_domain(self):
        made = self.set_many([{**self.item(self.top, 7), "project_id": self.domain}])[0]
        self.assertEqual((None, self.domain), (made.project_id, made.domain_id))
        self.assertEqual(made, limits.get(self.ctx, made.id))
        # A domain's limit it is, under either name.
        self.assertRaises(errors.DuplicateLimit, self.set_limit, self.domain, 3)

    def test_duplicates(self):
        self.set_limit(self.top, 7)
        self.set_limit(self.top, 7, region_id=None)
        before = self.rows()
        for items in (
            [self.item(self.top, 7)], [self.item(self.top, 1, region_id=None)],
            [self.item(self.child, 1), self.item(self.top, 1)],
            [self.item(self.child, 1), self.item(self.child, 2)],
            [self.item(self.domain, 1), {**self.item(self.top, 1), "project_id": self.domain}],
        ):
            error = self.assertRaises(errors.DuplicateLimit, self.set_many, items)
            self.assertEqual(("limits.duplicate", "limit"), (error.code, error.kind))
        self.assertEqual(before, self.rows())

    def test_unknown_references(self):
        self.set_limit(self.top, 7)
        for what, id_, item in (
            ("service", "no", self.item(self.other, 1, service_id="no")),
            ("region", "no", self.item(self.other, 1, region_id="no")),
            ("project", "no", {**self.item(self.other, 1), "project_id": "no"}),
            ("domain", "no", {**self.item(self.domain, 1), "domain_id": "no"}),
            ("domain", self.top, {**self.item(self.domain, 1), "domain_id": self.top}),
        ):
            # A duplicate, too: what does not exist comes first.
            error = self.assertRaises(
                errors.UnknownLimitReference, self.set_many, [self.item(self.top, 7), item])
            self.assertEqual((what, id_, "limits.unknown_reference"),
                             (error.what, error.id, error.code))
        self.assertEqual({self.top: {"cores": 7}}, self.values())

    def test_not_registered(self):
        """The seed's disc for disk, and its like."""
        for changes in ({"name": "core"}, {"name": "Cores"}, {"name": "cores "},
                        {"region_id": self.two}, {"service_id": self.network},
                        {"name": "servers", "region_id": None}):
            error = self.assertRaises(
                errors.NoRegisteredLimit, self.set_many,
                [self.item(self.top, 7), self.item(self.child, 1, **changes)])
            self.assertEqual("limits.not_registered", error.code)
            self.assertIn("Unable to create a limit that has no corresponding registered limit",
                          str(error))
        self.assertEqual({}, self.values())

    def test_invalid(self):
        item = self.item(self.top, 7)
        for changes in ({"project_id": None}, {"domain_id": self.domain},
                        {"resource_limit": 2**31}, {"resource_limit": "7"},
                        {"resource_limit": None}, {"service_id": None}, {"region_id": ""},
                        {"resource_name": " "}, {"description": 7}):
            for model in (cases.FLAT, cases.STRICT):
                self.assertRaises(errors.InvalidLimit, self.set_many,
                                  [self.item(self.child, 7), {**item, **changes}], model=model)
        self.assertEqual({}, self.values())

    def test_unknown_ids(self):
        for id_ in ("no", "", "\0", "\ud800", "x" * 9999):
            for model in (cases.FLAT, cases.STRICT):
                for call in (
                        lambda: limits.get(self.ctx, id_),
                        lambda: limits.update(self.ctx, self.catalog, model, id_, {}),
                        lambda: limits.delete(self.ctx, self.catalog, model, id_)):
                    error = self.assertRaises(errors.LimitNotFound, call)
                    self.assertEqual("limits.limit.not_found", error.code)

    def test_update(self):
        limit = self.set_limit(self.top, 7, description="said")
        for changes in ({"resource_limit": 0}, {"resource_limit": -1}, {"description": ""},
                        {"description": None}, {"resource_limit": 8.0, "description": "x"}):
            changed = self.change(limit, **changes)
            for field, value in changes.items():
                self.assertEqual(value, getattr(changed, field))
            self.assertEqual(changed, limits.get(self.ctx, limit.id))
        before = self.rows()
        self.assertEqual(changed, self.change(limit))
        self.assertEqual(changed, self.change(limit, resource_limit=8, description="x"))
        for changes in ({"resource_limit": -2}, {"resource_limit": None}, {"description": 7}):
            self.assertRaises(errors.InvalidLimit, self.change, limit, **changes)
        self.assertEqual(changed, limits.get(self.ctx, limit.id))
        self.assertEqual(before, self.rows())

    def test_delete(self):
        limit, other = self.set_limit(self.top, 7), self.set_limit(self.child, 7)
        self.delete(limit)
        self.assertRaises(errors.LimitNotFound, self.delete, limit)
        self.assertEqual([other], limits.list_(self.ctx))
        self.delete(other)
        registered.delete(self.ctx, registered.list_(self.ctx)[0].id)
