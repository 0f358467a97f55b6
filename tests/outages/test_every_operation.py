"""Every operation of every API is tried while the database is away, hangs or conflicts."""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import os
import pathlib
import time
from collections.abc import Iterator, Sequence

import fixtures
import sqlalchemy as sa
import webob

from placement_core.db import metadata
from tests import databases
from tests.http import base
from tests.outages import links, operations
from tests.outages.operations import Sample

#: What the tests configure; a client gets its answer within a few seconds more.
_NETWORK_SECONDS, _LOCK_SECONDS = 2, 1
#: The first who meet an outage wait for it to end, or for the server to speak; a slow
#: machine is given some more.
_BOUND_SECONDS = 15.0
#: Later ones are refused at once.
_AT_ONCE_SECONDS = 1.0

_PORTS = {"postgresql": 5432, "mysql": 3306}
_ALL = tuple(operations.each())


class OutageTestCase(base.HttpTestCase):
    """A service whose database can be made to fail; its log is kept."""

    options = {
        ("placement_database", "network_timeout_seconds"): _NETWORK_SECONDS,
        ("placement_database", "lock_timeout_seconds"): _LOCK_SECONDS,
        ("placement_database", "statement_timeout_seconds"): _LOCK_SECONDS,
        ("placement_database", "max_pool_size"): 8,
        ("metrics", "enabled"): True,
    }

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=logging.INFO))
        # Names are read once; what follows meets connections that are in use already.
        self.ask("GET", "/resource_classes")
        self.ask("GET", "/readiness")

    def send(self, sample: Sample) -> tuple[webob.Response, float]:
        """Send a request; return the answer, and how long it took."""
        started = time.monotonic()
        response = self.ask(
            sample.method, sample.path, sample.body, headers={"X-Roles": "admin,service"})
        return response, time.monotonic() - started

    def assert_each_refused(self, samples: Sequence[Sample], *, threads: int = 1) -> None:
        """Send requests; expect 503 of each, as its API says it, within the bounds."""
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            answers = list(pool.map(self.send, samples))
        for sample, (response, seconds) in zip(samples, answers, strict=True):
            name = f"{sample.operation}: {response.status} {response.text}"
            self.assertEqual(503, response.status_int, name)
            self.assertIn(response.headers["Retry-After"], ("1", "2", "5"), name)
            self.assertLess(seconds, _BOUND_SECONDS, name)
            if response.request is not None:
                self.assertIn("503", response.text, name)
            document = response.json
            message = {
                "placement": lambda: document["errors"][0]["detail"],
                "capacity": lambda: document["errors"][0]["detail"],
                "limits": lambda: document["error"]["message"],
                "reservation": lambda: document["error_message"],
            }[sample.api]()
            self.assertIn("atabase", message, name)

    def assert_log_is_short(self, requests: int) -> None:
        """Expect a line for each request, one with a cause at most, and no traceback."""
        self.assertNotIn("Traceback", self.log.output)
        lines = self.log.output.splitlines()
        self.assertLessEqual(len([line for line in lines if "status: 503" in line]), requests)
        self.assertLessEqual(
            len([line for line in lines if "status: " not in line]), requests + 10)

    def assert_recovers(self) -> None:
        """Expect the service to find out by itself, soon, that the database is back."""
        deadline = time.monotonic() + _BOUND_SECONDS
        while self.ask("GET", "/readiness").status_int != 200:
            self.assertLess(time.monotonic(), deadline, "not ready")
            time.sleep(0.1)
        for sample in _ALL:
            if sample.operation == "GET /capacity/v1/compute_nodes/{uuid}":
                continue  # It asks a cell that no one runs.
            response, _ = self.send(sample)
            self.assertLess(response.status_int, 500, f"{sample.operation}: {response.text}")


@databases.on_each_database
class TestNetwork(OutageTestCase):
    """Behind a link to the server."""

    def connection(self) -> str:
        url = sa.make_url(super().connection())
        if self.kind == "sqlite":
            self.skipTest("an SQLite database is a file")
        self.link = self.useFixture(
            links.Link((url.host or "", url.port or _PORTS[self.kind])))
        host, port = self.link.address
        return url.set(host=host, port=port).render_as_string(hide_password=False)

    def test_stopped(self) -> None:
        self.link.cut()
        self.assert_away()

    def test_hanging(self) -> None:
        self.link.hang()
        self.assert_away()

    def test_connections_are_cut(self) -> None:
        """A server that was restarted is not noticed by anybody."""
        # Nor by who tidies up after a write.
        self.useFixture(fixtures.MonkeyPatch("placement_core.changes.journal._PRUNE_EVERY", 1))
        for sample in _ALL:
            if sample.operation in (
                    "GET /capacity/v1/compute_nodes/{uuid}", "POST /capacity/v1/cells"):
                continue
            self.link.reset()
            response, _ = self.send(sample)
            self.assertLess(response.status_int, 500, f"{sample.operation}: {response.text}")
        self.assertNotIn("Traceback", self.log.output)

    def test_a_short_outage_is_not_noticed(self) -> None:
        self.link.cut()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(self.ask, "PUT", f"/traits/CUSTOM_{number}")
                       for number in range(4)]
            time.sleep(0.7)
            self.link.restore()
            self.assertEqual([201] * 4, [each.result().status_int for each in answers])

    def assert_away(self) -> None:
        asking = [each for each in _ALL if each.operation not in operations.WITHOUT_DATABASE]
        # Whoever comes first finds out, and so do those who come with it.
        self.assert_each_refused(asking[:4], threads=4)
        started = time.monotonic()
        self.assert_each_refused(asking)
        self.assertLess(time.monotonic() - started, len(asking) * _AT_ONCE_SECONDS / 4)
        self.assert_log_is_short(len(asking) + 4)
        self.assertIn("does not answer; requests are refused", self.log.output)
        for path, status in (("/healthcheck", 200), ("/metrics", 200), ("/readiness", 503)):
            started = time.monotonic()
            self.assertEqual(status, self.ask("GET", path).status_int)
            self.assertLess(time.monotonic() - started, _AT_ONCE_SECONDS)
        for sample in _ALL:
            if sample.operation in operations.WITHOUT_DATABASE:
                self.assertIn(self.send(sample)[0].status_int, (200, 300))
        self.link.restore()
        self.assert_recovers()


@databases.on_each_database
class TestConflicts(OutageTestCase):
    """Somebody has every table, and does not give them back."""

    def test_locked_tables(self) -> None:
        if self.kind == "sqlite":
            self.skipTest("SQLite's readers do not wait; see TestFile")
        # Answers that change nothing need no table but the change log.
        asking = [each for each in _ALL if each.operation not in operations.WITHOUT_DATABASE]
        with self.locked():
            self.assert_each_refused(asking, threads=16)
        self.assert_log_is_short(len(asking))
        self.assertNotIn("does not answer", self.log.output)
        self.assert_recovers()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock every table."""
        names = [table.name for table in metadata.sorted_tables]
        engine = sa.create_engine(
            self.parts[0].database.url, poolclass=sa.NullPool)
        with engine.connect() as connection:
            if self.kind == "postgresql":
                connection.exec_driver_sql(f"LOCK TABLE {', '.join(names)}")
            else:
                tables = ", ".join(f"{name} WRITE" for name in names)
                connection.exec_driver_sql(f"LOCK TABLES {tables}")
            yield


class TestFile(OutageTestCase):
    """SQLite's outages: another writer, no permission, no file."""

    def writers(self) -> list[Sample]:
        return [each for each in _ALL if each.operation in (
            "POST /resource_providers", "PUT /traits/{name}", "POST /resource_classes",
            "POST /v3/regions", "POST /v3/services", "POST /v3/domains",
            "POST /capacity/v1/cells")]

    def readers(self) -> list[Sample]:
        return [each for each in _ALL
                if each.method == "GET" and each.operation not in operations.WITHOUT_DATABASE]

    def test_locked(self) -> None:
        other = sa.create_engine(self.parts[0].database.url, poolclass=sa.NullPool)
        with other.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            self.assert_each_refused(self.writers())
            for sample in self.readers():
                self.assertLess(self.send(sample)[0].status_int, 500, sample.operation)
        self.assert_log_is_short(2 * len(_ALL))
        self.assert_recovers()

    def test_gone(self) -> None:
        """Open connections go on, new ones do not make another, empty database."""
        path = pathlib.Path(self.parts[0].database.url.database or "")
        files = [path, *path.parent.glob(f"{path.name}-*")]
        for each in files:
            each.rename(each.with_name(f"away-{each.name}"))
        self.parts[0].database.dispose()
        self.assert_each_refused([*self.writers(), *self.readers()])
        self.assertFalse(path.exists())
        self.assertEqual(503, self.ask("GET", "/readiness").status_int)
        for each in files:
            if each.with_name(f"away-{each.name}").exists():
                each.with_name(f"away-{each.name}").rename(each)
        self.assert_log_is_short(len(_ALL))
        self.assert_recovers()

    def test_read_only(self) -> None:
        path = pathlib.Path(self.parts[0].database.url.database or "")
        if os.geteuid() == 0:
            self.skipTest("root may write to every file")
        path.chmod(0o400)
        self.parts[0].database.dispose()
        self.assert_each_refused(self.writers())
        path.chmod(0o600)
        self.assert_recovers()
