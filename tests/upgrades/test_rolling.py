"""A rolling upgrade from the previous release, under load, as the operator's guide says it."""

from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import fixtures
from testtools import content, content_type

from placement_core.db.database import Settings
from placement_core.migrations import revisions, sync
from tests import base, databases
from tests.faults import cloud as clouds, play
from tests.faults.history import History
from tests.functional.migrations import bare
from tests.upgrades import previous_release

#: What a busy machine may add to anything.
_SECONDS = 120.0
#: So many answers each client gets of each process between two steps, at least.
_ANSWERS = 20
#: Plays a test again as it was.
_SEED = "PLACEMENT_TEST_UPGRADE_SEED"
_NEW = previous_release.ROOT
#: Nothing breaks here, so processes are as patient with a busy machine as they are by default.
_OPTIONS = {
    "OS_PLACEMENT_DATABASE__NETWORK_TIMEOUT_SECONDS": "10",
    "OS_PLACEMENT_DATABASE__LOCK_TIMEOUT_SECONDS": "30",
    "OS_PLACEMENT_DATABASE__STATEMENT_TIMEOUT_SECONDS": "60",
    "OS_PLACEMENT_DATABASE__IDLE_IN_TRANSACTION_TIMEOUT_SECONDS": "60",
    "OS_RESERVATIONS__EVENT_TIMEOUT_SECONDS": "30",
}


class UpgradeTestCase(base.TestCase):
    """A database without tables, and the code of the previous release."""

    kind = "sqlite"

    def setUp(self) -> None:
        super().setUp()
        if missing := previous_release.find_missing():
            self.skipTest(missing)  # the last line of "make test" says so
        self.old = previous_release.unpack(
            pathlib.Path(self.useFixture(fixtures.TempDir()).path))
        self.url = bare.database(self.kind, self.addCleanup)


@databases.on_each_database
class TestRollingUpgrade(UpgradeTestCase):
    """Two API processes and a manager of each version on one database."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = clouds.Cloud(
            [self.url, self.url], managers=1, code=self.old, options=_OPTIONS)
        self.useFixture(self.cloud)
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.history = History(folder / "history.jsonl")
        self.addCleanup(self.history.close)
        self.stopped = threading.Event()
        seed = int(os.environ.get(_SEED, random.randrange(10_000)))
        self.addDetail("seed", content.text_content(f"{_SEED}={seed}"))
        self.clients = self.cloud.make_clients(self.history, seed, self.stopped)
        self.steps: list[str] = []
        self.addDetail("steps", content.Content(
            content_type.UTF8_TEXT, lambda: ["\n".join(self.steps).encode()]))

    def test_no_request_fails(self) -> None:
        """Nothing is lost or over-booked, and limits hold, whichever version answers."""
        with self.load():
            self.wait_for_answers()
            self.run_command("db", "sync")
            self.wait_for_answers()
            self.note_step("start the new version")
            apis, managers, ports = self.cloud.start(_NEW, "-new")
            self.cloud.ports.extend(ports)
            self.wait_for_answers()
        self.assert_same_answers()
        with self.load():
            for program in self.cloud.apis:
                # The load balancer sends it nothing more.
                self.cloud.ports.pop(0)
                self.wait_for_answers()
                self.note_step(f"stop {program.log.name}")
                program.stop()
                self.assertNotIn("were cut", program.log.read_text())
            for program in self.cloud.managers:
                program.stop()
            self.run_command("db", "online-data-migrations")
            self.run_command("db", "sync", "--contract")
            self.wait_for_answers()
        self.assertFalse([program.log.name for program in (*apis, *managers)
                          if program.has_ended()])
        self.assertEqual([], self.find_failures())
        self.assertEqual([], play.wait_for_events(self.cloud) + play.check(
            self.cloud, self.history))

    @contextlib.contextmanager
    def load(self) -> Iterator[None]:
        """Let clients act on the processes of ``cloud.ports``."""
        self.stopped.clear()
        threads = [threading.Thread(target=client.run, daemon=True) for client in self.clients]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopped.set()
            for thread in threads:
                thread.join(_SECONDS)
        self.assertEqual([], [client.failure for client in self.clients if client.failure])

    def wait_for_answers(self) -> None:
        """Wait until each client has asked anew, and each process answered."""
        began, first = time.monotonic(), len(self.history.answers)

        def is_enough() -> bool:
            answers = [answer for answer in self.history.answers[first:]
                       if answer.began > began]
            by_port = collections.Counter(answer.server for answer in answers)
            names = {answer.client for answer in answers}
            return (all(by_port[port] >= _ANSWERS for port in self.cloud.ports)
                    and all(client.name in names for client in self.clients))

        self.until(is_enough, "clients are not answered")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def note_step(self, what: str) -> None:
        """Let the details of a failure say when a step began, by the clock of the history."""
        self.steps.append(f"{time.monotonic():.3f} {what}")

    def run_command(self, *command: str) -> None:
        self.note_step(" ".join(command))
        exit_code, text = clouds.run_command(_NEW, self.url, *command)
        self.assertEqual(0, exit_code, text)

    def assert_same_answers(self) -> None:
        """Compare what each process says of hosts and quotas, now that they do not change."""
        answers = {port: self.read_answers(port) for port in self.cloud.ports}
        expected = answers[self.cloud.ports[0]]
        for each in answers.values():
            self.assertEqual(expected, each)

    def read_answers(self, port: int) -> list[Any]:
        summaries = self.cloud.ask(
            "GET", f"/allocation_candidates?resources={clouds.CLASS}:1&required={clouds.TRAIT}",
            port=port)["provider_summaries"]
        paths = [
            *(f"/resource_providers/{host}/{part}"
              for host in (self.cloud.hot, *self.cloud.hosts)
              for part in ("inventories", "usages", "allocations")),
            *(f"/usages?project_id={project}" for project in self.cloud.projects)]
        limit = self.cloud.ask("GET", f"/v3/limits/{self.cloud.limit}", port=port)["limit"]
        return [summaries, limit["resource_limit"],
                *(self.cloud.ask("GET", path, port=port) for path in paths)]

    def find_failures(self) -> list[object]:
        """Return answers that a client could not do with: none, or an error of the service."""
        return [answer for answer in self.history.answers
                if answer.status is None or answer.status >= 500]


class TestOtherSchemas(UpgradeTestCase):
    """A version that starts on the schema of another one says so, in its only line."""

    def test_newer_code(self) -> None:
        clouds.run_command(self.old, self.url, "db", "sync")
        self.assert_refused(
            _NEW, f"{previous_release.read_head(self.old)}, expected {revisions.head()}: run "
            "`placement-core db sync`")

    def test_older_code(self) -> None:
        sync.sync(Settings(self.url))
        self.assert_refused(self.old, f"{revisions.head()}, which this version of placement-core "
                            f"does not know (its newest is {previous_release.read_head(self.old)})"
                            ": a newer version upgraded it")

    def assert_refused(self, code: pathlib.Path, text: str) -> None:
        exit_code, said = clouds.run_command(code, self.url, "manager")
        self.assertEqual(1, exit_code, said)
        self.assertRegex(said, f"^[^\n]*{re.escape(text)}\n$")
