"""Requests through the whole application, without a server."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import fixtures
import webob
from oslo_config import cfg

from placement_core import app, conf, services
from placement_core.cells import engines
from placement_core.http.apis import Api
from tests import answers, base, databases

#: {(group, option): value}; the group None is [DEFAULT].
Options = Mapping[tuple[str | None, str], Any]


def configuration(connection: str, options: Options | None = None) -> cfg.ConfigOpts:
    """Return options for a service on ``connection`` that believes every token."""
    made = cfg.ConfigOpts()
    conf.register(made)
    made.set_override("connection", connection, "placement_database")
    made.set_override("sqlite_synchronous", False, "placement_database")
    made.set_override("auth_strategy", "noauth2", "api")
    # Tests have SQLite databases of cells in temporary folders, and in none.
    made.set_override("directories", ["/"], "cells")
    # Requests without a server come from nowhere.
    made.set_override("allow_remote_noauth2", True, "api")
    # Few tests expect that somebody else writes.
    made.set_default("report", False, "workers")
    for (group, option), value in (options or {}).items():
        made.set_override(option, value, group)
    made([], project="placement", default_config_files=[], default_config_dirs=[])
    return made


def policy_file(test: fixtures.TestWithFixtures, rules: Mapping[str, str]) -> Options:
    """Return the option that names a policy file with some rules."""
    path = pathlib.Path(test.useFixture(fixtures.TempDir()).path, "policy.yaml")
    path.write_text(json.dumps(rules))  # which is YAML
    return {("oslo_policy", "policy_file"): str(path)}


class HttpTestCase(base.TestCase):
    """A test of the application on an empty database of its own.

    :cvar kind: sqlite, postgresql or mysql (``databases.on_each_database``).
    :cvar apis: what the service speaks.
    :cvar pages: what it speaks besides, as ``options`` say.
    :cvar options: what the service is configured with, {(group, option): value}.
    """

    kind = "sqlite"
    apis: Sequence[Api] = app.APIS
    pages: Sequence[Api] = ()
    options: Options = {}

    def setUp(self) -> None:
        super().setUp()
        #: The parts of every application that the test makes.
        self.parts: list[services.Services] = []
        build = services.build

        def noted(conf: cfg.ConfigOpts) -> services.Services:
            self.parts.append(build(conf))
            # An application that is only dropped keeps its connections for a while.
            self.addCleanup(self.parts[-1].database.dispose)
            self.addCleanup(engines.SHARED.dispose)
            return self.parts[-1]

        self.useFixture(fixtures.MonkeyPatch("placement_core.services.build", noted))
        self.conf = configuration(self.connection(), self.options)
        self.app = answers.CheckedAnswers(
            app.make_app(self.conf, apis=self.apis), [*self.apis, *self.pages])

    def connection(self) -> str:
        """Make an empty database; return the URL by which the service reaches it."""
        return databases.settings(self.kind).connection

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        version: str | None = "latest",
        token: str | None = "admin",
        headers: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> webob.Response:
        """Send one request; ``body`` is bytes, or something for JSON."""
        request = webob.Request.blank(path, method=method)
        request.content_type = ""
        if body is not None:
            request.body = body if isinstance(body, bytes) else json.dumps(body).encode()
            request.headers["Content-Type"] = "application/json"
        if token is not None:
            request.headers["X-Auth-Token"] = token
        if version is not None:
            request.headers["OpenStack-API-Version"] = f"placement {version}"
        for name, value in (headers or {}).items():
            request.headers[name] = value
        request.environ.update(environ or {})
        return request.get_response(self.app)

    def assert_refused(
        self, status: int, detail: str, response: webob.Response, code: str | None = None
    ) -> None:
        """Expect the JSON error document with ``detail`` somewhere in its text."""
        self.assertEqual(status, response.status_int, response.body)
        (error,) = response.json["errors"]
        self.assertEqual(status, error["status"])
        self.assertIn(detail, error["detail"])
        self.assertEqual(response.headers["x-openstack-request-id"], error["request_id"])
        if code is not None:
            self.assertEqual(code, error["code"])
