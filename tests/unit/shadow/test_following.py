"""The second side is brought to the state of the first, whatever comes when."""

from __future__ import annotations

import asyncio
import json
import pathlib
from collections.abc import Awaitable, Callable
from typing import Any

import fixtures
import testtools

from placement_core.shadow import following, modes, reports, state, switching
from placement_core.shadow.following import Follower
from placement_core.shadow.messages import Answer, Request
from placement_core.shadow.modes import Side
from placement_core.shadow.touched import Key, Kind
from tests import full_states

_HOST = "/resource_providers/h"
_KEY = Key(Kind.PROVIDER, "h")
_PATIENCE_SECONDS = 60


class Placement:
    """A service with one provider, of which only the generation matters.

    :ivar reading: is called, and awaited, before the provider is read.
    :ivar requests: how many came.
    :ivar refuses: whether it refuses writes.
    """

    def __init__(self, generation: int) -> None:
        self.requests = 0
        self.refuses = False
        self.generation = generation
        self.total = generation
        self.reading = self.wait

    async def wait(self) -> None:
        """Do nothing."""

    async def ask(self, request: Request) -> Answer:
        """Answer a request."""
        self.requests += 1
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
            case "GET", "/resource_providers" | "/resource_classes":
                return _answer({request.path[1:]: []})
            case "PUT", "/inventories":
                return self._write(json.loads(request.body))
        raise AssertionError(request)

    def _write(self, body: dict[str, Any]) -> Answer:
        if self.refuses or body["resource_provider_generation"] != self.generation:
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


class FollowerTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "state")

    def make(self, opened: state.State, upstream: Placement, ours: Placement) -> Follower:
        return Follower(
            {Side.UPSTREAM: upstream, Side.OURS: ours}, opened, compare_percent=0,
            most_waiting=9, version=(1, 38), find_token=lambda: "t")


class TestFollower(FollowerTestCase):
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
            follower = self.make(opened, upstream, ours)

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


class TestRun(FollowerTestCase):
    """What goes on beside requests, many times a second."""

    def setUp(self) -> None:
        super().setUp()
        for name in ("_FLUSH_SECONDS", "_FIRST_WAIT_SECONDS"):
            self.patch(following, name, 0.001)

    def run_beside(self, work: Callable[[state.State, Follower], Awaitable[None]]) -> None:
        """Do something while the follower runs, and a provider is marked."""
        async def run() -> None:
            with state.State(self.path) as opened:
                follower = self.make(opened, self.upstream, self.ours)
                opened.mark([_KEY], "it differs")
                running = asyncio.create_task(follower.run())
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await work(opened, follower)
                running.cancel()
                await follower.drain()

        self.upstream, self.ours = Placement(5), Placement(0)
        asyncio.run(run())

    def count_turns(self, opened: state.State) -> Callable[[], Awaitable[None]]:
        """Return what waits until the follower had several turns."""
        turns: list[None] = []
        self.patch(opened, "flush", lambda: turns.append(None))

        async def wait() -> None:
            most = len(turns) + 9
            while len(turns) < most:
                await asyncio.sleep(0)

        return wait

    def test_a_mark_waits_while_the_sides_change(self) -> None:
        """It would be written in the direction from before, into what answers by then."""
        async def work(opened: state.State, follower: Follower) -> None:
            follower.compares = False
            await self.count_turns(opened)()
            self.assertEqual((0, 0), (self.upstream.requests, self.ours.requests))
            follower.compares = True
            while opened.marks:
                await asyncio.sleep(0)

        self.run_beside(work)
        self.assertEqual((5, 5), (self.upstream.generation, self.ours.generation))

    def test_a_state_that_takes_nothing(self) -> None:
        """What is marked is read again all the same, and counts are written later."""
        async def work(opened: state.State, follower: Follower) -> None:
            opened.count(reports.REQUESTS)
            with full_states.fill(self.path):
                while opened.marks:
                    await asyncio.sleep(0)
            opened.mark([_KEY], "it differs again")
            while opened.marks:
                await asyncio.sleep(0)

        self.run_beside(work)
        self.assertEqual((5, 5), (self.upstream.generation, self.ours.generation))
        report = state.read_report(self.path)
        self.assertEqual((1, {}), (report.requests, report.unresolved))

    def test_what_differs_still_while_the_sides_change(self) -> None:
        """Ours answers then, and is not brought back to what upstream has."""
        async def work(opened: state.State, follower: Follower) -> None:
            self.ours.refuses = True
            wait_for_turns, drain = self.count_turns(opened), follower.drain
            has_changed = asyncio.Event()

            async def drain_first() -> None:
                await drain()
                self.upstream.reading = compare

            async def compare() -> None:
                # The switch compares. Whoever else reads now does so until ours answers.
                self.upstream.reading = wait_for_change
                await wait_for_turns()

            async def wait_for_change() -> None:
                await has_changed.wait()

            self.patch(follower, "drain", drain_first)
            await switching.Switch(opened, follower, switching.Gate(), has_limits=False).flip(
                modes.SWITCH, hold_seconds=_PATIENCE_SECONDS, max_differences=1, dry_run=False,
                report=lambda *_: None)
            self.assertEqual(modes.Mode.SWITCHED, opened.mode)
            self.ours.refuses = False
            has_changed.set()
            await wait_for_turns()

        self.patch(switching, "_LOOK_SECONDS", 0)
        self.run_beside(work)
        self.assertEqual((0, 0), (self.ours.generation, self.ours.total))
