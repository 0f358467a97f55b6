"""Registered limits, limits and the model: what is answered, and what never happens."""

from __future__ import annotations

import threading

from tests import databases
from tests.http.limits_api.cases import NOBODY, LimitsTestCase, ScopedTestCase


@databases.on_each_database
class TestRegisteredLimits(LimitsTestCase):
    def test_life(self) -> None:
        made = self.registered(description="all of them")
        self.assertRegex(made["id"], "^[0-9a-f]{32}$")
        self.assertEqual({
            "id": made["id"], "service_id": self.service, "region_id": "RegionOne",
            "resource_name": "cores", "default_limit": 10, "description": "all of them",
            "links": {"self": f"http://localhost/v3/registered_limits/{made['id']}"},
        }, made)
        path = f"/registered_limits/{made['id']}"
        self.assertEqual({"registered_limit": made}, self.v3("GET", path, status=200).json)
        self.assertEqual({
            "registered_limits": [made],
            "links": {"next": None, "self": "http://localhost/v3/registered_limits",
                      "previous": None},
        }, self.v3("GET", "/registered_limits", status=200).json)
        changes = {"resource_name": "ram", "default_limit": 0, "description": None,
                   "region_id": None}
        changed = self.v3("PATCH", path, {"registered_limit": changes}, status=200).json
        self.assertEqual({"registered_limit": {**made, **changes}}, changed)
        self.assertEqual(changed, self.v3("GET", path).json)
        self.assertEqual(b"", self.v3("DELETE", path, status=204).body)
        for method in ("GET", "DELETE"):
            self.refused(404, made["id"], method, path)
        self.refused(404, made["id"], "PATCH", path, {"registered_limit": {}})

    def test_a_batch_is_all_or_nothing(self) -> None:
        names = ["cores", "ram", "disk", "servers"]

        def items(*wanted: str) -> dict[str, object]:
            return {"registered_limits": [
                {"service_id": self.service, "resource_name": name, "default_limit": 1}
                for name in wanted]}

        found = self.v3("POST", "/registered_limits", items(*names), status=201).json
        self.assertEqual({"registered_limits"}, set(found))
        self.assertEqual(names, [each["resource_name"] for each in found["registered_limits"]])
        for wanted in (("new", "cores"), ("new", "new")):
            self.refused(
                409, "Duplicate entry", "POST", "/registered_limits", items(*wanted))
        kept = self.v3("GET", "/registered_limits").json["registered_limits"]
        self.assertEqual(names, [each["resource_name"] for each in kept])

    def test_unique_without_a_region_too(self) -> None:
        """B1, and the same name in a region and without one."""
        self.registered()
        self.registered(region_id=None)
        for region in (None, "RegionOne"):
            self.refused(409, "Conflict occurred attempting to store registered_limit", "POST",
                         "/registered_limits", {"registered_limits": [{
                             "service_id": self.service, "region_id": region,
                             "resource_name": "cores", "default_limit": 3}]})

    def test_in_use(self) -> None:
        made = self.registered()
        self.limit(self.top)
        path = f"/registered_limits/{made['id']}"
        for changes in ({"default_limit": 11}, {"description": "new"}):
            self.refused(403, f"registered limit {made['id']} because there are project limits",
                         "PATCH", path, {"registered_limit": changes})
        self.refused(403, "project limits associated", "DELETE", path)
        self.v3("PATCH", path, {"registered_limit": {}}, status=200)

    def test_filters(self) -> None:
        other = self.make("services", "service", type="image", name="glance")["id"]
        self.registered("cores")
        self.registered("Cores", region_id=None)
        self.registered("ram")
        self.registered("cores", service_id=other)
        for query, names in (
            (f"service_id={self.service}", ["cores", "Cores", "ram"]),
            (f"service_id={NOBODY}", []),
            ("region_id=RegionOne", ["cores", "ram", "cores"]),
            ("region_id=None", []),
            ("resource_name=ram", ["ram"]),
            (f"service_id={other}&resource_name=cores", ["cores"]),
            (f"service_id={other}&resource_name=ram", []),
            ("resource_name__contains=ore", ["cores", "Cores", "cores"]),
            ("resource_name__startswith=c", ["cores", "cores"]),
            ("resource_name__istartswith=C", ["cores", "Cores", "cores"]),
            ("resource_name__endswith=m", ["ram"]),
            ("resource_name__icontains=CORE&region_id=RegionOne", ["cores", "cores"]),
            ("resource_name__contains=%25", []),
            ("resource_name__contains=_", []),
            ("resource_name=cores&resource_name=ram", []),
        ):
            found = self.v3("GET", f"/registered_limits?{query}", status=200).json
            self.assertEqual(
                names, [each["resource_name"] for each in found["registered_limits"]], query)
            self.assertTrue(found["links"]["self"].endswith(f"?{query}"))


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


class TestFlatModel(LimitsTestCase):
    def test_model(self) -> None:
        found = self.v3("GET", "/limits/model", status=200).json
        self.assertEqual({"model"}, set(found))
        self.assertEqual({"name", "description"}, set(found["model"]))
        self.assertEqual("flat", found["model"]["name"])

    def test_any_value_anywhere(self) -> None:
        self.registered()
        self.limit(None, 1, domain_id=self.domain)
        self.limit(self.top, 50)
        self.limit(self.middle, -1)


@databases.on_each_database
class TestStrictTwoLevel(LimitsTestCase):
    options = {("limits", "enforcement_model"): "strict_two_level"}

    def setUp(self) -> None:
        super().setUp()
        self.registered()

    def refused_limit(self, project: str, value: int) -> None:
        self.refused(403, "doesn't satisfy current hierarchy model", "POST", "/limits",
                     {"limits": [self.item(project, value)]})

    def test_model(self) -> None:
        self.assertEqual(
            "strict_two_level", self.v3("GET", "/limits/model").json["model"]["name"])

    def test_the_default_bounds_where_no_limit_is_above(self) -> None:
        self.refused_limit(self.top, 11)
        self.limit(self.top, 10)

    def test_b4_a_parent_of_zero(self) -> None:
        self.limit(None, 0, domain_id=self.domain)
        self.refused_limit(self.top, 7)
        self.limit(self.top, 0)

    def test_b5_a_parent_without_a_bound(self) -> None:
        made = self.limit(None, -1, domain_id=self.domain)
        self.limit(self.top, 7)
        self.v3("PATCH", f"/limits/{made['id']}", {"limit": {"resource_limit": 20}}, status=200)
        self.v3("PATCH", f"/limits/{made['id']}", {"limit": {"resource_limit": -1}}, status=200)

    def test_b6_a_child_without_a_bound(self) -> None:
        self.limit(None, 10, domain_id=self.domain)
        self.refused_limit(self.top, -1)

    def test_b7_the_parent_project_counts(self) -> None:
        self.limit(self.top, 5)
        self.refused_limit(self.middle, 8)
        self.limit(self.middle, 5)

    def test_the_refusal_names_the_project_it_clashes_with(self) -> None:
        self.limit(self.top, 5)
        self.refused(403, self.top, "POST", "/limits", {"limits": [self.item(self.middle, 8)]})

    def test_a_parent_in_the_same_body(self) -> None:
        items = [self.item(self.top, 20), self.item(None, 30, domain_id=self.domain)]
        self.refused(403, "", "POST", "/limits", {"limits": [self.item(self.side, 31), *items]})
        self.assertEqual([], self.listed())
        self.v3("POST", "/limits", {"limits": items}, status=201)

    def test_lowering_a_parent(self) -> None:
        made = self.limit(self.top, 8)
        child = self.limit(self.middle, 6)
        path, lower = f"/limits/{made['id']}", {"limit": {"resource_limit": 5}}
        self.refused(403, self.middle, "PATCH", path, lower)
        self.v3("PATCH", f"/limits/{child['id']}", lower, status=200)
        self.v3("PATCH", path, lower, status=200)

    def test_children_together_may_exceed(self) -> None:
        self.limit(None, 10, domain_id=self.domain)
        self.limit(self.top, 10)
        self.limit(self.side, 10)

    def test_a_move_keeps_the_tree_whole(self) -> None:
        self.limit(None, 30, domain_id=self.domain)
        self.limit(self.top, 20)
        self.limit(self.middle, 8)
        self.limit(self.side, 5)
        path = f"/projects/{self.middle}"
        self.refused(403, "hierarchy", "PATCH", path, {"project": {"parent_id": self.side}})
        shown = self.v3("GET", path).json["project"]
        self.assertEqual(self.top, shown["parent_id"])
        self.v3("PATCH", path, {"project": {"parent_id": None}}, status=200)

    def test_too_deep(self) -> None:
        deeper = {"project": {
            "name": "deep", "domain_id": self.domain, "parent_id": self.middle}}
        self.refused(403, "Max hierarchy depth reached", "POST", "/projects", deeper)


class TestAdvertised(LimitsTestCase):
    options = {("limits", "enforcement_model"): "tree", ("limits", "advertised_model"): "flat"}

    def test_clients_hear_of_another_model(self) -> None:
        """B13: what oslo.limit cannot read, it need not be told."""
        self.assertEqual("flat", self.v3("GET", "/limits/model").json["model"]["name"])
        self.registered()
        self.limit(self.top, 5)
        self.refused(403, "hierarchy", "POST", "/limits", {"limits": [self.item(self.middle, 6)]})


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


class TestSees(ScopedTestCase):
    """Who sees what: spec limits §2 and requirement L7."""

    options = {("limits", "enforcement_model"): "tree"}

    def fill(self) -> None:
        super().fill()
        self.other_domain = self.make("domains", "domain", name="other")["id"]
        self.registered()
        self.ids = {}
        for name, fields in (
            ("domain", {"domain_id": self.domain}), ("top", {"project_id": self.top}),
            ("middle", {"project_id": self.middle}), ("side", {"project_id": self.side}),
            ("other", {"domain_id": self.other_domain}),
        ):
            self.ids[name] = self.limit(None, 5, **fields)["id"]
        self.everything = {"domain", "top", "middle", "side", "other"}

    def cases(self):
        return (
            ({"roles": "admin", "project_id": self.side}, self.everything),
            ({"roles": "service", "project_id": self.side}, self.everything),
            ({"roles": "admin", "domain_id": self.other_domain}, self.everything),
            ({"roles": "reader", "system": "all"}, self.everything),
            ({"roles": "member", "domain_id": self.domain},
             {"domain", "top", "middle", "side"}),
            ({"roles": "member", "domain_id": self.other_domain}, {"other"}),
            ({"roles": "member", "project_id": self.top}, {"domain", "top", "middle"}),
            ({"roles": "member", "project_id": self.middle}, {"domain", "top", "middle"}),
            ({"roles": "reader", "project_id": self.side}, {"domain", "side"}),
            ({"roles": "", "project_id": self.side}, {"domain", "side"}),
            ({"roles": "member", "project_id": "unknown"}, set()),
            ({"roles": "member"}, set()),
        )

    def test_list_and_show(self) -> None:
        names = {id_: name for name, id_ in self.ids.items()}
        for who, seen in self.cases():
            found = self.v3("GET", "/limits", who=who, status=200).json["limits"]
            self.assertEqual(seen, {names[each["id"]] for each in found}, who)
            for name, id_ in self.ids.items():
                response = self.v3("GET", f"/limits/{id_}", who=who)
                self.assertEqual(
                    200 if name in seen else 403, response.status_int, (who, name))
                if name not in seen:
                    self.assert_document(403, "identity:get_limit", response)

    def test_others_by_filter(self) -> None:
        who = {"roles": "member", "project_id": self.side}
        for project, count in ((self.side, 1), (self.top, 0), (self.middle, 0)):
            found = self.v3(
                "GET", f"/limits?project_id={project}", who=who, status=200).json
            self.assertEqual(count, len(found["limits"]))
        found = self.v3(
            "GET", f"/limits?project_id={self.side}&project_id={self.top}", who=who).json
        self.assertEqual([], found["limits"])

    def test_what_everybody_sees(self) -> None:
        for who, _ in self.cases():
            for path in ("/limits/model", "/registered_limits", "/regions",
                         "/regions/RegionOne"):
                self.v3("GET", path, who=who, status=200)

    def test_projects_and_domains(self) -> None:
        for who, projects, domains in (
            ({"roles": "admin", "project_id": "x"}, {"top", "middle", "side"},
             {"cloud", "other"}),
            ({"roles": "member", "project_id": self.middle}, {"top", "middle"}, {"cloud"}),
            ({"roles": "member", "domain_id": self.other_domain}, set(), {"other"}),
            ({"roles": "member"}, set(), set()),
        ):
            for collection, expected in (("projects", projects), ("domains", domains)):
                found = self.v3("GET", f"/{collection}", who=who, status=200).json[collection]
                self.assertEqual(expected, {each["name"] for each in found}, who)
        who = {"roles": "member", "project_id": self.side}
        self.v3("GET", f"/projects/{self.side}", who=who, status=200)
        self.refused(403, "identity:get_project", "GET", f"/projects/{self.top}", who=who)
        self.refused(403, "identity:get_domain", "GET", f"/domains/{self.other_domain}", who=who)


class TestFlatSight(ScopedTestCase):
    def test_what_does_not_bind_is_not_shown(self) -> None:
        self.registered()
        for project in (self.top, self.middle):
            self.limit(project)
        for project, seen in ((self.top, 2), (self.middle, 1)):
            found = self.v3(
                "GET", "/limits", who={"roles": "member", "project_id": project}).json
            self.assertEqual(seen, len(found["limits"]))


class TestMay(ScopedTestCase):
    """Who may do what."""

    def test_writes(self) -> None:
        registered = self.registered()
        made = self.limit(self.top)
        operations = (
            ("POST", "/registered_limits", {"registered_limits": [{}]}),
            ("PATCH", f"/registered_limits/{registered['id']}", {"registered_limit": {"x": 1}}),
            ("DELETE", f"/registered_limits/{NOBODY}", None),
            ("POST", "/limits", {"limits": [{}]}),
            ("PATCH", f"/limits/{made['id']}", {"limit": {"x": 1}}),
            ("DELETE", f"/limits/{NOBODY}", None),
            ("POST", "/regions", {"region": {"x": 1}}),
            ("PATCH", "/regions/RegionOne", {"region": {"x": 1}}),
            ("DELETE", f"/regions/{NOBODY}", None),
            ("POST", "/services", {"service": {}}),
            ("PATCH", f"/services/{self.service}", {"service": {"x": 1}}),
            ("DELETE", f"/services/{NOBODY}", None),
            ("POST", "/endpoints", {"endpoint": {}}),
            ("PATCH", f"/endpoints/{NOBODY}", {"endpoint": {"x": 1}}),
            ("DELETE", f"/endpoints/{NOBODY}", None),
            ("POST", "/domains", {"domain": {}}),
            ("PATCH", f"/domains/{self.domain}", {"domain": {"x": 1}}),
            ("DELETE", f"/domains/{NOBODY}", None),
            ("POST", "/projects", {"project": {}}),
            ("PATCH", f"/projects/{self.top}", {"project": {"x": 1}}),
            ("DELETE", f"/projects/{NOBODY}", None),
        )
        for who, passes in (
            ({"roles": "admin", "project_id": "p"}, True),
            ({"roles": "admin", "system": "all"}, True),
            ({"roles": "admin", "domain_id": self.domain}, False),
            ({"roles": "service", "project_id": "p"}, False),
            ({"roles": "member,reader", "project_id": self.top}, False),
            ({"roles": "reader", "system": "all"}, False),
            ({"roles": ""}, False),
        ):
            for method, path, body in operations:
                response = self.v3(method, path, body, who=who)
                # Who may, gets to hear what is wrong with the request.
                expected = {400, 404} if passes else {403}
                self.assertIn(response.status_int, expected, (who, method, path))
                if not passes:
                    self.assert_document(403, "not authorized to perform", response)

    def test_the_catalog_is_for_services_to_read(self) -> None:
        for who, passes in (
            ({"roles": "admin", "project_id": "p"}, True),
            ({"roles": "service", "project_id": "p"}, True),
            ({"roles": "reader", "system": "all"}, True),
            ({"roles": "member,reader", "project_id": self.top}, False),
            ({"roles": "reader", "domain_id": self.domain}, False),
        ):
            for path in ("/services", f"/services/{self.service}", "/endpoints"):
                self.v3("GET", path, who=who, status=200 if passes else 403)
            self.v3("GET", f"/endpoints/{NOBODY}", who=who, status=404 if passes else 403)

    def test_other_scopes_stay_out_of_the_other_trees(self) -> None:
        for headers in ({"X-Domain-Id": self.domain}, {"OpenStack-System-Scope": "all"}):
            for path in ("/resource_providers", "/capacity/v1/limits/users"):
                response = self.ask("GET", path, token=None, headers={
                    "X-User-Id": "u", "X-Roles": "admin", **headers})
                self.assertEqual(403, response.status_int)
