"""``placement-core db check-engine``."""

from __future__ import annotations

import json
import pathlib

import fixtures

from placement_core.cli import engine
from placement_core.db.database import Database
from placement_core.engine_checks import checks, tables, trial
from tests.functional.cli import commands, test_commands

_PASSWORD = "dont-show-this"


class TestCheckEngine(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.url = f"sqlite:///{self.folder}/other.sqlite"

    def few(self, *names: str) -> None:
        """Let only these checks run."""
        self.useFixture(fixtures.MonkeyPatch(f"{engine.__name__}.CHECKS", [
            check for check in checks.CHECKS if check.name in names]))

    def check(self, *arguments: str, code: int, **more: str) -> str:
        done = commands.run(
            "db", "check-engine", *arguments, connection=self.connection, **more)
        self.assertEqual((code, ""), (done.returncode, done.stderr), done.stdout)
        return done.stdout

    def test_the_configured_database(self) -> None:
        path = pathlib.Path(self.connection.removeprefix("sqlite:///"))
        self.run_command("db", "sync")
        before = path.read_bytes()
        *lines, last = self.check(code=0).splitlines()
        expected = [check.name for check in checks.CHECKS if "sqlite" in check.dialects]
        self.assertEqual(len(expected), len(lines))
        for name, line in zip(expected, lines, strict=True):
            self.assertRegex(line, f"^ok +{name} +[A-Z]")
        self.assertRegex(last, rf"^{len(expected)} checks\. SQLite [0-9.]+ is supported\.$")
        self.assertEqual(before, path.read_bytes())
        self.assertEqual(
            [], [other.name for other in path.parent.iterdir() if tables.PREFIX in other.name])

    def test_a_url_needs_no_configuration(self) -> None:
        self.few("version", "updates wait")
        self.connection = None
        self.assertIn("2 checks.", self.check(self.url, code=0))
        # Nor does it make the database that it names.
        self.assertEqual([], list(self.folder.iterdir()))

    def test_a_limitation(self) -> None:
        self.few("version", "durable commits")
        options = {"OS_PLACEMENT_DATABASE__SQLITE_SYNCHRONOUS": "false"}
        version, durable, last = self.check(code=1, **options).splitlines()
        self.assertRegex(version, "^ok +version ")
        self.assertRegex(durable, "^warning +durable commits .*: PRAGMA synchronous .* is 0: ")
        self.assertIn("supported, with the limitations above", last)
        rows = json.loads(self.check("-f", "json", code=1, **options))
        self.assertEqual([("version", "ok"), ("durable commits", "warning")],
                         [(row["check"], row["result"]) for row in rows])
        self.assertEqual("", rows[0]["details"])
        self.assertIn(rows[1]["details"], durable)
        self.assertEqual({"check", "result", "rule", "details"}, set(rows[0]))

    def test_an_engine_that_is_not_supported(self) -> None:
        class Broken(Database):
            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **options)
                self.snapshot = self.autocommit

        self.useFixture(fixtures.MonkeyPatch(f"{trial.__name__}.Database", Broken))
        self.few("version", "durable commits", "snapshots")
        lines = self.check(
            code=2, OS_PLACEMENT_DATABASE__SQLITE_SYNCHRONOUS="false").splitlines()
        self.assertRegex(lines[2], "^failed +snapshots .*: expected .*; seen: ")
        self.assertRegex(lines[-1], "^3 checks.* is not supported.$")

    def test_a_database_that_cannot_be_reached(self) -> None:
        for url, shown in (
            (f"postgresql://me:{_PASSWORD}@127.0.0.1:1/d", "postgresql://me:***@127.0.0.1:1/d"),
            (f"mysql://me:{_PASSWORD}@127.0.0.1:1/d", "mysql://me:***@127.0.0.1:1/d"),
            ("sqlite:////nonexistent/x.sqlite", "sqlite:////nonexistent/x.sqlite"),
        ):
            done = commands.run("db", "check-engine", url, connection=self.connection)
            self.assertEqual((255, "", 1), (
                done.returncode, done.stdout, done.stderr.count("\n")), done.stderr)
            self.assertIn(f"URL = {shown}: ", done.stderr)
            self.assertNotIn(_PASSWORD, done.stderr)

    def test_no_url(self) -> None:
        for url in ("nonsense", f"oracle://me:{_PASSWORD}@h/d", f"mysql://me:{_PASSWORD}@@h/d"):
            done = commands.run("db", "check-engine", url, connection=self.connection)
            self.assertEqual((255, 1), (done.returncode, done.stderr.count("\n")), done.stderr)
            self.assertRegex(done.stderr, "URL( = .*)?: expected ")
            self.assertNotIn(_PASSWORD, done.stderr)
