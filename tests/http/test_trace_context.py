"""Traces go through the service: into its log, and on to the services that it asks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings, strategies as st
from keystoneauth1 import loading
from oslo_config import cfg
from oslo_log import formatters

from placement_core import app
from placement_plugins import keystone
from placement_plugins.catalog import keystone as keystone_catalog
from placement_plugins.limits import keystone as keystone_limits
from tests import databases
from tests.http import base, served
from tests.http.test_access_log import AccessLog

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


class Recorder:
    """Another service: an application that notes the headers of its requests."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self.environs: list[dict[str, Any]] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self.environs.append(dict(environ))
        answer: Iterable[bytes] = self._application(environ, start_response)
        return answer

    def take(self, name: str) -> list[str | None]:
        """Return a header of each request since the last time."""
        values = [environ.get(f"HTTP_{name.upper()}") for environ in self.environs]
        self.environs.clear()
        return values


def use_keystone(conf: cfg.ConfigOpts, url: str) -> None:
    """Let a service read limits and catalog from another one."""
    group = keystone.GROUP.name
    conf.register_group(cfg.OptGroup(group))
    loading.register_auth_conf_options(conf, group)
    conf.register_opts(loading.get_auth_plugin_conf_options("admin_token"), group=group)
    for name, value in {"auth_type": "admin_token", "token": "admin",
                        "endpoint": f"{url}/v3"}.items():
        conf.set_override(name, value, group)
    conf.set_override("driver", "keystone", "limits")
    conf.set_override("driver", "keystone", "catalog")
    for driver in (keystone_catalog, keystone_limits):
        for group, options in driver.list_opts():
            conf.register_opts(options, group=group)
            # Each request asks the other one.
            conf.set_override("cache_seconds", 0, group)


class RemoteTestCase(base.HttpTestCase):
    """Two services of ours, of which the second one is the other's Keystone."""

    def setUp(self) -> None:
        super().setUp()
        service = self.ask("POST", "/v3/services", {"service": {"type": "compute"}}, version=None)
        self.path = f"/capacity/v1/limits/effective?service_id={service.json['service']['id']}"
        self.remote = Recorder(self.app)
        url = self.useFixture(served.Served(self.remote)).url
        conf = base.configuration(databases.settings(self.kind).connection, {
            (None, "use_json"): True, **self.options})
        use_keystone(conf, url)
        self.app = app.make_app(conf)
        self.log = self.useFixture(AccessLog(formatters.JSONFormatter()))
        self.remote.environs.clear()

    def request(self, **headers: str) -> str | None:
        """Make the service ask the other one; return the trace's id in its log."""
        response = self.ask("GET", self.path, version=None, headers=headers)
        self.assertEqual(200, response.status_int, response.body)
        *_, line = self.log.take_lines()
        fields = json.loads(line)
        self.assertEqual(fields["extra"]["trace_id"], fields["context"].get("trace_id"))
        trace_id: str | None = fields["extra"]["trace_id"]
        return trace_id


class TestRemote(RemoteTestCase):
    def test_a_trace_goes_on(self) -> None:
        state = "vendor=a:1,other=b"
        self.assertEqual(TRACE, self.request(Traceparent=TRACEPARENT, Tracestate=state))
        self.assertEqual({state}, {environ.get("HTTP_TRACESTATE")
                                   for environ in self.remote.environs})
        parents = self.remote.take("traceparent")
        self.assertGreater(len(parents), 0)
        for parent in parents:
            self.assertRegex(parent or "", f"^00-{TRACE}-[0-9a-f]{{16}}-01$")
        self.assertNotIn(TRACEPARENT, parents)

    def test_without_one_nothing_is_made_up(self) -> None:
        self.request(Traceparent=TRACEPARENT)
        self.remote.environs.clear()
        for headers in ({}, {"Traceparent": f"{TRACEPARENT}x", "Tracestate": "a=1"}):
            self.assertIsNone(self.request(**headers))
            self.assertEqual(
                {(None, None)}, {(environ.get("HTTP_TRACEPARENT"), environ.get("HTTP_TRACESTATE"))
                                 for environ in self.remote.environs})
            self.remote.environs.clear()

    def test_answers_do_not_change(self) -> None:
        responses = [self.ask("GET", self.path, version=None, headers=headers)
                     for headers in ({}, {"Traceparent": TRACEPARENT})]
        bodies, headers = [
            [response.body for response in responses],
            [{name: value for name, value in response.headers.items()
              if name != "x-openstack-request-id"} for response in responses]]
        self.assertEqual(bodies[0], bodies[1])
        self.assertEqual(headers[0], headers[1])


class TestGarbage(base.HttpTestCase):
    def test_no_header_breaks_a_request(self) -> None:
        header = st.text(st.characters(max_codepoint=255))

        @settings(deadline=None, max_examples=60)
        @given(header, header)
        def ask(traceparent: str, tracestate: str) -> None:
            response = self.ask("GET", "/resource_providers", environ={
                "HTTP_TRACEPARENT": traceparent, "HTTP_TRACESTATE": tracestate})
            self.assertEqual(200, response.status_int)

        ask()
