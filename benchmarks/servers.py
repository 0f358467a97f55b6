"""The sides: how each is installed, given a database and served.

All are hosted by the same version of Granian with the same number of workers, each
with the threads that it is fastest with, and keep their data on the same database
server. Ours and OpenStack Placement read the same ``placement.conf`` (noauth2,
everything else default). Keystone cannot do without tokens: it gets Fernet ones,
which it keeps, once checked, in a cache in each worker, the fastest that it has.
"""

from __future__ import annotations

import contextlib
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
from collections.abc import Iterator, Mapping, Sequence

from benchmarks import client, databases, processes

ROOT = pathlib.Path(__file__).parent.parent
WORKERS = 2
#: Of each worker: the default of ``serve``, and what the others are fastest with.
OUR_THREADS, THREADS = 16, 4
#: The drivers that the others' database URLs name (``databases``).
_DRIVERS = ("psycopg2-binary", "PyMySQL")
#: Of Keystone's administrator, on a port of this machine for as long as a run.
_PASSWORD = "bench"

_SECONDS_TO_START = 120
_SECONDS_TO_STOP = 40
#: So many connections, one after the other, reach each of the workers.
_WARMING = 20
#: A service that does nothing uses less processor time in half a second.
_IDLE_SECONDS = 0.03


class Side:
    """One of the services.

    :cvar name: "ours", "upstream" (OpenStack Placement) or "keystone".
    :cvar greeting: a path that answers 200 once the service is up.
    :cvar token: what it is first asked with.
    """

    name: str
    greeting = "/"
    token: str | None = "admin"

    def loading_clients(self, kind: str) -> int:
        """Return how many clients may load a dataset at once into a kind of database."""
        return 8

    def sync(self, database: str, server: databases.Server, folder: pathlib.Path) -> None:
        """Make the tables, or bring them up to date."""
        self.configure(folder, self.connection(database, server))
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
        self.configure(folder, self.connection(database, server))
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
        target = client.Target(port, charged, token=self.token)
        served = Served(process, target, folder / "log")
        try:
            served.wait(self.greeting)
            return dataclasses.replace(served, target=self.admitted(target))
        except BaseException:
            served.stop()
            raise

    def connection(self, database: str, server: databases.Server) -> str:
        """Return the URL that the service connects with."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        """Return what a database of an earlier run must have been made by, to be used again."""
        raise NotImplementedError

    def admitted(self, target: client.Target) -> client.Target:
        """Return a service that has just been started as its administrator asks it."""
        return target

    def configure(self, folder: pathlib.Path, connection: str) -> None:
        """Write what the service reads."""
        _write(folder / "placement.conf",
               "[api]\nauth_strategy = noauth2\n\n"
               f"[placement_database]\nconnection = {_literally(connection)}\n")

    def _sync_command(self, folder: pathlib.Path) -> Sequence[str]:
        raise NotImplementedError

    def _serve_command(self, port: int, workers: int) -> Sequence[str]:
        raise NotImplementedError

    def _environment(self, folder: pathlib.Path) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        # Without the folder in its path, each process knows the entry points that others read.
        return {**kept, "OS_PLACEMENT_CONFIG_DIR": str(folder), "PYTHONSAFEPATH": "1"}

    def _run(self, command: Sequence[str], folder: pathlib.Path) -> None:
        done = subprocess.run(
            command, env=self._environment(folder), cwd=folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}")


class Ours(Side):
    """placement-core from this tree, on default settings unless others are given."""

    name = "ours"

    def __init__(self, more: str = "") -> None:
        """Take settings.

        :param more: what ``placement.conf`` says besides.
        """
        self._more = more

    def configure(self, folder: pathlib.Path, connection: str) -> None:
        super().configure(folder, connection)
        with (folder / "placement.conf").open("a") as file:
            file.write(f"\n{self._more}")

    def connection(self, database: str, server: databases.Server) -> str:
        url = server.url(database)
        return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=False)

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        core = ROOT / "placement_core"
        for path in sorted([*core.glob("migrations/versions/*.py"), *core.glob("**/tables.py")]):
            digest.update(path.read_bytes())
        return digest.hexdigest()

    @contextlib.contextmanager
    def managing(
        self, database: str, server: databases.Server, folder: pathlib.Path
    ) -> Iterator[None]:
        """Run a manager, alone, that carries out what is due in a database.

        :raises RuntimeError: it ended, or says nothing: with the end of its log.
        """
        self.configure(folder, self.connection(database, server))
        log = folder / "log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "placement_core", "manager"], cwd=folder,
                env=self._environment(folder), stdout=file, stderr=subprocess.STDOUT,
                start_new_session=True)
        try:
            deadline = time.monotonic() + _SECONDS_TO_START
            while "carries out events" not in log.read_text():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"No manager:\n{log.read_text()[-4000:]}")
                time.sleep(0.05)
            yield
        finally:
            _end(process)

    def _sync_command(self, folder: pathlib.Path) -> Sequence[str]:
        return [sys.executable, "-m", "placement_core", "db", "sync"]

    def _serve_command(self, port: int, workers: int) -> Sequence[str]:
        # Threads are left at their default, which is OUR_THREADS. A manager is no part of what
        # answers requests: ``managing`` runs one.
        return [
            *(sys.executable, "-m", "placement_core", "serve", "--no-manager"),
            *("--bind", f"127.0.0.1:{port}", "--workers", str(workers)),
        ]

    def _environment(self, folder: pathlib.Path) -> dict[str, str]:
        path = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
        return {**super()._environment(folder), "PYTHONPATH": path}


class Peer(Side):
    """A service of others, in an environment of its own.

    :cvar package: what it is, pinned.
    :cvar application: what Granian is told to host.
    """

    package: str
    application: str

    def __init__(self, python: pathlib.Path) -> None:
        """Take an environment that has the service, its drivers and Granian.

        :param python: its interpreter.
        """
        self._bin = python.absolute().parent

    def connection(self, database: str, server: databases.Server) -> str:
        return server.upstream_url(database).render_as_string(hide_password=False)

    def fingerprint(self) -> str:
        return self.package

    def loading_clients(self, kind: str) -> int:
        # Of two writers on SQLite it answers one with 500: database is locked.
        return 1 if kind == "sqlite" else super().loading_clients(kind)

    def versions(self) -> dict[str, str]:
        """Return the versions of what makes it fast or slow."""
        names = (self.package.partition("==")[0], "granian", "SQLAlchemy", "oslo.db", *_DRIVERS)
        code = f"import importlib.metadata as m; [print(n, m.version(n)) for n in {names!r}]"
        done = subprocess.run(
            [str(self._bin / "python"), "-c", code], text=True, stdout=subprocess.PIPE, check=True)
        return dict(line.split() for line in done.stdout.splitlines())

    def _serve_command(self, port: int, workers: int) -> Sequence[str]:
        return [
            *(str(self._bin / "granian"), "--interface", "wsgi", "--no-ws"),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--workers", str(workers), "--blocking-threads", str(THREADS)),
            *("--log-level", "warning", "--respawn-failed-workers"),
            self.application,
        ]


class Upstream(Peer):
    """OpenStack Placement."""

    name = "upstream"
    package = "openstack-placement==16.0.0"
    application = "placement.wsgi.api:application"

    def sync(self, database: str, server: databases.Server, folder: pathlib.Path) -> None:
        super().sync(database, server, folder)
        # The first start stores the standard names; two workers at once can collide there.
        self.serve(database, server, folder, workers=1).stop()

    def _sync_command(self, folder: pathlib.Path) -> Sequence[str]:
        return [
            *(str(self._bin / "placement-manage"), "--config-file"),
            *(str(folder / "placement.conf"), "db", "sync"),
        ]


class Keystone(Peer):
    """OpenStack Keystone."""

    name = "keystone"
    package = "keystone==30.0.0"
    application = "bench_keystone:application"
    greeting = "/v3"
    token = None

    #: Keystone reads its own options from the command line, which is Granian's.
    _MODULE = ("import sys\n\ndel sys.argv[1:]\n\n"
               "from keystone.wsgi.api import application\n")

    def sync(self, database: str, server: databases.Server, folder: pathlib.Path) -> None:
        super().sync(database, server, folder)
        self._run(self._manage(folder, "bootstrap", "--bootstrap-password", _PASSWORD), folder)

    def admitted(self, target: client.Target) -> client.Target:
        domain = {"id": "default"}
        token = target.header("X-Subject-Token", "POST", "/v3/auth/tokens", {"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": "admin", "domain": domain, "password": _PASSWORD}}},
            "scope": {"project": {"name": "admin", "domain": domain}}}})
        if not token:
            raise RuntimeError("Keystone gave no token")
        bearing = target.bearing(token)
        # Each worker reads its policy at its first request; of several at once it refuses some.
        for _ in range(_WARMING):
            bearing.must("GET", "/v3/projects")
        return bearing

    def configure(self, folder: pathlib.Path, connection: str) -> None:
        keys = {kind: folder.parent / f"keystone-{kind}" for kind in ("tokens", "receipts")}
        _write(folder / "keystone.conf",
               f"[database]\nconnection = {_literally(connection)}\n\n"
               "[cache]\nenabled = true\nbackend = dogpile.cache.memory\n\n"
               + "".join(f"[fernet_{kind}]\nkey_repository = {path}\n\n"
                         for kind, path in keys.items()))
        _write(folder / "bench_keystone.py", self._MODULE)
        if not keys["tokens"].exists():
            user, group = (str(number) for number in (os.getuid(), os.getgid()))
            self._run(self._manage(
                folder, "fernet_setup", "--keystone-user", user, "--keystone-group", group),
                folder)

    def _sync_command(self, folder: pathlib.Path) -> Sequence[str]:
        return self._manage(folder, "db_sync")

    def _manage(self, folder: pathlib.Path, *arguments: str) -> Sequence[str]:
        return [str(self._bin / "keystone-manage"),
                "--config-file", str(folder / "keystone.conf"), *arguments]

    def _environment(self, folder: pathlib.Path) -> dict[str, str]:
        return {**super()._environment(folder), "PYTHONPATH": str(folder),
                "OS_KEYSTONE_CONFIG_DIR": str(folder)}


#: The services of others by name.
PEERS: Mapping[str, type[Peer]] = {peer.name: peer for peer in (Upstream, Keystone)}


@dataclasses.dataclass(frozen=True)
class Served:
    """A service that answers."""

    process: subprocess.Popen[bytes]
    target: client.Target
    log: pathlib.Path

    def wait(self, greeting: str) -> None:
        """Wait until it answers.

        :param greeting: the path to ask for.
        :raises RuntimeError: it ended, or says nothing: with the end of its log.
        """
        deadline = time.monotonic() + _SECONDS_TO_START
        while True:
            try:
                if self.target.call("GET", greeting, timeout=5)[0] == 200:
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
        _end(self.process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def install(package: str, folder: pathlib.Path) -> pathlib.Path:
    """Install a service, its drivers and our version of Granian; return the interpreter.

    Nothing is done when the environment already has them.
    """
    wanted = [package, f"granian=={importlib.metadata.version('granian')}", *_DRIVERS]
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


def _write(path: pathlib.Path, text: str) -> None:
    """Write a file for our eyes only: a database URL may have a password."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)


def _literally(value: str) -> str:
    """Return a value for oslo.config, which takes $ for a reference to another option."""
    return value.replace("$", "$$")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
