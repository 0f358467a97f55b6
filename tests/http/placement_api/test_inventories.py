"""/resource_providers/{uuid}/inventories, and /usages beside it."""

from __future__ import annotations

from placement_core.http.placement_api import microversions as mv
from tests import databases
from tests.http.placement_api.cases import MISSING, PlacementTestCase

CONSUMER = "44444444-4444-4444-8444-444444444444"
DEFAULTS = {"reserved": 0, "min_unit": 1, "max_unit": 2147483647, "step_size": 1,
            "allocation_ratio": 1.0}


@databases.on_each_database
class TestInventories(PlacementTestCase):
    def setUp(self):
        super().setUp()
        self.rp = self.provider("a")
        self.at = f"/resource_providers/{self.rp}/inventories"

    def test_whole_life(self):
        empty = self.call("GET", self.at, status=200)
        self.assertEqual({"resource_provider_generation": 0, "inventories": {}}, empty.json)
        self.assertEqual("no-cache", empty.headers["cache-control"])
        self.assertNotIn("last-modified", empty.headers)
        made = self.call("POST", self.at, {"resource_class": "VCPU", "total": 8.0, "reserved": 2,
                                           "resource_provider_generation": 77}, status=201)
        self.assertEqual({**DEFAULTS, "total": 8, "reserved": 2,
                          "resource_provider_generation": 1}, made.json)
        self.assertEqual(f"http://localhost:80{self.at}/VCPU", made.headers["location"])
        # What is left out falls back to the default, not to the old value.
        changed = self.call("PUT", f"{self.at}/VCPU", {
            "total": 16, "resource_provider_generation": 1}, status=200)
        self.assertEqual({**DEFAULTS, "total": 16, "resource_provider_generation": 2},
                         changed.json)
        every = self.call("PUT", self.at, {
            "resource_provider_generation": 2, "inventories": {
                "DISK_GB": {"total": 5, "allocation_ratio": 1.5,
                            "resource_provider_generation": 99}}}, status=200)
        self.assertEqual({"resource_provider_generation": 3, "inventories": {
            "DISK_GB": {**DEFAULTS, "total": 5, "allocation_ratio": 1.5}}}, every.json)
        self.call("DELETE", f"{self.at}/DISK_GB", status=204)
        self.refuse(404, f"No inventory of class DISK_GB for {self.rp}",
                    "GET", f"{self.at}/DISK_GB")

    def test_refusals(self):
        self.call("POST", self.at, {"resource_class": "VCPU", "total": 8}, status=201)
        seen = {"resource_provider_generation": 1}
        for status, detail, method, path, body, code in (
            (409, "Update conflict: ", "POST", self.at, {"resource_class": "VCPU", "total": 1},
             "placement.concurrent_update"),
            (400, f"Unable to create inventory for resource provider {self.rp}: No such resource "
                  "class NOPE.", "POST", self.at, {"resource_class": "NOPE", "total": 1}, None),
            (400, "Unknown resource class in inventory for resource provider", "PUT", self.at,
             {**seen, "inventories": {"NOPE": {"total": 1}}}, None),
            (400, "Unknown resource class in inventory for resource provider", "PUT", self.at,
             {**seen, "inventories": {"no class": {"total": 1}}}, None),
            (400, "No inventory record with resource class", "PUT", f"{self.at}/DISK_GB",
             {**seen, "total": 1}, None),
            (404, "No such resource class NOPE.", "PUT", f"{self.at}/NOPE",
             {**seen, "total": 1}, None),
            (409, "resource provider generation conflict", "PUT", f"{self.at}/VCPU",
             {"resource_provider_generation": 5, "total": 1}, "placement.concurrent_update"),
            (404, "No inventory of class DISK_GB found for delete", "DELETE",
             f"{self.at}/DISK_GB", None, None),
            (404, "No inventory of class NOPE found for delete", "DELETE", f"{self.at}/NOPE",
             None, None),
        ):
            self.refuse(status, detail, method, path, body,
                        code=code or "placement.undefined_code")
        self.assertEqual(1, self.generation(self.rp))

    def test_fully_reserved_since_1_26(self):
        body = {"resource_class": "VCPU", "total": 4, "reserved": 4}
        self.refuse(400, f"Invalid inventory for 'VCPU' on resource provider '{self.rp}'. The "
                         "reserved value is greater than or equal to total.",
                    "POST", self.at, body, at=mv.GRANULAR)
        self.call("POST", self.at, body, at=mv.FULLY_RESERVED, status=201)
        self.refuse(400, "The reserved value is greater than total.", "POST", self.at,
                    {"resource_class": "DISK_GB", "total": 4, "reserved": 5})

    def test_in_use(self):
        self.call("PUT", self.at, {"resource_provider_generation": 0, "inventories": {
            "VCPU": {"total": 8}, "DISK_GB": {"total": 8}, "MEMORY_MB": {"total": 8}}}, status=200)
        self.call("PUT", f"/allocations/{CONSUMER}", self.claim(
            {self.rp: {"DISK_GB": 5, "VCPU": 3}}), status=204)
        detail = f"Inventory for 'VCPU, DISK_GB' on resource provider '{self.rp}' in use."
        self.refuse(409, detail, "PUT", self.at, {
            "resource_provider_generation": 2, "inventories": {"MEMORY_MB": {"total": 1}}},
            code="placement.inventory.inuse")
        self.refuse(409, detail, "DELETE", self.at, code="placement.inventory.inuse")
        self.refuse(409, "in use", "DELETE", f"{self.at}/VCPU", code="placement.concurrent_update")
        # Shrinking below what is used is allowed.
        self.call("PUT", f"{self.at}/VCPU", {
            "resource_provider_generation": 2, "total": 1}, status=200)
        usages = self.call("GET", f"/resource_providers/{self.rp}/usages", status=200)
        self.assertEqual({"resource_provider_generation": 3,
                          "usages": {"VCPU": 3, "DISK_GB": 5, "MEMORY_MB": 0}}, usages.json)

    def test_deleting_all_since_1_5(self):
        old = self.call("DELETE", self.at, at=mv.RESOURCES_QUERY, status=405)
        self.assertIn("The method DELETE is not allowed for this resource.",
                      old.json["errors"][0]["detail"])
        self.call("DELETE", self.at, at=mv.DELETE_INVENTORIES, status=204)
        self.refuse(404, f"No resource provider with uuid {MISSING} found", "DELETE",
                    f"/resource_providers/{MISSING}/inventories")
