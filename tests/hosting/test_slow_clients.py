"""Clients that are slow, or never finish: what ``serve`` ends, and what the proxy holds back."""

from __future__ import annotations

import contextlib
import http.client
import pathlib
import resource
import shutil
import socket
import subprocess
import time
import unittest
import uuid
from collections.abc import Iterator

import fixtures

from tests import base, serving
from tests.functional.migrations import bare

_SAMPLE = pathlib.Path(__file__).parents[2] / "etc" / "placement" / "nginx.conf.sample"
_HEAD = (b"POST /resource_providers HTTP/1.1\r\nHost: placement\r\nX-Auth-Token: admin\r\n"
         b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n")


@contextlib.contextmanager
def _many_files() -> Iterator[None]:
    """Let this process open as many connections as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class SlowClientsTestCase(base.TestCase):
    arguments: tuple[str, ...] = ()

    def setUp(self) -> None:
        super().setUp()
        self.service = self.useFixture(serving.Service(
            bare.database("sqlite", self.addCleanup),
            # The proxy says for whom it asks, and noauth2 believes nobody from elsewhere.
            options={"OS_API__ALLOW_REMOTE_NOAUTH2": "true"}, arguments=self.arguments))
        self.address = self.service.address
        stack = self.useFixture(_Stack())
        stack.enter(_many_files())

    def connect(self, sent: bytes = b"") -> socket.socket:
        """Open a connection that sends this, and then nothing."""
        host, _, port = self.address.partition(":")
        connection = socket.create_connection((host, int(port)), timeout=30)
        self.addCleanup(connection.close)
        connection.sendall(sent)
        return connection

    def status(self, path: str, timeout: float) -> int | None:
        """Return the status of an answer; None if there is none in time."""
        client = http.client.HTTPConnection(self.address, timeout=timeout)
        try:
            client.request("GET", path, headers={"X-Auth-Token": "admin"})
            return client.getresponse().status
        except TimeoutError:
            return None
        finally:
            client.close()

    def assert_closed(self, connections: list[socket.socket], seconds: float) -> None:
        """Expect the other side to end them (with an error document, or without)."""
        deadline = time.monotonic() + seconds
        for connection in connections:
            connection.settimeout(max(deadline - time.monotonic(), 0.01))
            with contextlib.suppress(ConnectionError):
                while connection.recv(4096):
                    pass


class TestServe(SlowClientsTestCase):
    """Alone, as it may be on a loopback address."""

    connections, head_seconds = 64, 4
    arguments = ("--connections", str(connections), "--head-timeout", str(head_seconds))

    def test_heads_have_a_deadline(self) -> None:
        """More connections than a worker has are idle, or never finish a head."""
        started = time.monotonic()
        unfinished = [self.connect(b"GET / HTTP/1.1\r\nHost: ") for _ in range(50)]
        idle = [self.connect() for _ in range(self.connections)]
        kept = 60
        self.assertEqual(200, self.status("/healthcheck", kept))
        self.assertEqual(200, self.status("/resource_providers", 30))
        self.assertGreater(time.monotonic() - started, self.head_seconds / 2)
        self.assert_closed(unfinished + idle, kept)

    def test_bodies_have_none(self) -> None:
        """This is why it does not meet the public alone."""
        bodies = [self.connect(_HEAD) for _ in range(16)]
        time.sleep(1)
        self.assertIsNone(self.status("/resource_providers", 2))
        for connection in bodies:
            connection.close()
        self.assertEqual(200, self.status("/resource_providers", 30))

    def test_unread_bodies_are_not_drained(self) -> None:
        connection = self.connect(
            _HEAD.replace(b"X-Auth-Token: admin\r\n", b"").replace(b"1000", b"10000000000"))
        self.assertIn(b" 401 ", connection.recv(4096))
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 64 * 1024**2:
                sent += connection.send(b" " * 65536)
        self.assertLess(sent, 64 * 1024**2)


@unittest.skipUnless(
    shutil.which("nginx"), "NGINX IS NOT INSTALLED: nobody tried etc/placement/nginx.conf.sample")
class TestBehindProxy(SlowClientsTestCase):
    """With etc/placement/nginx.conf.sample before it."""

    def setUp(self) -> None:
        super().setUp()
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        folder.chmod(0o755)  # for the user that nginx's workers run as
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        text = _SAMPLE.read_text()
        for sample, here in (
            ("listen 8778", f"listen 127.0.0.1:{port}"),
            ("server 127.0.0.1:8779", f"server {self.service.address}"),
            ("/run/", f"{folder}/"), ("/var/log/nginx/", f"{folder}/"),
            ("/var/lib/nginx/", f"{folder}/"),
            ("client_header_timeout 10s", "client_header_timeout 3s"),
            ("client_body_timeout 10s", "client_body_timeout 3s"),
        ):
            self.assertIn(sample, text)
            text = text.replace(sample, here)
        path = folder / "nginx.conf"
        path.write_text(text)
        command = ["nginx", "-c", str(path), "-e", str(folder / "start.log")]
        checked = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
        self.assertEqual(0, checked.returncode, checked.stderr)
        self.assertNotIn("[warn]", checked.stderr)
        process = subprocess.Popen([*command, "-g", "daemon off;"])
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.terminate)
        self.address = f"127.0.0.1:{port}"
        deadline = time.monotonic() + 30
        while True:
            try:
                self.connect()
                return
            except ConnectionError:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.1)

    def assert_answers(self) -> None:
        for path in ("/healthcheck", "/readiness", "/resource_providers"):
            self.assertEqual(200, self.status(path, 10), path)

    def test_bodies_that_never_come(self) -> None:
        bodies = [self.connect(_HEAD + content) for content in (b"", b"{", b" " * 999)
                  for _ in range(60)]
        for _ in range(3):
            self.assert_answers()
        self.assert_closed(bodies, 30)

    def test_idle_connections(self) -> None:
        idle = [self.connect(sent) for sent in (b"", b"GET / HTTP/1.1\r\nHost: ")
                for _ in range(1000)]
        for _ in range(3):
            self.assert_answers()
        self.assert_closed(idle, 30)

    def test_large_bodies(self) -> None:
        client = http.client.HTTPConnection(self.address, timeout=60)
        self.addCleanup(client.close)
        status, provider = self.service.request(
            "POST", "/resource_providers", {"name": "host"}, connection=client)
        self.assertEqual(200, status)
        aggregates = [str(uuid.uuid4()) for _ in range(8000)]
        status, _ = self.service.request(
            "PUT", f"/resource_providers/{provider['uuid']}/aggregates",
            {"aggregates": aggregates, "resource_provider_generation": 0}, connection=client)
        self.assertEqual(200, status)
        candidates = "/allocation_candidates?resources=VCPU:1&member_of=in:" + ",".join(
            aggregates[:1000])
        self.assertEqual(200, self.service.request("GET", candidates, connection=client)[0])
        refused = self.connect(_HEAD.replace(b"1000", str(17 * 1024**2).encode()))
        self.assertIn(b" 413 ", refused.recv(4096))

    def test_metrics_are_not_for_everybody(self) -> None:
        self.assertEqual(404, self.status("/metrics", 10))  # switched off; 403 from elsewhere


class _Stack(fixtures.Fixture):
    """Leaves contexts when the test ends."""

    def enter(self, context: contextlib.AbstractContextManager[None]) -> None:
        """Enter a context."""
        context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
