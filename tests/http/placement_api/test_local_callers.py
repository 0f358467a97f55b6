"""noauth2 answers callers on the machine itself, whichever server hosts the application."""

from __future__ import annotations

import fixtures

from placement_core import app
from tests.http import base

LOCAL = ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1")
REMOTE = ("192.0.2.7", "10.0.0.1", "0.0.0.0", "2001:db8::1", "::ffff:192.0.2.7", "fe80::1", "",
          "unix:", "nonsense")
PROXIES = {
    "Forwarded": "for=127.0.0.1", "X-Forwarded-For": "127.0.0.1", "Via": "1.1 proxy",
    "X-Real-IP": "127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "localhost"}
PATHS = ("/", "/resource_providers", "/v3", "/v3/limits", "/v3/auth/tokens", "/v1/leases",
         "/capacity/v1/quota", "/nowhere")


class TestLocalCallers(base.HttpTestCase):
    def setUp(self) -> None:
        self.options = {("api", "allow_remote_noauth2"): False}
        super().setUp()

    def test_callers_on_this_machine(self) -> None:
        for address in LOCAL:
            answer = self.ask("GET", "/resource_providers", environ={"REMOTE_ADDR": address})
            self.assertEqual(200, answer.status_int, address)

    def test_callers_elsewhere(self) -> None:
        for environ in [{"REMOTE_ADDR": address} for address in REMOTE] + [{}]:
            for path in PATHS:
                answer = self.ask("GET", path, environ=environ)
                self.assertEqual(403, answer.status_int, (environ, path))
                self.assertIn("[api] allow_remote_noauth2", answer.text)
                self.assertEqual("application/json", answer.content_type)
        for path in ("/healthcheck", "/readiness"):
            self.assertEqual(
                200, self.ask("GET", path, environ={"REMOTE_ADDR": REMOTE[0]}).status_int)

    def test_the_code_since_1_23(self) -> None:
        for version, code in (("1.22", None), ("1.23", "placement.auth.remote")):
            answer = self.ask("GET", "/resource_providers", version=version)
            self.assertEqual(code, answer.json["errors"][0].get("code"))

    def test_proxies_on_this_machine(self) -> None:
        for name, value in PROXIES.items():
            answer = self.ask("GET", "/resource_providers", headers={name: value},
                              environ={"REMOTE_ADDR": "127.0.0.1"})
            self.assertEqual(403, answer.status_int, name)

    def test_a_header_does_not_make_a_caller_local(self) -> None:
        self.conf.set_override("enable_proxy_headers_parsing", True, "oslo_middleware")
        self.app = app.make_app(self.conf)
        for name, value in PROXIES.items():
            answer = self.ask("GET", "/resource_providers", headers={name: value},
                              environ={"REMOTE_ADDR": REMOTE[0]})
            self.assertEqual(403, answer.status_int, name)

    def test_the_log_says_it_once(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        for _ in range(3):
            self.ask("GET", "/v3/limits", environ={"REMOTE_ADDR": REMOTE[0]})
        self.assertEqual(1, log.output.count("refused a caller at 192.0.2.7: [api] auth_strategy"))

    def test_everybody(self) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        self.conf.set_override("allow_remote_noauth2", True, "api")
        self.app = app.make_app(self.conf)
        self.assertIn("[api] allow_remote_noauth2: whatever a caller says is believed", log.output)
        for environ in ({"REMOTE_ADDR": REMOTE[0]}, {}):
            answer = self.ask("GET", "/resource_providers", environ=environ)
            self.assertEqual(200, answer.status_int)
