"""Who sees which limits, projects and domains, and who may write."""

from __future__ import annotations

from tests.http.limits_api.cases import NOBODY, ScopedTestCase


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
            # As in Keystone, where an administrator of a domain is shown any one of them.
            ({"roles": "admin", "domain_id": self.other_domain}, set(), {"other"}),
            ({"roles": "admin", "domain_id": self.domain}, {"top", "middle", "side"}, {"cloud"}),
            ({"roles": "reader", "system": "all"}, {"top", "middle", "side"},
             {"cloud", "other"}),
            ({"roles": "member"}, set(), set()),
        ):
            for collection, expected in (("projects", projects), ("domains", domains)):
                found = self.v3("GET", f"/{collection}", who=who, status=200).json[collection]
                self.assertEqual(expected, {each["name"] for each in found}, who)
            # Domains as projects, by the same rule.
            listed = self.v3("GET", "/projects?is_domain=1", who=who, status=200).json["projects"]
            self.assertEqual(domains, {project["name"] for project in listed}, who)
        who = {"roles": "admin", "domain_id": self.other_domain}
        self.v3("GET", f"/projects/{self.side}", who=who, status=200)
        self.v3("GET", f"/domains/{self.domain}", who=who, status=200)
        who = {"roles": "member", "project_id": self.side}
        self.v3("GET", f"/projects/{self.side}", who=who, status=200)
        self.v3("GET", f"/projects/{self.domain}", who=who, status=200)
        for id_ in (self.top, self.other_domain):
            self.refused(403, "identity:get_project", "GET", f"/projects/{id_}", who=who)
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
