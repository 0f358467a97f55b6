"""The service as an operator runs it: a process of its own, on a port of its own."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

import fixtures

from benchmarks import processes

#: Loading libraries and making tables, on a machine that is busy with other tests.
SECONDS_TO_START = 180

_APPLICATION = "placement_core.wsgi:application"
_MAIN = "import sys; from placement_core.cli.main import main; sys.exit(main())"


def _serve(address: str, workers: int) -> list[str]:
    number = str(workers)
    return [
        *(sys.executable, "-c", _MAIN, "serve", "--bind", address, "--workers", number),
        "--no-manager",
    ]


def _serve_managed(address: str, workers: int) -> list[str]:
    return _serve(address, workers)[:-1]


def _gunicorn(address: str, workers: int) -> list[str]:
    number = str(workers)
    return [
        *(sys.executable, "-m", "gunicorn", "--bind", address, "--workers", number),
        *("--threads", "4", _APPLICATION),
    ]


def _uwsgi(address: str, workers: int) -> list[str]:
    program = pathlib.Path(sys.executable).with_name("uwsgi")
    return [
        *(str(program), "--http-socket", address, "--module", _APPLICATION, "--master"),
        *("--processes", str(workers), "--threads", "4", "--lazy-apps", "--die-on-term"),
        *("--home", sys.prefix),
    ]


#: How each host of the WSGI application is started: {name: (address, workers) -> command}.
COMMANDS = {
    "serve": _serve,
    "serve with manager": _serve_managed,
    "gunicorn": _gunicorn,
    "uwsgi": _uwsgi,
}


class Service(fixtures.Fixture):
    """A served application without authentication (``noauth2``).

    :ivar address: host and port.
    :ivar url: where it answers.
    """

    def __init__(
        self,
        connection: str | None,
        *,
        by: str = "serve",
        workers: int = 1,
        options: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        bind: str = "127.0.0.1",
        configuration: str | None = None,
    ) -> None:
        """Prepare to serve.

        :param connection: the URL of a database that has its tables (SQLite: made by ``serve``);
            None: ``configuration`` has it.
        :param by: a key of ``COMMANDS``.
        :param options: more environment, such as OS_PLACEMENT__…
        :param arguments: more of the command.
        :param bind: where it listens.
        :param configuration: the text of placement.conf; the environment goes before it.
        """
        self._connection = connection
        self._by = by
        self._workers = workers
        self._options = dict(options or {})
        self._arguments = arguments
        self._bind = bind
        self._configuration = configuration

    def _setUp(self) -> None:
        folder = tempfile.mkdtemp(prefix="placement-served-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        self.url = f"http://{self.address}"
        self.log = pathlib.Path(folder, "log")
        if self._configuration is not None:
            pathlib.Path(folder, "placement.conf").write_text(self._configuration)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*COMMANDS[self._by](f"{self._bind}:{port}", self._workers), *self._arguments],
                env=self._environment(folder),
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.addCleanup(self.stop)
        self._wait()

    def _environment(self, folder: str) -> dict[str, str]:
        root = pathlib.Path(__file__).parent.parent
        kept = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
        if self._connection is not None:
            kept["OS_PLACEMENT_DATABASE__CONNECTION"] = self._connection
        return {
            **kept,
            "PYTHONPATH": os.pathsep.join([str(root), str(root / "plugins")]),
            # Workers would have our folder in their path, and read all entry points anew.
            "PYTHONSAFEPATH": "1",
            # The machine's own placement.conf is none of our business.
            "OS_PLACEMENT_CONFIG_DIR": folder,
            "OS_API__AUTH_STRATEGY": "noauth2",
            # Many clients of a test on a slow machine wait, and are not told to come back.
            "OS_API__MAX_WAIT_SECONDS": "60",
            **self._options,
        }

    def _wait(self) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while True:
            try:
                self.request("GET", "/")
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"No answer: {self.log.read_text()}") from None
                time.sleep(0.1)

    def stop(self, sent: int = signal.SIGTERM) -> int:
        """End the service and its workers; return the exit code."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, sent)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            return self.process.wait()

    def list_forked(self) -> set[int]:
        """Return the workers and other processes of ``serve``, which its fork server has made."""
        return set(processes.children(*processes.children(self.process.pid)))

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        version: str = "1.39",
        connection: http.client.HTTPConnection | None = None,
    ) -> tuple[int, object]:
        """Send one request as an administrator.

        :param connection: kept alive by the caller; by default one of its own.
        :returns: the status and the JSON document (None without one).
        """
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": f"placement {version}"}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body)
        used = connection or http.client.HTTPConnection(self.address, timeout=120)
        try:
            used.request(method, path, body=data, headers=headers)
            answer = used.getresponse()
            content = answer.read()
        finally:
            if connection is None:
                used.close()
        return answer.status, json.loads(content) if content else None
