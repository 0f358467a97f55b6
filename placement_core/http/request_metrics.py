"""Metrics of requests: how many there are, what they ask for, and how they end."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import errors, metrics
from placement_core.http import requestlog
from placement_core.http.apis import ApisByPath
from placement_core.monitoring.process import ProcessNotes

#: The operation of requests that meet none.
_NO_OPERATION = "none"


class RequestMetrics:
    """WSGI middleware before authentication, so that refused requests count, too.

    :param notes: know how many requests there are at a time.
    """

    def __init__(self, app: WSGIApplication, apis: ApisByPath, notes: ProcessNotes) -> None:
        self._app = app
        self._apis = apis
        self._notes = notes

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        started = time.perf_counter()
        self._notes.begin_request()
        # The server's answer when an exception reaches it.
        last_status = "500"

        def note_status(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            nonlocal last_status
            last_status = status
            return start_response(status, headers, *exc_info)

        try:
            return self._app(environ, note_status)
        finally:
            self._notes.end_request()
            operation = environ.get(requestlog.OPERATION_KEY)
            if operation is None:
                operation = self._apis.find(environ.get("PATH_INFO", "")).name, _NO_OPERATION
            metrics.count_request(operation, last_status, time.perf_counter() - started)
            if last_status >= "4":
                metrics.count_refusal(
                    environ.get(requestlog.ERROR_CODE_KEY, errors.Error.code), last_status[:3])
