import types

from placement_core.plugin_api.limits import EffectiveLimits
from placement_core.quota import errors, limit_sources
from placement_core.quota.limit_sources import ServiceKey
from tests import base

SERVICE = "compute-service"


class Catalog:

    def __init__(self, services, regions):
        self._services, self._regions = services, regions

    def services(self, ctx, *, service_type):
        return [types.SimpleNamespace(id=id_) for id_ in self._services]

    def regions(self, ctx):
        return [types.SimpleNamespace(id=id_) for id_ in self._regions]


class Limits:
    """Limits in memory.

    :ivar by_region: {region id: (defaults, overrides, limits of the user)}.
    """

    def __init__(self, by_region):
        self._by_region = by_region

    def registered(self, ctx):
        return [types.SimpleNamespace(
            service_id=SERVICE, region_id=region_id, resource_name=name)
            for region_id, (defaults, *_) in self._by_region.items() for name in defaults]

    def effective(self, ctx, node_ids, *, service_id, region_id):
        defaults, overrides, _ = self._by_region.get(region_id, ({}, {}, {}))
        return EffectiveLimits(defaults, overrides)

    def user_limits(self, ctx, project_id, user_id, *, service_id, region_id):
        return self._by_region.get(region_id, ({}, {}, {}))[2]


class TestFind(base.TestCase):

    def find(self, services=(SERVICE,), regions=(), region_id=None, limits=None):
        return limit_sources.find(
            None, Catalog(services, regions), Limits(limits or {}), "compute", region_id)

    def test_no_service(self):
        self.assertIsNone(self.find(services=()))

    def test_several_services(self):
        self.assertRaises(errors.AmbiguousService, self.find, services=("one", "other"))

    def test_a_region_that_is_configured(self):
        self.assertEqual(ServiceKey(SERVICE, ("One",)),
                         self.find(regions=("One", "Other"), region_id="One"))

    def test_the_only_region(self):
        self.assertEqual(ServiceKey(SERVICE, ("One", None)), self.find(regions=("One",)))

    def test_no_region(self):
        self.assertEqual(ServiceKey(SERVICE, (None,)), self.find())

    def test_several_regions_without_limits_of_their_own(self):
        both = {None: ({"cores": 1}, {}, {}), "One": ({"cores": 2}, {}, {})}
        self.assertEqual(ServiceKey(SERVICE, (None,)),
                         self.find(regions=("One", "Other"), limits=both))

    def test_several_regions_with_limits_of_their_own(self):
        refusal = self.assertRaises(
            errors.AmbiguousRegion, self.find, regions=("One", "Other"),
            limits={None: ({"cores": 1}, {}, {}), "Other": ({"ram": 2}, {}, {})})
        self.assertIn("ram", str(refusal))


class TestEffective(base.TestCase):
    limits = Limits({
        "One": ({"cores": 1}, {"left": {"cores": 10}}, {"cores": 5}),
        None: ({"cores": 2, "ram": 3}, {"left": {"cores": 20, "ram": 30}, "right": {"ram": 31}},
               {"cores": 6, "ram": 7}),
    })
    key = ServiceKey(SERVICE, ("One", None))

    def test_a_resource_is_the_first_regions_that_registers_it(self):
        together = limit_sources.effective(None, self.limits, self.key, ["left", "right"])
        self.assertEqual({"cores": 1, "ram": 3}, dict(together.defaults))
        self.assertEqual({"left": {"cores": 10, "ram": 30}, "right": {"ram": 31}},
                         {node_id: dict(limits)
                          for node_id, limits in together.overrides.items()})

    def test_limits_of_a_user(self):
        self.assertEqual({"cores": 5, "ram": 7}, limit_sources.user_limits(
            None, self.limits, self.key, "left", "jane"))


class TestDescribe(base.TestCase):

    def test_for_people(self):
        self.assertEqual(
            ["service type compute, which the catalog does not have",
             "service type compute without a region",
             "service type compute in region One or without a region"],
            [limit_sources.describe("compute", key) for key in (
                None, ServiceKey(SERVICE, (None,)), ServiceKey(SERVICE, ("One", None)))])
