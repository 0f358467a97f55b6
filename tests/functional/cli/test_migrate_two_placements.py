"""Two Placements become one service."""

from __future__ import annotations

import json
from collections.abc import Callable

import sqlalchemy as sa

from tests.functional.cli.test_migrate_placement import (
    CHILD,
    HOST,
    OLD_CLIENT,
    SERVER,
    VOLUME,
    MigrationTestCase,
    connect,
    view,
)


class TestTwoPlacements(MigrationTestCase):
    """Two Placements become one service, each with its own providers and consumers."""

    def setUp(self) -> None:
        super().setUp()
        self.other = self.make_source()
        self.rename: Callable[[str], str] = lambda uuid: f"f{uuid[1:]}"
        self.change(
            "UPDATE resource_providers SET uuid = 'f' || substr(uuid, 2), name = 'b ' || name",
            "UPDATE consumers SET uuid = 'f' || substr(uuid, 2)",
            "UPDATE allocations SET consumer_id = 'f' || substr(consumer_id, 2)",
            url=self.other)
        self.two = ("--from", f"placement@b={self.other}")

    def test_copy(self) -> None:
        expected = self.migrate("check", *self.two)
        self.assertEqual({"create": 14, "equal": 2}, self.count(expected))
        self.assertEqual(expected, self.migrate("copy", "--execute", *self.two))
        self.assertEqual([], self.migrate("diff", *self.two))
        self.assert_audited()
        self.assertEqual([], self.migrate("diff"), "what is of the other one is not extra")
        with connect(self.connection) as connection:
            origins = {row.source for row in connection.execute(
                sa.text("SELECT source FROM copied_records"))}
        self.assertEqual(2, len(origins))
        self.assertIn("placement@b", origins)

    def test_what_is_gone_from_one_of_them(self) -> None:
        self.migrate("copy", "--execute", *self.two)
        self.change("DELETE FROM allocations", "DELETE FROM consumers",
                    "DELETE FROM inventories",
                    "DELETE FROM resource_classes WHERE name = 'CUSTOM_GOLD'")
        done = self.copy("--prune")
        self.assertEqual({"CUSTOM_GOLD", SERVER, VOLUME, OLD_CLIENT},
                         {id_ for id_, row in done.items() if row["outcome"] == "pruned"})
        self.assertEqual([], self.migrate("diff", *self.two))
        self.assertEqual(3, len(view(self.connection)["consumers"]))
        self.assert_audited()

    def test_a_provider_of_both(self) -> None:
        self.change(f"UPDATE resource_providers SET uuid = '{HOST}' WHERE name = 'b host'",
                    url=self.other)
        outcomes = []
        for command in (("check",), ("copy", "--execute")):
            outcomes.append({row["id"]: row["details"] for row in self.migrate(
                *command, *self.two, code=2) if row["outcome"] == "refused"})
        self.assertEqual(outcomes[0], outcomes[1])
        refused = outcomes[0]
        self.assertEqual(
            {HOST, *map(self.rename, (CHILD, SERVER, OLD_CLIENT))}, refused.keys())
        self.assertRegex(refused.pop(HOST),
                         "^it was copied from placement@.*, and is never merged$")
        self.assertEqual(f"its parent {HOST} is refused", refused.pop(self.rename(CHILD)))
        for details in refused.values():
            self.assertRegex(details, "^its resource provider .* is refused$")
        self.assertEqual([], self.migrate("diff"), "the first is as it was")

    def test_a_consumer_of_both(self) -> None:
        self.change(
            f"UPDATE consumers SET uuid = '{VOLUME}' WHERE uuid = '{self.rename(VOLUME)}'",
            f"UPDATE allocations SET consumer_id = '{VOLUME}' "
            f"WHERE consumer_id = '{self.rename(VOLUME)}'", url=self.other)
        refused = [row for row in self.migrate("copy", "--execute", *self.two, code=2)
                   if row["outcome"] == "refused"]
        self.assertEqual([("consumer", VOLUME)], [(row["kind"], row["id"]) for row in refused])
        self.assertIn("is never merged", refused[0]["details"])
        self.assert_audited()

    def test_a_name_of_both(self) -> None:
        self.change("UPDATE resource_providers SET name = 'host' WHERE name = 'b host'",
                    url=self.other)
        for command in (("check",), ("copy", "--execute")):
            refused = {row["id"]: row["details"] for row in self.migrate(
                *command, *self.two, code=2) if row["outcome"] == "refused"}
            self.assertEqual(f"{HOST} is here already, with the same host",
                             refused[self.rename(HOST)])

    def test_two_that_could_not_be_told_apart(self) -> None:
        """Each would prune what came from the other."""
        for command in (("check",), ("copy", "--execute", "--prune"), ("diff",)):
            self.run_command("migrate", *command, "--from", f"placement@a={self.source}",
                             "--from", f"placement@a={self.other}", code=255)
            self.assertEqual(
                "placement@a is given twice: what is copied from one of them could not be told "
                "from what is copied from the other; give each a label of its own: "
                "SERVICE@LABEL=URL\n", self.stderr)

    def run_with(self, url: str, *command: str, code: int = 0) -> list[dict]:
        """Run a command with a Placement of a label."""
        return json.loads(self.run_command(
            "migrate", *command, "--from", f"placement@a={url}", "-f", "json", code=code))

    def test_another_one_with_its_label(self) -> None:
        """What it lacks is deleted only if somebody has looked at that."""
        self.run_with(self.source, "copy", "--execute")
        self.assertEqual([], self.run_with(self.source, "diff"))
        for execute in ((), ("--execute",)):
            self.run_command("migrate", "copy", "--prune", *execute, "--from",
                             f"placement@a={self.other}", code=255)
            self.assertEqual(
                f"placement@a: ours was compared last with {self.source}, and --prune would "
                f"delete what {self.other} lacks. If that is the same service in another place, "
                "run \"migrate diff\" with it first.\n", self.stderr)
        self.assertEqual(3, len(view(self.connection)["consumers"]))
        self.assertEqual({"equal": 8}, self.count(self.run_with(
            self.source, "copy", "--execute", "--prune")))
        self.run_with(self.other, "diff", code=1)
        self.assertEqual(6, self.count(self.run_with(
            self.other, "copy", "--prune", code=1))["gone"])

    def test_a_label_that_is_too_long(self) -> None:
        self.run_command("migrate", "check", "--from", f"placement@{'x' * 21}={self.other}",
                         code=2)
        self.assertIn("a label of 1 to 20 characters", self.stderr)
