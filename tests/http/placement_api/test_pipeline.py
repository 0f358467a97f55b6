"""The order in which requests are judged, and what every answer looks like.

On a table of operations of its own: nothing here depends on what a view does.
"""

from __future__ import annotations

import re
import uuid

from placement_core.http import requestlog
from tests.http.placement_api.pipeline_cases import UUID, PipelineTestCase


class TestVersions(PipelineTestCase):
    def test_understood(self) -> None:
        for header, version in (
            (None, "1.0"),
            ("placement 1.7", "1.7"),
            ("placement latest", "1.39"),
            ("PLACEMENT 1.7", "1.7"),
            ("compute 2.90, placement 1.7", "1.7"),
            ("placement 1.7, placement 1.9", "1.9"),
            ("compute 2.90", "1.0"),
            ("1.7", "1.0"),
        ):
            with self.subTest(header):
                headers = {"OpenStack-API-Version": header} if header else {}
                response = self.ask("GET", "/things", version=None, headers=headers)
                self.assertEqual(200, response.status_int)
                self.assertEqual(
                    f"placement {version}", response.headers["OpenStack-API-Version"])
                self.assertEqual("openstack-api-version", response.headers["Vary"])

    def test_not_a_version(self) -> None:
        for value in ("pony.horse", "1.2.3", "bogus", "1", "1.", "-1.2", "\u0661.\u0662",
                      "1." + "9" * 50):
            with self.subTest(value):
                response = self.ask("GET", "/things", environ={
                    "HTTP_OPENSTACK_API_VERSION": f"placement {value}"}, version=None)
                self.assert_refused(400, "invalid version string: ", response)
                self.assertNotIn("OpenStack-API-Version", response.headers)

    def test_not_offered(self) -> None:
        for value in ("0.5", "1.99", "2.0", "1.40"):
            response = self.ask("GET", "/", version=value)
            self.assert_refused(406, f"Unacceptable version header: {value}", response)
            error = response.json["errors"][0]
            self.assertEqual(("1.0", "1.39"), (error["min_version"], error["max_version"]))
            self.assertNotIn("code", error)
            self.assertNotIn("OpenStack-API-Version", response.headers)

    def test_version_comes_before_the_route(self) -> None:
        self.assert_refused(
            406, "Unacceptable version header", self.ask("GET", "/nowhere", version="0.5"))


class TestRouting(PipelineTestCase):
    def test_unknown_path(self) -> None:
        for path in ("/nowhere", "/things/", "/things/a/b", "//things"):
            response = self.ask("GET", path)
            self.assert_refused(404, "The resource could not be found.", response)
            self.assertEqual("placement 1.39", response.headers["OpenStack-API-Version"])

    def test_unknown_method(self) -> None:
        for method in ("DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
            response = self.ask(method, "/things")
            self.assert_refused(
                405, f"The method {method} is not allowed for this resource.", response)
            self.assertEqual("GET, POST", response.headers["Allow"])
        self.assertEqual(405, self.ask("HEAD", "/things").status_int)

    def test_gate(self) -> None:
        self.assert_refused(404, "could not be found", self.ask("GET", "/late", version="1.5"))
        self.assertEqual(200, self.ask("GET", "/late", version="1.6").status_int)
        response = self.ask("DELETE", "/things/a", version="1.4")
        self.assert_refused(405, "The method DELETE is not allowed for this resource.", response)
        self.assertEqual(204, self.ask("DELETE", "/things/a", version="1.5").status_int)

    def test_gate_before_media(self) -> None:
        accept = {"Accept": "text/plain"}
        self.assertEqual(
            404, self.ask("GET", "/late", version="1.5", headers=accept).status_int)
        self.assertEqual(
            406, self.ask("GET", "/late", version="1.6", headers=accept).status_int)

    def test_media_before_gate(self) -> None:
        response = self.ask(
            "PUT", "/late", b"[]", version="1.0", headers={"Content-Type": "text/plain"})
        self.assertEqual(415, response.status_int)
        self.assertEqual(404, self.ask("PUT", "/late", b"[]", version="1.0").status_int)

    def test_paths_that_are_no_text(self) -> None:
        self.assert_refused(400, "not UTF-8", self.ask("GET", "/things/%ff"))
        self.assert_refused(404, "could not be found", self.ask("GET", "/things/a%00b"))

    def test_mounted(self) -> None:
        environ = {"SCRIPT_NAME": "/capa\xc3\xa9", "HTTP_HOST": "api.example:8778"}
        self.assertEqual(
            "/capa%C3%A9", self.ask("GET", "/things", environ=environ).json["prefix"])
        response = self.ask("POST", "/things", {"name": "a b"}, environ=environ)
        self.assertEqual(
            "http://api.example:8778/capa%C3%A9/things/a%20b", response.headers["Location"])


class TestErrors(PipelineTestCase):
    def test_categories(self) -> None:
        for path, status, detail in (
            ("/missing", 404, "No such thing."), ("/taken", 409, "It is taken."),
            ("/over", 403, "Too much."), ("/away", 503, "Not now."),
        ):
            self.assert_refused(status, detail, self.ask("GET", path))

    def test_codes_since_1_23(self) -> None:
        self.assert_refused(
            409, "It is taken.", self.ask("GET", "/taken", version="1.23"), "test.taken")
        self.assertNotIn("code", self.ask("GET", "/taken", version="1.22").json["errors"][0])

    def test_the_unexpected(self) -> None:
        with self.assertLogs("placement_core.http.tweens", "ERROR") as logs:
            response = self.ask("GET", "/broken")
        self.assert_refused(500, "", response)
        self.assertNotIn(b"secret", response.body)
        self.assertNotIn("OpenStack-API-Version", response.headers)
        request_id = response.headers["x-openstack-request-id"]
        self.assertIn(request_id, logs.output[0])
        self.assertIn("the secret is 42", logs.output[0])

    def test_the_unexpected_has_a_code_since_1_23(self) -> None:
        with self.assertLogs("placement_core.http.tweens", "ERROR"):
            for version, code in ((None, None), ("1.22", None),
                                  ("1.23", "placement.undefined_code")):
                response = self.ask("GET", "/broken", version=version)
                self.assertEqual(code, response.json["errors"][0].get("code"))
                # As OpenStack Placement's: its headers tell of no version.
                self.assertNotIn("OpenStack-API-Version", response.headers)

    def test_forms(self) -> None:
        for accept, kind in (
            ("text/html", "text/html"), ("text/plain", "text/plain"),
            ("text/html, */*;q=0.1", "application/json"), ("image/png", "application/json"),
            ("*/*", "application/json"),
        ):
            with self.subTest(accept):
                response = self.ask("GET", "/missing", headers={"Accept": accept})
                self.assertEqual(kind, response.content_type)
                self.assertIn("No such thing.", response.text)
                self.assertIn("The resource could not be found.", response.text)

    def test_html_is_escaped(self) -> None:
        response = self.ask("GET", "/things?<script>=1", headers={
            "Accept": "text/html;q=1, application/json;q=0"})
        self.assertEqual(406, response.status_int)
        response = self.ask("POST", "/things", b'{"<b>": 1}', headers={"Accept": "text/html"})
        self.assertEqual(400, response.status_int)
        self.assertNotIn("<b>", response.text)


class TestCachingHeaders(PipelineTestCase):
    def test_from_1_15(self) -> None:
        response = self.ask("GET", "/dated", version="1.15")
        self.assertEqual("no-cache", response.headers["Cache-Control"])
        self.assertEqual("Tue, 03 Feb 2026 04:05:06 GMT", response.headers["Last-Modified"])
        response = self.ask("GET", "/now", version="1.15")
        self.assertRegex(response.headers["Last-Modified"], r" \d\d:\d\d:\d\d GMT$")
        response = self.ask("GET", "/dateless", version="1.15")
        self.assertEqual("no-cache", response.headers["Cache-Control"])
        self.assertNotIn("Last-Modified", response.headers)

    def test_absent(self) -> None:
        for path, version in (("/dated", "1.14"), ("/dateless", "1.14"), ("/things", "1.15"),
                              ("/missing", "1.39")):
            response = self.ask("GET", path, version=version)
            self.assertNotIn("Cache-Control", response.headers)
            self.assertNotIn("Last-Modified", response.headers)


class TestRequestIds(PipelineTestCase):
    def test_on_every_response(self) -> None:
        for ask in (
            {"path": "/"}, {"path": "/things"}, {"path": "/nowhere"}, {"path": "/broken"},
            {"path": "/things", "token": None}, {"path": "/healthcheck", "token": None},
            {"path": "/things", "version": "bogus"},
        ):
            response = self.ask("GET", **ask)
            self.assertRegex(
                response.headers["x-openstack-request-id"],
                re.compile(r"^req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))

    def test_they_come_in_the_order_of_time(self) -> None:
        """So that those of one time are neighbours in an index."""
        ids = [requestlog.make_request_id(1_800_000_000_000 + number) for number in range(100)]
        self.assertEqual(sorted(ids), ids)
        made = uuid.UUID(ids[0].removeprefix("req-"))
        self.assertEqual((7, uuid.RFC_4122), (made.version, made.variant))
        self.assertNotEqual(ids[0], requestlog.make_request_id(1_800_000_000_000))

    def test_the_callers_id_is_only_logged(self) -> None:
        given = f"req-{UUID}"
        response = self.ask("GET", "/things", headers={"X-Openstack-Request-Id": given})
        self.assertNotEqual(given, response.headers["x-openstack-request-id"])

    def test_access_log(self) -> None:
        with self.assertLogs("placement_core.http.requestlog", "INFO") as logs:
            response = self.ask(
                "GET", "/things?name=a", version="1.7", environ={"REMOTE_ADDR": "192.0.2.1"})
        (line,) = logs.output
        self.assertIn(
            '192.0.2.1 "GET /things?name=a" status: 200 len: '
            f'{len(response.body)} microversion: 1.7 request_id: '
            f'{response.headers["x-openstack-request-id"]} time: ', line)

    def test_health_probes_are_not_logged_at_info(self) -> None:
        """They come every few seconds; a request for something else is logged."""
        probes = ("/healthcheck", "/readiness", "/metrics")
        with self.assertLogs("placement_core.http.requestlog", "INFO") as logs:
            for path in (*probes, "/things"):
                self.ask("GET", path, token=None)
        (line,) = logs.output
        self.assertIn('"GET /things"', line)
        with self.assertLogs("placement_core.http.requestlog", "DEBUG") as logs:
            for path in probes:
                self.ask("GET", path, token=None)
        self.assertEqual(3, len(logs.output))

    def test_log_lines_stay_lines(self) -> None:
        with self.assertLogs("placement_core.http.requestlog", "INFO") as logs:
            self.ask("GET", "/nowhere%0A127.0.0.1%20forged")
        self.assertNotIn("\n", logs.output[0])


class TestLiveness(PipelineTestCase):
    def test_needs_nothing(self) -> None:
        response = self.ask("GET", "/healthcheck", token=None, version="bogus")
        self.assertEqual(200, response.status_int)
