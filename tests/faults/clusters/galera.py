"""Three MariaDB nodes with Galera, each in a network namespace and on a disk of its own."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence

import fixtures
import pymysql

from tests import server_programs
from tests.faults.clusters import networks
from tests.faults.clusters.disks import SmallDisk
from tests.faults.disturbances import Disturbance, halted, killed
from tests.server_programs import NoServerError, Program

_NODES = 3
#: A node that is not heard of for so long is shut out by the others.
_SUSPECTED_SECONDS = 3
#: Until a node that was away has the state of the others.
_JOIN_SECONDS = 90
_MEBIBYTES = 250


class Cluster(fixtures.Fixture):
    """Three nodes, with an API process on each.

    :ivar urls: of the database, one for each API process.
    """

    has_server = True
    #: {number of a node: the API processes that use it}
    apis_of: Mapping[int, Sequence[int]] = {number: (number,) for number in range(_NODES)}

    def _setUp(self) -> None:
        server = server_programs.find("mariadbd", "mariadb-server", "/usr/sbin")
        self._install = server_programs.find(
            "mariadb-install-db", "mariadb-server", "/usr/bin")
        provider = server_programs.find("libgalera_smm.so", "galera-4", "/usr/lib/galera")
        server_programs.find("rsync", "rsync")
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self._folder, self._user = stack.enter_context(server_programs.folder("mysql"))
        self._network = self.useFixture(networks.Network("node", _NODES))
        self._disks = [self.useFixture(SmallDisk(_MEBIBYTES, self._user)) for _ in range(_NODES)]
        self.nodes = [self._make_node(number, server, provider) for number in range(_NODES)]
        for number, node in enumerate(self.nodes):
            self.addCleanup(node.stop)
            node.start(*(["--wsrep-new-cluster", f"--init-file={self._write_grants()}"]
                         if number == 0 else []))
        self._wait_for_all()
        self._ask(0, "CREATE DATABASE placement")
        node_of = {api: node for node, apis in self.apis_of.items() for api in apis}
        self.urls = [
            f"mysql+pymysql://root@{self._network.addresses[node_of[api]]}:3306/placement"
            for api in range(_NODES)]

    def _make_node(self, number: int, server: str, provider: str) -> Program:
        data, address = f"{self._disks[number].path}/data", self._network.addresses[number]
        basedir = f"--basedir={pathlib.Path(server).parents[1]}"
        server_programs.run([
            self._install, "--no-defaults", basedir, f"--datadir={data}", "--skip-test-db",
            "--auth-root-authentication-method=normal"], self._user)
        everyone = ",".join(self._network.addresses)
        command = [
            *self._network.enter(number), server, "--no-defaults", basedir, f"--datadir={data}",
            f"--socket={self._folder}/socket-{number}", f"--pid-file={self._folder}/pid-{number}",
            f"--bind-address={address}", "--port=3306", "--max-connections=400",
            "--skip-name-resolve", "--innodb-log-file-size=32M",
            *([f"--user={self._user}"] if self._user else []),
            "--binlog-format=ROW", "--default-storage-engine=InnoDB",
            "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON", f"--wsrep-provider={provider}",
            f"--wsrep-cluster-address=gcomm://{everyone}", "--wsrep-cluster-name=faults",
            f"--wsrep-node-address={address}", f"--wsrep-node-name=node-{number}",
            # Own writes are read on any node.
            "--wsrep-sync-wait=1", "--wsrep-sst-method=rsync",
            f"--wsrep-sst-receive-address={address}:4444",
            "--wsrep-provider-options="
            f"evs.suspect_timeout=PT{_SUSPECTED_SECONDS}S;"
            f"evs.inactive_timeout=PT{2 * _SUSPECTED_SECONDS}S;gcache.size=32M",
        ]
        # The first process has to be root to enter the namespace; the server changes its user.
        return Program(command, None, lambda: self._is_synced(number),
                       pathlib.Path(self._folder, f"log-{number}"))

    def _write_grants(self) -> pathlib.Path:
        """Return a file of statements that let this machine in; the others copy the first node."""
        path = pathlib.Path(self._folder, "grants.sql")
        path.write_text("CREATE USER root@'%' IDENTIFIED BY '';\n"
                        "GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;\n")
        return path

    def list_disturbances(self) -> list[Disturbance]:
        """Return what may happen to the nodes."""
        return [
            *(Disturbance(f"node {number} is killed", lambda number=number: self._away(
                number, killed(self.nodes[number])), 6) for number in range(_NODES)),
            *(Disturbance(f"node {number} is stopped", lambda number=number: self._away(
                number, halted(self.nodes[number])), 2 * _SUSPECTED_SECONDS + 4)
              for number in range(_NODES)),
            *(Disturbance(f"node {number} is cut off", lambda number=number: self._away(
                number, self._network.cut_off(number)), 2 * _SUSPECTED_SECONDS + 4)
              for number in range(_NODES)),
            # A node that cannot apply what the others wrote was seen to answer with what was
            # before, right before it stood still: most likely it lets those go on that wait for
            # that ("wsrep_sync_wait").
            *(Disturbance(f"the disk of node {number} is full",
                          lambda number=number: self._disk_full(number), 6,
                          stale_apis=self.apis_of.get(number, ()))
              for number in range(_NODES)),
        ]

    @contextlib.contextmanager
    def _away(
        self, number: int, during: contextlib.AbstractContextManager[None]
    ) -> Iterator[None]:
        """Let something happen to a node; wait until it has joined the others again."""
        with during:
            yield
        self._wait_for_all()

    @contextlib.contextmanager
    def _disk_full(self, number: int) -> Iterator[None]:
        """Fill a node's disk; make room and restart it, as its operator has to.

        A node that cannot write what the others did ends, or leaves them and does not come back.
        """
        with self._disks[number].full():
            yield
        self.nodes[number].stop()
        self.nodes[number].start()
        self._wait_for_all()

    def _wait_for_all(self) -> None:
        deadline = time.monotonic() + _JOIN_SECONDS
        while not all(map(self._is_synced, range(_NODES))) or self._count_members() != _NODES:
            if time.monotonic() > deadline:
                raise NoServerError("the nodes do not find each other: "
                                    + "; ".join(map(self._describe, range(_NODES))))
            time.sleep(0.2)

    def _count_members(self) -> int:
        return int(self._ask(0, "SHOW STATUS LIKE 'wsrep_cluster_size'")[0][1])

    def _is_synced(self, number: int) -> bool:
        try:
            return self._ask(number, "SHOW STATUS LIKE 'wsrep_ready'")[0][1] == "ON"
        except (pymysql.Error, OSError):
            return False

    def _describe(self, number: int) -> str:
        try:
            return str(dict(self._ask(number, "SHOW STATUS LIKE 'wsrep_local_state_comment'")))
        except (pymysql.Error, OSError) as error:
            log = self.nodes[number].log.read_text(errors="replace")
            return f"node {number}: {error}; {log[-500:]}"

    def _ask(self, number: int, statement: str) -> list[tuple[str, str]]:
        connection = pymysql.connect(
            host=self._network.addresses[number], port=3306, user="root", connect_timeout=2,
            read_timeout=3, write_timeout=3)
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())


class OneNodeCluster(Cluster):
    """Three nodes, of which all API processes use the first one."""

    apis_of: Mapping[int, Sequence[int]] = {0: tuple(range(_NODES))}
