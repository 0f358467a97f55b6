"""Dashboards to look at: served, with something in their database."""

from __future__ import annotations

import json
import pathlib
import re
import urllib.parse
from collections.abc import Callable, Mapping
from unittest import mock

import fixtures
from oslo_config import cfg
from playwright import sync_api

from placement_core import app, services
from placement_core.cells import engines
from placement_core.cli import demo_cloud
from placement_core.http.capacity_api import policies
from placement_core.http.dashboard import paths, routes
from placement_core.workers.reporter import WorkerReporter
from tests import databases
from tests.http import base, served

Fill = Callable[[services.Services], None]

#: What has no page: files, and redirects.
_NO_PAGES = (f"{paths.STATIC}/{{name}}",)


def fill_with_demo(parts: services.Services) -> None:
    """Write the cloud of ``placement-core demo``."""
    demo_cloud.fill(parts, parts.context(), lambda line: None)


class Dashboard(fixtures.Fixture):
    """A service of this process, reached through a port.

    :ivar origin: scheme, host and port.
    :ivar url: of the overview.
    :ivar parts: of the service.
    :ivar reporters: those of its processes, if they report.
    """

    def __init__(self, fill: Fill, options: base.Options | None = None) -> None:
        """Prepare it.

        :param fill: writes something into the empty database.
        """
        self._fill = fill
        self._options = dict(options or {})

    def _setUp(self) -> None:
        conf = base.configuration(
            databases.settings("sqlite").connection,
            {("dashboard", "enabled"): True, ("quota", "count_usage_from_placement"): True,
             **self._options})
        self.reporters: list[WorkerReporter] = []
        build = services.build

        def build_and_dispose(conf: cfg.ConfigOpts) -> services.Services:
            parts = build(conf)
            if parts.reporter is not None:
                self.addCleanup(parts.reporter.stop)
                self.reporters.append(parts.reporter)
            self.addCleanup(engines.SHARED.dispose)
            self.addCleanup(parts.database.dispose)
            return parts

        # The application builds parts of its own.
        self.useFixture(fixtures.MonkeyPatch("placement_core.services.build", build_and_dispose))
        self.parts = services.build(conf)
        self._fill(self.parts)
        self.origin = self.useFixture(served.Served(app.make_app(conf))).url
        self.url = f"{self.origin}{paths.PREFIX}"


class Refusals(fixtures.Fixture):
    """Services that show nothing of a cloud: what people see instead.

    :ivar urls: {what it is: URL}: the form to log in, and the pages of errors by their status.
    """

    def _setUp(self) -> None:
        # To show the form, no Keystone has to be there.
        with mock.patch.dict("os.environ", {
                "OS_KEYSTONE_AUTHTOKEN__AUTH_TYPE": "password",
                "OS_KEYSTONE_AUTHTOKEN__AUTH_URL": "http://127.0.0.1:9",
                "OS_KEYSTONE_AUTHTOKEN__WWW_AUTHENTICATE_URI": "http://127.0.0.1:9"}):
            closed = self.useFixture(
                Dashboard(_fill_with_nothing, {("api", "auth_strategy"): "keystone"}))
        policy = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "policy.yaml")
        policy.write_text(json.dumps({policies.ROOM_HOSTS: "!"}))  # which is YAML
        refusing = self.useFixture(
            Dashboard(_fill_with_nothing, {("oslo_policy", "policy_file"): str(policy)}))
        self.urls = {"/login": f"{closed.url}/login", "403": f"{refusing.url}/hosts",
                     "404": f"{refusing.url}/nothing"}


def _fill_with_nothing(parts: services.Services) -> None:
    """Leave the database empty."""


def find_route(url: str) -> str | None:
    """Return the path of the operation that answers for a URL; None: it is none of ours."""
    path = urllib.parse.urlsplit(url).path.partition(paths.PREFIX)[2].rstrip("/")
    for operation in routes.OPERATIONS:
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(operation.path))
        if operation.method == "GET" and re.fullmatch(pattern, path):
            return operation.path
    return None


def list_routes() -> set[str]:
    """Return the paths of the operations that answer with a page."""
    return {operation.path for operation in routes.OPERATIONS
            if operation.method == "GET" and operation.path not in _NO_PAGES}


def crawl(page: sync_api.Page, url: str) -> Mapping[str, str]:
    """Follow the links of pages; return a URL for each kind of page, {path of the route: URL}."""
    visited: dict[str, str] = {}
    waiting = [url]
    while waiting:
        url = waiting.pop(0)
        route = find_route(url)
        if route is None or route in visited or route in _NO_PAGES:
            continue
        response = page.goto(url)
        assert response is not None and response.status == 200, (url, response)
        visited[route] = url
        # A link in a picture has no text for its address.
        waiting += page.evaluate("""Array.from(document.querySelectorAll("main a, nav a"),
            (link) => new URL(link.getAttribute("href"), location).href)""")
    return visited
