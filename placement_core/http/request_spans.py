"""Spans of requests, by OpenTelemetry's semantic conventions for HTTP."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import tracing
from placement_core.http import requestlog
from placement_core.masking import mask_query

#: Any other method is ``_OTHER``, because names of spans are to be few.
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


class RequestSpans:
    """WSGI middleware before all others: a span for each request.

    :param probes: paths that machines ask for every few seconds: they have no span.
    """

    def __init__(self, app: WSGIApplication, probes: Collection[str]) -> None:
        self._app = app
        self._probes = probes

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        if environ.get("PATH_INFO") in self._probes:
            return self._app(environ, start_response)
        method = environ["REQUEST_METHOD"]
        with tracing.server_span(
            environ, method if method in _METHODS else "HTTP", _describe(environ)
        ) as span:

            def note_status(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
                span.set_attribute("http.response.status_code", int(status[:3]))
                if status >= "5":
                    tracing.mark_failed(span, status[:3])
                return start_response(status, headers, *exc_info)

            try:
                return self._app(environ, note_status)
            finally:
                operation = environ.get(requestlog.OPERATION_KEY)
                if operation is not None:
                    _, name = operation
                    span.update_name(name)
                    span.set_attribute("http.route", name.partition(" ")[2])


def _describe(environ: dict[str, Any]) -> dict[str, str | int]:
    """Return the attributes of a request that are known before it is processed."""
    method = environ["REQUEST_METHOD"]
    attributes: dict[str, str | int] = {
        "http.request.method": method if method in _METHODS else "_OTHER",
        "url.scheme": environ["wsgi.url_scheme"],
        "url.path": f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}",
    }
    query = environ.get("QUERY_STRING")
    if query:
        attributes["url.query"] = mask_query(query)
    for attribute, key in (("client.address", "REMOTE_ADDR"),
                           ("server.address", "SERVER_NAME"),
                           ("user_agent.original", "HTTP_USER_AGENT")):
        if environ.get(key):
            attributes[attribute] = environ[key]
    return attributes
