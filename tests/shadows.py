"""A proxy before a real, second placement and ours: in a thread, or as an operator runs it."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fixtures
import uvloop

from placement_core.shadow import control, server, state
from placement_core.shadow.modes import Side
from placement_core.shadow.reports import Report
from tests import databases, placement_service, serving

_ROOT = pathlib.Path(__file__).parents[1]
_PATIENCE_SECONDS = 60
#: The kind of our database.
_KIND = os.environ.get("PLACEMENT_TEST_SHADOW_DATABASE", "sqlite")


def find_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], object], seconds: float = _PATIENCE_SECONDS) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it does not become true")
        time.sleep(0.02)


def ask(
    url: str, method: str, path: str, body: object = None, *, version: str = "1.38",
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any]:
    """Send one request as an administrator; return the status and the JSON document."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=120)
    sent = {"X-Auth-Token": "admin", "OpenStack-API-Version": f"placement {version}",
            **(headers or {})}
    if body is not None:
        sent["Content-Type"] = "application/json"
    with contextlib.closing(connection):
        connection.request(
            method, path, None if body is None else json.dumps(body), sent)
        answer = connection.getresponse()
        content = answer.read()
        return answer.status, json.loads(content) if content else None


class ThreadedProxy(fixtures.Fixture):
    """A proxy in a thread of this process.

    :ivar url: where it answers.
    """

    def __init__(
        self, upstream: str, ours: str, folder: pathlib.Path, *, compare_percent: float = 100,
        most_waiting: int = 10_000, keystone: str | None = None,
    ) -> None:
        super().__init__()
        port = find_port()
        self.url = f"http://127.0.0.1:{port}"
        self.state = folder / "state"
        self.settings = server.Settings(
            host="127.0.0.1", port=port, urls={Side.UPSTREAM: upstream, Side.OURS: ours},
            state=self.state, control=control.find_socket(self.state),
            compare_percent=compare_percent, most_waiting=most_waiting, keystone_url=keystone)

    def _setUp(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=uvloop.run, args=(self._run(),))
        self._error: Exception | None = None
        self._thread.start()
        self.addCleanup(self.stop)
        assert self._ready.wait(_PATIENCE_SECONDS)
        if self._error is not None:
            raise self._error

    async def _run(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with server.serve(self.settings, lambda line: self._ready.set()):
                await self._stopped.wait()
        except Exception as error:
            self._error = error
            self._ready.set()

    def stop(self) -> None:
        """Let it apply what waits, and end."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()

    def report(self) -> Report:
        """Return how it went so far."""
        return read_report(self.state)


class Proxy(fixtures.Fixture):
    """A proxy in a process of its own.

    :ivar url: where it answers.
    """

    def __init__(
        self, upstream: str, ours: str, folder: pathlib.Path, *arguments: str,
        database: str | None = None, before: Sequence[str] = (),
    ) -> None:
        """Prepare it.

        :param database: that of its configuration; None: it has none.
        :param before: what its command is given to, such as ``nice``.
        """
        super().__init__()
        port = find_port()
        self.url = f"http://127.0.0.1:{port}"
        self.state = folder / "state"
        self._log = folder / "log"
        self._command = [
            *before, sys.executable, "-m", "placement_core", "migrate", "shadow", "serve",
            "--upstream", upstream, "--ours", ours, "--bind", f"127.0.0.1:{port}",
            "--state", str(self.state), "--compare-reads", "100", *arguments]
        self._options = {} if database is None else {
            "OS_PLACEMENT_DATABASE__CONNECTION": database,
            "OS_PLACEMENT_CONFIG_DIR": str(folder)}
        self._process: subprocess.Popen[bytes] | None = None

    def _setUp(self) -> None:
        self.addCleanup(self.stop)
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        path = os.pathsep.join([str(_ROOT), str(_ROOT / "plugins")])
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log,
                env={**os.environ, "PYTHONPATH": path, **self._options})
        wait_until(self._is_alive)

    def _is_alive(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"It ended: {self._log.read_text()}")
        with contextlib.suppress(OSError):
            ask(self.url, "GET", "/")
            return True
        return False

    def stop(self, sent: int = signal.SIGTERM) -> None:
        """End it."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(sent)
            self._process.wait(120)

    def report(self) -> Report:
        """Return how it went so far."""
        return read_report(self.state)


def read_report(path: pathlib.Path) -> Report:
    """Return the report of a proxy, up to now if it runs."""
    with contextlib.suppress(Exception):
        control.call(control.find_socket(path), "flush")
    return state.read_report(path)


class Sides(fixtures.Fixture):
    """A real, second placement and ours, with one host of plenty in both.

    :ivar upstream: the URL of the one.
    :ivar ours: the URL of the other.
    :ivar database: the URL of its database.
    :ivar host: the uuid of the host.
    :ivar folder: for the state of a proxy.
    :ivar is_spoilt: whether no other test can use it.
    """

    def _setUp(self) -> None:
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.is_spoilt = False
        self.placement = self.useFixture(placement_service.Placement())
        self.upstream, self.host = self.placement.url, self.placement.host
        self.database = (
            f"sqlite:///{self.folder / 'ours.sqlite'}" if _KIND == "sqlite"
            else databases.settings(_KIND).connection)
        self.service = self.useFixture(serving.Service(self.database))
        self.ours = self.service.url
        for method, path, body in self.placement.made:
            status, _ = ask(self.ours, method, path, body)
            assert status < 300, (method, path, status)

    def claim(self, url: str, consumer: str, amount: int = 1) -> int:
        """Let a new consumer hold something; return the status."""
        return ask(url, "PUT", f"/allocations/{consumer}", {
            "allocations": {self.host: {"resources": {"VCPU": amount}}}, "project_id": "project",
            "user_id": "user", "consumer_generation": None, "consumer_type": "INSTANCE"})[0]

    def read_allocations(self, url: str) -> dict[str, Any]:
        """Return what is held of the host: {consumer: what}."""
        status, document = ask(url, "GET", f"/resource_providers/{self.host}/allocations")
        assert status == 200
        return document["allocations"]

    def read_generation(self, url: str) -> int:
        """Return the generation of the host."""
        return ask(url, "GET", f"/resource_providers/{self.host}")[1]["generation"]

    def are_alike(self) -> bool:
        """Return whether nothing made the generations differ: over HTTP they only rise."""
        return self.read_generation(self.upstream) == self.read_generation(self.ours)

    def renew(self) -> None:
        """Take everything from everybody, and begin with a new state."""
        for url in (self.upstream, self.ours):
            for consumer in self.read_allocations(url):
                ask(url, "DELETE", f"/allocations/{consumer}")
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)


_shared: list[Sides] = []


def share() -> Sides:
    """Return the sides that the tests of this process use one after the other."""
    if _shared and (_shared[0].is_spoilt or not _shared[0].are_alike()):
        _shared.pop().cleanUp()
    if not _shared:
        sides = Sides()
        sides.setUp()
        _shared.append(sides)
    _shared[0].renew()
    return _shared[0]


def _end() -> None:
    for sides in _shared:
        sides.cleanUp()


atexit.register(_end)
