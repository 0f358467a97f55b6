"""SIGTERM cuts no request: new connections are refused, and what was read is answered."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.placement import tables
from placement_core.testing import factories
from tests import base, databases, serving

#: What a busy machine may add to anything.
_SECONDS = 30.0
#: The states of /proc/net/tcp.
_ESTABLISHED, _LISTEN = "01", "0A"


class _Connection(http.client.HTTPConnection):
    """Notes the claims that it has sent, complete."""

    def __init__(self, service: serving.Service, sent: list[str]) -> None:
        super().__init__(service.address, timeout=_SECONDS)
        self._sent = sent

    def request(self, method: str, url: str, *arguments: Any, **options: Any) -> None:
        super().request(method, url, *arguments, **options)
        if method == "PUT":
            self._sent.append(url)


class DrainTestCase(base.DatabaseTestCase):
    """Claims of one resource class of one provider."""

    def setUp(self) -> None:
        super().setUp()
        self.provider = factories.provider(self.ctx, inventory={"VCPU": 100_000}).uuid
        self.sent: list[str] = []

    def serve(self, by: str = "serve", workers: int = 1, *arguments: str) -> serving.Service:
        return self.useFixture(serving.Service(
            self.database.url.render_as_string(hide_password=False), by=by, workers=workers,
            arguments=arguments))

    def claim(
        self, service: serving.Service, consumer: str,
        connection: http.client.HTTPConnection | None = None,
    ) -> int:
        with contextlib.closing(_Connection(service, self.sent)) as own:
            return service.request(
                "PUT", f"/allocations/{consumer}", self.body(), connection=connection or own)[0]

    def until_read(self, service: serving.Service, claims: int, others: int = 0) -> None:
        """Wait until a service has read so many claims, beside its other connections."""
        # One that has connected and sent nothing yet has nothing that could be read.
        self.until(
            lambda: len(self.sent) == claims and count_unread(service) == (0, claims + others),
            "the requests were never read")

    def body(self) -> dict[str, object]:
        return {
            "allocations": {self.provider: {"resources": {"VCPU": 1}}}, "project_id": "project",
            "user_id": "user", "consumer_type": "INSTANCE", "consumer_generation": None}

    @contextlib.contextmanager
    def claims_wait(self) -> Iterator[None]:
        """Let claims wait for the database."""
        with db.write(self.ctx) as session:
            session.execute(sa.select(tables.inventories).with_for_update())
            yield

    def stored(self) -> set[str]:
        with self.database.autocommit.connect() as connection:
            return set(connection.scalars(sa.select(tables.consumers.c.uuid)))

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)


@databases.on_each_database
class TestServe(DrainTestCase):
    """Claims that wait for the database when SIGTERM comes."""

    CLAIMS = 12

    def test_what_was_read_is_answered(self) -> None:
        self.check(self.serve("serve", 2))

    def check(self, service: serving.Service) -> None:
        idle = [http.client.HTTPConnection(service.address, timeout=_SECONDS) for _ in range(6)]
        for connection in idle:
            service.request("GET", "/", connection=connection)
        consumers = [str(uuid.uuid4()) for _ in range(self.CLAIMS)]
        sent_half = str(uuid.uuid4())
        with concurrent.futures.ThreadPoolExecutor(self.CLAIMS) as pool:
            with self.claims_wait():
                answers = [pool.submit(self.claim, service, consumer, kept)
                           for consumer, kept in zip(consumers, self.kept(service), strict=True)]
                rest, half = self.send_half(service, sent_half)
                self.until_read(service, self.CLAIMS, len(idle) + 1)
                self.assertFalse(any(answer.done() for answer in answers))
                os.kill(service.process.pid, signal.SIGTERM)
                self.until(lambda: is_refused(service), "connections were never refused")
                self.assertIsNone(service.process.poll())
                half.sendall(rest)
            self.assertEqual([204] * self.CLAIMS, [answer.result() for answer in answers])
        self.assertIn(b" 204 ", half.recv(64))
        self.assertEqual(0, service.process.wait(_SECONDS))
        self.assertEqual({*consumers, sent_half}, self.stored())
        for connection in idle:
            self.assertEqual(b"", connection.sock.recv(1))
            connection.close()
        self.assertNotIn("cut", service.log.read_text())

    def kept(self, service: serving.Service) -> list[_Connection]:
        """Return connections half of which were used before."""
        connections = [_Connection(service, self.sent) for _ in range(self.CLAIMS)]
        for connection in connections:
            self.addCleanup(connection.close)
        for connection in connections[::2]:
            service.request("GET", "/", connection=connection)
        return connections

    def send_half(self, service: serving.Service, consumer: str) -> tuple[bytes, socket.socket]:
        """Send the first bytes of a claim; return the others."""
        body = json.dumps(self.body()).encode()
        head = (f"PUT /allocations/{consumer} HTTP/1.1\r\nHost: placement\r\n"
                "X-Auth-Token: admin\r\nOpenStack-API-Version: placement 1.39\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n")
        host, _, port = service.address.partition(":")
        connection = socket.create_connection((host, int(port)), timeout=_SECONDS)
        self.addCleanup(connection.close)
        connection.sendall(head.encode() + body[:20])
        return body[20:], connection


class TestBound(DrainTestCase):
    """--graceful-timeout"""

    def test_requests_that_take_longer_are_cut(self) -> None:
        service = self.serve("serve with manager", 1, "--graceful-timeout", "2")
        consumer = str(uuid.uuid4())
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            with self.claims_wait():
                answer = pool.submit(self.claim, service, consumer)
                self.until_read(service, 1)
                started = time.monotonic()
                os.kill(service.process.pid, signal.SIGTERM)
                self.assertEqual(0, service.process.wait(_SECONDS))
                seconds = time.monotonic() - started
            self.assertIsInstance(answer.exception(), (OSError, http.client.HTTPException))
        self.assertGreaterEqual(seconds, 2)
        self.assertLess(seconds, 6)
        self.assertIn("requests did not finish in 2 s (--graceful-timeout) and were cut",
                      service.log.read_text())
        self.assertEqual(set(), self.stored())


class TestBusyClients(DrainTestCase):
    """Clients that never pause, on connections that they keep, and on new ones."""

    CLIENTS = 16

    def test_nothing_happens_without_an_answer(self) -> None:
        service = self.serve("serve", 2)
        acknowledged: set[str] = set()
        statuses: collections.Counter[int] = collections.Counter()

        def client(number: int) -> None:
            connection = http.client.HTTPConnection(service.address, timeout=_SECONDS)
            while True:
                consumer = str(uuid.uuid4())
                try:
                    status = self.claim(service, consumer, connection)
                except (OSError, http.client.HTTPException):
                    return
                statuses[status] += 1
                acknowledged.add(consumer)
                if number % 2:
                    connection.close()

        threads = [threading.Thread(target=client, args=(n,)) for n in range(self.CLIENTS)]
        for thread in threads:
            thread.start()
        self.until(lambda: len(acknowledged) > 10 * self.CLIENTS, "the clients are slow")
        os.kill(service.process.pid, signal.SIGTERM)
        for thread in threads:
            thread.join()
        self.assertEqual(0, service.process.wait(_SECONDS))
        self.assertEqual({204}, set(statuses))
        self.assertEqual(acknowledged, self.stored())


def is_refused(service: serving.Service) -> bool:
    """Say whether nobody listens any more, in any worker."""
    return not any(state == _LISTEN for state, _ in _read_sockets(service))


def count_unread(service: serving.Service) -> tuple[int, int]:
    """Return how many bytes and connections a service has not taken, and how many it has."""
    sockets = _read_sockets(service)
    return (sum(waiting for _, waiting in sockets),
            sum(state == _ESTABLISHED for state, _ in sockets))


def _read_sockets(service: serving.Service) -> list[tuple[str, int]]:
    """Return the state of each of its sockets, and what waits there to be read or accepted."""
    port = f":{int(service.address.partition(':')[2]):04X}"
    lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()]
    return [(fields[3], int(fields[4].partition(":")[2], 16))
            for fields in lines if fields[1].endswith(port)]
