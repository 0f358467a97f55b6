"""GET /allocation_candidates: what each microversion shows of the same search."""

from __future__ import annotations

from placement_core.http.placement_api import microversions as mv
from tests import databases
from tests.http.placement_api.cases import PlacementTestCase

C = "44444444-4444-4444-8444-444444444444"


@databases.on_each_database
class TestCandidates(PlacementTestCase):
    def setUp(self):
        super().setUp()
        self.rp = self.provider("a", VCPU={"total": 8, "allocation_ratio": 0.7}, DISK_GB=100)
        self.call("PUT", f"/resource_providers/{self.rp}/traits", {
            "traits": ["HW_CPU_X86_AVX"], "resource_provider_generation": 1}, status=200)

    def get(self, query, at=None):
        return self.call("GET", f"/allocation_candidates?{query}", at=at, status=200).json

    def test_every_age(self):
        self.call("GET", "/allocation_candidates?resources=VCPU:1", at=mv.PROJECT_USAGES,
                  status=404)
        listed = [{"resource_provider": {"uuid": self.rp}, "resources": {"VCPU": 1}}]
        keyed = {self.rp: {"resources": {"VCPU": 1}}}
        vcpu = {"VCPU": {"capacity": 5, "used": 0}}
        both = {**vcpu, "DISK_GB": {"capacity": 100, "used": 0}}
        for version, request, summary in (
            (mv.CANDIDATES, {"allocations": listed}, {"resources": vcpu}),
            (mv.ALLOCATIONS_DICT, {"allocations": keyed}, {"resources": vcpu}),
            (mv.CANDIDATES_TRAITS, {"allocations": keyed},
             {"resources": vcpu, "traits": ["HW_CPU_X86_AVX"]}),
            (mv.ALL_CLASSES, {"allocations": keyed},
             {"resources": both, "traits": ["HW_CPU_X86_AVX"]}),
            (mv.NESTED_CANDIDATES, {"allocations": keyed},
             {"resources": both, "traits": ["HW_CPU_X86_AVX"], "parent_provider_uuid": None,
              "root_provider_uuid": self.rp}),
            (mv.MAPPINGS, {"allocations": keyed, "mappings": {"": [self.rp]}},
             {"resources": both, "traits": ["HW_CPU_X86_AVX"], "parent_provider_uuid": None,
              "root_provider_uuid": self.rp}),
        ):
            self.assertEqual(
                {"allocation_requests": [request], "provider_summaries": {self.rp: summary}},
                self.get("resources=VCPU:1", version), version)

    def test_an_answer_can_be_sent_back(self):
        (request,) = self.get("resources=VCPU:5&resources_D=DISK_GB:7")["allocation_requests"]
        self.call("PUT", f"/allocations/{C}", {
            **request, "project_id": "p", "user_id": "u", "consumer_generation": None,
            "consumer_type": "INSTANCE"}, status=204)
        nothing = self.get("resources=VCPU:1")
        self.assertEqual({"allocation_requests": [], "provider_summaries": {}}, nothing)

    def test_nothing_fits(self):
        for query in ("resources=VCPU:6", "resources=VCPU:" + "9" * 40,
                      "resources=VCPU:1&required=!HW_CPU_X86_AVX",
                      f"resources=VCPU:1&member_of={C}", f"resources=VCPU:1&in_tree={C}",
                      "resources=VCPU:1&root_required=HW_CPU_X86_SSE"):
            self.assertEqual([], self.get(query)["allocation_requests"], query)

    def test_limits(self):
        for name in "bcd":
            self.provider(name, VCPU=1)
        for limit, count in ((1, 1), (3, 3), (99, 4), ("9" * 100, 4)):
            answer = self.get(f"resources=VCPU:1&limit={limit}")
            self.assertEqual(count, len(answer["allocation_requests"]))
            self.assertEqual(count, len(answer["provider_summaries"]))

    def test_refusals(self):
        for query, detail, code in (
            ("resources=NOPE:1", "Invalid resource class in resources parameter: No such resource "
                                 "class NOPE.", "placement.undefined_code"),
            ("resources=VCPU:1&required=NOPE", "No such trait(s): NOPE.",
             "placement.undefined_code"),
            ("resources=VCPU:1&root_required=!NOPE", "No such trait(s): NOPE.",
             "placement.undefined_code"),
            ("resources=VCPU:1&limit=abc&limit=1", "'abc' does not match",
             "placement.undefined_code"),
            ("required=HW_CPU_X86_AVX", "There must be at least one resources",
             "placement.query.missing_value"),
            ("resources=VCPU:1&root_required=A&root_required=B", "only once",
             "placement.query.duplicate_key"),
            ("resources=VCPU:1&same_subtree=_X", "Real suffixes should be specified",
             "placement.query.bad_value"),
            ("resources_A=VCPU:1&resources_B=VCPU:1", '"group_policy" parameter is required',
             "placement.undefined_code"),
        ):
            self.refuse(400, detail, "GET", f"/allocation_candidates?{query}", code=code)


class TestTooHard(PlacementTestCase):
    options = {("placement", "max_search_dead_ends"): 5_000}

    def test_packing_that_nobody_can_do_in_time_is_refused(self):
        root = self.provider("host", VCPU=1)
        for number in range(10):
            self.provider(f"device-{number}", root, PGPU=100)
        # 1000 in 30 amounts, all but one multiples of 3: they do not fill ten hundreds.
        amounts = [*(27, 30, 33, 36, 39) * 5, 30, 33, 33, 39, 40]
        query = "&".join(f"resources{at}=PGPU:{each}" for at, each in enumerate(amounts, 1))
        for path in ("/allocation_candidates", "/capacity/v1/explain/allocation_candidates"):
            self.refuse(400, "could be combined in too many ways that come to nothing",
                        "GET", f"{path}?{query}&group_policy=none")
