"""Logging in at a real Keystone with a browser, and what the cookie is good for."""

from __future__ import annotations

import http.cookies
import unittest
import urllib.parse

import bs4
import fixtures
import webob

from placement_core import app, errors
from tests import answers, keystone_service
from tests.access import identities
from tests.http import base, served
from tests.http.dashboard import browsing
from tests.http.dashboard.browsing import read
from tests.http.test_token_validation import answer_with_token, fail

_LOGIN, _LOGOUT = "/login", "/logout"
_HERE = {"Origin": "http://localhost:80", "Host": "localhost:80"}
_ADMIN = {"user": "admin", "password": keystone_service.PASSWORD, "project": "admin"}


class SessionTestCase(browsing.BrowsingTestCase):
    """A service that believes a Keystone, and a browser that keeps its cookie."""

    options = {**browsing.BrowsingTestCase.options, ("api", "auth_strategy"): "keystone"}

    def setUp(self) -> None:
        for name, value in self.make_environment().items():
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        super().setUp()

    def make_environment(self) -> dict[str, str]:
        # Building an application needs no Keystone.
        return {f"OS_KEYSTONE_AUTHTOKEN__{name}": value for name, value in {
            "AUTH_TYPE": "password", "AUTH_URL": "http://127.0.0.1:9",
            "HTTP_REQUEST_MAX_RETRIES": "0"}.items()}

    def post(self, path: str, headers: dict[str, str] | None = None, **fields: str
             ) -> webob.Response:
        """Send a form."""
        request = webob.Request.blank(
            f"/dashboard{path}", method="POST",
            headers={**_HERE, "Content-Type": "application/x-www-form-urlencoded",
                     **(headers or {})},
            body=urllib.parse.urlencode(fields).encode())
        return request.get_response(self.app)

    def open(self, path: str = "", *, cookie: str | None = None, method: str = "GET",
             **environ: str) -> webob.Response:
        """Ask for a page, or for any other path if it begins with two slashes."""
        request = webob.Request.blank(
            path[1:] if path.startswith("//") else f"/dashboard{path}", method=method,
            headers={} if cookie is None else {"Cookie": cookie}, environ=environ)
        return request.get_response(self.app)


@unittest.skipUnless(keystone_service.INSTALLED, "Keystone is not installed")
class TestLogin(SessionTestCase):
    def make_environment(self) -> dict[str, str]:
        self.keystone = keystone_service.shared()
        return self.keystone.make_authtoken_environment()

    def log_in(self, **fields: str) -> str:
        """Return the cookie as a browser sends it back."""
        response = self.post(_LOGIN, **{**_ADMIN, **fields})
        self.assertEqual(303, response.status_int, response.text)
        return response.headers["Set-Cookie"].partition(";")[0]

    def test_a_session(self) -> None:
        """From the page that needs a login to that page, and out again."""
        address = self.open("?vcpu=1&required=A%2CB")
        self.assertEqual(303, address.status_int)
        location = urllib.parse.urlsplit(address.headers["Location"])
        self.assertEqual("/dashboard/login", location.path)
        form = self.open(f"/login?{location.query}")
        self.assertEqual(200, form.status_int)
        page = bs4.BeautifulSoup(form.text, "html.parser")
        [next_] = {field["value"] for field in page.find_all("input", {"name": "next"})}
        self.assertEqual("/dashboard?vcpu=1&required=A%2CB", next_)

        response = self.post(_LOGIN, **_ADMIN, next=next_)
        self.assertEqual((303, next_), (response.status_int, response.headers["Location"]))
        [morsel] = http.cookies.SimpleCookie(response.headers["Set-Cookie"]).values()
        self.assertEqual(
            ("/dashboard", True, "Strict", "", ""),
            (morsel["path"], morsel["httponly"], morsel["samesite"], morsel["secure"],
             morsel["max-age"]))
        cookie = f"{morsel.key}={morsel.value}"
        page = bs4.BeautifulSoup(self.open(cookie=cookie).text, "html.parser")
        me = page.select_one(".me")
        self.assertIn("admin in admin", read(me))
        self.assertEqual("/dashboard/logout", me.form["action"])

        response = self.post(_LOGOUT, headers={"Cookie": cookie})
        self.assertEqual((303, "/dashboard/login"),
                         (response.status_int, response.headers["Location"]))
        [ended] = http.cookies.SimpleCookie(response.headers["Set-Cookie"]).values()
        self.assertEqual(("", "0"), (ended.value, ended["max-age"]))
        status, _, _ = keystone_service.admin(self.keystone).send(
            "GET", "/auth/tokens", headers={"X-Subject-Token": morsel.value})
        self.assertEqual(404, status)
        # Again: there is nothing to revoke any more.
        self.assertEqual(303, self.post(_LOGOUT, headers={"Cookie": cookie}).status_int)

    def test_what_the_cookie_is_not_good_for(self) -> None:
        """Neither another API nor a write."""
        cookie = self.log_in()
        for path in ("/resource_providers", "/v3/limits", "/v1/leases", "/capacity/v1/quota"):
            self.assertEqual(401, self.open(f"/{path}", cookie=cookie).status_int, path)
        self.assertEqual(401, self.open(cookie=cookie, method="POST").status_int)
        self.assertEqual(401, self.open(cookie=cookie, method="DELETE").status_int)
        self.assertEqual(200, self.open(cookie=cookie, method="HEAD").status_int)

    def test_cookies_of_others(self) -> None:
        """What other applications of the host put there is in nobody's way."""
        for cookies in ('x={"a":1}; %s', '%s; x={"a":1}', 'x="; %s', "=;;%s; x=a,b c;"):
            session = self.log_in()
            cookie = cookies % session
            self.assertEqual(200, self.open(cookie=cookie).status_int, cookies)
            self.assertEqual(303, self.open(cookie=cookies % f"y{session}").status_int, cookies)
            self.assertEqual(303, self.post(_LOGOUT, headers={"Cookie": cookie}).status_int)
            status, _, _ = keystone_service.admin(self.keystone).send(
                "GET", "/auth/tokens", headers={"X-Subject-Token": session.partition("=")[2]})
            self.assertEqual(404, status, cookies)

    def test_an_application_credential(self) -> None:
        credential = identities.make_credential(self.keystone)
        response = self.post(_LOGIN, method="application_credential",
                             credential=credential["id"], secret=credential["secret"])
        self.assertEqual(303, response.status_int, response.text)
        cookie = response.headers["Set-Cookie"].partition(";")[0]
        self.assertIn("admin", self.open(cookie=cookie).text)
        refused = self.post(_LOGIN, method="application_credential",
                            credential=credential["id"], secret="wrong")
        self.assertEqual(401, refused.status_int)
        self.assertIn("application credential", refused.text)

    def test_who_is_not_let_in(self) -> None:
        """One message for all reasons: it does not tell which names there are."""
        messages = set()
        for fields in ({"password": "wrong"}, {"user": "nobody"}, {"project": "nothing"},
                       {"domain": "nothing"}, {"user": "a\0b"}, {"user": "x" * 300},
                       {"project": "é😀"}):
            response = self.post(_LOGIN, **{**_ADMIN, **fields})
            self.assertEqual(401, response.status_int, response.text)
            self.assertNotIn("Set-Cookie", response.headers)
            page = bs4.BeautifulSoup(response.text, "html.parser")
            messages.add(read(page.select_one(".trouble")))
            self.assertNotIn(keystone_service.PASSWORD, response.text)
        self.assertEqual(1, len(messages), messages)

    def test_a_name_of_any_kind(self) -> None:
        admin = keystone_service.admin(self.keystone)
        name = keystone_service.new_name('<b>"é😀')
        user = admin.make("users", name=name, password="pass of é", domain_id="default")
        project = admin.make("projects", name=name, domain_id="default")
        role = next(role["id"] for role in admin.list("roles") if role["name"] == "reader")
        admin.send("PUT", f"/projects/{project['id']}/users/{user['id']}/roles/{role}")
        cookie = self.log_in(user=name, password="pass of é", project=name)
        page = bs4.BeautifulSoup(self.open(cookie=cookie).text, "html.parser")
        self.assertEqual(f"{name} in {name} (reader)", read(page.select_one(".me p")))
        self.assertNotIn("Late events", page.text)

    def test_a_token_that_is_not_valid(self) -> None:
        """Whoever has one logs in again."""
        for cookie in ("placement_dashboard=x", 'placement_dashboard="', "placement_dashboard=é",
                       "a=b; placement_dashboard=; c", "=" * 3000):
            response = self.open(cookie=cookie)
            self.assertEqual(303, response.status_int, cookie)
            self.assertTrue(response.headers["Location"].startswith("/dashboard/login?next="))

    def test_a_token_in_the_header(self) -> None:
        token = keystone_service.admin(self.keystone).token
        self.assertEqual(200, self.get(token=token).status_int)


class TestForms(SessionTestCase):
    """What never reaches a Keystone."""

    def test_another_site(self) -> None:
        """Its forms are refused, whatever they hold."""
        for origin in ("http://evil.example", "null", "", "http://localhost:81",
                       "http://localhost:80.evil.example", "localhost:80"):
            for path in (_LOGIN, _LOGOUT):
                response = self.post(path, headers={"Origin": origin}, **_ADMIN)
                self.assertEqual(403, response.status_int, origin)
                self.assertNotIn("Set-Cookie", response.headers)

    def test_fields_that_are_empty(self) -> None:
        """The message is beside the field, and what was typed is there again, no secret."""
        for field, fields in (
                ("user", {}), ("password", {"user": "jane"}),
                ("project", {"user": "jane", "password": "hidden"}),
                ("credential", {"method": "application_credential"}),
                ("secret", {"method": "application_credential", "credential": "jane"})):
            response = self.post(_LOGIN, **fields)
            self.assertEqual(400, response.status_int)
            page = bs4.BeautifulSoup(response.text, "html.parser")
            self.assertIn("Please enter", read(page.find(id=f"{field}-error")))
            self.assertNotIn("hidden\"", response.text.replace('type="hidden"', ""))
            if fields.get("user"):
                self.assertEqual("jane", page.find(id="user")["value"])

    def test_what_is_no_form(self) -> None:
        for status, body, headers in (
                (415, b"{}", {"Content-Type": "application/json"}), (415, b"", {}),
                (413, b"user=" + b"x" * 300_000, None), (400, b"a=%ff", None),
                (400, b"&".join([b"a=b"] * 100), None), (400, "user=é".encode(), None)):
            request = webob.Request.blank("/dashboard/login", method="POST", body=body, headers={
                **_HERE, **({"Content-Type": "application/x-www-form-urlencoded"}
                            if headers is None else headers)})
            response = request.get_response(self.app)
            self.assertEqual((status, "text/html"), (
                response.status_int, response.content_type), body[:20])

    def test_methods(self) -> None:
        for path, allowed in ((_LOGIN, "GET, HEAD, POST"), (_LOGOUT, "POST")):
            response = self.open(path, method="DELETE")
            self.assertEqual((405, allowed), (response.status_int, response.headers["Allow"]))
        self.assertEqual(405, self.open(_LOGOUT).status_int)
        head = self.open(_LOGIN, method="HEAD")
        self.assertEqual((200, b""), (head.status_int, head.body))

    def test_where_to_go_after_the_login(self) -> None:
        """Nowhere else than within the dashboard."""
        for address in ("http://evil.example", "//evil.example", "/resource_providers",
                        "/dashboardx", "/dashboard\\@evil.example", "/dashboard/../v3",
                        "/dashboard/%2e%2E/v3", "x",
                        "/dashboard/login?next=/dashboard", "/dashboard\r\nX: y", "",
                        "javascript:x"):
            page = bs4.BeautifulSoup(self.open(
                f"/login?{urllib.parse.urlencode({'next': address})}").text, "html.parser")
            self.assertEqual({"/dashboard"}, {
                field["value"] for field in page.find_all("input", {"name": "next"})}, address)
        page = bs4.BeautifulSoup(self.open(
            "/login?next=/x/dashboard/hosts%3Fa%3Db", SCRIPT_NAME="/x").text, "html.parser")
        self.assertEqual("/x/dashboard/hosts?a=b", page.find("input", {"name": "next"})["value"])

    def test_static_files_need_no_login(self) -> None:
        page = bs4.BeautifulSoup(self.open(_LOGIN).text, "html.parser")
        self.assertEqual(200, self.open(f"/{page.find('link')['href']}").status_int)

    def test_without_keystone_there_is_no_login(self) -> None:
        self.app = app.make_app(base.configuration(self.connection(), {
            ("dashboard", "enabled"): True}))
        for path in (_LOGIN, _LOGOUT):
            self.assertEqual(404, self.open(path).status_int)
        self.assertEqual(200, self.open().status_int)


class TestTrouble(SessionTestCase):
    """A Keystone that does not answer, or is not named."""

    def restart(self, **options: str) -> None:
        for name, value in options.items():
            self.useFixture(fixtures.EnvironmentVariable(
                f"OS_KEYSTONE_AUTHTOKEN__{name.upper()}", value))
        self.conf = base.configuration(self.connection(), self.options)
        self.app = answers.CheckedAnswers(app.make_app(self.conf), [*self.apis, *self.pages])

    def test_it_does_not_answer(self) -> None:
        """503 as a page, for who logs in or out, and for who has a cookie."""
        for url in ("http://127.0.0.1:9", self.useFixture(served.Served(fail)).url):
            self.restart(auth_url=url)
            for response in (
                    self.post(_LOGIN, **_ADMIN),
                    self.post(_LOGOUT, headers={"Cookie": "placement_dashboard=t"}),
                    self.open(cookie="placement_dashboard=t")):
                self.assertEqual((503, "text/html"), (
                    response.status_int, response.content_type))
                self.assertIn("Keystone cannot", response.text)
                self.assertEqual("5", response.headers["Retry-After"])

    def test_it_does_not_answer_at_the_end_of_a_session(self) -> None:
        """The browser forgets the token, and the page says that it was not revoked."""
        self.restart(auth_url="http://127.0.0.1:9")
        response = self.post(_LOGOUT, headers={"Cookie": "placement_dashboard=t"})
        self.assertEqual(503, response.status_int)
        [ended] = http.cookies.SimpleCookie(response.headers["Set-Cookie"]).values()
        self.assertEqual(("", "0", "/dashboard"), (ended.value, ended["max-age"], ended["path"]))
        self.assertIn("this browser has forgotten it", response.text)
        self.assertIn("no-store", response.headers["Cache-Control"])

    def test_it_is_not_named(self) -> None:
        """The service says so at its start."""
        error = self.assertRaises(
            errors.ConfigurationError, self.restart, auth_type="admin_token", token="t",
            endpoint="http://127.0.0.1:9", auth_url="")
        self.assertIn("[keystone_authtoken] auth_url: expected the URL of Keystone", str(error))

    def test_tls(self) -> None:
        """The cookie is for TLS only where the browser speaks it, be it to a proxy."""
        url = self.useFixture(served.Served(answer_with_login)).url
        self.restart(auth_url=url)
        secure = self.post(_LOGIN, headers={"Origin": "https://localhost:80"}, **_ADMIN)
        self.assertIn("; Secure", secure.headers["Set-Cookie"])
        self.assertNotIn("; Secure", self.post(_LOGIN, **_ADMIN).headers["Set-Cookie"])
        request = webob.Request.blank("/dashboard/login", method="POST", headers={
            **_HERE, "Content-Type": "application/x-www-form-urlencoded"},
            body=urllib.parse.urlencode(_ADMIN).encode(),
            environ={"SCRIPT_NAME": "/x y", "wsgi.url_scheme": "https"})
        cookie = request.get_response(self.app).headers["Set-Cookie"]
        self.assertIn("; Secure", cookie)
        self.assertIn("Path=/x%20y/dashboard", cookie)


def answer_with_login(environ: dict[str, object], start_response: object) -> object:
    """Answer as Keystone does, each request for a token with one."""
    def start(status: str, headers: list[tuple[str, str]]) -> object:
        return start_response("201 Created", [*headers, ("X-Subject-Token", "t")])

    return answer_with_token(environ, start)
