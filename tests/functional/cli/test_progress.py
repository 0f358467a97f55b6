"""Commands that take long show how far they are: on a terminal, and only there."""

from __future__ import annotations

import types
from unittest import mock

from placement_core.cli import progress
from tests import base
from tests.functional.cli import commands, test_commands


class TestBars(test_commands.CommandTestCase):
    def test_audit(self) -> None:
        self.run_command("db", "sync")
        for number in range(3):
            self.execute("INSERT INTO resource_providers (uuid, name, generation, "
                         f"root_provider_id) VALUES ('u{number}', 'h{number}', 0, 1)")
        code, printed, shown = commands.run_on_terminal("db", "audit", connection=self.connection)
        self.assertEqual((0, "Nothing differs: what is used equals the allocations.\n"),
                         (code, printed))
        self.assertRegex(shown, "resource providers .*3/3")
        self.assertEqual("", commands.run_process(
            "db", "audit", connection=self.connection).stderr)

    def test_online_migrations(self) -> None:
        self.run_command("db", "sync")
        for number in range(60):
            self.execute("INSERT INTO allocations (resource_provider_id, consumer_id, "
                         f"resource_class_id, used, txn) VALUES (1, 'consumer-{number}', 0, 1, 0)")
        code, printed, shown = commands.run_on_terminal(
            "db", "online-data-migrations", connection=self.connection)
        self.assertEqual(0, code)
        self.assertIn("| create_incomplete_consumers |", printed)
        self.assertRegex(shown, "create_incomplete_consumers .*60/60")

    def test_sync(self) -> None:
        code, printed, shown = commands.run_on_terminal("db", "sync", connection=self.connection)
        self.assertEqual(0, code)
        self.assertIn("the schema is at ", printed)
        self.assertRegex(shown, r"revisions of the schema .*\d/\d")


class TestLines(base.TestCase):
    def test_now_and_then(self) -> None:
        """Where there is no terminal, a long run writes a line from time to time."""
        notes: list[str] = []
        clock = mock.Mock(return_value=100.0)
        with mock.patch.object(progress, "time", types.SimpleNamespace(monotonic=clock)):
            with progress.Lines(notes.append, notes.append) as lines:
                lines.report("rows", 1, 9)
                for second, done in ((129, 2), (130, 3), (131, 4), (159, 5), (161, 6)):
                    clock.return_value = second
                    lines.report("rows", done, 9)
        self.assertEqual(["rows: 3 of 9", "rows: 6 of 9"], notes)
