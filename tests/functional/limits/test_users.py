from placement_core.limits import errors, limits, users
from tests import databases
from tests.functional.limits import cases


@databases.on_each_database
class TestUserLimits(cases.LimitsTestCase):

    def setUp(self):
        super().setUp()
        self.register("cores", 10)
        self.register("cores", 20, region_id=None)

    def create(self, *items):
        return users.create_many(self.ctx, self.catalog, items)

    def test_create(self):
        made = self.create(
            self.user_item(self.top, "me", 3, description="mine"),
            self.user_item(self.top, "you", -1), self.user_item(self.child, "me", 0),
            self.user_item(self.top, "me", 5, region_id=None))
        self.assertEqual(made, users.list_(self.ctx))
        for limit in made:
            self.assertEqual(limit, users.get(self.ctx, limit.id))
        self.assertEqual(
            [(self.top, "me", 3, "mine"), (self.top, "you", -1, None)],
            [(each.project_id, each.user_id, each.resource_limit, each.description)
             for each in made[:2]])
        self.assertEqual([], limits.list_(self.ctx))
        self.assertEqual([], self.create())

    def test_refusals(self):
        self.create(self.user_item(self.top, "me", 3))
        before = self.rows()
        for error, items in (
            (errors.DuplicateLimit, [self.user_item(self.top, "me", 4)]),
            (errors.DuplicateLimit, [self.user_item(self.top, "you", 4)] * 2),
            (errors.UnknownLimitReference, [self.user_item("no", "me", 4)]),
            (errors.UnknownLimitReference, [self.user_item(self.domain, "me", 4)]),
            (errors.UnknownLimitReference, [self.user_item(self.top, "me", 4, service_id="no")]),
            (errors.UnknownLimitReference, [self.user_item(self.top, "me", 4, region_id="no")]),
            (errors.NoRegisteredLimit, [self.user_item(self.top, "me", 4, "core")]),
            (errors.NoRegisteredLimit, [self.user_item(self.top, "me", 4, region_id=self.two)]),
            (errors.InvalidLimit, [self.user_item(self.top, "", 4)]),
            (errors.InvalidLimit, [self.user_item(self.top, "x" * 256, 4)]),
            (errors.InvalidLimit, [self.user_item(None, "me", 4)]),
            (errors.InvalidLimit, [self.user_item(self.top, "me", 2**31)]),
        ):
            self.assertRaises(error, self.create, self.user_item(self.other, "me", 1), *items)
        self.assertEqual(before, self.rows())

    def test_ids_that_are_equal_on_one_database(self):
        self.create(self.user_item(self.top, "me", 3))
        if self.kind == "mysql":
            self.assertRaises(
                errors.DuplicateLimit, self.create, self.user_item(self.top, "me ", 3))
        else:
            self.create(self.user_item(self.top, "me ", 3))

    def test_very_many_of_one_call(self):
        """More than a statement of PostgreSQL can have parameters; the last exists already."""
        many = [self.user_item(self.top, f"user-{number}", 1) for number in range(66_000)]
        self.create(many[-1])
        self.assertRaises(errors.DuplicateLimit, self.create, *many)

    def test_update_and_delete(self):
        limit = self.create(self.user_item(self.top, "me", 3, description="x"))[0]
        for changes in ({"resource_limit": 0}, {"resource_limit": -1}, {"description": ""},
                        {"description": None}):
            changed = users.update(self.ctx, limit.id, changes)
            self.assertEqual(changed, users.get(self.ctx, limit.id))
            self.assertEqual([*changes.values()], [getattr(changed, name) for name in changes])
        before = self.rows()
        self.assertEqual(changed, users.update(self.ctx, limit.id, {}))
        self.assertRaises(errors.InvalidLimit, users.update, self.ctx, limit.id,
                          {"resource_limit": 0.5})
        self.assertEqual(before, self.rows())
        users.delete(self.ctx, limit.id)
        for call in (lambda: users.get(self.ctx, limit.id),
                     lambda: users.update(self.ctx, limit.id, {}),
                     lambda: users.delete(self.ctx, limit.id)):
            error = self.assertRaises(errors.UserLimitNotFound, call)
            self.assertEqual("limits.user_limit.not_found", error.code)

    def test_filters(self):
        mine, yours, child = self.create(
            self.user_item(self.top, "me", 3), self.user_item(self.top, "you", 3),
            self.user_item(self.child, "me", 3))
        for filters, found in (
            ({"user_id": "me"}, [mine, child]), ({"project_id": self.top}, [mine, yours]),
            ({"project_id": self.top, "user_id": "you"}, [yours]),
            ({"resource_name": "servers"}, []), ({"service_id": self.compute},
                                                 [mine, yours, child]),
        ):
            self.assertEqual(found, users.list_(self.ctx, cases.equals(**filters)))
        self.assertEqual([yours], users.list_(self.ctx, marker=mine.id, limit=1))
