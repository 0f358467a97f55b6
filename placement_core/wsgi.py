"""``placement_core.wsgi:application``, for any WSGI server.

The options come from ``placement.conf`` and the environment (see ``conf``).
Each process builds the service at its first request, so a server may import this
module before it forks. ``application.load()`` builds it at once.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import app, conf, errors, logs
from placement_core.conf import settings

LOG = logging.getLogger(__name__)


class Application:
    """The service, built once in each process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._app: WSGIApplication | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._app = None

    def load(self) -> WSGIApplication:
        """Return the service of this process; build it if necessary.

        :raises errors.ConfigurationError: one line, which is logged too.
        """
        with self._lock:
            if self._app is None:
                self._app = _build()
            return self._app

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request."""
        return (self._app or self.load())(environ, start_response)


def _build() -> WSGIApplication:
    """Build the service; log configuration errors."""
    try:
        options = conf.load()
        logs.set_up(options)
        for line in settings.find_unknown(options):
            LOG.warning("%s", line)
        return app.make_app(options)
    except errors.ConfigurationError as error:
        LOG.critical("%s", error)
        raise


application = Application()
