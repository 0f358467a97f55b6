"""The second side is brought to the state of the first, whatever comes when."""

from __future__ import annotations

import asyncio
import json
import pathlib
from typing import Any

import fixtures
import testtools

from placement_core.shadow import state
from placement_core.shadow.following import Follower
from placement_core.shadow.messages import Answer, Request
from placement_core.shadow.modes import Side

_HOST = "/resource_providers/h"


class Placement:
    """A service with one provider, of which only the generation matters.

    :ivar reading: is called, and awaited, before the provider is read.
    """

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.total = generation
        self.reading = self.wait

    async def wait(self) -> None:
        """Do nothing."""

    async def ask(self, request: Request) -> Answer:
        """Answer a request."""
        match request.method, request.path.removeprefix(_HOST):
            case "GET", "":
                await self.reading()
                return _answer({"name": "h", "parent_provider_uuid": None,
                                "generation": self.generation})
            case "GET", "/inventories":
                return _answer({"inventories": {"VCPU": self.total}})
            case "GET", "/traits" | "/aggregates" | "/allocations":
                return _answer({request.path.rpartition("/")[2]: {}})
            case "GET", "/resource_classes/VCPU":
                return _answer({})
            case "PUT", "/inventories":
                return self._write(json.loads(request.body))
        raise AssertionError(request)

    def _write(self, body: dict[str, Any]) -> Answer:
        if body["resource_provider_generation"] != self.generation:
            return Answer(409, "Conflict", (), b"")
        self.generation += 1
        self.total = body["inventories"]["VCPU"]
        return _answer({})


def _answer(document: object) -> Answer:
    return Answer(200, "OK", (("Content-Type", "application/json"),), json.dumps(
        document).encode())


def _make_write(generation: int) -> Request:
    return Request(
        "PUT", f"{_HOST}/inventories", (("X-Auth-Token", "t"),), json.dumps({
            "resource_provider_generation": generation,
            "inventories": {"VCPU": generation + 1}}).encode())


class TestFollower(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "state")

    def test_a_write_while_its_provider_is_read_again(self) -> None:
        """What was read has it already: that ours refuses it then is no difference."""
        asyncio.run(self.write_while_reading())
        report = state.read_report(self.path)
        self.assertEqual({"inventories: status 409, not 200": 1}, report.different)
        self.assertEqual(({}, 2), (report.unresolved, report.writes))

    async def write_while_reading(self) -> None:
        """Write once, and again when the provider is read because ours refused the first."""
        upstream, ours = Placement(5), Placement(0)
        with state.State(self.path) as opened:
            follower = Follower(
                {Side.UPSTREAM: upstream, Side.OURS: ours}, opened, compare_percent=0,
                most_waiting=9, version=(1, 38))

            async def write() -> None:
                request = _make_write(upstream.generation)
                passing = follower.begin(request)
                follower.end(passing, await upstream.ask(request))

            async def write_once() -> None:
                upstream.reading = upstream.wait
                await write()

            upstream.reading = write_once
            await write()
            await follower.drain()
            self.assertEqual((7, 7), (upstream.generation, ours.generation))
            self.assertEqual(upstream.total, ours.total)
