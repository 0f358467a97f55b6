"""Notes how many requests this process has, and which it refuses, for the reports of workers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import errors
from placement_core.http import identity, requestlog
from placement_core.masking import mask_text
from placement_core.safe_logging import printable
from placement_core.workers.records import Cause
from placement_core.workers.reporter import RefusedRequest, WorkerReporter

#: The longest text of a refusal, and how much of one is read.
_LONGEST, _MOST_READ = 255, 4096


class WorkerReports:
    """WSGI middleware before authentication, so that refused requests count, too."""

    def __init__(self, app: WSGIApplication, reporter: WorkerReporter) -> None:
        self._app = app
        self._reporter = reporter

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        # The server's answer when an exception reaches it.
        last_status = "500"

        def note_status(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            nonlocal last_status
            last_status = status
            return start_response(status, headers, *exc_info)

        self._reporter.begin_request()
        try:
            return self._app(environ, note_status)
        finally:
            self._reporter.end_request(
                _describe(environ, int(last_status[:3])) if last_status >= "4" else None)


def _describe(environ: dict[str, Any], status: int) -> RefusedRequest:
    """Describe a refusal by what the pipeline left in the environment of the request."""
    caller = identity.get_identity(environ)
    _, operation = environ.get(
        requestlog.OPERATION_KEY, (None, environ.get("REQUEST_METHOD", "")))
    return RefusedRequest(
        Cause(
            _make_storable(operation) or "", status,
            environ.get(requestlog.ERROR_CODE_KEY, errors.Error.code),
            _make_storable(caller.project_id), _make_storable(caller.user_id)),
        time.monotonic(), environ.get(requestlog.ENVIRON_KEY),
        _make_storable(_mask(environ.get(requestlog.ERROR_TEXT_KEY))))


def _mask(text: str | None) -> str | None:
    """Return a text without secrets: it may repeat what the client sent, such as a URL."""
    if not text:
        return None
    if len(text) > _MOST_READ:
        # A URL that is cut could not be told from other text.
        text = text[:_MOST_READ].rpartition(" ")[0]
    return mask_text(text)


def _make_storable(text: str | None) -> str | None:
    """Return a text as one short line, which any database can keep; None for none."""
    return printable(text[:_LONGEST])[:_LONGEST] if text else None
