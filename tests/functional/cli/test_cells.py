"""``placement-core cells …`` and ``instances …``: what they print and how they exit."""

from __future__ import annotations

import io
import json
import pathlib
from typing import Any
from unittest import mock

import fixtures

from placement_core.cells import schema
from tests import nova_databases
from tests.functional.cli import commands, test_commands

_SECRET = "correct-horse"
_URL = f"mysql+pymysql://nova:{_SECRET}@127.0.0.1:1/cell?charset=utf8"
_SHOWN = "mysql+pymysql://nova:***@127.0.0.1:1/cell?charset=utf8"


class TestCellsCommands(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def file(self, name: str) -> str:
        return f"sqlite:///{self.folder}/{name}.sqlite"

    def cells(self, *arguments: str, code: int = 0) -> Any:
        """Run a command that prints something; return it."""
        done = commands.run("cells", *arguments, "-f", "json", connection=self.connection,
                            OS_CELLS__TIMEOUT_SECONDS="2")
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        self.assertNotIn(_SECRET, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def refused(self, *arguments: str) -> str:
        """Run a command that must fail with one line; return the line."""
        self.run_command(*arguments, code=1)
        self.assertEqual(1, self.stderr.count("\n"), self.stderr)
        self.assertNotIn(_SECRET, self.stderr)
        return self.stderr.strip()

    def test_add_list_set_remove(self) -> None:
        made = self.cells("add", "north", "--database", _URL, "--transport-url",
                          f"rabbit://u:{_SECRET}@h:1/")
        self.assertEqual({
            "name": "north", "uuid": made["uuid"], "database_connection": _SHOWN,
            "transport_url": "rabbit://u:***@h:1/", "disabled": False}, made)
        self.assertEqual([made], self.cells("list"))
        self.assertTrue(self.cells("disable", "north")["disabled"])
        self.assertFalse(self.cells("enable", made["uuid"])["disabled"])
        changed = self.cells("set", "north", "--name", "south", "--database", self.file("s"))
        self.assertEqual(("south", self.file("s")), (
            changed["name"], changed["database_connection"]))
        self.assertEqual("rabbit://u:***@h:1/", changed["transport_url"])
        self.run_command("cells", "remove", "south")
        self.assertEqual([], self.cells("list"))

    def test_a_url_from_standard_input(self) -> None:
        with mock.patch("sys.stdin", io.StringIO(f"{_URL}\n")):
            made = self.cells("add", "north", "--database", "-", "--disable", "--uuid",
                              "00000000000000000000000000000007")
        self.assertEqual((_SHOWN, True, "00000000-0000-0000-0000-000000000007"), (
            made["database_connection"], made["disabled"], made["uuid"]))

    def test_refused(self) -> None:
        self.cells("add", "north", "--database", _URL)
        for arguments, said in (
            (("cells", "add", "north", "--database", "mysql://h/d"), "has that name already"),
            (("cells", "add", "south", "--database", _URL), "database_connection already"),
            (("cells", "add", "south", "--database", f"x://u:{_SECRET}@h"), "expected one of"),
            (("cells", "remove", "south"), "no cell of uuid or name south"),
            (("cells", "check", "south"), "no cell of uuid or name south"),
            (("cells", "sync"), "name cells, or say --all"),
            (("cells", "sync", "north", "--all"), "name cells, or say --all"),
            (("instances", "list", "--cell", "south"), "no cell of uuid or name south"),
            (("instances", "list", "--limit", "0"), "from 1 on"),
            (("instances", "purge", "--days", "0"), "from 1 to 36500"),
        ):
            self.assertIn(said, self.refused(*arguments))

    def test_sync_and_check(self) -> None:
        self.cells("add", "down", "--database", _URL)
        self.cells("add", "here", "--database", self.file("here"))
        self.cells("add", "nova", "--database", nova_databases.cell("sqlite"))
        self.assertEqual([False, False, True], [
            each["answers"] for each in self.cells("check", code=1)])
        (here,) = self.cells("sync", "here")
        self.assertEqual((list(schema.TABLES), None), (here["made"], here["reason"]))
        found = self.cells("sync", "--all", code=1)
        self.assertEqual([[], [], []], [each["made"] for each in found])
        self.assertEqual([False, True, True], [each["reason"] is None for each in found])
        down, here, nova = self.cells("check", code=1)
        self.assertEqual((False, None, "its database does not answer"), (
            down["answers"], down["tables"], down["reason"]))
        for each in (here, nova):
            self.assertEqual((True, list(schema.TABLES), [], None), (
                each["answers"], each["tables"], each["missing_tables"], each["reason"]))
            self.assertLess(each["seconds"], 2)
        self.assertEqual(["here"], [each["name"] for each in self.cells("check", "here")])

    def test_instances(self) -> None:
        self.cells("add", "here", "--database", self.file("here"))
        for number in (1, 2):
            self.execute(
                "INSERT INTO instance_mappings (instance_uuid, cell_id, project_id, user_id, "
                f"queued_for_delete) VALUES ('{number}', 1, 'demo', 'alice', {number - 1})")
        for arguments, found in (
            ((), "12"), (("--deleted",), "2"), (("--not-deleted",), "1"), (("--limit", "1"), "1"),
            (("--project", "other"), ""), (("--user", "alice", "--cell", "here"), "12"),
        ):
            listed = json.loads(self.run_command("instances", "list", *arguments, "-f", "json"))
            self.assertEqual(found, "".join(each["uuid"] for each in listed))
        self.execute("UPDATE instance_mappings SET updated_at = '2020-01-01 00:00:00.000000'")
        self.assertEqual("1 instances removed\n",
                         self.run_command("instances", "purge", "--days", "1"))
        listed = json.loads(self.run_command("instances", "list", "-f", "json"))
        self.assertEqual(["1"], [each["uuid"] for each in listed])
