"""The file of an SQLite database is its owner's alone."""

from __future__ import annotations

import os
import pathlib
import stat

import fixtures

from placement_core import app
from placement_core.cells import engines
from placement_core.migrations import schema
from tests.functional.cli import test_commands
from tests.http import base


class TestSqliteFiles(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.file = folder / "placement.sqlite"
        self.connection = f"sqlite:///{self.file}"
        self.addCleanup(os.umask, os.umask(0o022))
        self.addCleanup(engines.SHARED.dispose)

    def modes(self) -> dict[str, int]:
        return {path.name.removeprefix("placement.sqlite"): stat.S_IMODE(path.stat().st_mode)
                for path in self.file.parent.iterdir()}

    def upgrade_check(self, code: int) -> str:
        printed = self.run_command("status", "upgrade", "check", code=code)
        return " ".join(printed.replace("|", " ").split())

    def start(self) -> str:
        """Start the service, and ask for something; return what it logged."""
        with fixtures.FakeLogger() as log:
            made = app.make_app(base.configuration(self.connection))
            base.webob.Request.blank("/readiness").get_response(made)
        return log.output

    def test_a_new_one(self) -> None:
        self.run_command("db", "sync")
        self.assertEqual({0o600}, set(self.modes().values()))
        self.assertNotIn("chmod", self.start())
        # Those that stand beside it while it is used.
        modes = self.modes()
        self.assertLessEqual({"", "-wal", "-shm"}, modes.keys())
        self.assertEqual({0o600}, set(modes.values()))
        self.assertIn("Database File Private Result: Success", self.upgrade_check(0))

    def test_one_of_a_cell(self) -> None:
        self.run_command("db", "sync")
        cell = self.file.parent / "cell.sqlite"
        schema.create(f"sqlite:///{cell}")
        self.assertEqual(0o600, stat.S_IMODE(cell.stat().st_mode))

    def test_one_that_others_can_read(self) -> None:
        self.run_command("db", "sync")
        for mode in (0o644, 0o640, 0o604):
            self.file.chmod(mode)
            self.assertIn(f"{self.file} can be read by others than its owner", self.start())
            self.assertIn(f"Others than their owner can use {self.file}", self.upgrade_check(1))
            # The operator decides: nothing is changed behind their back.
            self.assertEqual(mode, stat.S_IMODE(self.file.stat().st_mode))
        self.file.chmod(0o600)
        for path in self.file.parent.iterdir():
            path.chmod(0o600)
        self.assertNotIn("chmod", self.start())
