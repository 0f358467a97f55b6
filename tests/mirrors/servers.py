"""Databases whose connections can be lost, and which can be restored from a copy."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence

import fixtures
import sqlalchemy as sa

from tests import databases, server_programs
from tests.functional.db.proxy import Proxy

#: How a COMMIT that is late comes.
_DELAY_SECONDS = 0.3


@dataclasses.dataclass(frozen=True)
class Fault:
    """Something that may happen to connections.

    :ivar happen: lets it happen, to one of them.
    """

    name: str
    happen: Callable[[random.Random], None]


class ProxyProcess(fixtures.Fixture):
    """A proxy in a process of its own: what it forwards need not wait for clients' threads.

    :ivar address: (host, port) to connect to.
    """

    def __init__(self, server: tuple[str, int], commit: bytes) -> None:
        super().__init__()
        self._server = server
        self._commit = commit

    def _setUp(self) -> None:
        forking = multiprocessing.get_context("fork")
        self._pipe, other = forking.Pipe()
        process = forking.Process(
            target=_serve_proxy, args=(other, self._server, self._commit), daemon=True)
        process.start()
        self.addCleanup(process.join)
        self.addCleanup(process.terminate)
        self.address: tuple[str, int] = self._pipe.recv()

    def arm(self, loss: str, seconds: float = 0) -> None:
        """Lose the next COMMIT."""
        self._call("arm", loss, seconds=seconds)

    def disarm(self) -> None:
        """Lose nothing more."""
        self._call("disarm")

    def refuse(self) -> None:
        """Cut every connection there is, and let no other in."""
        self._call("refuse")

    def admit(self) -> None:
        """Let connections in again."""
        self._call("admit")

    def _call(self, name: str, *arguments: object, **options: object) -> None:
        self._pipe.send((name, arguments, options))
        self._pipe.recv()


def _serve_proxy(
    pipe: multiprocessing.connection.Connection, server: tuple[str, int], commit: bytes
) -> None:
    # The parent's reactions to signals are not for this process.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    proxy = Proxy(server, commit)
    pipe.send(proxy.address)
    while True:
        name, arguments, options = pipe.recv()
        proxy.sent.clear()
        if name in ("refuse", "admit"):
            proxy.refusing = name == "refuse"
            if proxy.refusing:
                proxy.drop_all()
        else:
            getattr(proxy, name)(*arguments, **options)
        pipe.send(None)


class Server(fixtures.Fixture, abc.ABC):
    """A database of its own for two API processes.

    :ivar own_url: which leads straight to the database.
    :ivar urls: one for each API process.
    :ivar options: what API processes have in their environment.
    :ivar faults: what may happen.
    """

    own_url: str
    urls: Sequence[str]
    options: Mapping[str, str]
    faults: Sequence[Fault] = ()

    @abc.abstractmethod
    def dump(self, path: pathlib.Path) -> None:
        """Copy the database into a file, as operators do."""

    @abc.abstractmethod
    def restore(self, path: pathlib.Path) -> None:
        """Replace the database by a copy, while API processes run."""

    def heal(self) -> None:
        """Let no more faults happen."""


class SQLite(Server):
    """A file; it has no connections that could be lost."""

    options: Mapping[str, str] = {}

    def _setUp(self) -> None:
        self.own_url = databases.settings("sqlite").connection
        self.urls = [self.own_url] * 2

    def dump(self, path: pathlib.Path) -> None:
        self._copy(self._file, path)

    def restore(self, path: pathlib.Path) -> None:
        self._copy(path, self._file)

    @property
    def _file(self) -> pathlib.Path:
        return pathlib.Path(sa.make_url(self.own_url).database or "")

    @staticmethod
    def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
        with contextlib.closing(sqlite3.connect(source, timeout=60)) as old, contextlib.closing(
                sqlite3.connect(target, timeout=60)) as new:
            old.backup(new)


class _NetworkServer(Server):
    """A server that API processes reach through a proxy each, which loses COMMITs."""

    kind: str
    port: int
    commit: bytes
    #: The proxy has to see what is sent.
    parameters: str
    #: Selects the number of a connection of the database by chance, but for its own.
    select: str
    #: Ends a connection.
    end: str

    def _setUp(self) -> None:
        self.own_url = databases.settings(self.kind).connection
        self._url = sa.make_url(self.own_url)
        server = self._url.host or "127.0.0.1", self._url.port or self.port
        self._proxies = [
            self.useFixture(ProxyProcess(server, self.commit)) for _ in range(2)]
        self.urls = [
            self._url.set(host=proxy.address[0], port=proxy.address[1])
            .render_as_string(hide_password=False) for proxy in self._proxies]
        self.options = {"OS_PLACEMENT_DATABASE__CONNECTION_PARAMETERS": self.parameters}
        self._engine = sa.create_engine(
            self._url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        self.faults = [
            Fault("a COMMIT's answer is lost", lambda draw: self._arm(draw, "cut_answer")),
            Fault("a COMMIT is lost", lambda draw: self._arm(draw, "cut_request")),
            Fault("a COMMIT is late",
                  lambda draw: self._arm(draw, "delay", seconds=_DELAY_SECONDS)),
            Fault("the server ends a connection", lambda draw: self._end_connection()),
        ]

    def _arm(self, draw: random.Random, loss: str, seconds: float = 0) -> None:
        draw.choice(self._proxies).arm(loss, seconds=seconds)

    def _end_connection(self) -> None:
        with contextlib.suppress(sa.exc.SQLAlchemyError), self._engine.connect() as connection:
            for number in connection.exec_driver_sql(self.select).scalars().all():
                connection.exec_driver_sql(self.end.format(number))

    def heal(self) -> None:
        for proxy in self._proxies:
            proxy.disarm()

    @contextlib.contextmanager
    def _cut_off(self) -> Iterator[None]:
        """Keep API processes away, as an operator does who restores the database."""
        for proxy in self._proxies:
            proxy.refuse()
        try:
            yield
        finally:
            for proxy in self._proxies:
                proxy.admit()


class PostgreSQL(_NetworkServer):
    """``pg_dump`` and ``pg_restore``."""

    kind = "postgresql"
    port = 5432
    commit = b"COMMIT\0"
    parameters = "sslmode=disable"
    select = ("SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
              "AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1")
    end = "SELECT pg_terminate_backend({})"

    def dump(self, path: pathlib.Path) -> None:
        self._run("pg_dump", "--format=custom", f"--file={path}", f"--dbname={self._address}")

    def restore(self, path: pathlib.Path) -> None:
        with self._cut_off():
            self._run("pg_restore", "--clean", "--if-exists", "--single-transaction",
                      "--no-owner", f"--dbname={self._address}", str(path))

    @property
    def _address(self) -> str:
        return self._url.set(drivername="postgresql").render_as_string(hide_password=False)

    @staticmethod
    def _run(program: str, *arguments: str) -> None:
        path = server_programs.find(program, "postgresql-client", "/usr/lib/postgresql/*/bin")
        server_programs.run([path, *arguments], None)


class MySQL(_NetworkServer):
    """``mariadb-dump --single-transaction``, and the client that reads it."""

    kind = "mysql"
    port = 3306
    commit = b"\x03COMMIT"
    parameters = "ssl_disabled=true"
    select = ("SELECT id FROM information_schema.processlist WHERE db = database() "
              "AND id <> connection_id() ORDER BY rand() LIMIT 1")
    end = "KILL {}"

    def dump(self, path: pathlib.Path) -> None:
        with path.open("wb") as file:
            self._run("mariadb-dump", "--single-transaction", stdout=file.fileno())

    def restore(self, path: pathlib.Path) -> None:
        with self._cut_off(), path.open("rb") as file:
            self._run("mariadb", stdin=file.fileno())

    def _run(self, program: str, *options: str, **streams: int) -> None:
        url = self._url
        command = [
            server_programs.find(program, "mariadb-client"), "--no-defaults",
            f"--host={url.host}", f"--port={url.port or self.port}", f"--user={url.username}",
            *options, url.database or ""]
        subprocess.run(
            command, check=True, env={**os.environ, "MYSQL_PWD": url.password or ""}, **streams)


SERVERS: Mapping[str, type[Server]] = {
    "sqlite": SQLite, "postgresql": PostgreSQL, "mysql": MySQL}
