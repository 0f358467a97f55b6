"""Upstream's gabbi suite through the shadow: a real placement answers, ours follows.

A part of its files by default; PLACEMENT_TEST_SHADOW_FILES names others by a regular expression
(``.*``: the whole suite).
"""

from __future__ import annotations

import functools
import http.client
import inspect
import os
import pathlib
import re
import sqlite3
import tempfile
import threading
import types
import unittest
import urllib.parse
import wsgiref.simple_server
from collections.abc import Callable, Iterable
from typing import Any

import fixtures
import testtools
import yaml
from gabbi import driver

from placement_core import app
from placement_core.shadow.reports import Report
from tests import placement_service, shadows
from tests.answers import CheckedAnswers
from tests.conformance import gabbi_fixtures, test_gabbi
from tests.conformance.deployments import WSGI

#: Each kind of request, of object, of policy; candidates with and without a limit.
_PART = (
    r"aggregate|allocation-candidates-any-traits|allocations-1\.28|allocations-post|basic-http"
    r"|consumer-types-1\.38|cors|inventory|reshaper|resource-classes-1-7|resource-provider"
    r"|resource-provider-policy|traits|usage-secure-rbac|with-allocations")
_FILES = os.environ.get("PLACEMENT_TEST_SHADOW_FILES", _PART)

#: What is not compared: the tests ask for things that the two services are to answer differently.
#: {cause of a difference: reason}.
EXPLAINED: dict[str, str] = {}
#: What is left out: {test: reason}.
LEFT_OUT = {
    "basic-http_bad_content_length_not_int":
        "no HTTP server hands a request of no length to what is behind it"}
_HOP_BY_HOP = {"connection", "transfer-encoding"}
#: What a new database has.
_KEPT_TABLES = {"alembic_version", "sqlite_sequence"}
_NAMED_TABLES = {"traits", "resource_classes"}


def _clear(database: pathlib.Path) -> None:
    """Delete everything that a new database has not."""
    connection = sqlite3.connect(database)
    with connection:
        for (table,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if table in _NAMED_TABLES:
                connection.execute(f"DELETE FROM {table} WHERE name LIKE 'CUSTOM_%'")
            elif table not in _KEPT_TABLES:
                connection.execute(f"DELETE FROM {table}")
    connection.close()


class _Shadowed:
    """Mixed into a fixture: what the tests ask is a proxy."""

    #: Placements that run, by their options: starting one takes seconds.
    upstreams: dict[str, placement_service.Process] = {}
    reports: list[Report] = []

    def make_service(self) -> WSGI:
        """Return what the tests ask."""
        self._parts = fixtures.Fixture()
        self._parts.setUp()
        ours = wsgiref.simple_server.make_server(
            "127.0.0.1", 0, CheckedAnswers(app.make_app(self._configuration()), app.APIS),
            server_class=placement_service.Server,
            handler_class=placement_service.Handler)
        threading.Thread(target=ours.serve_forever, args=(0.01,), daemon=True).start()
        self._parts.addCleanup(ours.server_close)
        self._parts.addCleanup(ours.shutdown)
        upstream = self._find_upstream()
        _clear(upstream.database)
        folder = pathlib.Path(self._parts.useFixture(fixtures.TempDir()).path)
        self._proxy = self._parts.useFixture(shadows.ThreadedProxy(
            upstream.url, f"http://127.0.0.1:{ours.server_port}", folder))
        return functools.partial(_forward, self._proxy.url.removeprefix("http://"))

    def stop_fixture(self) -> None:
        """Leave nothing behind but the report."""
        self._proxy.stop()
        self.reports.append(self._proxy.report())
        self._parts.cleanUp()
        super().stop_fixture()  # type: ignore[misc]

    def _find_upstream(self) -> placement_service.Process:
        policy = yaml.safe_dump(self.policy())
        options = {"oslo_policy": {"enforce_new_defaults": self.new_policy_defaults}}
        for (group, option), value in self.options.items():
            text = ",".join(value) if isinstance(value, list) else value
            options.setdefault(group, {})[option] = text
        key = f"{policy}{options}"
        if key not in self.upstreams:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="placement-shadow-"))
            (folder / "policy.yaml").write_text(policy)
            options["oslo_policy"]["policy_file"] = str(folder / "policy.yaml")
            process = placement_service.Process("".join(
                f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())
                for group, values in options.items()))
            process.setUp()
            self.upstreams[key] = process
        return self.upstreams[key]


def _make_fixtures() -> types.ModuleType:
    """Return a module with each fixture of the suite, before a proxy."""
    module = types.ModuleType("shadow_fixtures")
    for name, kind in vars(gabbi_fixtures).items():
        if inspect.isclass(kind) and issubclass(kind, gabbi_fixtures.APIFixture):
            setattr(module, name, type(name, (_Shadowed, kind), {}))
    return module


def _forward(
    address: str, environ: dict[str, Any], start_response: Callable[..., Any]
) -> Iterable[bytes]:
    """Send a request of the suite to the proxy."""
    headers = {name[5:].replace("_", "-"): value for name, value in environ.items()
               if name.startswith("HTTP_")}
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            headers[name.replace("_", "-")] = environ[name]
    # Gabbi's client has decoded the path; what it has no sign for stays as it is.
    path = urllib.parse.quote(environ["PATH_INFO"].encode("latin-1"), safe="/:@!$&'()*+,;=~")
    query = environ.get("QUERY_STRING")
    length = int(environ.get("CONTENT_LENGTH") or 0)
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request(
        environ["REQUEST_METHOD"], f"{path}?{query}" if query else path,
        environ["wsgi.input"].read(length) if length else None, headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    start_response(f"{answer.status} {answer.reason}", [
        (name, value) for name, value in answer.getheaders() if name.lower() not in _HOP_BY_HOP])
    return [body]


@testtools.skipUnless(placement_service.INSTALLED, "openstack-placement is not installed")
class TestThroughShadow(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(_stop_upstreams)

    def test_the_suite(self) -> None:
        """Upstream answers all of it as without the shadow, and ours differs nowhere."""
        suites = [suite for suite in driver.build_tests(
            str(test_gabbi.suite_path()), unittest.defaultTestLoader,
            intercept=gabbi_fixtures.application, test_loader_name=__name__,
            fixture_module=_make_fixtures()) if _is_chosen(suite)]
        self.assertLess(0, len(suites))
        tests = [test for suite in suites for test in test_gabbi._flatten(suite)]
        left_out = [test for test in tests if _find_name(test) in LEFT_OUT]
        for test in left_out:
            test.run = lambda result, *_: None
        _Shadowed.reports.clear()
        result = unittest.TestResult()
        for suite in suites:
            suite.run(result)
        number = len(tests) - len(left_out)
        self.assertEqual([], [trace for _, trace in [*result.failures, *result.errors]])
        self.assertEqual((number, []), (result.testsRun, result.skipped))
        reports = _Shadowed.reports
        differences = [
            (example.cause, example) for report in reports for example in report.examples
            if example.cause not in EXPLAINED]
        self.assertEqual([], differences)
        self.assertEqual([{}] * len(reports), [dict(report.unresolved) for report in reports])
        # It was compared: what a write ran beside is not, and requests come one by one.
        self.assertEqual(0, sum(report.overlapped for report in reports))
        self.assertEqual(
            sum(report.writes for report in reports), sum(report.applied for report in reports))
        print(f"{number} tests, {sum(report.requests for report in reports)} requests, "
              f"{sum(report.equal for report in reports)} reads equal, "
              f"{sum(report.applied for report in reports)} writes equal")


def _is_chosen(suite: unittest.TestSuite) -> bool:
    """Tell whether a file is named; its tests are called after it."""
    file_name = _find_name(next(iter(test_gabbi._flatten(suite)))).partition("_")[0]
    return re.fullmatch(_FILES, file_name) is not None


def _find_name(test: unittest.TestCase) -> str:
    return test.id().removeprefix(f"{__name__}.").removesuffix(".test_request")


def _stop_upstreams() -> None:
    while _Shadowed.upstreams:
        _Shadowed.upstreams.popitem()[1].cleanUp()
