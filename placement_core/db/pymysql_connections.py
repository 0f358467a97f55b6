"""PyMySQL's connections, as we make them. Imported where they are used: PyMySQL is optional."""

from __future__ import annotations

import os
import ssl
import threading
from typing import Any

import pymysql.connections

_contexts: dict[tuple[tuple[str, str], ...], ssl.SSLContext] = {}
_contexts_lock = threading.Lock()


def _renew_lock() -> None:
    global _contexts_lock
    _contexts_lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class SharedContextConnection(pymysql.connections.Connection):  # type: ignore[misc]  # it has no types
    """PyMySQL's connection, with one TLS context for all that want the same.

    PyMySQL makes one for each connection, and reads the system's certificates for it,
    which takes more processor time than all the rest of connecting.
    """

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
        if not isinstance(sslp, dict):
            context: ssl.SSLContext = super()._create_ssl_ctx(sslp)
            return context
        options = tuple(sorted((name, str(value)) for name, value in sslp.items()))
        with _contexts_lock:
            if options not in _contexts:
                _contexts[options] = super()._create_ssl_ctx(sslp)
            return _contexts[options]

    def wait_for_answers(self, seconds: float) -> None:
        """Bound the wait for an answer; 0 is no bound."""
        # It reads the attribute each time; there is no other way to change it.
        self._read_timeout = seconds or None
