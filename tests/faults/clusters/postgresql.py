"""One PostgreSQL server, which keeps its promises of durability."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import time
from collections.abc import Iterator

import fixtures
import psycopg

from benchmarks import processes
from tests import server_programs
from tests.faults.clusters.disks import SmallDisk
from tests.faults.disturbances import Disturbance
from tests.server_programs import NoServerError, Program

_BACK_SECONDS = 60
_MEBIBYTES = 300


class Cluster(fixtures.Fixture):
    """A server with two API processes on it.

    :ivar urls: of the database, one for each API process.
    """

    has_server = True

    def _setUp(self) -> None:
        self._stack = contextlib.ExitStack()
        self.addCleanup(self._stack.close)
        initdb = server_programs.find("initdb", "postgresql", "/usr/lib/postgresql/*/bin")
        folder, user = self._stack.enter_context(server_programs.folder("postgres"))
        self._disk = self.useFixture(SmallDisk(_MEBIBYTES, user))
        self._port = server_programs.find_free_port()
        server_programs.run([
            initdb, "--pgdata", f"{self._disk.path}/data", "--username", "postgres",
            "--auth", "trust", "--encoding", "UTF8", "--no-locale"], user)
        self._server = Program(
            [str(pathlib.Path(initdb).with_name("postgres")), "-D", f"{self._disk.path}/data",
             "-p", str(self._port), "-k", folder, "-c", "listen_addresses=127.0.0.1",
             "-c", "max_wal_size=64MB", "-c", "min_wal_size=32MB"],
            user, self._answers, pathlib.Path(folder, "log"), end=signal.SIGINT)
        self._server.start()
        self.addCleanup(self._server.stop)
        url = f"postgresql+psycopg://postgres@127.0.0.1:{self._port}/postgres"
        self.urls = [url, url]

    def list_disturbances(self) -> list[Disturbance]:
        """Return what may happen to the server."""
        return [
            Disturbance("the server stops at once", lambda: self._ended(signal.SIGQUIT), 2),
            Disturbance("the server is restarted", lambda: self._ended(signal.SIGINT), 0),
            Disturbance("the server is killed", lambda: self._ended(signal.SIGKILL), 2),
            Disturbance("the server falls silent", self._silent, 8),
            Disturbance("the disk is full", self._disk_full, 4),
        ]

    @contextlib.contextmanager
    def _ended(self, number: signal.Signals) -> Iterator[None]:
        everybody = processes.tree(self._server.pid)
        self._server.send(number)
        yield
        self._server.join()
        _wait_for_end(everybody)
        self._server.start()

    @contextlib.contextmanager
    def _disk_full(self) -> Iterator[None]:
        with self._disk.full():
            yield
        # It ends itself where it cannot write its log, and where it cannot recover then.
        deadline = time.monotonic() + _BACK_SECONDS
        while not self._answers():
            if self._server.has_ended():
                self._server.start()
            if time.monotonic() > deadline:
                raise NoServerError("the server does not come back")
            time.sleep(0.2)

    @contextlib.contextmanager
    def _silent(self) -> Iterator[None]:
        everybody = processes.tree(self._server.pid)
        _send(everybody, signal.SIGSTOP)
        try:
            yield
        finally:
            _send(everybody, signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            psycopg.connect(host="127.0.0.1", port=self._port, user="postgres",
                            connect_timeout=3).close()
        except (psycopg.Error, OSError):
            return False
        return True


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait_for_end(pids: list[int]) -> None:
    """Wait until processes are gone: a new server refuses to start beside them."""
    deadline = time.monotonic() + _BACK_SECONDS
    while any(pathlib.Path(f"/proc/{pid}/stat").exists() for pid in pids):
        assert time.monotonic() < deadline, "the server does not end"
        time.sleep(0.05)
