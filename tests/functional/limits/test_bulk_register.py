from placement_core.limits import bulk_register, errors, registered
from tests import databases
from tests.functional.limits import cases


@databases.on_each_database
class TestRegistration(cases.LimitsTestCase):

    def run_(self, *items):
        return [(each.resource_name, each.state, each.old_default, each.new_default)
                for each in bulk_register.register(self.ctx, self.catalog, items)]

    def defaults(self):
        return {each.resource_name: each.default_limit for each in registered.list_(self.ctx)}

    def test_it_can_be_repeated(self):
        items = [self.registration("servers", 10), self.registration("cores", -1)]
        self.assertEqual([("servers", "created", None, 10), ("cores", "created", None, -1)],
                         self.run_(*items))
        before = self.rows()
        self.assertEqual([("servers", "unchanged", 10, 10), ("cores", "unchanged", -1, -1)],
                         self.run_(*items))
        self.assertEqual(before, self.rows())
        self.assertEqual([], self.run_())

    def test_changes(self):
        self.register("servers", 10, description="kept")
        self.register("cores", 20)
        self.register("ram", 30)
        self.assertEqual(
            [("servers", "changed", 10, 11), ("class:VCPU", "created", None, 5),
             ("cores", "unchanged", 20, 20)],
            self.run_(self.registration("servers", 11), self.registration("class:VCPU", 5),
                      self.registration("cores", 20)))
        self.assertEqual({"servers": 11, "cores": 20, "ram": 30, "class:VCPU": 5},
                         self.defaults())
        servers, = registered.list_(self.ctx, cases.equals(resource_name="servers"))
        self.assertEqual("kept", servers.description)
        self.assertEqual([("servers", "changed", 11, 11)],
                         self.run_(self.registration("servers", 11, description="new")))
        self.assertEqual(("updated", "registered_limit", "servers", 11, 11), self.changes()[-1])

    def test_all_or_nothing(self):
        self.register("servers", 10)
        self.register("cores", 20)
        self.register("ram", 30)
        self.set_limit(self.top, 5)
        before = self.rows()
        found = bulk_register.register(self.ctx, self.catalog, [
            self.registration("servers", 11), self.registration("cores", 21),
            self.registration("ram", 30), self.registration("disk", 1)])
        self.assertEqual(["skipped", "refused", "unchanged", "skipped"],
                         [each.state for each in found])
        self.assertIn("limits refer to it", found[1].reason)
        self.assertEqual({"servers": 10, "cores": 20, "ram": 30}, self.defaults())
        self.assertEqual(before, self.rows())
        # Unchanged defaults may be referred to.
        self.assertEqual(["changed", "unchanged"], [state for _, state, *_ in self.run_(
            self.registration("servers", 11), self.registration("cores", 20))])

    def test_refusals(self):
        for error, items in (
            (errors.DuplicateLimit, [self.registration(), self.registration("cores", 3)]),
            (errors.UnknownLimitReference, [self.registration(service_id="no")]),
            (errors.UnknownLimitReference, [self.registration(region_id="no")]),
            (errors.InvalidLimit, [self.registration("cores", "many")]),
        ):
            self.assertRaises(error, self.run_, self.registration("servers"), *items)
        self.assertEqual({}, self.defaults())
