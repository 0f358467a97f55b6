"""The identity surface: version, regions, services, endpoints, domains, projects."""

from __future__ import annotations

from unittest import mock

from tests import databases
from tests.http.limits_api.cases import NOBODY, LimitsTestCase


@databases.on_each_database
class TestCatalog(LimitsTestCase):
    def life(self, collection: str, name: str, created: dict, changes: dict, shown: dict) -> str:
        """Create, show, list, change, delete; return the id."""
        response = self.v3("POST", f"/{collection}", {name: created}, status=201)
        made = response.json[name]
        path = f"/{collection}/{made['id']}"
        self.assertEqual({"self": f"http://localhost/v3{path}"}, made["links"])
        self.assertEqual({**shown, "id": made["id"], "links": made["links"]}, made)
        self.assertEqual({name: made}, self.v3("GET", path, status=200).json)
        listed = self.v3("GET", f"/{collection}", status=200).json
        self.assertIn(made, listed[collection])
        self.assertEqual({"next": None, "previous": None,
                          "self": f"http://localhost/v3/{collection}"}, listed["links"])
        changed = self.v3("PATCH", path, {name: changes}, status=200).json[name]
        self.assertEqual({**made, **changes}, changed)
        self.assertEqual({name: changed}, self.v3("GET", path).json)
        self.v3("DELETE", path, status=204)
        for method in ("GET", "DELETE"):
            self.refused(404, f"Could not find {name}: {made['id']}.", method, path)
        self.refused(404, made["id"], "PATCH", path, {name: changes})
        return made["id"]

    def test_regions(self) -> None:
        self.life("regions", "region",
                  {"id": "two/too", "description": None, "parent_region_id": "RegionOne"}
                  | {"id": "RegionTwo"},
                  {"description": "south", "parent_region_id": None},
                  {"description": "", "parent_region_id": "RegionOne"})
        self.assertRegex(self.make("regions", "region")["id"], "^[0-9a-f]{32}$")
        self.make("regions", "region", id="below", parent_region_id="RegionOne")
        found = self.v3("GET", "/regions?parent_region_id=RegionOne").json["regions"]
        self.assertEqual(["below"], [each["id"] for each in found])
        # keystoneclient sends it always; a region that is not enabled would be another thing.
        self.assertNotIn("enabled", self.make("regions", "region", id="always", enabled=True))
        for fields in ({"enabled": False}, {"enabled": "true"}, {"more": 1}):
            self.refused(400, "", "POST", "/regions", {"region": {"id": "x", **fields}})
        self.refused(400, "not blank", "POST", "/regions", {"region": {"id": " "}})
        self.refused(409, "Conflict", "POST", "/regions", {"region": {"id": "RegionOne"}})
        self.refused(400, "nowhere", "POST", "/regions",
                     {"region": {"parent_region_id": "nowhere"}})

    def test_services(self) -> None:
        self.life("services", "service",
                  {"type": "image", "name": "glance", "description": "pictures",
                   "enabled": False},
                  {"type": "images", "name": "g", "description": "", "enabled": True},
                  {"type": "image", "name": "glance", "description": "pictures",
                   "enabled": False})
        self.make("services", "service", type="image", name="glance")
        for query, count in (("type=image", 1), ("type=image&name=glance", 1),
                             ("type=image&name=nova", 0), ("name=nova", 1), ("type=", 0)):
            found = self.v3("GET", f"/services?{query}", status=200).json["services"]
            self.assertEqual(count, len(found), query)
        for body in ({}, {"type": ""}, {"type": 5}, {"type": "x", "enabled": "yes"},
                     {"type": "x", "more": 1}):
            self.refused(400, "", "POST", "/services", {"service": body})

    def test_endpoints(self) -> None:
        url = "http://nova:8774/v2.1"
        shown = {"service_id": self.service, "interface": "public", "url": url,
                 "region_id": "RegionOne", "region": "RegionOne", "enabled": True}
        self.life("endpoints", "endpoint",
                  {"service_id": self.service, "interface": "public", "url": url,
                   "region_id": "RegionOne"},
                  {"interface": "admin", "url": f"{url}/", "region_id": None, "enabled": False,
                   "region": None}, shown)
        made = self.make("endpoints", "endpoint", service_id=self.service, interface="public",
                         url=url, region="RegionOne")
        self.make("endpoints", "endpoint", service_id=self.service, interface="admin", url=url)
        for query, count in (
            ("", 2), (f"service_id={self.service}", 2), ("interface=public", 1),
            ("region_id=RegionOne", 1),
            (f"service_id={self.service}&region_id=RegionOne&interface=public", 1),
            (f"service_id={NOBODY}", 0), ("region_id=RegionTwo", 0),
        ):
            found = self.v3("GET", f"/endpoints?{query}", status=200).json["endpoints"]
            self.assertEqual(count, len(found), query)
        self.refused(400, "interface", "GET", "/endpoints?interface=bogus")
        for changes in ({"interface": "bogus"}, {"url": "no url"}, {"service_id": NOBODY},
                        {"region_id": "nowhere"}, {"service_id": None}):
            self.refused(400, "", "PATCH", f"/endpoints/{made['id']}", {"endpoint": changes})

    def test_domains(self) -> None:
        path = f"/domains/{self.make('domains', 'domain', name='shop', tags=[], options={})['id']}"
        self.refused(403, "disable", "DELETE", path)
        changed = self.v3("PATCH", path, {"domain": {
            "name": "store", "enabled": False, "description": "x", "tags": [], "options": {},
        }}, status=200).json["domain"]
        self.assertEqual(("store", False, "x"), tuple(
            changed[name] for name in ("name", "enabled", "description")))
        self.v3("DELETE", path, status=204)
        self.refused(404, "Could not find domain", "GET", path)
        for query, count in (("name=cloud", 1), ("name=Cloud", 0), ("", 1)):
            found = self.v3("GET", f"/domains?{query}", status=200).json["domains"]
            self.assertEqual(count, len(found), query)
        self.refused(409, "Conflict", "POST", "/domains", {"domain": {"name": "cloud"}})

    def test_what_is_enabled(self) -> None:
        """The words for yes and no are Keystone's."""
        self.make("domains", "domain", name="off", enabled=False)
        self.make("projects", "project", name="off", domain_id=self.domain, enabled=False)
        on = {"domains": ["cloud"], "projects": ["middle", "side", "top"]}
        for collection, names in on.items():
            for words, expected in (
                (("True", "true", "1", "YES", "on", ""), names),
                (("False", "false", "0", "n", "OFF"), ["off"]),
            ):
                for word in words:
                    self.assertEqual(expected, self.list_names(collection, f"enabled={word}"))
            self.assertEqual([], self.list_names(collection, f"enabled=false&name={names[0]}"))
            for word in ("perhaps", "false%0A"):
                self.refused(400, "enabled", "GET", f"/{collection}?enabled={word}")

    def test_a_domain_as_a_project(self) -> None:
        """As in Keystone, where it is one."""
        domain = self.v3("GET", f"/domains/{self.domain}", status=200).json["domain"]
        expected = {
            **domain, "domain_id": None, "parent_id": None, "is_domain": True,
            "links": {"self": f"http://localhost/v3/projects/{self.domain}"}}
        path = f"/projects/{self.domain}"
        self.assertEqual({"project": expected}, self.v3("GET", path, status=200).json)
        # The domain itself changes as one.
        self.refused(404, "Could not find project", "PATCH", path, {"project": {"name": "x"}})
        self.refused(404, "Could not find project", "DELETE", path)

    def test_domains_as_projects(self) -> None:
        other = self.make("domains", "domain", name="other", enabled=False)["id"]
        for query, expected in (
            ("is_domain=False", ["middle", "side", "top"]), ("is_domain=True", ["cloud", "other"]),
            ("is_domain=1&name=other", ["other"]), ("is_domain=1&name=top", []),
            ("is_domain=1&enabled=0", ["other"]), (f"is_domain=1&domain_id={self.domain}", []),
            (f"is_domain=1&parent_id={self.domain}", []),
            (f"is_domain=1&marker={max(self.domain, other)}", []),
        ):
            self.assertEqual(expected, self.list_names("projects", query))
        self.refused(400, self.top, "GET", f"/projects?is_domain=1&marker={self.top}")

    def list_names(self, collection: str, query: str) -> list[str]:
        body = self.v3("GET", f"/{collection}?{query}", status=200).json
        return sorted(record["name"] for record in body[collection])

    def test_projects(self) -> None:
        self.life(
            "projects", "project",
            {"name": "new", "domain_id": self.domain, "is_domain": False, "tags": [],
             "options": {}, "description": None},
            {"name": "newer", "description": "x", "enabled": False, "parent_id": self.top},
            {"name": "new", "domain_id": self.domain, "parent_id": self.domain,
             "is_domain": False, "description": "", "enabled": True, "tags": [],
             "options": {}})
        for query, names in (
            ("name=top", ["top"]), (f"domain_id={self.domain}", ["middle", "side", "top"]),
            (f"parent_id={self.top}", ["middle"]), (f"domain_id={NOBODY}", []),
            (f"name=top&domain_id={self.domain}", ["top"]),
        ):
            found = self.v3("GET", f"/projects?{query}", status=200).json["projects"]
            self.assertEqual(names, sorted(each["name"] for each in found), query)
        self.refused(403, "child projects", "DELETE", f"/projects/{self.top}")

    def test_a_project_without_a_domain(self) -> None:
        below = self.make("projects", "project", name="below", parent_id=self.top)
        self.assertEqual(self.domain, below["domain_id"])
        self.refused(400, "domain_id", "POST", "/projects", {"project": {"name": "x"}})
        self.refused(400, "", "POST", "/projects",
                     {"project": {"name": "x", "parent_id": NOBODY}})

    def test_moving_a_project(self) -> None:
        path = f"/projects/{self.middle}"
        for parent, shown in ((self.side, self.side), (None, self.domain)):
            moved = self.v3("PATCH", path, {"project": {"parent_id": parent}}, status=200)
            self.assertEqual(shown, moved.json["project"]["parent_id"])
        self.refused(400, "below itself", "PATCH", f"/projects/{self.top}",
                     {"project": {"parent_id": self.top}})

    def test_what_is_not_kept_is_refused(self) -> None:
        for fields in ({"tags": ["blue"]}, {"options": {"immutable": True}},
                       {"is_domain": True}):
            self.refused(400, "", "POST", "/projects", {
                "project": {"name": "x", "domain_id": self.domain, **fields}})


class TestVersion(LimitsTestCase):
    def test_version(self) -> None:
        found = self.v3("GET", "", token=None, status=200).json
        self.assertEqual({"version"}, set(found))
        self.assertEqual("stable", found["version"]["status"])
        self.assertRegex(found["version"]["id"], r"^v3\.\d+$")


class TestKeptElsewhere(LimitsTestCase):
    """Another service keeps the catalog, or the limits."""

    def test_catalog(self) -> None:
        with mock.patch.object(type(self.services.catalog), "local", False):
            for method, path, body in (
                ("POST", "/regions", {"region": {}}),
                ("PATCH", "/regions/RegionOne", {"region": {}}),
                ("DELETE", "/regions/RegionOne", None),
                ("POST", "/services", {"service": {"type": "x"}}),
                ("DELETE", f"/services/{self.service}", None),
                ("DELETE", f"/endpoints/{NOBODY}", None),
                ("POST", "/domains", {"domain": {"name": "x"}}),
                ("DELETE", f"/domains/{self.domain}", None),
                ("POST", "/projects", {"project": {"name": "x"}}),
                ("DELETE", f"/projects/{self.middle}", None),
            ):
                self.refused(403, "[catalog] driver = ", method, path, body)
            for path in ("/regions", "/services", "/endpoints", "/domains", "/projects"):
                self.v3("GET", path, status=200)
            # What it knows may change without anybody here noticing.
            member = {"token": f"bob:{self.top}", "roles": "member"}
            self.assertNotIn("ETag", self.v3("GET", "/limits", status=200, **member).headers)
            self.assertIn("ETag", self.v3("GET", "/limits", status=200).headers)

    def test_limits(self) -> None:
        made = self.registered()
        with mock.patch.object(type(self.services.limits), "transactional", False):
            for method, path, body in (
                ("GET", "/limits", None), ("GET", "/registered_limits", None),
                ("GET", f"/registered_limits/{made['id']}", None),
                ("DELETE", f"/registered_limits/{made['id']}", None),
                ("PATCH", f"/registered_limits/{made['id']}", {"registered_limit": {}}),
                ("POST", "/limits", {"limits": [self.item(self.top)]}),
                ("GET", f"/limits/{NOBODY}", None), ("DELETE", f"/limits/{NOBODY}", None),
                ("PATCH", f"/limits/{NOBODY}", {"limit": {}}),
            ):
                self.refused(403, "[limits] driver = ", method, path, body)
            self.v3("GET", "/limits/model", status=200)
            for path in ("/users", "/history"):
                response = self.ask("GET", f"/capacity/v1/limits{path}")
                self.assertEqual(403, response.status_int)
            response = self.ask(
                "GET", f"/capacity/v1/limits/effective?service_id={self.service}")
            self.assertEqual(200, response.status_int)
            self.assertNotIn("ETag", response.headers)
