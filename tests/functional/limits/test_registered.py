from placement_core.limits import errors, limits, registered, users
from tests import databases
from tests.functional.limits import cases


@databases.on_each_database
class TestRegisteredLimits(cases.LimitsTestCase):

    def create(self, *items):
        return registered.create_many(self.ctx, self.catalog, items)

    def test_create(self):
        made = self.create(
            self.registration("servers", 10, description="instances"),
            self.registration("cores", -1), self.registration("cores", 0, region_id=None),
            self.registration("cores", 7, region_id=self.two),
            self.registration("cores", 7, service_id=self.network),
            self.registration("Cores", 2**31 - 1))
        self.assertEqual(made, registered.list_(self.ctx))
        for limit in made:
            self.assertEqual(limit, registered.get(self.ctx, limit.id))
            self.assertRegex(limit.id, "^[0-9a-f]{32}$")
        self.assertEqual([10, -1, 0, 7, 7, 2**31 - 1], [each.default_limit for each in made])
        self.assertEqual(["RegionOne", None], [made[0].region_id, made[2].region_id])
        self.assertEqual(["instances", None], [made[0].description, made[1].description])
        self.assertEqual([], self.create())

    def test_duplicates(self):
        for region in (self.one, None):
            self.create(self.registration(region_id=region))
            for items in (
                [self.registration(region_id=region)],
                [self.registration("servers", region_id=region),
                 self.registration(region_id=region, default=3)],
                [self.registration("ram", 1, region_id=region),
                 self.registration("ram", 2, region_id=region)],
            ):
                error = self.assertRaises(errors.DuplicateLimit, self.create, *items)
                self.assertEqual(("limits.duplicate", "registered_limit"),
                                 (error.code, error.kind))
        self.assertEqual((2, 0, 0, 2), self.rows())

    def test_unknown_references(self):
        self.create(self.registration())
        for what, changes in (("service", {"service_id": "no"}), ("region", {"region_id": "no"}),
                              ("region", {"region_id": "regionone"})):
            # A duplicate, too: what does not exist comes first.
            error = self.assertRaises(
                errors.UnknownLimitReference, self.create,
                self.registration(), self.registration("servers", **changes))
            self.assertEqual((what, next(iter(changes.values()))), (error.what, error.id))
        self.assertEqual((1, 0, 0, 1), self.rows())

    def test_invalid(self):
        self.assertRaises(errors.InvalidLimit, self.create,
                          self.registration(), self.registration("servers", 2**31))
        self.assertEqual((0, 0, 0, 0), self.rows())

    def test_unknown_ids(self):
        self.create(self.registration())
        for id_ in ("no", "", "\0", "\ud800", "x" * 9999):
            for function, arguments in (
                    (registered.get, ()), (registered.delete, ()),
                    (lambda ctx, id_: registered.update(ctx, self.catalog, id_, {}), ())):
                error = self.assertRaises(
                    errors.RegisteredLimitNotFound, function, self.ctx, id_, *arguments)
                self.assertEqual("limits.registered_limit.not_found", error.code)

    def update(self, limit, **changes):
        return registered.update(self.ctx, self.catalog, limit.id, changes)

    def test_update(self):
        limit = self.register(description="said")
        for changes in ({"default_limit": 0}, {"default_limit": -1}, {"description": ""},
                        {"description": None}, {"resource_name": "vcpus"},
                        {"region_id": None}, {"region_id": self.two},
                        {"service_id": self.network, "resource_name": "nets",
                         "default_limit": 3, "description": "said"}):
            changed = self.update(limit, **changes)
            for field, value in changes.items():
                self.assertEqual(value, getattr(changed, field))
            self.assertEqual(changed, registered.get(self.ctx, limit.id))
        self.assertEqual(changed, self.update(limit))
        self.assertEqual(8, len(self.changes(limit_id=limit.id)) - 1)

    def test_update_refused(self):
        limit, rival = self.register("cores"), self.register("servers")
        self.assertRaises(errors.DuplicateLimit, self.update, limit, resource_name="servers")
        self.assertRaises(errors.UnknownLimitReference, self.update, limit, service_id="no")
        self.assertRaises(errors.UnknownLimitReference, self.update, limit, region_id="no")
        for changes in ({"default_limit": 5.5}, {"default_limit": None}, {"service_id": None},
                        {"resource_name": " "}, {"description": 5}):
            self.assertRaises(errors.InvalidLimit, self.update, limit, **changes)
        self.assertEqual([limit, rival], registered.list_(self.ctx))
        self.assertEqual(2, self.rows()[3])

    def test_in_use(self):
        for use in (lambda: self.set_limit(self.top, 5), lambda: self.set_limit(self.domain, 5),
                    lambda: self.set_user_limit(self.top, "me", 5)):
            limit, unused = self.register("cores"), self.register("servers")
            use()
            for changes in ({"default_limit": 11}, {"description": "x"}, {"region_id": None},
                            {"resource_name": "vcpus"}, {"service_id": self.network}):
                error = self.assertRaises(
                    errors.RegisteredLimitInUse, self.update, limit, **changes)
                self.assertEqual(("limits.registered_limit.in_use", limit.id),
                                 (error.code, error.id))
            self.assertEqual(limit, self.update(limit, default_limit=10))
            self.assertRaises(
                errors.RegisteredLimitInUse, registered.delete, self.ctx, limit.id)
            registered.delete(self.ctx, unused.id)
            self.assertEqual([limit], registered.list_(self.ctx))
            self.delete_everything()

    def delete_everything(self):
        for each in limits.list_(self.ctx):
            self.delete(each)
        for each in users.list_(self.ctx):
            users.delete(self.ctx, each.id)
        for each in registered.list_(self.ctx):
            registered.delete(self.ctx, each.id)

    def test_delete(self):
        limit = self.register()
        registered.delete(self.ctx, limit.id)
        self.assertRaises(errors.RegisteredLimitNotFound, registered.delete, self.ctx, limit.id)
        self.assertEqual([], registered.list_(self.ctx))
        self.assertNotEqual(limit.id, self.register().id)

