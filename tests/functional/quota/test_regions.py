"""Whose limits count where ``[quota] region`` is empty, and what nobody is held to."""

from __future__ import annotations

import fixtures

from placement_core.catalog import regions, services as catalog_services
from placement_core.limits import limits, registered, users
from placement_core.quota import errors
from tests import databases
from tests.functional.quota import cases, project_trees


class _Places:
    """Limits of the service ``self.service`` in some region."""

    def register_in(self, region, service=None, **defaults):
        catalog = self.catalog if hasattr(self, "catalog") else self.parts.catalog
        registered.create_many(self.ctx, catalog, [
            {"service_id": service or self.service, "region_id": region,
             "resource_name": project_trees._name(name), "default_limit": default}
            for name, default in defaults.items()])

    def region(self, id_):
        regions.create(self.ctx, id=id_)
        return id_


@databases.on_each_database
class TestGuard(_Places, project_trees.TreeTestCase):
    """Guarded claims; ``[quota] region`` is empty."""

    def refused(self, held, project=None):
        refusal = self.assertRaises(
            errors.QuotaExceeded, self.take, project or self.left, held)
        return [(each.resource_name, each.limit) for each in refusal.exceeded_limits]

    def test_the_only_region_is_meant(self):
        self.register_in(self.region("RegionOne"), VCPU=10)
        self.assertEqual([("class:VCPU", 10)], self.refused({"VCPU": 11}))
        self.take(self.left, {"VCPU": 10})

    def test_what_was_set_there_binds_too(self):
        self.register_in(self.region("RegionOne"), VCPU=10)
        limits.create_many(self.ctx, self.catalog, self.decisions.model, [
            {"project_id": self.trunk, "service_id": self.service, "region_id": "RegionOne",
             "resource_name": "class:VCPU", "resource_limit": 5}])
        self.assertEqual([("class:VCPU", 5)], self.refused({"VCPU": 6}))

    def test_limits_without_a_region_bind_beside_those_of_the_only_one(self):
        self.register(PCPU=3)
        self.register_in(self.region("RegionOne"), VCPU=10)
        self.assertEqual([("class:PCPU", 3)], self.refused({"VCPU": 1, "PCPU": 4}))
        self.assertEqual([("class:VCPU", 10)], self.refused({"VCPU": 11, "PCPU": 1}))

    def test_the_region_wins_where_both_are_registered(self):
        self.register(VCPU=3)
        self.limit(self.trunk, VCPU=2)
        self.limit_user(self.left, "jane", VCPU=1)
        self.register_in(self.region("RegionOne"), VCPU=10)
        self.take(self.left, {"VCPU": 10}, user="jane")
        self.assertEqual([("class:VCPU", 10)], self.refused({"VCPU": 1}))

    def test_a_limit_of_a_user_binds_in_either(self):
        self.register(PCPU=100)
        self.limit_user(self.left, "jane", PCPU=1)
        self.register_in(self.region("RegionOne"), VCPU=100)
        users.create_many(self.ctx, self.catalog, [
            {"project_id": self.left, "user_id": "jane", "service_id": self.service,
             "region_id": "RegionOne", "resource_name": "class:VCPU", "resource_limit": 2}])
        refusal = self.assertRaises(
            errors.QuotaExceeded, self.take, self.left, {"VCPU": 3, "PCPU": 2}, user="jane")
        self.assertEqual([("class:PCPU", "user", 1), ("class:VCPU", "user", 2)], [
            (each.resource_name, each.scope, each.limit) for each in refusal.exceeded_limits])

    def test_a_region_that_comes_while_the_service_runs(self):
        """What bound nobody can be said to bind nobody; it is never said silently."""
        self.register_in(self.region("RegionOne"), VCPU=10)
        self.take(self.left, {"VCPU": 1})
        self.region("RegionTwo")
        refusal = self.assertRaises(
            errors.AmbiguousRegion, self.take, self.left, {"VCPU": 11})
        self.assertIn("[quota] region", str(refusal))
        self.assertIn("RegionOne, RegionTwo", str(refusal))
        # Clear again once the same is registered for all regions.
        self.register(VCPU=7)
        self.assertEqual([("class:VCPU", 7)], self.refused({"VCPU": 7}))

    def test_an_audit_refuses_nothing_that_it_cannot_decide(self):
        log = self.useFixture(fixtures.FakeLogger("placement_core.quota"))
        self.register_in(self.region("RegionOne"), VCPU=10)
        self.region("RegionTwo")
        self.take(self.left, {"VCPU": 11}, mode="audit")
        self.assertIn("not known whether it would be refused", log.output)
        regions.delete(self.ctx, "RegionTwo")
        self.take(self.left, {"VCPU": 1}, mode="audit")
        self.assertIn("would be refused: ", log.output)

    def test_a_region_that_goes_while_the_service_runs(self):
        self.register_in(self.region("RegionOne"), VCPU=10)
        self.region("RegionTwo")
        self.assertRaises(errors.AmbiguousRegion, self.take, self.left, {"VCPU": 11})
        regions.delete(self.ctx, "RegionTwo")
        self.assertEqual([("class:VCPU", 10)], self.refused({"VCPU": 11}))

    def test_several_regions_and_no_limits(self):
        self.region("RegionOne")
        self.region("RegionTwo")
        self.take(self.left, {"VCPU": 100})

    def test_several_regions_and_limits_for_all_of_them(self):
        self.register(VCPU=3)
        self.region("RegionOne")
        self.register_in(self.region("RegionTwo"), VCPU=10)
        self.assertEqual([("class:VCPU", 3)], self.refused({"VCPU": 4}))

    def test_limits_of_other_services_do_not_matter(self):
        image = catalog_services.create(self.ctx, service_type="image").id
        self.region("RegionOne")
        self.register_in(self.region("RegionTwo"), service=image, VCPU=1)
        self.take(self.left, {"VCPU": 100})


@databases.on_each_database
class TestQuestions(_Places, cases.QuotaTestCase):
    """Questions; the catalog has RegionOne alone, and ``[quota] region`` is empty."""

    names = {"ram": 100}

    def setUp(self):
        super().setUp()
        self.register_in("RegionOne", cores=10)

    def test_a_check_reads_it(self):
        self.assertEqual([(self.left, "own", 10, 0, 11)], self.excesses(self.left, cores=11))
        self.assertEqual([(self.left, "own", 100, 0, 101)], self.excesses(self.left, ram=101))

    def test_an_overview_reads_it(self):
        overview = self.parts.overviews.make(self.ctx)
        self.assertEqual({"cores", "ram"}, set(overview.resources))
        self.assertEqual(10, overview.resources["cores"].limits[0])

    def test_a_region_that_is_set_is_the_only_one_that_is_read(self):
        parts = self.built(quota__region="RegionOne")
        overview = parts.overviews.make(parts.context())
        self.assertEqual({"cores"}, set(overview.resources))

    def gaps(self, **options):
        """Return the sentences about limits that bind nobody."""
        parts = self.built(**options) if options else self.parts
        return parts.limit_gaps(parts.context())

    def test_every_limit_binds(self):
        self.assertEqual([], self.gaps())

    def test_gaps_of_regions(self):
        [gap] = self.gaps(quota__region="RegionOne")
        self.assertIn("registered without a region bind nobody: ram. [quota] region = RegionOne",
                      gap)
        # Other regions have limits of their own on the same.
        self.register_in(self.region("RegionTwo"), cores=1)
        self.assertEqual(1, len(self.gaps(quota__region="RegionOne")))
        self.register_in("RegionTwo", servers=1)
        gaps = self.gaps(quota__region="RegionOne")
        self.assertIn("registered in region RegionTwo bind nobody: servers.", gaps[1])

    def test_gaps_beside_the_only_region(self):
        self.register_in(None, cores=3)
        [gap] = self.gaps()
        self.assertIn("registered without a region bind nobody: cores. [quota] region is empty: "
                      "of what is registered with and without a region, the limits of RegionOne",
                      gap)

    def test_gaps_of_services(self):
        [gap] = self.gaps(quota__service_type="computes")
        self.assertIn("[quota] service_type = computes: the catalog has no such service", gap)
        self.assertIn("limits are registered for compute.", gap)
        catalog_services.create(self.ctx, service_type="compute")
        [gap] = self.gaps()
        self.assertIn("The catalog has 2 services of the type compute", gap)

    def test_gaps_of_what_is_counted(self):
        self.register_in("RegionOne", VCPUS=1, PCPU=1, fips=1, server_group_members=1)
        self.register_in("RegionOne", **{"lease:host_hours": 1})
        self.assertEqual([
            "Limits are registered that nothing is held to: fips. Say in [quota] resource_map "
            "what they count.",
            "Limits on class:VCPUS count VCPUS, and there is no such resource class.",
        ], self.gaps())
        [gap] = self.gaps(quota__resource_map=[
            "cores=VCPU", "ram=RAM", "fips=CUSTOM_FIP", "class:VCPUS=VCPU"])[:1]
        self.assertIn("Limits on fips count CUSTOM_FIP, and there is no such", gap)
