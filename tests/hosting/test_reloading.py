"""SIGHUP: new workers take the place of old ones, and no client notices."""

from __future__ import annotations

import contextlib
import http.client
import os
import pathlib
import signal
import socket
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any

import fixtures
import sqlalchemy as sa

from benchmarks import processes
from placement_core.cli import supervisor
from placement_core.placement import tables
from placement_core.testing import factories
from tests import base, databases, scraping, serving
from tests.outages import links

#: What a busy machine may add to anything.
_SECONDS = 60.0
_TWO_GROUPS = "/allocation_candidates?resources1=VCPU:1&resources2=VCPU:1&group_policy=none"

_ROOT = pathlib.Path(__file__).parents[2]
_IMPORTED_FROM = (str(_ROOT), str(_ROOT / "plugins"))
#: What a machine does that is short of memory or processes, while there is a file beside it.
_REFUSE_FORKS = """\
import errno, os

def fork(refusal=os.path.join(os.path.dirname(__file__), "forks-are-refused"), fork=os.fork):
    if os.path.exists(refusal):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return fork()

os.fork = fork
"""


class ReloadTestCase(base.DatabaseTestCase):
    """A service with a configuration file."""

    def serve(
        self, workers: int = 1, configuration: str | None = None, **options: str
    ) -> serving.Service:
        """Start a service.

        :param configuration: the text of its file; where it names no database, the environment
            does.
        """
        names_database = configuration is not None and "connection = " in configuration
        service = self.useFixture(serving.Service(
            None if names_database else self.get_connection(), workers=workers, options=options,
            configuration=configuration))
        self.until(lambda: len(self.workers(service)) == workers, "workers did not start")
        return service

    def get_connection(self) -> str:
        return self.database.url.render_as_string(hide_password=False)

    def configure(self, service: serving.Service, text: str) -> None:
        (service.log.parent / "placement.conf").write_text(text)

    def workers(self, service: serving.Service) -> set[int]:
        return {pid for pid in service.list_forked() if processes.is_alive(pid)}

    def reload(self, service: serving.Service) -> None:
        os.kill(service.process.pid, signal.SIGHUP)

    def wait_for_new(self, service: serving.Service, before: set[int]) -> None:
        self.until(
            lambda: len(self.workers(service)) == len(before)
            and not before & self.workers(service),
            "no new workers")

    def wait_for_line(self, service: serving.Service, line: str) -> None:
        self.until(lambda: line in service.log.read_text(), f"nobody said: {line}")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)


class TestReports(ReloadTestCase):
    def test_workers_that_were_replaced(self) -> None:
        """They took their leave: nobody looks for what has happened to them."""
        service = self.serve(OS_WORKERS__REPORT="true")

        def reported() -> set[int]:
            document: Any = service.request("GET", "/capacity/v1/workers")[1]
            return {worker["process_id"] for worker in document["workers"]}

        before = self.workers(service)
        self.until(lambda: reported() == before, "it does not report")
        self.reload(service)
        self.wait_for_new(service, before)
        self.until(lambda: reported() == self.workers(service), "the first one is still there")


class TestBusyClients(ReloadTestCase):
    """Clients that never pause, on connections that they keep, and on new ones."""

    CLIENTS = 8

    def setUp(self) -> None:
        super().setUp()
        self.provider = factories.provider(self.ctx, inventory={"VCPU": 100_000}).uuid
        self.acknowledged: set[str] = set()
        self.unexpected: list[object] = []
        self.closed_unread = 0

    def test_one_worker(self) -> None:
        self.check(workers=1)

    def test_two_workers(self) -> None:
        self.check(workers=2)

    def check(self, workers: int) -> None:
        """Every connection is accepted, every request answered, and nothing is lost."""
        service = self.serve(workers)
        over = threading.Event()
        threads = [threading.Thread(target=self.play, args=(service, number, over))
                   for number in range(self.CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            self.wait_for_claims()
            before = self.workers(service)
            self.reload(service)
            self.wait_for_new(service, before)
            self.wait_for_claims()
        finally:
            over.set()
            for thread in threads:
                thread.join()
        self.assertEqual([], self.unexpected)
        self.assertLess(self.closed_unread, 3)
        self.assertEqual(self.acknowledged, self.stored())
        self.assertNotIn("SIGHUP:", service.log.read_text())

    def play(self, service: serving.Service, number: int, over: threading.Event) -> None:
        connection = http.client.HTTPConnection(service.address, timeout=_SECONDS)
        while not over.is_set():
            is_fresh = connection.sock is None
            consumer = str(uuid.uuid4())
            try:
                status, document = service.request(
                    "PUT", f"/allocations/{consumer}", make_claim(self.provider),
                    connection=connection)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                # The service may close an idle connection as the next request comes, and, hardly
                # ever, a new one of which it has read nothing.
                if is_fresh and isinstance(error, ConnectionResetError):
                    self.closed_unread += 1
                elif is_fresh:
                    self.unexpected.append(error)
                continue
            if status == 204:
                self.acknowledged.add(consumer)
            else:
                self.unexpected.append(document)
            if number % 2:
                connection.close()
        connection.close()

    def wait_for_claims(self) -> None:
        count = len(self.acknowledged) + 10 * self.CLIENTS
        self.until(lambda: len(self.acknowledged) > count, "the clients are slow")

    def stored(self) -> set[str]:
        with self.database.autocommit.connect() as connection:
            return set(connection.scalars(sa.select(tables.consumers.c.uuid)))


class TestConfiguration(ReloadTestCase):
    """What new workers go by, and when there are none."""

    def test_it_is_read_again(self) -> None:
        service = self.serve()
        self.assertEqual(200, service.request("GET", _TWO_GROUPS)[0])
        self.configure(service, "[placement]\nmax_request_groups = 1\n")
        before = self.workers(service)
        self.reload(service)
        self.wait_for_new(service, before)
        self.assertEqual(400, service.request("GET", _TWO_GROUPS)[0])

    def test_one_that_is_wrong_changes_nothing(self) -> None:
        """One line says what is wrong; the workers go on, and the next reload works."""
        right = f"[placement_database]\nconnection = {self.get_connection()}\n"
        service = self.serve(configuration=right)
        before = self.workers(service)
        for count, (wrong, reason) in enumerate((
                (f"{right}[limits]\ndriver = no_such_driver\n", "no_such_driver"),
                (right.replace("sqlite:///", "sqlite:////nowhere"), "unable to open"),
        ), start=1):
            self.configure(service, wrong)
            self.reload(service)
            self.until(lambda count=count: len(self.refusals(service)) == count, "not refused")
            self.assertIn(reason, self.refusals(service)[-1])
            self.assertEqual(before, self.workers(service))
            self.assertEqual(200, service.request("GET", _TWO_GROUPS)[0])
        self.assertNotIn("Traceback", service.log.read_text())
        self.configure(service, right)
        self.reload(service)
        self.wait_for_new(service, before)

    def refusals(self, service: serving.Service) -> list[str]:
        return [line for line in service.log.read_text().splitlines()
                if "SIGHUP: " in line and line.endswith("; the workers stay as they are")]

    def test_a_database_that_is_silent_holds_nothing_up(self) -> None:
        """A start would wait for it, for ever; here, nobody would replace or end workers."""
        service = self.serve(
            configuration=f"[placement_database]\nconnection = {self.get_connection()}\n")
        before = self.workers(service)
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            self.configure(service, (
                "[placement_database]\nmax_retries = -1\nretry_interval = 1\n"
                "network_timeout_seconds = 1\n"
                f"connection = postgresql://jane@127.0.0.1:{silent.getsockname()[1]}/x\n"))
            self.reload(service)
            self.wait_for_line(service, "does not answer; ")
            self.assertEqual(before, self.workers(service))
            self.assertEqual(200, service.request("GET", _TWO_GROUPS)[0])
            os.kill(service.process.pid, signal.SIGTERM)
            self.assertEqual(0, service.process.wait(supervisor.STOP_SECONDS))
        self.assertEqual(1, len(self.refusals(service)))

    def test_a_service_that_waits_for_its_database(self) -> None:
        """The signal does not end it: systemd would not start it again."""
        if "postgresql" not in databases.KINDS:
            self.skipTest("needs PostgreSQL")
        url = sa.make_url(databases.settings("postgresql").connection)
        link = self.useFixture(links.Link((url.host or "", url.port or 5432)))
        link.cut()
        host, port = link.address
        service = self.useFixture(StartingService(
            url.set(host=host, port=port).render_as_string(hide_password=False),
            options={"OS_PLACEMENT_DATABASE__RETRY_INTERVAL": "1"}))
        self.wait_for_line(service, "does not answer; asking again")
        self.reload(service)
        link.restore()
        workers: set[int] = set()

        def is_replaced() -> bool:
            workers.update(self.workers(service))
            return len(workers) > 1

        self.until(is_replaced, "it forgot the signal")
        service.wait()

    def test_metrics_that_are_enabled(self) -> None:
        """The new workers count together: whichever is asked, it knows of all requests."""
        service = self.serve(workers=2)
        self.configure(service, "[metrics]\nenabled = true\n")
        before = self.workers(service)
        self.reload(service)
        self.wait_for_new(service, before)
        for _ in range(40):
            self.assertEqual(200, service.request("GET", "/resource_providers")[0])
        for _ in range(10):
            with urllib.request.urlopen(f"{service.url}/metrics") as page:
                numbers = scraping.numbers(page.read().decode())
            self.assertEqual(
                40, numbers["http_request_seconds_count", "placement", "2xx"])

    def test_more_requests_that_may_wait(self) -> None:
        """There are threads for them, and others for health checks."""
        options = "[api]\nmax_concurrent_requests = 2\nmax_wait_seconds = 60\n"
        service = self.serve(configuration=f"{options}max_waiting_requests = 0\n")
        self.configure(service, f"{options}max_waiting_requests = 40\n")
        before = self.workers(service)
        self.reload(service)
        self.wait_for_new(service, before)
        connections = [
            http.client.HTTPConnection(service.address, timeout=_SECONDS) for _ in range(30)]
        # Nobody else can write meanwhile.
        with self.database.writer.begin():
            for number, connection in enumerate(connections):
                self.addCleanup(connection.close)
                connection.request("POST", "/resource_providers", f'{{"name": "host{number}"}}', {
                    "X-Auth-Token": "admin", "Content-Type": "application/json"})
            for _ in range(10):
                with urllib.request.urlopen(f"{service.url}/healthcheck", timeout=20) as page:
                    self.assertEqual(200, page.status)
        self.assertEqual({201}, {
            connection.getresponse().status for connection in connections})

    def test_remote_callers_that_are_not_admitted_any_more(self) -> None:
        service = self.serve(configuration="[api]\nallow_remote_noauth2 = true\n")
        self.assertEqual(200, self.ask_through_proxy(service))
        self.configure(service, "")
        before = self.workers(service)
        self.reload(service)
        self.wait_for_new(service, before)
        self.assertEqual(403, self.ask_through_proxy(service))
        self.assertEqual(200, service.request("GET", "/resource_providers")[0])

    def ask_through_proxy(self, service: serving.Service) -> int:
        connection = http.client.HTTPConnection(service.address, timeout=_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", "/resource_providers", headers={
                "X-Auth-Token": "admin", "X-Forwarded-For": "192.0.2.1"})
            return connection.getresponse().status

    def test_it_can_be_stopped_meanwhile(self) -> None:
        service = self.serve()
        before = self.workers(service)
        self.reload(service)
        self.until(lambda: len(self.workers(service)) > len(before), "no new worker")
        os.kill(service.process.pid, signal.SIGTERM)
        self.assertEqual(0, service.process.wait(_SECONDS))
        self.assertNotIn("ended before", service.log.read_text())

    def test_a_worker_that_fails_changes_nothing(self) -> None:
        """It is killed as it starts."""
        service = self.serve()
        before = self.workers(service)
        self.reload(service)
        self.until(lambda: len(self.workers(service)) > len(before), "no new worker")
        for pid in self.workers(service) - before:
            os.kill(pid, signal.SIGKILL)
        self.wait_for_line(service, "a new worker ended before it was ready")
        self.assertEqual(before, self.workers(service))
        self.assertEqual(200, service.request("GET", _TWO_GROUPS)[0])


    def test_no_process_can_be_forked(self) -> None:
        """Whoever serves goes on, however often a reload is tried; later, one works."""
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (folder / "sitecustomize.py").write_text(_REFUSE_FORKS)
        service = self.serve(PYTHONPATH=os.pathsep.join([str(folder), *_IMPORTED_FROM]))
        before = self.workers(service)
        refusal = folder / "forks-are-refused"
        refusal.touch()
        for count in (1, 2, 3):
            self.reload(service)
            self.until(
                lambda count=count: service.log.read_text().count(
                    "SIGHUP: a new worker could not be started ([Errno 11] ") == count,
                "not refused")
            self.assertEqual(before, self.workers(service))
            self.assertEqual(200, service.request("GET", _TWO_GROUPS)[0])
        refusal.unlink()
        self.reload(service)
        self.wait_for_new(service, before)
        self.assertEqual(200, service.request("GET", _TWO_GROUPS)[0])
        self.assertEqual(0, service.stop())


class StartingService(serving.Service):
    """One that does not answer yet."""

    wait = serving.Service._wait

    def _wait(self) -> None:
        """Let ``wait`` do so."""


def make_claim(provider: str) -> dict[str, object]:
    return {
        "allocations": {provider: {"resources": {"VCPU": 1}}}, "project_id": "project",
        "user_id": "user", "consumer_type": "INSTANCE", "consumer_generation": None}
