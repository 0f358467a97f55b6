"""``placement-core serve``: what it refuses, and how it starts and stops."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import datetime
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable

import fixtures
from oslo_config import cfg

from benchmarks import processes
from placement_core import conf
from placement_core.changes.journal import Journal
from placement_core.cli import serve
from placement_core.db.database import Database, Settings
from placement_core.db.metadata import utcnow
from placement_core.http import local_callers
from placement_core.migrations import revisions
from placement_core.reservations.leases import notifications
from tests import base, databases, serving
from tests.functional.cli import commands, test_commands
from tests.functional.migrations import bare
from tests.functional.reservations import eventful


class TestRefusals(test_commands.CommandTestCase):
    def refused(self, *arguments: str, code: int = 1, **more: str) -> str:
        self.run_command("serve", *arguments, code=code, **more)
        return self.stderr

    def test_noauth_on_a_public_address(self) -> None:
        for host in ("0.0.0.0", "[::]", "192.0.2.1", "example.org"):
            said = self.refused("--bind", f"{host}:18799")
            self.assertIn("noauth2", said)
            self.assertIn("--allow-insecure", said)
            self.assertEqual(1, said.count("\n"), said)

    def test_alone_on_a_public_address(self) -> None:
        """A slow client would silence it."""
        for host in ("0.0.0.0", "[::]", "192.0.2.1", "example.org"):
            said = self.refused(
                "--bind", f"{host}:18799", OS_API__AUTH_STRATEGY="keystone")
            self.assertIn("--behind-proxy", said)
            self.assertIn("nginx.conf.sample", said)
            self.assertEqual(1, said.count("\n"), said)

    def test_a_proxy_makes_nobody_authentic(self) -> None:
        said = self.refused("--bind", "0.0.0.0:18799", "--behind-proxy")
        self.assertIn("noauth2", said)

    def test_address_in_use(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            said = self.refused("--bind", f"127.0.0.1:{port}")
        self.assertEqual(f"--bind 127.0.0.1:{port}: Address already in use\n", said)

    def test_what_would_stop_its_workers(self) -> None:
        """It ends with one line; no worker is started that would die of it again and again."""
        policy = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "policy.yaml")
        policy.write_text("nonsense\n")
        for expected, more in (
            ("[keystone_authtoken] auth_type: expected", {"OS_API__AUTH_STRATEGY": "keystone"}),
            ("[keystone_authtoken]: ", {
                "OS_API__AUTH_STRATEGY": "keystone",
                "OS_KEYSTONE_AUTHTOKEN__WWW_AUTHENTICATE_URI": "http://keystone.invalid",
                "OS_KEYSTONE_AUTHTOKEN__AUTH_TYPE": "passwort"}),
            (str(policy), {"OS_OSLO_POLICY__POLICY_FILE": str(policy)}),
            ("[limits] enforcement_model", {"OS_LIMITS__ENFORCEMENT_MODEL": "tre"}),
        ):
            text = self.refused("--bind", "127.0.0.1:18799", **more)
            self.assertIn(expected, text)
            self.assertEqual(1, text.count("\n"), text)

    def test_bad_arguments(self) -> None:
        for arguments in (("--bind", "8778"), ("--bind", "host:"), ("--bind", "host:99999"),
                          ("--workers", "0"), ("--threads", "x")):
            self.assertIn("argument", self.refused(*arguments, code=2))

    def test_loopback(self) -> None:
        self.assertTrue(all(map(
            local_callers.is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost"))))


class TestThreads(base.TestCase):
    """A worker has some to spare when all wait that may."""

    def test_those_of_the_command(self) -> None:
        self.assertEqual(16 + 256 + 14 + 4, self.count())

    def test_those_of_the_option(self) -> None:
        """It decides how many requests are processed."""
        self.assertEqual(64 + 256 + 62 + 4, self.count(max_concurrent_requests=64))
        self.assertEqual(2 + 40 + 0 + 4, self.count(
            max_concurrent_requests=2, max_waiting_requests=40))

    def count(self, **options: int) -> int:
        settings = cfg.ConfigOpts()
        conf.register(settings)
        for name, value in options.items():
            settings.set_override(name, value, "api")
        return serve._count_threads(settings, 16)


class TestServe(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.connection = bare.database("sqlite", self.addCleanup)

    def test_makes_the_database_serves_and_stops(self) -> None:
        service = self.useFixture(serving.Service(self.connection, workers=2))
        status, body = service.request("GET", "/resource_providers")
        self.assertEqual((200, {"resource_providers": []}), (status, body))
        # A worker answers some time before the parent has seen it and says so.
        self._wait_for(service, " serves on ")
        # SIGTERM to the parent alone: it ends its workers.
        os.kill(service.process.pid, signal.SIGTERM)
        self.assertEqual(0, service.process.wait(20))
        first, *others = service.log.read_text().splitlines()
        self.assertEqual(f"the schema is at {revisions.head()}", first)
        self.assertEqual(1, others.count(
            f"placement-core serves on {service.url} (2 workers of 16 threads, "
            f"{self.connection}, noauth2)"), others)
        self.assertEqual([], [line for line in others if "WARNING" in line])
        self.assertRaises(OSError, service.request, "GET", "/")

    def _wait_for(self, service: serving.Service, text: str) -> None:
        """Wait until a service has printed a text."""
        deadline = time.monotonic() + serving.SECONDS_TO_START
        while text not in service.log.read_text():
            self.assertLess(time.monotonic(), deadline, f"never said: {text}")
            time.sleep(0.02)

    def test_says_that_it_serves_when_it_answers(self) -> None:
        """Whoever waits for the line may send requests at once, on any address."""
        for bind in ("127.0.0.1", "0.0.0.0"):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            process = subprocess.Popen(
                [sys.executable, "-m", "placement_core", "serve", "--no-manager",
                 "--allow-insecure", "--bind", f"{bind}:{port}"],
                env=commands.environment(self.connection), cwd=pathlib.Path(__file__).parents[3],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.terminate)
            self.assertTrue(any(" serves on " in line for line in process.stdout))
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
                self.assertEqual(200, answer.status)

    def test_a_worker_that_died_is_replaced(self) -> None:
        service = self.useFixture(serving.Service(self.connection))
        if not os.path.exists("/proc"):
            self.skipTest("needs Linux")
        workers = service.list_forked()
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self._serves(service) and not workers & service.list_forked():
                return
            time.sleep(0.2)
        self.fail(service.log.read_text())

    def test_the_fork_server_dies(self) -> None:
        """Nobody knows of the processes that it forked any more: others take their place."""
        if not os.path.exists("/proc"):
            self.skipTest("needs Linux")
        service = self.useFixture(
            serving.Service(self.connection, by="serve with manager", workers=2))
        deadline = time.monotonic() + 120
        while len(before := service.list_forked()) < 3:  # two workers and the manager
            self.assertLess(time.monotonic(), deadline, service.log.read_text())
            time.sleep(0.1)
        [server] = {processes.parent(pid) for pid in before}
        os.kill(server, signal.SIGKILL)
        while (any(map(processes.is_alive, before))
               or len(service.list_forked()) < 3 or not self._serves(service)):
            self.assertLess(time.monotonic(), deadline, service.log.read_text())
            time.sleep(0.2)
        self.assertEqual(0, service.stop())

    @staticmethod
    def _serves(service: serving.Service) -> bool:
        try:
            return service.request("GET", "/traits")[0] == 200
        except OSError:
            return False

    def test_nobody_forges_a_line_of_its_log(self) -> None:
        service = self.useFixture(serving.Service(self.connection))
        forged = "2026-01-01 00:00:00.000 1 CRITICAL placement [-] all is lost\x1b[2J"
        _, provider = service.request("POST", "/resource_providers", {"name": "host"})
        service.request("PUT", f"/resource_providers/{provider['uuid']}/inventories", {
            "inventories": {"VCPU": {"total": 1}}, "resource_provider_generation": 0})
        claim = {"claim": {
            "project_id": f"project\n{forged}", "user_id": "user", "consumer_type": "INSTANCE",
            "allocations": {provider["uuid"]: {"resources": {"VCPU": 1}}}, "hold_seconds": 1}}
        self.assertEqual(201, service.request("POST", "/capacity/v1/claims", claim)[0])
        # The next one needs its room, and is logged with the project's id when it expires.
        deadline = time.monotonic() + 30
        while service.request("POST", "/capacity/v1/claims", claim)[0] != 201:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.2)
        self._wait_for(service, "of project project\\n2026-01-01 ")
        text = service.log.read_text()
        self.assertNotIn("\n2026-01-01", text)
        self.assertNotIn("\x1b", text)

    def test_each_answer_is_in_the_log_of_a_service_that_ended(self) -> None:
        """Also those that a worker gave just before it ended, or another one replaced it."""
        service = self.useFixture(serving.Service(self.connection, workers=2))

        def ask() -> list[str]:
            ids = []
            for _ in range(100):
                # A worker that ends closes a connection of which it has read nothing yet.
                with (contextlib.suppress(ConnectionResetError),
                      urllib.request.urlopen(f"{service.url}/") as answer):
                    ids.append(answer.headers["x-openstack-request-id"])
            return ids

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(ask) for _ in range(4)]
            os.kill(service.process.pid, signal.SIGHUP)
            ids = [request_id for each in asking for request_id in each.result()]
        self.assertLess(395, len(ids))
        os.kill(service.process.pid, signal.SIGTERM)
        self.assertEqual(0, service.process.wait(20))
        lines = [line for line in service.log.read_text().splitlines() if "status: 200" in line]
        logged = collections.Counter(
            re.search(r" request_id: (\S+)", line)[1] for line in lines)
        self.assertEqual({}, {each: logged[each] for each in ids if logged[each] != 1})

    def test_workers_end_with_a_parent_that_was_killed(self) -> None:
        """Else they would go on serving, and keep the address from the next start."""
        service = self.useFixture(serving.Service(self.connection, workers=2))
        os.kill(service.process.pid, signal.SIGKILL)
        service.process.wait(20)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                service.request("GET", "/")
            except OSError:
                return
            time.sleep(0.2)
        self.fail("the workers still serve")

    def test_other_databases_want_db_sync(self) -> None:
        for kind in databases.KINDS[1:]:
            connection = bare.database(kind, self.addCleanup)
            done = commands.run("serve", connection=connection)
            self.assertEqual(1, done.returncode)
            self.assertIn("run `placement-core db sync`", done.stderr)


class TestManaged(base.TestCase):
    """The manager that runs beside the workers."""

    def setUp(self) -> None:
        super().setUp()
        self.connection = bare.database("sqlite", self.addCleanup)
        self.service = self.useFixture(
            serving.Service(self.connection, by="serve with manager"))

    def test_it_works_is_replaced_and_ends_with_the_service(self) -> None:
        [first] = self._managers(1)
        os.kill(first, signal.SIGKILL)
        _, second = self._managers(2)
        database = Database(Settings(self.connection), Journal())
        self.addCleanup(database.dispose)
        now = utcnow().replace(microsecond=0)
        [lease] = eventful.leases(
            database, [eventful.Row(now, now + datetime.timedelta(hours=1))])
        self._until(lambda: eventful.effects(database) == {(lease, notifications.STARTED): 1})
        os.kill(self.service.process.pid, signal.SIGTERM)
        self.assertEqual(0, self.service.process.wait(60))
        self.assertFalse(_is_there(second), self.service.log.read_text())

    def test_it_ends_with_a_parent_that_was_killed(self) -> None:
        [manager] = self._managers(1)
        os.kill(self.service.process.pid, signal.SIGKILL)
        self.service.process.wait(20)
        self._until(lambda: not _is_there(manager))

    def _managers(self, count: int) -> list[int]:
        """Return the ids of the processes that were managers, once there were so many."""
        found: list[str] = []

        def there() -> bool:
            found[:] = re.findall(r"manager \S+:(\d+):\w+ carries out events",
                                  self.service.log.read_text())
            return len(found) == count

        self._until(there)
        return [int(pid) for pid in found]

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + serving.SECONDS_TO_START
        while not condition():
            self.assertLess(time.monotonic(), deadline, self.service.log.read_text())
            time.sleep(0.1)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
