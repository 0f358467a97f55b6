"""How pages are served: what browsers are told with them, and what they may keep."""

from __future__ import annotations

import os
import pathlib
import sys
import time
import types
from typing import Any

import bs4
import fixtures

from placement_core import app, errors, http
from placement_core.http import dashboard
from placement_core.http.capacity_api import policies
from tests import base as tests_base, databases
from tests.http import base
from tests.http.dashboard import browsing
from tests.round_trips import RoundTrips

_POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
           "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")


class TestHeaders(browsing.BrowsingTestCase):
    def assert_safe(self, response: Any) -> None:
        self.assertEqual(_POLICY, response.headers["Content-Security-Policy"])
        self.assertEqual("nosniff", response.headers["X-Content-Type-Options"])
        self.assertEqual("same-origin", response.headers["Referrer-Policy"])
        self.assertEqual("DENY", response.headers["X-Frame-Options"])

    def test_of_every_answer(self) -> None:
        """Refusals, those outside of the pipeline, too; a browser keeps none of them."""
        page = self.get()
        answers = {
            200: page,
            304: self.get(If_None_Match=page.headers["ETag"]),
            400: self.get("?count=x"),
            404: self.get("/nothing"),
            405: self.get(method="POST"),
        }
        for status, response in answers.items():
            self.assertEqual(status, response.status_int)
            self.assert_safe(response)
            self.assertEqual(["private, no-store"], response.headers.getall("Cache-Control"))
            if status not in (304,):
                self.assertEqual("text/html", response.content_type)
        self.assertEqual("GET, HEAD, OPTIONS", answers[405].headers["Allow"])

    def test_other_apis_have_none(self) -> None:
        for path in ("/resource_providers", "/capacity/v1/room", "/v3", "/dashboards"):
            self.assertNotIn(
                "Content-Security-Policy", self.ask("GET", path, version=None).headers)

    def test_no_script_or_style_in_a_page(self) -> None:
        for path in ("", "/nothing", "?count=2&vcpu=1"):
            page = bs4.BeautifulSoup(self.get(path).text, "html.parser")
            self.assertEqual([], page.find_all("style"))
            for element in page.find_all(True):
                self.assertEqual([], [
                    name for name in element.attrs if name == "style" or name.startswith("on")])
                if element.name == "script":
                    self.assertIn("src", element.attrs)

    def test_static_files(self) -> None:
        """What a page refers to is there, and may be kept for good."""
        page = bs4.BeautifulSoup(self.get().text, "html.parser")
        addresses = [element.get("href") or element.get("src")
                     for element in page.find_all(["link", "script"])]
        self.assertGreaterEqual(len(addresses), 3)
        for address in addresses:
            response = self.ask("GET", address, version=None, token=None)
            self.assertEqual(200, response.status_int, address)
            self.assertEqual(
                "public, max-age=31536000, immutable", response.headers["Cache-Control"])
            self.assert_safe(response)
            self.assertIn(response.content_type, {
                ".css": "text/css", "s.js": "text/javascript", ".svg": "image/svg+xml",
            }.get(address[-4:], "text/javascript"))
        for name in ("nothing.css", "page.css", "..%2Fapi.py", "../api.py",
                     "nothing.0123456789abcdef.css", "page.0123456789abcdef.js"):
            self.assertEqual(404, self.get(f"/static/{name}").status_int, name)

    def test_static_files_of_another_release(self) -> None:
        """While hosts are upgraded, a page of one asks another for its files: ours will do."""
        page = bs4.BeautifulSoup(self.get().text, "html.parser")
        address = page.select_one("link[href*='/page.']")["href"]
        present = self.ask("GET", address, version=None, token=None)
        other = self.get("/static/page.0123456789abcdef.css")
        self.assertEqual((200, present.body, "text/css"), (
            other.status_int, other.body, other.content_type))
        self.assertEqual("private, no-store", other.headers["Cache-Control"])

    def test_head_and_options(self) -> None:
        head = self.get(method="HEAD")
        self.assertEqual((200, b""), (head.status_int, head.body))
        self.assertEqual("GET, HEAD, OPTIONS", self.get(method="OPTIONS").headers["Allow"])

    def test_a_trailing_slash(self) -> None:
        self.assertEqual(200, self.get("/").status_int)


class TestErrors(browsing.BrowsingTestCase):
    def test_what_is_not_there(self) -> None:
        """The page repeats nothing of the address, and has the id that the log has."""
        response = self.get("/%3Cscript%3Ealert(1)%3C/script%3E")
        self.assertEqual(404, response.status_int)
        self.assertNotIn("alert", response.text)
        self.assertIn(response.headers["x-openstack-request-id"], response.text)

    def test_a_path_that_is_not_text(self) -> None:
        self.assertEqual(400, self.get("/%ff").status_int)

    def test_a_defect(self) -> None:
        """Nothing of the exception is shown."""
        def fail(*_anything: object) -> None:
            raise RuntimeError("SELECT secret FROM internals")

        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.http.dashboard.rendering.strip.read", fail))
        log = self.useFixture(fixtures.FakeLogger())
        response = self.get()
        self.assertEqual(500, response.status_int)
        self.assertEqual("text/html", response.content_type)
        self.assertNotIn("secret", response.text)
        self.assertIn("secret", log.output)

    def test_a_part_that_cannot_be_read_now(self) -> None:
        """The rest of the page is there; it has no tag, since it is better the next time."""
        def fail(*_anything: object) -> None:
            raise errors.Unavailable("The database is away.")

        tag = self.get().headers["ETag"]
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.http.dashboard.strip.backlog.measure", fail))
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.http.conditional.time.time", lambda: 0.0))
        response = self.get()
        self.assertEqual(200, response.status_int)
        self.assertIn("The database is away.", response.text)
        self.assertIn("I need", response.text)
        self.assertNotIn("ETag", response.headers)
        self.assertEqual(200, self.get(If_None_Match=tag).status_int)

    def test_everything_is_away(self) -> None:
        def fail(*_anything: object) -> None:
            raise errors.Unavailable("The database is away.")

        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.changes.vector.read_digest", fail))
        response = self.get()
        self.assertEqual(503, response.status_int)
        self.assertEqual("5", response.headers["Retry-After"])
        self.assertIn("The database is away.", response.text)

    def test_callers_elsewhere(self) -> None:
        """Without a Keystone, only callers on the machine itself are answered, in HTML."""
        conf = base.configuration(self.connection(), {
            **self.options, ("api", "allow_remote_noauth2"): False})
        self.app = app.make_app(conf)
        response = self.get(environ={"REMOTE_ADDR": "192.0.2.1"})
        self.assertEqual((403, "text/html"), (response.status_int, response.content_type))
        self.assertIn("Content-Security-Policy", response.headers)
        self.assertEqual(200, self.get(environ={"REMOTE_ADDR": "127.0.0.1"}).status_int)


@databases.on_each_database
class TestTags(browsing.BrowsingTestCase):
    def test_a_page_that_is_current(self) -> None:
        """It costs one statement, and is answered without being made."""
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.http.conditional.time.time", lambda: 0.0))
        tag = self.get().headers["ETag"]
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.http.dashboard.rendering._render", self.fail))
        trips = RoundTrips(self.services.database)
        response = self.get(If_None_Match=tag)
        self.assertEqual((304, b""), (response.status_int, response.body))
        # SQLite begins a transaction for it.
        self.assertLessEqual(trips.count, 3)
        # The same body is sent again without being made, too.
        self.assertEqual(200, self.get().status_int)

    def test_what_changes_the_tag(self) -> None:
        """A change of anything, somebody else, and time; nothing else."""
        now = [0.0]
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.http.conditional.time.time", lambda: now[0]))
        tags = [self.get().headers["ETag"]]
        self.assertEqual(tags[0], self.get().headers["ETag"])
        created = self.ask("POST", "/resource_providers", {"name": "host"})
        self.assertEqual(200, created.status_int)
        self.assertEqual(200, self.get(If_None_Match=tags[0]).status_int)
        tags.append(self.get().headers["ETag"])
        for options in ({"roles": "reader"}, {"token": "jane:demo"}, {"path": "?vcpu=1"}):
            tags.append(self.get(**options).headers["ETag"])
        now[0] = 60.0
        tags.append(self.get().headers["ETag"])
        self.assertEqual(len(tags), len(set(tags)))


class TestTagsAndPolicy(browsing.BrowsingTestCase):
    """A page that anybody may read shows what the policy in force lets its reader see."""

    def setUp(self) -> None:
        folder = self.useFixture(fixtures.TempDir()).path
        self.path = pathlib.Path(folder, "policy.yaml")
        self.path.write_text("{}")
        self.options = {**self.options, ("oslo_policy", "policy_file"): str(self.path)}
        super().setUp()

    def change(self, rules: str, seconds: int) -> None:
        """Have the policy changed, and looked at."""
        self.path.write_text(rules)
        later = self.path.stat().st_mtime + seconds
        os.utime(self.path, (later, later))
        clock = types.SimpleNamespace(monotonic=lambda: time.monotonic() + seconds)
        self.useFixture(fixtures.MonkeyPatch("placement_core.http.policy.time", clock))

    def test_a_rule_that_is_withdrawn(self) -> None:
        """Neither the browser's copy nor ours is shown any more, until it is granted again."""
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.http.conditional.time.time", lambda: 0.0))
        refusal = f"the policy rule {policies.ROOM_HOSTS}"
        tag = self.get().headers["ETag"]
        self.assertEqual(304, self.get(If_None_Match=tag).status_int)
        self.change(f'"{policies.ROOM_HOSTS}": "!"', 60)
        response = self.get(If_None_Match=tag)
        self.assertEqual(200, response.status_int)
        self.assertIn(refusal, response.text)
        self.assertIn(refusal, self.get().text)
        self.change("{}", 120)
        self.assertNotIn(refusal, self.get().text)
        self.assertEqual(304, self.get(If_None_Match=tag).status_int)

    def test_rules_that_a_remote_service_decides(self) -> None:
        """No page has a tag: nothing tells when that service decides otherwise."""
        self.change('"capacity:nothing": "http://127.0.0.1:9/check"', 60)
        self.assertEqual(200, self.get().status_int)
        self.assertNotIn("ETag", self.get().headers)


class TestPlaces(browsing.BrowsingTestCase):
    """Under a prefix, and behind a proxy that ends TLS."""

    options = {**browsing.BrowsingTestCase.options,
               ("oslo_middleware", "enable_proxy_headers_parsing"): True}

    def assert_links_below(self, prefix: str, text: str) -> None:
        page = bs4.BeautifulSoup(text, "html.parser")
        addresses = [element.get(name) for element in page.find_all(True)
                     for name in ("href", "src", "action") if element.get(name)]
        self.assertGreater(len(addresses), 5)
        for address in addresses:
            if not address.startswith("#"):
                self.assertTrue(address.startswith(f"{prefix}/dashboard"), address)

    def test_a_prefix(self) -> None:
        for path in ("", "/nothing"):
            response = self.get(path, environ={"SCRIPT_NAME": "/place ment"})
            self.assert_links_below("/place%20ment", response.text)

    def test_a_proxy(self) -> None:
        """Links have no scheme and no host; the request to be copied has those of the proxy."""
        response = self.get("?vcpu=1", X_Forwarded_Proto="https", X_Forwarded_Host="cloud:8443",
                            X_Forwarded_Prefix="/placement")
        self.assert_links_below("/placement", response.text)
        self.assertIn("https://cloud:8443/placement/capacity/v1/room/fits", response.text)


class TestOff(base.HttpTestCase):
    """The default: there is no such path, and no page is loaded."""

    def test_no_page(self) -> None:
        self.assert_refused(404, "", self.ask("GET", "/dashboard"))

    def test_the_openapi_document_has_no_pages(self) -> None:
        conf = base.configuration(self.connection(), {("dashboard", "enabled"): True})
        self.app = app.make_app(conf)
        document = self.ask("GET", "/capacity/v1/openapi.json", version=None).json
        self.assertEqual([], [path for path in document["paths"] if "dashboard" in path])


class TestMissingPackage(tests_base.TestCase):
    def test_one_line(self) -> None:
        """The service does not start without the package of the templates."""
        self.addCleanup(setattr, http, "dashboard", dashboard)
        for name in [name for name in sys.modules if name.startswith(
                ("placement_core.http.dashboard", "jinja2"))]:
            self._forget(name)
        sys.modules["jinja2"] = None  # type: ignore[assignment]
        self.addCleanup(sys.modules.pop, "jinja2", None)
        conf = base.configuration("sqlite:////nonexistent/file", {("dashboard", "enabled"): True})
        error = self.assertRaises(errors.ConfigurationError, app.check_configuration, conf)
        self.assertEqual(
            "[dashboard] enabled = true: expected the package Jinja2, which pip install "
            "'placement-core[dashboard]' brings", str(error))

    def _forget(self, name: str) -> None:
        module = sys.modules.pop(name)
        self.addCleanup(sys.modules.__setitem__, name, module)
