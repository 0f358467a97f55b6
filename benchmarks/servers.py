"""The two sides: how each is installed, given a database and served.

Both are hosted by the same version of Granian with the same workers and
threads, read the same ``placement.conf`` (noauth2, everything else default),
and keep their data on the same database server.
"""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import importlib.metadata
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks import client, databases, processes

ROOT = pathlib.Path(__file__).parent.parent
UPSTREAM = "openstack-placement==16.0.0"
WORKERS = 2
THREADS = 4

_SECONDS_TO_START = 120
_SECONDS_TO_STOP = 40
#: A service that does nothing uses less processor time in half a second.
_IDLE_SECONDS = 0.03


class Side:
    """One of the two services.

    :ivar name: "ours" or "upstream".
    """

    name: str

    def loading_clients(self, kind: str) -> int:
        """Return how many clients may load a world at once into a kind of database."""
        return 8

    def sync(self, database: str, server: databases.Server, folder: pathlib.Path) -> None:
        """Make the tables, or bring them up to date."""
        _configure(folder, self.connection(database, server))
        self._run(self._sync_command(folder), folder)

    def serve(
        self,
        database: str,
        server: databases.Server,
        folder: pathlib.Path,
        *,
        workers: int = WORKERS,
    ) -> Served:
        """Serve a database that has its tables."""
        _configure(folder, self.connection(database, server))
        port = _free_port()
        log = (folder / "log").open("wb")
        process = subprocess.Popen(
            self._serve_command(port, workers), env=self._environment(folder), cwd=folder,
            stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )
        log.close()
        charged = {"server": process.pid}
        if server.pid():
            charged["database"] = server.pid()
        served = Served(process, client.Target(port, charged), folder / "log")
        try:
            served.wait()
        except BaseException:
            served.stop()
            raise
        return served

    def connection(self, database: str, server: databases.Server) -> str:
        """Return the URL that the service connects with."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        """Return what a database of an earlier run must have been made by, to be used again."""
        raise NotImplementedError

    def _sync_command(self, folder: pathlib.Path) -> Sequence[str]:
        raise NotImplementedError

    def _serve_command(self, port: int, workers: int) -> Sequence[str]:
        raise NotImplementedError

    def _environment(self, folder: pathlib.Path) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        return {**kept, "OS_PLACEMENT_CONFIG_DIR": str(folder)}

    def _run(self, command: Sequence[str], folder: pathlib.Path) -> None:
        done = subprocess.run(
            command, env=self._environment(folder), cwd=folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}")


class Ours(Side):
    """placement-core from this tree, on default settings."""

    name = "ours"

    def connection(self, database: str, server: databases.Server) -> str:
        url = server.url(database)
        return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=False)

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        core = ROOT / "placement_core"
        for path in sorted([*core.glob("migrations/versions/*.py"), *core.glob("**/tables.py")]):
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def _sync_command(self, folder: pathlib.Path) -> Sequence[str]:
        return [sys.executable, "-m", "placement_core", "db", "sync"]

    def _serve_command(self, port: int, workers: int) -> Sequence[str]:
        # Threads are left at their default, which is THREADS.
        return [
            *(sys.executable, "-m", "placement_core", "serve"),
            *("--bind", f"127.0.0.1:{port}", "--workers", str(workers)),
        ]

    def _environment(self, folder: pathlib.Path) -> dict[str, str]:
        path = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
        return {**super()._environment(folder), "PYTHONPATH": path}


class Upstream(Side):
    """OpenStack Placement, in an environment of its own."""

    name = "upstream"

    def __init__(self, python: pathlib.Path) -> None:
        """Take an environment that has upstream, its drivers and Granian.

        :param python: its interpreter.
        """
        self._bin = python.absolute().parent

    def connection(self, database: str, server: databases.Server) -> str:
        return server.upstream_url(database).render_as_string(hide_password=False)

    def fingerprint(self) -> str:
        return UPSTREAM

    def loading_clients(self, kind: str) -> int:
        # Of two writers on SQLite it answers one with 500: database is locked.
        return 1 if kind == "sqlite" else super().loading_clients(kind)

    def versions(self) -> dict[str, str]:
        """Return the versions of what makes upstream fast or slow."""
        names = ("openstack-placement", "granian", "SQLAlchemy", "oslo.db", "psycopg2-binary",
                 "PyMySQL")
        code = f"import importlib.metadata as m; [print(n, m.version(n)) for n in {names!r}]"
        done = subprocess.run(
            [str(self._bin / "python"), "-c", code], text=True, stdout=subprocess.PIPE, check=True)
        return dict(line.split() for line in done.stdout.splitlines())

    def sync(self, database: str, server: databases.Server, folder: pathlib.Path) -> None:
        super().sync(database, server, folder)
        # The first start stores the standard names; two workers at once can collide there.
        self.serve(database, server, folder, workers=1).stop()

    def _sync_command(self, folder: pathlib.Path) -> Sequence[str]:
        return [
            *(str(self._bin / "placement-manage"), "--config-file"),
            *(str(folder / "placement.conf"), "db", "sync"),
        ]

    def _serve_command(self, port: int, workers: int) -> Sequence[str]:
        return [
            *(str(self._bin / "granian"), "--interface", "wsgi", "--no-ws"),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--workers", str(workers), "--blocking-threads", str(THREADS)),
            *("--log-level", "warning", "--respawn-failed-workers"),
            "placement.wsgi.api:application",
        ]


@dataclasses.dataclass(frozen=True)
class Served:
    """A service that answers."""

    process: subprocess.Popen[bytes]
    target: client.Target
    log: pathlib.Path

    def wait(self) -> None:
        """Wait until it answers.

        :raises RuntimeError: it ended, or says nothing: with the end of its log.
        """
        deadline = time.monotonic() + _SECONDS_TO_START
        while True:
            try:
                if self.target.call("GET", "/", timeout=5)[0] == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"No answer:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.01)

    def settle(self) -> None:
        """Wait until every worker has started: until none uses the processor any more."""
        before = -1.0
        while (now := processes.cpu_seconds(self.process.pid)) - before > _IDLE_SECONDS:
            before = now
            time.sleep(0.5)

    def stop(self) -> None:
        """End the service and its workers."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def install_upstream(folder: pathlib.Path) -> pathlib.Path:
    """Install upstream, its drivers and our version of Granian; return the interpreter.

    Nothing is done when the environment already has them.
    """
    wanted = [UPSTREAM, f"granian=={importlib.metadata.version('granian')}",
              "psycopg2-binary", "PyMySQL"]
    python = folder / "bin" / "python"
    noted = folder / "installed"
    if noted.exists() and noted.read_text().split() == wanted:
        return python
    print(f"Installing {' '.join(wanted)}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted],
        check=True)
    noted.write_text("\n".join(wanted))
    return python


def _configure(folder: pathlib.Path, connection: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "placement.conf").write_text(
        "[api]\nauth_strategy = noauth2\n\n"
        # oslo.config takes $ for a reference to another option.
        f"[placement_database]\nconnection = {connection.replace('$', '$$')}\n")
    (folder / "placement.conf").chmod(0o600)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
