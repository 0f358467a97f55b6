"""A TCP proxy between us and a database server that loses things on purpose."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time


class Proxy:
    """Forwards bytes both ways, until it sees what it was told to lose.

    Arm it with one of ``cut_answer`` (the server gets the COMMIT, its answer is
    lost), ``cut_request`` (the COMMIT is lost), ``delay`` (the client loses its
    connection, the server gets the COMMIT a while later), ``hold_answer`` and
    ``hold_request`` (the client waits, until it closes its connection; the server learns
    that a while later). Each happens once, to one connection.

    :ivar address: (host, port) to connect to.
    :ivar sent: what clients sent, piece by piece as it came.
    """

    def __init__(self, server: tuple[str, int], commit: bytes) -> None:
        """Listen; ``commit`` is how a COMMIT looks to the server."""
        self._server = server
        self._commit = self._word = commit
        self._action = None
        self._lock = threading.Lock()
        self._closed = False
        self.refusing = False
        self._clients = []
        self.sent: list[bytes] = []
        self.happened = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self.address = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._closed = True
        self._listener.close()

    def arm(self, action: str, *, word: bytes | None = None, seconds: float = 0,
            then_refuse: bool = False) -> None:
        """Do ``action`` when the client next sends ``word`` (a COMMIT)."""
        self.happened.clear()
        self._word, self._seconds = word or self._commit, seconds
        self._then_refuse = then_refuse
        self._action = getattr(self, f"_{action}")

    def disarm(self) -> None:
        """Lose nothing more."""
        self._action = None

    def drop_all(self) -> None:
        """Cut every connection there is."""
        while self._clients:
            with contextlib.suppress(OSError):
                self._reset(self._clients.pop())

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            if self.refusing:
                client.close()
                continue
            self._clients.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.create_connection(self._server)
        # ValueError: ``drop_all`` has closed it.
        with client, server, contextlib.suppress(OSError, ValueError):
            while not self._closed:
                ready, _, _ = select.select([client, server], [], [], 0.2)
                for source in ready:
                    data = source.recv(65536)
                    if not data:
                        return
                    if source is client:
                        self.sent.append(data)
                    action = self._due(data) if source is client else None
                    if action:
                        action(client, server, data)
                        self.happened.set()
                        return
                    (server if source is client else client).sendall(data)

    def _due(self, data: bytes):
        with self._lock:
            if self._action is None or self._word not in data:
                return None
            action, self._action = self._action, None
            self.refusing = self._then_refuse
            return action

    def _cut_answer(self, client, server, data) -> None:
        self._finish(server, data)
        self._reset(client)

    def _cut_request(self, client, server, data) -> None:
        self._reset(client)

    def _delay(self, client, server, data) -> None:
        self._reset(client)
        time.sleep(self._seconds)
        self._finish(server, data)

    def _hold_answer(self, client, server, data) -> None:
        self._finish(server, data)
        self._wait_for_end(client)

    def _hold_request(self, client, server, data) -> None:
        self._wait_for_end(client)
        deadline = time.monotonic() + self._seconds
        while not self._closed and time.monotonic() < deadline:
            time.sleep(0.05)

    def _wait_for_end(self, client) -> None:
        self.happened.set()
        while not self._closed and not select.select([client], [], [], 0.2)[0]:
            pass

    @staticmethod
    def _finish(server, data) -> None:
        """Let the server act on ``data`` (of a pipeline it may want more first)."""
        server.sendall(data)
        server.settimeout(0.3)
        with contextlib.suppress(TimeoutError):
            server.recv(65536)

    @staticmethod
    def _reset(client: socket.socket) -> None:
        client.shutdown(socket.SHUT_RDWR)
        client.close()
