"""``/readiness``: whether a request would be served now, told within a bounded time."""

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

#: A database that takes longer for the small question does not count as ready.
_PATIENCE_SECONDS = 2.0


class _Check:
    """One look at the index; others who ask meanwhile share it.

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
        self._check: _Check | None = None

    def __call__(
        self, _environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        check = self._look()
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

    def _look(self) -> _Check:
        """Return a look that began now, or is going on."""
        with self._lock:
            if self._check is not None and not self._check.done.is_set():
                return self._check
            check = self._check = _Check()
        if self._services.database.availability.away:
            check.done.set()
        else:
            # Not in this thread, which must not wait for longer than it is patient.
            threading.Thread(
                target=self._ask, args=(check,), name="readiness", daemon=True).start()
        return check

    def _ask(self, check: _Check) -> None:
        try:
            self._services.index.world(self._services.context())
            check.ready = True
        except Exception as error:
            known = isinstance(failures.translate(error), errors.Unavailable)
            if self._was_ready:
                LOG.warning("not ready: %s", failures.describe_error(error), exc_info=not known)
        finally:
            self._was_ready = check.ready
            check.done.set()
