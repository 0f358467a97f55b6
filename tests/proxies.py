"""A proxy that stands before a server, counts what passes, and fails on demand."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import http.client
import http.server
import threading
import urllib.parse
from collections.abc import Callable, Mapping

import fixtures


@dataclasses.dataclass(frozen=True)
class Request:
    """A request as it came."""

    method: str
    #: With the query.
    path: str
    headers: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Answer:
    """What the proxy answers itself."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


#: Answers to logins: Keystone takes its time over passwords.
_logins: dict[tuple[str, bytes | None], Answer] = {}


class Proxy(fixtures.Fixture):
    """Forwards requests to a server; logins that were seen before are answered here.

    :param upstream: the server's URL.
    :ivar url: the same, through the proxy.
    :ivar requests: what came, in order.
    :ivar instead: may answer a request before it is forwarded; None: it does not.
    :ivar tags: the proxy gives answers to GET an ETag of their content and answers 304
        to who has it.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__()
        self._upstream = urllib.parse.urlsplit(upstream)
        self.requests: list[Request] = []
        self.instead: Callable[[Request], Answer | None] = lambda request: None
        self.tags = False
        self._released = threading.Event()

    def _setUp(self) -> None:
        self._listen(0)
        self.url = f"http://127.0.0.1:{self._port}{self._upstream.path}"
        self.addCleanup(self._released.set)
        self.addCleanup(self.close)

    def _listen(self, port: int) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self._port = self._server.server_port
        threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Refuse connections."""
        self._server.shutdown()
        self._server.server_close()

    def open(self) -> None:
        """Accept connections again, at the same port."""
        self._listen(self._port)

    def hang(self, request: Request) -> None:
        """Hold a request until ``let_go``; for ``instead``."""
        self._released.wait(60)

    def let_go(self) -> None:
        """Let the requests go on that hang, and do not hold any more."""
        self._released.set()

    def asked(self) -> list[str]:
        """Return the paths that were asked for since the last time; no logins."""
        paths = [request.path.removeprefix(self._upstream.path) for request in self.requests
                 if request.method == "GET"]
        self.requests.clear()
        return [path for path in paths if path.strip("/")]

    def _forward(self, request: Request, body: bytes | None) -> Answer:
        if not request.path.endswith("/auth/tokens"):
            return self._sent(request, body)
        login = (self._upstream.netloc, body)
        if login not in _logins:
            _logins[login] = self._sent(request, body)
        return _logins[login]

    def _sent(self, request: Request, body: bytes | None) -> Answer:
        host = self._upstream.netloc
        connection = http.client.HTTPConnection(host, timeout=60)
        try:
            connection.request(request.method, request.path, body, dict(request.headers))
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        headers = [(name, value) for name, value in response.getheaders()
                   if name.lower() not in ("content-length", "connection", "transfer-encoding")]
        if self.tags and request.method == "GET" and response.status == 200:
            tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            headers.append(("ETag", tag))
            if request.headers.get("If-None-Match") == tag:
                return Answer(304, b"", tuple(headers))
        return Answer(response.status, content, tuple(headers))

    def _handler(proxy) -> type[http.server.BaseHTTPRequestHandler]:  # noqa: N805

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length) if length else None
                request = Request(self.command, self.path, dict(self.headers.items()))
                proxy.requests.append(request)
                answer = proxy.instead(request) or proxy._forward(request, body)
                self.send_response(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                if answer.status != 304:
                    self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                if self.command != "HEAD":
                    # Who hung up does not want it any more.
                    with contextlib.suppress(ConnectionError):
                        self.wfile.write(answer.body)

            def log_message(self, *args: object) -> None:
                pass

        for method in ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.answer)
        return Handler
