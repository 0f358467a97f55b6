"""Holds every answer to the tables of operations, which the OpenAPI document is made from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson

from placement_core.http import openapi, probes, validation
from placement_core.http.apis import KEYSTONE_ERROR, Api, ApisByPath
from placement_core.http.operations import CSV, ONLY, Operation, Version
from placement_core.http.versions import HEADER

WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class CheckedAnswers:
    """WSGI middleware that fails, as a test does, where an answer breaks its schema.

    Operations without ``answers``, which tests make up, are not checked.
    """

    def __init__(self, application: WSGI, apis: Sequence[Api]) -> None:
        self._application = application
        self._by_path = ApisByPath(apis)
        self._operations = {id(api): _compile(api) for api in apis}

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request."""
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def note(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            started.append((status, headers))
            return start_response(status, headers, *exc_info)

        answer = self._application(environ, note)
        try:
            chunks = list(answer)
        finally:
            if hasattr(answer, "close"):
                answer.close()
        ((status, headers),) = started
        if method != "OPTIONS" and path not in probes.ALL:
            self._check(method, path, int(status[:3]), {
                name.lower(): value for name, value in headers}, b"".join(chunks))
        return chunks

    def _check(
        self, method: str, path: str, status: int, headers: dict[str, str], body: bytes
    ) -> None:
        api = self._by_path.find(path)
        if not api.in_openapi:
            return  # Pages have no schema.
        version = _get_version(api, headers)
        operation = self._find(api, method, path)
        if operation is not None and operation.answers is None:
            return
        what = f"{method} {path} at {version}: {status} {body[:1000]!r}"
        if status >= 400:
            if operation is not None and version is not None and operation.since <= version:
                refusals = openapi.list_refusals(api, operation, version)
                assert status in refusals, f"{what}: expected one of {refusals}"
            # Keystone's middleware adds a charset.
            if body and headers["content-type"].partition(";")[0] == "application/json":
                schemas = [api.schema_of_401, KEYSTONE_ERROR] if status == 401 else [
                    api.error_schema.at(version or openapi.get_version(api, (99, 0)))]
                _check_body(schemas, body, what)
            return
        assert operation is not None, f"{what}: no operation"
        assert version is not None, f"{what}: no version"
        assert operation.answers is not None
        if status == 304:
            assert operation.etag is not None, what
            return
        answers = operation.answers.at(version)
        assert status in answers, f"{what}: expected one of {list(answers)}"
        schema = answers[status]
        if schema is None or method == "HEAD":
            assert not body, f"{what}: expected no body"
        elif headers["content-type"] == CSV:
            assert operation.offers_csv, what
        else:
            _check_body([schema], body, what)

    def _find(self, api: Api, method: str, path: str) -> Operation | None:
        if api.every_method:
            path = path.rstrip("/")
        if api.every_method or api.answers_head:
            method = "GET" if method == "HEAD" else method
        if api.json_suffix:
            path = path.removesuffix(".json")
        path = path.removeprefix(api.prefix) if api.prefix else path or "/"
        for pattern, operations in self._operations[id(api)]:
            if pattern.fullmatch(path):
                return operations.get(method)
        return None


def _compile(api: Api) -> list[tuple[re.Pattern[str], dict[str, Operation]]]:
    """Return the operations of each path, in the order of the routes."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in api.operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    return [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), operations)
            for path, operations in by_path.items()]


def _get_version(api: Api, headers: dict[str, str]) -> Version | None:
    """Return the microversion of an answer; None if the request had no valid one."""
    if api.versions is None:
        return ONLY
    if HEADER.lower() not in headers:
        return None
    major, minor = headers[HEADER.lower()].split()[1].split(".")
    return int(major), int(minor)


def _check_body(schemas: Sequence[dict[str, Any]], body: bytes, what: str) -> None:
    document = orjson.loads(body)
    problems = [_get_validator(schema).validate(document) for schema in schemas]
    assert None in problems, f"{what}: {problems[0]}"


#: By the id of the schema, which each of them keeps alive.
_VALIDATORS: dict[int, tuple[dict[str, Any], validation.Schema]] = {}


def _get_validator(schema: dict[str, Any]) -> validation.Schema:
    if id(schema) not in _VALIDATORS:
        _VALIDATORS[id(schema)] = schema, validation.Schema(schema, validation.is_uuid_like)
    return _VALIDATORS[id(schema)][1]
