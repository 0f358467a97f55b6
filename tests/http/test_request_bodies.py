"""What is refused unread is not read, and what is read is bounded."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import fixtures
import webob

from placement_core import app
from placement_core.http.apis import Api
from placement_core.http.operations import ONLY, Operation
from tests.http import base

_NOBODY = str(uuid.uuid4())


class _Body:
    """A body without an end, which counts what is read of it."""

    def __init__(self, content: bytes = b" ") -> None:
        self.read_bytes = 0
        self._content = content

    def read(self, size: int = -1) -> bytes:
        assert size >= 0, "somebody reads as much as there is"
        self.read_bytes += size
        return (self._content * (size // len(self._content) + 1))[:size]

    readline = read


class BodyTestCase(base.HttpTestCase):
    def send(
        self, method: str, path: str, body: _Body, length: int | None = 1000, **more: Any
    ) -> webob.Response:
        environ = {"wsgi.input": body, "CONTENT_TYPE": "application/json"}
        if length is None:
            environ |= {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
        else:
            environ["CONTENT_LENGTH"] = str(length)
        more.setdefault("headers", {} if "token" in more else {"X-Roles": "admin,service"})
        return self.ask(method, path, environ={**environ, **more.pop("environ", {})}, **more)

    @staticmethod
    def with_bodies() -> Iterator[tuple[Api, Operation, str]]:
        """Return each operation that takes a body, with a path to it."""
        for api in app.APIS:
            for operation in api.operations:
                newest = ONLY if api.versions is None else api.versions.newest
                if operation.body is not None and operation.body.at(newest) is not None:
                    path = f"{api.prefix}{operation.path}"
                    for name in ("uuid", "id", "consumer", "cell", "name", "resource_class"):
                        path = path.replace(f"{{{name}}}", _NOBODY)
                    assert "{" not in path
                    yield api, operation, path


class TestUnread(BodyTestCase):
    def assert_unread(self, status: int, method: str, path: str, **more: Any) -> None:
        body = _Body()
        response = self.send(method, path, body, **more)
        self.assertEqual((status, 0), (response.status_int, body.read_bytes), (method, path))

    def test_every_operation(self) -> None:
        for api, operation, path in self.with_bodies():
            method = operation.method
            with self.subTest(f"{method} {path}"):
                if operation.policy is not None:
                    self.assert_unread(401, method, path, token=None)
                    self.assert_unread(403, method, path, token="stranger")
                self.assert_unread(405, "LINK", path)
                self.assert_unread(404, method, f"{path}/no/such/path")
                self.assert_unread(
                    400 if api.prefix == "/v3" else 415, method, path,
                    environ={"CONTENT_TYPE": "text/plain"})
                if operation.json_only:
                    self.assert_unread(406, method, path, environ={"HTTP_ACCEPT": "text/css"})
                if api.versions is not None:
                    self.assert_unread(
                        406, method, path, environ={
                            "HTTP_OPENSTACK_API_VERSION": f"{api.versions.service_type} 9.9"})
                self.assert_unread(413, method, path, length=16 * 1024**2 + 1)

    def test_a_bad_query_string(self) -> None:
        self.assert_unread(400, "POST", "/resource_providers?%ff")

    def test_what_another_service_keeps(self) -> None:
        services = self.parts[-1]
        self.useFixture(fixtures.MonkeyPatch(
            f"{_name(services.limits)}.transactional", False))
        self.useFixture(fixtures.MonkeyPatch(f"{_name(services.catalog)}.local", False))
        for _api, operation, path in self.with_bodies():
            if operation.check_served is not None and path != "/v3/auth/tokens":
                self.assert_unread(403, operation.method, path)
        for path in ("/v3/limits", "/v3/registered_limits", "/capacity/v1/limits/users",
                     "/capacity/v1/limits/history"):
            self.assertEqual(403, self.ask("GET", path).status_int)
        for noun in ("regions", "services", "endpoints", "domains", "projects"):
            self.assertEqual(200, self.ask("GET", f"/v3/{noun}").status_int)
            self.assertEqual(403, self.ask("DELETE", f"/v3/{noun}/{_NOBODY}").status_int)


class TestUnreadWithKeystone(BodyTestCase):
    options = {("api", "auth_strategy"): "keystone"}

    def setUp(self) -> None:
        for name, value in (("AUTH_TYPE", "password"), ("AUTH_URL", "http://127.0.0.1:9"),
                            ("WWW_AUTHENTICATE_URI", "http://keystone.example")):
            self.useFixture(fixtures.EnvironmentVariable(
                f"OS_KEYSTONE_AUTHTOKEN__{name}", value))
        super().setUp()

    def test_logging_in_elsewhere(self) -> None:
        """Nobody has a token yet, so anybody may send this body."""
        for length in (1000, 200_000, 16 * 1024**2, None):
            body = _Body()
            response = self.send("POST", "/v3/auth/tokens", body, length, token=None)
            self.assertEqual((404, 0), (response.status_int, body.read_bytes))
            self.assertIn("http://keystone.example", response.text)

    def test_no_token(self) -> None:
        for _api, operation, path in self.with_bodies():
            if operation.policy is not None:
                body = _Body()
                response = self.send(operation.method, path, body, token=None)
                self.assertEqual((401, 0), (response.status_int, body.read_bytes))


class TestBounds(BodyTestCase):
    def largest(self, operation: Operation) -> int:
        return operation.largest_body or self.conf.api.max_request_body_size

    def test_bytes(self) -> None:
        for _api, operation, path in self.with_bodies():
            largest = self.largest(operation)
            if largest > 2 * 1024**2 and path != "/reshaper":
                continue  # One of these is enough.
            with self.subTest(f"{operation.method} {path}"):
                declared = _Body()
                response = self.send(operation.method, path, declared, largest + 1)
                self.assertEqual((413, 0), (response.status_int, declared.read_bytes))
                self.assertIn(f"{largest} bytes", response.text)
                chunked = _Body()
                response = self.send(operation.method, path, chunked, None)
                self.assertEqual(413, response.status_int)
                self.assertLessEqual(chunked.read_bytes, largest + 1)

    def test_values(self) -> None:
        """Each of them takes many times its bytes once it is parsed."""
        for _api, operation, path in self.with_bodies():
            if self.largest(operation) > 2 * 1024**2:
                continue
            largest = self.largest(operation) // 8
            for content in (b"0,", b"[],", b"{},", b"[", b'{"":'):
                with self.subTest(f"{operation.method} {path} {content!r}"):
                    response = self.send(operation.method, path, _Body(content), 8 * largest)
                    self.assertEqual(413, response.status_int)
                    self.assertIn(f"{largest} values", response.text)

    def test_the_option_bounds_all(self) -> None:
        self.conf.set_override("max_request_body_size", 1024, "api")
        self.app = app.make_app(self.conf)
        for _api, operation, path in self.with_bodies():
            response = self.send(operation.method, path, _Body(), 1025)
            self.assertEqual(413, response.status_int)

    def test_each_api_refuses_in_its_format(self) -> None:
        for path, message in (
            ("/resource_providers", lambda document: document["errors"][0]["detail"]),
            ("/v3/services", lambda document: document["error"]["message"]),
            ("/v1/os-hosts", lambda document: document["error_message"]),
            ("/capacity/v1/cells", lambda document: document["errors"][0]["detail"]),
        ):
            for body, length, wording in (
                (_Body(), 300_000, "262144 bytes"), (_Body(b"[],"), 200_000, "32768 values"),
            ):
                response = self.send("POST", path, body, length)
                self.assertEqual(413, response.status_int)
                self.assertIn(wording, message(response.json))
            deep = b'{"name": ' + 50 * b"[" + 50 * b"]" + b"}"
            response = self.ask("POST", path, deep)
            self.assertEqual(400, response.status_int)
            self.assertIn("32 levels deep", message(response.json))


class TestLargeAndLegitimate(BodyTestCase):
    """Clients of large clouds send such bodies."""

    def setUp(self) -> None:
        super().setUp()
        self.provider = str(uuid.uuid4())
        self.ok("POST", "/resource_providers", {"name": "host", "uuid": self.provider})

    def ok(self, method: str, path: str, body: object, least: int = 0) -> webob.Response:
        content = json.dumps(body).encode()
        self.assertGreater(len(content), least)
        response = self.ask(method, path, content, headers={"X-Roles": "admin,service"})
        self.assertLess(response.status_int, 300, response.body[:500])
        return response

    def test_aggregates(self) -> None:
        self.ok("PUT", f"/resource_providers/{self.provider}/aggregates", {
            "aggregates": [str(uuid.uuid4()) for _ in range(7000)],
            "resource_provider_generation": 0}, 256 * 1024)

    def test_traits(self) -> None:
        names = [f"CUSTOM_{number:0248}" for number in range(1500)]
        response = self.ask("PUT", f"/resource_providers/{self.provider}/traits", {
            "traits": names, "resource_provider_generation": 0})
        self.assert_refused(400, "No such trait", response)

    def test_many_consumers_and_a_reshape(self) -> None:
        inventories = {"VCPU": {"total": 100_000}, "MEMORY_MB": {"total": 10_000_000}}
        self.ok("PUT", f"/resource_providers/{self.provider}/inventories", {
            "inventories": inventories, "resource_provider_generation": 0})
        consumers = {str(uuid.uuid4()): {
            "allocations": {self.provider: {"resources": {"VCPU": 1, "MEMORY_MB": 64}}},
            "project_id": str(uuid.uuid4()), "user_id": "user", "consumer_type": "INSTANCE",
            "consumer_generation": None} for _ in range(1200)}
        self.ok("POST", "/allocations", consumers, 256 * 1024)
        provider = self.ask("GET", f"/resource_providers/{self.provider}").json
        for consumer in consumers.values():
            consumer["consumer_generation"] = 1
        self.ok("POST", "/reshaper", {"allocations": consumers, "inventories": {
            self.provider: {"inventories": inventories,
                            "resource_provider_generation": provider["generation"]}}}, 256 * 1024)

    def test_registered_limits(self) -> None:
        service = self.ok("POST", "/v3/services", {"service": {"type": "compute"}}).json
        self.ok("POST", "/v3/registered_limits", {"registered_limits": [
            {"service_id": service["service"]["id"], "default_limit": number,
             "resource_name": f"class:CUSTOM_{number:0200}"}
            for number in range(1200)]}, 256 * 1024)


def _name(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
