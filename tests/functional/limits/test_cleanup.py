from placement_core import errors as core_errors
from placement_core.catalog import domains, errors as catalog_errors, projects, regions, services
from placement_core.limits import cleanup, limits, registered, users
from placement_core.plugin_api.catalog import Domain, Project, Region, Service
from placement_core.testing import fakes
from tests import databases
from tests.functional.limits import cases


@databases.on_each_database
class TestDeletions(cases.LimitsTestCase):
    """Nothing is left of the limits of what is deleted, and nothing else goes."""

    def setUp(self):
        super().setUp()
        self.register("cores", 10)
        self.register("cores", 10, region_id=self.two)
        self.register("nets", 10, service_id=self.network, region_id=None)
        for node in (self.domain, self.top, self.child, self.other, self.far_domain, self.far):
            self.set_limit(node, 5)
        self.set_limit(self.top, 6, region_id=self.two)
        self.set_limit(self.child, 7, "nets", service_id=self.network, region_id=None)
        self.set_user_limit(self.child, "me", 1)
        self.set_user_limit(self.top, "me", 1)
        self.set_user_limit(self.far, "me", 1, region_id=self.two)
        self.assertEqual((3, 8, 3, 14), self.rows())

    def told(self):
        return [change for change in self.changes() if change[0] == "deleted"]

    def test_project(self):
        cleanup.delete_project(self.ctx, self.child)
        self.assertEqual((3, 6, 2, 17), self.rows())
        self.assertEqual(
            [("deleted", "limit", "cores", 5, None), ("deleted", "limit", "nets", 7, None),
             ("deleted", "user_limit", "cores", 1, None)], sorted(self.told()))
        self.assertRaises(catalog_errors.NotInCatalog, projects.get, self.ctx, self.child)

    def test_project_with_projects_below_it(self):
        self.assertRaises(catalog_errors.InUse, cleanup.delete_project, self.ctx, self.top)
        self.assertEqual((3, 8, 3, 14), self.rows())

    def test_domain(self):
        self.assertRaises(catalog_errors.StillEnabled, cleanup.delete_domain, self.ctx,
                          self.domain)
        self.assertEqual((3, 8, 3, 14), self.rows())
        domains.update(self.ctx, self.domain, enabled=False)
        cleanup.delete_domain(self.ctx, self.domain)
        self.assertEqual((3, 2, 1, 22), self.rows())
        self.assertEqual({self.far_domain, self.far}, set(self.values()))
        self.assertEqual(8, len(self.told()))
        self.assertRaises(catalog_errors.NotInCatalog, projects.get, self.ctx, self.child)

    def test_service(self):
        cleanup.delete_service(self.ctx, self.compute)
        self.assertEqual((1, 1, 0, 26), self.rows())
        self.assertEqual({self.child: {"nets": 7}}, self.values())
        self.assertEqual(12, len(self.told()))
        self.assertEqual([self.network], [each.id for each in services.list_(self.ctx)])

    def test_region(self):
        cleanup.delete_region(self.ctx, self.two)
        self.assertEqual((2, 7, 2, 17), self.rows())
        self.assertEqual([self.one], [each.id for each in regions.list_(self.ctx)])
        self.assertEqual({"registered_limit", "limit", "user_limit"},
                         {kind for _, kind, *_ in self.told()})

    def test_unknown(self):
        for id_ in ("no", "", "\0", "RegionOne ", "x" * 999):
            for function in (cleanup.delete_project, cleanup.delete_domain,
                             cleanup.delete_service, cleanup.delete_region):
                self.assertRaises(catalog_errors.NotInCatalog, function, self.ctx, id_)
        self.assertEqual((3, 8, 3, 14), self.rows())

    def test_nothing_is_left_for_the_audit(self):
        self.assertEqual([], cleanup.audit(self.ctx, self.catalog))
        cleanup.delete_project(self.ctx, self.child)
        cleanup.delete_service(self.ctx, self.network)
        self.assertEqual([], cleanup.audit(self.ctx, self.catalog))
        self.assertEqual([], cleanup.repair(self.ctx, self.catalog))

    def test_leftovers_of_the_catalog_room(self):
        """What deletes by itself leaves limits, as Keystone does (B12)."""
        projects.delete(self.ctx, self.child)
        regions.delete(self.ctx, self.two)
        services.delete(self.ctx, self.network)
        domains.update(self.ctx, self.far_domain, enabled=False)
        domains.delete(self.ctx, self.far_domain)
        found = cleanup.audit(self.ctx, self.catalog)
        self.assertEqual(
            sorted([("registered_limit", "region"), ("registered_limit", "service"),
                    ("limit", "project"), ("limit", "service"), ("limit", "region"),
                    ("limit", "domain"), ("limit", "project"), ("user_limit", "region"),
                    ("user_limit", "project")]),
            sorted((each.kind, each.missing) for each in found))
        before = self.rows()
        self.assertEqual(found, cleanup.repair(self.ctx, self.catalog))
        self.assertEqual([], cleanup.audit(self.ctx, self.catalog))
        self.assertEqual({self.domain, self.top, self.other}, set(self.values()))
        self.assertEqual((1, 3, 1, before[3] + 9), self.rows())
        self.assertEqual(9, len(self.told()))


@databases.on_each_database
class TestRemoteLeftovers(cases.LimitsTestCase):

    def setUp(self):
        super().setUp()
        self.catalog = self.remote = fakes.MemoryCatalog(
            regions=[Region("RegionOne")], services=[Service("ab" * 16, "compute")],
            domains=[Domain("d", "d")],
            projects=[Project("p", "p", "d", "d"), Project("q", "q", "d", "p")])
        self.compute, self.domain = "ab" * 16, "d"
        self.register("cores", 10)
        self.register("servers", 10, region_id=None)
        for node in ("d", "p", "q"):
            self.set_limit(node, 5)
        self.set_user_limit("q", "me", 1, "servers", region_id=None)

    def test_found_and_deleted(self):
        # A row that was written again may be read last, where no order is asked for.
        (of_domain,) = limits.list_(self.ctx, cases.equals(domain_id="d"))
        self.change(of_domain, description="again")
        self.assertEqual([], cleanup.audit(self.ctx, self.remote))
        self.remote.forget("q")
        self.remote.forget("d")
        found = cleanup.repair(self.ctx, self.remote)
        self.assertEqual(
            [("limit", "domain", "d", "cores"), ("limit", "project", "q", "cores"),
             ("user_limit", "project", "q", "servers")],
            [(each.kind, each.missing, each.missing_id, each.resource_name) for each in found])
        self.assertEqual({"p": {"cores": 5}}, self.values())
        self.remote.forget("RegionOne")
        cleanup.repair(self.ctx, self.remote)
        self.assertEqual(["servers"], [
            each.resource_name for each in registered.list_(self.ctx)])
        self.remote.forget(self.compute)
        cleanup.repair(self.ctx, self.remote)
        self.assertEqual((0, 0, 0, 13), self.rows())

    def test_asked_in_bulk(self):
        self.remote.asked.clear()
        cleanup.audit(self.ctx, self.remote)
        self.assertEqual(["domains", "projects", "regions", "services"],
                         sorted(self.remote.asked))

    def test_a_list_that_was_cut_short(self):
        """Whoever is missing from it is asked for before anything is deleted."""
        self.remote.projects = lambda ctx, **filters: []
        self.remote.domains = lambda ctx, **filters: []
        self.assertEqual([], cleanup.repair(self.ctx, self.remote))
        self.remote.forget("q")
        self.assertEqual(2, len(cleanup.repair(self.ctx, self.remote)))

    def test_an_outage_deletes_nothing(self):
        self.remote.forget("q")
        self.remote.down = True
        before = self.rows()
        for function in (cleanup.audit, cleanup.repair):
            self.assertRaises(core_errors.Unavailable, function, self.ctx, self.remote)
        self.assertEqual(before, self.rows())

    def test_what_was_deleted_meanwhile_is_not_told_twice(self):
        self.remote.forget("q")
        found = cleanup.audit(self.ctx, self.remote)
        for each in users.list_(self.ctx):
            users.delete(self.ctx, each.id)
        for each in limits.list_(self.ctx, cases.equals(project_id="q")):
            self.delete(each)
        before = self.rows()
        cleanup._remove_leftovers(self.ctx, found)
        self.assertEqual(before, self.rows())
