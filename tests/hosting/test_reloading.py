"""SIGHUP: new workers take the place of old ones, and no client notices."""

from __future__ import annotations

import http.client
import os
import pathlib
import signal
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from benchmarks import processes
from placement_core.placement import tables
from placement_core.testing import factories
from tests import base, serving

#: What a busy machine may add to anything.
_SECONDS = 60.0
_TWO_GROUPS = "/allocation_candidates?resources1=VCPU:1&resources2=VCPU:1&group_policy=none"


class ReloadTestCase(base.DatabaseTestCase):
    """A service with a configuration file."""

    def serve(self, workers: int = 1, **options: str) -> serving.Service:
        service = self.useFixture(serving.Service(
            self.database.url.render_as_string(hide_password=False), workers=workers,
            options=options))
        self.until(lambda: len(self.workers(service)) == workers, "workers did not start")
        return service

    def configure(self, service: serving.Service, text: str) -> None:
        (service.log.parent / "placement.conf").write_text(text)

    def workers(self, service: serving.Service) -> set[int]:
        """Return its children, without the one that tidies up for multiprocessing."""
        return {
            pid for pid in processes.tree(service.process.pid)
            if pid != service.process.pid and is_worker(pid)}

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
                # The service may close an idle connection as the next request comes.
                if is_fresh:
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
        service = self.serve()
        before = self.workers(service)
        self.configure(service, "[limits]\ndriver = no_such_driver\n")
        self.reload(service)
        self.wait_for_line(service, "the workers stay as they are")
        line = next(line for line in service.log.read_text().splitlines() if "SIGHUP" in line)
        self.assertIn("no_such_driver", line)
        self.assertEqual(before, self.workers(service))
        self.assertEqual(200, service.request("GET", _TWO_GROUPS)[0])
        self.configure(service, "")
        self.reload(service)
        self.wait_for_new(service, before)

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


def make_claim(provider: str) -> dict[str, object]:
    return {
        "allocations": {provider: {"resources": {"VCPU": 1}}}, "project_id": "project",
        "user_id": "user", "consumer_type": "INSTANCE", "consumer_generation": None}


def is_worker(pid: int) -> bool:
    """Say whether a child of a service lives, and is not the one that tidies up."""
    try:
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return bool(command) and b"resource_tracker" not in command
