"""The OpenAPI document: what it describes, and how it is served."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openapi_spec_validator

from placement_core import app
from placement_core.http import openapi
from placement_core.http.operations import Version
from placement_core.http.placement_api import microversions as mv
from placement_core.http.versions import format_version
from tests import base as tests_base
from tests.http import base

PATH = "/capacity/v1/openapi.json"


def _list_described(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the method and the path of each operation of a document."""
    return sorted((method.upper(), path) for path, methods in document["paths"].items()
                  for method in methods)


def _find_references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from _find_references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _find_references(inner)


class TestDocument(tests_base.TestCase):
    """What is made from the tables."""

    def test_every_operation(self) -> None:
        """Those of the tables, no others, at each microversion."""
        for step in mv.ALL:
            document = openapi.make_document(app.APIS, step.version)
            expected = sorted(
                (operation.method, f"{api.prefix}{operation.path}")
                for api in app.APIS for operation in api.operations
                if operation.since <= openapi.get_version(api, step.version))
            self.assertEqual(expected, _list_described(document), step.version)

    def test_every_answer(self) -> None:
        """Each operation says what it answers, at every microversion that has it."""
        for api in app.APIS:
            for operation in api.operations:
                self.assertIsNotNone(operation.answers, operation)
                for step in mv.ALL:
                    version = openapi.get_version(api, step.version)
                    if operation.since <= version:
                        statuses = list(operation.answers.at(version))
                        self.assertTrue(statuses, operation)
                        self.assertTrue(all(200 <= each <= 300 for each in statuses), operation)

    def test_valid(self) -> None:
        """It follows the specification of OpenAPI 3.1, at the steps that change most."""
        for version in (mv.LOWEST, mv.ALLOCATIONS_DICT, mv.NEWEST):
            openapi_spec_validator.validate(openapi.make_document(app.APIS, version))

    def test_references(self) -> None:
        """Each leads to a component, and each component is referred to."""
        document = openapi.make_document(app.APIS, mv.NEWEST)
        referred = set(_find_references(document))
        components = {f"#/components/{kind}/{name}"
                      for kind in ("schemas", "responses", "parameters")
                      for name in document["components"][kind]}
        self.assertEqual(components, referred)

    def test_names(self) -> None:
        """Generators make functions of them: they are unique, and identifiers."""
        document = openapi.make_document(app.APIS, mv.NEWEST)
        names = [operation["operationId"] for methods in document["paths"].values()
                 for operation in methods.values()]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual([], [name for name in names if not name.isidentifier()])

    def test_bodies(self) -> None:
        """A body is that of the microversion, and missing where none is taken."""
        for version, has_body in ((mv.RESOURCE_CLASSES, True), (mv.ENSURE_CLASS, False)):
            document = openapi.make_document(app.APIS, version)
            operation = document["paths"]["/resource_classes/{name}"]["put"]
            self.assertEqual(has_body, "requestBody" in operation)
            self.assertEqual(has_body, "200" in operation["responses"])

    def test_groups(self) -> None:
        """Parameters with the suffix of a group are members of an exploded object."""
        parameters = self._describe_query("/allocation_candidates", mv.NEWEST)
        self.assertEqual({"type": "string"}, parameters["resources"]["schema"])
        self.assertIn("^resources([a-zA-Z0-9_-]{1,64})$|",
                      parameters["groups"]["schema"]["propertyNames"]["pattern"])
        self.assertTrue(parameters["groups"]["explode"])
        self.assertEqual({"type": "array", "items": {"type": "string"}},
                         parameters["required"]["schema"])
        parameters = self._describe_query("/allocation_candidates", mv.GRANULAR)
        self.assertEqual({"type": "string"}, parameters["required"]["schema"])
        parameters = self._describe_query("/allocation_candidates", mv.CANDIDATES)
        self.assertEqual(["resources"], list(parameters))
        self.assertTrue(parameters["resources"]["required"])

    def _describe_query(self, path: str, version: Version) -> dict[str, Any]:
        """Return the parameters of a query, by name."""
        document = openapi.make_document(app.APIS, version)
        return {each["name"]: each for each in document["paths"][path]["get"]["parameters"]
                if each.get("in") == "query"}

    def test_names_of_members(self) -> None:
        """Generators skip ``patternProperties``: nothing may be described by them alone."""
        for step in mv.ALL:
            self.assertNotIn("patternProperties", str(openapi.make_document(
                app.APIS, step.version)), step)
        schemas = openapi.make_document(app.APIS, mv.NEWEST)["components"]["schemas"]
        allocations = schemas["put_allocations_consumer_body"]["properties"]["allocations"]
        self.assertEqual(
            {"maxLength": 36, "pattern": "^[0-9a-fA-F-]{36}$"}, allocations["propertyNames"])
        resources = allocations["additionalProperties"]["properties"]["resources"]
        self.assertEqual({"type": "integer", "minimum": 1}, resources["additionalProperties"])

    def test_uuids(self) -> None:
        """Ids of limits have no dashes: a client must not write some."""
        schemas = openapi.make_document(app.APIS, mv.NEWEST)["components"]["schemas"]
        service = schemas["post_v3_limits_body"]["properties"]["limits"]["items"][
            "properties"]["service_id"]
        self.assertEqual({"type": "string", "pattern": "^(-?[0-9a-fA-F]){32}$"}, service)
        self.assertEqual(
            {"type": "string", "format": "uuid"},
            schemas["get_resource_providers_uuid_200"]["properties"]["uuid"])

    def test_regular_expressions(self) -> None:
        """None that only Python knows."""
        document = str(openapi.make_document(app.APIS, mv.NEWEST))
        self.assertNotIn(r"\Z", document)


class TestServed(base.HttpTestCase):
    """GET /capacity/v1/openapi.json."""

    def test_newest(self) -> None:
        """Without a token, without a header: the newest microversion."""
        response = self.ask("GET", PATH, token=None, version=None)
        self.assertEqual(200, response.status_int)
        self.assertEqual("3.1.0", response.json["openapi"])
        self.assertEqual(format_version(mv.NEWEST), response.json["info"]["version"])
        self.assertEqual([{"url": "/"}], response.json["servers"])

    def test_microversion(self) -> None:
        """The query names it, or else the header."""
        for query, version, expected in (
                ("", "1.6", "1.6"), ("?microversion=1.12", None, "1.12"),
                ("?microversion=1.12", "1.6", "1.12")):
            response = self.ask("GET", f"{PATH}{query}", version=version)
            self.assertEqual(expected, response.json["info"]["version"])
            header = response.json["components"]["parameters"]["placement_version"]
            self.assertEqual([f"placement {expected}"], header["schema"]["enum"])
        self.assertNotIn("/allocation_candidates", self.ask(
            "GET", f"{PATH}?microversion=1.6").json["paths"])

    def test_unknown(self) -> None:
        """A microversion that is not offered, and another parameter."""
        for query in ("microversion=1.40", "microversion=latest", "microversion=", "version=1.0"):
            self.assert_refused(400, "Invalid query string", self.ask("GET", f"{PATH}?{query}"))

    def test_conditional(self) -> None:
        """304 while it is the same; microversions and mount points have tags of their own."""
        tag = self.ask("GET", PATH).headers["ETag"]
        response = self.ask("GET", PATH, headers={"If-None-Match": tag})
        self.assertEqual((304, b""), (response.status_int, response.body))
        for path, environ in ((f"{PATH}?microversion=1.1", {}), (PATH, {"SCRIPT_NAME": "/below"})):
            response = self.ask("GET", path, headers={"If-None-Match": tag}, environ=environ)
            self.assertEqual(200, response.status_int)
            self.assertNotEqual(tag, response.headers["ETag"])

    def test_mounted(self) -> None:
        """Clients find the service where it is mounted."""
        response = self.ask("GET", PATH, environ={"SCRIPT_NAME": "/placement"})
        self.assertEqual([{"url": "/placement"}], response.json["servers"])
