"""/resource_providers and /resource_providers/{uuid}."""

from __future__ import annotations

from placement_core.http.placement_api import microversions as mv
from tests import databases
from tests.http.placement_api.cases import MISSING, PlacementTestCase

A = "9323b2b1-82c9-4e91-bdff-e95e808ef954"


@databases.on_each_database
class TestProviders(PlacementTestCase):
    def test_created_and_shown(self):
        old = self.call("POST", "/resource_providers", {"name": "a"}, at=mv.AGGREGATES_GENERATION,
                        status=201)
        self.assertEqual(b"", old.body)
        self.assertNotIn("last-modified", old.headers)
        new = self.call("POST", "/resource_providers", {"name": "b", "uuid": A.upper()},
                        at=mv.PROVIDER_IN_BODY, status=200)
        self.assertEqual(A, new.json["uuid"])
        self.assertEqual(f"http://localhost:80/resource_providers/{A}", new.headers["location"])
        self.assertEqual("no-cache", new.headers["cache-control"])
        shown = self.call("GET", new.headers["location"].removeprefix("http://localhost:80"))
        self.assertEqual(0, shown.json["generation"])
        self.assertEqual(A, shown.json["root_provider_uuid"])
        self.assertIsNone(shown.json["parent_provider_uuid"])

    def test_uuids_in_addresses_are_text(self):
        provider = self.provider("a")
        self.refuse(404, f"No resource provider with uuid {provider.upper()} found",
                    "GET", f"/resource_providers/{provider.upper()}")
        self.call("GET", f"/resource_providers/{provider}/", status=404)

    def test_mounted_under_a_prefix(self):
        provider = self.provider("a")
        answer = self.ask("GET", f"/resource_providers/{provider}",
                          environ={"SCRIPT_NAME": "/placement"})
        self.assertEqual(f"/placement/resource_providers/{provider}/traits",
                         answer.json["links"][4]["href"])

    def test_a_list_shows_each_provider_as_it_is_alone(self):
        """Also when it was listed before: in another form, or before a change."""
        parent = self.provider("a \u00e4 \"quoted\"")
        child = self.call("POST", "/resource_providers", {
            "name": "child", "parent_provider_uuid": parent}, status=200).json["uuid"]

        def check(version, environ):
            listed = self.ask("GET", "/resource_providers", version=version, environ=environ)
            alone = [self.ask("GET", f"/resource_providers/{each}", version=version,
                              environ=environ).json for each in (parent, child)]
            self.assertEqual(alone, listed.json["resource_providers"])

        for version in ("1.0", "1.13", "1.39", "1.39"):
            for environ in ({}, {"SCRIPT_NAME": "/placement"}):
                check(version, environ)
        self.call("PUT", f"/resource_providers/{child}", {"name": "renamed"}, status=200)
        check("1.39", {"SCRIPT_NAME": "/placement"})

    def test_cache_headers_since_1_15(self):
        provider = self.provider("a", VCPU=1)
        for path in ("/resource_providers", f"/resource_providers/{provider}",
                     f"/resource_providers/{provider}/inventories",
                     f"/resource_providers/{provider}/inventories/VCPU",
                     f"/resource_providers/{provider}/usages",
                     f"/resource_providers/{provider}/aggregates",
                     f"/resource_providers/{provider}/traits",
                     f"/resource_providers/{provider}/allocations", f"/allocations/{A}",
                     "/resource_classes", "/resource_classes/VCPU", "/traits",
                     "/traits/HW_CPU_X86_AVX", "/usages?project_id=p",
                     "/allocation_candidates?resources=VCPU:1", "/"):
            new = self.call("GET", path, at=mv.CACHE_HEADERS)
            self.assertEqual("no-cache", new.headers.get("cache-control"), path)
            self.assertTrue(new.headers.get("last-modified", "").endswith(" GMT"), path)
            old = self.call("GET", path, at=mv.NESTED_PROVIDERS)
            self.assertNotIn("cache-control", old.headers, path)
            self.assertNotIn("last-modified", old.headers, path)

    def test_names_and_uuids_are_taken_once(self):
        provider = self.provider("a")
        for body, detail in (
            ({"name": "a"}, "Conflicting resource provider name: a already exists."),
            ({"name": "b", "uuid": provider},
             f"Conflicting resource provider uuid: {provider} already exists."),
        ):
            self.refuse(409, detail, "POST", "/resource_providers", body,
                        code="placement.duplicate_name")
        other = self.provider("b")
        self.refuse(409, "Conflicting resource provider a already exists.",
                    "PUT", f"/resource_providers/{other}", {"name": "a"},
                    code="placement.duplicate_name")

    def test_missing_before_malformed(self):
        at = f"/resource_providers/{MISSING}"
        for method, path in (("PUT", at), ("POST", f"{at}/inventories"),
                             ("PUT", f"{at}/inventories"), ("PUT", f"{at}/inventories/VCPU"),
                             ("PUT", f"{at}/aggregates")):
            self.assertEqual(404, self.call(method, path, b"{").status_int, path)
        # Here the body comes first.
        self.call("PUT", f"{at}/traits", b"{", status=400)

    def test_moving_in_trees(self):
        root, child, other = self.provider("a"), None, self.provider("c")
        child = self.provider("b", root)
        at = f"/resource_providers/{child}"
        before = mv.SAME_SUBTREE
        for parent, detail in ((other, "re-parenting a provider is not currently allowed."),
                               (None, "un-parenting a provider is not currently allowed.")):
            self.refuse(400, f"Unable to save resource provider {child}: Object action update "
                             f"failed because: {detail}", "PUT", at,
                        {"name": "b", "parent_provider_uuid": parent}, at=before)
        self.call("PUT", at, {"name": "b", "parent_provider_uuid": root}, at=before, status=200)
        self.refuse(400, "creating loop in the provider tree is not allowed.", "PUT",
                    f"/resource_providers/{root}", {"name": "a", "parent_provider_uuid": child})
        moved = self.call("PUT", at, {"name": "b", "parent_provider_uuid": other}, status=200)
        self.assertEqual(other, moved.json["root_provider_uuid"])
        kept = self.call("PUT", at, {"name": "renamed"}, status=200)
        self.assertEqual(other, kept.json["parent_provider_uuid"])
        freed = self.call("PUT", at, {"name": "b", "parent_provider_uuid": None}, status=200)
        self.assertEqual(child, freed.json["root_provider_uuid"])
        self.assertEqual(0, self.generation(child))

    def test_deleted(self):
        root = self.provider("a", VCPU=4)
        child = self.provider("b", root)
        self.call("PUT", f"/allocations/{A}", self.claim({root: {"VCPU": 1}}), status=204)
        at = f"/resource_providers/{root}"
        self.refuse(409, f"Unable to delete parent resource provider {root}: It has child "
                         "resource providers.", "DELETE", at,
                    code="placement.resource_provider.cannot_delete_parent")
        self.call("DELETE", f"/resource_providers/{child}", status=204)
        self.refuse(409, f"Unable to delete resource provider {root}: Resource provider has "
                         "allocations.", "DELETE", at,
                    code="placement.resource_provider.inuse")
        self.call("DELETE", f"/allocations/{A}", status=204)
        self.call("DELETE", at, status=204)
        self.refuse(404, f"No resource provider with uuid {root} found for delete", "DELETE", at)

    def test_one_after_another(self):
        # SQLite gives the second the id of the first.
        for name in "ab":
            made = self.provider(name, VCPU=1)
            for path in (f"/resource_providers?uuid={made}", f"/resource_providers?name={name}"):
                found = self.call("GET", path).json["resource_providers"]
                self.assertEqual([made], [each["uuid"] for each in found], path)
            candidates = self.call("GET", "/allocation_candidates?resources=VCPU:1").json
            self.assertEqual([made], list(candidates["provider_summaries"]))
            if name == "a":
                self.call("DELETE", f"/resource_providers/{made}", status=204)

    def test_filtered(self):
        first = self.provider("a", VCPU=4, DISK_GB={"total": 10, "min_unit": 2, "step_size": 2})
        second = self.provider("b", first, VCPU=1)
        self.call("PUT", f"/resource_providers/{first}/aggregates", {
            "aggregates": [A], "resource_provider_generation": 1}, status=200)
        self.call("PUT", f"/resource_providers/{second}/traits", {
            "traits": ["HW_CPU_X86_AVX"], "resource_provider_generation": 1}, status=200)
        for query, found in (
            ("", [first, second]), ("?name=a", [first]), ("?name=", [first, second]),
            (f"?uuid={second}", [second]), (f"?uuid={second.upper()}", []),
            ("?resources=VCPU:2", [first]), ("?resources=DISK_GB:3", []),
            ("?resources=DISK_GB:4,VCPU:4", [first]), (f"?in_tree={second}", [first, second]),
            (f"?in_tree={MISSING}", []), (f"?member_of={A}", [first]),
            (f"?member_of=!{A}", [second]), (f"?member_of={MISSING}", []),
            ("?required=HW_CPU_X86_AVX", [second]), ("?required=!HW_CPU_X86_AVX", [first]),
            ("?required=in:HW_CPU_X86_AVX,HW_CPU_X86_SSE&resources=VCPU:1", [second]),
        ):
            answer = self.call("GET", f"/resource_providers{query}", status=200)
            uuids = [each["uuid"] for each in answer.json["resource_providers"]]
            self.assertEqual(sorted(found), sorted(uuids), query)
        self.refuse(400, "Invalid resource class in resources parameter: No such resource class "
                         "NOPE.", "GET", "/resource_providers?resources=NOPE:1")
        self.refuse(400, 'Invalid trait(s) in "required" parameter: No such trait(s): NOPE.',
                    "GET", "/resource_providers?required=!NOPE")


@databases.on_each_database
class TestGenerations(PlacementTestCase):
    """When a provider's generation rises, and when it does not. Spec §1.8."""

    def setUp(self):
        super().setUp()
        self.rp = self.provider("a")
        self.at = f"/resource_providers/{self.rp}"

    def step(self, rise, method, path, body=None, *, at=None, seen=None, status=None):
        before = self.generation(self.rp)
        if seen is not None:
            body = {**body, "resource_provider_generation": before}
        response = self.call(method, path, body, at=at)
        self.assertLess(response.status_int, 300, response.body)
        self.assertEqual(before + rise, self.generation(self.rp), (method, path, body))

    def test_inventories(self):
        at = f"{self.at}/inventories"
        self.step(1, "DELETE", at)
        self.step(1, "POST", at, {"resource_class": "VCPU", "total": 4})
        self.step(1, "PUT", f"{at}/VCPU", {"total": 4}, seen=True)
        self.step(1, "PUT", at, {"inventories": {"VCPU": {"total": 4}}}, seen=True)
        self.step(1, "PUT", at, {"inventories": {"VCPU": {"total": 4}}}, seen=True)
        self.step(1, "DELETE", f"{at}/VCPU")
        self.step(1, "DELETE", at)

    def test_traits(self):
        at = f"{self.at}/traits"
        self.step(0, "DELETE", at)
        self.step(0, "PUT", at, {"traits": []}, seen=True)
        self.step(1, "PUT", at, {"traits": ["HW_CPU_X86_AVX"]}, seen=True)
        self.step(0, "PUT", at, {"traits": ["HW_CPU_X86_AVX"]}, seen=True)
        self.step(1, "DELETE", at)

    def test_aggregates(self):
        at = f"{self.at}/aggregates"
        self.step(0, "PUT", at, [A], at=mv.PROVIDERS_REQUIRED)
        self.step(1, "PUT", at, {"aggregates": [A]}, seen=True)
        self.step(1, "PUT", at, {"aggregates": [A]}, seen=True)

    def test_provider(self):
        self.step(0, "PUT", self.at, {"name": "b"})
        parent = self.provider("parent")
        self.step(0, "PUT", self.at, {"name": "b", "parent_provider_uuid": parent})
        self.step(0, "PUT", self.at, {"name": "b", "parent_provider_uuid": None})

    def test_allocations(self):
        self.step(1, "PUT", f"{self.at}/inventories", {
            "inventories": {"VCPU": {"total": 9}, "DISK_GB": {"total": 9}}}, seen=True)
        other = self.provider("other", VCPU=9)
        here, there = {self.rp: {"VCPU": 1, "DISK_GB": 1}}, {other: {"VCPU": 1}}
        at = f"/allocations/{A}"
        self.step(1, "PUT", at, self.claim(here))
        self.step(1, "PUT", at, self.claim(here, generation=1))
        # Moving away names another provider only.
        self.step(0, "PUT", at, self.claim(there, generation=2))
        self.step(1, "PUT", at, self.claim({**here, **there}, generation=3))
        # Nothing is named: then those that are left.
        self.step(1, "PUT", at, self.claim({}, generation=4))
        self.step(1, "POST", "/allocations", {A: self.claim(here), MISSING: self.claim(here)})
        self.step(0, "DELETE", at)

    def test_conflicts(self):
        stale = {"resource_provider_generation": 7}
        for path, body, detail in (
            (f"{self.at}/inventories", {"inventories": {}},
             "resource provider generation conflict"),
            (f"{self.at}/traits", {"traits": []},
             "Resource provider's generation already changed. Please update the generation and "
             "try again."),
            (f"{self.at}/aggregates", {"aggregates": []},
             "Resource provider's generation already changed."),
        ):
            self.refuse(409, detail, "PUT", path, {**body, **stale},
                        code="placement.concurrent_update")
