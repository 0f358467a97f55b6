"""Request ids, and the access log."""

from __future__ import annotations

import dataclasses
import logging
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar
from wsgiref.types import StartResponse, WSGIApplication

from oslo_context import context as log_context

from placement_core import tracing
from placement_core.masking import mask_query

LOG = logging.getLogger(__name__)

ENVIRON_KEY = "placement_core.request_id"
#: The pipeline leaves the microversion it understood here, as text.
MICROVERSION_KEY = "placement_core.microversion"
#: What found the operation of a request leaves it here: (name of the API, method and path
#: template), such as ``("placement", "GET /resource_providers/{uuid}")``.
OPERATION_KEY = "placement_core.operation"
#: The code of the domain's error that a request is refused with.
ERROR_CODE_KEY = "placement_core.error_code"
#: What its caller is told of it.
ERROR_TEXT_KEY = "placement_core.error_text"

_HEADER = "x-openstack-request-id"
_GLOBAL_ID = re.compile(
    r"req-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class _LogContext(log_context.RequestContext):
    """The ids of a request and its trace, for all lines that are logged for it.

    A line is formatted from all values of a context. Only the ids are set here, and
    gathering the rest anew would take longer than writing the line.
    """

    _defaults: ClassVar[dict[str, Any]] = {}
    trace_id: str | None = None

    def get_logging_values(self) -> dict[str, Any]:
        """Return the values for the format of a line."""
        if not self._defaults:
            self._defaults.update(super().get_logging_values())
        values = {**self._defaults, "request_id": self.request_id,
                  "global_request_id": self.global_request_id}
        if self.trace_id is not None:
            values["trace_id"] = self.trace_id
        return values


@dataclasses.dataclass(frozen=True, slots=True)
class Response:
    """What the access log tells about the response to a request.

    :ivar length: of the body in bytes; None: it has no ``Content-Length``.
    :ivar seconds: from the request to the start of the response.
    """

    status: int
    length: int | None
    seconds: float
    request_id: str
    global_request_id: str | None
    trace_id: str | None


#: Returns the fields of a line of the access log.
ListFields = Callable[[dict[str, Any], Response], dict[str, Any]]


def make_request_id(milliseconds: int) -> str:
    """Return a unique id for a request that came at a time, since the epoch.

    Its UUID has the version 7, which begins with the time: such ids are neighbours in the audit's
    index, where each random one would write another page.
    """
    bits = milliseconds << 80 | secrets.randbits(80)
    bits = bits & ~(0xF << 76 | 0x3 << 62) | 0x7 << 76 | 0x2 << 62
    digits = f"{bits:032x}"
    return f"req-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class RequestLog:
    """WSGI middleware: request ids on every response, an access log line.

    The id that a client sends (``X-OpenStack-Request-Id``) is logged beside ours as the
    global request id; it is never sent back.

    :param probes: paths that machines ask for every few seconds: a line about them has the
        level DEBUG.
    :param list_fields: returns what formatters find as ``extra`` beside the text of a line;
        None: they find nothing, and nobody spends time on it.
    """

    def __init__(
        self, app: WSGIApplication, probes: Collection[str] = (),
        list_fields: ListFields | None = None,
    ) -> None:
        self.app = app
        self._probes = probes
        self._list_fields = list_fields

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        started = time.monotonic()
        global_id = environ.get("HTTP_X_OPENSTACK_REQUEST_ID")
        if global_id is not None and not _GLOBAL_ID.fullmatch(global_id):
            global_id = None
        # The context becomes this thread's, so that all its log lines show the ids.
        context = _LogContext(
            request_id=make_request_id(time.time_ns() // 1_000_000), global_request_id=global_id)
        trace_id = tracing.receive(environ)
        if trace_id is not None:
            context.trace_id = trace_id
        environ[ENVIRON_KEY] = request_id = context.request_id

        level = logging.DEBUG if environ.get("PATH_INFO") in self._probes else logging.INFO

        def log_and_start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            if LOG.isEnabledFor(level):
                length, seconds = _get_length(headers), time.monotonic() - started
                keywords: dict[str, Any] = {}
                if self._list_fields is not None:
                    keywords["extra"] = {"extra": self._list_fields(environ, Response(
                        int(status[:3]), int(length) if length.isdecimal() else None, seconds,
                        request_id, global_id, trace_id))}
                LOG.log(
                    level,
                    '%s "%s %s" status: %s len: %s microversion: %s request_id: %s time: %.4f',
                    environ.get("REMOTE_ADDR", "-"), environ["REQUEST_METHOD"], _get_uri(environ),
                    status[:3], length, environ.get(MICROVERSION_KEY, "-"), request_id, seconds,
                    **keywords,
                )
            return start_response(status, [*headers, (_HEADER, request_id)], *exc_info)

        return self.app(environ, log_and_start)


def _get_length(headers: list[tuple[str, str]]) -> str:
    for name, value in headers:
        if name.lower() == "content-length":
            return value
    return "-"


def _get_uri(environ: dict[str, Any]) -> str:
    """Return the URI of the request without secrets, safe to write in one line."""
    query = environ.get("QUERY_STRING")
    uri = f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}"
    uri = f"{uri}?{mask_query(query)}" if query else uri
    return uri if uri.isprintable() else ascii(uri)[1:-1]
