"""Limits concurrent requests, so that one thread of a worker is left for health checks.

A WSGI server has a fixed number of threads for each worker. Requests that wait for a database
occupy theirs; if they occupied all of them, the worker could not answer even a health check. So
the server has one thread more than there may be concurrent requests. In that thread a request
waits until another one is done, which takes milliseconds. It is refused only where none gets
done, because all of them wait for the database.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import errors
from placement_core.db.availability import Availability
from placement_core.http import errors as http_errors
from placement_core.http.apis import ApisByPath

#: Requests are refused when none got done for so long.
_PATIENCE_SECONDS = 1.0
#: How often a request that waits checks whether the database is in trouble.
_CHECK_EVERY_SECONDS = 0.1


class Overloaded(errors.Unavailable):
    """Every request that this process works on waits for the database."""

    retry_after_seconds = 2

    def __init__(self) -> None:
        super().__init__("Too many requests wait for the database; please try again.")


class ConcurrencyLimit:
    """WSGI middleware that serves a number of requests at a time.

    :param most: the number.
    :param apis: have the renderer of a refusal.
    """

    def __init__(
        self, app: WSGIApplication, most: int, availability: Availability, apis: ApisByPath
    ) -> None:
        self._app = app
        self._most = most
        self._availability = availability
        self._apis = apis
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._slots = threading.Semaphore(self._most)
        self._last_done_at = time.monotonic()

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        if not self._slots.acquire(blocking=False) and not self._wait():
            api = self._apis.find(environ.get("PATH_INFO", ""))
            response: WSGIApplication = http_errors.render_error(
                api.render_document, Overloaded(), environ, None)
            return response(environ, start_response)
        try:
            return self._app(environ, start_response)
        finally:
            self._last_done_at = time.monotonic()
            self._slots.release()

    def _wait(self) -> bool:
        """Wait for a slot; return whether there is one."""
        while not self._slots.acquire(timeout=_CHECK_EVERY_SECONDS):
            stuck = time.monotonic() - self._last_done_at > _PATIENCE_SECONDS
            if stuck and self._availability.is_troubled:
                return False
        return True
