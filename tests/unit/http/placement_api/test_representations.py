"""What answers look like, at the versions where that changes."""

from __future__ import annotations

import datetime
import json

from placement_core.http.operations import NOW
from placement_core.http.placement_api import microversions as mv, representations
from placement_core.placement import records
from tests import base

A = "9323b2b1-82c9-4e91-bdff-e95e808ef954"
EARLY = datetime.datetime(2026, 1, 1)
LATE = datetime.datetime(2026, 2, 2)


class TestTimes(base.TestCase):
    def test_newest(self):
        early = records.Named("a", created_at=EARLY)
        late = records.Named("b", created_at=EARLY, updated_at=LATE)
        self.assertEqual(LATE, representations.find_newest_change([early, late]))
        self.assertEqual(EARLY, representations.find_newest_change([early]))
        self.assertIs(NOW, representations.find_newest_change([early, records.Named("c")]))
        self.assertIs(NOW, representations.find_newest_change([]))

    def test_newest_created(self):
        self.assertEqual(LATE, representations.find_newest([EARLY, LATE]))
        self.assertIs(NOW, representations.find_newest([]))
        self.assertIs(NOW, representations.find_newest([None, LATE]))


class TestProvider(base.TestCase):
    item = records.Provider(1, A, "n", 2, root_uuid=A, parent_uuid=None)

    def test_links(self):
        for version, rels in (
            (mv.BASE, "self inventories usages"),
            (mv.AGGREGATES, "self inventories usages aggregates"),
            (mv.TRAITS, "self inventories usages aggregates traits"),
            (mv.ALLOCATIONS_LINK, "self inventories usages aggregates traits allocations"),
        ):
            links = json.loads(representations.render_provider(
                self.item, version, "/placement"))["links"]
            self.assertEqual(rels.split(), [link["rel"] for link in links])
            self.assertEqual(f"/placement/resource_providers/{A}", links[0]["href"])
            self.assertEqual(f"/placement/resource_providers/{A}/usages", links[2]["href"])

    def test_trees(self):
        old = json.loads(representations.render_provider(self.item, mv.POST_ALLOCATIONS, ""))
        self.assertEqual({"uuid", "name", "generation", "links"}, set(old))
        new = json.loads(representations.render_provider(self.item, mv.NESTED_PROVIDERS, ""))
        self.assertIsNone(new["parent_provider_uuid"])
        self.assertEqual(A, new["root_provider_uuid"])


class TestAllocations(base.TestCase):
    def test_of_consumer(self):
        item = records.ConsumerAllocations(
            "c", "p", "u", None, 4, {A: records.ProviderAllocation({"VCPU": 1}, 3)})
        document = {"allocations": {A: {"generation": 3, "resources": {"VCPU": 1}}}}
        for version, more in (
            (mv.BASE, {}),
            (mv.ALLOCATIONS_DICT, {"project_id": "p", "user_id": "u"}),
            (mv.CONSUMER_GENERATION, {"consumer_generation": 4}),
            (mv.CONSUMER_TYPES, {"consumer_type": "unknown"}),
        ):
            document.update(more)
            self.assertEqual(document, representations.render_consumer_allocations(item, version))
        self.assertEqual(
            {"allocations": {}}, representations.render_consumer_allocations(None, mv.NEWEST))

    def test_on_provider(self):
        item = records.ProviderAllocations(3, {"c": records.ConsumerShare(4, {"VCPU": 1})})
        old = representations.render_provider_allocations(item, mv.ALL_CLASSES)
        self.assertEqual({"allocations": {"c": {"resources": {"VCPU": 1}}},
                          "resource_provider_generation": 3}, old)
        new = representations.render_provider_allocations(item, mv.CONSUMER_GENERATION)
        self.assertEqual(4, new["allocations"]["c"]["consumer_generation"])


class TestUsages(base.TestCase):
    items = (records.TypeUsage("INSTANCE", 2, {"VCPU": 3, "DISK_GB": 1}),
             records.TypeUsage(None, 1, {"VCPU": 1}))

    def test_sums(self):
        self.assertEqual({"usages": {"VCPU": 4, "DISK_GB": 1}},
                         representations.render_usages(self.items))
        self.assertEqual(
            {"usages": {"all": {"VCPU": 4, "DISK_GB": 1, "consumer_count": 3}}},
            representations.render_usages_of_all_types(self.items))
        self.assertEqual({"usages": {
            "INSTANCE": {"VCPU": 3, "DISK_GB": 1, "consumer_count": 2},
            "unknown": {"VCPU": 1, "consumer_count": 1},
        }}, representations.render_usages_by_type(self.items))

    def test_nothing(self):
        self.assertEqual({"usages": {}}, representations.render_usages(()))
        self.assertEqual({"usages": {}}, representations.render_usages_by_type(()))
        self.assertEqual({"usages": {}}, representations.render_usages_of_all_types(()))


class TestAggregates(base.TestCase):
    def test_generation(self):
        item = records.ProviderAggregates(5, (A,))
        self.assertEqual({"aggregates": [A]},
                         representations.render_provider_aggregates(item, mv.PROVIDERS_REQUIRED))
        self.assertEqual({"aggregates": [A], "resource_provider_generation": 5},
                         representations.render_provider_aggregates(item,
                                                                    mv.AGGREGATES_GENERATION))
