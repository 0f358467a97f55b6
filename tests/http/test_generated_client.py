"""A client that a generator made of the OpenAPI document, without a warning, and what it gets.

It takes about ten seconds.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import pathlib
import subprocess
import sys
import typing
from collections.abc import Mapping
from typing import Any

import fixtures
import httpx

from placement_core.http.placement_api import microversions as mv
from placement_core.http.versions import format_version
from tests import base
from tests.fuzz import worlds
from tests.outages import operations

_PACKAGE = "generated_client"
#: The lists of the reservation API's versions.
_CHOICES = frozenset(["get_v1", "get_v1_root", "get_v1_versions"])


class Generated(fixtures.Fixture):
    """A package with a function for each operation of a document.

    :ivar operations: the number of functions.
    """

    operations: int

    def __init__(self, document: Any) -> None:
        self._document = document

    def _setUp(self) -> None:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        source, options = folder / "openapi.json", folder / "options.json"
        source.write_text(json.dumps(self._document))
        # It formats what it made with ruff otherwise.
        options.write_text('{"post_hooks": []}')
        outcome = subprocess.run(
            [sys.executable, "-m", "openapi_python_client", "generate", "--path", source,
             "--output-path", folder / _PACKAGE, "--meta", "none", "--config", options,
             "--fail-on-warning"], capture_output=True, text=True)
        if outcome.returncode:
            raise AssertionError(f"no client can be made: {outcome.stdout}{outcome.stderr}")
        self._modules = {
            path.stem: f"{_PACKAGE}.api.{path.parent.name}.{path.stem}"
            for path in (folder / _PACKAGE / "api").rglob("*.py") if path.stem != "__init__"}
        self.operations = len(self._modules)
        self.useFixture(fixtures.MonkeyPatch("sys.path", [str(folder), *sys.path]))
        self.addCleanup(self._forget)

    def _forget(self) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
            del sys.modules[name]

    def make_client(self, application: Any, headers: dict[str, str]) -> Any:
        """Return what sends the requests, to an application of this process."""
        return importlib.import_module(_PACKAGE).Client(
            base_url="http://localhost", headers=headers,
            httpx_args={"transport": httpx.WSGITransport(application)})

    def list_reads(self) -> Mapping[str, Mapping[str, str]]:
        """Return the operations that need no parameters but resources, with those."""
        reads = {}
        for name in sorted(self._modules):
            parameters = inspect.signature(self._load(name)).parameters
            needed = [key for key, parameter in parameters.items()
                      if parameter.default is parameter.empty and key != "client"]
            if name.startswith("get_") and not needed:
                reads[name] = {"resources": "VCPU:1"} if "resources" in parameters else {}
        return reads

    def list_bodies(self, name: str, body: Any) -> list[Any]:
        """Return the objects that can be made of the body of a request; Unset is none."""
        annotation = inspect.signature(
            self._load(name), eval_str=True).parameters["body"].annotation
        bodies = []
        for kind in typing.get_args(annotation) or (annotation,):
            if hasattr(kind, "from_dict"):
                # It is one of several kinds, perhaps.
                with contextlib.suppress(KeyError, TypeError, ValueError):
                    bodies.append(kind.from_dict(body))
        return bodies

    def call(self, client: Any, name: str, *variables: str, **options: Any) -> Any:
        """Send a request; return the status, the object that its answer is, and its JSON."""
        if "body" in options:
            (options["body"],) = self.list_bodies(name, options["body"])
        response = self._load(name)(*variables, client=client, **options)
        return response.status_code, response.parsed, json.loads(response.content or b"null")

    def _load(self, name: str) -> Any:
        return importlib.import_module(self._modules[name]).sync_detailed


class TestGenerated(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.world = self.enterContext(worlds.make_world())

    def generate(self, version: str) -> Generated:
        self.document = self.world.send(
            "GET", f"/capacity/v1/openapi.json?microversion={version}")
        count = sum(len(methods) for methods in self.document["paths"].values())
        generated = self.useFixture(Generated(self.document))
        self.assertEqual(count, generated.operations)
        return generated

    def test_the_first_microversion(self) -> None:
        self.generate(format_version(mv.LOWEST))

    def test_the_newest(self) -> None:
        generated = self.generate(format_version(mv.NEWEST))
        self.assert_bodies_are_whole(generated)
        self.assert_calls_work(generated)

    def assert_bodies_are_whole(self, generated: Generated) -> None:
        """A body is an object that loses nothing: members with any name are kept, too."""
        for sample in operations.each():
            if sample.body is not None:
                method, path = sample.operation.split()
                name = self.document["paths"][path][method.lower()]["operationId"]
                self.assertIn(sample.body, [
                    body.to_dict() for body in generated.list_bodies(name, sample.body)], name)

    def assert_calls_work(self, generated: Generated) -> None:
        """An answer is an object with everything that the answer has."""
        client = generated.make_client(self.world.app, self.world.headers)

        def call(name: str, *variables: str, status: int = 200, **options: Any) -> Any:
            answered, answer, document = generated.call(client, name, *variables, **options)
            self.assertEqual(status, answered, (name, document))
            if document is not None:
                self.assertEqual(document, answer.to_dict(), name)
            return answer

        reads = generated.list_reads()
        self.assertGreater(len(reads), 30)
        for name, options in reads.items():
            call(name, status=300 if name in _CHOICES else 200, **options)
        made = call("post_resource_providers", body={"name": "made"})
        call("put_resource_providers_uuid_inventories", str(made.uuid), body={
            "resource_provider_generation": made.generation,
            "inventories": {"VCPU": {"total": 8}}})
        candidates = call(
            "get_allocation_candidates", resources="VCPU:8", in_tree=str(made.uuid))
        (request,) = candidates.allocation_requests
        call("put_allocations_consumer", worlds.INSTANCE, status=204, body={
            **request.to_dict(), "project_id": "demo", "user_id": "jane",
            "consumer_generation": None, "consumer_type": "INSTANCE"})
        usages = call("get_resource_providers_uuid_usages", str(made.uuid)).usages
        self.assertEqual(8, usages["VCPU"])
        refusal = call("get_resource_providers_uuid", worlds.AGGREGATE, status=404)
        self.assertEqual([404], [error.status for error in refusal.errors])
        lease = call("post_v1_leases", status=201, body={
            "name": "lease", "start_date": "2091-01-01 00:00", "end_date": "2091-01-02 00:00",
            "reservations": [worlds.RESERVATION]}).lease
        self.assertEqual("lease", call("get_v1_leases_id", lease.id).lease.name)
