"""Every host of the WSGI application serves it, and several together never over-book."""

from __future__ import annotations

import collections
import contextlib
import http.client
import json
import os
import pathlib
import resource
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
import uuid

import fixtures
import sqlalchemy as sa

from benchmarks import processes
from placement_core.placement import tables
from tests import base, databases, scraping, serving


class TestHosts(base.DatabaseTestCase):
    """One question and one write through each server."""

    def setUp(self) -> None:
        super().setUp()
        self.connection = self.database.settings.connection

    def _works(self, by: str) -> None:
        service = self.useFixture(serving.Service(self.connection, by=by, workers=2))
        status, root = service.request("GET", "/")
        self.assertEqual(200, status)
        self.assertEqual("1.39", root["versions"][0]["max_version"])
        name = "host behind " + by
        status, made = service.request("POST", "/resource_providers", {"name": name})
        self.assertEqual(200, status)
        # Whichever process answers, the write is seen.
        for _ in range(10):
            status, shown = service.request("GET", f"/resource_providers/{made['uuid']}")
            self.assertEqual((200, name), (status, shown["name"]))

    def test_serve(self) -> None:
        """Granian, started by our own command."""
        self._works("serve")

    def test_gunicorn(self) -> None:
        """gunicorn with placement_core.wsgi:application."""
        self._works("gunicorn")

    def test_uwsgi(self) -> None:
        """uWSGI with placement_core.wsgi:application."""
        self._works("uwsgi")

    def test_noauth2_is_for_this_machine(self) -> None:
        """Who reaches a public address from elsewhere is refused, whoever hosts."""
        elsewhere = _own_address()
        if elsewhere is None:
            self.skipTest("this machine has no address but the loopback's")
        for by in ("gunicorn", "uwsgi"):
            service = self.useFixture(serving.Service(self.connection, by=by, bind="0.0.0.0"))
            self.assertEqual(200, service.request("GET", "/resource_providers")[0], by)
            service.address = service.address.replace("127.0.0.1", elsewhere)
            status, refusal = service.request("GET", "/resource_providers")
            self.assertEqual(403, status, by)
            self.assertIn("noauth2", refusal["errors"][0]["detail"])
            self.assertIn(f"refused a caller at {elsewhere}: [api] auth_strategy = noauth2",
                          service.log.read_text())


def _own_address() -> str | None:
    """Return the address by which this machine would reach others; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if address.startswith("127.") else address


class TestMetrics(base.DatabaseTestCase):
    """Two processes that count into one folder."""

    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.sent = 0

    def _served(self, by: str, **environment: str) -> serving.Service:
        service = self.useFixture(serving.Service(
            self.database.settings.connection, by=by, workers=2,
            options={"OS_METRICS__ENABLED": "true", **environment}))
        self.sent += 1  # The fixture asks until there is an answer.
        return service

    def _ask(self, service: serving.Service, processes: int) -> None:
        """Send requests until so many processes have answered some."""
        deadline = time.monotonic() + serving.SECONDS_TO_START
        while len(self._files()) < processes:
            self.assertLess(time.monotonic(), deadline)
            self.assertEqual(200, service.request("GET", "/resource_providers")[0])
            self.sent += 1
            time.sleep(0.02)

    def _files(self) -> list[pathlib.Path]:
        """Return the files of processes that have answered; each has one before it listens."""
        return [path for path in self.folder.rglob("histogram_*.db")
                if b"http_request_seconds" in path.read_bytes()]

    def _assert_sum(self, service: serving.Service) -> None:
        for _ in range(6):  # Whichever answers, it says the same.
            with urllib.request.urlopen(f"{service.url}/metrics") as page:
                found = scraping.numbers(page.read().decode())
            self.assertEqual(
                self.sent, found["http_request_seconds_count", "placement", "2xx"])

    def test_serve(self) -> None:
        """It makes the folder and removes it; the counts of a worker that died stay."""
        service = self._served("serve", TMPDIR=str(self.folder))
        self._ask(service, processes=2)
        self._assert_sum(service)
        victim = int(self._files()[0].stem.partition("_")[2])
        os.kill(victim, signal.SIGKILL)
        self._wait_for_end(victim)
        self._ask(service, processes=3)
        self._assert_sum(service)
        os.kill(service.process.pid, signal.SIGTERM)
        self.assertEqual(0, service.process.wait(20))
        self.assertEqual([], self._files())
        self.assertEqual([], list(self.folder.iterdir()))

    def _wait_for_end(self, pid: int) -> None:
        deadline = time.monotonic() + serving.SECONDS_TO_START
        while pathlib.Path(f"/proc/{pid}/stat").exists() and time.monotonic() < deadline:
            time.sleep(0.1)

    def test_gunicorn(self) -> None:
        """The folder is in its environment."""
        service = self._served("gunicorn", PROMETHEUS_MULTIPROC_DIR=str(self.folder))
        self._ask(service, processes=2)
        self._assert_sum(service)

    def test_uwsgi(self) -> None:
        """The folder is in its environment."""
        service = self._served("uwsgi", PROMETHEUS_MULTIPROC_DIR=str(self.folder))
        self._ask(service, processes=2)
        self._assert_sum(service)

    def test_without_a_folder(self) -> None:
        """No process passes its own numbers off as those of all."""
        for by in ("gunicorn", "uwsgi"):
            service = self._served(by)
            refusal = self.assertRaises(
                urllib.error.HTTPError, urllib.request.urlopen, f"{service.url}/metrics")
            self.assertEqual(503, refusal.code)
            refusal.close()


class TestMemory(base.DatabaseTestCase):
    """Large answers from ``serve``."""

    PROVIDERS = 4000
    ANSWERS = 20

    def test_memory_of_large_answers_is_kept(self) -> None:
        """A worker does not get the memory of each answer anew, page by page."""
        self._add_providers()
        service = self.useFixture(serving.Service(self.database.settings.connection))
        path = "/allocation_candidates?resources=VCPU:1"
        _, body = service.request("GET", path)
        self.assertEqual(self.PROVIDERS, len(body["allocation_requests"]))
        size = len(json.dumps(body))
        for _ in range(5):
            service.request("GET", path)
        before = _page_faults(service.process.pid)
        for _ in range(self.ANSWERS):
            service.request("GET", path)
        faults = (_page_faults(service.process.pid) - before) / self.ANSWERS
        self.assertLess(faults, size / resource.getpagesize() / 4)

    def _add_providers(self) -> None:
        """Insert rows: 4000 requests would take longer than all the rest."""
        ids, classes = range(1, self.PROVIDERS + 1), tables.resource_classes
        with self.database.writer.begin() as connection:
            vcpu = connection.scalar(sa.select(classes.c.id).where(classes.c.name == "VCPU"))
            connection.execute(sa.insert(tables.resource_providers), [
                {"id": id_, "uuid": str(uuid.uuid4()), "name": f"host-{id_}", "generation": 1,
                 "root_provider_id": id_} for id_ in ids])
            connection.execute(sa.insert(tables.inventories), [
                {"resource_provider_id": id_, "resource_class_id": vcpu, "total": 8, "reserved": 0,
                 "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 1.0,
                 "used": 0, "capacity": 8} for id_ in ids])


def _page_faults(pid: int) -> int:
    """Return how many pages of memory a process and its children have got so far."""
    total = 0
    for process in processes.tree(pid):
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[7])
    return total


@databases.on_each_database
class TestRivals(base.DatabaseTestCase):
    """240 claims for 60 places, through two servers that share nothing but the database."""

    PLACES = 60
    CLAIMS = 240
    CLIENTS = 16

    def test_exactly_as_many_as_fit(self) -> None:
        """60 claims are acknowledged, 180 are told that there is no room, and it is true."""
        connection = self.database.url.render_as_string(hide_password=False)
        services = [
            self.useFixture(serving.Service(connection, by=by)) for by in ("serve", "gunicorn")
        ]
        provider = self._provider(services[0])
        answers = self._race(services, provider)
        self.assertEqual({204: self.PLACES, 409: self.CLAIMS - self.PLACES}, answers)
        for service in services:
            _, usages = service.request("GET", f"/resource_providers/{provider}/usages")
            self.assertEqual({"VCPU": self.PLACES}, usages["usages"])
        self.assertEqual(self.PLACES, len(self._stored()))

    def test_one_server_is_killed(self) -> None:
        """What was acknowledged stays, and the other server fills exactly what is left."""
        connection = self.database.url.render_as_string(hide_password=False)
        killed, other = (self.useFixture(serving.Service(connection)) for _ in range(2))
        provider = self._provider(other)
        acknowledged: list[str] = []
        unexpected: list[object] = []
        start = threading.Barrier(2 * self.CLIENTS)

        def client(number: int) -> None:
            service = (killed, other)[number % 2]
            kept = http.client.HTTPConnection(service.address, timeout=120)
            start.wait()
            with contextlib.suppress(OSError, http.client.HTTPException):
                for _ in range(self.CLAIMS // self.CLIENTS):
                    consumer = str(uuid.uuid4())
                    status, document = service.request(
                        "PUT", f"/allocations/{consumer}", _claim(provider), connection=kept)
                    if status == 204:
                        acknowledged.append(consumer)
                    elif "exceed the capacity" not in str(document):
                        unexpected.append(document)
                    if len(acknowledged) > self.PLACES // 3 and killed.process.poll() is None:
                        os.killpg(killed.process.pid, signal.SIGKILL)
                return
            if service is other:
                unexpected.append("the other server failed, too")

        threads = [threading.Thread(target=client, args=(n,)) for n in range(2 * self.CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], unexpected)
        self.assertEqual(-signal.SIGKILL, killed.process.wait())
        stored = self._stored()
        self.assertEqual(self.PLACES, len(stored))
        self.assertEqual(set(), set(acknowledged) - stored)

    def _stored(self) -> set[str]:
        """Return the consumers, each of which has one allocation of 1, and no more is used."""
        with self.database.autocommit.connect() as session:
            used = session.scalar(sa.select(tables.inventories.c.used))
            rows = session.execute(sa.select(
                tables.allocations.c.consumer_id, tables.allocations.c.used)).all()
            consumers = set(session.scalars(sa.select(tables.consumers.c.uuid)))
        self.assertEqual({1}, {row.used for row in rows})
        self.assertEqual(used, len(rows))
        self.assertEqual(consumers, {row.consumer_id for row in rows})
        return consumers

    def _provider(self, service: serving.Service) -> str:
        provider = str(uuid.uuid4())
        service.request("POST", "/resource_providers", {"name": "contested", "uuid": provider})
        body = {
            "resource_provider_generation": 0,
            "inventories": {"VCPU": {"total": self.PLACES}},
        }
        path = f"/resource_providers/{provider}/inventories"
        self.assertEqual(200, service.request("PUT", path, body)[0])
        return provider

    def _race(self, services: list[serving.Service], provider: str) -> dict[int, int]:
        answers: collections.Counter[int] = collections.Counter()
        unexpected: list[object] = []
        start = threading.Barrier(self.CLIENTS)

        def client(number: int) -> None:
            service = services[number % len(services)]
            kept = http.client.HTTPConnection(service.address, timeout=120)
            start.wait()
            for _ in range(self.CLAIMS // self.CLIENTS):
                status, document = service.request(
                    "PUT", f"/allocations/{uuid.uuid4()}", _claim(provider), connection=kept)
                answers[status] += 1
                if status != 204 and "exceed the capacity" not in str(document):
                    unexpected.append(document)
            kept.close()

        threads = [threading.Thread(target=client, args=(n,)) for n in range(self.CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], unexpected)
        return dict(answers)


def _claim(provider: str) -> dict[str, object]:
    return {
        "allocations": {provider: {"resources": {"VCPU": 1}}}, "project_id": "rivals",
        "user_id": "rival", "consumer_type": "INSTANCE", "consumer_generation": None}
