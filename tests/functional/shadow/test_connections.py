"""A server that closes connections at the worst moments: each write reaches it once.

Reads share connections, so they may reach it twice, and are answered all the same.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import http.server
import json
import os
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import fixtures
import testtools
import uvloop

from placement_core.shadow import connections, messages
from tests import shadows

_VERSIONS = json.dumps({"versions": [
    {"id": "v1.0", "max_version": "1.39", "min_version": "1.0"}]}).encode()
_NO_CONTENT = b"HTTP/1.1 204 No Content\r\nX-Marked: yes\r\n\r\n"
_EMPTY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
#: What some servers say before they close a connection that was idle for too long.
_GIVEN_UP = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"
_SECONDS = 30

#: What a server does with a request that came whole; returns whether it goes on with the
#: connection.
Handle = Callable[[socket.socket], bool]


def answer_and_go_on(connection: socket.socket) -> bool:
    """Do what a well-behaved server does."""
    connection.sendall(_NO_CONTENT)
    return True


def answer_and_close(connection: socket.socket) -> bool:
    """Close without having said so."""
    connection.sendall(_NO_CONTENT)
    return False


def say_close(connection: socket.socket) -> bool:
    """Say that the connection ends, and end it."""
    connection.sendall(_NO_CONTENT.replace(b"X-Marked", b"Connection: close\r\nX-Marked"))
    return False


def close_later(connection: socket.socket) -> bool:
    """Close a moment after the answer: the next request may be on its way."""
    connection.sendall(_NO_CONTENT)
    time.sleep(0.003)
    return False


def close(_connection: socket.socket) -> bool:
    """Answer nothing."""
    return False


def reset(connection: socket.socket) -> bool:
    """Answer nothing, as a process that is killed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def send_half(connection: socket.socket) -> bool:
    """Close in the middle of an answer."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345")
    return False


def reset_in_head(connection: socket.socket) -> bool:
    """End in the middle of the head of an answer."""
    connection.sendall(_NO_CONTENT[:20])
    return reset(connection)


def answer_read(connection: socket.socket) -> bool:
    """Answer with an empty document."""
    connection.sendall(_EMPTY)
    return True


def answer_first(then: Handle, answer: Handle = answer_read) -> Handle:
    """Return what answers the first request of a connection, and does else with the others."""
    answered: set[socket.socket] = set()

    def handle(connection: socket.socket) -> bool:
        if connection in answered:
            return then(connection)
        answered.add(connection)
        return answer(connection)

    return handle


def read_keepalive(accepted: socket.socket) -> float | None:
    """Return in how many seconds the client's kernel asks whether this side is there.

    None: it does not, or first waits for something else.
    """
    (host, port), (_, own_port) = accepted.getpeername(), accepted.getsockname()
    address = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, _, timer, *_ = line.split()
        kind, _, ticks = timer.partition(":")
        if (local, remote) == (f"{address:08X}:{port:04X}", f"{address:08X}:{own_port:04X}"):
            return int(ticks, 16) / os.sysconf("SC_CLK_TCK") if kind == "02" else None
    return None


class Server(fixtures.Fixture):
    """A server that takes every write.

    :ivar url: where it is.
    :ivar arrived: how often each write came, by its path; also in part.
    :ivar reads: how often each read came, by its path.
    :ivar received: the last write that came whole: its head and its body.
    :ivar connections: how many there were.
    :ivar open_connections: those that are.
    :ivar handle: what it does with a write that came whole.
    :ivar handle_read: what it does with a read.
    :ivar refuse: what it does instead once it has the head.
    :ivar is_cut: whether it closes after the first byte of a write.
    :ivar idle_seconds: after how long it closes an idle connection.
    """

    def __init__(self) -> None:
        super().__init__()
        self.arrived: Counter[str] = Counter()
        self.reads: Counter[str] = Counter()
        self.received = (b"", b"")
        self.connections = 0
        self.handle: Handle = answer_and_go_on
        self.handle_read: Handle = answer_read
        self.is_cut = False
        self.idle_seconds = float(_SECONDS)
        self.refuse: Handle | None = None

    def _setUp(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.open_connections: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        self.addCleanup(self._stop)

    def _stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for connection in list(self.open_connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections += 1
                self.open_connections.add(connection)
                thread = threading.Thread(target=self._serve, args=(connection,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(self.idle_seconds)
        with connection, contextlib.suppress(OSError):
            while self._serve_one(connection):
                pass
        self.open_connections.discard(connection)

    def _serve_one(self, connection: socket.socket) -> bool:
        head = b""
        while b"\r\n\r\n" not in head:
            part = connection.recv(1 if self.is_cut else 65536)
            if not part:
                return False
            if self.is_cut and part != b"G":
                self.arrived["cut"] += 1
                return reset(connection)
            head += part
        head, _, body = head.partition(b"\r\n\r\n")
        method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
        lengths = [int(line.partition(b":")[2]) for line in head.split(b"\r\n")
                   if line.lower().startswith(b"content-length:")]
        if self.refuse is not None:
            return self.refuse(connection)
        while lengths and len(body) < lengths[0]:
            body += connection.recv(65536)
        if path == "/":
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(_VERSIONS), _VERSIONS))
            return True
        if method in messages.READS:
            self.reads[path] += 1
            return self.handle_read(connection)
        self.received = head, body
        self.arrived[path] += 1
        return self.handle(connection)


class ConnectionsTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.upstream, self.ours = self.useFixture(Server()), self.useFixture(Server())
        self.proxy = self.useFixture(shadows.ThreadedProxy(
            self.upstream.url, self.ours.url, pathlib.Path(self.useFixture(
                fixtures.TempDir()).path)))

    def write(self, method: str = "PUT", body: object = None) -> tuple[str, int, Any]:
        """Send a write for a new object; return its path, the status, and the document."""
        path = f"/allocations/{uuid.uuid4()}"
        status, document = shadows.ask(self.proxy.url, method, path, body or {
            "allocations": {}, "consumer_generation": None})
        return path, status, document

    def send(
        self, method: str, target: str, body: bytes | Iterable[bytes] | None = None,
        **headers: str,
    ) -> http.client.HTTPResponse:
        """Send a request; return the answer."""
        connection = http.client.HTTPConnection(
            self.proxy.url.removeprefix("http://"), timeout=_SECONDS)
        self.addCleanup(connection.close)
        connection.request(method, target, body, headers)
        return connection.getresponse()


class TestOnce(ConnectionsTestCase):
    def check(self, statuses: set[int], count: int = 30, pause: float = 0.0) -> None:
        """Send writes of all methods; each arrives once."""
        for number in range(count):
            path, status, _ = self.write(("PUT", "POST", "DELETE")[number % 3])
            self.assertIn(status, statuses)
            self.assertEqual(1, self.upstream.arrived[path])
            time.sleep(pause)
        self.assertEqual({1}, set(self.upstream.arrived.values()))

    def test_kept(self) -> None:
        self.check({204})

    def test_closed_after_the_answer(self) -> None:
        self.upstream.handle = answer_and_close
        self.check({204})

    def test_closed_a_moment_later(self) -> None:
        self.upstream.handle = close_later
        for pause in (0, 0.002, 0.003, 0.004):
            self.check({204}, 21, pause)

    def test_closed_as_said(self) -> None:
        self.upstream.handle = say_close
        self.check({204})

    def test_closed_when_idle(self) -> None:
        self.upstream.idle_seconds = 0.1
        for pause in (0.09, 0.099, 0.1, 0.101, 0.11):
            self.check({204}, 6, pause)

    def test_reset_after_the_answer(self) -> None:
        self.upstream.handle = lambda connection: answer_and_go_on(connection) and reset(
            connection)
        self.check({204})

    def test_no_answer(self) -> None:
        for handle in (close, reset, send_half, reset_in_head):
            self.upstream.handle = handle
            self.check({502}, 6)

    def test_side_by_side(self) -> None:
        """Many at a time, before a server that closes as it likes."""
        turns = iter([answer_and_go_on, answer_and_close, say_close, close_later] * 50)
        lock = threading.Lock()

        def take_turns(connection: socket.socket) -> bool:
            with lock:
                handle = next(turns)
            return handle(connection)

        self.upstream.handle = take_turns
        statuses: list[int] = []
        threads = [threading.Thread(target=lambda: statuses.extend(
            self.write()[1] for _ in range(20))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([204] * 160, statuses)
        self.assertEqual((160, {1}), (
            len(self.upstream.arrived), set(self.upstream.arrived.values())))

    def test_a_host_that_says_nothing(self) -> None:
        """Before half a minute is over, it is asked whether it is still there."""
        seconds: list[float | None] = []

        def wait(connection: socket.socket) -> bool:
            deadline = time.monotonic() + _SECONDS
            while (left := read_keepalive(connection)) is None and time.monotonic() < deadline:
                time.sleep(0.01)
            seconds.append(left)
            return answer_and_go_on(connection)

        self.upstream.handle = wait
        self.assertEqual(204, self.write()[1])
        [left] = seconds
        assert left is not None
        self.assertTrue(0 < left <= 30, left)

    def test_cut_off_after_the_first_byte(self) -> None:
        self.upstream.is_cut = True
        for _ in range(5):
            self.assertEqual(502, self.write()[1])
        self.assertEqual({"cut": 5}, self.upstream.arrived)


class TestReads(ConnectionsTestCase):
    def read(self, method: str = "GET") -> tuple[str, int]:
        """Send a read of an object; return its path and the status."""
        path = f"/resource_providers/{uuid.uuid4()}"
        return path, shadows.ask(self.proxy.url, method, path)[0]

    def check(self, statuses: set[int], arrived: set[int], count: int = 30) -> None:
        """Send reads; each is answered, and arrives so often."""
        for _ in range(count):
            path, status = self.read()
            self.assertIn(status, statuses)
            self.assertIn(self.upstream.reads[path], arrived)

    def test_kept(self) -> None:
        self.check({200}, {1})
        self.assertLess(self.upstream.connections, 15)

    def test_closed_after_the_answer(self) -> None:
        self.upstream.handle_read = lambda connection: answer_read(connection) and False
        self.check({200}, {1})

    def test_closed_a_moment_later(self) -> None:
        """At that moment the next one may be on its way."""
        def close_later(connection: socket.socket) -> bool:
            connection.sendall(_EMPTY)
            time.sleep(0.003)
            return False

        self.upstream.handle_read = close_later
        self.check({200}, {1, 2}, 60)

    def test_closed_instead_of_an_answer(self) -> None:
        """It is sent a second time if the connection was used before."""
        for then in (close, reset):
            self.upstream.handle_read = answer_first(then)
            self.check({200}, {1, 2})
        self.assertIn(2, self.upstream.reads.values())

    def test_no_answer(self) -> None:
        """Of a connection of its own nobody closed anything before: it is not sent again."""
        for handle in (close, reset):
            self.upstream.handle_read = handle
            self.check({502}, {1, 2}, 1)
            self.check({502}, {1}, 6)

    def test_cut_off_in_the_answer(self) -> None:
        """What began to answer is not asked again, and what it said is not passed on."""
        for then in (send_half, reset_in_head):
            self.upstream.handle_read = answer_first(then)
            self.check({200, 502}, {1})

    def test_given_up_while_the_next_is_on_its_way(self) -> None:
        """What the server says then is no answer to it, and it is sent a second time."""
        def give_up(connection: socket.socket) -> bool:
            connection.sendall(_GIVEN_UP)
            return False

        self.upstream.handle_read = answer_first(give_up)
        self.check({200}, {1, 2})
        self.assertIn(2, self.upstream.reads.values())

    def test_waited_for_too_long(self) -> None:
        """A read that nothing was sent before has this answer."""
        def give_up(connection: socket.socket) -> bool:
            connection.sendall(_GIVEN_UP)
            return True

        self.upstream.handle_read = give_up
        self.check({408}, {1, 2}, 1)

    def test_what_nobody_asked_for(self) -> None:
        """It does not become the answer to what is asked next, however late it comes."""
        for seconds in (0.0, 0.005, 0.02):
            def say_more(connection: socket.socket, seconds: float = seconds) -> bool:
                connection.sendall(_EMPTY)
                time.sleep(seconds)
                connection.sendall(_GIVEN_UP)
                return True

            self.upstream.handle_read = say_more
            for _ in range(20):
                self.assertEqual(200, self.read()[1])
                time.sleep(0.01)

    def test_after_one_without_a_body(self) -> None:
        for _ in range(5):
            self.assertEqual([200, 200], [self.read(method)[1] for method in ("HEAD", "GET")])

    def test_idle(self) -> None:
        """What is kept is closed here, soon."""
        self.read()
        shadows.wait_until(lambda: not self.upstream.open_connections)

    def test_writes_between(self) -> None:
        """They are sent over none that was used before."""
        self.upstream.handle_read = answer_first(close)
        self.upstream.handle = answer_first(close, answer_and_go_on)
        for _ in range(20):
            self.assertEqual(200, self.read()[1])
            path, status, _ = self.write()
            self.assertEqual((204, 1), (status, self.upstream.arrived[path]))


class TestRequests(ConnectionsTestCase):
    def test_a_compressed_body(self) -> None:
        """It passes as it is."""
        body = gzip.compress(b"{}")
        self.send("PUT", "/traits/CUSTOM_A", body, **{"Content-Encoding": "gzip"})
        self.assertEqual(body, self.upstream.received[1])

    def test_in_chunks(self) -> None:
        self.send("PUT", "/traits/CUSTOM_A", iter([b"{", b"}"]))
        self.assertEqual(b"{}", self.upstream.received[1])

    def test_a_client_that_waits_to_be_told(self) -> None:
        address = self.proxy.url.removeprefix("http://").split(":")
        with socket.create_connection((address[0], int(address[1])), _SECONDS) as client:
            client.sendall(b"PUT /traits/CUSTOM_A HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
                           b"Expect: 100-continue\r\n\r\n")
            self.assertEqual(b"HTTP/1.1 100 Continue\r\n\r\n", client.recv(25))
            client.sendall(b"{}")
            self.assertEqual(_NO_CONTENT, client.recv(1000))
        self.assertEqual(b"{}", self.upstream.received[1])
        self.assertNotIn(b"expect", self.upstream.received[0].lower())

    def test_one_after_the_other_without_waiting(self) -> None:
        address = self.proxy.url.removeprefix("http://").split(":")
        requests = [b"PUT /traits/CUSTOM_%d HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
                    % number for number in range(3)]
        with socket.create_connection((address[0], int(address[1])), _SECONDS) as client:
            client.sendall(b"".join(requests))
            answers = b""
            while len(answers) < 3 * len(_NO_CONTENT) and (part := client.recv(1000)):
                answers += part
        self.assertEqual(_NO_CONTENT * 3, answers)


class TestAnswers(ConnectionsTestCase):
    def answer(self, *parts: bytes, goes_on: bool = False) -> None:
        """Let upstream answer so."""
        def handle(connection: socket.socket) -> bool:
            for part in parts:
                connection.sendall(part)
                time.sleep(0.01)
            return goes_on

        self.upstream.handle = handle

    def test_up_to_the_end_of_the_connection(self) -> None:
        self.answer(b"HTTP/1.1 409 Conflict\r\n\r\n", b'{"a":', b" 1}")
        self.assertEqual((409, {"a": 1}), self.write()[1:])

    def test_in_chunks(self) -> None:
        self.answer(b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n",
                    b"3\r\n 2]\r\n0\r\n\r\n", goes_on=True)
        self.assertEqual((400, [1, 2]), self.write()[1:])

    def test_after_another_one(self) -> None:
        self.answer(b"HTTP/1.1 100 Continue\r\n\r\n", _NO_CONTENT, goes_on=True)
        self.assertEqual((204, None), self.write()[1:])

    def test_headers(self) -> None:
        """Also statuses that no standard has, and names that come twice."""
        self.answer(b"HTTP/1.1 299 So it is\r\nX-A: 1\r\nx-a:  2 \r\nContent-Length: 0\r\n\r\n",
                    goes_on=True)
        answer = self.send("PUT", "/traits/CUSTOM_A", **{"X-Auth-Token": "t"})
        self.assertEqual((299, "So it is", ["1", "2"]), (
            answer.status, answer.reason, answer.headers.get_all("x-a")))
        self.assertEqual("1", dict(answer.getheaders())["X-A"])

    def test_no_http(self) -> None:
        self.answer(b"SSH-2.0-OpenSSH\r\n\r\n")
        self.assertEqual(502, self.write()[1])

    def test_refused_before_the_body_is_sent(self) -> None:
        """The refusal arrives, whether the server goes on to read or not."""
        refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"
        for seconds in (0.0, 1.0):
            def refuse(connection: socket.socket, seconds: float = seconds) -> bool:
                connection.sendall(refusal)
                connection.shutdown(socket.SHUT_WR)
                time.sleep(seconds)
                return False

            self.upstream.refuse = refuse
            status = self.write(body={"padding": "x" * 30_000_000})[1]
            self.assertEqual(413, status)

    def test_a_large_body(self) -> None:
        path, status, _ = self.write(body={"allocations": {}, "padding": "x" * 5_000_000})
        self.assertEqual((204, 1), (status, self.upstream.arrived[path]))


@testtools.skipUnless(shutil.which("openssl"), "openssl is not installed")
class TestTLS(testtools.TestCase):
    """An upstream whose certificate only this test trusts."""

    def setUp(self) -> None:
        super().setUp()
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        key, certificate = folder / "key", folder / "certificate"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
             "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
        self.useFixture(fixtures.EnvironmentVariable("SSL_CERT_FILE", str(certificate)))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.bodies: list[bytes] = []
        self.clients: list[object] = []
        self.port = self.serve(context)

    def serve(self, context: ssl.SSLContext) -> int:
        """Take requests until the test ends; return the port."""
        bodies, clients = self.bodies, self.clients

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                """Note who connects."""
                super().setup()
                clients.append(self.client_address)

            def do_GET(self) -> None:
                """Answer a read."""
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def do_PUT(self) -> None:
                """Take a write."""
                bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                """Print nothing."""

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server.server_port

    def send(self, host: str, body: bytes) -> int:
        """Send a write; return the status."""
        async def ask() -> int:
            origin = connections.Origin(f"https://{host}:{self.port}")
            request = messages.Request("PUT", "/traits/CUSTOM_A", (), body)
            return (await connections.Connection(origin).ask(request)).status

        return uvloop.run(ask())

    def test_writes(self) -> None:
        bodies = [b"a", b"b" * 5_000_000]
        self.assertEqual([204, 204], [self.send("localhost", body) for body in bodies])
        self.assertEqual(bodies, self.bodies)

    def test_reads(self) -> None:
        """They share a connection."""
        async def ask() -> list[bytes]:
            server = connections.Connections(
                connections.Origin(f"https://localhost:{self.port}"))
            with contextlib.closing(server):
                return [(await server.ask(messages.Request("GET", "/traits", ()))).body
                        for _ in range(3)]

        self.assertEqual(([b"{}"] * 3, 1), (uvloop.run(ask()), len(self.clients)))

    def test_another_name(self) -> None:
        """Nothing is sent to a server that is somebody else."""
        self.assertRaises(messages.NoAnswer, self.send, "127.0.0.1", b"a")
        self.assertEqual([], self.bodies)


class TestNobody(testtools.TestCase):
    def test_upstream_ends(self) -> None:
        """Writes are refused, also when connecting begins before they are noted."""
        upstream, ours = Server(), self.useFixture(Server())
        upstream.setUp()
        proxy = self.useFixture(shadows.ThreadedProxy(
            upstream.url, ours.url, pathlib.Path(self.useFixture(fixtures.TempDir()).path)))
        path = "/traits/CUSTOM_A"
        self.assertEqual(204, shadows.ask(proxy.url, "PUT", path)[0])
        upstream.cleanUp()
        for _ in range(2):
            status, document = shadows.ask(proxy.url, "PUT", path)
            self.assertEqual(502, status)
            self.assertIn(upstream.url, document["errors"][0]["detail"])
        self.assertEqual(1, upstream.arrived[path])

    def test_a_name_with_several_addresses(self) -> None:
        """The one that answers is found."""
        upstream = self.useFixture(Server())
        addresses = [
            (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", port))
            for port in (shadows.find_port(), int(upstream.url.rpartition(":")[2]))]
        origin = connections.Origin("http://upstream.example")

        async def find_addresses() -> list[Any]:
            return addresses

        async def ask() -> list[int]:
            request = messages.Request("PUT", "/traits/CUSTOM_A", (), b"")
            return [(await connections.Connection(origin).ask(request)).status for _ in range(3)]

        self.patch(origin, "find_addresses", find_addresses)
        self.assertEqual([204] * 3, uvloop.run(ask()))
        self.assertEqual(3, upstream.arrived["/traits/CUSTOM_A"])
