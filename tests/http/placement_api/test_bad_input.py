"""Malformed requests at every operation: refused in form, never a 500, nothing written."""

from __future__ import annotations

import itertools
import urllib.parse

import hypothesis
from hypothesis import strategies as st

from placement_core.http.placement_api import microversions as mv
from placement_core.http.placement_api.routes import OPERATIONS
from placement_core.http.versions import format_version
from tests import databases
from tests.http.placement_api import sweeps

_BODIED = [operation for operation in OPERATIONS if operation.body is not None]
_QUERIED = [operation for operation in OPERATIONS if operation.query is not None]


def _steps(ladder):
    """Return the microversions where a ladder changes, and the newest."""
    return sorted({*ladder.rungs, mv.NEWEST})


class TestBadJson(sweeps.SweepTestCase):
    def test_no_such_json(self):
        before = self.snapshot()
        for operation in _BODIED:
            for version in _steps(operation.body):
                schema = operation.body.at(version)
                if schema is None:
                    continue
                for body in sweeps.WRONG_BODIES:
                    if body == b"[]" and schema["type"] == "array":
                        continue
                    response = self.ask(operation.method, sweeps.filled(operation.path), body,
                                        version=format_version(version))
                    self.assert_sound(response, (operation.path, version, body[:60]), {400})
        self.assertEqual(before, self.snapshot())


@databases.on_each_database
class TestBadBody(sweeps.SweepTestCase):
    def test_one_thing_wrong(self):
        for method, path in self.valid_bodies():
            self._spoil(method, path)

    def _spoil(self, method, path):
        valid, before = self.valid_bodies()[method, path], self.snapshot()
        cases = self._cases(valid)
        for number in range(len(cases)):
            what, body = cases[number]
            response = self.ask(method, sweeps.filled(path), body)
            self.assert_sound(response, (method, path, what))
            if response.status_int < 400:
                # Not wrong after all (snowmen are a name): begin again.
                self.restore()
                before, now_valid = self.snapshot(), self.valid_bodies()[method, path]
                if now_valid != valid:
                    valid, cases = now_valid, self._cases(now_valid)
        self.assertEqual(before, self.snapshot(), path)

    def _cases(self, valid):
        # What is no JSON never comes as far as the database.
        texts = sweeps.WRONG_TEXTS if self.kind == "sqlite" else ()
        return list(sweeps.spoiled(valid, texts=texts))


@databases.on_each_database
class TestBadAddress(sweeps.SweepTestCase):
    def test_segments(self):
        before = self.snapshot()
        bodies = self.valid_bodies()
        for operation in OPERATIONS:
            variables = [part for part in operation.path.split("/") if part.startswith("{")]
            body = bodies.get((operation.method, operation.path))
            for variable, segment in itertools.product(variables, sweeps.WRONG_SEGMENTS):
                path = sweeps.filled(operation.path.replace(variable, segment.replace(
                    "{", "{{").replace("}", "}}")))
                response = self.ask(operation.method, path, body)
                what = (operation.method, path)
                self.assert_sound(response, what)
                if operation.method == "GET" and variable == "{consumer}":
                    continue
                if (operation.method, variable) == ("PUT", "{consumer}"):
                    # Every spelling of a uuid is one: the claim is made, then undone.
                    if response.status_int == 204:
                        self.ask("DELETE", f"/allocations/{sweeps.NEW}")
                        self.restore()
                        before = self.snapshot()
                    continue
                self.assertGreaterEqual(response.status_int, 400, what)
        self.assertEqual(before, self.snapshot())

    def test_paths(self):
        for path in ("//", "/%00", "/%ff", "/resource_providers/", "/traits//", "/allocations/",
                     "/resource_providers/a/b/c/d", "/resource_providers%2fx", "/%e2%98%83"):
            for method in ("GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW"):
                response = self.ask(method, path, {} if method in ("PUT", "POST") else None)
                self.assertIn(response.status_int, (400, 404, 405), (method, path))


@databases.on_each_database
class TestBadQuery(sweeps.SweepTestCase):
    def test_values(self):
        before = self.snapshot()
        for operation in _QUERIED:
            # What another database may answer otherwise, it does at each version.
            for version in _steps(operation.query) if self.kind == "sqlite" else [mv.NEWEST]:
                schema = operation.query.at(version)
                names = [*schema["properties"], "unknown", "%00", "%ff", "%e2%98%83", ""]
                names += [pattern.strip("^").partition("(")[0] + suffix
                          for pattern in schema.get("patternProperties", ())
                          for suffix in ("", "1", "_A", "%0a", "-" * 65)]
                for name, value in itertools.product(names, sweeps.WRONG_QUERY_VALUES):
                    query = f"{name}={value}"
                    response = self.ask(
                        "GET", f"{operation.path}?{query}", version=format_version(version))
                    self.assert_sound(response, (operation.path, version, query[:80]))
        self.assertEqual(before, self.snapshot())

    def test_good_beside_bad(self):
        good = {"/allocation_candidates": "resources=VCPU:1", "/usages": "project_id=project",
                "/resource_providers": "name=host", "/traits": "name=in:CUSTOM_SWEPT"}
        for path, beginning in good.items():
            self.assertEqual(200, self.ask("GET", f"{path}?{beginning}").status_int, path)
            for rest in ("unknown=1", "%ff=1", "limit1=%ff", "%00=", "a=%00", "resources01@=x"):
                for query in (f"{beginning}&{rest}", f"{rest}&{beginning}"):
                    response = self.ask("GET", f"{path}?{query}")
                    self.assert_sound(response, (path, query), {400})

    def test_ignored_where_nothing_is_asked(self):
        for operation in OPERATIONS:
            if operation.method == "GET" and operation.query is None:
                path = sweeps.filled(operation.path)
                expected = 204 if path.startswith("/traits/") else 200
                self.assertEqual(expected, self.ask("GET", f"{path}?x=1&x").status_int, path)
                self.assert_sound(self.ask("GET", f"{path}?x=%ff"), path, {400})


class TestBadHeader(sweeps.SweepTestCase):
    HEADERS = {
        "Content-Type": ("", "text/plain", "application/json\xff", "/", ";", "*/*", "a" * 9000,
                         "application/json;" * 50, "application/xml"),
        "Content-Length": ("-1", "x", "1e3", "\uff19", " ", "9" * 40, "1"),
        "Accept": ("", "x", "/", "text/html", "text/plain;q=x", "application/json;q=0", "\xff",
                   "*/*;q=0", ",", "application/json;q=5", "a" * 9000),
        "OpenStack-API-Version": (
            "", "placement", "placement x", "placement 1", "placement 1.", "placement 1.2.3",
            "placement 9.9", "placement -1.0", "placement 1.40", "compute 2.1", ",", "\xff",
            "placement " + "1" * 5000 + ".0", "placement 1.٣", "placement 1.39, placement 0.1"),
        "X-Auth-Token": ("", ":", "::", "\xff", "a" * 9000, "nobody"),
        "X-Roles": ("", ",", "\xff", "admin,admin"),
        "X-Openstack-Request-Id": ("", "x", "req-", "\xff", "req-" + "a" * 9000),
    }

    def test_values(self):
        bodies = self.valid_bodies()
        requests = (
            ("GET", "/resource_providers", None), ("GET", "/allocation_candidates", None),
            ("POST", "/resource_classes", bodies["POST", "/resource_classes"]),
            ("PUT", f"/resource_providers/{sweeps.PROVIDER}/aggregates", {}),
            ("DELETE", f"/resource_providers/{sweeps.CHILD}/inventories", None))
        for method, path, body in requests:
            for name, values in self.HEADERS.items():
                for value in values:
                    response = self.ask(method, path, body, headers={name: value})
                    self.assertLess(response.status_int, 500, (method, path, name, value[:60]))


class TestAnything(sweeps.SweepTestCase):
    """Hypothesis tries what nobody thought of."""

    JSON = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
        | st.sampled_from([sweeps.PROVIDER, sweeps.NEW, "VCPU", "CUSTOM_A"]),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
            st.text(max_size=10) | st.sampled_from([
                sweeps.PROVIDER, "name", "uuid", "VCPU", "total", "allocations", "resources",
                "inventories", "resource_provider_generation", "project_id", "user_id",
                "consumer_generation", "consumer_type", "traits", "aggregates", "mappings"]),
            inner, max_size=5),
        max_leaves=12)
    VALUE = st.text(alphabet="VCPU:1,!in_A-%é☃0 \0", max_size=24) | st.sampled_from(
        ["VCPU:1", "in:CUSTOM_SWEPT", "!CUSTOM_SWEPT", "CUSTOM_SWEPT", sweeps.AGGREGATE,
         f"!in:{sweeps.AGGREGATE}", sweeps.PROVIDER, "none", "isolate", "1", "_A,_B", "true"])
    NAMES = [f"{name}{suffix}" for name in ("resources", "required", "member_of", "in_tree")
             for suffix in ("", "1", "_A", "_B")] + [
        "limit", "group_policy", "root_required", "same_subtree", "name", "uuid", "associated"]

    @hypothesis.settings(max_examples=300, deadline=None, derandomize=True, database=None,
                         suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(st.sampled_from(_BODIED), st.sampled_from(mv.ALL), JSON)
    def test_bodies(self, operation, step, body):
        response = self.ask(operation.method, sweeps.filled(operation.path), body,
                            version=format_version(step.version))
        self.assert_sound(response, (operation.path, body))

    @hypothesis.settings(max_examples=300, deadline=None, derandomize=True, database=None,
                         suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(st.sampled_from(_QUERIED), st.sampled_from(mv.ALL),
                      st.lists(st.tuples(st.sampled_from(NAMES), VALUE), max_size=6))
    def test_queries(self, operation, step, pairs):
        query = urllib.parse.urlencode(pairs)
        response = self.ask("GET", f"{operation.path}?{query}",
                            version=format_version(step.version))
        self.assert_sound(response, (operation.path, query))
