"""A receiver of webhooks: a real HTTP server."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import threading
from typing import Any

import fixtures

SECRET = "a secret of the site"


class Receiver(fixtures.Fixture):
    """Keeps the reports that it took.

    :ivar status: what it answers.
    :ivar events: the reports that it took, in order: (webhook-id, document).
    :ivar refused: how many reports it answered with another status than 204.
    :ivar may_end: until this is set, it sends something all the time, but no whole answer.
    """

    def __init__(self) -> None:
        self.status = 204
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.refused = 0
        self.port = 0
        self.may_end = threading.Event()
        self.may_end.set()

    def _setUp(self) -> None:
        self.start()
        self.addCleanup(self.stop)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=sesame"

    def start(self) -> None:
        """Listen, where it listened before."""
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.take(dict(self.headers), body)
                while not receiver.may_end.wait(0.02):
                    self.send_response_only(100)
                    self.end_headers()
                self.send_response(receiver.status)
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def stop(self) -> None:
        """Die."""
        self.may_end.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, headers: dict[str, str], body: bytes) -> None:
        names = {name.lower(): value for name, value in headers.items()}
        content = f"{names['webhook-id']}.{names['webhook-timestamp']}.".encode() + body
        digest = hmac.new(SECRET.encode(), content, hashlib.sha256).digest()
        assert names["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
        if self.status == 204:
            self.events.append((names["webhook-id"], json.loads(body)))
        else:
            self.refused += 1
