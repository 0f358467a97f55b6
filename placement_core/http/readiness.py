"""``/readiness``: whether a request would be served now, answered within a bounded time.

The answer has a line for each part: database, index, schema, manager. It is public, so a line says
how the part is, and the log says why. A worker serves without a manager (whose work waits), so
that is told, and makes no worker unready.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol
from wsgiref.types import StartResponse

from placement_core import errors, forks
from placement_core.context import Context
from placement_core.db import failures
from placement_core.reservations.manager import heartbeats
from placement_core.services import Services

LOG = logging.getLogger(__name__)

#: A database that takes longer for one small statement does not count as ready.
_PATIENCE_SECONDS = 2.0


class _Schema(Protocol):
    """How the schema of the database is."""

    @property
    def usable(self) -> bool:
        """Whether the service works with it."""

    @property
    def text(self) -> str:
        """Its revision, and what is wrong with it."""


class _ReadinessCheck:
    """One look at each part, which concurrent requests share.

    :ivar ready: whether requests would be served.
    :ivar parts: {part: how it is}, as far as it is known by now.
    """

    def __init__(self) -> None:
        self.done = threading.Event()
        self.ready = False
        self.parts = {
            "database": "does not answer", "schema": "unknown", "index": "not loaded yet",
            "manager": "unknown"}


class Readiness:
    """A WSGI application: 200 once the index is loaded and the database answers, else 503."""

    def __init__(self, services: Services, read_schema: Callable[[], _Schema]) -> None:
        self._services = services
        self._read_schema = read_schema
        self._was_ready = True
        self._renew()
        forks.call_in_child(self, Readiness._renew)

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
            status, text = "200 OK", "ready"
        else:
            status, text = "503 Service Unavailable", "not ready"
            headers.append(("Retry-After", str(errors.Unavailable.retry_after_seconds)))
        lines = [text, *(f"{part}: {state}" for part, state in check.parts.items()), ""]
        body = "\n".join(lines).encode()
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
            self._start(check)
        return check

    def _start(self, check: _ReadinessCheck) -> None:
        """Run a check in a thread of its own, because a request waits for a bounded time only."""
        try:
            threading.Thread(
                target=self._run, args=(check,), name="readiness", daemon=True).start()
        except RuntimeError as error:
            LOG.warning("not ready: %s", error)
            check.parts["database"] = "unknown"
            # Later requests would join it for ever.
            check.done.set()

    def _run(self, check: _ReadinessCheck) -> None:
        try:
            check.ready = self._look(check.parts)
        except Exception as error:
            is_outage = isinstance(failures.translate(error), errors.Unavailable)
            if is_outage:
                check.parts["database"] = "does not answer"
            if self._was_ready:
                LOG.warning(
                    "not ready: %s", failures.describe_error(error), exc_info=not is_outage)
        finally:
            self._was_ready = check.ready
            check.done.set()

    def _look(self, parts: dict[str, str]) -> bool:
        """Note how each part is; return whether requests would be served."""
        schema = self._read_schema()
        parts |= {"database": "answers", "schema": schema.text}
        if not schema.usable:
            if self._was_ready:
                LOG.warning("not ready: the schema of the database is at revision %s", schema.text)
            return False
        parts["index"] = "cannot be loaded"
        context = self._services.context()
        self._services.index.snapshot(context)
        parts |= {"index": "current", "manager": self._describe_managers(context)}
        return True

    def _describe_managers(self, context: Context) -> str:
        try:
            return f"{heartbeats.count_alive(context) or 'none'} alive"
        except Exception as error:
            # Whatever it is, requests do not need to know.
            LOG.debug("the number of managers: %s", failures.describe_error(error), exc_info=True)
            return "unknown"
