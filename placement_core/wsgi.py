"""``placement_core.wsgi:application``, for any WSGI server.

The options come from ``placement.conf`` and the environment (see ``conf``).
Each process builds the service at its first request, so a server may import this
module before it forks. ``application.load()`` builds it at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication

from placement_core import app, conf, errors, forks, logs
from placement_core.conf import settings

LOG = logging.getLogger(__name__)

#: For how long a configuration that is wrong is not tried again, whoever asks. An attempt costs
#: half a second, and some hosts make one for each request.
_REPEAT_SECONDS = 5.0


class Application:
    """The service, built once in each process."""

    def __init__(self) -> None:
        self._forget()
        forks.call_in_child(self, Application._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._app: WSGIApplication | None = None
        self._error_text = ""
        self._failed_at = 0.0

    def load(self) -> WSGIApplication:
        """Return the service of this process; build it if necessary.

        :raises errors.ConfigurationError: one line, which is logged too. It is raised again for
            some seconds, without another attempt.
        """
        with self._lock:
            if self._app is None:
                self._app = self._build_or_repeat()
            return self._app

    def _build_or_repeat(self) -> WSGIApplication:
        if self._error_text and time.monotonic() - self._failed_at < _REPEAT_SECONDS:
            raise errors.ConfigurationError(self._error_text)
        try:
            return _build()
        except errors.ConfigurationError as error:
            # Not the error itself, whose traceback keeps all that was built.
            self._error_text, self._failed_at = str(error), time.monotonic()
            raise

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
