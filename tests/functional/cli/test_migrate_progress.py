"""How far ``placement-core migrate`` is, from the reading of the first source on; its pace."""

from __future__ import annotations

import pathlib
import types

import fixtures
import sqlalchemy as sa

from placement_core.cli import progress
from placement_core.takeover import copier
from tests import keystone_database
from tests.functional.cli import commands, test_commands


class TestProgress(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / "keystone.sqlite"
        self.source = keystone_database.make(path, {"region": [
            {"id": id_, "parent_region_id": None, "description": ""}
            for id_ in ("north", "south")]})

    def test_what_is_read_is_reported(self) -> None:
        self.useFixture(fixtures.MonkeyPatch(f"{progress.__name__}._LINE_EVERY_SECONDS", 0.0))
        copied = ["regions: 1 of 2", "regions: 2 of 2"]
        for command, lines in ((("check",), []), (("copy", "--execute"), copied),
                               (("diff",), copied[1:])):
            done = commands.run("migrate", *command, "--from", f"keystone={self.source}",
                                connection=self.connection)
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertEqual(
                ["sources read: 0 of 1", "sources read: 1 of 1", *lines],
                done.stderr.splitlines())

    def record_pauses(self) -> list[float]:
        """Return where the seconds go for which copies pause; none does."""
        pauses: list[float] = []
        self.patch(copier, "time", types.SimpleNamespace(sleep=pauses.append))
        return pauses

    def test_no_faster_than_its_pace(self) -> None:
        pauses = self.record_pauses()
        self.run_command("migrate", "copy", "--execute", "--pace", "4", "--from",
                         f"keystone={self.source}")
        self.assertEqual(2 / 4, sum(pauses))
        pauses.clear()
        engine = sa.create_engine(self.source, poolclass=sa.NullPool)
        with engine.begin() as connection:
            connection.execute(sa.text("DELETE FROM region"))
        self.run_command("migrate", "copy", "--execute", "--prune", "--pace", "4", "--from",
                         f"keystone={self.source}")
        self.assertEqual(2 / 4, sum(pauses))
        for pace in ("0", "-1", "fast"):
            self.run_command("migrate", "copy", "--pace", pace, "--from",
                             f"keystone={self.source}", code=2)

    def test_what_is_remembered_already_takes_no_time(self) -> None:
        copy = ("migrate", "copy", "--execute", "--pace", "4", "--from",
                f"keystone={self.source}")
        pauses = self.record_pauses()
        self.run_command(*copy)
        for statements, records in (
                (["DELETE FROM copied_records WHERE record_id = 'south'"], 1),
                # What is changed is remembered by that.
                (["DELETE FROM copied_records",
                  "UPDATE catalog_regions SET description = 'here' WHERE id = 'south'"], 2)):
            for statement in statements:
                self.execute(statement)
            pauses.clear()
            self.run_command(*copy)
            self.assertEqual(records / 4, sum(pauses))
