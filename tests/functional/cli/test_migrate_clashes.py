"""Limits that do not fit into their trees: the check says what the copy would find."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import fixtures

from placement_core.takeover.keystone import ROOT_ID
from tests import keystone_database
from tests.functional.cli import test_commands

_STRICT = {"OS_LIMITS__ENFORCEMENT_MODEL": "strict_two_level"}


def _make_project(id_: str, parent: str | None) -> dict[str, Any]:
    return {"id": id_, "name": id_, "domain_id": ROOT_ID if parent is None else "d",
            "parent_id": parent, "is_domain": parent is None, "description": "", "enabled": True}


class TestClashes(test_commands.CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def make(self, limits: dict[str, int], default: int = 100) -> None:
        """Make a Keystone with domain d, p and q below it, and r below p; with some limits."""
        path = self.folder / "keystone.sqlite"
        path.unlink(missing_ok=True)
        self.source = keystone_database.make(path, {
            "service": [{"id": "s", "type": "compute", "enabled": True, "extra": "{}"}],
            "project": [_make_project(id_, parent) for id_, parent in (
                ("d", None), ("p", "d"), ("q", "d"), ("r", "p"))],
            "registered_limit": [
                {"internal_id": 1, "id": "registered", "service_id": "s", "region_id": None,
                 "resource_name": "servers", "default_limit": default, "description": None}],
            "limit": [
                {"internal_id": number, "id": f"of-{node}",
                 "project_id": None if node == "d" else node,
                 "domain_id": node if node == "d" else None, "resource_limit": value,
                 "description": None, "registered_limit_id": "registered"}
                for number, (node, value) in enumerate(limits.items())]})

    def migrate(self, *command: str, code: int, **options: str) -> dict[str, tuple[str, str]]:
        return {row["id"]: (row["outcome"], row["details"]) for row in json.loads(
            self.run_command("migrate", *command, "--from", f"keystone={self.source}", "-f",
                             "json", code=code, **options)) if row["kind"] == "limit"}

    def compare(self, code: int, **options: str) -> dict[str, str]:
        """Return what becomes of each limit, which check and copy agree on."""
        expected = self.migrate("check", code=code, **options)
        self.assertEqual(expected, self.migrate("copy", "--execute", code=code, **options))
        for outcome, details in expected.values():
            self.assertEqual(outcome == "refused", "hierarchy model" in details, details)
        return {id_: outcome for id_, (outcome, _) in expected.items()}

    def test_above_the_limit_of_a_parent(self) -> None:
        self.make({"d": 10, "p": 5, "r": 7, "q": 10})
        self.assertEqual(
            {"of-d": "create", "of-p": "create", "of-r": "refused", "of-q": "create"},
            self.compare(2, **_STRICT))

    def test_the_one_that_comes_first_is_kept(self) -> None:
        self.make({"r": 7, "p": 5, "d": 10})
        self.assertEqual({"of-d": "create", "of-p": "refused", "of-r": "create"},
                         self.compare(2, **_STRICT))

    def test_above_the_default(self) -> None:
        self.make({"p": 5, "q": 3}, default=4)
        self.assertEqual({"of-p": "refused", "of-q": "create"}, self.compare(2, **_STRICT))

    def test_another_model(self) -> None:
        self.make({"d": 1, "p": 5, "r": 7}, default=0)
        self.assertEqual(dict.fromkeys(("of-d", "of-p", "of-r"), "create"), self.compare(0))

    def test_a_limit_that_is_changed(self) -> None:
        """Beside those that are here."""
        self.make({"d": 10, "p": 5, "r": 5})
        self.compare(0, **_STRICT)
        self.make({"d": 10, "p": 4, "r": 5})
        self.assertEqual({"of-d": "equal", "of-p": "refused", "of-r": "equal"},
                         self.compare(2, **_STRICT))
        self.make({"d": 10, "p": 4, "r": 3})
        self.assertEqual("update", self.migrate("check", code=0, **_STRICT)["of-p"][0])
