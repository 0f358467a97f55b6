"""``placement-core migrate copy`` is killed, at any moment, and goes on."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import time
from collections.abc import Callable

import fixtures
import sqlalchemy as sa

from placement_core.takeover import comparisons, targets
from placement_core.takeover.keystone import ROOT_ID
from tests import databases, keystone_database
from tests.functional.cli import commands, test_commands
from tests.functional.migrations import bare

#: How often copies are killed at least, and how often one of them at most.
_KILLS = {"sqlite": 20, "postgresql": 3, "mysql": 3}
_KILLS_OF_ONE = 7
_PROJECTS, _LIMITS = 100, 300
_ALL = 2 + _PROJECTS + 3 + _LIMITS
_COPY, _DIFF = ("migrate", "copy", "--execute"), ("migrate", "diff")


def _make_rows() -> dict[str, list[dict]]:
    domain = {"id": "d", "name": "d", "domain_id": ROOT_ID, "parent_id": None,
              "is_domain": True, "description": "", "enabled": True}
    projects = [
        {"id": f"p{number}", "name": f"p{number}", "domain_id": "d",
         "parent_id": f"p{number // 10}" if number else "d", "is_domain": False,
         "description": "", "enabled": True}
        for number in range(_PROJECTS)]
    resources = _LIMITS // _PROJECTS
    registered = [
        {"internal_id": number, "id": f"r{number}", "service_id": "s", "region_id": None,
         "resource_name": f"n{number}", "default_limit": 1, "description": None}
        for number in range(resources)]
    limits = [
        {"internal_id": number, "id": f"l{number}", "project_id": f"p{number // resources}",
         "domain_id": None, "resource_limit": 5, "description": None,
         "registered_limit_id": f"r{number % resources}"}
        for number in range(_LIMITS)]
    return {
        "service": [{"id": "s", "type": "compute", "enabled": True, "extra": "{}"}],
        "project": [domain, *projects], "registered_limit": registered, "limit": limits}


@databases.on_each_database
class TestKilled(test_commands.CommandTestCase):
    kind = "sqlite"

    def setUp(self) -> None:
        super().setUp()
        self.random = random.Random(19)
        folder = bare.database("sqlite", self.addCleanup).removeprefix("sqlite:///")
        self.source = keystone_database.make(folder, _make_rows())

    def make_ours(self) -> None:
        self.connection = databases.settings(self.kind).connection

    def start(self, *arguments: str) -> int:
        """Start a command in a process of its own, with all modules; return its id."""
        child = os.fork()
        if child == 0:
            code = 127
            with contextlib.suppress(BaseException):
                code = commands.run(
                    *arguments, "--from", f"keystone={self.source}",
                    connection=self.connection).returncode
            os._exit(code)
        return child

    def run_whole(self, *arguments: str) -> float:
        """Run a command to its end; return the seconds that it took."""
        began = time.monotonic()
        _, status = os.waitpid(self.start(*arguments), 0)
        self.assertEqual(0, os.waitstatus_to_exitcode(status))
        return time.monotonic() - began

    def kill(self, seconds: float, *arguments: str) -> bool:
        """Start a command, kill it so much later; return whether it had not ended yet."""
        child = self.start(*arguments)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        self.assertIn(code, (0, -signal.SIGKILL))
        return code != 0

    def count(self, statement: str) -> int:
        engine = sa.create_engine(self.connection, poolclass=sa.NullPool)
        with engine.connect() as connection:
            return connection.execute(sa.text(statement)).scalar_one()

    def test_copies_killed_at_random_moments(self) -> None:
        self.useFixture(fixtures.MonkeyPatch(f"{targets.__name__}.Writer.batch", 10))
        self.make_ours()
        whole = self.run_whole(*_COPY)
        killed = 0
        parts = set()
        # Some are to be half-way.
        while killed < _KILLS[self.kind] or not parts - {0, _ALL}:
            self.make_ours()
            for number in range(_KILLS_OF_ONE):
                moment = self.random.uniform(0, whole)
                if not self.kill(moment, *_COPY):
                    # What was measured was slower.
                    whole = whole if number else moment
                    break
                killed += 1
                parts.add(self.count("SELECT count(*) FROM copied_records"))
            self.run_whole(*_COPY)
            self.check_all()

    def check_all(self) -> None:
        """Check that all is here, and once only."""
        self.assertEqual([], json.loads(self.run_command(
            "migrate", "diff", "--from", f"keystone={self.source}", "-f", "json")))
        for table, expected in (
                ("catalog_projects", _PROJECTS), ("limits", _LIMITS),
                ("copied_records", _ALL),
                # What was made is told once.
                ("limit_history", 3 + _LIMITS)):
            self.assertEqual(expected, self.count(f"SELECT count(*) FROM {table}"), table)

    def test_a_comparison_goes_on_where_it_was_killed(self) -> None:
        self.useFixture(fixtures.MonkeyPatch(f"{comparisons.__name__}.CHUNK", 10))
        self.make_ours()
        self.run_whole(*_COPY)
        compared = 0
        for _ in range(6):
            chunks = self.random.randint(1, 6)
            deadly = _make_deadly(comparisons._advance, chunks)
            with fixtures.MonkeyPatch(f"{comparisons.__name__}._advance", deadly):
                _, status = os.waitpid(self.start(*_DIFF, "--resume"), 0)
            self.assertEqual(-signal.SIGKILL, os.waitstatus_to_exitcode(status))
            before, compared = compared, self.count("SELECT compared FROM comparisons")
            # Some chunks are the ends of kinds.
            self.assertTrue(before <= compared <= before + 10 * (chunks - 1))
        self.assertTrue(compared > 0)
        self.run_whole(*_DIFF, "--resume")
        self.assertEqual(1, self.count("SELECT count(*) FROM comparisons"))
        self.assertEqual(_ALL, self.count(
            "SELECT compared FROM comparisons WHERE finished_at IS NOT NULL"))


def _make_deadly(function: Callable[..., None], number: int) -> Callable[..., None]:
    """Return a function that is killed, with its process, before the call of a number."""
    calls = itertools.count(1)

    def call(*arguments: object) -> None:
        if next(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        function(*arguments)

    return call
