"""Readers of changes wait in the workers of ``serve``, and are in nobody's way."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import json
import signal
import socket
import time
from collections.abc import Iterator
from typing import Any

from doc import mirror
from placement_core.testing import factories
from tests import base, databases, serving

_PATH = "/capacity/v1/changes"
#: What a busy machine may add to anything.
_SECONDS = 60.0


class Events:
    """A stream of events, as a client reads it."""

    def __init__(
        self, address: str, query: str, last_event_id: str | None = None
    ) -> None:
        self._connection = http.client.HTTPConnection(
            address, timeout=_SECONDS)
        headers = {"X-Auth-Token": "admin", "Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        self._connection.request("GET", f"{_PATH}?{query}", headers=headers)
        self.response = self._connection.getresponse()

    def read(self) -> dict[str, str] | None:
        """Return the next event, comments left out; None: the stream has ended."""
        fields: dict[str, str] = {}
        for line in iter(self.response.readline, b""):
            text = line.decode().rstrip("\n")
            if not text:
                return fields
            name, _, value = text.partition(": ")
            if name:
                fields[name] = value
        return None

    def close(self) -> None:
        self._connection.close()


class WatchingTestCase(base.DatabaseTestCase):
    def serve(self, threads: int) -> serving.Service:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.watch_address = f"127.0.0.1:{port}"
        return self.useFixture(serving.Service(
            self.database.url.render_as_string(hide_password=False),
            arguments=("--threads", str(threads), "--watch-bind", self.watch_address),
            # What else is to happen at the end of a worker.
            options={"OS_WORKERS__REPORT": "true",
                     # Fewer than the watchers that one commit wakes.
                     "OS_API__MAX_CONCURRENT_REQUESTS_PER_PROJECT": "6"}))

    def change(self) -> str:
        return factories.provider(self.ctx).uuid

    def get(self, address: str, **query: Any) -> tuple[dict[str, str], Any]:
        connection = http.client.HTTPConnection(address, timeout=40)
        with contextlib.closing(connection):
            text = "&".join(f"{name}={value}" for name, value in query.items())
            connection.request("GET", f"{_PATH}?{text}", headers={"X-Auth-Token": "admin"})
            response = connection.getresponse()
            body = response.read()
            self.assertEqual(200, response.status, body)
            headers = {name.lower(): value for name, value in response.getheaders()}
            return headers, json.loads(body)

    @contextlib.contextmanager
    def waiting(
        self, address: str, count: int
    ) -> Iterator[list[concurrent.futures.Future[tuple[dict[str, str], Any]]]]:
        """Let so many requests wait for changes."""
        token = self.get(address, after="now")[1]["next"]
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            waiters = [
                pool.submit(self.get, address, after=token, wait=30, kinds="provider")
                for _ in range(count)]
            time.sleep(0.3)
            self.assertFalse(any(waiter.done() for waiter in waiters))
            yield waiters


@databases.on_each_database
class TestWaiting(WatchingTestCase):
    def test_readers(self) -> None:
        """One service, because it takes long to start."""
        # The two streams that were closed count until something is sent to them.
        service = self.serve(6)
        self.check_waiters(service)
        self.check_events(service.address)
        self.check_many_watchers()
        self.check_the_mirror_of_the_documents(service)
        self.check_the_end(service)

    def check_waiters(self, service: serving.Service) -> None:
        """As many as may wait do; others are answered, the next one to wait is, too."""
        token, refused = self.get(service.address, after="now")[1]["next"], []

        def wait_for_changes() -> list[Any]:
            """Come back as clients do: after a refusal, and when the time is over."""
            while True:
                headers, answer = self.get(
                    service.address, after=token, wait=30, kinds="provider")
                if answer["changes"]:
                    return [each["id"] for each in answer["changes"]]
                if "retry-after" in headers:
                    refused.append(headers)
                    time.sleep(float(headers["retry-after"]))

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            waiters = [pool.submit(wait_for_changes) for _ in range(4)]
            time.sleep(0.3)
            times = []
            for _ in range(20):
                started = time.monotonic()
                self.assertEqual(200, service.request("GET", "/resource_providers")[0])
                times.append(time.monotonic() - started)
            self.assertLess(sorted(times)[10], 0.5)
            # On a slow machine some place is still free, and this one has it for a second.
            took_a_place = 0
            while True:
                headers, answer = self.get(service.address, after=token, wait=1)
                if "retry-after" in headers:
                    break
                took_a_place += 1
                self.assertLess(took_a_place, 30)
            self.assertEqual(([], token), (answer["changes"], answer["next"]))
            self.assertLessEqual(len(refused), 4 * took_a_place)
            uuid = self.change()
            started = time.monotonic()
            for waiter in waiters:
                self.assertEqual([uuid], waiter.result(_SECONDS))
            self.assertLess(time.monotonic() - started, 5)
        headers, answer = self.get(service.address, after=token, wait=1, kinds="trait")
        self.assertNotIn("retry-after", headers)
        self.assertEqual([], answer["changes"])

    def check_events(self, address: str) -> None:
        """A stream goes on where another one ended; those that are gone wait no longer."""
        bad = Events(address, "after=x")
        self.assertEqual(400, bad.response.status)
        bad.close()
        events = Events(address, "after=now&kinds=provider&include=document")
        self.assertEqual("text/event-stream", events.response.getheader("Content-Type"))
        self.assertEqual({"id"}, {*(events.read() or ())})
        uuids = [self.change()]
        event = events.read() or {}
        self.assertEqual("changes", event["event"])
        answer = json.loads(event["data"])
        self.assertEqual(event["id"], answer["next"])
        self.assertEqual(uuids, [each["document"]["uuid"] for each in answer["changes"]])
        events.close()
        uuids = [self.change()]
        again = Events(address, "kinds=provider", last_event_id=event["id"])
        event = again.read() or {}
        self.assertEqual(uuids, [each["id"] for each in json.loads(event["data"])["changes"]])
        again.close()

    def check_many_watchers(self) -> None:
        """The process for watchers answers as a worker does, and takes many more."""
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                self.get(self.watch_address, after="now")
                break
            except OSError:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.1)
        self.check_events(self.watch_address)
        streams = [Events(self.watch_address, "after=now&kinds=provider") for _ in range(40)]
        for events in streams:
            self.addCleanup(events.close)
            self.assertEqual({"id"}, {*(events.read() or ())})
        with self.waiting(self.watch_address, 10) as waiters:
            uuid = self.change()
            answers = [waiter.result(_SECONDS)[1] for waiter in waiters]
        answers += [json.loads((events.read() or {})["data"]) for events in streams]
        self.assertEqual({uuid}, {each["id"] for answer in answers for each in answer["changes"]})
        connection = http.client.HTTPConnection(self.watch_address, timeout=_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", "/resource_providers")
            self.assertEqual(404, connection.getresponse().status)

    def check_the_mirror_of_the_documents(self, service: serving.Service) -> None:
        copy = mirror.Mirror(service.url, "admin")
        for _ in range(2):
            while copy.follow(wait=1):
                pass
            providers = {uuid: document for (kind, uuid), document in copy.objects.items()
                         if kind == "provider"}
            document: Any = service.request("GET", "/capacity/v1/providers")[1]
            self.assertEqual(
                {provider["uuid"]: provider for provider in document["providers"]}, providers)
            self.change()

    def check_the_end(self, service: serving.Service) -> None:
        """SIGTERM ends streams, and whoever waits is answered."""
        addresses = (service.address, self.watch_address)
        with self.waiting(service.address, 1) as [waiter], self.waiting(
                self.watch_address, 1) as [watcher]:
            streams = [Events(address, "after=now") for address in addresses]
            for events in streams:
                self.addCleanup(events.close)
                self.assertIsNotNone(events.read())
            started = time.monotonic()
            service.process.send_signal(signal.SIGTERM)
            for waiting in (waiter, watcher):
                self.assertEqual([], waiting.result(_SECONDS)[1]["changes"])
            for events in streams:
                while events.read() is not None:
                    pass
            self.assertLess(time.monotonic() - started, 5)
        service.process.wait(_SECONDS)
