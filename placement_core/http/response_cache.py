"""Cache of responses: repeated reads are answered without the router.

Clients of limits repeat the same request all day. Once the pipeline has answered it
and left what the answer is made from (``conditional.ETag``), the same request of the
same caller costs one small query: an unchanged tag is an unchanged answer. A change
of the policy files, like one of the limits, sends it through the pipeline again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Sequence
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import errors
from placement_core.caches import BoundedCache
from placement_core.context import Identity
from placement_core.http import conditional, identity, replies, requestlog
from placement_core.http.policy import Authorizer
from placement_core.services import Services

_METHODS = ("GET", "HEAD")
#: In the long run, different requests are many.
_MOST_REQUESTS = 4096
#: Of the texts of a request, in characters. Longer ones are not cached: with what their answer is
#: made from, each takes several times as much memory.
_LONGEST_REQUEST = 2048
#: The headers that differ between the answers to one request; the others do not.
_HEADERS_OF_ONE_RESPONSE = ("ETag", "Content-Type", "Content-Length")


@dataclasses.dataclass(frozen=True, slots=True)
class _CachedRequest:
    """A request that the pipeline has answered.

    :ivar rules: the policy that was in force.
    :ivar operation: as the pipeline left it (``requestlog.OPERATION_KEY``).
    :ivar headers: those of every answer to it.
    """

    tag: conditional.ETag
    rules: object
    operation: tuple[str, str]
    headers: list[tuple[str, str]]


class ResponseCache:
    """WSGI middleware between authentication and the router.

    :param prefixes: the trees whose answers depend on nothing in a request but the
        caller, the URL and the ``Accept`` header.
    """

    def __init__(
        self, app: WSGIApplication, prefixes: Sequence[str], services: Services,
        authorizer: Authorizer, bodies: conditional.Bodies,
    ) -> None:
        self._app = app
        self._prefixes = tuple(f"{prefix}/" for prefix in prefixes)
        self._services = services
        self._authorizer = authorizer
        self._bodies = bodies
        self._requests = BoundedCache[Hashable, _CachedRequest](_MOST_REQUESTS)

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        if not environ.get("PATH_INFO", "").startswith(self._prefixes) or (
                environ["REQUEST_METHOD"] not in _METHODS or environ.get("CONTENT_LENGTH")):
            return self._app(environ, start_response)
        texts = (
            environ["PATH_INFO"], environ.get("QUERY_STRING"), environ.get("SCRIPT_NAME"),
            environ["wsgi.url_scheme"], environ.get("HTTP_HOST"), environ.get("HTTP_ACCEPT"))
        if sum(len(text) for text in texts if text) > _LONGEST_REQUEST:
            return self._app(environ, start_response)
        rules = self._authorizer.rules()
        caller = identity.get_identity(environ)
        key = (caller, texts)
        cached = self._requests.get(key)
        if cached is not None and cached.rules is rules:
            answer = self._repeat(cached, caller, environ, start_response)
            if answer is not None:
                return answer

        def cache_and_start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            tag = environ.get(conditional.ENVIRON_KEY)
            if tag is not None and rules is not None and status[:3] in ("200", "304"):
                self._requests.put(key, _CachedRequest(
                    tag, rules, environ[requestlog.OPERATION_KEY], [
                        (name, value) for name, value in headers
                        if name not in _HEADERS_OF_ONE_RESPONSE]))
            return start_response(status, headers, *exc_info)

        return self._app(environ, cache_and_start)

    def _repeat(
        self, cached: _CachedRequest, caller: Identity, environ: dict[str, Any],
        start_response: StartResponse,
    ) -> Iterable[bytes] | None:
        """Answer from the cache; None: the answer is not cached any more."""
        try:
            tag = cached.tag.text(
                self._services.context(caller, environ.get(requestlog.ENVIRON_KEY)))
        except errors.Error:
            return None  # The pipeline renders the error as the API does.
        environ[requestlog.OPERATION_KEY] = cached.operation
        headers = [("ETag", f'"{tag}"'), *cached.headers]
        if_none_match = environ.get("HTTP_IF_NONE_MATCH")
        if if_none_match is not None and conditional.matches(if_none_match, tag):
            start_response("304 Not Modified", headers)
            return []
        body = None if if_none_match is not None else self._bodies.get(tag)
        if body is None:
            return None
        start_response("200 OK", [
            *headers, *replies.make_content_headers(body)])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body.content]
