"""From a Pyramid request to a view's ``Call``, and from its ``Reply`` back.

A request is judged in the order that the Placement API promises: microversion,
content headers, route, method, version gate, media types, policy, query
string, body. What is refused before the body is never read. Around the routes stands
one tween (``judge``); each path has one Pyramid view (``Resource``) that knows the
operations on it. Several APIs share one router: which of them a request is for, the
beginning of its path says.
Source: spec placement_api §1.1.
"""

from __future__ import annotations

import dataclasses
import datetime
import email.utils
import functools
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

from placement_core import errors
from placement_core.db import failures
from placement_core.db.availability import Away
from placement_core.http import (
    conditional,
    errors as http_errors,
    identity,
    media,
    request_bodies,
    requestlog,
    validation,
)
from placement_core.http.errors import Refusal
from placement_core.http.operations import NOW, ONLY, Call, Ladder, Operation, Reply, Version
from placement_core.http.policy import Authorizer
from placement_core.http.versions import HEADER, Versions, text
from placement_core.services import Services

LOG = logging.getLogger(__name__)

_JSON = "application/json"

#: As ``judge`` sees paths: with a slash at the end.
_JSON_SUFFIX = ".json/"

_IN_QUERIES = "/:~!$&'()*+,;=@?%"


@dataclasses.dataclass(frozen=True)
class Api:
    """One tree of routes, with the habits that all of them share.

    :ivar name: what metrics call it.
    :ivar prefix: what the paths of its operations begin with, such as
        ``/capacity/v1``; empty for the API that has every path no other one has.
    :ivar versions: None for an API without microversions.
    :ivar refuse: makes the error document.
    :ivar cache_headers_since: the first microversion whose replies may carry
        ``Cache-Control`` and ``Last-Modified``.
    :ivar headers: what every reply of an API without microversions carries.
    :ivar check_media: refuses what is sent, or may be answered, in no JSON.
    :ivar wording: says what is wrong with a body or a query string.
    :ivar every_method: HEAD is answered wherever GET is, OPTIONS everywhere, and
        a path may end with a slash; only for an API without microversions.
    :ivar json_suffix: a path may end with ``.json``, which asks for JSON.
    :ivar absolute_links: links are URLs, not paths.
    :ivar public_paths: below ``prefix``; they need no token.
    :ivar unauthorized: makes the answer to who has no token.
    """

    name: str
    prefix: str
    operations: Sequence[Operation]
    versions: Versions | None
    refuse: http_errors.Refuse
    cache_headers_since: Version = ONLY
    headers: tuple[tuple[str, str], ...] = ()
    check_media: media.Check = media.json_or_415
    wording: validation.Wording = str
    every_method: bool = False
    json_suffix: bool = False
    absolute_links: bool = False
    public_paths: tuple[str, ...] = ()
    unauthorized: identity.Unauthorized = identity.message_401

    def owns(self, path: str) -> bool:
        """Say whether a path is in this tree, whether or not it leads anywhere."""
        return f"{path}/".startswith(f"{self.prefix}/")


def include(
    config: Configurator, apis: Sequence[Api], services: Services, authorizer: Authorizer,
    kept: conditional.Bodies,
) -> None:
    """Add the routes of every API to a Pyramid configuration.

    :param apis: a path belongs to the one with the longest prefix of it.
    :param kept: where conditional reads keep what they answered.
    :raises ValueError: an operation is wrong: its policy rule is unknown, or
        another one has the same method and path.
    """
    for api in apis:
        _add_routes(config, api, services, authorizer, kept)
    config.registry.placement_core_apis = sorted(
        apis, key=lambda api: len(api.prefix), reverse=True)
    config.add_tween(f"{__name__}.judge")


def _add_routes(
    config: Configurator, api: Api, services: Services, authorizer: Authorizer,
    kept: conditional.Bodies,
) -> None:
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in api.operations:
        path = f"{api.prefix}{operation.path}"
        for rule in (operation.policy, *operation.also):
            if rule is not None and not authorizer.knows(rule):
                raise ValueError(f"{operation.method} {path}: no policy rule {rule}")
        methods = by_path.setdefault(path, {})
        if operation.method in methods:
            raise ValueError(f"{operation.method} {path} is there twice")
        methods[operation.method] = operation
    for path, methods in by_path.items():
        config.add_route(path, path)
        config.add_view(Resource(api, methods, services, authorizer, kept), route_name=path)


def judge(
    handler: Callable[[Request], Response], registry: Any
) -> Callable[[Request], Response]:
    """Make the tween that understands the version and renders every refusal."""
    trees = [(f"{api.prefix}/", api) for api in registry.placement_core_apis]

    def answer(request: Request) -> Response:
        environ = request.environ
        path = f"{environ.get('PATH_INFO', '')}/"
        # What is in no tree is for the API with the shortest prefix to refuse.
        for beginning, api in trees:  # noqa: B007
            if path.startswith(beginning):
                break
        versions = api.versions
        version = None
        try:
            if versions is not None:
                version = request.microversion = versions.asked(environ)
                environ[requestlog.MICROVERSION_KEY] = text(version)
                _check_content_headers(environ)
            else:
                request.microversion = ONLY
                _check_content_length(environ)
                if api.every_method and path.endswith("//"):
                    environ["PATH_INFO"] = path.rstrip("/")
            if api.json_suffix and path.endswith(_JSON_SUFFIX):
                environ["PATH_INFO"] = path.removesuffix(_JSON_SUFFIX)
                environ["HTTP_ACCEPT"] = _JSON
            response = handler(request)
        except Refusal as refusal:
            response = api.refuse(refusal.status, refusal, environ, version)
        except errors.Error as error:
            response = _refused(api, error, environ, version)
        except HTTPNotFound:
            response = api.refuse(404, errors.NotFound(), environ, version)
        except UnicodeDecodeError:
            unreadable = errors.Invalid("The path is not UTF-8.")
            response = api.refuse(400, unreadable, environ, version)
        except Exception as error:
            unavailable = failures.translate(error)
            if isinstance(unavailable, errors.Unavailable):
                unavailable.__cause__ = error
                response = _refused(api, unavailable, environ, version)
            else:
                # Not the text of the exception: it may tell what is none of the caller's
                # business.
                LOG.exception("request %s failed", environ.get(requestlog.ENVIRON_KEY))
                version = None
                response = api.refuse(500, errors.Error(), environ, version)
        if version is not None and versions is not None:
            response.headerlist += (
                (HEADER, f"{versions.service_type} {text(version)}"),
                ("Vary", HEADER.lower()),
            )
        else:
            response.headerlist += api.headers
        return response

    return answer


def _refused(
    api: Api, error: errors.Error, environ: dict[str, Any], version: Version | None
) -> Response:
    """Render what the domain refused. Log what could not be had, in one line."""
    response = api.refuse(http_errors.status_of(error), error, environ, version)
    if isinstance(error, errors.Unavailable):
        response.headers["Retry-After"] = str(error.retry_after_seconds)
        # An outage is logged by who finds it, once, and not for each request.
        if not isinstance(error, Away):
            cause = f": {failures.describe_error(error)}" if error.__cause__ is not None else ""
            LOG.warning("request %s is answered 503: %s%s",
                        environ.get(requestlog.ENVIRON_KEY), error, cause)
    return response


def refusal(apis: Sequence[Api], error: errors.Error, environ: dict[str, Any]) -> Response:
    """Render an error for a request that did not get as far as the router.

    :param apis: all that are served.
    """
    path = f"{environ.get('PATH_INFO', '')}/"
    # Every path is in the tree of the API with the shortest prefix.
    api = max((each for each in apis if path.startswith(f"{each.prefix}/")),
              key=lambda each: len(each.prefix))
    return _refused(api, error, environ, None)


def _check_content_headers(environ: dict[str, Any]) -> None:
    length = environ.get("CONTENT_LENGTH")
    if not length:
        return
    if not (length.isascii() and length.isdigit()):
        raise Refusal(400, "content-length header must be an integer")
    if length.strip("0") and not environ.get("CONTENT_TYPE"):
        raise Refusal(400, "content-type header required when content-length > 0")


def _check_content_length(environ: dict[str, Any]) -> None:
    length = environ.get("CONTENT_LENGTH")
    if length and not (length.isascii() and length.isdigit()):
        raise Refusal(400, "content-length header must be an integer")


class _Endpoint:
    """An operation with its schemas ready to use."""

    __slots__ = ("bodies", "operation", "queries")

    def __init__(self, operation: Operation, wording: validation.Wording) -> None:
        self.operation = operation
        self.bodies = _schemas(operation.body, validation.uuid_like, wording)
        self.queries = _schemas(operation.query, validation.strict_uuid, wording)

    def takes_body(self, version: Version) -> bool:
        """Say whether the operation has a body at a version."""
        return self.bodies is not None and self.bodies.at(version) is not None


def _schemas(
    ladder: Ladder[Any] | None, uuid: Callable[[object], bool], wording: validation.Wording
) -> Ladder[validation.Schema | None] | None:
    if ladder is None:
        return None
    return Ladder({
        since: None if schema is None else validation.Schema(schema, uuid, wording)
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
        kept: conditional.Bodies,
    ) -> None:
        self._api = api
        self._check_media = api.check_media
        self._endpoints = {
            method: _Endpoint(operation, api.wording)
            for method, operation in operations.items()}
        if api.every_method and "GET" in operations:
            # WebOb leaves the body out.
            self._endpoints["HEAD"] = self._endpoints["GET"]
        self._allowed = sorted([*self._endpoints, *(["OPTIONS"] if api.every_method else [])])
        self._kept = kept
        self._services = services
        self._authorizer = authorizer
        self._largest_body = services.conf.api.max_request_body_size

    def __call__(self, _context: object, request: Request) -> Response:
        """Judge a request, and answer it."""
        environ = request.environ
        method = environ["REQUEST_METHOD"]
        endpoint = self._endpoints.get(method)
        if endpoint is None:
            if method in self._allowed:
                return self._options()
            raise http_errors.method_not_allowed(method, self._allowed)
        operation = endpoint.operation
        version: Version = request.microversion
        path: dict[str, str] = request.matchdict
        if any("\0" in value for value in path.values()):
            raise errors.NotFound()
        if operation.media_before_gate:
            self._check_media(
                environ, endpoint.takes_body(max(version, operation.since)), operation.json_only)
            self._check_gate(operation, version)
        else:
            self._check_gate(operation, version)
            self._check_media(environ, endpoint.takes_body(version), operation.json_only)
        caller = identity.of(environ)
        if operation.policy is not None:
            target = operation.target and operation.target(_lenient_query(environ))
            self._authorizer.check(operation.policy, caller, target)
        if operation.served is not None:
            operation.served(self._services)

        ctx = self._services.context(caller, environ.get(requestlog.ENVIRON_KEY))
        query = _query(environ, endpoint, version)
        try:
            body = self._body(environ, endpoint, version)
        except errors.Invalid:
            if operation.exists is not None:
                operation.exists(ctx, path)
            raise
        prefix = _mount(environ)
        call = Call(self._services, ctx, path, query, body, version,
                    functools.partial(self._authorizer.allows, identity=caller), prefix)
        if self._api.absolute_links:
            call.prefix = f"{_host(environ)}{prefix}"
            call.address = _address(call.prefix, environ)
        if operation.tag is not None:
            return self._conditional(operation, call, operation.tag(call), environ)
        return self._render(operation.view(call), environ, version, prefix)

    def _options(self) -> Response:
        return Response(
            status=200, app_iter=[],
            headerlist=[("Allow", ", ".join(self._allowed)), ("Content-Length", "0")])

    def _conditional(
        self, operation: Operation, call: Call, made_from: conditional.Tag | None,
        environ: dict[str, Any],
    ) -> Response:
        """Answer 304 to who has the answer already; else make it, or take the kept one."""
        if made_from is None:
            return self._render(operation.view(call), environ, call.microversion, call.prefix)
        tag = made_from.text(call.ctx)
        environ[conditional.ENVIRON_KEY] = made_from
        headers = [("ETag", f'"{tag}"'), ("Cache-Control", "private, no-cache")]
        if self._api.versions is not None:
            headers.append(("Vary", "X-Auth-Token"))
        known = environ.get("HTTP_IF_NONE_MATCH")
        if known is not None and conditional.names(known, tag):
            return _not_modified(headers)
        body = self._kept.get(tag)
        if body is None:
            body = _json(operation.view(call).body)
            self._kept.keep(tag, body)
        if known is not None and conditional.names_any(known):
            return _not_modified(headers)
        headers += (("Content-Type", _JSON), ("Content-Length", str(len(body))))
        return Response(status=200, headerlist=headers, app_iter=[body])

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
        largest = min(endpoint.operation.largest_body or self._largest_body, self._largest_body)
        value = validation.parse_body(request_bodies.read(environ, largest))
        fault = schema.fault(value)
        if fault is not None:
            raise validation.InvalidBody(fault)
        return value

    def _render(
        self, reply: Reply, environ: dict[str, Any], version: Version, prefix: str
    ) -> Response:
        headers: list[tuple[str, str]] = list(reply.headers)
        chunks: list[bytes] = []
        body = reply.body
        if body is not None:
            body = _json(body)
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


def _json(body: Any) -> bytes:
    return body if isinstance(body, bytes) else orjson.dumps(
        body, option=orjson.OPT_NON_STR_KEYS)


def _not_modified(headers: list[tuple[str, str]]) -> Response:
    return Response(status=304, headerlist=headers, app_iter=[])


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


def root_url(environ: dict[str, Any]) -> str:
    """Return where the app is mounted, as a URL."""
    return f"{_host(environ)}{_mount(environ)}"


def _mount(environ: dict[str, Any]) -> str:
    script_name = environ.get("SCRIPT_NAME", "")
    return _quoted(script_name.encode("latin-1")) if script_name else ""


def _host(environ: dict[str, Any]) -> str:
    """Return scheme and host as the caller sees them."""
    host = environ.get("HTTP_HOST")
    if not host:
        host = f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    return f"{environ['wsgi.url_scheme']}://{host}"


def _address(prefix: str, environ: dict[str, Any]) -> str:
    """Return the URL that was asked for."""
    address = f"{prefix}{_quoted(environ['PATH_INFO'].encode('latin-1'))}"
    query = environ.get("QUERY_STRING")
    # As it came, but for what no URL holds.
    return f"{address}?{urllib.parse.quote(query.encode('latin-1'), safe=_IN_QUERIES)}" \
        if query else address


def _quoted(path: str | bytes) -> str:
    return urllib.parse.quote(path, safe="/:~!$&'()*+,;=@")


def _http_date(moment: datetime.datetime) -> str:
    if moment is NOW:
        return email.utils.formatdate(time.time(), usegmt=True)
    return email.utils.format_datetime(moment.replace(tzinfo=datetime.UTC), usegmt=True)
