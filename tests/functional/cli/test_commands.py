"""The commands: what they print and how they exit."""

from __future__ import annotations

import json
import pathlib

import fixtures
import sqlalchemy as sa

from placement_core.migrations import revisions
from tests import base, databases
from tests.functional.cli import commands
from tests.functional.migrations import bare


class CommandTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.connection = bare.database("sqlite", self.addCleanup)

    def run_command(self, *arguments: str, code: int = 0, **more: str) -> str:
        """Run a command that must exit with ``code``; return what it printed."""
        done = commands.run(*arguments, connection=self.connection, **more)
        self.assertEqual((code, ""), (done.returncode, done.stderr if code == 0 else ""),
                         done.stdout + done.stderr)
        self.stderr = done.stderr
        return done.stdout

    def sync(self) -> None:
        """Do as ``db sync``, in less time: take a copy of a database that has its tables."""
        self.connection = databases.settings("sqlite").connection

    def execute(self, statement: str) -> None:
        with sa.create_engine(self.connection, poolclass=sa.NullPool).begin() as connection:
            connection.execute(sa.text(statement))


class TestDatabaseCommands(CommandTestCase):
    def test_sync_and_version(self) -> None:
        self.assertEqual("", self.run_command("db", "version"))
        self.assertEqual(f"the schema is at {revisions.head()}\n", self.run_command("db", "sync"))
        self.assertEqual(f"{revisions.head()}\n", self.run_command("db", "version"))

    def test_version_for_programs(self) -> None:
        for revision in (None, revisions.head()):
            self.assertEqual(
                {"revision": revision, "newest": revisions.head()},
                json.loads(self.run_command("db", "version", "-f", "json")))
            self.run_command("db", "sync")

    def test_as_a_process(self) -> None:
        done = commands.run_process("db", "sync", connection=self.connection)
        self.assertEqual((0, f"the schema is at {revisions.head()}\n", ""),
                         (done.returncode, done.stdout, done.stderr))
        done = commands.run_process("db", "version", connection="nonsense")
        self.assertEqual((1, "", 1),
                         (done.returncode, done.stdout, done.stderr.count("\n")))

    def test_before_sync(self) -> None:
        for command in (("db", "audit"), ("db", "online-data-migrations"),
                        ("explain", "candidates", "resources=VCPU:1")):
            self.run_command(*command, code=1)
            self.assertEqual(
                "the database's schema is at revision none, expected "
                f"{revisions.head()}: run `placement-core db sync`\n", self.stderr)

    def test_audit_finds_and_repairs(self) -> None:
        self.run_command("db", "sync")
        self.execute("INSERT INTO resource_providers (id, uuid, name, generation, "
                     "root_provider_id) VALUES (1, 'u1', 'host', 0, 1)")
        self.execute("INSERT INTO inventories (resource_provider_id, resource_class_id, total, "
                     "reserved, min_unit, max_unit, step_size, allocation_ratio, used, capacity) "
                     "VALUES (1, 0, 8, 0, 1, 8, 1, 2.0, 5, 16)")
        found = json.loads(self.run_command("db", "audit", "-f", "json", code=1))
        self.assertEqual([("used", 5, 0, False)],
                         [(row["what"], row["stored"], row["actual"], row["repaired"])
                          for row in found])
        found = json.loads(self.run_command("db", "audit", "--repair", "-f", "json"))
        self.assertEqual([True], [row["repaired"] for row in found])
        self.assertEqual([], json.loads(self.run_command("db", "audit", "-f", "json")))

    def test_online_data_migrations(self) -> None:
        self.run_command("db", "sync")
        for number in range(3):
            self.execute("INSERT INTO allocations (resource_provider_id, consumer_id, "
                         f"resource_class_id, used, txn) VALUES (1, 'consumer-{number}', 0, 1, 0)")
        printed = self.run_command("db", "online_data_migrations", "--max-count", "2", code=1)
        self.assertIn("| create_incomplete_consumers |      3      |     2     |", printed)
        printed = self.run_command("db", "online-data-migrations")
        self.assertIn("Running batches of 50 until complete", printed)
        self.assertIn("1 rows matched query create_incomplete_consumers, 1 migrated", printed)
        for bad in ("0", "-1", "many"):
            printed = self.run_command("db", "online-data-migrations", f"--max-count={bad}",
                                       code=127)
            self.assertEqual("Must supply a positive value for max_count\n", printed)

    def test_release_asks_first(self) -> None:
        self.run_command("db", "sync")
        self.run_command("db", "release", code=1)
        self.assertIn("repeat with --yes", self.stderr)
        self.assertIn("released", self.run_command("db", "release", "--yes"))
        self.run_command("db", "release", "--yes", code=1)


class TestExplain(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.sync()
        self.execute("INSERT INTO resource_providers (id, uuid, name, generation, "
                     "root_provider_id) VALUES (1, 'u1', 'host-17', 0, 1)")
        self.execute("INSERT INTO inventories (resource_provider_id, resource_class_id, total, "
                     "reserved, min_unit, max_unit, step_size, allocation_ratio, used, capacity) "
                     "VALUES (1, 0, 48, 0, 1, 48, 1, 1.0, 0, 48)")

    def explain(self, query: str, *options: str, code: int = 0) -> str:
        return self.run_command("explain", "candidates", query, *options, code=code)

    def test_as_a_table(self) -> None:
        printed = self.explain("resources=VCPU:64&resources_A=VCPU:1")
        for text in ("group without suffix: no host has 64 free VCPU; the most is 48, on host-17",
                     "  0 left by resources=VCPU:64 ", "group _A ",
                     "  1 left by resources=VCPU:1 ", "1 in all", "  0 left by group=_A ",
                     "0 examined"):
            self.assertIn(text, printed)
        printed = self.explain("resources_A=VCPU:1&resources_B=VCPU:1&group_policy=isolate")
        for text in ("group_policy=isolate forbids that", "1 examined", "  1 dropped by isolate "):
            self.assertIn(text, printed)

    def test_as_json(self) -> None:
        """The document of the HTTP API."""
        found = json.loads(self.explain("resources=VCPU:64", "-f", "json"))
        self.assertEqual("no host has 64 free VCPU; the most is 48, on host-17", found["reason"])
        self.assertEqual(
            [{"group": "", "filters": [{"filter": "resources", "value": "VCPU:64", "left": 0}]}],
            found["groups"])
        self.assertEqual(
            ["candidates", "cut", "limit", "reason", "providers", "groups", "trees",
             "combinations"],
            list(found))

    def test_refusals(self) -> None:
        for query, said in (
            ("resource=VCPU:1", "'resource' is not a parameter of allocation candidates"),
            ("resources=NOPE:1", "No such resource class NOPE"),
            ("resources=VCPU:%ff", "not UTF-8"), ("resources=VCPU:\udcff", "not UTF-8"),
            ("", "There must be at least one resources"),
        ):
            self.explain(query, code=1)
            self.assertIn(said, self.stderr)
            self.assertEqual(1, self.stderr.count("\n"), self.stderr)

    def test_options_that_bound(self) -> None:
        printed = self.run_command("explain", "candidates", "resources=VCPU:1", "-f", "json",
                                   OS_PLACEMENT__MAX_ALLOCATION_CANDIDATES="1")
        self.assertEqual(1, json.loads(printed)["limit"])


class TestOtherCommands(CommandTestCase):
    def test_errors_are_one_line(self) -> None:
        folder = self.useFixture(fixtures.TempDir()).path
        for arguments, said in (
            (("db", "version", "--config-file", f"{folder}/no.conf"), "no.conf"),
            (("--config-file", f"{folder}/no.conf", "db", "version"), "no.conf"),
        ):
            self.run_command(*arguments, code=1)
            self.assertIn(said, self.stderr)
            self.assertEqual(1, self.stderr.count("\n"), self.stderr)
        for url, said in (
            ("nonsense", "[placement_database] connection: expected a database URL"),
            ("postgresql://u:secret@127.0.0.1:1/none", "onnection"),
            ("sqlite:////nonexistent/x.sqlite", "unable to open database file"),
        ):
            self.connection = url
            self.run_command("db", "sync", code=1)
            self.assertIn(said, self.stderr)
            self.assertEqual(1, self.stderr.count("\n"), self.stderr)
            self.assertNotIn("secret", self.stderr)

    def test_config_file_and_directory(self) -> None:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (folder / "one.conf").write_text(
            f"[placement_database]\nconnection = {self.connection}\n")
        (folder / "wrong.conf").write_text("[placement_database]\nconnection = nonsense\n")
        self.connection = None
        self.run_command("--config-file", str(folder / "one.conf"), "db", "sync")
        printed = self.run_command("db", "version", "--config-file", str(folder / "one.conf"))
        self.assertEqual(f"{revisions.head()}\n", printed)
        self.run_command("db", "version", "--config-dir", str(folder), code=1)

    def test_a_terminal_obeys_no_client(self) -> None:
        self.sync()
        self.run_command("catalog", "region", "add", "one\x1b[2J\x9b1A\rtwo")
        listed = ("catalog", "region", "list", "-f", "value", "-c", "ID")
        self.assertEqual("one\x1b[2J\x9b1A\rtwo\n", self.run_command(*listed))
        done = commands.run(*listed, connection=self.connection, terminal=True)
        self.assertEqual(r"one\x1b[2J\x9b1A\rtwo" + "\n", done.stdout)

    def test_help_names_the_commands(self) -> None:
        printed = self.run_command()
        for name in ("serve", "db sync", "db audit", "status upgrade check",
                     "explain candidates", "plugins list", "config sample", "policy sample"):
            self.assertIn(f"  {name} ", printed)
        self.run_command("db", "bogus", code=2)

    def test_plugins_list(self) -> None:
        self.assertIsInstance(json.loads(self.run_command("plugins", "list", "-f", "json")), list)


class TestUpgradeCheck(CommandTestCase):
    def check(self, code: int) -> str:
        return " ".join(self.run_command("status", "upgrade", "check", code=code)
                        .replace("|", " ").split())

    def test_ready(self) -> None:
        self.sync()
        self.assertNotIn("Failure", self.check(0))

    def test_usage_that_is_not_summed_up(self) -> None:
        self.sync()
        self.execute("UPDATE online_migrations SET finished = 0")
        self.assertIn("is not summed up yet", self.check(1))
        self.run_command("db", "online-data-migrations")
        self.assertNotIn("is not summed up yet", self.check(0))

    def test_fullness_that_is_not_kept(self) -> None:
        self.sync()
        self.execute("UPDATE online_migrations SET finished = 0 WHERE name = 'limit_fullness'")
        self.assertIn("How full limits are is not kept yet", self.check(1))
        self.run_command("db", "online-data-migrations")
        self.assertNotIn("is not kept yet", self.check(0))

    def test_slots_that_are_not_protected(self) -> None:
        self.sync()
        self.execute("INSERT INTO resource_providers (id, uuid, name, generation, "
                     "root_provider_id, parent_provider_id) VALUES "
                     "(1, 'u1', 'host', 0, 1, NULL), (2, 'u2', 'reservation_host', 0, 1, 1)")
        self.execute("INSERT INTO computehosts (name, provider_id, provider_uuid, "
                     "reservation_provider_id, vcpus, memory_mb, disk_gb, reservable, promised) "
                     "VALUES ('host', 1, 'u1', 2, 4, 4, 4, 1, 0)")
        self.assertIn("the providers for slots of 1 hosts", self.check(1))
        self.run_command("db", "online-data-migrations")
        self.assertNotIn("providers for slots", self.check(0))

    def test_no_schema(self) -> None:
        self.assertIn("Check: Database Schema Result: Failure", self.check(2))

    def test_warning(self) -> None:
        self.sync()
        self.execute("INSERT INTO allocations (resource_provider_id, consumer_id, "
                     "resource_class_id, used, txn) VALUES (1, 'consumer', 0, 1, 0)")
        self.execute("INSERT INTO inventories (resource_provider_id, resource_class_id, total, "
                     "reserved, min_unit, max_unit, step_size, allocation_ratio, used, capacity) "
                     "VALUES (1, 0, 8, 0, 1, 8, 1, 1.0, 1, 8)")
        self.execute("INSERT INTO resource_providers (id, uuid, name, generation, "
                     "root_provider_id) VALUES (1, 'u1', 'host', 0, 1)")
        self.assertIn("1 consumers hold allocations without a consumer record", self.check(1))

    def test_failures(self) -> None:
        self.sync()
        self.execute("INSERT INTO resource_providers (id, uuid, name, generation) "
                     "VALUES (1, 'u1', 'host', 0)")
        self.assertIn("1 resource providers have no root provider id", self.check(2))

    def test_for_programs(self) -> None:
        """The same checks, results and exit code."""
        def results(code: int) -> dict[str, str]:
            return {row["check"]: row["result"] for row in json.loads(
                self.run_command("status", "upgrade", "check", "-f", "json", code=code))}

        self.assertEqual("failure", results(2)["Database Schema"])
        self.sync()
        self.assertEqual({"success"}, set(results(0).values()))
        self.assertEqual(self.check(0).count("Result: "), len(results(0)))

    def test_policy_in_json(self) -> None:
        self.sync()
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "policy.json")
        path.write_text('{"placement:usages": "@"}')
        done = commands.run("status", "upgrade", "check", connection=self.connection,
                            OS_OSLO_POLICY__POLICY_FILE=str(path))
        self.assertEqual(2, done.returncode)
        self.assertIn("JSON-formatted", done.stdout)

    def test_cannot_be_checked(self) -> None:
        self.connection = "sqlite:////nonexistent/x.sqlite"
        self.run_command("status", "upgrade", "check", code=255)
        self.assertEqual(1, self.stderr.count("\n"), self.stderr)
