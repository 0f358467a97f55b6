"""The strategy ``keystone``: while Keystone does not answer, and what it is sent.

``placement_api.test_keystone`` has the tokens of a real one.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from typing import Any

import fixtures
import webob

from placement_core import app
from placement_core.http import requestlog
from tests import answers
from tests.http import base, served
from tests.http.test_trace_context import TRACE, TRACEPARENT, Recorder

#: An operation of each API that needs a token.
_PATHS = ("/resource_providers", "/v3/limits", "/v1/leases", "/capacity/v1/quota")


def answer_with_token(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Answer as Keystone does: where its API is, and that each token is an administrator's."""
    url = f"http://{environ['HTTP_HOST']}/v3"
    document: dict[str, Any] = {"version": {
        "id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": url}]}}
    if environ["PATH_INFO"] == "/v3/auth/tokens":
        document = {"token": {
            "methods": ["password"], "expires_at": "2999-01-01T00:00:00.000000Z",
            "issued_at": "2026-01-01T00:00:00.000000Z", "roles": [{"id": "1", "name": "admin"}],
            "user": {"id": "u", "name": "u", "domain": {"id": "d", "name": "d"}},
            "project": {"id": "p", "name": "p", "domain": {"id": "d", "name": "d"}}}}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(document).encode()]


def fail(_environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Answer as Keystone does while its database is away."""
    start_response("500 Internal Server Error", [("Content-Type", "application/json")])
    return [b'{"error": {"code": 500, "message": "no", "title": "Internal Server Error"}}']


class ValidationTestCase(base.HttpTestCase):
    options = {("api", "auth_strategy"): "keystone"}

    def setUp(self) -> None:
        # Building an application needs no Keystone.
        self.use("http://127.0.0.1:9")
        super().setUp()

    def use(self, url: str, **options: str) -> None:
        """Name a Keystone, for the applications that are made from now on."""
        for name, value in {
                "auth_type": "admin_token", "token": "admin", "endpoint": f"{url}/v3",
                "http_request_max_retries": "0", "www_authenticate_uri": url, **options}.items():
            self.useFixture(fixtures.EnvironmentVariable(
                f"OS_KEYSTONE_AUTHTOKEN__{name.upper()}", value))

    def restart(self, url: str, **options: str) -> None:
        self.use(url, **options)
        self.app = answers.CheckedAnswers(app.make_app(self.conf), self.apis)


class TestAway(ValidationTestCase):
    """Whether a token is good cannot be known: 503, in the format of the API."""

    def assert_away(self) -> None:
        for path in _PATHS:
            response = self.ask("GET", path, token="t", version=None)
            self.assertEqual(503, response.status_int, path)
            self.assertEqual("5", response.headers["Retry-After"])
            self.assertEqual("application/json", response.headers["Content-Type"])
            self.assertIn("Keystone cannot validate the token now", response.text)
        for version, code in (("1.22", None), ("1.36", "placement.auth.unavailable")):
            response = self.ask("GET", "/resource_providers", token="t", version=version)
            self.assertEqual(code, response.json["errors"][0].get("code"))

    def test_nothing_listens(self) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            self.restart(f"http://127.0.0.1:{bound.getsockname()[1]}")
            log = self.useFixture(fixtures.FakeLogger())
            self.assert_away()
        self.assertIn("is answered 503: Keystone cannot validate the token now", log.output)
        self.assertIn("Connection refused", log.output)
        self.assertNotIn("Traceback", log.output)

    def test_it_fails(self) -> None:
        self.restart(self.useFixture(served.Served(fail)).url)
        self.assert_away()

    def test_it_is_not_keystone(self) -> None:
        """Such as a proxy's page: the middleware expects no other document, and stumbles."""
        for body in (b"<html>maintenance</html>", b"{}", b'{"token": null}', b'{"token": {}}',
                     b"[]"):
            with self.subTest(body):
                def answer(
                    _environ: dict[str, Any], start_response: Any, body: bytes = body
                ) -> Iterable[bytes]:
                    start_response("200 OK", [("Content-Type", "application/json")])
                    return [body]

                self.restart(self.useFixture(served.Served(answer)).url)
                log = self.useFixture(fixtures.FakeLogger())
                self.assert_away()
                self.assertIn("Traceback", log.output)

    def test_it_is_silent(self) -> None:
        """No option has to say how long that may last."""
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.http.token_validation.TIMEOUT_SECONDS", 0.2))
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            self.restart(f"http://127.0.0.1:{silent.getsockname()[1]}")
            self.assert_away()

    def test_no_certificate_is_trusted(self) -> None:
        """TLS that fails was an unrendered 500: the middleware does not expect it."""
        url = self.useFixture(served.Served(fail)).url
        self.restart(url.replace("http:", "https:"))
        self.assert_away()

    def test_public_paths_need_no_keystone(self) -> None:
        for path in ("/", "/v3", "/v1", "/capacity/v1", "/capacity/v1/openapi.json"):
            response = self.ask("GET", path, token="t", version=None)
            self.assertIn(response.status_int, (200, 300), path)

    def test_who_has_no_token_is_told_where_to_log_in(self) -> None:
        for path in _PATHS:
            response = self.ask("GET", path, token=None, version=None)
            self.assertEqual(401, response.status_int)
            self.assertEqual(
                'Keystone uri="http://127.0.0.1:9"', response.headers["WWW-Authenticate"])

    def test_its_code_is_noted(self) -> None:
        request = webob.Request.blank("/resource_providers", headers={"X-Auth-Token": "t"})
        request.get_response(self.app)
        self.assertEqual(
            "placement.auth.unavailable", request.environ[requestlog.ERROR_CODE_KEY])


class TestTraces(ValidationTestCase):
    def test_a_trace_goes_on(self) -> None:
        remote = Recorder(answer_with_token)
        self.restart(self.useFixture(served.Served(remote)).url)
        response = self.ask("GET", "/resource_providers", token="t", headers={
            "Traceparent": TRACEPARENT, "Tracestate": "a=1"})
        self.assertEqual(200, response.status_int)
        parents = remote.take("traceparent")
        self.assertGreater(len(parents), 0)
        for parent in parents:
            self.assertRegex(parent or "", f"^00-{TRACE}-[0-9a-f]{{16}}-01$")

    def test_without_one_nothing_is_made_up(self) -> None:
        remote = Recorder(answer_with_token)
        self.restart(self.useFixture(served.Served(remote)).url)
        self.assertEqual(200, self.ask("GET", "/resource_providers", token="t").status_int)
        self.assertEqual({None}, set(remote.take("traceparent")))
