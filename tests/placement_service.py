"""A real, second placement for tests: the upstream package on SQLite, in one process.

``python -m tests.placement_service FOLDER`` makes one in FOLDER, prints its URL when it
serves, and serves until it is killed. ``Placement`` is the fixture around it, ``shared``
one that a whole test process uses. Placement itself is imported by that process alone.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import pathlib
import select
import socketserver
import subprocess
import sys
import threading
import urllib.request
import uuid
import wsgiref.simple_server
from collections.abc import Mapping

import fixtures

#: Whether there is one to be had.
INSTALLED = importlib.util.find_spec("placement") is not None

_PATIENCE_SECONDS = 120
_VERSION = "1.38"
_OPTIONS = """
[api]
auth_strategy = noauth2
[placement_database]
connection = sqlite:///{folder}/placement.sqlite
sync_on_startup = true
"""


class Process(fixtures.Fixture):
    """A running placement that knows nothing.

    :param options: more lines of its configuration.
    :ivar url: where it answers.
    :ivar database: the path of its database.
    """

    url: str

    def __init__(self, options: str = "") -> None:
        super().__init__()
        self._options = options

    def _setUp(self) -> None:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.database = folder / "placement.sqlite"
        (folder / "placement.conf").write_text(_OPTIONS.format(folder=folder) + self._options)
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.placement_service", str(folder)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self.addCleanup(self.stop)
        ready, _, _ = select.select([self._process.stdout], [], [], _PATIENCE_SECONDS)
        line = self._process.stdout.readline().decode() if ready else ""
        if not line.startswith("http"):
            raise RuntimeError(f"Placement did not start:\n{(folder / 'log').read_text()}")
        self.url = line.strip()

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class Placement(Process):
    """A running placement that believes every token, with one host of plenty.

    :ivar host: the uuid of the host.
    :ivar made: the requests that made it: (method, path, body).
    """

    def _setUp(self) -> None:
        super()._setUp()
        self.host = str(uuid.uuid4())
        self._consumers: set[str] = set()
        self.made = (
            ("POST", "/resource_providers", {"name": "host", "uuid": self.host}),
            ("PUT", "/resource_classes/CUSTOM_LICENCE", None),
            ("PUT", f"/resource_providers/{self.host}/inventories", {
                "resource_provider_generation": 0,
                "inventories": {name: {"total": 10**6} for name in (
                    "VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_LICENCE")}}))
        for method, path, body in self.made:
            self.request(method, path, body)

    def request(self, method: str, path: str, body: object = None) -> None:
        """Send a request that must succeed, as the administrator."""
        request = urllib.request.Request(
            self.url + path, method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"X-Auth-Token": "admin", "Content-Type": "application/json",
                     "OpenStack-API-Version": f"placement {_VERSION}"})
        urllib.request.urlopen(request, timeout=60).close()

    def claim(
        self, consumer_uuid: str, amounts: Mapping[str, int], *, project: str = "project",
        user: str = "user", kind: str = "INSTANCE",
    ) -> None:
        """Let a new consumer hold something."""
        self._consumers.add(consumer_uuid)
        self.request("PUT", f"/allocations/{consumer_uuid}", {
            "allocations": {self.host: {"resources": dict(amounts)}}, "project_id": project,
            "user_id": user, "consumer_generation": None, "consumer_type": kind})

    def release(self, consumer_uuid: str) -> None:
        """Take everything from a consumer."""
        self._consumers.discard(consumer_uuid)
        self.request("DELETE", f"/allocations/{consumer_uuid}")

    def clear(self) -> None:
        """Take everything from everybody."""
        for consumer_uuid in list(self._consumers):
            self.release(consumer_uuid)


_shared: list[Placement] = []


def shared() -> Placement:
    """Return the placement of this process, with nobody holding anything."""
    if not _shared:
        made = Placement()
        made.setUp()
        atexit.register(made.cleanUp)
        _shared.append(made)
    _shared[0].clear()
    return _shared[0]


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """Processes requests side by side."""

    daemon_threads = True


class Handler(wsgiref.simple_server.WSGIRequestHandler):
    """Hands requests to an application as they come, and prints nothing."""

    def get_environ(self) -> dict[str, object]:
        """Return the environment; no media type is none, not text/plain."""
        environ = super().get_environ()
        if self.headers["Content-Type"] is None:
            del environ["CONTENT_TYPE"]
        return environ

    def log_message(self, *_args: object) -> None:
        """Print nothing."""


def main(folder: pathlib.Path) -> None:
    """Serve the placement whose configuration is in ``folder``."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Whoever started this reads one line; the rest is for the log.
    os.environ["OS_PLACEMENT_CONFIG_DIR"] = str(folder)
    sys.argv[1:] = []  # Placement reads its options there
    from placement.wsgi import api

    # Who started it may be killed: then this pipe is closed.
    threading.Thread(target=lambda: os._exit(len(sys.stdin.read())), daemon=True).start()
    server = wsgiref.simple_server.make_server(
        "127.0.0.1", 0, api.application, server_class=Server, handler_class=Handler)
    answer.write(f"http://127.0.0.1:{server.server_port}\n")
    answer.flush()
    server.serve_forever()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
