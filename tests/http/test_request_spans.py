"""Spans of requests, and of what is done for them."""

from __future__ import annotations

import json
import unittest
from typing import Any

import fixtures
from hypothesis import given, settings, strategies as st
from oslo_log import formatters

from placement_core import db, tracing
from tests import spans
from tests.http import base, test_trace_context
from tests.http.test_access_log import AccessLog
from tests.http.test_trace_context import TRACE, TRACEPARENT

_ENABLED = {("tracing", "enabled"): True, (None, "use_json"): True}
_PROVIDER = {"name": "host1", "uuid": "2e6f8a5c-3c1f-4b1d-9d4e-0f6f3f0a7f11"}


@unittest.skipUnless(spans.INSTALLED, spans.REASON)
class TestRequests(base.HttpTestCase):
    options = _ENABLED

    def setUp(self) -> None:
        self.spans = self.useFixture(spans.Spans())
        super().setUp()
        self.log = self.useFixture(AccessLog(formatters.JSONFormatter()))
        self.spans.take()

    def request(self, *args: Any, **keywords: Any) -> tuple[Any, list[Any]]:
        """Send a request; return its span, and those inside."""
        self.response = self.ask(*args, **keywords)
        server, *others = self.spans.take()
        self.assertEqual("SERVER", server.kind.name)
        for span in others:
            self.assertEqual(server.context.trace_id, span.context.trace_id)
        *_, line = self.log.take_lines()
        self.assertEqual(f"{server.context.trace_id:032x}", json.loads(line)["extra"]["trace_id"])
        return server, others

    def test_success(self) -> None:
        server, others = self.request("POST", "/resource_providers", _PROVIDER, environ={
            "REMOTE_ADDR": "192.0.2.1", "HTTP_USER_AGENT": "osc", "SCRIPT_NAME": "/placement"})
        self.assertEqual("POST /resource_providers", server.name)
        self.assertEqual({
            "http.request.method": "POST", "http.route": "/resource_providers",
            "http.response.status_code": 200, "url.scheme": "http",
            "url.path": "/placement/resource_providers", "client.address": "192.0.2.1",
            "server.address": "localhost", "user_agent.original": "osc",
        }, dict(server.attributes))
        self.assertEqual("UNSET", server.status.status_code.name)
        self.assertIsNone(server.parent)
        (write,) = [span for span in others if span.name == "write"]
        self.assertEqual({"db.system.name": self.kind}, dict(write.attributes))
        self.assertEqual(server.context.span_id, write.parent.span_id)

    def test_reads_and_refreshes(self) -> None:
        self.request("POST", "/resource_providers", _PROVIDER)
        server, others = self.request("GET", f"/resource_providers/{_PROVIDER['uuid']}")
        self.assertEqual("GET /resource_providers/{uuid}", server.name)
        self.assertEqual({"read"}, {span.name for span in others})
        server, others = self.request("GET", "/allocation_candidates?resources=VCPU:1")
        (refresh,) = [span for span in others if span.name == "index refresh"]
        self.assertEqual("capacity", refresh.attributes["placement_core.index"])
        self.assertGreater(len(spans.find_children(others, refresh)), 0)

    def test_a_trace_goes_on(self) -> None:
        server, _ = self.request("GET", "/resource_providers",
                                 headers={"Traceparent": TRACEPARENT, "Tracestate": "a=1"})
        self.assertEqual((TRACE, "00f067aa0ba902b7"), (
            f"{server.context.trace_id:032x}", f"{server.parent.span_id:016x}"))

    def test_refusals(self) -> None:
        self.request("POST", "/resource_providers", _PROVIDER)
        server, others = self.request("POST", "/resource_providers", _PROVIDER)
        self.assertEqual((409, "UNSET"), (
            server.attributes["http.response.status_code"], server.status.status_code.name))
        (write,) = [span for span in others if span.name == "write"]
        self.assertEqual("ERROR", write.status.status_code.name)
        self.assertNotIn("host1", str([span.to_json() for span in (server, write)]))
        for method, name, attribute in (("GET", "GET", "GET"), ("BREW", "HTTP", "_OTHER")):
            server, _ = self.request(method, "/nothing")
            self.assertEqual((name, attribute), (
                server.name, server.attributes["http.request.method"]))
            self.assertNotIn("http.route", server.attributes)

    def test_a_defect(self) -> None:
        def fail(*_args: Any, **_keywords: Any) -> None:
            raise RuntimeError("s3cr3t")

        self.useFixture(fixtures.MonkeyPatch("placement_core.services.Services.context", fail))
        server, _ = self.request("GET", "/resource_providers")
        self.assertEqual(("ERROR", "500"), (
            server.status.status_code.name, server.attributes["error.type"]))
        self.assertNotIn("s3cr3t", server.to_json())

    def test_secrets_stay_out(self) -> None:
        server, _ = self.request("GET", "/resource_providers?token=s3cr3t&name=a")
        self.assertEqual("token=***&name=a", server.attributes["url.query"])

    def test_transactions_of_their_own_have_none(self) -> None:
        ctx = self.parts[0].context()
        with db.read(ctx), db.read_once(ctx):
            pass
        self.assertEqual([], self.spans.take())
        with tracing.span("outer"), db.read(ctx):
            pass
        self.assertEqual(["outer", "read"], [span.name for span in self.spans.take()])

    def test_probes_have_none(self) -> None:
        self.ask("GET", "/healthcheck")
        self.ask("GET", "/readiness")
        self.assertEqual([], [span for span in self.spans.take() if span.kind.name == "SERVER"])

    def test_no_header_breaks_a_request(self) -> None:
        header = st.text(st.characters(max_codepoint=255))

        @settings(deadline=None, max_examples=60)
        @given(header, header, header)
        def ask(traceparent: str, tracestate: str, baggage: str) -> None:
            for parent in (traceparent, TRACEPARENT):
                response = self.ask("GET", "/resource_providers", environ={
                    "HTTP_TRACEPARENT": parent, "HTTP_TRACESTATE": tracestate,
                    "HTTP_BAGGAGE": baggage})
                self.assertEqual(200, response.status_int)

        ask()


@unittest.skipUnless(spans.INSTALLED, spans.REASON)
class TestRemote(test_trace_context.RemoteTestCase):
    """Two services; the one that the other asks makes spans in the same trace."""

    options = _ENABLED

    def setUp(self) -> None:
        self.spans = self.useFixture(spans.Spans())
        super().setUp()
        self.spans.take()

    def test_calls(self) -> None:
        for headers in ({}, {"Traceparent": TRACEPARENT}):
            with self.subTest(headers):
                trace_id = self.request(**headers)
                parents = self.remote.take("traceparent")
                made = self.spans.take()
                self.assertEqual({trace_id}, {f"{span.context.trace_id:032x}" for span in made})
                calls = [span for span in made if span.kind.name == "CLIENT"]
                self.assertEqual(sorted(parents), sorted(
                    f"00-{trace_id}-{call.context.span_id:016x}-0{int(call.context.trace_flags)}"
                    for call in calls))
                for call in calls:
                    self.assertEqual(("GET", "127.0.0.1"), tuple(
                        call.attributes[name] for name in (
                            "http.request.method", "server.address")))
                    # What has not changed is answered 304.
                    self.assertIn(call.attributes["http.response.status_code"], (200, 304))
                    (server,) = spans.find_children(made, call)
                    self.assertEqual("SERVER", server.kind.name)
                    self.assertTrue(server.name.startswith("GET /v3/"), server.name)
