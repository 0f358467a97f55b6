"""Lines of the access log as JSON, for what a service answers."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import fixtures
import webob
from oslo_log import formatters

from placement_core import safe_logging
from placement_core.http import requestlog
from tests.http import base

_PROVIDER = {"name": "host1", "uuid": "2e6f8a5c-3c1f-4b1d-9d4e-0f6f3f0a7f11"}
_GLOBAL_ID = "req-5f2f8a5c-3c1f-4b1d-9d4e-0f6f3f0a7f11"


class AccessLog(fixtures.Fixture):
    """The access log of this process, in a format."""

    def __init__(self, formatter: logging.Formatter) -> None:
        self._formatter = formatter

    def _setUp(self) -> None:
        self._stream = io.StringIO()
        handler = logging.StreamHandler(self._stream)
        handler.setFormatter(self._formatter)
        safe_logging.protect([handler])
        level, propagates = requestlog.LOG.level, requestlog.LOG.propagate
        requestlog.LOG.addHandler(handler)
        requestlog.LOG.setLevel(logging.INFO)
        requestlog.LOG.propagate = False
        self.addCleanup(setattr, requestlog.LOG, "propagate", propagates)
        self.addCleanup(requestlog.LOG.setLevel, level)
        self.addCleanup(requestlog.LOG.removeHandler, handler)

    def take_lines(self) -> list[str]:
        """Return the lines since the last time."""
        lines = self._stream.getvalue().splitlines()
        self._stream.seek(0)
        self._stream.truncate()
        return lines


class TestJSON(base.HttpTestCase):
    options = {(None, "use_json"): True}

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(AccessLog(formatters.JSONFormatter()))

    def request(self, *args: Any, **keywords: Any) -> tuple[webob.Response, dict[str, Any]]:
        """Send a request; return the response, and the fields of its line."""
        response = self.ask(*args, **keywords)
        (line,) = self.log.take_lines()
        self.line = json.loads(line)
        return response, self.line["extra"]

    def test_success(self) -> None:
        response, fields = self.request(
            "POST", "/resource_providers", _PROVIDER, version="1.20", token="ann:p1",
            headers={"X-Roles": "admin", "X-OpenStack-Request-Id": _GLOBAL_ID},
            environ={"REMOTE_ADDR": "192.0.2.1", "SCRIPT_NAME": "/placement"})
        self.assertEqual(200, response.status_int)
        seconds = fields.pop("seconds")
        self.assertTrue(0 < seconds < 60, seconds)
        self.assertEqual({
            "remote_address": "192.0.2.1", "method": "POST",
            "path": "/placement/resource_providers", "query": None, "api": "placement",
            "operation": "POST /resource_providers", "status": 200, "code": None,
            "length": len(response.body), "microversion": "1.20", "project_id": "p1",
            "user_id": "ann", "request_id": response.headers["x-openstack-request-id"],
            "global_request_id": _GLOBAL_ID, "trace_id": None,
        }, fields)
        self.assertIn('"POST /placement/resource_providers" status: 200', self.line["message"])

    def test_no_content(self) -> None:
        self.request("POST", "/resource_providers", _PROVIDER)
        _, fields = self.request("DELETE", f"/resource_providers/{_PROVIDER['uuid']}")
        self.assertEqual((204, "DELETE /resource_providers/{uuid}"),
                         (fields["status"], fields["operation"]))

    def test_refusals(self) -> None:
        self.request("POST", "/resource_providers", _PROVIDER)
        _, fields = self.request("POST", "/resource_providers", _PROVIDER)
        self.assertEqual((409, "placement.duplicate_name"), (fields["status"], fields["code"]))
        _, fields = self.request("GET", "/resource_providers", token=None)
        self.assertEqual(
            (401, "placement.undefined_code", None, None, None),
            tuple(fields[name] for name in ("status", "code", "operation", "api", "user_id")))

    def test_requests_that_meet_no_operation(self) -> None:
        for path, status in (("/nothing", 404), ("/healthcheck", None)):
            requestlog.LOG.setLevel(logging.DEBUG)
            response, fields = self.request("GET", path)
            self.assertEqual((None, None), (fields["operation"], fields["api"]))
            self.assertEqual(status or response.status_int, fields["status"])

    def test_a_defect(self) -> None:
        def fail(*_args: Any, **_keywords: Any) -> None:
            raise RuntimeError("s3cr3t")

        self.useFixture(fixtures.MonkeyPatch("placement_core.services.Services.context", fail))
        response, fields = self.request("GET", "/resource_providers")
        self.assertEqual(500, response.status_int)
        self.assertEqual((500, "placement.undefined_code", "GET /resource_providers"), (
            fields["status"], fields["code"], fields["operation"]))
        self.assertNotIn("s3cr3t", json.dumps(self.line))

    def test_a_defect_of_middleware(self) -> None:
        def fail(*_args: Any) -> None:
            raise RuntimeError("s3cr3t")

        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.http.response_cache.ResponseCache.__call__", fail))
        log = self.useFixture(fixtures.FakeLogger())
        response, fields = self.request("GET", "/capacity/v1/quota", version=None)
        request_id = response.headers["x-openstack-request-id"]
        self.assertEqual((500, 500), (response.status_int, fields["status"]))
        self.assertEqual("placement.undefined_code", response.json["errors"][0]["code"])
        self.assertNotIn("s3cr3t", response.text + json.dumps(self.line))
        self.assertIn(f"request {request_id} failed", log.output)
        self.assertIn("RuntimeError: s3cr3t", log.output)

    def test_cached_responses_have_the_same_fields(self) -> None:
        lines = []
        for _ in range(2):
            _, fields = self.request("GET", "/v3/limits?region_id=r1", version=None)
            lines.append({name: fields[name] for name in fields
                          if name not in ("seconds", "request_id")})
        self.assertEqual(lines[0], lines[1])
        self.assertEqual(("limits", "GET /v3/limits", "region_id=r1", 200), tuple(
            lines[0][name] for name in ("api", "operation", "query", "status")))

    def test_what_clients_send_stays_harmless(self) -> None:
        _, fields = self.request("GET", "/a%0Ab%1B[2K", token="x\x1b[2K:p\u0085")
        self.assertEqual(("/a\\nb\\x1b[2K", "x\\x1b[2K"), (fields["path"], fields["user_id"]))
        for query in ('token=s3cr3t&x=1', 'x=http://h/?token=s3cr3t"', "token=s3cr3t&u=http://h/",
                      'x=http://u:s3cr3t@h\\"', 'u=http://h?token=s3cr3t\\',
                      "x=1&token='s3cr3t'"):
            with self.subTest(query):
                self.ask("GET", "/", environ={"QUERY_STRING": query})
                (line,) = self.log.take_lines()
                self.assertNotIn("s3cr3t", line)


class TestText(base.HttpTestCase):
    def test_lines(self) -> None:
        log = self.useFixture(AccessLog(logging.Formatter()))
        response = self.ask("GET", "/resource_providers?name=a", version="1.20",
                            environ={"REMOTE_ADDR": "192.0.2.1"})
        (line,) = log.take_lines()
        self.assertRegex(
            line, r'^192\.0\.2\.1 "GET /resource_providers\?name=a" status: 200 '
            rf'len: {len(response.body)} microversion: 1\.20 '
            rf'request_id: {response.headers["x-openstack-request-id"]} time: \d+\.\d{{4}}$')

    def test_secrets(self) -> None:
        log = self.useFixture(AccessLog(logging.Formatter()))
        self.ask("GET", "/usages?token=s3cr3t&project_id=p")
        (line,) = log.take_lines()
        self.assertIn('"GET /usages?token=***&project_id=p"', line)
