"""Metrics of requests: how many there are, what they ask for, and how they end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import errors, metrics
from placement_core.http import requestlog
from placement_core.http.apis import ApisByPath

#: The operation of requests that meet none.
_NO_OPERATION = "none"


class RequestMetrics:
    """WSGI middleware before authentication, so that refused requests count, too.

    :ivar in_flight: how many requests this process is working on.
    """

    def __init__(self, app: WSGIApplication, apis: ApisByPath) -> None:
        self._app = app
        self._apis = apis
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self.in_flight = 0

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        started = time.perf_counter()
        with self._lock:
            self.in_flight += 1
        # The server's answer when an exception reaches it.
        last_status = "500"

        def note_status(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            nonlocal last_status
            last_status = status
            return start_response(status, headers, *exc_info)

        try:
            return self._app(environ, note_status)
        finally:
            with self._lock:
                self.in_flight -= 1
            operation = environ.get(requestlog.OPERATION_KEY)
            if operation is None:
                operation = self._apis.find(environ.get("PATH_INFO", "")).name, _NO_OPERATION
            metrics.count_request(
                operation, environ["REQUEST_METHOD"], last_status,
                time.perf_counter() - started)
            if last_status >= "4":
                metrics.count_refusal(
                    environ.get(requestlog.ERROR_CODE_KEY, errors.Error.code), last_status[:3])
