"""From a Pyramid request to a view's ``Call``, and from its ``Reply`` back.

A request is judged in the order that the Placement API promises: microversion,
content headers, route, method, version gate, media types, policy, query
string, body. Around the routes stands one tween (``judge``); each path has one
Pyramid view (``Resource``) that knows the operations on it. Several APIs share
one router: which of them a request is for, the beginning of its path says.
Source: spec placement_api §1.1.
"""

from __future__ import annotations

import dataclasses
import datetime
import email.utils
import logging
import time
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from pyramid.config import Configurator
from pyramid.httpexceptions import HTTPNotFound
from pyramid.request import Request
from pyramid.response import Response
from webob import acceptparse

from placement_core import errors
from placement_core.http import errors as http_errors, identity, requestlog, validation
from placement_core.http.errors import Refusal
from placement_core.http.operations import NOW, Call, Ladder, Operation, Reply, Version
from placement_core.http.policy import Authorizer
from placement_core.http.versions import HEADER, Versions, text
from placement_core.services import Services

LOG = logging.getLogger(__name__)

_JSON = "application/json"


@dataclasses.dataclass(frozen=True)
class Api:
    """One tree of routes, with the habits that all of them share.

    :ivar prefix: what the paths of its operations begin with, such as
        ``/capacity/v1``; empty for the API that has every path no other one has.
    :ivar cache_headers_since: the first microversion whose replies may carry
        ``Cache-Control`` and ``Last-Modified``.
    :ivar refuse: makes the error document.
    """

    prefix: str
    operations: Sequence[Operation]
    versions: Versions
    cache_headers_since: Version
    refuse: http_errors.Refuse

    def owns(self, path: str) -> bool:
        """Say whether a path is in this tree, whether or not it leads anywhere."""
        return f"{path}/".startswith(f"{self.prefix}/")


def include(
    config: Configurator, apis: Sequence[Api], services: Services, authorizer: Authorizer
) -> None:
    """Add the routes of every API to a Pyramid configuration.

    :param apis: a path belongs to the one with the longest prefix of it.
    :raises ValueError: an operation is wrong: its policy rule is unknown, or
        another one has the same method and path.
    """
    for api in apis:
        _add_routes(config, api, services, authorizer)
    config.registry.placement_core_apis = sorted(
        apis, key=lambda api: len(api.prefix), reverse=True)
    config.add_tween(f"{__name__}.judge")


def _add_routes(
    config: Configurator, api: Api, services: Services, authorizer: Authorizer
) -> None:
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in api.operations:
        path = f"{api.prefix}{operation.path}"
        if operation.policy is not None and not authorizer.knows(operation.policy):
            raise ValueError(f"{operation.method} {path}: no policy rule {operation.policy}")
        methods = by_path.setdefault(path, {})
        if operation.method in methods:
            raise ValueError(f"{operation.method} {path} is there twice")
        methods[operation.method] = operation
    for path, methods in by_path.items():
        config.add_route(path, path)
        config.add_view(Resource(api, methods, services, authorizer), route_name=path)


def judge(
    handler: Callable[[Request], Response], registry: Any
) -> Callable[[Request], Response]:
    """Make the tween that understands the version and renders every refusal."""
    apis: Sequence[Api] = registry.placement_core_apis

    def answer(request: Request) -> Response:
        environ = request.environ
        asked = environ.get("PATH_INFO", "")
        # What is in no tree is for the API with the shortest prefix to refuse.
        api = next((api for api in apis if api.owns(asked)), apis[-1])
        version = None
        try:
            version = request.microversion = api.versions.asked(environ)
            environ[requestlog.MICROVERSION_KEY] = text(version)
            _check_content_headers(environ)
            response = handler(request)
        except Refusal as refusal:
            response = api.refuse(refusal.status, refusal, environ, version)
        except errors.Error as error:
            response = api.refuse(http_errors.status_of(error), error, environ, version)
        except HTTPNotFound:
            response = api.refuse(404, errors.NotFound(), environ, version)
        except UnicodeDecodeError:
            unreadable = errors.Invalid("The path is not UTF-8.")
            response = api.refuse(400, unreadable, environ, version)
        except Exception:
            # Not the text of the exception: it may tell what is none of the caller's business.
            LOG.exception("request %s failed", environ.get(requestlog.ENVIRON_KEY))
            version = None
            response = api.refuse(500, errors.Error(), environ, version)
        if version is not None:
            response.headerlist += (
                (HEADER, f"{api.versions.service_type} {text(version)}"),
                ("Vary", HEADER.lower()),
            )
        return response

    return answer


def _check_content_headers(environ: dict[str, Any]) -> None:
    length = environ.get("CONTENT_LENGTH")
    if not length:
        return
    if not (length.isascii() and length.isdigit()):
        raise Refusal(400, "content-length header must be an integer")
    if length.strip("0") and not environ.get("CONTENT_TYPE"):
        raise Refusal(400, "content-type header required when content-length > 0")


class _Endpoint:
    """An operation with its schemas ready to use."""

    __slots__ = ("bodies", "operation", "queries")

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.bodies = _schemas(operation.body, validation.uuid_like)
        self.queries = _schemas(operation.query, validation.strict_uuid)


def _schemas(
    ladder: Ladder[Any] | None, uuid: Callable[[object], bool]
) -> Ladder[validation.Schema | None] | None:
    if ladder is None:
        return None
    return Ladder({
        since: None if schema is None else validation.Schema(schema, uuid)
        for since, schema in ladder.rungs.items()
    })


class Resource:
    """The Pyramid view of one path: picks the operation, judges, calls, renders."""

    def __init__(
        self,
        api: Api,
        operations: dict[str, Operation],
        services: Services,
        authorizer: Authorizer,
    ) -> None:
        self._api = api
        self._endpoints = {
            method: _Endpoint(operation) for method, operation in operations.items()}
        self._allowed = sorted(operations)
        self._services = services
        self._authorizer = authorizer
        self._largest_body = services.conf.api.max_request_body_size

    def __call__(self, _context: object, request: Request) -> Response:
        """Judge a request, and answer it."""
        environ = request.environ
        method = environ["REQUEST_METHOD"]
        endpoint = self._endpoints.get(method)
        if endpoint is None:
            raise http_errors.method_not_allowed(method, self._allowed)
        operation = endpoint.operation
        version: Version = request.microversion
        path: dict[str, str] = request.matchdict
        if any("\0" in value for value in path.values()):
            raise errors.NotFound()
        if operation.media_before_gate:
            _check_media(environ, endpoint, max(version, operation.since))
            self._check_gate(operation, version)
        else:
            self._check_gate(operation, version)
            _check_media(environ, endpoint, version)
        caller = identity.of(environ)
        if operation.policy is not None:
            target = operation.target and operation.target(_lenient_query(environ))
            self._authorizer.check(operation.policy, caller, target)

        ctx = self._services.context(caller, environ.get(requestlog.ENVIRON_KEY))
        query = _query(environ, endpoint, version)
        try:
            body = self._body(environ, endpoint, version)
        except errors.Invalid:
            if operation.exists is not None:
                operation.exists(ctx, path)
            raise
        script_name = environ.get("SCRIPT_NAME", "")
        prefix = _quoted(script_name.encode("latin-1")) if script_name else ""
        reply = operation.view(
            Call(self._services, ctx, path, query, body, version, prefix))
        return self._render(reply, environ, version, prefix)

    def _check_gate(self, operation: Operation, version: Version) -> None:
        if version >= operation.since:
            return
        if operation.gate_status == 405:
            others = [method for method in self._allowed if method != operation.method]
            raise http_errors.method_not_allowed(operation.method, others)
        raise errors.NotFound()

    def _body(self, environ: dict[str, Any], endpoint: _Endpoint, version: Version) -> Any:
        schema = endpoint.bodies.at(version) if endpoint.bodies is not None else None
        if schema is None:
            return None
        value = validation.parse_body(_read(environ, self._largest_body))
        fault = schema.fault(value)
        if fault is not None:
            raise validation.InvalidBody(fault)
        return value

    def _render(
        self, reply: Reply, environ: dict[str, Any], version: Version, prefix: str
    ) -> Response:
        headers: list[tuple[str, str]] = []
        chunks: list[bytes] = []
        body = reply.body
        if body is not None:
            if not isinstance(body, bytes):
                body = orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS)
            chunks.append(body)
            headers += (("Content-Type", _JSON), ("Content-Length", str(len(body))))
        elif reply.status != 204:
            headers.append(("Content-Length", "0"))
        if reply.location is not None:
            headers.append(("Location", f"{_host(environ)}{prefix}{_quoted(reply.location)}"))
        moment = reply.last_modified
        if version >= self._api.cache_headers_since and (reply.cacheable or moment is not None):
            headers.append(("Cache-Control", "no-cache"))
            if moment is not None:
                headers.append(("Last-Modified", _http_date(moment)))
        return Response(status=reply.status, headerlist=headers, app_iter=chunks)


def _check_media(environ: dict[str, Any], endpoint: _Endpoint, version: Version) -> None:
    """Refuse a body that is no JSON (415), a reply that may not be (406)."""
    if endpoint.bodies is not None and endpoint.bodies.at(version) is not None:
        given = environ.get("CONTENT_TYPE") or None
        if given != _JSON:
            bare = given.partition(";")[0].strip().lower() if given else None
            if bare != _JSON:
                raise Refusal(
                    415, f"The media type {bare} is not supported, use application/json")
    if endpoint.operation.json_only:
        accept = environ.get("HTTP_ACCEPT")
        if accept and accept not in (_JSON, "*/*"):
            header = acceptparse.create_accept_header(accept)
            if not header.acceptable_offers([_JSON]):
                raise Refusal(406, "Only application/json is provided")


def _query(
    environ: dict[str, Any], endpoint: _Endpoint, version: Version
) -> dict[str, list[str]]:
    query = validation.parse_query(environ.get("QUERY_STRING", ""))
    schema = endpoint.queries.at(version) if endpoint.queries is not None else None
    if schema is not None:
        fault = schema.fault({name: values[-1] for name, values in query.items()})
        if fault is not None:
            raise validation.InvalidQuery(fault)
    return query


def _lenient_query(environ: dict[str, Any]) -> dict[str, list[str]]:
    """Read the query string for the policy, which comes before any complaint."""
    try:
        return validation.parse_query(environ.get("QUERY_STRING", ""))
    except errors.Invalid:
        return {}


def _read(environ: dict[str, Any], largest: int) -> bytes:
    """Read the request body, at most ``largest`` bytes."""
    stream = environ["wsgi.input"]
    length = environ.get("CONTENT_LENGTH")
    if length:
        wanted = int(length[:20])
        if wanted > largest:
            raise _too_large(largest)
        body = stream.read(wanted)
        if len(body) < wanted:
            raise Refusal(400, "The request body is shorter than its content-length.")
        return body
    if environ.get("wsgi.input_terminated") or environ.get("HTTP_TRANSFER_ENCODING"):
        body = stream.read(largest + 1)
        if len(body) > largest:
            raise _too_large(largest)
        return body
    return b""


def _too_large(largest: int) -> Refusal:
    return Refusal(413, f"The request body may have {largest} bytes at most.")


def _host(environ: dict[str, Any]) -> str:
    """Return scheme and host as the caller sees them."""
    host = environ.get("HTTP_HOST")
    if not host:
        host = f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    return f"{environ['wsgi.url_scheme']}://{host}"


def _quoted(path: str | bytes) -> str:
    return urllib.parse.quote(path, safe="/:~!$&'()*+,;=@")


def _http_date(moment: datetime.datetime) -> str:
    if moment is NOW:
        return email.utils.formatdate(time.time(), usegmt=True)
    return email.utils.format_datetime(moment.replace(tzinfo=datetime.UTC), usegmt=True)
