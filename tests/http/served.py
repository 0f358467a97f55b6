"""An application of this process, reached through a port as libraries want it."""

from __future__ import annotations

import socketserver
import threading
import wsgiref.simple_server
from typing import Any

import fixtures


class Served(fixtures.Fixture):
    """Serves a WSGI application from a thread; ``url`` is where."""

    url: str

    def __init__(self, application: Any) -> None:
        self._application = application

    def _setUp(self) -> None:
        server = wsgiref.simple_server.make_server(
            "127.0.0.1", 0, self._application, server_class=_Server, handler_class=_Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_port}"


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


class _Handler(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_args: Any) -> None:
        """Print nothing."""
