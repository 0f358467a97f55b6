"""Registered limits that bind nobody, each said in a sentence."""

import types

from placement_core.plugin_api.catalog import Region, Service
from placement_core.plugin_api.limits import EffectiveLimits, RegisteredName
from placement_core.quota import coverage, resources
from placement_core.quota.limit_sources import LimitSource
from tests import base


class Catalog:

    def __init__(self, regions):
        self._regions = [Region(id_) for id_ in regions]

    def services(self, ctx, service_type=None):
        services = [Service("s1", "compute"), Service("s2", "volume")]
        return [each for each in services if service_type in (None, each.type)]

    def regions(self, ctx):
        return self._regions

    def region(self, ctx, id_):
        return next((region for region in self._regions if region.id == id_), None)


class Limits:
    """Registered limits: (service, region, resource name)."""

    def __init__(self, names):
        self._names = [RegisteredName(*name) for name in names]

    def registered(self, ctx):
        return self._names

    def effective(self, ctx, node_ids, *, service_id, region_id):
        return EffectiveLimits({
            name.resource_name: 1 for name in self._names
            if (name.service_id, name.region_id) == (service_id, region_id)}, {})


class TestGaps(base.TestCase):

    def gaps(self, *names, service_type="compute", region_id=None, regions=("One",),
             counted=("cores",), elsewhere=(), counts_members=True):
        queries = types.SimpleNamespace(
            source=LimitSource(service_type, region_id), catalog=Catalog(regions),
            limits=Limits(names), is_countable=lambda name: name in counted,
            counting=types.SimpleNamespace(counts_members=counts_members),
            decisions=types.SimpleNamespace(
                resources=resources.parse(["cores=VCPU", "servers=instances"])))
        return coverage.find_gaps(None, queries, judged_elsewhere=elsewhere)

    def test_none(self):
        self.assertEqual([], self.gaps(("s1", None, "cores"), ("s2", None, "volumes")))
        self.assertEqual([], self.gaps(service_type="share"))

    def test_a_region_that_there_is_not(self):
        (gap,) = self.gaps(("s1", None, "cores"), region_id="Two")
        self.assertIn("the catalog has no such region", gap)

    def test_a_service_that_there_is_not(self):
        (gap,) = self.gaps(("s1", None, "cores"), service_type="share")
        self.assertIn("limits are registered for compute.", gap)

    def test_limits_in_another_region(self):
        (gap,) = self.gaps(("s1", "One", "cores"), ("s1", None, "servers"), region_id="One")
        self.assertIn("registered without a region bind nobody: servers.", gap)

    def test_limits_registered_both_ways(self):
        (gap,) = self.gaps(("s1", "One", "cores"), ("s1", None, "cores"))
        self.assertIn("registered without a region bind nobody: cores.", gap)

    def test_what_nobody_counts(self):
        (gap,) = self.gaps(("s1", None, "servers"), ("s1", None, "cores"))
        self.assertIn("held to: servers. The counting driver does not count them", gap)
        (gap,) = self.gaps(("s1", None, "flavors"))
        self.assertIn("held to: flavors. Say in [quota] resource_map", gap)
        self.assertEqual([], self.gaps(("s1", None, "flavors"), elsewhere={"flavors"}))

    def test_members_of_server_groups(self):
        members = "s1", None, "server_group_members"
        self.assertEqual([], self.gaps(members))
        (gap,) = self.gaps(members, counts_members=False)
        self.assertIn("held to: server_group_members. The counting driver does not count", gap)


class TestGapLog(base.TestCase):

    def test_once_and_again_when_it_comes_back(self):
        gaps = [["one"], ["one", "two"], ["two"], ["one", "two"]]
        log = coverage.GapLog(lambda ctx: gaps.pop(0))
        logged = []
        for _ in range(4):
            with self.assertLogs(coverage.LOG) as records:
                coverage.LOG.warning("-")
                log.update(None)
            logged.append([record.getMessage() for record in records.records[1:]])
        self.assertEqual([["one"], ["two"], [], ["one"]], logged)
