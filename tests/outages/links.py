"""A network link to a database server that can be cut and can fall silent."""

from __future__ import annotations

import contextlib
import socket
import threading

import fixtures


class Link(fixtures.Fixture):
    """Forwards TCP connections to a server.

    :ivar address: (host, port) to connect to.
    """

    def __init__(self, server: tuple[str, int]) -> None:
        super().__init__()
        self._server = server

    def _setUp(self) -> None:
        self._flowing = threading.Event()
        self._flowing.set()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self._listen()
        self.addCleanup(self.cut)
        self.addCleanup(self._flowing.set)

    def cut(self) -> None:
        """Reset every connection and refuse new ones, as a stopped server does."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.reset()

    def reset(self) -> None:
        """Reset every connection; new ones are accepted."""
        for each in list(self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def hang(self) -> None:
        """Hold what is sent, as a stopped process or a network that drops packets does.

        New connections are accepted, by the operating system so to speak, and get no word.
        """
        self._flowing.clear()

    def restore(self) -> None:
        """Forward again, at the same address."""
        self._flowing.set()
        if self._listener.fileno() < 0:
            self._listener = socket.create_server(self.address)
            self._listen()

    def _listen(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self._sockets.add(client)
        self._flowing.wait()
        try:
            server = socket.create_connection(self._server)
        except OSError:
            client.close()
            return
        self._sockets.add(server)
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                target.sendall(data)
        # Its end is said to the other side, and in the end both are closed.
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        source.close()
        self._sockets.discard(source)
