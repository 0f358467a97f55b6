"""/allocations, …/allocations, /usages and /reshaper."""

from __future__ import annotations

from placement_core.http.placement_api import microversions as mv
from tests import databases
from tests.http.placement_api.cases import MISSING, PlacementTestCase

C = "44444444-4444-4444-8444-444444444444"
D = "55555555-5555-4555-8555-555555555555"
NOBODY = "00000000-0000-0000-0000-000000000000"
CONCURRENT = "placement.concurrent_update"


@databases.on_each_database
class TestAllocations(PlacementTestCase):
    def setUp(self):
        super().setUp()
        self.rp = self.provider("a", VCPU={"total": 8, "max_unit": 6}, DISK_GB=100)
        self.at = f"/allocations/{C}"

    def test_every_age(self):
        listed = {"allocations": [
            {"resource_provider": {"uuid": self.rp}, "resources": {"VCPU": 1}}]}
        keyed = {"allocations": {self.rp: {"resources": {"VCPU": 2}}}}
        owner = {"project_id": "p", "user_id": "u"}
        for version, body, shown in (
            (mv.BASE, listed, (NOBODY, NOBODY, 1, "unknown")),
            (mv.OWNERS, {**listed, **owner}, ("p", "u", 2, "unknown")),
            (mv.ALLOCATIONS_DICT, {**keyed, **owner}, ("p", "u", 3, "unknown")),
            (mv.CONSUMER_GENERATION, {**keyed, **owner, "consumer_generation": 3},
             ("p", "u", 4, "unknown")),
            (mv.CONSUMER_TYPES, {**keyed, **owner, "consumer_generation": 4,
                                 "consumer_type": "INSTANCE"}, ("p", "u", 5, "INSTANCE")),
            # An older write keeps the type.
            (mv.ALLOCATIONS_DICT, {**keyed, "project_id": "q", "user_id": "u"},
             ("q", "u", 6, "INSTANCE")),
        ):
            self.call("PUT", self.at, body, at=version, status=204)
            now = self.call("GET", self.at, status=200).json
            self.assertEqual(shown, (now["project_id"], now["user_id"],
                                     now["consumer_generation"], now["consumer_type"]))
        self.assertEqual({"VCPU": 2}, now["allocations"][self.rp]["resources"])
        self.assertEqual({"allocations"}, set(self.call("GET", self.at, at=mv.BASE).json))

    def test_spellings_of_a_consumer(self):
        odd = "{" + C.replace("-", "").upper() + "}"
        self.call("PUT", f"/allocations/{odd}", self.claim({self.rp: {"VCPU": 1}}), status=204)
        self.assertEqual(1, self.consumer_generation(C))
        # Elsewhere the text counts.
        self.assertEqual({"allocations": {}}, self.call("GET", f"/allocations/{odd}").json)
        self.call("DELETE", f"/allocations/{odd}", status=404)
        self.refuse(400, "Malformed consumer_uuid: me", "PUT", "/allocations/me", self.claim({}))

    def test_consumer_generations(self):
        body = {self.rp: {"VCPU": 1}}
        for sent in (5, -1):
            self.refuse(409, f"consumer generation conflict - expected null but got {sent}",
                        "PUT", self.at, self.claim(body, generation=sent), code=CONCURRENT)
        self.call("PUT", self.at, self.claim(body), status=204)
        for sent, shown in ((None, "None"), (7, "7"), (2**40, str(2**40)), (-1, "-1"),
                            (-1.0, "-1")):
            self.refuse(409, f"consumer generation conflict - expected 1 but got {shown}", "PUT",
                        self.at, self.claim(body, generation=sent), code=CONCURRENT)
        self.call("PUT", self.at, self.claim({}, generation=1), status=204)
        self.assertIsNone(self.consumer_generation(C))
        self.call("PUT", self.at, self.claim(body), status=204)

    def test_no_generation_of_several_consumers_means_any(self):
        self.call("PUT", self.at, self.claim({self.rp: {"VCPU": 1}}), status=204)
        self.call("PUT", f"/allocations/{D}", self.claim({self.rp: {"VCPU": 1}}), status=204)
        for sent in (-1, -2**31, -2**40):
            self.refuse(409, f"consumer generation conflict - expected 1 but got {sent}", "POST",
                        "/allocations", {
                            uuid: self.claim({self.rp: {"VCPU": 2}}, generation=sent)
                            for uuid in (C, D)}, code=CONCURRENT)
        self.assertEqual((1, 1), (self.consumer_generation(C), self.consumer_generation(D)))

    def test_refused_new_consumers_leave_nothing(self):
        bad = (
            (400, f"Allocation for resource provider '{MISSING}' that does not exist.",
             {MISSING: {"VCPU": 1}}),
            (400, f"Unable to allocate inventory for consumer {C}: No such resource class NOPE.",
             {self.rp: {"NOPE": 1}}),
            (409, f"Unable to allocate inventory: Inventory for 'MEMORY_MB' on resource provider "
                  f"'{self.rp}' invalid.", {self.rp: {"MEMORY_MB": 1}}),
            (409, "would violate inventory constraints.", {self.rp: {"VCPU": 7}}),
            (409, "would violate inventory constraints.", {self.rp: {"VCPU": 2**62}}),
            (409, "The requested amount would exceed the capacity.", {self.rp: {"DISK_GB": 101}}),
        )
        for status, detail, body in bad:
            self.refuse(status, detail, "PUT", self.at, self.claim(body))
        # Nor does taking away from somebody who has nothing.
        self.call("PUT", self.at, self.claim({}), status=204)
        self.call("PUT", self.at, self.claim({self.rp: {"VCPU": 1}}), status=204)
        self.assertEqual(1, self.consumer_generation(C))

    def test_several_consumers_at_once(self):
        self.call("PUT", self.at, self.claim({self.rp: {"DISK_GB": 80}}), status=204)
        # All that the named consumers held counts as free: C moves to D.
        self.call("POST", "/allocations", {
            C: self.claim({}, generation=1), D: self.claim({self.rp: {"DISK_GB": 90}})},
            status=204)
        held = self.call("GET", f"/resource_providers/{self.rp}/allocations", status=200).json
        self.assertEqual({D: {"resources": {"DISK_GB": 90}, "consumer_generation": 1}},
                         held["allocations"])
        self.refuse(409, "exceed the capacity", "POST", "/allocations", {
            C: self.claim({self.rp: {"VCPU": 1}}),
            MISSING: self.claim({self.rp: {"DISK_GB": 11}})})
        self.assertIsNone(self.consumer_generation(C))
        self.refuse(400, "No such resource class NOPE.", "POST", "/allocations",
                    {C: self.claim({self.rp: {"NOPE": 1}})})
        self.call("POST", "/allocations", {}, at=mv.ALLOCATIONS_DICT, status=404)

    def test_over_committed_may_shrink(self):
        self.call("PUT", self.at, self.claim({self.rp: {"DISK_GB": 80}}), status=204)
        self.call("PUT", f"/resource_providers/{self.rp}/inventories/DISK_GB", {
            "total": 50, "resource_provider_generation": 2}, status=200)
        self.call("PUT", self.at, self.claim({self.rp: {"DISK_GB": 70}}, generation=1), status=204)
        self.refuse(409, "exceed the capacity", "PUT", self.at,
                    self.claim({self.rp: {"DISK_GB": 71}}, generation=2))

    def test_deleted(self):
        self.refuse(404, f"No allocations for consumer '{C}'", "DELETE", self.at)
        self.call("PUT", self.at, self.claim({self.rp: {"VCPU": 1}}), status=204)
        self.call("DELETE", self.at, status=204)
        self.assertEqual({"allocations": {}}, self.call("GET", self.at, status=200).json)


@databases.on_each_database
class TestUsages(PlacementTestCase):
    def setUp(self):
        super().setUp()
        rp = self.provider("a", VCPU=100, DISK_GB=100)
        owners = (("INSTANCE", "ann", {"VCPU": 2, "DISK_GB": 5}),
                  ("INSTANCE", "bob", {"VCPU": 3}), ("MIGRATION", "ann", {"VCPU": 4}))
        for number, (kind, user, amounts) in enumerate(owners):
            self.call("PUT", f"/allocations/{C[:-1]}{number}", self.claim(
                {rp: amounts}, user=user, kind=kind), status=204)
        old = self.claim({rp: {"VCPU": 10}}, user="ann")
        del old["consumer_type"]
        self.call("PUT", f"/allocations/{D}", old, at=mv.REPARENTING, status=204)

    def test_sums(self):
        for query, version, usages in (
            ("", mv.PROJECT_USAGES, {"VCPU": 19, "DISK_GB": 5}),
            ("&user_id=bob", mv.REPARENTING, {"VCPU": 3}),
            ("&user_id=eve", mv.PROJECT_USAGES, {}),
            ("", mv.CONSUMER_TYPES, {
                "INSTANCE": {"VCPU": 5, "DISK_GB": 5, "consumer_count": 2},
                "MIGRATION": {"VCPU": 4, "consumer_count": 1},
                "unknown": {"VCPU": 10, "consumer_count": 1}}),
            ("&user_id=ann&consumer_type=all", mv.CONSUMER_TYPES, {
                "all": {"VCPU": 16, "DISK_GB": 5, "consumer_count": 3}}),
            ("&consumer_type=unknown", mv.CONSUMER_TYPES, {
                "unknown": {"VCPU": 10, "consumer_count": 1}}),
            ("&consumer_type=MIGRATION", mv.CONSUMER_TYPES, {
                "MIGRATION": {"VCPU": 4, "consumer_count": 1}}),
            ("&consumer_type=NONE", mv.CONSUMER_TYPES, {}),
            ("&consumer_type=all&user_id=eve", mv.CONSUMER_TYPES, {}),
        ):
            answer = self.call("GET", f"/usages?project_id=project{query}", at=version, status=200)
            self.assertEqual({"usages": usages}, answer.json, query)


@databases.on_each_database
class TestReshaper(PlacementTestCase):
    def setUp(self):
        super().setUp()
        self.root = self.provider("root", VCPU=8, DISK_GB=100)
        self.child = self.provider("child", self.root)
        self.call("PUT", f"/allocations/{C}", self.claim(
            {self.root: {"VCPU": 2, "DISK_GB": 10}}), status=204)

    def body(self, *, root_generation=2, root=None, allocations=None, generation=1):
        return {
            "inventories": {
                self.root: {"resource_provider_generation": root_generation,
                            "inventories": root or {"DISK_GB": {"total": 100}}},
                self.child: {"resource_provider_generation": 0,
                             "inventories": {"VCPU": {"total": 8}}}},
            "allocations": {C: self.claim(allocations or {
                self.root: {"DISK_GB": 10}, self.child: {"VCPU": 2}}, generation=generation)}}

    def test_moved(self):
        self.call("POST", "/reshaper", self.body(), at=mv.NESTED_CANDIDATES, status=404)
        self.call("POST", "/reshaper", self.body(), status=204)
        held = self.call("GET", f"/allocations/{C}").json
        self.assertEqual({self.root: {"DISK_GB": 10}, self.child: {"VCPU": 2}}, {
            uuid: each["resources"] for uuid, each in held["allocations"].items()})
        self.assertEqual(2, held["consumer_generation"])
        self.assertEqual(
            {"DISK_GB": 10},
            self.call("GET", f"/resource_providers/{self.root}/usages").json["usages"])
        # Twice for the inventories, once for the allocations.
        self.assertEqual((5, 3), (self.generation(self.root), self.generation(self.child)))

    def test_refusals(self):
        unknown = self.body()
        unknown["inventories"][MISSING] = unknown["inventories"].pop(self.child)
        for status, detail, body, code in (
            (400, f"Resource provider {MISSING} in inventories not found: ", unknown,
             "placement.resource_provider.not_found"),
            (409, f"resource provider generation conflict for provider {self.root}: actual: 2, "
                  "given: 4", self.body(root_generation=4), CONCURRENT),
            (409, f"resource provider generation conflict for provider {self.root}: actual: 2, "
                  f"given: {2**40}", self.body(root_generation=2**40), CONCURRENT),
            (409, f"resource provider generation conflict for provider {self.root}: actual: 2, "
                  "given: -1", self.body(root_generation=-1), CONCURRENT),
            (409, "consumer generation conflict - expected 1 but got -1",
             self.body(generation=-1), CONCURRENT),
            (400, "malformed reshaper data: ", self.body(root={"NOPE": {"total": 1}}),
             "placement.undefined_code"),
            (409, "update conflict: ", self.body(allocations={self.root: {"VCPU": 2}}),
             "placement.inventory.inuse"),
            (409, "Unable to allocate inventory: ", self.body(
                allocations={self.child: {"VCPU": 9}}), "placement.undefined_code"),
        ):
            self.refuse(status, detail, "POST", "/reshaper", body, code=code)
        self.assertEqual((2, 0), (self.generation(self.root), self.generation(self.child)))
        self.assertEqual(1, self.consumer_generation(C))
