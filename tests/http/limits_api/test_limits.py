"""Limits of projects and domains: what is answered, and what never happens."""

from __future__ import annotations

import threading

from tests import databases
from tests.http.limits_api.cases import NOBODY, LimitsTestCase


@databases.on_each_database
class TestLimits(LimitsTestCase):
    def test_life(self) -> None:
        self.registered()
        made = self.limit(self.top, description="for the summer")
        self.assertEqual({
            "id": made["id"], "project_id": self.top, "domain_id": None,
            "service_id": self.service, "region_id": "RegionOne", "resource_name": "cores",
            "resource_limit": 5, "description": "for the summer",
            "links": {"self": f"http://localhost/v3/limits/{made['id']}"},
        }, made)
        path = f"/limits/{made['id']}"
        self.assertEqual({"limit": made}, self.v3("GET", path, status=200).json)
        self.assertEqual({
            "limits": [made],
            "links": {"next": None, "self": "http://localhost/v3/limits", "previous": None},
        }, self.v3("GET", "/limits", status=200).json)
        changed = self.v3("PATCH", path, {"limit": {"resource_limit": 7}}, status=200).json
        self.assertEqual({"limit": {**made, "resource_limit": 7}}, changed)
        self.v3("DELETE", path, status=204)
        for method in ("GET", "DELETE"):
            self.refused(404, made["id"], method, path)
        self.refused(404, made["id"], "PATCH", path, {"limit": {"resource_limit": 1}})

    def test_b3_zero_null_and_empty_are_values(self) -> None:
        self.registered()
        made = self.limit(self.top, description="text")
        path = f"/limits/{made['id']}"
        for changes in ({"resource_limit": 0}, {"description": ""}, {"description": None},
                        {"resource_limit": -1}, {}):
            shown = self.v3("PATCH", path, {"limit": changes}, status=200).json["limit"]
            made |= changes
            self.assertEqual(made, shown)
            self.assertEqual(made, self.v3("GET", path).json["limit"])

    def test_b10_a_show_is_never_stale_nor_has_more_members(self) -> None:
        self.registered()
        made = self.limit(self.top)
        path = f"/limits/{made['id']}"
        for value in (6, 7):
            self.v3("GET", path, status=200)
            self.v3("PATCH", path, {"limit": {"resource_limit": value}}, status=200)
            self.assertEqual(
                {**made, "resource_limit": value}, self.v3("GET", path).json["limit"])

    def test_a_batch_is_all_or_nothing(self) -> None:
        self.registered()
        for last, status in (
            (self.item(self.top), 409), (self.item(NOBODY), 400),
            (self.item(self.side, resource_name="disc"), 403),
            (self.item(self.side, region_id=None), 403),
        ):
            body = {"limits": [self.item(self.top), self.item(self.middle), last]}
            self.refused(status, "", "POST", "/limits", body)
            self.assertEqual([], self.listed())
        found = self.v3("POST", "/limits", {"limits": [
            self.item(each) for each in (self.side, self.top, self.middle)]}, status=201).json
        self.assertEqual({"limits"}, set(found))
        self.assertEqual([self.side, self.top, self.middle],
                         [each["project_id"] for each in found["limits"]])

    def test_what_was_never_registered(self) -> None:
        self.registered()
        self.refused(403, "no corresponding registered limit", "POST", "/limits",
                     {"limits": [self.item(self.top, resource_name="disc")]})

    def test_duplicates(self) -> None:
        self.registered()
        self.limit(self.top)
        self.refused(409, "Conflict occurred attempting to store limit - Duplicate entry",
                     "POST", "/limits", {"limits": [self.item(self.top, 6)]})

    def test_filters(self) -> None:
        self.registered()
        self.registered("ram")
        self.limit(self.top, 1)
        self.limit(self.side, 2, resource_name="ram")
        self.limit(None, 3, domain_id=self.domain)
        for query, values in (
            ("", [1, 2, 3]), (f"project_id={self.top}", [1]),
            (f"project_id={self.domain}", []), (f"domain_id={self.domain}", [3]),
            (f"domain_id={self.top}", []), ("resource_name=ram", [2]),
            (f"project_id={self.top}&resource_name=ram", []),
            (f"project_id={NOBODY}", []), ("region_id=RegionTwo", []),
            (f"service_id={self.service}&region_id=RegionOne", [1, 2, 3]),
            (f"project_id__startswith={self.top[:8]}", [1]),
            (f"project_id={self.top}&project_id={self.side}", []),
        ):
            self.assertEqual(values, [value for _, value in self.listed(f"?{query}")], query)

    def test_b12_deletions_leave_nothing(self) -> None:
        self.registered()
        self.limit(self.middle, 1)
        self.limit(None, 3, domain_id=self.domain)
        self.v3("DELETE", f"/projects/{self.middle}", status=204)
        self.assertEqual([(self.domain, 3)], self.listed())
        self.limit(self.side, 4)
        self.v3("PATCH", f"/domains/{self.domain}", {"domain": {"enabled": False}}, status=200)
        self.v3("DELETE", f"/domains/{self.domain}", status=204)
        self.assertEqual([], self.listed())
        self.v3("DELETE", f"/services/{self.service}", status=204)
        self.assertEqual(
            [], self.v3("GET", "/registered_limits").json["registered_limits"])

    def test_a_region_takes_its_limits_along(self) -> None:
        self.registered()
        self.registered(region_id=None)
        self.limit(self.top)
        self.v3("DELETE", "/regions/RegionOne", status=204)
        self.assertEqual([], self.listed())
        (left,) = self.v3("GET", "/registered_limits").json["registered_limits"]
        self.assertIsNone(left["region_id"])


@databases.on_each_database
class TestRaces(LimitsTestCase):
    """What is decided is decided in the transaction that writes it."""

    options = {("limits", "enforcement_model"): "strict_two_level"}

    def at_once(self, *requests: tuple[str, str, object]) -> list[int]:
        """Send requests at the same time; return their statuses, sorted."""
        statuses: list[int] = []
        together = threading.Barrier(len(requests))

        def send(method: str, path: str, body: object) -> None:
            together.wait()
            statuses.append(self.v3(method, path, body).status_int)

        threads = [threading.Thread(target=send, args=request) for request in requests]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(statuses)

    def test_b1_one_of_eight_equal_requests_wins(self) -> None:
        for region in (self.region, None):
            registered = {"registered_limits": [{
                "service_id": self.service, "region_id": region, "resource_name": "cores",
                "default_limit": 10}]}
            for path, body in (
                ("/registered_limits", registered),
                ("/limits", {"limits": [self.item(self.top, region_id=region)]}),
            ):
                self.assertEqual(
                    [201] + [409] * 7, self.at_once(*[("POST", path, body)] * 8))
        self.assertEqual([(self.top, 5)] * 2, self.listed())

    def test_b11_a_parent_is_lowered_while_its_child_is_raised(self) -> None:
        self.registered()
        parent, child = self.limit(self.top, 8), self.limit(self.middle, 3)
        for _ in range(5):
            self.at_once(
                ("PATCH", f"/limits/{parent['id']}", {"limit": {"resource_limit": 4}}),
                ("PATCH", f"/limits/{child['id']}", {"limit": {"resource_limit": 6}}))
            values = dict(self.listed())
            self.assertLessEqual(values[self.middle], values[self.top])
            self.v3("PATCH", f"/limits/{child['id']}", {"limit": {"resource_limit": 3}},
                    status=200)
            self.v3("PATCH", f"/limits/{parent['id']}", {"limit": {"resource_limit": 8}},
                    status=200)
