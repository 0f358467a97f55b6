"""Metrics of requests: how many there are, and how long they take."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import metrics
from placement_core.http.apis import ApisByPath


class RequestMetrics:
    """WSGI middleware before authentication, so that refused requests count, too."""

    def __init__(self, app: WSGIApplication, apis: ApisByPath) -> None:
        self._app = app
        self._apis = apis

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        started = time.perf_counter()
        api = self._apis.find(environ.get("PATH_INFO", "")).name
        # The server's answer when an exception reaches it.
        last_status = "500"

        def note_status(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            nonlocal last_status
            last_status = status
            return start_response(status, headers, *exc_info)

        try:
            return self._app(environ, note_status)
        finally:
            metrics.count_request(
                api, environ["REQUEST_METHOD"], last_status, time.perf_counter() - started)
