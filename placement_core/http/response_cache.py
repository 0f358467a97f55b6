"""Reads that were answered before, answered again without the router.

A client of limits asks the same question all day. Once the pipeline has let it pass
and said what its answer is made from (``conditional.ETag``), the same question of the
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
from placement_core.http import conditional, identity, requestlog
from placement_core.http.policy import Authorizer
from placement_core.services import Services

_METHODS = ("GET", "HEAD")
#: Questions are many in the long run.
_MOST_REQUESTS = 4096
#: What differs between the answers to one question; the rest of the headers does not.
_HEADERS_OF_ONE_RESPONSE = ("ETag", "Content-Type", "Content-Length")


@dataclasses.dataclass(frozen=True, slots=True)
class _KnownRequest:
    """A question that the pipeline let pass.

    :ivar rules: the policy that was in force.
    :ivar headers: what every answer to it carries.
    """

    tag: conditional.ETag
    rules: object
    headers: list[tuple[str, str]]


class ResponseCache:
    """WSGI middleware between authentication and the router.

    :param prefixes: the trees whose answers depend on nothing in a request but the
        caller, the address and the media type that is asked for.
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
        self._known = BoundedCache[Hashable, _KnownRequest](_MOST_REQUESTS)

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        if not environ.get("PATH_INFO", "").startswith(self._prefixes) or (
                environ["REQUEST_METHOD"] not in _METHODS or environ.get("CONTENT_LENGTH")):
            return self._app(environ, start_response)
        rules = self._authorizer.rules()
        caller = identity.get_identity(environ)
        question = (
            caller, environ["PATH_INFO"], environ.get("QUERY_STRING"),
            environ.get("SCRIPT_NAME"), environ["wsgi.url_scheme"], environ.get("HTTP_HOST"),
            environ.get("HTTP_ACCEPT"))
        known = self._known.get(question)
        if known is not None and known.rules is rules:
            answer = self._repeated(known, caller, environ, start_response)
            if answer is not None:
                return answer

        def noticing(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            tag = environ.get(conditional.ENVIRON_KEY)
            if tag is not None and rules is not None and status[:3] in ("200", "304"):
                self._known.put(question, _KnownRequest(
                    tag, rules,
                    [each for each in headers if each[0] not in _HEADERS_OF_ONE_RESPONSE]))
            return start_response(status, headers, *exc_info)

        return self._app(environ, noticing)

    def _repeated(
        self, known: _KnownRequest, caller: Identity, environ: dict[str, Any],
        start_response: StartResponse,
    ) -> Iterable[bytes] | None:
        """Answer with what is known; None: it is known no more."""
        try:
            tag = known.tag.text(
                self._services.context(caller, environ.get(requestlog.ENVIRON_KEY)))
        except errors.Error:
            return None  # The pipeline says it in the words of the API.
        headers = [("ETag", f'"{tag}"'), *known.headers]
        asked = environ.get("HTTP_IF_NONE_MATCH")
        if asked is not None and conditional.matches(asked, tag):
            start_response("304 Not Modified", headers)
            return []
        body = None if asked is not None else self._bodies.get(tag)
        if body is None:
            return None
        start_response("200 OK", [
            *headers, ("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]
