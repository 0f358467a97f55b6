"""POST /v3/auth/tokens with noauth2, and a stock client that logs in."""

from __future__ import annotations

from keystoneauth1 import session
from keystoneauth1.identity import v3

from tests.http import served
from tests.http.limits_api.cases import LimitsTestCase


class TestTokens(LimitsTestCase):
    def log_in(self, identity: object, scope: object = None) -> tuple[str, dict]:
        auth = {"identity": identity} | ({"scope": scope} if scope is not None else {})
        response = self.v3("POST", "/auth/tokens", {"auth": auth}, token=None, status=201)
        return response.headers["X-Subject-Token"], response.json["token"]

    def test_wordings(self) -> None:
        for identity, user in (
            ({"methods": ["password"], "password": {"user": {
                "name": "admin", "domain": {"id": "default"}, "password": "x"}}}, "admin"),
            ({"methods": ["password"], "password": {"user": {"id": "bob"}}}, "bob"),
            ({"methods": ["token"], "token": {"id": "bob:one"}}, "bob"),
            ({"application_credential": {"id": "eve", "secret": "x"}}, "eve"),
        ):
            token, document = self.log_in(identity)
            self.assertEqual(f"{user}:{user}", token)
            self.assertEqual(user, document["user"]["id"])
            self.assertEqual(
                ["admin"] if user == "admin" else [],
                [role["name"] for role in document["roles"]])
            self.v3("GET", "/limits", token=token, status=200)

    def test_scopes(self) -> None:
        identity = {"password": {"user": {"name": "bob"}}}
        for scope, project, name in (
            ({"project": {"id": self.top}}, self.top, "top"),
            ({"project": {"name": "top", "domain": {"name": "cloud"}}}, self.top, "top"),
            ({"project": {"name": "unknown"}}, "unknown", "unknown"),
            ({"system": {"all": True}}, "bob", "bob"),
            ("unscoped", "bob", "bob"), ({}, "bob", "bob"), ({"project": {}}, "bob", "bob"),
        ):
            token, document = self.log_in(identity, scope)
            self.assertEqual(f"bob:{project}", token)
            self.assertEqual((project, name), (
                document["project"]["id"], document["project"]["name"]))
        self.assertEqual("cloud", self.log_in(
            identity, {"project": {"id": self.top}})[1]["project"]["domain"]["name"])

    def test_a_name_in_two_domains(self) -> None:
        far = self.make("domains", "domain", name="far")["id"]
        far_top = self.make("projects", "project", name="top", domain_id=far)["id"]
        identity = {"password": {"user": {"name": "bob"}}}
        for domain, project in (
            ({"name": "cloud"}, self.top), ({"name": "far"}, far_top),
            ({"id": self.domain}, self.top), ({"id": far}, far_top),
            ({"id": far, "name": "cloud"}, far_top),
        ):
            token, document = self.log_in(identity, {"project": {"name": "top", "domain": domain}})
            self.assertEqual(f"bob:{project}", token)
            self.assertEqual("far" if project == far_top else "cloud",
                             document["project"]["domain"]["name"])
        # Of a domain that the catalog does not have, or of none, it is any of them.
        for scope in ({"name": "top"}, *({"name": "top", "domain": domain} for domain in (
                {"name": "Default"}, {"id": "default"}, {"name": 5}, {}, "far"))):
            token, _ = self.log_in(identity, {"project": scope})
            self.assertIn(token, (f"bob:{self.top}", f"bob:{far_top}"))
        token, _ = self.log_in(identity, {"project": {"name": "side", "domain": {"id": far}}})
        self.assertEqual("bob:side", token)

    def test_nobody(self) -> None:
        for identity in ({}, {"methods": ["password"]}, {"password": {}},
                         {"password": {"user": {}}}, {"password": {"user": {"name": 5}}},
                         {"password": {"user": {"name": "a:b"}}},
                         {"password": {"user": {"name": "a\r\nX: y"}}},
                         {"password": {"user": {"name": "Zoë"}}}, {"token": {"id": ""}}):
            self.refused(400, "user", "POST", "/auth/tokens",
                         {"auth": {"identity": identity}}, token=None)
        self.refused(400, "project", "POST", "/auth/tokens", {"auth": {
            "identity": {"password": {"user": {"name": "bob"}}},
            "scope": {"project": {"id": "a\r\nb"}}}}, token=None)
        for body in ({}, {"auth": {}}, {"auth": None}, {"auth": {"identity": []}}):
            self.refused(400, "", "POST", "/auth/tokens", body, token=None)
        self.refused(405, "GET", "GET", "/auth/tokens", token=None)

    def test_catalog(self) -> None:
        url = "http://nova:8774/v2.1"
        self.make("endpoints", "endpoint", service_id=self.service, interface="public",
                  url=url, region_id="RegionOne")
        self.make("endpoints", "endpoint", service_id=self.service, interface="admin",
                  url=url, enabled=False)
        off = self.make("services", "service", type="image", enabled=False)["id"]
        self.make("endpoints", "endpoint", service_id=off, interface="public", url=url)
        _, document = self.log_in({"password": {"user": {"name": "admin"}}})
        found = {entry["type"]: entry for entry in document["catalog"]}
        self.assertEqual({"compute", "identity", "placement", "reservation"}, set(found))
        (endpoint,) = found["compute"]["endpoints"]
        self.assertEqual(("public", url, "RegionOne", "RegionOne"), tuple(
            endpoint[name] for name in ("interface", "url", "region", "region_id")))
        self.assertEqual({"http://localhost/v3"}, {
            each["url"] for each in found["identity"]["endpoints"]})
        identity = self.make("services", "service", type="identity")["id"]
        self.make("endpoints", "endpoint", service_id=identity, interface="public",
                  url="http://public/v3")
        _, document = self.log_in({"password": {"user": {"name": "admin"}}})
        (written,) = [each for each in document["catalog"] if each["type"] == "identity"]
        self.assertEqual(["http://public/v3"], [each["url"] for each in written["endpoints"]])


class TestClient(LimitsTestCase):
    def test_keystoneauth(self) -> None:
        """A password login, and the endpoints that the token's catalog names."""
        self.registered()
        self.limit(self.top)
        url = self.useFixture(served.Served(self.app)).url
        for scope in ({"project_name": "top", "project_domain_name": "cloud"},
                      {"project_id": self.top}):
            client = session.Session(v3.Password(
                f"{url}/v3", username="admin", password="x", user_domain_id="default",
                **scope))
            self.assertEqual(self.top, client.get_project_id())
            self.assertEqual(f"{url}/v3", client.get_endpoint(service_type="identity"))
            self.assertEqual(url, client.get_endpoint(service_type="placement").rstrip("/"))
            self.assertEqual(f"{url}/v1", client.get_endpoint(service_type="reservation"))
            self.assertEqual(f"{url}/v3", client.get_endpoint(
                service_type="identity", region_name="RegionOne", interface="internal"))
            found = client.get(
                "/limits", endpoint_filter={"service_type": "identity"}).json()
            self.assertEqual([self.top], [each["project_id"] for each in found["limits"]])
