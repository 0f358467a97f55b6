"""Watchers beside writers, errors and browsers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import json
import time
from collections.abc import Iterator
from typing import Any
from wsgiref.types import WSGIApplication

import fixtures

from placement_core import errors
from placement_core.changes import tables
from placement_core.changes.errors import ChangesRemoved
from placement_core.changes.positions import Position
from placement_core.feed.tokens import Token, encode
from placement_core.http import apis, errors as http_errors, media
from placement_core.http.capacity_api import watchers
from placement_core.http.capacity_api.views import changes
from tests import base


class FakeScope:
    method, path, scheme, client = "GET", watchers.PATH, "http", "127.0.0.1:1"

    def __init__(self, query_string: str, **headers: str) -> None:
        self.query_string = query_string
        self.headers = headers


class FakeProtocol:
    """The protocol of a client that reads to the end, and the stream that it reads."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.headers: list[tuple[str, str]] = []
        self.content = b""

    def response_bytes(
        self, status: int, headers: list[tuple[str, str]], body: bytes
    ) -> None:
        self.response_stream(status, headers)
        self.content = body

    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> FakeProtocol:
        self.statuses.append(status)
        self.headers = headers
        return self

    async def send_bytes(self, data: bytes) -> None:
        self.content += data

    async def client_disconnect(self) -> None:
        await asyncio.Event().wait()


def make_changes(serial: int) -> bytes:
    """Make an answer without changes."""
    return b'{"changes": [], "more": false, "next": "%s"}' % make_token(serial).encode()


def make_token(serial: int) -> str:
    return encode(Token(Position((serial, *[0] * (tables.SLOTS - 1)), 0)))


async def ask(
    app: WSGIApplication, scope: FakeScope, digests: Iterator[watchers.Digest]
) -> FakeProtocol:
    """Let a client ask an application beside a database that has one digest after the other."""
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        commits = watchers.CommitEvent(lambda: next(digests), threads)
        follower = asyncio.create_task(commits.follow())
        protocol = FakeProtocol()
        try:
            await watchers.WatchApplication(app, commits, threads)(scope, protocol)
        finally:
            commits.stop()
            await follower
    return protocol


class TestCommits(base.TestCase):
    def test_an_error_ends_nothing(self) -> None:
        """Those who wait ask for themselves meanwhile, and the next commit wakes them again."""
        digests = iter([(1, 1), RuntimeError("no such table"), RuntimeError("still"), (1, 1)])

        def read_digest() -> watchers.Digest:
            digest = next(digests, (2, 2))
            if isinstance(digest, Exception):
                raise digest
            return digest

        async def watch() -> list[bool]:
            with concurrent.futures.ThreadPoolExecutor(1) as threads:
                commits = watchers.CommitEvent(read_digest, threads)
                follower = asyncio.create_task(commits.follow())
                answers = [await commits.wait(digest, 10) for digest in [(1, 1), (-1, -1), (1, 1)]]
                commits.stop()
                await follower
            return answers

        with self.assertLogs(watchers.LOG) as log:
            self.assertEqual([True, True, True], asyncio.run(watch()))
        self.assertEqual(1, len(log.records))
        self.assertIn("no such table", log.output[0])


class TestBusyWriters(base.TestCase):
    def test_a_watcher_asks_now_and_then_and_its_time_ends(self) -> None:
        serials = itertools.count(1)
        asked = []

        def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
            asked.append(environ["QUERY_STRING"])
            start_response("200 OK", [])
            return [make_changes(len(asked))]

        # Whenever it is asked, the database has something new.
        digests = ((10**6 + serial, 0) for serial in serials)
        started = time.monotonic()
        protocol = asyncio.run(ask(app, FakeScope("wait=1&kinds=trait"), digests))
        self.assertEqual([200], protocol.statuses)
        self.assertLess(time.monotonic() - started, 10)
        self.assertLessEqual(len(asked), 2 + 1 / watchers._EVERY_SECONDS)


class TestPulse(base.TestCase):
    """Who hears nothing for long gets a comment, with a token that moves."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch(f"{changes.__name__}.PULSE_SECONDS", 0.2))
        self.useFixture(fixtures.MonkeyPatch(f"{changes.__name__}.LONGEST_STREAM_SECONDS", 1))

    def stream(
        self, serials: Iterator[int], digests: Iterator[watchers.Digest]
    ) -> list[bytes]:
        """Return the comments for a watcher.

        :param serials: what the answers have, one after the other.
        """
        def app(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
            start_response("200 OK", [])
            return [make_changes(next(serials))]

        protocol = asyncio.run(ask(app, FakeScope("", accept=media.EVENTS), digests))
        comments = protocol.content.split(b"\n\n")[:-1]
        self.assertTrue(all(each.startswith(b": nothing\nid: ") for each in comments), comments)
        self.assertTrue(4 <= len(comments) <= 7, comments)
        return comments

    def test_nothing_happens(self) -> None:
        digest = watchers._get_digest(json.loads(make_changes(1)))
        comments = self.stream(itertools.repeat(1), itertools.repeat(digest))
        self.assertEqual(1, len(set(comments)))

    def test_others_are_busy(self) -> None:
        """The watcher wants nothing of what they change."""
        comments = self.stream(
            itertools.count(1), ((10**6 + serial, 0) for serial in itertools.count(1)))
        self.assertEqual(len(comments), len(set(comments)))


class TestReaderThatDoesNotRead(base.TestCase):
    def test_a_stream_ends_when_much_was_sent(self) -> None:
        """Then the client comes back with the last token, on a connection with an empty queue."""
        serials = itertools.count(1)
        page = b"x" * 2**20

        def app(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
            serial = next(serials)
            start_response("200 OK" if serial < 100 else "410 Gone", [])
            return [b'{"changes": ["%s"], "more": true, "next": "%s"}' % (
                page, make_token(serial).encode())]

        protocol = asyncio.run(ask(
            app, FakeScope("", accept=media.EVENTS), itertools.repeat((1, 1))))
        count = watchers._MOST_STREAM_BYTES // len(page)
        self.assertEqual(count, protocol.content.count(b"event: changes"))
        self.assertNotIn(b"event: error", protocol.content)
        self.assertEqual(
            make_token(count).encode(),
            protocol.content.rpartition(b"id: ")[2].partition(b"\n")[0])


class TestCallers(base.TestCase):
    def test_addresses(self) -> None:
        """The one of IPv6 comes in brackets, and is an address without them."""
        for client, address in (
                ("127.0.0.1:80", "127.0.0.1"), ("[::1]:80", "::1"), ("[fd00::1]:80", "fd00::1")):
            scope = FakeScope("")
            scope.client = client
            environ = watchers._make_environ(scope, "")
            self.assertEqual(address, environ["REMOTE_ADDR"])


class TestAnswers(base.TestCase):
    """They are those of a worker."""

    def test_a_preflight_request(self) -> None:
        """What is no GET is answered at once, whoever answers it, and with whatever."""
        def app(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
            start_response("200 OK", [("Access-Control-Allow-Origin", "https://cmdb")])
            return [b""]

        for headers in ({}, {"accept": media.EVENTS}):
            scope = FakeScope("wait=1", **headers)
            scope.method = "OPTIONS"
            protocol = asyncio.run(ask(app, scope, itertools.repeat((1, 1))))
            self.assertEqual(([200], b""), (protocol.statuses, protocol.content))
            self.assertEqual(
                [("Access-Control-Allow-Origin", "https://cmdb")], protocol.headers)

    def follow(self, status: str, body: bytes) -> FakeProtocol:
        """Follow changes until an answer is an error."""
        answers = iter([("200 OK", make_changes(1)), (status, body)])

        def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
            status, body = next(answers)
            start_response(status, [
                ("Content-Type", "application/json"), ("Content-Length", str(len(body))),
                ("Cache-Control", "no-cache"), ("Vary", "Origin"),
                ("Access-Control-Allow-Origin", environ["HTTP_ORIGIN"]),
                ("x-openstack-request-id", "req-1")])
            return [body]

        scope = FakeScope("after=x", accept=media.EVENTS, origin="https://cmdb")
        return asyncio.run(ask(app, scope, itertools.repeat((2, 2))))

    def test_the_headers_of_a_stream(self) -> None:
        protocol = self.follow("503 Service Unavailable", b"")
        headers = {name.lower(): value for name, value in protocol.headers}
        self.assertEqual({
            "content-type": media.EVENTS, "cache-control": "no-store", "x-accel-buffering": "no",
            "vary": "Origin", "access-control-allow-origin": "https://cmdb",
            "x-openstack-request-id": "req-1"}, headers)
        self.assertEqual(len(headers), len(protocol.headers))

    def test_an_error_as_an_event(self) -> None:
        removed = ChangesRemoved(Position((), 0), None)
        gone = http_errors.render_document(
            410, removed, {}, coded=True, members={"oldest": "x"}).body
        keystone = b'{"error": {"code": 401, "title": "Unauthorized", "message": "Log in."}}'
        undefined = errors.Error.code
        for status, body, data in (
                ("410 Gone", gone, {"code": removed.code, "detail": str(removed)}),
                ("401 Unauthorized", keystone, {"code": undefined, "detail": "Log in."}),
                ("401 Unauthorized", apis.make_placement_401({})[1], {
                    "code": undefined,
                    "detail": "The request needs a valid token in the header X-Auth-Token."}),
                ("500 Internal Server Error", b"[]",
                 {"code": undefined, "detail": "Internal Server Error"}),
                ("502 Bad Gateway", b"<html>", {"code": undefined, "detail": "Bad Gateway"})):
            *_, event, end = self.follow(status, body).content.decode().split("\n\n")
            self.assertEqual("", end)
            lines = dict(line.split(": ", 1) for line in event.splitlines())
            self.assertEqual({"event": "error", "retry": "2000"}, {
                name: value for name, value in lines.items() if name != "data"})
            self.assertEqual(data, json.loads(lines["data"]))
