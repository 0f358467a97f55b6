"""A stand-in for Nova (and what of Glance and Keystone goes with it) for tests of drivers.

``python -m tests.nova_standin_server`` prints its URL when it serves, and serves until its input
is closed. It runs in a process of its own, because it imports nova: every query and body it
is sent, and every body it answers, is checked with the JSON schemas that hang at the methods
of nova's own controllers, at the microversion asked for. What it then does is written down
here from what nova's controllers do; a wrong answer of its own is a violation, which
``NovaStandIn.violations`` tells.

It can be late, fail before or after it has done something, answer nobody, do something
twice, or be replaced by somebody else's page: ``NovaStandIn.fail``.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import pathlib
import select
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from typing import Any

import fixtures

#: Whether there is a nova whose schemas can be used.
INSTALLED = importlib.util.find_spec("nova") is not None

#: The project in which the service logs in, and what it logs in with.
SERVICE = "5e" * 16
PASSWORD = "no secret"
_PATIENCE_SECONDS = 180


class NovaStandIn(fixtures.Fixture):
    """A running stand-in; ``url`` is where its Keystone is, ``nova`` its Nova."""

    url: str

    def _setUp(self) -> None:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.nova_standin_server"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                env=os.environ | {"OS_NOVA_DISABLE_EVENTLET_PATCHING": "true"})
        self.addCleanup(self._end, process)
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], _PATIENCE_SECONDS)
        line = process.stdout.readline().decode() if ready else ""
        if not line.startswith("http"):
            raise RuntimeError(f"The stand-in did not start:\n{(folder / 'log').read_text()}")
        self.url = line.strip()
        self.nova = f"{self.url}/v2.1"

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def reset(self, **settings: object) -> None:
        """Empty the world; ``hosts``: {hypervisor's name: its service's host}."""
        self._ask("reset", settings)

    def set(self, **settings: object) -> None:
        """Set ``delete_after`` (listings that a deleted server survives), ``latency``, …"""
        self._ask("set", settings)

    def fail(self, *faults: Mapping[str, object]) -> None:
        """Let requests fail; each fault once, in order, on the first request that it fits.

        A fault has ``how``: 500 (nothing is done), "500 after" (it is done), "lost" (done, and
        the connection closed), "late" (the connection is held for ``seconds`` and closed; then
        it is done), "twice" (done twice; the second answer counts), "page" or "404 page"
        (a proxy answers), or any other status. It may have ``on``, a regular expression for
        "METHOD path body", and ``skip``, how many of those pass first. With ``rate`` (and
        ``seed``) it is not used up, and falls, in one of several ways, on so many requests.
        """
        self._ask("fail", list(faults))

    def world(self) -> Any:
        """Return all there is."""
        return self._ask("world", None)

    def boot(self, host: str, **values: object) -> str:
        """Put a server on a host (of the service's name); return its id."""
        return str(self._ask("boot", {"host": host, **values}))

    def put_group(self, name: str, *, project: str) -> str:
        """Have another anti-affinity group of a project; return its id."""
        return str(self._ask("put_group", {"name": name, "project": project}))

    def requests(self) -> list[str]:
        """Return "METHOD path" of what came since the last reset."""
        return list(self._ask("requests", None))

    def violations(self) -> list[str]:
        """Return what nova's schemas said to bodies: of requests, and of answers."""
        return list(self._ask("violations", None))

    def _ask(self, what: str, body: object) -> Any:
        request = urllib.request.Request(
            f"{self.url}/control/{what}", json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.loads(response.read() or b"null")


_shared: list[NovaStandIn] = []


def shared() -> NovaStandIn:
    """Return the stand-in of this process; it ends with the process."""
    if not _shared:
        made = NovaStandIn()
        made.setUp()
        atexit.register(made.cleanUp)
        _shared.append(made)
    return _shared[0]
