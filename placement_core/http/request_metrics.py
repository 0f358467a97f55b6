"""How many requests there are, and how long their answers take."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import metrics
from placement_core.http.apis import ApisByPath


class RequestMetrics:
    """WSGI middleware before authentication, so that strangers count, too."""

    def __init__(self, app: WSGIApplication, apis: ApisByPath) -> None:
        self._app = app
        self._apis = apis

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        started = time.perf_counter()
        api = self._apis.find(environ.get("PATH_INFO", "")).name
        # What the server answers in our place when an exception reaches it.
        answer = "500"

        def noting(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            nonlocal answer
            answer = status
            return start_response(status, headers, *exc_info)

        try:
            return self._app(environ, noting)
        finally:
            metrics.answered(
                api, environ["REQUEST_METHOD"], answer, time.perf_counter() - started)
