"""``/readiness``: whether a request would be served now, answered within a bounded time."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse

from placement_core import errors
from placement_core.db import failures
from placement_core.services import Services

LOG = logging.getLogger(__name__)

#: A database that takes longer for one small statement does not count as ready.
_PATIENCE_SECONDS = 2.0


class _ReadinessCheck:
    """One refresh of the index, which concurrent requests share.

    :ivar ready: whether it could be refreshed.
    """

    def __init__(self) -> None:
        self.done = threading.Event()
        self.ready = False


class Readiness:
    """A WSGI application: 200 once the index is loaded and the database answers, else 503."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._was_ready = True
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._check: _ReadinessCheck | None = None

    def __call__(
        self, _environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        check = self._start_or_join()
        ready = check.done.wait(_PATIENCE_SECONDS) and check.ready
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")]
        if ready:
            status, text = "200 OK", "ready\n"
        else:
            status, text = "503 Service Unavailable", "not ready\n"
            headers.append(("Retry-After", str(errors.Unavailable.retry_after_seconds)))
        body = text.encode()
        start_response(status, [*headers, ("Content-Length", str(len(body)))])
        return [body]

    def _start_or_join(self) -> _ReadinessCheck:
        """Return the running check, or start one."""
        with self._lock:
            if self._check is not None and not self._check.done.is_set():
                return self._check
            check = self._check = _ReadinessCheck()
        if self._services.database.availability.is_away:
            check.done.set()
        else:
            # In a thread of its own, because this one waits for a bounded time only.
            threading.Thread(
                target=self._run, args=(check,), name="readiness", daemon=True).start()
        return check

    def _run(self, check: _ReadinessCheck) -> None:
        try:
            self._services.index.snapshot(self._services.context())
            check.ready = True
        except Exception as error:
            is_outage = isinstance(failures.translate(error), errors.Unavailable)
            if self._was_ready:
                LOG.warning(
                    "not ready: %s", failures.describe_error(error), exc_info=not is_outage)
        finally:
            self._was_ready = check.ready
            check.done.set()
