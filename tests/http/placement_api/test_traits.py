"""/traits, …/traits, …/aggregates and /resource_classes."""

from __future__ import annotations

from placement_core.http.placement_api import microversions as mv
from tests import databases
from tests.http.placement_api.cases import PlacementTestCase

A = "9323b2b1-82c9-4e91-bdff-e95e808ef954"
B = "8592a199-7d73-4465-8df6-ab00a6243c82"


@databases.on_each_database
class TestTraits(PlacementTestCase):
    def test_whole_life(self):
        self.call("GET", "/traits", at=mv.DELETE_INVENTORIES, status=404)
        made = self.call("PUT", "/traits/CUSTOM_A", status=201)
        self.assertEqual("http://localhost:80/traits/CUSTOM_A", made.headers["location"])
        self.assertEqual("no-cache", made.headers["cache-control"])
        self.call("PUT", "/traits/CUSTOM_A", status=204)
        self.call("GET", "/traits/CUSTOM_A", status=204)
        rp = self.provider("a")
        at = f"/resource_providers/{rp}/traits"
        given = self.call("PUT", at, {
            "traits": ["CUSTOM_A", "HW_CPU_X86_AVX"], "resource_provider_generation": 0},
            status=200)
        self.assertEqual(1, given.json["resource_provider_generation"])
        self.assertEqual({"CUSTOM_A", "HW_CPU_X86_AVX"}, set(given.json["traits"]))
        self.assertEqual(given.json, self.call("GET", at).json)
        for query, found in (("associated=true", {"CUSTOM_A", "HW_CPU_X86_AVX"}),
                             ("name=startswith:CUSTOM", {"CUSTOM_A"}),
                             ("name=startswith:CUSTOM&associated=False", set()),
                             ("name=in:CUSTOM_A,NOPE", {"CUSTOM_A"})):
            self.assertEqual(found, set(self.call("GET", f"/traits?{query}").json["traits"]))
        self.refuse(409, "CUSTOM_A", "DELETE", "/traits/CUSTOM_A")
        self.call("DELETE", at, status=204)
        self.call("DELETE", "/traits/CUSTOM_A", status=204)

    def test_refusals(self):
        rp = self.provider("a")
        for status, detail, method, path, body in (
            (400, 'start with the prefix "CUSTOM_"', "PUT", "/traits/HW_MINE", None),
            (400, "The trait is invalid", "PUT", "/traits/CUSTOM_" + "A" * 249, None),
            (404, "No such trait(s): NOPE.", "GET", "/traits/NOPE", None),
            (404, "No such trait(s): NOPE.", "DELETE", "/traits/NOPE", None),
            (400, "Cannot delete standard trait HW_CPU_X86_AVX.", "DELETE",
             "/traits/HW_CPU_X86_AVX", None),
            (400, "No such trait NOPE", "PUT", f"/resource_providers/{rp}/traits",
             {"traits": ["NOPE", "HW_CPU_X86_AVX"], "resource_provider_generation": 0}),
        ):
            self.refuse(status, detail, method, path, body)


@databases.on_each_database
class TestAggregates(PlacementTestCase):
    def test_every_age(self):
        at = f"/resource_providers/{self.provider('a')}/aggregates"
        self.call("GET", at, at=mv.BASE, status=404)
        old = self.call("PUT", at, [B, A], at=mv.AGGREGATES, status=200)
        self.assertEqual({"aggregates": [B, A]}, old.json)
        new = self.call("PUT", at, {"aggregates": [A], "resource_provider_generation": 0},
                        status=200)
        self.assertEqual({"aggregates": [A], "resource_provider_generation": 1}, new.json)
        self.assertEqual(new.json, self.call("GET", at).json)
        self.assertEqual({"aggregates": [A]},
                         self.call("GET", at, at=mv.PROVIDERS_REQUIRED).json)

    def test_media_type_before_version(self):
        at = f"/resource_providers/{self.provider('a')}/aggregates"
        answer = self.ask("PUT", at, b"[]", version="1.0", headers={"Content-Type": "text/plain"})
        self.assert_refused(415, "text/plain is not supported, use application/json", answer)


@databases.on_each_database
class TestResourceClasses(PlacementTestCase):
    def test_renamed_until_1_6(self):
        self.call("GET", "/resource_classes", at=mv.AGGREGATES, status=404)
        made = self.call("POST", "/resource_classes", {"name": "CUSTOM_A"}, status=201)
        self.assertEqual("http://localhost:80/resource_classes/CUSTOM_A", made.headers["location"])
        renamed = self.call("PUT", "/resource_classes/CUSTOM_A", {"name": "CUSTOM_B"},
                            at=mv.TRAITS, status=200)
        self.assertEqual({"name": "CUSTOM_B", "links": [
            {"rel": "self", "href": "/resource_classes/CUSTOM_B"}]}, renamed.json)
        self.call("PUT", "/resource_classes/CUSTOM_B", at=mv.ENSURE_CLASS, status=204)
        self.call("PUT", "/resource_classes/CUSTOM_C", at=mv.ENSURE_CLASS, status=201)
        listed = self.call("GET", "/resource_classes").json["resource_classes"]
        names = [each["name"] for each in listed]
        self.assertEqual(["VCPU", "MEMORY_MB", "DISK_GB"], names[:3])
        self.assertEqual(["CUSTOM_B", "CUSTOM_C"], names[-2:])
        self.call("DELETE", "/resource_classes/CUSTOM_B", status=204)
        self.call("GET", "/resource_classes/CUSTOM_B", status=404)

    def test_refusals(self):
        self.call("PUT", "/resource_classes/CUSTOM_A", status=201)
        self.call("PUT", "/resource_classes/CUSTOM_B", status=201)
        self.provider("a", CUSTOM_A=1)
        for status, detail, method, path, body, version in (
            (409, "Conflicting resource class already exists: CUSTOM_A", "POST",
             "/resource_classes", {"name": "CUSTOM_A"}, None),
            (400, "Failed validating 'pattern'", "PUT", "/resource_classes/VCPU", None, None),
            (400, "Failed validating 'maxLength'", "PUT",
             "/resource_classes/CUSTOM_" + "A" * 249, None, None),
            (400, "JSON does not validate", "PUT", "/resource_classes/CUSTOM_A%0a", None, None),
            (400, "Cannot update standard resource class VCPU", "PUT", "/resource_classes/VCPU",
             {"name": "CUSTOM_C"}, mv.TRAITS),
            (409, "Resource class already exists: CUSTOM_B", "PUT", "/resource_classes/CUSTOM_A",
             {"name": "CUSTOM_B"}, mv.TRAITS),
            (404, "No such resource class CUSTOM_N.", "DELETE", "/resource_classes/CUSTOM_N",
             None, None),
            (400, "Error in delete resource class: Cannot delete standard resource class VCPU.",
             "DELETE", "/resource_classes/VCPU", None, None),
            (409, "Class is in use in inventory.", "DELETE", "/resource_classes/CUSTOM_A", None,
             None),
        ):
            code = "placement.undefined_code" if version is None else None
            self.refuse(status, detail, method, path, body, at=version, code=code)
