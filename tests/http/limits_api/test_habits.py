"""What every answer below /v3 looks like, whatever was asked."""

from __future__ import annotations

from tests.http import base
from tests.http.limits_api.cases import NOBODY, LimitsTestCase


class TestHabits(LimitsTestCase):
    def test_headers(self) -> None:
        for path, options in (
            ("", {"token": None}), ("/limits", {}), ("/limits/model", {}), ("/nowhere", {}),
            (f"/limits/{NOBODY}", {}), ("/limits", {"token": None}),
        ):
            response = self.v3("GET", path, **options)
            self.assertEqual(["X-Auth-Token"], response.headers.getall("Vary"), path)
            self.assertTrue(response.headers["x-openstack-request-id"].startswith("req-"))
            self.assertNotIn("OpenStack-API-Version", response.headers)
            self.assertEqual("application/json", response.content_type)

    def test_the_version_header_means_nothing(self) -> None:
        for header in ("placement 1.40", "placement bogus", "compute 2.1"):
            self.v3("GET", "/limits", status=200, headers={"OpenStack-API-Version": header})

    def test_no_token(self) -> None:
        for path in ("/limits", "/registered_limits", "/nowhere", "/v3"):
            response = self.v3("GET", path, token=None, status=401)
            self.assert_document(401, "requires authentication", response)
            self.assertEqual(
                'Keystone uri="http://localhost/v3"', response.headers["WWW-Authenticate"])
        response = self.v3("HEAD", "/limits", token=None, status=401)
        self.assertEqual(b"", response.body)
        response = self.v3(
            "GET", "/limits", token=None, environ={"SCRIPT_NAME": "/identity"})
        self.assertEqual('Keystone uri="http://localhost/identity/v3"',
                         response.headers["WWW-Authenticate"])

    def test_other_trees_keep_theirs(self) -> None:
        for path in ("/resource_providers", "/v3x", "/capacity/v1/limits/users"):
            response = self.ask("GET", path, token=None)
            self.assertEqual("401 Unauthorized", response.json["code"])
            self.assertNotIn("WWW-Authenticate", response.headers)

    def test_head_is_get_without_its_body(self) -> None:
        self.registered()
        made = self.limit(self.top)
        for path in ("", "/limits", f"/limits/{made['id']}", "/limits/model", "/services",
                     "/limits?project_id=nobody", "/regions/RegionOne"):
            got, headed = self.v3("GET", path, status=200), self.v3("HEAD", path, status=200)
            self.assertEqual(b"", headed.body)
            self.assertEqual(len(got.body), int(headed.headers["Content-Length"]))
            got_headers, headed_headers = dict(got.headers), dict(headed.headers)
            for headers in (got_headers, headed_headers):
                del headers["x-openstack-request-id"]
            self.assertEqual(got_headers, headed_headers, path)
        self.assertEqual(b"", self.v3("HEAD", f"/limits/{NOBODY}", status=404).body)

    def test_options(self) -> None:
        for path, allowed in (
            ("/limits", "GET, HEAD, OPTIONS, POST"),
            ("/limits/model", "GET, HEAD, OPTIONS"),
            (f"/limits/{NOBODY}", "DELETE, GET, HEAD, OPTIONS, PATCH"),
            ("/auth/tokens", "OPTIONS, POST"),
        ):
            response = self.v3("OPTIONS", path, status=200)
            self.assertEqual(allowed, response.headers["Allow"])
            self.assertEqual(b"", response.body)

    def test_other_methods(self) -> None:
        """B9: the error document, not another one."""
        for method, path, allowed in (
            ("PUT", "/limits", "GET, HEAD, OPTIONS, POST"),
            ("DELETE", "/limits", "GET, HEAD, OPTIONS, POST"),
            ("PATCH", "/registered_limits", "GET, HEAD, OPTIONS, POST"),
            ("POST", f"/limits/{NOBODY}", "DELETE, GET, HEAD, OPTIONS, PATCH"),
            ("TRACE", "/limits/model", "GET, HEAD, OPTIONS"),
        ):
            response = self.v3(method, path, status=405)
            self.assert_document(405, f"{method} is not allowed", response)
            self.assertEqual("Method Not Allowed", response.json["error"]["title"])
            self.assertEqual(allowed, response.headers["Allow"])

    def test_other_trees_know_no_head(self) -> None:
        for path in ("/resource_providers", "/capacity/v1/limits/users"):
            for method in ("HEAD", "OPTIONS"):
                self.assertEqual(405, self.ask(method, path).status_int)
            self.assertEqual(404, self.ask("GET", f"{path}/").status_int)

    def test_a_slash_at_the_end(self) -> None:
        made = self.registered()
        for path in ("", "/limits", "/registered_limits", f"/registered_limits/{made['id']}",
                     "/limits/model"):
            expected = self.v3("GET", path, status=200).json
            self.assertEqual(expected, self.v3("GET", f"{path}/", status=200).json)
        self.assertEqual(200, self.v3("GET", "/", token=None).status_int)
        self.refused(404, "could not be found", "GET", "/nowhere/")

    def test_titles(self) -> None:
        made = self.registered()
        self.limit(self.top)
        for status, title, method, path, body in (
            (400, "Bad Request", "POST", "/limits", {}),
            (403, "Forbidden", "DELETE", f"/registered_limits/{made['id']}", None),
            (404, "Not Found", "GET", f"/limits/{NOBODY}", None),
            (409, "Conflict", "POST", "/limits", {"limits": [self.item(self.top)]}),
        ):
            response = self.v3(method, path, body, status=status)
            self.assertEqual(title, response.json["error"]["title"])

    def test_media(self) -> None:
        body = b'{"limits": []}'
        for media in ("text/plain", "application/xml", "multipart/form-data; boundary=x"):
            self.refused(400, "Content-Type", "POST", "/limits", body,
                         headers={"Content-Type": media})
        # Without one, it is taken for JSON; so the list is what is wrong.
        self.refused(400, "limits", "POST", "/limits", body, headers={"Content-Type": ""})
        self.refused(400, "limits", "POST", "/limits", body,
                     headers={"Content-Type": "application/json; charset=utf-8"})
        for accept in ("text/plain", "application/json-home", "*/*"):
            self.v3("GET", "/limits", status=200, headers={"Accept": accept})

    def test_mounted_somewhere(self) -> None:
        made = self.registered()
        response = self.v3("GET", "/registered_limits?limit=5",
                           environ={"SCRIPT_NAME": "/iden tity"})
        links = response.json["links"]
        self.assertEqual(
            "http://localhost/iden%20tity/v3/registered_limits?limit=5", links["self"])
        self.assertEqual(
            f"http://localhost/iden%20tity/v3/registered_limits/{made['id']}",
            response.json["registered_limits"][0]["links"]["self"])
        version = self.v3("GET", "", environ={"SCRIPT_NAME": "/identity"}, token=None)
        self.assertEqual([{"rel": "self", "href": "http://localhost/identity/v3/"}],
                         version.json["version"]["links"])

    def test_paths_that_are_none(self) -> None:
        self.refused(404, "could not be found", "GET", "/limits/%00")
        self.refused(400, "not UTF-8", "GET", "/limits/%ff")
        self.refused(404, "could not be found", "GET", "/limits/a/b")
        self.refused(400, "must be an integer", "GET", "/limits",
                     environ={"CONTENT_LENGTH": "many"})


class TestBroken(LimitsTestCase):
    def test_500_is_a_document_too(self) -> None:
        from unittest import mock

        with mock.patch(
                "placement_core.catalog.services.list_", side_effect=RuntimeError("secret")):
            response = self.v3("GET", "/services", status=500)
        self.assert_document(500, "unexpected", response)
        self.assertNotIn("secret", response.text)


class TestKeystoneHabits(base.HttpTestCase):
    """The strategy keystone, without one: its 401 is the error document."""

    options = {("api", "auth_strategy"): "keystone"}

    def setUp(self) -> None:
        import fixtures

        for name, value in (
            ("AUTH_TYPE", "password"), ("AUTH_URL", "http://127.0.0.1:9/v3"),
            ("USERNAME", "placement"), ("PASSWORD", "secret"), ("PROJECT_NAME", "service"),
            ("USER_DOMAIN_ID", "default"), ("PROJECT_DOMAIN_ID", "default"),
            ("WWW_AUTHENTICATE_URI", "http://127.0.0.1:9/v3"), ("HTTP_REQUEST_MAX_RETRIES", "0"),
        ):
            self.useFixture(
                fixtures.EnvironmentVariable(f"OS_KEYSTONE_AUTHTOKEN__{name}", value))
        super().setUp()

    def test_no_token(self) -> None:
        response = self.ask("GET", "/v3/limits", token=None, version=None)
        self.assertEqual(401, response.status_int)
        self.assertEqual(401, response.json["error"]["code"])
        self.assertEqual("Unauthorized", response.json["error"]["title"])
        self.assertEqual(
            'Keystone uri="http://127.0.0.1:9/v3"', response.headers["WWW-Authenticate"])

    def test_public(self) -> None:
        self.assertEqual(200, self.ask("GET", "/v3", token=None).status_int)
        self.assertEqual(200, self.ask("GET", "/v3/", token=None).status_int)

    def test_tokens_come_from_keystone(self) -> None:
        response = self.ask(
            "POST", "/v3/auth/tokens", {"auth": {"identity": {}}}, token=None, version=None)
        self.assertEqual(404, response.status_int)
        self.assertIn("http://127.0.0.1:9/v3", response.json["error"]["message"])
