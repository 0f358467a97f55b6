"""The list of the commands, and what reading it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from placement_core.cli import base as command_base, commands as command_table
from tests import base, databases
from tests.functional.cli import commands

#: Loading any of these takes longer than everything that the help needs.
_HEAVY = {"sqlalchemy", "oslo_config", "oslo_log", "oslo_db", "pyramid", "numpy"}
_RUN = """
import json, sys
from placement_core.cli import main
try:
    main.main(sys.argv[1:])
except SystemExit:
    pass
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


class TestMain(base.TestCase):
    """The first thing that anybody calls."""

    def test_every_command_can_be_called(self) -> None:
        """Each name of the table leads to a command that says what it does."""
        for name in command_table.COMMANDS:
            command = command_table.make_entry_point(name).load()
            self.assertTrue(issubclass(command, command_base.Configured), name)
            summary = command_table.read_summary(name)
            self.assertGreater(len(summary.split()), 1, name)
            self.assertTrue((command.__doc__ or "").startswith(summary), name)

    def test_help_lists_every_command(self) -> None:
        """Aligned, each with its summary; ``help`` alone is the same."""
        help_text = commands.run("--help").stdout
        for name in command_table.COMMANDS:
            self.assertRegex(help_text, rf"(?m)^  {name} +{command_table.read_summary(name)[:20]}")
        self.assertEqual(help_text, commands.run("help").stdout)
        self.assertEqual(help_text, commands.run().stdout)

    def test_help_of_one_command(self) -> None:
        """It needs the command's module, and names its options."""
        done = commands.run("help", "leases", "list")
        self.assertEqual(0, done.returncode)
        self.assertIn("--config-file", done.stdout)
        self.assertEqual(done.stdout, commands.run("leases", "list", "--help").stdout)

    def test_what_is_not_needed_is_not_imported(self) -> None:
        """``--version`` and ``--help`` load nothing of the service."""
        for option in ("--version", "--help"):
            done = subprocess.run(
                [sys.executable, "-c", _RUN, option], env=commands.environment(None),
                capture_output=True, text=True, check=True)
            loaded = set(json.loads(done.stdout.splitlines()[-1]))
            self.assertIn("cliff", loaded)
            self.assertEqual(set(), _HEAVY & loaded, option)


class TestClosedPipe(base.TestCase):
    """Whoever reads the answer stops, as ``head`` does: no error, and no word of it."""

    def run_unread(self, *arguments: str, buffered: bool = True) -> tuple[int, str]:
        """Run a command whose stdout nobody reads; return its exit code and its stderr.

        :param buffered: whether a short answer is written when the command has ended only.
        """
        environment = commands.environment(
            databases.settings("sqlite").connection, PYTHONUNBUFFERED="" if buffered else "1")
        reading_end, writing_end = os.pipe()
        os.close(reading_end)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "placement_core", *arguments], env=environment,
                stdout=writing_end, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
        finally:
            os.close(writing_end)
        return done.returncode, done.stderr

    def test_a_long_answer(self) -> None:
        self.assertEqual((141, ""), self.run_unread("config", "sample"))

    def test_a_short_answer(self) -> None:
        for buffered in (True, False):
            self.assertEqual((141, ""), self.run_unread(
                "db", "version", "-f", "json", buffered=buffered))

    def test_checks(self) -> None:
        """That nobody reads their results does not mean that they did not run."""
        self.assertEqual((141, ""), self.run_unread(
            "status", "upgrade", "check", "-f", "json", buffered=False))

    def test_help(self) -> None:
        """That of one command is printed by a pager, which has an exit code of its own."""
        self.assertEqual((141, ""), self.run_unread("--help"))
        self.assertEqual("", self.run_unread("leases", "list", "--help")[1])
