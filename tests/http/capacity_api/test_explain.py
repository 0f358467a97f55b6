"""GET /capacity/v1/explain/allocation_candidates."""

from __future__ import annotations

from typing import Any

import webob

from placement_core.http.placement_api import microversions as mv
from placement_core.placement.candidates import explain
from tests import databases
from tests.http.placement_api.cases import PlacementTestCase
from tests.http.placement_api.sweeps import WRONG_QUERY_VALUES

PATH = "/capacity/v1/explain/allocation_candidates"


class ExplainTestCase(PlacementTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = self.provider("host-17", VCPU={"total": 64, "reserved": 16}, DISK_GB=100)
        self.provider("host-18", VCPU=8)

    def explain(self, query: str, **options: Any) -> webob.Response:
        """Ask for the newest explanation, as somebody who may."""
        return self.ask("GET", f"{PATH}?{query}", version=None, **options)


@databases.on_each_database
class TestExplain(ExplainTestCase):
    def test_nothing_fits(self) -> None:
        response = self.explain("resources=VCPU:64")
        self.assertEqual(200, response.status_int)
        self.assertEqual("application/json", response.content_type)
        filtered = [{"filter": "resources", "value": "VCPU:64", "left": 0}]
        self.assertEqual({
            "candidates": 0,
            "cut": None,
            "limit": None,
            "reason": "no host has 64 free VCPU; the most is 48, on host-17",
            "providers": 2,
            "groups": [{"group": "", "filters": filtered}],
            "trees": {"total": 2, "filters": filtered},
            "combinations": {
                "examined": 0, "complete": True,
                "dropped": {
                    "isolate": 0, "same_subtree": 0, "one_provider_per_tree": 0,
                    "required": 0, "capacity": 0}},
        }, response.json)

    def test_something_fits(self) -> None:
        found = self.explain("resources_A=VCPU:4&resources_B=VCPU:4&group_policy=none&limit=1")
        self.assertEqual(
            (1, 1, None, 2), tuple(found.json[name] for name in (
                "candidates", "limit", "reason", "providers")))

    def test_more_than_are_counted(self) -> None:
        self.patch(explain, "MOST_COUNTED", 1)
        found = self.explain("resources=VCPU:4").json
        self.assertEqual((1, "no more than 1 candidates are counted"),
                         (found["candidates"], found["cut"]))
        self.assertIsNone(self.explain("resources=VCPU:4&limit=1").json["cut"])

    def test_a_write_is_seen(self) -> None:
        self.provider("host-19", VCPU=100)
        self.assertEqual(1, self.explain("resources=VCPU:64").json["candidates"])


class TestAsAnApi(ExplainTestCase):
    def test_microversions(self) -> None:
        """Without a header the newest; with one, the query is read as of then."""
        query = "resources=VCPU:1&required=in:HW_CPU_X86_AVX,HW_CPU_X86_AVX2"
        response = self.explain(query)
        self.assertEqual(200, response.status_int)
        self.assertEqual("placement 1.39", response.headers["OpenStack-API-Version"])
        self.refuse(400, "only supported since microversion", "GET", f"{PATH}?{query}",
                    at=mv.CONSUMER_TYPES)
        self.call("GET", f"{PATH}?resources=VCPU:1", at=mv.CANDIDATES, status=200)
        self.refuse(404, "could not be found", "GET", f"{PATH}?resources=VCPU:1",
                    at=mv.PROJECT_USAGES)
        self.assert_refused(406, "Unacceptable version header: 1.40", self.ask(
            "GET", f"{PATH}?resources=VCPU:1", version="1.40"), "placement.undefined_code")

    def test_one_provider_of_a_tree(self) -> None:
        self.provider("gpu", self.host, VGPU=1)
        query = "resources=VCPU:1,VGPU:1"
        self.assertEqual(1, self.explain(query).json["candidates"])
        found = self.call("GET", f"{PATH}?{query}", at=mv.ALL_CLASSES, status=200).json
        self.assertEqual(0, found["candidates"])
        self.assertIn("several providers of one tree", found["reason"])

    def test_policy(self) -> None:
        for roles, status in (("admin", 200), ("service", 200), ("member,reader", 403)):
            response = self.explain(
                "resources=VCPU:1", token="bob:one", headers={"X-Roles": roles})
            self.assertEqual(status, response.status_int, roles)
        self.assert_refused(
            403, "Policy does not allow capacity:explain:allocation_candidates", response,
            "placement.undefined_code")
        self.assertEqual(401, self.explain("resources=VCPU:1", token=None).status_int)

    def test_bad_queries(self) -> None:
        for query, detail, code in (
            ("", "There must be at least one resources", "placement.query.missing_value"),
            ("resources=NOPE:1", "No such resource class NOPE", "placement.undefined_code"),
            ("resources=VCPU:1&required=NOPE", "No such trait(s): NOPE",
             "placement.undefined_code"),
            ("resources=VCPU:1&bogus=1", "'bogus'", "placement.undefined_code"),
            ("resources=VCPU:%ff", "not UTF-8", "placement.undefined_code"),
            ("resources_A=VCPU:1&resources_B=VCPU:1", '"group_policy" parameter is required',
             "placement.undefined_code"),
        ):
            self.assert_refused(400, detail, self.explain(query), code)

    def test_whatever_a_query_holds(self) -> None:
        """It is explained or refused, as the Placement API answers or refuses it."""
        for name in ("resources", "resources_A", "required", "required_A", "member_of",
                     "in_tree", "limit", "group_policy", "root_required", "same_subtree"):
            for value in WRONG_QUERY_VALUES:
                query = f"resources=VCPU:1&resources_A=VCPU:1&{name}={value}"
                answered = self.ask("GET", f"/allocation_candidates?{query}").status_int
                explained = self.explain(query)
                self.assertEqual(answered, explained.status_int, query)
                self.assertIn(answered, (200, 400), query)

    def test_methods_and_media(self) -> None:
        for method in ("POST", "PUT", "DELETE"):
            response = self.ask(method, PATH)
            self.assert_refused(405, f"The method {method} is not allowed", response)
            self.assertEqual("GET", response.headers["Allow"])
        response = self.explain("resources=VCPU:1", headers={"Accept": "text/plain"})
        self.assertEqual((406, "text/plain"), (response.status_int, response.content_type))

    def test_other_paths(self) -> None:
        for path in ("/capacity/v1/", "/capacity/v1/explain", f"{PATH}/"):
            self.assert_refused(
                404, "could not be found", self.ask("GET", path), "placement.undefined_code")
        self.assertEqual("placement 1.0", self.ask("GET", "/capacity", version=None).headers[
            "OpenStack-API-Version"])

    def test_bounded(self) -> None:
        self.conf.set_override("max_allocation_candidates", 1, "placement")
        found = self.explain("resources=VCPU:1&limit=5").json
        self.assertEqual((1, 1), (found["candidates"], found["limit"]))
