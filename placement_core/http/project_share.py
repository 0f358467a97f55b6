"""Limits the requests of one project that a worker works on at a time."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import forks
from placement_core.context import Identity
from placement_core.http.apis import ApisByPath
from placement_core.http.errors import HTTPError
from placement_core.http.identity import get_identity
from placement_core.http.operations import IDLE_KEY

_RETRY_AFTER_SECONDS = 1


class ProjectShare:
    """WSGI middleware behind authentication. Thread-safe.

    :param most: how many requests of one project there may be at a time.
    :param apis: have the renderer of a refusal.
    :param is_service: says whether a caller's requests are those of all projects.
    """

    def __init__(
        self, app: WSGIApplication, most: int, apis: ApisByPath,
        is_service: Callable[[Identity], bool],
    ) -> None:
        self._app = app
        self._is_service = is_service
        self._most = most
        self._apis = apis
        self._renew()
        forks.call_in_child(self, ProjectShare._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._in_flight: Counter[str] = Counter()

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        caller = get_identity(environ)
        project = caller.project_id
        if project is None or self._is_service(caller):
            return self._app(environ, start_response)
        with self._lock:
            is_refused = self._in_flight[project] >= self._most
            if not is_refused:
                self._in_flight[project] += 1
        if is_refused:
            return self._refuse(environ, start_response)
        environ[IDLE_KEY] = functools.partial(
            self._idle, project, environ.get(IDLE_KEY, contextlib.nullcontext))
        try:
            return self._app(environ, start_response)
        finally:
            self._add(project, -1)

    @contextlib.contextmanager
    def _idle(
        self, project: str, outer: Callable[[], AbstractContextManager[None]]
    ) -> Iterator[None]:
        """Leave a request out while it does nothing but wait."""
        self._add(project, -1)
        try:
            with outer():
                yield
        finally:
            self._add(project, 1)

    def _add(self, project: str, change: int) -> None:
        with self._lock:
            self._in_flight[project] += change
            if not self._in_flight[project]:
                del self._in_flight[project]

    def _refuse(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        error = HTTPError(
            429, f"The service works on {self._most} requests of the project already, as many as "
            "of any; please try again.", headers=[("Retry-After", str(_RETRY_AFTER_SECONDS))])
        api = self._apis.find(environ.get("PATH_INFO", ""))
        response: WSGIApplication = api.render_refusal(error, environ)
        return response(environ, start_response)
