"""From a Pyramid request to a view's ``Call``: the checks of each path.

A request is checked in the order that the Placement API promises: microversion,
content headers, route (the tween and the router), method, version gate, media types,
policy, query string, body. The body of a request that is refused before is never read.
Source: spec placement_api §1.1.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from pyramid.request import Request
from pyramid.response import Response

from placement_core import errors
from placement_core.http import (
    conditional,
    errors as http_errors,
    identity,
    media,
    operations,
    replies,
    request_bodies,
    requestlog,
    urls,
    validation,
)
from placement_core.http.apis import Api
from placement_core.http.openapi import OpenApi
from placement_core.http.operations import Call, Ladder, Operation, Reply, Version
from placement_core.http.policy import Authorizer
from placement_core.services import Services


class _PreparedOperation:
    """An operation with its schemas ready to use."""

    __slots__ = ("bodies", "name", "operation", "queries")

    def __init__(self, operation: Operation, api: Api) -> None:
        self.operation = operation
        self.name = api.name, f"{operation.method} {api.prefix}{operation.path}"
        self.bodies = _prepare_schemas(operation.body, validation.is_uuid_like, api.error_text)
        self.queries = _prepare_schemas(
            operation.query, validation.is_strict_uuid, api.error_text)

    def takes_body(self, version: Version) -> bool:
        """Say whether the operation has a body at a version."""
        return self.bodies is not None and self.bodies.at(version) is not None


def _prepare_schemas(
    ladder: Ladder[Any] | None, uuid: Callable[[object], bool], error_text: validation.ErrorText
) -> Ladder[validation.Schema | None] | None:
    if ladder is None:
        return None
    return Ladder({
        since: None if schema is None else validation.Schema(schema, uuid, error_text)
        for since, schema in ladder.rungs.items()
    })


class PathView:
    """The Pyramid view of one path: picks the operation, checks, calls, renders."""

    def __init__(
        self,
        api: Api,
        operations: dict[str, Operation],
        services: Services,
        authorizer: Authorizer,
        bodies: conditional.Bodies,
        openapi: OpenApi,
    ) -> None:
        self._api = api
        self._openapi = openapi
        self._check_media = api.check_media
        self._endpoints = {
            method: _PreparedOperation(operation, api)
            for method, operation in operations.items()}
        if (api.every_method or api.answers_head) and "GET" in operations:
            # WebOb leaves the body out.
            self._endpoints["HEAD"] = self._endpoints["GET"]
        self._allowed = sorted([*self._endpoints, *(["OPTIONS"] if api.every_method else [])])
        self._bodies = bodies
        self._services = services
        self._authorizer = authorizer
        options = services.conf.api
        self._largest_body = options.max_request_body_size
        self._most_levels = options.max_request_body_depth
        self._parse_query = functools.partial(
            validation.parse_query, longest=options.max_query_length,
            most_parameters=options.max_query_parameters)

    def __call__(self, _context: object, request: Request) -> Response:
        """Check a request, and answer it."""
        try:
            return self._answer(request)
        except http_errors.NotAllowed as error:
            error.needed = self._authorizer.describe(
                error.rule, identity.get_identity(request.environ))
            raise

    def _answer(self, request: Request) -> Response:
        environ = request.environ
        method = environ["REQUEST_METHOD"]
        endpoint = self._endpoints.get(method)
        if endpoint is None:
            if method in self._allowed:
                return self._answer_options()
            raise http_errors.method_not_allowed(method, self._allowed)
        operation = endpoint.operation
        environ[requestlog.OPERATION_KEY] = endpoint.name
        version: Version = request.microversion
        path: dict[str, str] = request.matchdict
        if any("\0" in value for value in path.values()):
            raise errors.NotFound()
        wants_events = operation.event_view is not None and media.accepts_events(environ)
        json_only = operation.json_only and not wants_events
        if operation.media_before_gate:
            self._check_media(
                environ, endpoint.takes_body(max(version, operation.since)), json_only)
            self._check_gate(operation, version)
        else:
            self._check_gate(operation, version)
            self._check_media(environ, endpoint.takes_body(version), json_only)
        caller = identity.get_identity(environ)
        if operation.policy is not None:
            target = operation.target and operation.target(self._parse_query_leniently(environ))
            self._authorizer.check(operation.policy, caller, target)
        if operation.check_served is not None:
            operation.check_served(self._services)

        ctx = self._services.context(
            caller, environ.get(requestlog.ENVIRON_KEY), endpoint.name[1])
        query = self._read_query(environ, endpoint, version)
        try:
            body = self._read_body(environ, endpoint, version)
        except errors.Invalid:
            if operation.check_exists is not None:
                operation.check_exists(ctx, path)
            raise
        prefix = urls.get_mount_path(environ)
        call = Call(self._services, ctx, path, query, body, version,
                    functools.partial(self._authorizer.allows, identity=caller), prefix,
                    openapi=self._openapi,
                    idle=environ.get(operations.IDLE_KEY, contextlib.nullcontext),
                    last_event_id=environ.get("HTTP_LAST_EVENT_ID"),
                    digest_policy=self._authorizer.digest)
        if self._api.absolute_links:
            call.prefix = f"{urls.get_host_url(environ)}{prefix}"
            call.address = urls.get_request_url(request)
        if operation.etag is not None:
            return self._answer_conditionally(operation, call, operation.etag(call), environ)
        view = operation.view
        if wants_events and operation.event_view is not None:
            view = operation.event_view
        return self._render(view(call), environ, version, prefix)

    def _answer_options(self) -> Response:
        return Response(
            status=200, app_iter=[],
            headerlist=[("Allow", ", ".join(self._allowed)), ("Content-Length", "0")])

    def _answer_conditionally(
        self, operation: Operation, call: Call, etag: conditional.ETag | None,
        environ: dict[str, Any],
    ) -> Response:
        """Answer 304 if the caller has the answer already; else the cached or a new body."""
        if etag is None:
            return self._render(operation.view(call), environ, call.microversion, call.prefix)
        tag = etag.text(call.ctx)
        headers = [("ETag", f'"{tag}"'), ("Cache-Control", "private, no-cache")]
        if self._api.versions is not None:
            headers.append(("Vary", "X-Auth-Token"))
        if_none_match = environ.get("HTTP_IF_NONE_MATCH")
        if if_none_match is not None and conditional.matches(if_none_match, tag):
            environ[conditional.ENVIRON_KEY] = etag
            return replies.render_not_modified(headers)
        body = self._bodies.get(tag)
        if body is None:
            reply = operation.view(call)
            if reply.status != 200 or reply.partial:
                return self._render(reply, environ, call.microversion, call.prefix)
            body = replies.make_body(reply)
            self._bodies.put(tag, body)
        environ[conditional.ENVIRON_KEY] = etag
        if if_none_match is not None and conditional.matches_any(if_none_match):
            return replies.render_not_modified(headers)
        headers += replies.make_content_headers(body)
        return Response(status=200, headerlist=headers, app_iter=[body.content])

    def _check_gate(self, operation: Operation, version: Version) -> None:
        if version >= operation.since:
            return
        if operation.gate_status == 405:
            others = [method for method in self._allowed if method != operation.method]
            raise http_errors.method_not_allowed(operation.method, others)
        raise errors.NotFound()

    def _read_query(
        self, environ: dict[str, Any], endpoint: _PreparedOperation, version: Version
    ) -> dict[str, list[str]]:
        query = self._parse_query(environ.get("QUERY_STRING", ""))
        schema = endpoint.queries.at(version) if endpoint.queries is not None else None
        if schema is not None:
            problem = schema.validate({name: values[-1] for name, values in query.items()})
            if problem is not None:
                raise validation.InvalidQuery(problem)
        return query

    def _parse_query_leniently(self, environ: dict[str, Any]) -> dict[str, list[str]]:
        """Parse the query string for the policy, which is checked before the query string."""
        try:
            return self._parse_query(environ.get("QUERY_STRING", ""))
        except errors.Invalid:
            return {}

    def _read_body(
        self, environ: dict[str, Any], endpoint: _PreparedOperation, version: Version
    ) -> Any:
        schema = endpoint.bodies.at(version) if endpoint.bodies is not None else None
        if schema is None:
            return None
        largest = min(endpoint.operation.largest_body or self._largest_body, self._largest_body)
        value = validation.parse_body(
            request_bodies.read(environ, largest), self._most_levels)
        problem = schema.validate(value)
        if problem is not None:
            raise validation.InvalidBody(problem)
        return value

    def _render(
        self, reply: Reply, environ: dict[str, Any], version: Version, prefix: str
    ) -> Response:
        return replies.render(
            reply, environ, prefix, cache_headers=version >= self._api.cache_headers_since)
