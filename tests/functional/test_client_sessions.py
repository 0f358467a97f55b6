"""Calls to a server that closes connections which it kept, as servers do with idle ones."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

import fixtures
from keystoneauth1 import exceptions, noauth

from placement_core import client_sessions
from tests import base, server_programs

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok"


class Server(fixtures.Fixture):
    """Answers some requests of each connection; reads one more, and closes the connection.

    :ivar received: the methods of all requests, those without an answer too.
    :ivar connections: how many there were.
    """

    def __init__(self, answers: Callable[[int], int]) -> None:
        """Listen to nobody yet.

        :param answers: is told the number of a connection, from 1 on, and says how many of its
            requests are answered.
        """
        super().__init__()
        self._answers = answers
        self.received: list[str] = []
        self.connections = 0

    def _setUp(self) -> None:
        self._listener = self._connection = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self._listener.close)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        thread = threading.Thread(target=self._serve, daemon=True)
        thread.start()
        self.addCleanup(thread.join, 10)
        self.addCleanup(self._interrupt)

    def _interrupt(self) -> None:
        """Wake the thread, whether it waits for a connection or for a request."""
        for each in (self._listener, self._connection):
            # The client may have closed it.
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
                self._connection = connection
            except OSError:
                return
            self.connections += 1
            with connection, connection.makefile("rwb") as stream:
                for number in range(self._answers(self.connections) + 1):
                    head = self._read_head(stream)
                    if head is None:
                        break
                    self.received.append(head.split()[0].decode())
                    if number < self._answers(self.connections):
                        stream.write(_ANSWER)
                        stream.flush()

    @staticmethod
    def _read_head(stream: socket.SocketIO) -> bytes | None:
        """Return the first line of a request without a body; None: the client hung up."""
        first = line = stream.readline()
        while line.strip():
            line = stream.readline()
        return first or None


class TestBrokenConnections(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.session = client_sessions.load_from_options(timeout=10)
        self.session.auth = noauth.NoAuth()

    def serve(self, answers: Callable[[int], int]) -> Server:
        return self.useFixture(Server(answers))

    def ask(self, server: Server, method: str = "GET") -> int:
        return self.session.request(f"{server.url}/", method).status_code

    def test_a_read_is_repeated(self) -> None:
        for method in ("GET", "HEAD"):
            server = self.serve(lambda connection: 1)
            self.assertEqual(200, self.ask(server))
            # It comes on the connection that was kept, and finds it closed.
            self.assertEqual(200, self.ask(server, method))
            self.assertEqual((["GET", method, method], 2), (server.received, server.connections))

    def test_a_write_is_not(self) -> None:
        server = self.serve(lambda connection: 1)
        self.assertEqual(200, self.ask(server))
        self.assertRaises(exceptions.ConnectFailure, self.ask, server, "POST")
        self.assertEqual(["GET", "POST"], server.received)

    def test_it_is_repeated_once(self) -> None:
        server = self.serve(lambda connection: 0)
        self.assertRaises(exceptions.ConnectFailure, self.ask, server)
        self.assertEqual(["GET", "GET"], server.received)

    def test_one_that_is_refused_is_not_repeated(self) -> None:
        url = f"http://127.0.0.1:{server_programs.find_free_port()}/"
        attempts: list[str] = []
        send = self.session.session.request
        self.useFixture(fixtures.MonkeyPatch(
            "requests.Session.request", lambda _, method, *args, **keywords: (
                attempts.append(method), send(method, *args, **keywords))[1]))
        self.assertRaises(
            exceptions.ConnectFailure, self.session.request, url, "GET")
        self.assertEqual(["GET"], attempts)

    def test_an_answer_that_is_late_is_not_waited_for_again(self) -> None:
        released = threading.Event()
        self.addCleanup(released.set)

        def wait(_connection: int) -> int:
            released.wait(10)
            return 1

        server = self.serve(wait)
        self.session = client_sessions.load_from_options(timeout=0.2)
        self.assertRaises(exceptions.ConnectTimeout, self.ask, server)
        released.set()
        self.assertLessEqual(server.connections, 1)
