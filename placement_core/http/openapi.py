"""Describes APIs as an OpenAPI 3.1 document, made from the tables of their operations.

A document describes one microversion: OpenAPI has one schema for each body and each answer, and
a client speaks one microversion at a time.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from placement_core.caches import BoundedCache
from placement_core.http import media, versions
from placement_core.http.apis import KEYSTONE_ERROR, Api
from placement_core.http.json_schemas import Schema
from placement_core.http.operations import CSV, JSON, ONLY, Operation, Version

Document = dict[str, Any]

#: The variables of a path.
_VARIABLE = re.compile(r"\{(\w+)\}")
#: A parameter of a query that may have the suffix of a group.
_SUFFIXED = re.compile(r"\^(?P<name>\w+)(?P<suffix>\(.+\))\?\$")
#: How many documents a process caches, each of a quarter of a megabyte as JSON.
_MOST_DOCUMENTS = 4
#: The security scheme.
_TOKEN = "token"  # noqa: S105
_DESCRIPTION = """\
The OpenStack Placement API (at the root), Keystone's limits API (`/v3`), Blazar's reservation \
API (`/v1`) and the capacity API (`/capacity/v1`) of one service, at microversion {version} of \
the Placement API. Ask for the document of another one with `?microversion=`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Description:
    """What the service speaks at one microversion.

    :ivar document: an OpenAPI document without ``servers``.
    :ivar digest: the same for equal documents.
    """

    document: Document
    digest: str


class OpenApi:
    """The OpenAPI documents of a service, each made when it is first asked for. Thread-safe."""

    def __init__(self, apis: Sequence[Api]) -> None:
        self._apis = apis
        self._descriptions = BoundedCache[Version, Description](_MOST_DOCUMENTS)

    def describe(self, version: Version) -> Description:
        """Return the description of a microversion of the Placement API."""
        description = self._descriptions.get(version)
        if description is None:
            document = make_document(self._apis, version)
            text = orjson.dumps(document)
            description = Description(document, hashlib.blake2b(text, digest_size=16).hexdigest())
            self._descriptions.put(version, description)
        return description


def make_document(apis: Sequence[Api], version: Version) -> Document:
    """Return the OpenAPI document of APIs at a microversion of the Placement API.

    An API that has fewer microversions is described at the nearest one.
    """
    components = _Components()
    paths: dict[str, Document] = {}
    for api in apis:
        at = get_version(api, version)
        for operation in api.operations:
            if operation.since <= at:
                methods = paths.setdefault(f"{api.prefix}{operation.path}", {})
                methods[operation.method.lower()] = _describe_operation(
                    api, operation, at, components)
    number = versions.format_version(version)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "placement_core", "version": number,
            "description": _DESCRIPTION.format(version=number)},
        "tags": [
            {"name": api.name, "description": f"What is below `{api.prefix or '/'}`."}
            for api in apis],
        "paths": paths,
        "components": {
            "securitySchemes": {_TOKEN: {
                "type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
            "schemas": components.schemas,
            "responses": components.responses,
            "parameters": components.parameters,
        },
    }


def get_version(api: Api, version: Version) -> Version:
    """Return the microversion of an API that is the nearest to a given one."""
    if api.versions is None:
        return ONLY
    return min(max(version, api.versions.lowest), api.versions.newest)


def make_operation_id(api: Api, operation: Operation) -> str:
    """Return the name of an operation: it follows from method and path, so it never changes."""
    words = [re.sub(r"\W", "_", segment.strip("{}")) or "root"
             for segment in f"{api.prefix}{operation.path}".split("/")[1:]]
    return "_".join([operation.method.lower(), *words])


def list_refusals(api: Api, operation: Operation, version: Version) -> list[int]:
    """Return the statuses of errors that an operation may answer."""
    statuses = {400, 403, 429, 500, 503, *operation.refusals}
    if operation.policy is not None:
        statuses.add(401)
    if _VARIABLE.search(operation.path) or operation.check_served is not None:
        statuses.add(404)
    if operation.json_only or api.versions is not None:
        statuses.add(406)
    if operation.method != "GET":
        statuses.add(409)
    if get_body(operation, version) is not None:
        statuses.add(413)
        if api.check_media is media.check_strictly:
            statuses.add(415)
    return sorted(statuses)


def get_body(operation: Operation, version: Version) -> Schema | None:
    """Return the schema of an operation's body; None if it takes none."""
    return operation.body.at(version) if operation.body is not None else None


class _Components:
    """What several operations refer to, and the schemas of each of them, by name."""

    def __init__(self) -> None:
        self.schemas: dict[str, Document] = {}
        self.responses: dict[str, Document] = {}
        self.parameters: dict[str, Document] = {}

    def add_schema(self, name: str, schema: Mapping[str, Any]) -> Document:
        """Add a schema; return a reference to it.

        Alternatives become schemas of their own: generators of clients need names for them.
        """
        translated = _translate(schema)
        for keyword in ("anyOf", "oneOf"):
            if keyword in translated:
                translated[keyword] = [
                    self.add_schema(f"{name}_{number}", alternative)
                    for number, alternative in enumerate(schema[keyword], 1)]
        self.schemas[name] = translated
        return {"$ref": f"#/components/schemas/{name}"}

    def add_refusal(self, api: Api, status: int, version: Version) -> Document:
        """Add the response of an error; return a reference to it."""
        name = f"{api.name}_{status}"
        if name not in self.responses:
            if status != 401:
                schema = self.add_schema(f"{api.name}_error", api.error_schema.at(version))
            elif api.schema_of_401 is KEYSTONE_ERROR:
                schema = self.add_schema("keystone_error", KEYSTONE_ERROR)
            else:
                # Keystone's middleware answers in its place where tokens are Keystone's.
                schema = self.add_schema(f"{api.name}_unauthorized", {
                    "anyOf": [api.schema_of_401, KEYSTONE_ERROR]})
            self.responses[name] = _describe_response(status, schema)
        return {"$ref": f"#/components/responses/{name}"}

    def add_version(self, api: Api, version: Version) -> Document:
        """Add the header that selects the microversion; return a reference to it."""
        assert api.versions is not None
        name = f"{api.name}_version"
        value = f"{api.versions.service_type} {versions.format_version(version)}"
        self.parameters[name] = {
            "name": versions.HEADER, "in": "header", "required": version != api.versions.default,
            "description": "The microversion that this document describes.",
            "schema": {"type": "string", "enum": [value], "default": value}}
        return {"$ref": f"#/components/parameters/{name}"}


def _describe_operation(
    api: Api, operation: Operation, version: Version, components: _Components
) -> Document:
    id_ = make_operation_id(api, operation)
    document: Document = {
        "operationId": id_,
        "tags": [api.name],
        "summary": (inspect.getdoc(operation.view) or id_).partition("\n")[0],
        "security": [] if operation.policy is None else [{_TOKEN: []}],
    }
    parameters = [*_describe_path(operation), *_describe_query(operation, version)]
    if api.versions is not None:
        parameters.append(components.add_version(api, version))
    if parameters:
        document["parameters"] = parameters
    body = get_body(operation, version)
    if body is not None:
        document["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": components.add_schema(
                f"{id_}_body", _loosen_uuids(body))}}}
    answers = operation.answers.at(version) if operation.answers is not None else {}
    responses = {
        str(status): _describe_response(
            status, None if schema is None else components.add_schema(f"{id_}_{status}", schema))
        for status, schema in answers.items()}
    if operation.offers_csv:
        responses["200"]["content"][CSV] = {"schema": {"type": "string"}}
    if operation.etag is not None:
        responses["304"] = {"description": "The caller's copy is current."}
    for status in list_refusals(api, operation, version):
        responses[str(status)] = components.add_refusal(api, status, version)
    document["responses"] = responses
    return document


def _describe_response(status: int, schema: Document | None) -> Document:
    response: Document = {"description": _REASONS.get(status, "An error.")}
    if schema is not None:
        response["content"] = {JSON: {"schema": schema}}
    return response


_REASONS = {
    200: "Done.", 201: "Created.", 204: "Done; nothing to say.", 300: "The versions offered.",
    400: "The request is malformed, or names something that does not exist.",
    401: "No valid token.",
    403: "The policy does not let the caller do that, or a limit is exceeded.",
    404: "What the path names does not exist.",
    406: "The microversion is not offered, or the caller does not accept JSON.",
    409: "It conflicts with what there is.",
    413: "The body is too large.", 415: "The body is not declared to be JSON.",
    429: "The service works on many requests of the project already: `Retry-After` says when to "
         "repeat this one.",
    500: "A defect of the service.",
    503: "The database, or another service, does not answer now: `Retry-After` says when to "
         "repeat the request.",
}


def _describe_path(operation: Operation) -> Iterator[Document]:
    for name in _VARIABLE.findall(operation.path):
        yield {"name": name, "in": "path", "required": True,
               "schema": {"type": "string", "minLength": 1}}


def _describe_query(operation: Operation, version: Version) -> Iterator[Document]:
    if operation.query is None:
        return
    schema = operation.query.at(version)
    suffixed: dict[str, Any] = {}
    parameters = dict(schema.get("properties", {}))
    for pattern, value in schema.get("patternProperties", {}).items():
        match = _SUFFIXED.fullmatch(pattern)
        assert match is not None, pattern
        parameters[match["name"]] = value
        suffixed[f"^{match['name']}{match['suffix']}$"] = value
    repeated = operation.repeated.at(version) if operation.repeated is not None else ()
    for name, value in parameters.items():
        described = {"type": "string", **_translate(value)}
        yield {"name": name, "in": "query", "required": name in schema.get("required", ()),
               "schema": {"type": "array", "items": described} if name in repeated else described}
    if suffixed:
        # The members of an exploded object are parameters by their own names.
        yield {"name": "groups", "in": "query", "style": "form", "explode": True,
               "description": "Parameters with the suffix of a group.",
               "schema": _translate({
                   "type": "object", "additionalProperties": False,
                   "patternProperties": suffixed})}


def _loosen_uuids(schema: Any) -> Any:
    """Return the schema of a body with UUIDs as the service takes them.

    Dashes do not matter; ids in the limits API have none. A client with a type for UUIDs would
    write them.
    """
    if isinstance(schema, (list, tuple)):
        return [_loosen_uuids(inner) for inner in schema]
    if not isinstance(schema, Mapping):
        return schema
    loosened = {name: _loosen_uuids(inner) for name, inner in schema.items()}
    if schema.get("format") == "uuid":
        del loosened["format"]
        loosened["pattern"] = "^(-?[0-9a-fA-F]){32}$"
    return loosened


_TYPES = {str: "string", bool: "boolean", int: "integer"}


def _translate(schema: Any) -> Any:
    """Return a schema with regular expressions that not only Python knows.

    Lists that must be empty say what they are lists of, enumerations of what type they are:
    generators of clients want to know.
    """
    if isinstance(schema, str):
        return schema.replace(r"\Z", "$")
    if isinstance(schema, (list, tuple)):
        return [_translate(inner) for inner in schema]
    if not isinstance(schema, Mapping):
        return schema
    translated = {_translate(name): _translate(inner) for name, inner in schema.items()}
    if schema.get("type") == "array":
        translated.setdefault("items", {})
    types = {type(value) for value in schema.get("enum", ())}
    if len(types) == 1:
        translated.setdefault("type", _TYPES[types.pop()])
    return _name_members(translated) if "patternProperties" in schema else translated


def _name_members(schema: Document) -> Document:
    """Return the schema of an object whose members have names such as a UUID.

    Generators of clients skip ``patternProperties``: their objects would lose these members.
    """
    patterns = schema["patternProperties"]
    first, *others = patterns.values()
    if schema.get("additionalProperties") is not False or any(value != first for value in others):
        return schema
    named = {name: value for name, value in schema.items() if name != "patternProperties"}
    return {
        **named, "additionalProperties": first,
        "propertyNames": {**schema.get("propertyNames", {}), "pattern": "|".join(patterns)}}
