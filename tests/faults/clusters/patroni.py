"""PostgreSQL with Patroni: a leader and two standbys, etcd, and HAProxy before them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import signal
import time
from collections.abc import Iterator, Mapping

import fixtures
import psycopg

from benchmarks import processes
from tests import server_programs
from tests.faults.clusters.disks import SmallDisk
from tests.faults.disturbances import Disturbance
from tests.outages import links
from tests.server_programs import NoServerError, Program

_NODES = 3
#: Patroni's shortest: a leader that is gone is replaced after so many seconds.
_TTL_SECONDS = 20
_START_SECONDS = 90
_FAILOVER_SECONDS = 30
#: The size of a node's disk, which keeps what standbys have not read.
_MEBIBYTES = 1024
#: How many characters of a node's log are shown if it fails.
_LOGGED = 1500
#: Debian's programs with Debian's Python, whatever this one is.
_ENVIRONMENT: Mapping[str, str] = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


class Cluster(fixtures.Fixture):
    """Two API processes on HAProxy, which sends them to the leader; the second can be cut off.

    A commit waits for a standby (``synchronous_mode``), and only such a one becomes leader.

    :ivar urls: of the database, one for each API process.
    """

    has_server = True

    def _setUp(self) -> None:
        postgres = server_programs.find("postgres", "postgresql", "/usr/lib/postgresql/*/bin")
        etcd = server_programs.find("etcd", "etcd-server")
        patroni = server_programs.find("patroni", "patroni")
        haproxy = server_programs.find("haproxy", "haproxy", "/usr/sbin")
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self._folder, self._user = stack.enter_context(server_programs.folder("postgres"))
        self._disks = [self.useFixture(SmallDisk(_MEBIBYTES, self._user)) for _ in range(_NODES)]
        self._ports = [server_programs.find_free_port() for _ in range(_NODES)]
        self._rest = [server_programs.find_free_port() for _ in range(_NODES)]
        store, peers, self._front = (server_programs.find_free_port() for _ in range(3))
        self._etcd = self._program("etcd", [
            etcd, "--data-dir", f"{self._folder}/etcd",
            "--listen-client-urls", f"http://127.0.0.1:{store}",
            "--advertise-client-urls", f"http://127.0.0.1:{store}",
            "--listen-peer-urls", f"http://127.0.0.1:{peers}"],
            lambda: _get(store, "/health") is not None)
        self._etcd.start()
        self.nodes = []
        for number in range(_NODES):
            path = self._write(f"node-{number}.yml", json.dumps(
                self._configure(number, store, str(pathlib.Path(postgres).parent))))
            self.nodes.append(self._program(
                f"patroni-{number}", [patroni, path],
                lambda number=number: _get(self._rest[number], "/health") == 200))
            self.addCleanup(self._end, self.nodes[-1])
            # The first one makes the database, which the others copy.
            self.nodes[-1].begin()
            self.nodes[-1].wait(_START_SECONDS)
        self._proxy = self._program(
            "haproxy", [haproxy, "-db", "-f", self._write("haproxy.cfg", self._route())],
            self._answers)
        self._wait_for_all()
        self._proxy.start()
        # Its first checks are over then.
        time.sleep(1)
        self._link = self.useFixture(links.Link(("127.0.0.1", self._front)))
        self.urls = [
            f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres"
            for port in (self._front, self._link.address[1])]

    def _program(self, name: str, command: list[str], answers: object) -> Program:
        program = Program(command, self._user, answers, pathlib.Path(self._folder, f"{name}.log"),
                          environment=_ENVIRONMENT)
        self.addCleanup(program.stop)
        return program

    def _write(self, name: str, text: str) -> str:
        path = pathlib.Path(self._folder, name)
        path.write_text(text)
        return str(path)

    def _configure(self, number: int, store: int, programs: str) -> dict[str, object]:
        """Return Patroni's configuration of a node, in YAML that is JSON."""
        address, rest = f"127.0.0.1:{self._ports[number]}", f"127.0.0.1:{self._rest[number]}"
        return {
            "scope": "faults", "name": f"node-{number}",
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"host": f"127.0.0.1:{store}"},
            "bootstrap": {
                "dcs": {
                    "ttl": _TTL_SECONDS, "loop_wait": 2, "retry_timeout": 4,
                    "synchronous_mode": True, "primary_start_timeout": 0,
                    "master_start_timeout": 0,
                    "postgresql": {"use_pg_rewind": True, "parameters": {
                        "max_connections": 200, "wal_log_hints": "on"}}},
                "initdb": [{"encoding": "UTF8"}, "data-checksums"],
            },
            "postgresql": {
                "listen": address, "connect_address": address, "bin_dir": programs,
                "data_dir": f"{self._disks[number].path}/data",
                "pgpass": f"{self._folder}/pgpass-{number}",
                "pg_hba": ["local all all trust", "host all all 127.0.0.1/32 trust",
                           "host replication all 127.0.0.1/32 trust"],
                "authentication": {"superuser": {"username": "postgres"},
                                   "replication": {"username": "replicator"}},
                "parameters": {"unix_socket_directories": self._folder},
            },
        }

    def _route(self) -> str:
        """Return HAProxy's configuration: connections go to the leader, and end with it."""
        servers = "\n".join(
            f"  server node-{number} 127.0.0.1:{port} check port {rest} inter 500 fall 1 rise 1 "
            "on-marked-down shutdown-sessions"
            for number, (port, rest) in enumerate(zip(self._ports, self._rest, strict=True)))
        return (f"defaults\n  mode tcp\n  timeout connect 3s\n  timeout client 1h\n"
                f"  timeout server 1h\n  timeout check 2s\nlisten leader\n"
                f"  bind 127.0.0.1:{self._front}\n  option httpchk GET /primary\n{servers}\n")

    def list_disturbances(self) -> list[Disturbance]:
        """Return what may happen to the nodes, and on the way to them."""
        return [
            Disturbance("the leader is killed", self._leader_killed, 0),
            Disturbance("the leader is stopped", self._leader_stopped, 0),
            Disturbance("the leader is changed", self._leader_changed, 0),
            Disturbance("the disk of the leader is full", self._disk_full, 6),
            Disturbance("API process 1 is cut off from the database", self._cut_off, 8),
        ]

    @contextlib.contextmanager
    def _leader_killed(self) -> Iterator[None]:
        leader = self._find_leader()
        everybody = processes.tree(self.nodes[leader].pid)
        _send(everybody, signal.SIGKILL)
        self.nodes[leader].join()
        self._wait_for_another(leader)
        yield
        self.nodes[leader].begin()
        self._wait_for_all()

    @contextlib.contextmanager
    def _leader_stopped(self) -> Iterator[None]:
        """Let it stand still until another one has taken over; its watchdog ends it then.

        One that goes on may believe for a while that it is the leader: Patroni asks for a
        watchdog for this reason.
        """
        leader = self._find_leader()
        everybody = processes.tree(self.nodes[leader].pid)
        _send(everybody, signal.SIGSTOP)
        try:
            self._wait_for_another(leader)
            yield
        finally:
            _send(everybody, signal.SIGKILL)
            self.nodes[leader].join()
        self.nodes[leader].begin()
        self._wait_for_all()

    @contextlib.contextmanager
    def _leader_changed(self) -> Iterator[None]:
        leader = self._find_leader()
        _post(self._rest[leader], "/switchover", {"leader": f"node-{leader}"})
        self._wait_for_another(leader)
        yield
        self._wait_for_all()

    @contextlib.contextmanager
    def _disk_full(self) -> Iterator[None]:
        """Fill the leader's disk: it refuses writes, or it ends and another one takes over."""
        with self._disks[self._find_leader()].full():
            yield
        self._wait_for_all()

    @contextlib.contextmanager
    def _cut_off(self) -> Iterator[None]:
        self._link.hang()
        try:
            yield
        finally:
            self._link.restore()

    def _find_leader(self) -> int:
        deadline = time.monotonic() + _FAILOVER_SECONDS
        while time.monotonic() < deadline:
            for number, port in enumerate(self._rest):
                if _get(port, "/primary") == 200:
                    return number
            time.sleep(0.1)
        raise NoServerError("there is no leader")

    def _wait_for_another(self, leader: int) -> None:
        deadline = time.monotonic() + _FAILOVER_SECONDS
        while not any(_get(port, "/primary") == 200
                      for number, port in enumerate(self._rest) if number != leader):
            if time.monotonic() > deadline:
                raise NoServerError(f"nobody took over from node-{leader}")
            time.sleep(0.1)

    def _wait_for_all(self) -> None:
        """Wait until there are a leader and its standbys, one of which commits wait for."""
        deadline = time.monotonic() + _START_SECONDS
        while not (all(_get(port, "/health") == 200 for port in self._rest)
                   and any(_get(port, "/synchronous") == 200 for port in self._rest)):
            if time.monotonic() > deadline:
                raise NoServerError(f"the nodes do not find each other: {self._describe()}")
            time.sleep(0.2)

    def _describe(self) -> str:
        """Return what the nodes say of themselves, and the ends of their logs."""
        return "\n".join(
            f"node {number}: {_read(port, '/patroni')}\n{node.log.read_text()[-_LOGGED:]}"
            for number, (port, node) in enumerate(zip(self._rest, self.nodes, strict=True)))

    def _end(self, node: Program) -> None:
        everybody = processes.tree(node.pid)
        _send(everybody, signal.SIGCONT)
        node.stop()
        _send(everybody, signal.SIGKILL)

    def _answers(self) -> bool:
        """Say whether HAProxy leads to the leader; before its first checks, it leads anywhere."""
        try:
            with psycopg.connect(host="127.0.0.1", port=self._front, user="postgres",
                                 connect_timeout=3) as connection:
                [follows] = connection.execute("SELECT pg_is_in_recovery()").fetchone()
        except (psycopg.Error, OSError):
            return False
        return not follows


def _get(port: int, path: str) -> int | None:
    """Return the status of an answer; None: there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    with contextlib.closing(connection):
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None


def _read(port: int, path: str) -> str:
    """Return what is answered, or why nothing is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    with contextlib.closing(connection):
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException) as error:
            return str(error)


def _post(port: int, path: str, body: object) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", path, json.dumps(body),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read().decode()
        if answer.status != 200:
            raise NoServerError(f"{path}: {answer.status} {said}")


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
