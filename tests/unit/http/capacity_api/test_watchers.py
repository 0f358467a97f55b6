"""Watchers beside writers whose changes they do not want."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import time
from typing import Any

from placement_core.changes import tables
from placement_core.changes.positions import Position
from placement_core.feed.tokens import Token, encode
from placement_core.http.capacity_api import watchers
from tests import base


class FakeScope:
    method, path, scheme, client = "GET", watchers.PATH, "http", "127.0.0.1:1"

    def __init__(self, query_string: str, **headers: str) -> None:
        self.query_string = query_string
        self.headers = headers


class FakeProtocol:
    def __init__(self) -> None:
        self.statuses: list[int] = []

    def response_bytes(self, status: int, _headers: Any, _body: bytes) -> None:
        self.statuses.append(status)


class TestBusyWriters(base.TestCase):
    def test_a_watcher_asks_now_and_then_and_its_time_ends(self) -> None:
        serials = itertools.count(1)
        asked = []

        def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
            asked.append(environ["QUERY_STRING"])
            token = encode(Token(Position((len(asked), *[0] * (tables.SLOTS - 1)), 0)))
            start_response("200 OK", [])
            return [b'{"changes": [], "more": false, "next": "%s"}' % token.encode()]

        async def watch() -> FakeProtocol:
            with concurrent.futures.ThreadPoolExecutor(2) as threads:
                # Whenever it is asked, the database has something new.
                commits = watchers.CommitEvent(lambda: (10**6 + next(serials), 0), threads)
                follower = asyncio.create_task(commits.follow())
                protocol = FakeProtocol()
                await watchers.WatchApplication(app, commits, threads)(
                    FakeScope("wait=1&kinds=trait"), protocol)
                commits.stop()
                await follower
            return protocol

        started = time.monotonic()
        self.assertEqual([200], asyncio.run(watch()).statuses)
        self.assertLess(time.monotonic() - started, 10)
        self.assertLessEqual(len(asked), 2 + 1 / watchers._EVERY_SECONDS)
