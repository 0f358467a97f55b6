"""/capacity/v1/limits/…: limits of users, history, effective limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib import parse

import webob

from placement_core.context import Context
from placement_core.http.capacity_api.views import user_limits
from placement_core.plugin_api.catalog import Node
from placement_core.plugin_api.limits import EffectiveLimits
from tests import databases
from tests.http.limits_api.cases import NOBODY, LimitsTestCase


class CapacityTestCase(LimitsTestCase):
    def capacity(
        self, method: str, path: str, body: Any = None, *, status: int | None = None,
        **options: Any,
    ) -> webob.Response:
        """Send one request; ``path`` is below /capacity/v1/limits."""
        response = self.ask(
            method, f"/capacity/v1/limits{path}", body, version=None, **options)
        if status is not None:
            self.assertEqual(status, response.status_int, f"{path}: {response.text}")
        return response

    def user_limit(self, user: str = "bob", value: int = 3, **fields: Any) -> dict[str, Any]:
        (made,) = self.capacity("POST", "/users", {"user_limits": [
            {**self.item(self.top, value), "user_id": user, **fields}]}, status=201,
        ).json["user_limits"]
        return made


@databases.on_each_database
class TestUserLimits(CapacityTestCase):
    def fill(self) -> None:
        super().fill()
        self.registered()

    def test_life(self) -> None:
        made = self.user_limit()
        self.assertEqual({
            "id": made["id"], "project_id": self.top, "user_id": "bob",
            "service_id": self.service, "region_id": "RegionOne", "resource_name": "cores",
            "resource_limit": 3, "description": None}, made)
        path = f"/users/{made['id']}"
        self.assertEqual({"user_limit": made}, self.capacity("GET", path, status=200).json)
        self.assertEqual({"user_limits": [made], "links": {"next": None}},
                         self.capacity("GET", "/users", status=200).json)
        for changes in ({"resource_limit": 0}, {"description": ""}, {"description": None}, {}):
            made |= changes
            self.assertEqual({"user_limit": made}, self.capacity(
                "PATCH", path, {"user_limit": changes}, status=200).json)
        self.capacity("DELETE", path, status=204)
        self.assert_refused(404, made["id"], self.capacity("GET", path),
                            "limits.user_limit.not_found")

    def test_pages(self) -> None:
        """So many at a time, also where nobody said how many."""
        made = [self.user_limit(user) for user in ("ann", "bob", "eve")]
        self.patch(user_limits, "_PAGE", 2)
        first = self.capacity("GET", "/users", status=200).json
        self.assertEqual(made[:2], first["user_limits"])
        rest = self.capacity(
            "GET", "/users?" + first["links"]["next"].partition("?")[2], status=200).json
        self.assertEqual({"user_limits": made[2:], "links": {"next": None}}, rest)

    def test_keystone_clients_do_not_see_them(self) -> None:
        self.user_limit()
        self.assertEqual([], self.listed())

    def test_refused(self) -> None:
        self.user_limit()
        item = {**self.item(self.top), "user_id": "bob"}
        for fields, status in (
            ({}, 409), ({"project_id": NOBODY}, 400), ({"resource_name": "disc"}, 403),
            ({"service_id": NOBODY}, 400), ({"region_id": "nowhere"}, 400),
            ({"user_id": ""}, 400), ({"user_id": None}, 400), ({"user_id": "x" * 256}, 400),
            ({"resource_limit": -2}, 400), ({"domain_id": self.domain}, 400),
            ({"resource_limit": True}, 400),
        ):
            response = self.capacity("POST", "/users", {"user_limits": [{**item, **fields}]})
            self.assert_refused(status, "", response)
            self.assertIn("code", response.json["errors"][0])
        for path in ("", "?limit=0", "?bogus=1", "?project_id=a/b", "?resource_name__contains=x"):
            self.capacity("GET", f"/users{path}", status=400 if path else 200)

    def test_filters_and_pages(self) -> None:
        for user in ("a", "b", "c"):
            self.user_limit(user)
        for query, users in ((f"project_id={self.top}", "abc"), (f"project_id={self.side}", ""),
                             ("user_id=b", "b"), ("user_id=b&resource_name=ram", "")):
            found = self.capacity("GET", f"/users?{query}", status=200).json["user_limits"]
            self.assertEqual(users, "".join(each["user_id"] for each in found))
        path, seen = f"/users?limit=2&project_id={self.top}", ""
        while path:
            found = self.capacity("GET", path, status=200).json
            seen += "".join(each["user_id"] for each in found["user_limits"])
            following = found["links"]["next"]
            path = following and following.removeprefix("/capacity/v1/limits")
        self.assertEqual("abc", seen)


class TestUserLimitsPolicy(CapacityTestCase):
    def test_policy(self) -> None:
        self.registered()
        made = self.user_limit()
        own, other = f"project_id={self.top}", f"project_id={self.side}"
        for roles, reads, reads_own, writes in (
            ("admin", 200, 200, 200), ("service", 200, 200, 403), ("reader", 403, 200, 403),
            ("member", 403, 403, 403),
        ):
            asked = {"token": f"eve:{self.top}", "headers": {"X-Roles": roles}}
            for path in (f"/users?{other}", "/users", f"/history?{other}", "/history"):
                self.capacity("GET", path, status=reads, **asked)
            for path in (f"/users?{own}", f"/history?{own}"):
                self.capacity("GET", path, status=reads_own, **asked)
            for path in (f"/users/{made['id']}", f"/effective?service_id={self.service}&{own}"):
                self.capacity("GET", path, status=reads, **asked)
            self.capacity("PATCH", f"/users/{made['id']}", {"user_limit": {}},
                          status=writes, **asked)
            self.capacity("POST", "/users", {"user_limits": []},
                          status=400 if writes == 200 else 403, **asked)
            self.capacity("DELETE", f"/users/{NOBODY}",
                          status=404 if writes == 200 else 403, **asked)


@databases.on_each_database
class TestHistory(CapacityTestCase):
    def changes(self, query: str = "") -> list[Any]:
        found = self.capacity("GET", f"/history{query}", status=200).json["changes"]
        return [(each["action"], each["kind"], each["old_value"], each["new_value"])
                for each in found]

    def test_who_changed_what(self) -> None:
        registered = self.registered()
        made = self.limit(self.top, 5)
        response = self.v3("PATCH", f"/limits/{made['id']}", {"limit": {"resource_limit": 7}},
                           token="admin:ops")
        self.v3("PATCH", f"/limits/{made['id']}", {"limit": {"resource_limit": 9999999999}})
        self.v3("DELETE", f"/limits/{made['id']}", status=204)
        self.user_limit("bob", 3)
        everything = [
            ("created", "user_limit", None, 3), ("deleted", "limit", 7, None),
            ("updated", "limit", 5, 7), ("created", "limit", None, 5),
            ("created", "registered_limit", None, 10)]
        self.assertEqual(everything, self.changes())
        for query, places in (
            (f"?project_id={self.top}", (0, 1, 2, 3)), (f"?project_id={self.side}", ()),
            ("?kind=registered_limit", (4,)), (f"?limit_id={registered['id']}", (4,)),
            ("?resource_name=ram", ()), (f"?service_id={self.service}&user_id=bob", (0,)),
            ("?region_id=RegionOne&kind=limit", (1, 2, 3)), (f"?domain_id={self.domain}", ()),
        ):
            self.assertEqual([everything[place] for place in places], self.changes(query), query)
        change = self.capacity("GET", "/history?kind=limit").json["changes"][1]
        self.assertEqual(("admin", "ops", response.headers["x-openstack-request-id"]), tuple(
            change[name] for name in ("by_user_id", "by_project_id", "request_id")))
        self.assertRegex(change["at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*\+00:00$")
        self.assertEqual((made["id"], self.top, None, "cores"), tuple(
            change[name] for name in ("limit_id", "project_id", "domain_id", "resource_name")))

    def test_pages(self) -> None:
        for number in range(5):
            self.registered(f"r{number}")
        path, seen = "/history?limit=2&kind=registered_limit", []
        while path:
            found = self.capacity("GET", path, status=200).json
            seen += [each["resource_name"] for each in found["changes"]]
            following = found["links"]["next"]
            path = following and following.removeprefix("/capacity/v1/limits")
        self.assertEqual([f"r{number}" for number in (4, 3, 2, 1, 0)], seen)

    def test_bad_queries(self) -> None:
        for query in ("kind=bogus", "marker=x", "marker=999999", "limit=0", "bogus=1",
                      "project_id="):
            self.assert_refused(400, "", self.capacity("GET", f"/history?{query}"))


@databases.on_each_database
class TestEffective(CapacityTestCase):
    options = {("limits", "enforcement_model"): "tree"}

    def fill(self) -> None:
        super().fill()
        self.registered("cores", 10)
        self.registered("ram", -1)
        self.registered("disk", 3, region_id=None)

    def effective(self, **query: str) -> dict[str, Any]:
        query = {"service_id": self.service, "region_id": "RegionOne", **query}
        text = "&".join(f"{name}={value}" for name, value in query.items())
        return self.capacity("GET", f"/effective?{text}", status=200).json

    def test_everything_at_once(self) -> None:
        self.limit(None, 50, domain_id=self.domain)
        self.limit(self.middle, 0)
        self.limit(self.middle, -1, resource_name="ram")
        self.limit(self.side, 7)
        found = self.effective(project_id=self.middle)
        self.assertEqual({"model", "lineage", "defaults", "limits", "subtrees"}, set(found))
        self.assertEqual("tree", found["model"])
        self.assertEqual([
            {"id": self.domain, "parent_id": None, "is_domain": True},
            {"id": self.top, "parent_id": self.domain, "is_domain": False},
            {"id": self.middle, "parent_id": self.top, "is_domain": False},
        ], found["lineage"])
        self.assertEqual({"cores": 10, "ram": -1}, found["defaults"])
        self.assertEqual({
            self.domain: {"cores": 50}, self.middle: {"cores": 0, "ram": -1}}, found["limits"])
        self.assertEqual({self.domain, self.middle}, set(found["subtrees"]))
        self.assertEqual([self.middle], found["subtrees"][self.middle])
        self.assertEqual(
            {self.top, self.middle, self.side}, set(found["subtrees"][self.domain]))

    def test_a_subtree_in_the_middle(self) -> None:
        self.limit(self.top, 5)
        found = self.effective(project_id=self.middle)
        self.assertEqual({self.top: [self.top, self.middle]}, found["subtrees"])
        self.assertEqual({}, self.effective(project_id=self.side)["subtrees"])

    def test_limits_that_are_set_for_what_is_not_registered(self) -> None:
        """Limit drivers of others may have them; clients need what counts against them, too."""
        self.patch(self.services.limits, "effective", lambda *_, **__: EffectiveLimits(
            {}, {self.top: {"gpus": 5}}))
        answer = self.effective(project_id=self.middle)
        self.assertEqual({self.top: {"gpus": 5}}, answer["limits"])
        self.assertEqual({self.top: [self.top, self.middle]}, answer["subtrees"])

    def test_without_a_region(self) -> None:
        found = self.capacity(
            "GET", f"/effective?service_id={self.service}&project_id={self.top}").json
        self.assertEqual({"disk": 3}, found["defaults"])

    def test_a_region_called_none_is_not_no_region(self) -> None:
        """Nor is a project; some clients send None for what they leave out."""
        for name, without in (
                ("region_id", {"disk": 3}), ("project_id", {"cores": 10, "ram": -1})):
            query = {"service_id": self.service, "region_id": "RegionOne", "project_id": self.top}
            del query[name]
            called_none, left_out = (
                self.capacity("GET", f"/effective?{parse.urlencode(fields)}", status=200)
                for fields in ({**query, name: None}, query))
            self.assertNotEqual(called_none.headers["ETag"], left_out.headers["ETag"])
            self.assertNotEqual(called_none.json, left_out.json)
            self.assertEqual(without, left_out.json["defaults"])

    def test_without_a_project(self) -> None:
        found = self.effective()
        self.assertEqual(([], {"cores": 10, "ram": -1}, {}, {}), tuple(
            found[name] for name in ("lineage", "defaults", "limits", "subtrees")))

    def test_what_nobody_knows(self) -> None:
        found = self.effective(project_id="unknown", service_id=NOBODY)
        self.assertEqual([{"id": "unknown", "parent_id": None, "is_domain": False}],
                         found["lineage"])
        self.assertEqual(({}, {}), (found["defaults"], found["limits"]))

    def test_statements(self) -> None:
        self.limit(None, 50, domain_id=self.domain)
        self.limit(self.top, 5)
        self.limit(self.middle, 4)
        # What changed, the lineage, the limits, the highest subtree.
        self.assertEqual(4, self.trips.of(self.effective, project_id=self.middle))
        self.assertEqual(1, self.trips.of(self.effective, project_id=self.middle))

    def test_a_project_that_moves_meanwhile(self) -> None:
        """It moves between the read of its lineage and that of the subtree."""
        self.limit(self.top, 5)
        self.limit(self.middle, 4)
        read, tops = self.services.catalog.subtree, []

        def move_and_read(ctx: Context, node_id: str) -> Sequence[Node]:
            tops.append(node_id)
            if len(tops) == 1:
                self.v3("PATCH", f"/projects/{self.middle}", {
                    "project": {"parent_id": self.side}}, status=200)
            return read(ctx, node_id)

        self.patch(self.services.catalog, "subtree", move_and_read)
        found = self.effective(project_id=self.middle)
        self.assertEqual([self.top, self.middle], tops)
        self.assertEqual(
            [self.domain, self.side, self.middle], [node["id"] for node in found["lineage"]])
        self.assertEqual({self.middle: {"cores": 4}}, found["limits"])
        self.assertEqual({self.middle: [self.middle]}, found["subtrees"])

    def test_a_subtree_that_is_older_than_the_project(self) -> None:
        """As a remote catalog may have it for a while: the project counts all the same."""
        self.limit(self.top, 5)
        self.patch(self.services.catalog, "subtree", lambda _ctx, id_: (Node(id_, self.domain),))
        self.assertEqual({self.top: [self.top, self.middle]},
                         self.effective(project_id=self.middle)["subtrees"])
        self.assertEqual({self.top: [self.top]}, self.effective(project_id=self.top)["subtrees"])

    def test_bad_queries(self) -> None:
        for query in ("", "service_id=", "service_id=x&bogus=1", "service_id=x&region_id=",
                      "service_id=x&project_id=a/b"):
            self.assert_refused(400, "", self.capacity("GET", f"/effective?{query}"))


class TestFlatEffective(CapacityTestCase):
    def test_no_subtrees(self) -> None:
        self.registered()
        self.limit(self.middle, 4)
        found = self.capacity(
            "GET", f"/effective?service_id={self.service}&region_id=RegionOne&"
            f"project_id={self.middle}", status=200).json
        self.assertEqual(("flat", {}, {self.middle: {"cores": 4}}), tuple(
            found[name] for name in ("model", "subtrees", "limits")))
