"""Old bodies become the newest shape."""

from __future__ import annotations

from placement_core.http.placement_api import microversions as mv, request_upgrades
from placement_core.placement import records
from tests import base

A = "9323b2b1-82c9-4e91-bdff-e95e808ef954"
B = "8592a199-7d73-4465-8df6-ab00a6243c82"
INCOMPLETE = ("nobody's project", "nobody")


class TestAllocations(base.TestCase):
    def test_every_age(self):
        listed = [{"resource_provider": {"uuid": A}, "resources": {"VCPU": 1}},
                  {"resource_provider": {"uuid": B}, "resources": {"DISK_GB": 2}}]
        keyed = {A: {"resources": {"VCPU": 1}, "generation": 9}, B: {"resources": {"DISK_GB": 2}}}
        owner = {"project_id": "p", "user_id": "u"}
        held = {A: {"VCPU": 1}, B: {"DISK_GB": 2}}
        any_generation = records.ANY_GENERATION
        for version, body, wanted in (
            (mv.BASE, {"allocations": listed}, (*INCOMPLETE, None, any_generation)),
            (mv.OWNERS, {"allocations": listed, **owner}, ("p", "u", None, any_generation)),
            (mv.ALLOCATIONS_DICT, {"allocations": keyed, **owner},
             ("p", "u", None, any_generation)),
            (mv.CONSUMER_GENERATION, {"allocations": keyed, **owner, "consumer_generation": None},
             ("p", "u", None, None)),
            (mv.CONSUMER_TYPES,
             {"allocations": keyed, **owner, "consumer_generation": 7, "consumer_type": "T"},
             ("p", "u", "T", 7)),
        ):
            write = request_upgrades.upgrade_allocations("c", body, version, INCOMPLETE)
            self.assertEqual("c", write.consumer_uuid)
            self.assertEqual(held, write.allocations)
            self.assertEqual(wanted, (
                write.project_id, write.user_id, write.consumer_type, write.expected_generation))

    def test_several_consumers(self):
        section = {"allocations": {}, "project_id": "p", "user_id": "u"}
        writes = request_upgrades.upgrade_all_allocations({A: section, B: section},
                                                          mv.POST_ALLOCATIONS, INCOMPLETE)
        self.assertEqual([A, B], [write.consumer_uuid for write in writes])


class TestInventory(base.TestCase):
    def test_defaults(self):
        values = request_upgrades.upgrade_inventory({"total": 5, "resource_class": "VCPU",
                                                     "allocation_ratio": 2})
        self.assertEqual(records.InventoryValues(5, allocation_ratio=2.0), values)
        self.assertIsInstance(values.allocation_ratio, float)

    def test_all_of_a_provider(self):
        self.assertEqual(
            (3, {"VCPU": records.InventoryValues(1)}),
            request_upgrades.upgrade_inventories({"resource_provider_generation": 3,
                                                  "inventories": {
                "VCPU": {"total": 1, "resource_provider_generation": 9}}}))
