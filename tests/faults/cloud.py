"""A small cloud on a cluster: API processes, managers, hosts, projects and limits."""

from __future__ import annotations

import collections
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import fixtures
import sqlalchemy as sa

from placement_core import db
from placement_core.changes import vector
from placement_core.changes.journal import Journal
from placement_core.context import Context
from placement_core.db.database import Database, Settings
from placement_core.db.metadata import utcnow
from placement_core.placement import tables
from placement_core.placement.usage import audit
from placement_core.reservations import records, tables as lease_tables
from tests.faults import clients
from tests.faults.history import History
from tests.server_programs import Program, find_free_port

_ROOT = pathlib.Path(__file__).parents[2]
TRAIT = "CUSTOM_FAULTS"
CLASS = "VCPU"
#: How many there are of the class on the hot host, and on the others.
_HOT, _COLD = 60, 24
_HOSTS, _LEASED_HOSTS = 12, 4
_LIMITS = (80, 120, 160)
_FIRST_LIMIT = 120
#: Loading libraries, on a machine that is busy with other tests.
_START_SECONDS = 180
_PROJECTS = ("one", "two", "three")
#: What comes before each line of the log about a request that failed with 500, and how many of
#: the last ones say why.
_FAILURE, _LAST_LINES = " ERROR placement_core.http.tweens ", 20
_OPTIONS = {
    "OS_API__AUTH_STRATEGY": "noauth2",
    "OS_LIMITS__ENFORCEMENT_MODEL": "tree",
    "OS_QUOTA__SERVICE_TYPE": "compute",
    "OS_QUOTA__COUNT_USAGE_FROM_PLACEMENT": "true",
    "OS_QUOTA__GUARD": "enforce",
    # What has to happen within a play, has to happen soon.
    "OS_PLACEMENT_DATABASE__NETWORK_TIMEOUT_SECONDS": "4",
    "OS_PLACEMENT_DATABASE__LOCK_TIMEOUT_SECONDS": "10",
    "OS_PLACEMENT_DATABASE__STATEMENT_TIMEOUT_SECONDS": "10",
    "OS_PLACEMENT_DATABASE__IDLE_IN_TRANSACTION_TIMEOUT_SECONDS": "5",
    "OS_RESERVATIONS__EVENT_TIMEOUT_SECONDS": "10",
}


class Cloud(fixtures.Fixture):
    """Processes of the product, and what they work on.

    :ivar apis: API processes, which listen on ``ports``.
    :ivar managers: managers of leases.
    :ivar ports: those that clients use.
    """

    def __init__(
        self, urls: Sequence[str], *, managers: int = 2, workers: int = 1,
        code: pathlib.Path = _ROOT, options: Mapping[str, str] | None = None,
        own_url: str | None = None,
    ) -> None:
        """Prepare a cloud.

        :param urls: of the database, through each of the cluster's nodes: each has an API
            process.
        :param workers: of each API process.
        :param code: the folder with the version of the product that runs at first.
        :param options: more environment of all processes, such as OS_PLACEMENT__…
        :param own_url: through which the database is asked about the end; None: the first one.
        """
        super().__init__()
        self._urls = urls
        self._own_url = own_url or urls[0]
        self._count = managers
        self._workers = workers
        self._code = code
        self._more_options = dict(options or {})

    def _setUp(self) -> None:
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        exit_code, text = run_command(self._code, self._own_url, "db", "sync")
        assert exit_code == 0, text
        self.apis, self.managers, self.ports = self.start(self._code)
        self._database = Database(Settings(self._own_url), Journal())
        self.addCleanup(self._database.dispose)
        self._fill()

    def start(
        self, code: pathlib.Path, suffix: str = ""
    ) -> tuple[list[Program], list[Program], list[int]]:
        """Start API processes and managers of a version; return them, and the former's ports.

        :param suffix: of the names of their logs.
        """
        ports = [find_free_port() for _ in self._urls]
        apis = [
            self._program(
                f"api-{number}{suffix}", code, url, "serve", "--bind", f"127.0.0.1:{port}",
                "--workers", str(self._workers), "--no-manager", port=port)
            for number, (url, port) in enumerate(zip(self._urls, ports, strict=True))]
        managers = [
            self._program(f"manager-{number}{suffix}", code,
                          self._urls[number % len(self._urls)], "manager")
            for number in range(self._count)]
        for program in (*apis, *managers):
            program.begin()
            self.addCleanup(program.stop)
        for program in apis:
            program.wait(_START_SECONDS)
        return apis, managers, ports

    def _program(
        self, name: str, code: pathlib.Path, url: str, *command: str, port: int | None = None
    ) -> Program:
        return Program(
            _command(command), None, lambda: port is None or is_served(port),
            self.folder / name, end=signal.SIGTERM, environment={
                **_make_environment(code, url, self.folder), **self._more_options})

    @property
    def context(self) -> Context:
        """Return a context on the cluster's first node, for what is asked in the end."""
        return Context(self._database)

    def _fill(self) -> None:
        self.ask("PUT", f"/traits/{TRAIT}")
        self.hot = self.make_host("hot", {CLASS: _HOT}, [TRAIT])
        self.hosts = [self.make_host(f"host-{number}", {CLASS: _COLD}, [TRAIT])
                      for number in range(_HOSTS)]
        self.capacity = {(self.hot, CLASS): _HOT, **{(host, CLASS): _COLD for host in self.hosts}}
        for number in range(_LEASED_HOSTS):
            self.make_host(
                f"leased-{number}", {CLASS: _COLD, "MEMORY_MB": 1024, "DISK_GB": 1024})
            self.ask("POST", "/v1/os-hosts", {"name": f"leased-{number}"})
        service = self.ask("POST", "/v3/services", {"service": {
            "type": "compute", "name": "nova"}})["service"]["id"]
        domain = self.ask("POST", "/v3/domains", {"domain": {"name": "cloud"}})["domain"]["id"]
        top = self._make_project("top", domain, None)
        self.projects = [self._make_project(name, domain, top) for name in _PROJECTS]
        named = {"service_id": service, "region_id": None, "resource_name": f"class:{CLASS}"}
        self.ask("POST", "/v3/registered_limits", {"registered_limits": [
            {**named, "default_limit": _FIRST_LIMIT}]})
        (limit,) = self.ask("POST", "/v3/limits", {"limits": [
            {**named, "project_id": top, "resource_limit": _FIRST_LIMIT}]})["limits"]
        self.limit, self.first_limit = limit["id"], _FIRST_LIMIT

    def _make_project(self, name: str, domain: str, parent: str | None) -> str:
        made: str = self.ask("POST", "/v3/projects", {"project": {
            "name": name, "domain_id": domain, "parent_id": parent}})["project"]["id"]
        return made

    def make_host(
        self, name: str, totals: Mapping[str, int], traits: Sequence[str] = ()
    ) -> str:
        """Make a provider with an inventory; return its uuid."""
        provider: str = self.ask("POST", "/resource_providers", {"name": name})["uuid"]
        self.ask("PUT", f"/resource_providers/{provider}/inventories", {
            "resource_provider_generation": 0,
            "inventories": {name: {"total": total} for name, total in totals.items()}})
        self.ask("PUT", f"/resource_providers/{provider}/traits", {
            "resource_provider_generation": 1, "traits": list(traits)})
        return provider

    def ask(
        self, method: str, path: str, body: object = None, *, port: int | None = None
    ) -> dict[str, Any]:
        """Send a request that succeeds; return the document.

        :param port: of the process to ask.
        """
        connection = http.client.HTTPConnection(
            "127.0.0.1", port or self.ports[0], timeout=clients.PATIENCE_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), {
                **clients.Client.headers, **clients.Lessor.headers,
                "Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read()
        assert response.status in (200, 201, 204), (path, response.status, content)
        document: dict[str, Any] = json.loads(content) if content else {}
        return document

    def make_clients(
        self, history: History, seed: int, stopped: threading.Event
    ) -> list[clients.Client]:
        """Return clients of every kind, which ask nothing yet."""
        shared = (self.ports, history, seed, stopped)
        claims = {"projects": self.projects}
        return [
            *(clients.Claimer(f"hot {number}", *shared, hosts=[self.hot], **claims)
              for number in range(3)),
            *(clients.Claimer(f"spread {number}", *shared, hosts=self.hosts, **claims)
              for number in range(4)),
            *(clients.Ganger(f"gangs {number}", *shared, trait=TRAIT, **claims)
              for number in range(2)),
            clients.LimitChanger("limits", *shared, limit=self.limit, values=_LIMITS),
            clients.Watcher("watcher", *shared, providers=[self.hot, *self.hosts[:2]]),
            *(clients.Lessor(f"lessor {number}", *shared) for number in range(2)),
        ]

    def read_final(self) -> Mapping[str, Hashable]:
        """Return what there is of every object that clients change."""
        allocations, providers, classes = (
            tables.allocations, tables.resource_providers, tables.resource_classes)
        held: dict[str, set[tuple[str, str, int]]] = {}
        with self._database.autocommit.connect() as connection:
            for row in connection.execute(
                    sa.select(allocations.c.consumer_id, providers.c.uuid, classes.c.name,
                              allocations.c.used)
                    .join(providers, providers.c.id == allocations.c.resource_provider_id)
                    .join(classes, classes.c.id == allocations.c.resource_class_id)):
                held.setdefault(row.consumer_id, set()).add((row.uuid, row.name, row.used))
            leases = collections.Counter(connection.scalars(
                sa.select(lease_tables.leases.c.name)
                .where(lease_tables.leases.c.deleted_at.is_(None))))
        final: dict[str, Hashable] = {
            clients.name_consumer(consumer): frozenset(each) for consumer, each in held.items()}
        limit = self.ask("GET", f"/v3/limits/{self.limit}")["limit"]
        final[f"limit {self.limit}"] = limit["resource_limit"]
        # Names of leases are not unique: one that was made twice would look like one.
        return final | {
            f"lease {name}": "there" if count == 1 else f"there {count} times"
            for name, count in leases.items()}

    def check_database(self) -> list[str]:
        """Find what is wrong in the database by itself."""
        problems = [f"audit: {finding}" for finding in audit.audit(self.context, repair=False)]
        with self._database.autocommit.connect() as connection:
            problems += _check_overlaps(connection) + _check_effects(connection)
        return problems

    def read_revision(self) -> int:
        """Return how many transactions there were."""
        with db.read(self.context) as session:
            return vector.read_current(session).digest[0]

    def count_late(self, seconds: int) -> int:
        """Return how many events of leases have been due for some time, and are not done."""
        events = lease_tables.lease_events
        with self._database.autocommit.connect() as connection:
            count: int = connection.scalar(
                sa.select(sa.func.count()).select_from(events).where(
                    events.c.status != records.DONE,
                    events.c.due_at <= utcnow() - datetime.timedelta(seconds=seconds)))
        return count

    def read_log(self, name: str) -> str:
        """Return what a process has said."""
        return (self.folder / name).read_text(errors="replace")

    def list_tracebacks(self) -> list[str]:
        """Return the end of what each process has logged of requests that failed with 500."""
        ends = {}
        for path in sorted(self.folder.iterdir()):
            lines = self.read_log(path.name).splitlines()
            ends[path.name] = [
                line.partition(_FAILURE)[2] for line in lines if _FAILURE in line][-_LAST_LINES:]
        return ["\n".join([f"{name} said", *lines]) for name, lines in ends.items() if lines]


def _check_overlaps(connection: sa.Connection) -> list[str]:
    """Find bookings that overlap on a host although one of them is of the whole host."""
    bookings = lease_tables.computehost_allocations
    one, other = bookings.alias(), bookings.alias()
    return [
        f"host {row.computehost_id} is booked twice: {row.reservation_id} from {row.start_second} "
        f"to {row.end_second}, {row.other} from {row.other_start} to {row.other_end}"
        for row in connection.execute(
            sa.select(one.c.computehost_id, one.c.reservation_id, one.c.start_second,
                      one.c.end_second, other.c.reservation_id.label("other"),
                      other.c.start_second.label("other_start"),
                      other.c.end_second.label("other_end"))
            .join(other, sa.and_(
                other.c.computehost_id == one.c.computehost_id,
                other.c.reservation_id != one.c.reservation_id,
                other.c.start_second < one.c.end_second,
                one.c.start_second < other.c.end_second))
            # A lease that was deleted as it began holds nothing.
            .where(one.c.whole, one.c.start_second < one.c.end_second,
                   other.c.start_second < other.c.end_second))]


def _check_effects(connection: sa.Connection) -> list[str]:
    """Find events of leases that had their effect more than once."""
    notices = lease_tables.lease_notices
    count = sa.func.count()
    return [
        f"lease {row.lease_id}: {row.event} {row.number} times"
        for row in connection.execute(
            sa.select(notices.c.lease_id, notices.c.event, count.label("number"))
            .group_by(notices.c.lease_id, notices.c.event).having(count > 1))]


def _command(command: Sequence[str]) -> list[str]:
    # -P: the version of the current folder may be another one.
    return [sys.executable, "-P", "-m", "placement_core", *command]


def _make_environment(code: pathlib.Path, url: str, folder: pathlib.Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
    return {
        **kept, **_OPTIONS,
        "PYTHONPATH": os.pathsep.join([str(code), str(code / "plugins")]),
        # The machine's own placement.conf is none of our business.
        "OS_PLACEMENT_CONFIG_DIR": str(folder),
        "OS_PLACEMENT_DATABASE__CONNECTION": url}


def run_command(code: pathlib.Path, url: str, *command: str) -> tuple[int, str]:
    """Run a command to its end; return its exit code and what it says.

    :param code: the folder with the version of the product.
    :param url: of the database.
    """
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            _command(command), env=_make_environment(code, url, pathlib.Path(folder)),
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def is_served(port: int) -> bool:
    """Say whether a process answers there, and reaches its database."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/readiness")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
